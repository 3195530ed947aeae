"""Receivers of one worker: limits the attempts in progress at each, and the tasks leased for it in advance.

Tasks are leased before their attempt, so that a fast receiver never waits for the database. For a receiver that hangs,
none are leased in advance: each lease without an attempt costs two wasted writes, and leasing and returning thousands
of tasks in turn would slow the plays' database. So:

    ahead   how many tasks may wait here for a slot: unlimited until one waits in vain; then zero; then one more
            for each attempt that ends within a task's waiting time
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.outgoing.connector import CONNECTIONS_PER_HOST

ATTEMPTS_MAX: Final = 512
"""Concurrent attempts of one worker."""

RECEIVER_MAX: Final = CONNECTIONS_PER_HOST
"""Concurrent attempts to one host: a slow host leaves room for others."""

PLACE_SECONDS: Final = 2.0
"""How long a task waits for a slot at its receiver before it is put back; a fast receiver has one at once."""

STUCK_SECONDS: Final = 0.5
"""A receiver without a free slot and without a finished attempt for this long gets no further tasks."""

PUT_BACK_SECONDS: Final = 2.0

KNOWN_MAX: Final = 4_096
"""Prizes and receivers tracked. Beyond it, receivers without tasks here are dropped, and prizes whose receivers keep up
(unlimited leases).
"""


class Receiver:
    """A receiver. tasks: tasks leased here, waiting or in progress."""

    __slots__ = ("_ahead", "_bulkhead", "tasks")

    def __init__(self) -> None:
        self.tasks = 0
        self._ahead = ATTEMPTS_MAX
        self._bulkhead = Bulkhead(
            places=RECEIVER_MAX,
            wait_seconds=PLACE_SECONDS,
            stuck_seconds=STUCK_SECONDS,
            shut_seconds=PUT_BACK_SECONDS,
        )

    @property
    def room(self) -> int | None:
        """How many more tasks may be leased for it. None: unlimited, because it keeps up."""
        return None if self._ahead >= ATTEMPTS_MAX else max(0, RECEIVER_MAX + self._ahead - self.tasks)

    async def enter(self) -> bool:
        """Takes a slot for an attempt; release it with `leave`. False: no slot."""
        entered = await self._bulkhead.enter() is Entry.ENTERED
        if not entered:
            self._ahead = 0
        return entered

    def leave(self, seconds: float) -> None:
        """Releases the slot after an attempt of this duration."""
        self._bulkhead.leave()
        if seconds < PLACE_SECONDS and self._ahead < ATTEMPTS_MAX:
            self._ahead += 1


class Receivers:
    """The receivers of one worker, and each prize's receiver as of its last lease."""

    def __init__(self) -> None:
        self._by_name: dict[str, Receiver] = {}
        self._by_prize: dict[str, dict[str, Receiver]] = {}

    def of(self, tenant_id: str, row: Mapping[str, Any]) -> Receiver:
        """The receiver of a leased task (columns prize_id, channel, channel_config), created for any config."""
        name = _host(row["channel_config"]) or f"{tenant_id} {row['channel']}"
        prizes = self._by_prize.setdefault(tenant_id, {})
        if name not in self._by_name or row["prize_id"] not in prizes:
            self._forget_idle()
            prizes = self._by_prize.setdefault(tenant_id, {})
        receiver = self._by_name.setdefault(name, Receiver())
        prizes[row["prize_id"]] = receiver
        return receiver

    def rooms(self, tenant_id: str) -> dict[str, int]:
        """The tenant's prizes with a limit on further leases, and the limits."""
        prizes = self._by_prize.get(tenant_id, {})
        return {prize_id: room for prize_id, receiver in prizes.items() if (room := receiver.room) is not None}

    def _forget_idle(self) -> None:
        if len(self._by_name) < KNOWN_MAX and sum(map(len, self._by_prize.values())) < KNOWN_MAX:
            return
        self._by_name = {name: one for name, one in self._by_name.items() if one.tasks}
        for tenant_id, prizes in list(self._by_prize.items()):
            if slow := {prize_id: one for prize_id, one in prizes.items() if one.room is not None}:
                self._by_prize[tenant_id] = slow
            else:
                del self._by_prize[tenant_id]


def _host(config: Any) -> str:
    """The host in a channel's config; the whole text if a plugin's is not a URL; "" if there is none."""
    url = str(config.get("url", "")) if isinstance(config, Mapping) else ""
    try:
        return urlsplit(url).netloc or url
    except ValueError:
        return url
