import time
from types import SimpleNamespace
from typing import Final

from runtime.http.auth.tokens import Tokens

_NOW: Final = time.monotonic_ns()
STOPPED: Final = SimpleNamespace(monotonic_ns=lambda: _NOW)
"""In place of `time` in local_rates.py: nothing is refilled, however slow the machine is."""

_STARTED = time.time() - time.monotonic()


class SteadyTokens(Tokens):
    """The edges learn of a jump of the machine's clock within seconds; a token issued by it before is refused."""

    ahead_seconds = 0.0

    def now(self) -> float:
        return min(time.time(), _STARTED + time.monotonic()) + self.ahead_seconds
