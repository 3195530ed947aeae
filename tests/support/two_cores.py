"""Two Cores on one database, with what is around them in a test's hands."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ops.servers.valkey import Valkey
from runtime import ids
from runtime.core import Core
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.settings import Key, Settings
from runtime.wire import codec
from tests.support.rewards import core as running_core
from tests.support.stack import settings_of
from tests.support.waiting import HANG_SECONDS

ULID_AT = ids.ulid_at


@dataclass
class Stage:
    """Two Cores on one database, and the means to break what is around them. own: settings in place of tests' own."""

    database_url: str
    valkey: Valkey
    own: Mapping[str, Any] = field(default_factory=dict)
    dice: random.Random = field(default_factory=random.Random)
    cores: list[Core] = field(default_factory=list)
    stacks: list[AsyncExitStack] = field(default_factory=list)
    under_way: Counter[int] = field(default_factory=Counter)

    @property
    def settings(self) -> Settings:
        made = settings_of(self.database_url, self.valkey.url, **self.own)
        return replace(made, server_keys=(Key("1", b"the same key in each run of this"),))

    def nonce(self, unix_seconds: float) -> str:
        """A session's nonce: of this time, and of the walk's own dice instead of the machine's."""
        return ULID_AT(unix_seconds)[:10] + "".join(self.dice.choices("0123456789abcdef", k=16))

    async def open_core(self, nth: int) -> None:
        """Starts the nth Core. One that is there is asked no more, and ends once it has answered."""
        before = list(zip(self.cores, self.stacks, strict=True))[nth : nth + 1]
        stack = AsyncExitStack()
        core = await stack.enter_async_context(running_core(self.settings))
        self.cores[nth : nth + 1] = [core]
        self.stacks[nth : nth + 1] = [stack]
        for old, its_stack in before:
            while self.under_way[id(old)]:
                await asyncio.sleep(0.01)
            await its_stack.aclose()

    async def call(self, nth: int, operation: Operation, body: bytes) -> Any:
        """The nth Core's reply. Raises Fault."""
        core = self.cores[nth]
        self.under_way[id(core)] += 1
        try:
            return await core.call(operation, codec.decode(operation.request, body))
        finally:
            self.under_way[id(core)] -= 1

    async def cut_connections(self) -> None:
        """Ends every connection to the database but the one that asks."""
        await self.cores[0].engine.database.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    async def ask(self, nth: int, name: str, tenant_id: str, **fields: Any) -> Any:
        """The nth Core's reply; what was UNAVAILABLE is asked again, as its Retry-After says. Raises Fault."""
        operation = BY_NAME[name]
        body = msgspec.json.encode({"scope": {"tenant_id": tenant_id}, **fields})
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                try:
                    return await self.call(nth, operation, body)
                except Fault as fault:
                    if fault.status is not Status.UNAVAILABLE:
                        raise
                await asyncio.sleep(0.01)


class Patient:
    """Reads that are tried again on another connection."""

    def __init__(self, database: Any) -> None:
        self._database = database

    async def fetch(self, query: str, /, *args: Any) -> list[Any]:
        for _ in range(10):
            try:
                return list(await self._database.fetch(query, *args))
            except Fault:
                continue  # the last failure is told below
        raise AssertionError("the database does not come back")
