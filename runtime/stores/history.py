"""Which history of the database this process, and the ephemeral store, are of.

A database that is restored, to a point in time or from a backup, goes on from before what has been seen of it, and so
does a standby that had not all when it was promoted. What processes remember and what the ephemeral store holds is of
the other history then: answers of plays that never were, places in rankings, sessions that were played. Numbers are
given out again, so that nothing tells a memory from the truth. So both are forgotten as soon as it is seen: the
memory by each new connection (`Database.on_other_history`), the store by `follow`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import asyncpg
import structlog
from redis.exceptions import RedisError

import sql
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown

QUERY: Final = sql.load("history")["history"]

EVERY_SECONDS: Final = 2.0
"""How often the ephemeral store is held against the database."""

KEY: Final = "tombola:history"
"""Where the ephemeral store says which history it is of."""

_WITHHELD: Final = (
    asyncpg.FeatureNotSupportedError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
)
"""What a service that runs Postgres for others may answer: then nothing can be told."""

log = structlog.get_logger(__name__)


class History(NamedTuple):
    """A history, and how far it was written when it was looked at, in bytes."""

    name: str
    written: int

    def goes_on(self, before: History) -> bool:
        """Whether this, looked at after `before`, is the same one."""
        return self.name == before.name and self.written >= before.written

    def __str__(self) -> str:
        return f"{self.name}:{self.written}"

    @classmethod
    def parse(cls, text: str) -> History:
        """What `str` made; of what it did not make, a history that nothing goes on."""
        name, _, written = text.rpartition(":")
        return cls(name, int(written)) if written.isdecimal() else cls("", 0)


class CanFetch(Protocol):
    """A database, or a connection to it."""

    async def fetchrow(self, query: str, *args: Any) -> Any: ...


async def look(database: CanFetch) -> History | None:
    """The history as it is now; None of a standby, and where it is not to be known."""
    try:
        row = await database.fetchrow(QUERY)
    except _WITHHELD:
        return None
    return History(row["name"], row["written"]) if row is not None else None


async def follow(database: CanFetch, ephemeral: Ephemeral) -> None:
    """Empties the ephemeral store where what it holds is of another history than the database's.

    What had to last is in the database: keys, sessions and places are found there, rankings and caches are made
    anew, and events that were not handled yet are told again (faults.md, FLUSHALL). One that is away is held against
    the database once it is back.
    """
    try:
        known = await ephemeral.run("GET", KEY)  # First: whoever wrote it had seen less than is seen now.
        now = await look(database)
        if now is None:
            return
        if known is not None and not now.goes_on(History.parse(known.decode())):
            log.warning("ephemeral_store_emptied", now=str(now), before=known.decode())
            await ephemeral.flush()
        await ephemeral.run("SET", KEY, str(now))
    except EphemeralDown:
        pass
    except RedisError as error:
        log.error("ephemeral_store_not_compared", error=str(error))
