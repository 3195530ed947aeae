"""The seed of generated data: fixed, or TOMBOLA_TEST_SEED (a number or `random`); a failed test names it."""

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
