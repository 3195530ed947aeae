"""Re-encrypts voucher codes and receivers' secrets with the first key of CODE_KEYS.

It does not start while a process still encrypts with another key. Then the database rejects writes with the other keys,
and only then are the rows re-encrypted, so that none is left under them at the end. An interrupted rotation can be
repeated: rows under the first key are skipped. The service may run meanwhile, since every key in CODE_KEYS decrypts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime.outgoing.vault import (
    Vault,
    VaultError,
    code_context,
    integration_context,
    pack_context,
    pack_key_context,
    prize_context,
    quest_context,
    sender_context,
    vault_of,
)
from runtime.settings import Key, Settings
from runtime.stores.database import Database, at
from runtime.stores.databases import START, opened
from runtime.stores.keyring import EVERY_SECONDS, LIVE_SECONDS, NO_TENANT

_SQL: Final = sql.load("rotation")
_DIRECTORY: Final = sql.load("directory")["changes"]

SWITCH_SECONDS: Final = 4 * EVERY_SECONDS
"""How long a process may take to switch to a key that it has."""

POLL_SECONDS: Final = 0.2
PASSES: Final = 20
"""The most passes over rows that change concurrently, before the rotation asks to be run again."""

BATCH: Final = 1_000
"""Codes per statement, which locks them while it runs."""


class NotDone(Exception):
    """The rotation cannot be done now; the message says what to do."""


class ResealedCode(NamedTuple):
    """The parameters of one code for the statement `reseal_codes`, in order."""

    prize_id: str
    code_id: str
    old_ciphertext: bytes
    new_ciphertext: bytes
    new_fingerprint: bytes


@dataclass(slots=True)
class Rotated:
    """The counts of a rotation. unopened: no key in CODE_KEYS decrypts it; left unchanged.

    conflicts: changed concurrently while it was re-encrypted, in the last pass. duplicates: the codes that are in their
    pool twice, each as "tenant prize code".
    """

    codes: int = 0
    secrets: int = 0
    unopened: int = 0
    conflicts: int = 0
    duplicates: list[str] = field(default_factory=list)


async def rotate_all(
    settings: Settings, tenant: str = "", report: Callable[[Rotated], None] = lambda _: None
) -> Rotated:
    """Rotates the codes and secrets of one tenant or all. `report` is called after every batch.

    Raises NotDone, with nothing changed, if a live process does not encrypt with the first key. Also raises it if rows
    change as fast as they are re-encrypted.
    """
    async with opened(settings, size=1) as database:
        await retire(database, settings.code_keys)
        rotation = Rotation(database, vault_of(settings.code_keys), report)
        for _ in range(PASSES):
            rotation.done.conflicts = rotation.done.unopened = 0
            directory = await database.parts[0].fetch(_DIRECTORY, START, 0.0)
            for part in database.parts:
                await at(part, _rotate_tenants(rotation, await part.tenants(_SQL["tenants"], tenant)))
            # A tenant that moved meanwhile may have been in neither database when the pass read its tenants.
            if not rotation.done.conflicts and directory == await database.parts[0].fetch(_DIRECTORY, START, 0.0):
                return rotation.done
        raise NotDone("rows change as fast as they are re-encrypted; run it again")


async def _rotate_tenants(rotation: Rotation, tenant_ids: list[str]) -> None:
    for tenant_id in tenant_ids:
        await rotation.codes(tenant_id)
        await rotation.configs(tenant_id, "prizes", "reseal_prize", prize_context)
        await rotation.configs(tenant_id, "integrations", "reseal_integration", integration_context)
        await rotation.configs(tenant_id, "quests", "reseal_quest", quest_context)
        await rotation.configs(tenant_id, "packs", "reseal_pack", pack_context)
        await rotation.configs(tenant_id, "pack_keys", "reseal_pack_key", pack_key_context)
        await rotation.configs(tenant_id, "senders", "reseal_sender", sender_context)


async def retire(database: Database, keys: Sequence[Key]) -> None:
    """Once this returns, no process can encrypt with any key but the first, in any database. Raises NotDone."""
    first, *others = [key.id for key in keys]
    was_retired = sum([await part.execute(_SQL["reinstate"], NO_TENANT, first) for part in database.parts])
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
        await connection.execute(_SQL["retire"], NO_TENANT, key_ids)

    for part in database.parts:
        await part.transaction(work)


async def _wait_for_processes(database: Database, first: str) -> None:
    ends = time.monotonic() + SWITCH_SECONDS
    while rows := await database.fetch(_SQL["behind"], NO_TENANT, first, LIVE_SECONDS):
        waiting = time.monotonic() < ends
        if lacking := [row["process"] for row in rows if not (waiting and row["knows"])]:
            raise NotDone(
                f"not every process encrypts with key {first!r}. Put it first in CODE_KEYS and restart:"
                f" {'; '.join(lacking)} (a killed process counts for {LIVE_SECONDS:.0f} more seconds)"
            )
        await asyncio.sleep(POLL_SECONDS)


class Rotation:
    """Iterates over a tenant's rows in key order, so that it terminates despite concurrent writes."""

    def __init__(self, database: Database, vault: Vault, report: Callable[[Rotated], None]) -> None:
        self.done = Rotated()
        self._database = database
        self._vault = vault
        self._report = report

    async def codes(self, tenant_id: str) -> None:
        """Re-encrypts codes, and recomputes their fingerprints."""
        prize_id = code_id = ""
        while rows := await self._database.fetch(_SQL["codes"], tenant_id, self._vault.first, prize_id, code_id, BATCH):
            prize_id, code_id = rows[-1]["prize_id"], rows[-1]["code_id"]
            if resealed := [code for row in rows if (code := self._code(tenant_id, row)) is not None]:
                columns = [list(column) for column in zip(*resealed, strict=True)]
                done = await self._database.fetch(_SQL["reseal_codes"], tenant_id, self._vault.first, *columns)
                self.done.codes += len(done)
                self.done.conflicts += len(resealed) - len(done)
                found = (f"{tenant_id} {row['prize_id']} {row['code_id']}" for row in done if row["duplicate"])
                self.done.duplicates.extend(found)
            self._report(self.done)

    def _code(self, tenant_id: str, row: Any) -> ResealedCode | None:
        """The code under the first key; None if it cannot be decrypted."""
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
        """Re-encrypts the secrets in configs that the statement `select` reads and `update` writes."""
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
            self.done.conflicts += 1 - count
