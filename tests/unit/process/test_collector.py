"""The collector's settings spare what is there at the start, and still find what gets old and then is garbage."""

from __future__ import annotations

import subprocess
import sys

AGED = """
import gc, weakref
gc.disable()  # As the command does, until it is ready.
from runtime.app import _tune_collector

class Ring: pass

_tune_collector()
ring = Ring()
ring.itself = ring
for _ in range(2):
    gc.collect(1)  # It is of the oldest generation now.
gone = weakref.ref(ring)
del ring
live = [[] for _ in range(2_300_000)]
print(gone() is None)
"""


def test_old_cycle_goes_before_two_and_a_half_million_objects_have_come() -> None:
    result = subprocess.run([sys.executable, "-c", AGED], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
