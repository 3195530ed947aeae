"""A read replica of a database: a streaming standby that serves reports.

`Database.read` sends exports, figures, history and ledger lists here, so that they take neither CPU nor connections
from plays. Nothing that decides, claims or changes anything reads it: a standby is behind, if only by milliseconds.

The lag is measured by WAL positions: the replica is as old as the newest position of the primary that it has replayed.
A replica's own clock and `pg_last_xact_replay_timestamp()` would not show a receiver that lost its connection.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any, Final

import asyncpg
import structlog

import sql
from runtime.errors import Fault
from runtime.metrics import Counts
from runtime.stores.database import Database

LAG_SECONDS: Final = 5.0
"""A replica further behind serves nothing: staff who reload a report see their change within this time."""

EVERY_SECONDS: Final = 1.0
"""How often the lag is measured."""

POSITIONS: Final = 60
"""The positions that are kept while the replica is away: more than LAG_SECONDS needs."""

AWAY: Final = "away"
BEHIND: Final = "behind"
NO_STANDBY: Final = "no_standby"
"""It accepts writes: it was promoted, or DATABASE_READ_URL leads to a primary."""

OTHER: Final = "another_database"

WITHHELD: Final = "position_withheld"
"""The primary does not tell its position, so the lag is unknown."""

FALLBACKS: Final = Counts(
    "tombola_replica_fallbacks", "Reads that the primary served because the replica could not.", ["database", "reason"]
)

_POSITION: Final = sql.load("replica")["position"]

log = structlog.get_logger(__name__)


class Replica(Database):
    """The replica of `primary`. It is used from its first measurement on."""

    def __init__(self, primary: Database, url: str, **limits: Any) -> None:
        super().__init__(url, name=primary.name, **limits)
        self._primary = primary
        self.reason = AWAY
        """Why it is not used; "": it is."""
        self.lag_seconds = 0.0
        self._name = ""
        self._positions: deque[tuple[float, int]] = deque(maxlen=POSITIONS)
        """(time.monotonic(), WAL position of the primary), oldest first. Of those replayed, only the newest is kept."""

    async def measure(self) -> None:
        """Measures the lag, and decides whether the replica is used."""
        began = time.monotonic()
        try:
            primary: Any = await self._primary.fetchrow(_POSITION)
        except Fault:  # The primary is away: the lag is measured again once it answers.
            if not self.reason and time.monotonic() - self._positions[-1][0] > LAG_SECONDS:
                self._set(BEHIND)
            return
        except asyncpg.PostgresError as error:
            log.debug("replica_not_measured", database=self.name, error=str(error))
            self._set(WITHHELD)
            return
        if primary["name"] != self._name or (self._positions and primary["position"] < self._positions[-1][1]):
            self._name = primary["name"]  # Another history: positions before it say nothing.
            self._positions.clear()
        self._positions.append((began, primary["position"]))
        try:
            row: Any = await self.fetchrow(_POSITION)
        except (Fault, asyncpg.PostgresError):
            self._set(AWAY)
            return
        if row["name"] != self._name:
            self._set(OTHER)
        elif not row["is_standby"]:
            self._set(NO_STANDBY)
        else:
            self.lag_seconds = self._lag(row["position"])
            self._set(BEHIND if self.lag_seconds > LAG_SECONDS else "")

    def _lag(self, replayed: int) -> float:
        while len(self._positions) > 1 and self._positions[1][1] <= replayed:
            self._positions.popleft()
        at, written = self._positions[0]
        if written > replayed:
            return float("inf")  # Further behind than the first measurement.
        return self._positions[-1][0] - at

    def fail(self, error: BaseException) -> None:
        """A read failed: the replica is not used before the next measurement."""
        log.warning("replica_read_failed", database=self.name, error=str(error))
        self._set(AWAY)

    def count_fallback(self) -> None:
        """Counts a read that the primary serves instead."""
        FALLBACKS.add(self.name, self.reason)

    def _set(self, reason: str) -> None:
        if reason == self.reason:
            return
        self.reason = reason
        if reason:
            log.warning("replica_not_used", database=self.name, reason=reason, lag_seconds=self.lag_seconds)
        else:
            log.info("replica_used", database=self.name)
