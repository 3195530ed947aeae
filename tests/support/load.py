"""Players who go on playing while something breaks: each play is retried with its key until it is answered."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from runtime.operations import API

PATIENCE_SECONDS = 60.0


@dataclass
class Load:
    """Plays of one game over Core's REST.

    played: what each key was answered, by the play's id. refusals: the answers that were retried, by HTTP
    status and reason (0: no answer came). seconds: how long each request took.
    """

    url: str
    tenant_id: str
    game_id: str
    http: aiohttp.ClientSession
    played: dict[str, str] = field(default_factory=dict)
    refusals: Counter[tuple[int, str]] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    stopping: bool = False
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def ask(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """(HTTP status, envelope); (0, {}) where no answer came."""
        url = f"{self.url}{API}/games/{self.game_id}/{path}"
        began = time.monotonic()
        try:
            async with self.http.post(url, json={"scope": {"tenant_id": self.tenant_id}, **body}) as answer:
                return answer.status, await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return 0, {}
        finally:
            self.seconds.append(time.monotonic() - began)

    async def until_done(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                status, envelope = await self.ask(path, body)
                if status == 200:
                    return dict(envelope["data"])
                reason = str((envelope.get("data") or {}).get("reason", ""))
                self.refusals[status, reason] += 1
                assert status in (0, 503), envelope
                await asyncio.sleep(0.02)

    async def player(self, name: str) -> None:
        while not self.stopping:
            session = (await self.until_done("start", {"player_id": name}))["session_id"]
            key = f"key_{next(self.numbers)}"
            body = {"player_id": name, "session_id": session, "payload": {}, "idempotency_key": key}
            self.played[key] = (await self.until_done("play", body))["play_id"]
            await asyncio.sleep(0.02)  # sleeps: leaves the processors to what restarts meanwhile

    async def plays(self, more: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            wanted = len(self.played) + more
            while len(self.played) < wanted:
                await asyncio.sleep(0.005)

    async def check(self, database: Any) -> None:
        rows = await database.fetch("SELECT idempotency_key, play_id FROM plays WHERE game_id = $1", self.game_id)
        stored = {row["idempotency_key"]: row["play_id"] for row in rows}
        assert len(stored) == len(rows)
        assert stored == self.played


@asynccontextmanager
async def load(url: str, tenant_id: str, game_id: str, *, players: int = 8) -> AsyncIterator[Load]:
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as http:
        running = Load(url, tenant_id, game_id, http)
        tasks = [asyncio.ensure_future(running.player(f"player_{nth}")) for nth in range(players)]
        try:
            yield running
        except BaseException:
            for task in tasks:
                task.cancel()
            raise
        running.stopping = True
        await asyncio.gather(*tasks)
