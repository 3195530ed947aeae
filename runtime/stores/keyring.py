"""Key rotation: each process signs and encrypts with its first key that every live process has.

A new key in front of SERVER_KEYS or CODE_KEYS reaches the processes one by one; tokens made with it early could not be
verified elsewhere. So each process announces its keys in the database periodically (`key_holders`), and uses the first
one that all processes have. A process without a key that others use does not start (`KeyMissing`). A process leaves by
deleting its row, or after LIVE_SECONDS without an announcement. A process that was only suspended may find that the
others use keys it lacks; it then answers that it cannot verify them (`missing`).

Before the first `announce`, keys are used in the given order.
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
"""The announcement interval: for this long a new key is known everywhere and not in use yet."""

LIVE_SECONDS: Final = 30.0
"""A process without an announcement for this long counts as ended."""

FORGET_SECONDS: Final = 600.0
LOCK_KEY: Final = 0x746F6D6B657973  # "tomkeys" in ASCII

NO_TENANT: Final = ""
"""The tenant id of these rows: none."""

VARIABLES: Final = {"server": "SERVER_KEYS", "code": "CODE_KEYS"}
"""The setting of each kind of keys."""

log = structlog.get_logger(__name__)


class KeyMissing(Exception):
    """This process lacks keys that others sign or encrypt with. The message names them."""


class Keyring:
    """The keys of one process. server, code: all its keys, the one in use first."""

    __slots__ = ("server", "code", "missing", "_configured", "_holder_id", "_process")

    def __init__(self, server: Sequence[Key], code: Sequence[Key]) -> None:
        self.server, self.code = tuple(server), tuple(code)
        self.missing: frozenset[str] = frozenset()
        """Ids of SERVER_KEYS that others use and this process lacks."""
        self._configured = {"server": self.server, "code": self.code}
        self._holder_id = ids.make("process")
        self._process = f"{socket.gethostname()}, process {os.getpid()}"

    async def join(self, database: Database) -> None:
        """Makes the first announcement. Raises KeyMissing without announcing."""
        await self._announce(database, joining=True)

    async def announce(self, database: Database) -> None:
        """Announces this process's keys, and switches to the keys that all processes have."""
        await self._announce(database, joining=False)

    async def leave(self, database: Database) -> None:
        """Deletes this process's announcement."""
        await database.execute(_SQL["leave"], NO_TENANT, self._holder_id)

    async def _announce(self, database: Database, *, joining: bool) -> None:
        async def work(connection: asyncpg.Connection) -> tuple[dict[str, tuple[Key, ...]], dict[str, frozenset[str]]]:
            # Read after taking the lock: two processes that miss each other's announcement would use different keys.
            await connection.execute(_SQL["lock_announcements"], LOCK_KEY)
            others = await connection.fetch(_SQL["keys_of_others"], NO_TENANT, self._holder_id, LIVE_SECONDS)
            retired = {row["key_id"] for row in await connection.fetch(_SQL["retired"], NO_TENANT)}
            order: dict[str, tuple[Key, ...]] = {}
            missing: dict[str, frozenset[str]] = {}
            for kind, keys in self._configured.items():
                if not keys:
                    continue
                rows = [row for row in others if row["kind"] == kind]
                missing[kind] = frozenset(row["used"] for row in rows) - {key.id for key in keys}
                if joining and missing[kind]:
                    raise KeyMissing(_complaint(kind, missing[kind], rows))
                if joining and kind == "code" and retired.issuperset(key.id for key in keys):
                    raise KeyMissing("CODE_KEYS contains only retired keys; add the one in use")
                own = order[kind] = _agreed(keys, [row["known"] for row in rows], retired if kind == "code" else set())
                key_ids = [key.id for key in keys]
                await connection.execute(
                    _SQL["announce"], NO_TENANT, kind, self._holder_id, self._process, key_ids, own[0].id
                )
            await connection.execute(_SQL["remove_silent"], NO_TENANT, FORGET_SECONDS)
            return order, missing

        order, missing = await database.transaction(work)
        # Switch after the commit: any process that joins later sees the announcement.
        self.server, self.code = order.get("server", self.server), order.get("code", self.code)
        self.missing = missing.get("server", frozenset())
        for kind, lacking in missing.items():
            if lacking:
                log.error("keys_missing", setting=VARIABLES[kind], keys=sorted(lacking))


def _agreed(keys: Sequence[Key], others: Iterable[Sequence[str]], retired: AbstractSet[str]) -> tuple[Key, ...]:
    """The keys, with the first non-retired one that all processes have in front; else the first usable one."""
    announced = [set(known) for known in others]
    usable = [key for key in keys if key.id not in retired] or list(keys)
    first = next((key for key in usable if all(key.id in known for known in announced)), usable[0])
    return (first, *(key for key in keys if key is not first))


def _complaint(kind: str, missing: AbstractSet[str], rows: Sequence[Any]) -> str:
    users = "; ".join(sorted(row["process"] for row in rows if row["used"] in missing))
    return (
        f"{VARIABLES[kind]} lacks {', '.join(map(repr, sorted(missing)))}, in use by {users}. Append it to the list"
        f" (a process that was killed counts for {LIVE_SECONDS:.0f} more seconds)"
    )
