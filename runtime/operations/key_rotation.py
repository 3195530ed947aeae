"""Stores voucher codes and receivers' secrets anew, under the first key of CODE_KEYS.

It refuses to begin beside a process that does not seal with the first key, then has the database itself refuse what is
sealed with the others, and only then goes through what is there: so nothing is left under them when it says so. It goes
on where one that was broken off ended, since what is under the first key is passed by, and it harms nothing that runs
meanwhile: every key that CODE_KEYS names opens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime.outgoing.vault import (
    Vault,
    VaultError,
    code_context,
    integration_context,
    prize_context,
    quest_context,
    vault_of,
)
from runtime.settings import Key, Settings
from runtime.stores.database import Database
from runtime.stores.keyring import EVERY_SECONDS, LIVE_SECONDS, NOBODYS

_SQL: Final = sql.load("rotation")

SWITCH_SECONDS: Final = 4 * EVERY_SECONDS
"""What a process gets for going over to a key that it has."""

POLL_SECONDS: Final = 0.2
PASSES: Final = 20
"""How often it goes through what others change meanwhile, before it asks to be run again."""

BATCH: Final = 1_000
"""Codes of one statement, which locks them while it runs."""


class NotDone(Exception):
    """It cannot be done now; the message says what to do."""


class ResealedCode(NamedTuple):
    """A code as the statement `reseal_codes` takes it, in its order."""

    prize_id: str
    code_id: str
    old_ciphertext: bytes
    new_ciphertext: bytes
    new_fingerprint: bytes


@dataclass(slots=True)
class Rotated:
    """What a rotation did. unopened: what no key of CODE_KEYS opens; it stays as it is.

    missed: what somebody else changed while it was sealed anew, of the last pass.
    """

    codes: int = 0
    secrets: int = 0
    unopened: int = 0
    missed: int = 0


async def rotate_all(
    settings: Settings, tenant: str = "", report: Callable[[Rotated], None] = lambda _: None
) -> Rotated:
    """Rotates every tenant's codes and secrets, or one tenant's. `report` hears of every batch.

    Raises NotDone where a process that lives does not seal with the first key, with nothing changed; and where
    others change things as fast as it seals them.
    """
    async with Database.opened(settings, size=1) as database:
        await retire(database, settings.code_keys)
        rotation = Rotation(database, vault_of(settings.code_keys), report)
        for _ in range(PASSES):
            rotation.done.missed = rotation.done.unopened = 0
            for row in await database.fetch(_SQL["tenants"], tenant):
                await rotation.codes(row["tenant_id"])
                await rotation.configs(row["tenant_id"], "prizes", "reseal_prize", prize_context)
                await rotation.configs(row["tenant_id"], "integrations", "reseal_integration", integration_context)
                await rotation.configs(row["tenant_id"], "quests", "reseal_quest", quest_context)
            if not rotation.done.missed:
                return rotation.done
        raise NotDone("others change things as fast as they are sealed anew; run it again")


async def retire(database: Database, keys: Sequence[Key]) -> None:
    """From its return on nothing is sealed with any key but the first, by whatever process. Raises NotDone."""
    first, *others = [key.id for key in keys]
    was_retired = await database.execute(_SQL["reinstate"], NOBODYS, first)
    try:
        await _wait_for_processes(database, first)
    except NotDone:
        if was_retired:
            await _retire(database, [first])
        raise
    await _retire(database, others)


async def _retire(database: Database, key_ids: list[str]) -> None:
    async def work(connection: asyncpg.Connection) -> None:
        await connection.execute(_SQL["lock_keys"], key_ids)
        await connection.execute(_SQL["retire"], NOBODYS, key_ids)

    await database.transaction(work)


async def _wait_for_processes(database: Database, first: str) -> None:
    """Returns when every process that lives seals with key `first`."""
    ends = time.monotonic() + SWITCH_SECONDS
    while rows := await database.fetch(_SQL["behind"], NOBODYS, first, LIVE_SECONDS):
        waiting = time.monotonic() < ends
        if lacking := [row["process"] for row in rows if not (waiting and row["knows"])]:
            raise NotDone(
                f"key {first!r} is not what everybody seals with. Put it in front of CODE_KEYS of, and restart:"
                f" {'; '.join(lacking)} (one that was killed counts for {LIVE_SECONDS:.0f} seconds more)"
            )
        await asyncio.sleep(POLL_SECONDS)


class Rotation:
    """Goes through a tenant's rows by their keys, so that it ends whatever others write meanwhile."""

    def __init__(self, database: Database, vault: Vault, report: Callable[[Rotated], None]) -> None:
        self.done = Rotated()
        self._database = database
        self._vault = vault
        self._report = report

    async def codes(self, tenant_id: str) -> None:
        """Codes, with the fingerprints that find their duplicates."""
        prize_id = code_id = ""
        while rows := await self._database.fetch(_SQL["codes"], tenant_id, self._vault.first, prize_id, code_id, BATCH):
            prize_id, code_id = rows[-1]["prize_id"], rows[-1]["code_id"]
            if resealed := [code for row in rows if (code := self._code(tenant_id, row)) is not None]:
                columns = [list(column) for column in zip(*resealed, strict=True)]
                count = await self._database.execute(_SQL["reseal_codes"], tenant_id, self._vault.first, *columns)
                self.done.codes += count
                self.done.missed += len(resealed) - count
            self._report(self.done)

    def _code(self, tenant_id: str, row: Any) -> ResealedCode | None:
        """The code under the first key; None for what does not open."""
        context = code_context(tenant_id, row["prize_id"])
        try:
            text = self._vault.open(row["key_id"], row["ciphertext"], context)
        except VaultError:
            self.done.unopened += 1
            return None
        fingerprint = self._vault.fingerprints(text, context)[0]
        sealed = self._vault.seal(text, context).ciphertext
        return ResealedCode(row["prize_id"], row["code_id"], row["ciphertext"], sealed, fingerprint)

    async def configs(self, tenant_id: str, select: str, update: str, context_of: Callable[[str, str], str]) -> None:
        """Secrets within configs: those of the statement `select`, by the statement `update`."""
        after = ""
        while rows := await self._database.fetch(_SQL[select], tenant_id, after, BATCH):
            after = rows[-1]["id"]
            for row in rows:
                await self._config(tenant_id, row, update, context_of(tenant_id, row["id"]))
            self._report(self.done)

    async def _config(self, tenant_id: str, row: Any, update: str, context: str) -> None:
        try:
            config = self._vault.resealed(row["config"], context)
        except VaultError:
            self.done.unopened += 1
            return
        if config != row["config"]:
            count = await self._database.execute(_SQL[update], tenant_id, row["id"], row["config"], config)
            self.done.secrets += count
            self.done.missed += 1 - count
