"""The seed of what the tests make up: the same in each run, so that a change does not fail for what none tried before.

TOMBOLA_TEST_SEED names another one, or `random`; a test that fails says which it was.
"""

from __future__ import annotations

import os
import secrets
from typing import Final

from hypothesis import HealthCheck, settings

_TOLD: Final = os.environ.get("TOMBOLA_TEST_SEED", "1")

SEED: Final = secrets.randbits(32) if _TOLD == "random" else int(_TOLD)


def seed_hypothesis() -> None:
    """Has hypothesis do likewise; how long an example takes is a busy machine's matter, and no failure."""
    slow = [HealthCheck.too_slow]
    settings.register_profile("tests", derandomize=_TOLD != "random", deadline=None, suppress_health_check=slow)
    settings.load_profile("tests")
