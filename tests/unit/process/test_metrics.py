import subprocess
import sys

from prometheus_client import REGISTRY

from runtime.metrics import Counts, Histogram


def test_histogram_buckets_are_cumulative_and_include_their_bound() -> None:
    made = Histogram("test_times", "Times.", ["route"], bounds=(1, 2))
    try:
        series = made.series("a")
        for value in (0.5, 1, 1.5, 2, 3):
            series.observe(value)
        (family,) = made.collect()
        found = {(sample.name, sample.labels.get("le", "")): sample.value for sample in family.samples}
        buckets = {("test_times_bucket", end): count for end, count in (("1", 2), ("2", 4), ("+Inf", 5))}
        assert found == buckets | {("test_times_count", ""): 5, ("test_times_sum", ""): 8}
    finally:
        REGISTRY.unregister(made)


def test_counts_export_known_labels_before_the_first_event() -> None:
    made = Counts("test_refusals", "Refusals.", ["guard"], [("stock",)])
    try:
        made.add("turns")
        (family,) = made.collect()
        assert {sample.labels["guard"]: sample.value for sample in family.samples} == {"stock": 0, "turns": 1}
        assert {sample.name for sample in family.samples} == {"test_refusals_total"}
    finally:
        REGISTRY.unregister(made)


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
