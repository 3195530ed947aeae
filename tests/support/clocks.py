"""Tokens by a clock that does not jump with the machine's."""

import time

from runtime.http.auth.tokens import Tokens

_STARTED = time.time() - time.monotonic()


class SteadyTokens(Tokens):
    """The edges learn of a jump of the machine's clock within seconds; a token issued by it before is refused."""

    ahead_seconds = 0.0

    def now(self) -> float:
        return min(time.time(), _STARTED + time.monotonic()) + self.ahead_seconds
