"""Limits on the sending of login codes: a sender that hangs holds up only a few of the players who wait for a code.

Each tenant has PLACES. A sender that was slow to fail several times in a row gets no code for a while, except for
trials. A code that is turned away fails at once.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.senders import Answered, LoginCode, Sender, SendFailed

PLACES: Final = 64
"""Codes of a tenant that are being sent at a time."""

SLOW_SECONDS: Final = 5.0
"""A failure without an answer counts from here. A faster one delays no player. An answer counts as a success: it may be
of one contact, which a stranger chose.
"""

FAILURES_TO_OPEN: Final = 5
OPEN_SECONDS: Final = 30.0


class Sending:
    """The sending of one process."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._breakers: dict[str, CircuitBreaker] = {}

    async def send(self, sender: Sender, code: LoginCode, *, own: bool) -> None:
        """Sends the code. own: by the tenant's own sender, not the installation's. Raises SendFailed."""
        tenant_id = code.tenant_id
        breaker = self._breakers.get(name := tenant_id if own else "")
        if breaker is None:
            breaker = CircuitBreaker(failures_to_open=FAILURES_TO_OPEN, open_seconds=OPEN_SECONDS)
            self._breakers[name] = breaker
        if self._running[tenant_id] >= PLACES:
            raise SendFailed("too many codes of the tenant are being sent")
        began = time.monotonic()
        if not breaker.admits(began):
            raise SendFailed("the sender hung too often recently")
        self._running[tenant_id] += 1
        try:
            await sender.send(code)
        except SendFailed as error:
            ended = time.monotonic()
            is_answered = isinstance(error, Answered)
            if is_answered or ended - began >= SLOW_SECONDS:
                breaker.record(not is_answered, ended)
            raise
        else:
            breaker.record(False, time.monotonic())
        finally:
            self._running[tenant_id] -= 1
