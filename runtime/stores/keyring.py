"""Which keys this process signs and seals with: the first of its own that every process has that lives.

A key that is put in front of SERVER_KEYS or CODE_KEYS reaches the processes one by one, and what the first of them
made with it the others could not open. So each process says in the database what it has (`key_holders`), again
and again, and uses the first of its keys that all of them have: a new one is known everywhere before it is used
anywhere. Who comes without a key that others use does not start (`KeyMissing`). A process ends by saying so, or by
saying nothing for LIVE_SECONDS; one that only stood still for so long may find that the others have gone on to keys
that it lacks, and answers that it cannot open theirs (`missing`).

Before the first `announce`, keys are used as they are given.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import asyncpg
import structlog

import sql
from runtime import ids
from runtime.settings import Key
from runtime.stores.database import Database

_SQL: Final = sql.load("keyring")

EVERY_SECONDS: Final = 3.0
"""How often a process says what it has: so long a new key is known to all and not in use yet."""

LIVE_SECONDS: Final = 30.0
"""A process that has said nothing for longer has ended."""

FORGET_SECONDS: Final = 600.0
LOCK_KEY: Final = 0x746F6D6B657973  # "tomkeys" in ASCII

NOBODYS: Final = ""
"""In place of the tenant."""

VARIABLES: Final = {"server": "SERVER_KEYS", "code": "CODE_KEYS"}
"""The setting of each kind of keys."""

log = structlog.get_logger(__name__)


class KeyMissing(Exception):
    """This process was not given the keys that the others sign or seal with. The message says which."""


class Keyring:
    """The keys of one process. server, code: the one to use first, all to open with."""

    __slots__ = ("server", "code", "missing", "_given", "_holder_id", "_process")

    def __init__(self, server: Sequence[Key], code: Sequence[Key]) -> None:
        self.server, self.code = tuple(server), tuple(code)
        self.missing: frozenset[str] = frozenset()
        """Ids of SERVER_KEYS that others use and this process lacks."""
        self._given = {"server": self.server, "code": self.code}
        self._holder_id = ids.make("process")
        self._process = f"{socket.gethostname()}, process {os.getpid()}"

    async def join(self, database: Database) -> None:
        """The first announcement. Raises KeyMissing, and has said nothing then."""
        await self._announce(database, joining=True)

    async def announce(self, database: Database) -> None:
        """Says what this process has, and goes over to the keys that all have."""
        await self._announce(database, joining=False)

    async def leave(self, database: Database) -> None:
        """This process uses none of them any more."""
        await database.execute(_SQL["leave"], NOBODYS, self._holder_id)

    async def _announce(self, database: Database, *, joining: bool) -> None:
        async def work(connection: asyncpg.Connection) -> tuple[dict[str, tuple[Key, ...]], dict[str, frozenset[str]]]:
            # A look of its own after the lock: two that each miss what the other says would part.
            await connection.execute(_SQL["take_turns"], LOCK_KEY)
            others = await connection.fetch(_SQL["others"], NOBODYS, self._holder_id, LIVE_SECONDS)
            retired = {row["key_id"] for row in await connection.fetch(_SQL["retired"], NOBODYS)}
            order: dict[str, tuple[Key, ...]] = {}
            missing: dict[str, frozenset[str]] = {}
            for kind, given in self._given.items():
                if not given:
                    continue
                rows = [row for row in others if row["kind"] == kind]
                missing[kind] = frozenset(row["used"] for row in rows) - {key.id for key in given}
                if joining and missing[kind]:
                    raise KeyMissing(_complaint(kind, missing[kind], rows))
                if joining and kind == "code" and retired.issuperset(key.id for key in given):
                    raise KeyMissing("CODE_KEYS has no key but retired ones: `tombola keys rotate` has done with them")
                own = order[kind] = _agreed(given, [row["known"] for row in rows], retired if kind == "code" else set())
                says = [key.id for key in given]
                await connection.execute(
                    _SQL["announce"], NOBODYS, kind, self._holder_id, self._process, says, own[0].id
                )
            await connection.execute(_SQL["forget"], NOBODYS, FORGET_SECONDS)
            return order, missing

        order, missing = await database.transaction(work)
        # Only now that it is committed: whoever comes from here on knows of it.
        self.server, self.code = order.get("server", self.server), order.get("code", self.code)
        self.missing = missing.get("server", frozenset())
        for kind, lacking in missing.items():
            if lacking:
                log.error("keys_missing", setting=VARIABLES[kind], keys=sorted(lacking))


def _agreed(given: Sequence[Key], others: Iterable[Sequence[str]], retired: AbstractSet[str]) -> tuple[Key, ...]:
    """The keys, in front the first that is not retired and that all have; the first, where there is none."""
    everybodys = [set(known) for known in others]
    usable = [key for key in given if key.id not in retired] or list(given)
    first = next((key for key in usable if all(key.id in known for known in everybodys)), usable[0])
    return (first, *(key for key in given if key is not first))


def _complaint(kind: str, missing: AbstractSet[str], rows: Sequence[Any]) -> str:
    who = "; ".join(sorted(row["process"] for row in rows if row["used"] in missing))
    return (
        f"{VARIABLES[kind]} lacks {', '.join(map(repr, sorted(missing)))}, in use by {who}: what they make could not be"
        f" opened here. Add it behind the others (one that was killed counts for {LIVE_SECONDS:.0f} seconds more)"
    )
