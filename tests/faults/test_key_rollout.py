"""A new key reaches the processes one by one: what each makes, all can open, and a rotation waits for all of them."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest

from ops.servers.base import free_port
from runtime.operations import API
from runtime.outgoing.vault import code_context, vault_of
from runtime.settings import Key
from tests.support import invariants
from tests.support.processes import process
from tests.support.stack import TENANT
from tests.support.waiting import until

OLD, NEW = Key("old", secrets.token_bytes(32)), Key("new", secrets.token_bytes(32))


def written(*keys: Key) -> str:
    return ",".join(f"{key.id}:{key.secret.hex()}" for key in keys)


@dataclass
class Cluster:
    """Cores on one database, each started with keys of its own, for both kinds."""

    database_url: str
    redis_url: str
    directory: Path
    http: aiohttp.ClientSession
    connection: asyncpg.Connection
    game_id: str = ""
    prize_id: str = ""

    def core(self, *keys: Key) -> AbstractAsyncContextManager[str]:
        """A Core with these keys, for the length of the block; its URL."""
        port = free_port()
        return process(self.directory / f"{port}.log", port, "core", **self.environment(port, *keys))

    def environment(self, port: int, *keys: Key) -> dict[str, str]:
        return {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "SERVER_KEYS": written(*keys),
            "CODE_KEYS": written(*keys),
            "CORE_PORT": str(port),
            "RPC_PORT": "0",
        }

    async def run(self, *command: str, **environment: str) -> tuple[int, str]:
        """(the exit code, what it printed) of a command that ends by itself."""
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "runtime", *command),
            env={**os.environ, **environment},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await child.communicate()
        assert child.returncode is not None
        return child.returncode, said.decode()

    def rotate(self, *keys: Key) -> Any:
        return self.run("keys", "rotate", DATABASE_URL=self.database_url, CODE_KEYS=written(*keys))

    async def ask(self, url: str, path: str, **body: Any) -> dict[str, Any]:
        async with self.http.post(f"{url}{API}{path}", json={"scope": {"tenant_id": TENANT}, **body}) as answer:
            envelope = await answer.json()
            assert answer.status == 200, envelope
            return dict(envelope["data"])

    async def furnish(self, url: str) -> None:
        await self.connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test')", TENANT)
        campaign = (await self.ask(url, "/campaigns", campaign={"name": "Autumn", "status": "active"}))["campaign"]
        voucher = {"name": "Mug", "type": "voucher", "fulfillment": {"channel": "voucher_code"}}
        self.prize_id = (await self.ask(url, "/prizes", prize=voucher))["prize"]["id"]
        game = {
            "name": "Wheel",
            "type": "spin_wheel",
            "campaign_id": campaign["id"],
            "status": "active",
            "reward_handler": "probability",
            "handler_config": {"prizes": [{"prize_id": self.prize_id, "probability": 1}]},
        }
        self.game_id = (await self.ask(url, "/games", game=game))["game"]["id"]

    async def start(self, url: str) -> str:
        return str((await self.ask(url, f"/games/{self.game_id}/start", player_id="ann"))["session_id"])

    async def play(self, url: str, session_id: str) -> list[dict[str, Any]]:
        body = {"player_id": "ann", "session_id": session_id, "payload": {}}
        return list((await self.ask(url, f"/games/{self.game_id}/play", **body))["rewards"])

    async def import_codes(self, url: str, *codes: str) -> None:
        assert (await self.ask(url, f"/prizes/{self.prize_id}/codes", codes=list(codes)))["added"] == len(codes)

    async def sealed_with(self) -> set[str]:
        return {row["key_id"] for row in await self.connection.fetch("SELECT key_id FROM codes")}


@pytest.fixture
async def cluster(database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path) -> AsyncIterator[Cluster]:
    connection = await asyncpg.connect(database_url)
    async with aiohttp.ClientSession() as http:
        yield Cluster(database_url, valkey_url, tmp_path, http, connection)
    await invariants.check(connection)
    await connection.close()


def key_of(session_id: str) -> str:
    return session_id.split(".")[1]


async def test_new_key_is_used_only_once_every_process_has_it(cluster: Cluster) -> None:
    async with cluster.core(OLD) as behind:
        await cluster.furnish(behind)
        async with cluster.core(NEW, OLD) as ahead:
            await cluster.import_codes(ahead, "A", "B")
            await cluster.import_codes(behind, "C", "D")
            assert await cluster.sealed_with() == {"old"}
            for one, other in ((ahead, behind), (behind, ahead)):
                assert await cluster.play(other, await cluster.start(one)), "either plays what the other started"
            code, said = await cluster.run("core", **cluster.environment(0, NEW), METRICS_PORT="0")
            assert code == 1
            assert "SERVER_KEYS lacks 'old'" in said
            under_way = await cluster.start(behind)
    async with cluster.core(NEW, OLD) as one, cluster.core(NEW, OLD) as other:

        async def went_on() -> bool:
            return {key_of(await cluster.start(url)) for url in (one, other)} == {"new"}

        await until(went_on)
        assert await cluster.play(other, await cluster.start(one))
        assert await cluster.play(one, under_way), "what the old key signed opens as long as it is there"
        await cluster.import_codes(one, "E")
        assert await cluster.sealed_with() == {"old", "new"}
        code, said = await cluster.run("core", **cluster.environment(0, OLD), METRICS_PORT="0")
        assert code == 1
        assert "SERVER_KEYS lacks 'new'" in said


async def test_rotation_is_refused_while_a_process_seals_with_the_old_key(cluster: Cluster) -> None:
    async with cluster.core(OLD) as behind:
        await cluster.furnish(behind)
        await cluster.import_codes(behind, "A", "B")
        async with cluster.core(NEW, OLD) as ahead:
            for _ in range(2):
                code, said = await cluster.rotate(NEW, OLD)
                assert code == 1
                assert "restart" in said
                await cluster.import_codes(ahead, secrets.token_hex(4))
            assert await cluster.sealed_with() == {"old"}
        assert await cluster.play(behind, await cluster.start(behind)), "it opens all that there is"
    async with cluster.core(NEW, OLD) as one, cluster.core(NEW, OLD) as other:
        code, said = await cluster.rotate(NEW, OLD)
        assert (code, said.splitlines()[-1]) == (0, "under key 'new' now: 4 codes and 0 configs with secrets")
        await cluster.import_codes(one, "E")
        await cluster.import_codes(other, "F")
        assert await cluster.sealed_with() == {"new"}
    async with cluster.core(NEW) as after:
        assert await cluster.play(after, await cluster.start(after))
    for row in await cluster.connection.fetch("SELECT key_id, ciphertext FROM codes"):
        assert vault_of((NEW,)).open(row["key_id"], row["ciphertext"], code_context(TENANT, cluster.prize_id))
