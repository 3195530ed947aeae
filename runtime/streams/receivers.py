"""The receivers that one worker delivers to: how many attempts each has under way, and how many more it may be given.

A task is leased ahead of its attempt, so that a quick receiver never waits for the database. Of a receiver
that hangs nothing is leased ahead: each lease that comes to no attempt is written twice for nothing, and
thousands of tasks that are leased and put back in turn take the database from the plays. So:

    ahead   how many tasks may wait here for a place: all, until one waited in vain; then none; and one more
            with each attempt that ends as quickly as a task would wait
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.outgoing.connector import CONNECTIONS_PER_HOST

ATTEMPTS_MAX: Final = 512
"""Attempts under way in one worker."""

RECEIVER_MAX: Final = CONNECTIONS_PER_HOST
"""Of them to one host: a slow one leaves room for the others."""

PLACE_SECONDS: Final = 2.0
"""How long a task waits for a place at its receiver, which a quick one has at once, before it is put back."""

STUCK_SECONDS: Final = 0.5
"""A receiver that has no place and ended no attempt for so long gets no more tasks to wait for it."""

PUT_BACK_SECONDS: Final = 2.0

KNOWN_MAX: Final = 4_096
"""Prizes, and receivers, that are remembered; beyond it prizes of receivers that keep up, of which any number may be
leased, and receivers without a task here are forgotten.
"""


class Receiver:
    """One of them. tasks: how many are leased here, waiting or under way."""

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
        """How many more tasks may be leased for it. None: it keeps up, as many as there are."""
        return None if self._ahead >= ATTEMPTS_MAX else max(0, RECEIVER_MAX + self._ahead - self.tasks)

    async def enter(self) -> bool:
        """Takes a place for an attempt, which `leave` gives back. False: there is none."""
        entered = await self._bulkhead.enter() is Entry.ENTERED
        if not entered:
            self._ahead = 0
        return entered

    def leave(self, seconds: float) -> None:
        """Gives the place back, after an attempt that took so long."""
        self._bulkhead.leave()
        if seconds < PLACE_SECONDS and self._ahead < ATTEMPTS_MAX:
            self._ahead += 1


class Receivers:
    """Those of one worker, and which prizes go to which: by the prize's row as it was leased last."""

    def __init__(self) -> None:
        self._by_name: dict[str, Receiver] = {}
        self._by_prize: dict[str, dict[str, Receiver]] = {}

    def of(self, tenant_id: str, row: Mapping[str, Any]) -> Receiver:
        """The receiver of a leased task (columns prize_id, channel, channel_config); there is one, whatever a config
        holds.
        """
        name = _host(row["channel_config"]) or f"{tenant_id} {row['channel']}"
        prizes = self._by_prize.setdefault(tenant_id, {})
        if name not in self._by_name or row["prize_id"] not in prizes:
            self._forget_idle()
            prizes = self._by_prize.setdefault(tenant_id, {})
        receiver = self._by_name.setdefault(name, Receiver())
        prizes[row["prize_id"]] = receiver
        return receiver

    def rooms(self, tenant_id: str) -> dict[str, int]:
        """Prizes of the tenant that only so many more tasks may be leased of."""
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
    """The host that a channel's config names; the whole text where a plugin's is no URL, "" where it has none."""
    url = str(config.get("url", "")) if isinstance(config, Mapping) else ""
    try:
        return urlsplit(url).netloc or url
    except ValueError:
        return url
