"""Detects that the database was restored or failed over to an older state.

A database restored from a backup or to a point in time continues from an earlier state, and so does a standby promoted
before it had replicated everything. Process caches and the ephemeral store then describe another history: answers of
plays that never happened, rankings, used sessions. Sequence numbers are reused, so stale data cannot be recognised
later. Both are therefore cleared as soon as the change is detected: caches by each new connection
(`Database.on_other_history`), the ephemeral store by `follow`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

import asyncpg
import structlog
from redis.exceptions import RedisError

import sql
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown

QUERY: Final = sql.load("history")["history"]

EVERY_SECONDS: Final = 2.0
"""How often the ephemeral store is compared with the database."""

KEY: Final = "tombola:history"
"""The ephemeral store's key for its history."""

_WITHHELD: Final = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
)
"""Errors of managed Postgres services that withhold the history: the check is then skipped."""

log = structlog.get_logger(__name__)


class History(NamedTuple):
    """A history, and its write position in bytes when it was read."""

    name: str
    written: int

    def continues(self, before: History) -> bool:
        """Whether this, read after `before`, continues the same history."""
        return self.name == before.name and self.written >= before.written

    def __str__(self) -> str:
        return f"{self.name}:{self.written}"

    @classmethod
    def parse(cls, text: str) -> History:
        """Parses the result of `str`; other text gives a history that nothing continues."""
        name, _, written = text.rpartition(":")
        return cls(name, int(written)) if written.isdecimal() else cls("", 0)


class CanFetch(Protocol):
    """A database, or a connection to it."""

    async def fetchrow(self, query: str, *args: Any) -> Any: ...


async def read_history(database: CanFetch) -> History | None:
    """The current history; None on a standby, or if the server withholds it."""
    try:
        row = await database.fetchrow(QUERY)
    except _WITHHELD:
        return None
    return History(row["name"], row["written"]) if row is not None else None


async def follow(
    database: CanFetch, ephemeral: Ephemeral, *, name: str = "", lives_here: Callable[[str], bool] | None = None
) -> None:
    """Clears the ephemeral store if its data belongs to another history than the database's.

    With several databases each has a `name`, and only the keys of tenants that `lives_here` accepts are deleted.

    Durable data is in the database: keys, sessions and rankings are found there, caches are rebuilt, and the backfill
    emits unhandled events again. A store that is down is compared once it is back.
    """
    key = f"{KEY}:{name}" if name else KEY
    try:
        known = await ephemeral.run("GET", key)  # Read first: it must not be newer than `now`.
        now = await read_history(database)
        if now is None:
            return
        if known is not None and not now.continues(History.parse(known.decode())):
            log.warning("ephemeral_store_emptied", now=str(now), before=known.decode(), database=name)
            await (ephemeral.flush() if lives_here is None else ephemeral.delete_of(lives_here))
        await ephemeral.run("SET", key, str(now))
    except EphemeralDown:
        pass
    except RedisError as error:
        log.error("ephemeral_store_not_compared", error=str(error))
