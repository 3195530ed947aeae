"""240,000 strangers' questions about games that nobody knows leave a process as large as it was (faults.md).

The suite sends 12,000 of them. An earlier version kept 2.4 GiB of 240,000, which would be 120 MiB.
"""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Final

import aiohttp
import asyncpg
import pytest

from ops.servers.base import free_port
from runtime.operations import API
from tests.support.memory import child, forget_peak, peak
from tests.support.processes import process
from tests.support.scenario import Scenario
from tests.support.stack import TENANT

WARM: Final = 3_000
AT_ONCE: Final = 20
GROWTH_BYTES_MAX: Final = 60 * 2**20
LEFT_BYTES_MAX: Final = 30 * 2**20
"""Of it, what may be there at the end."""


async def ask(url: str, count: int) -> None:
    async with aiohttp.ClientSession(headers={"X-Tenant-Id": TENANT}) as http:

        async def some(each: int) -> None:
            for _ in range(each):
                async with http.get(f"{url}{API}/games/game_{secrets.token_hex(8)}/eligibility") as answer:
                    envelope = await answer.json()
                    assert (answer.status, envelope["data"]["reason"]) == (404, "UNKNOWN_GAME"), envelope

        await asyncio.gather(*(some(count // AT_ONCE) for _ in range(AT_ONCE)))


@pytest.mark.timeout(3600)
@pytest.mark.fault("Unknown ids", small=12_000, full=240_000, unit="requests", figure="under 60 MiB, under 30 MiB left")
async def test_requests_for_unknown_games_leak_no_memory(
    scenario: Scenario, database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'x')", TENANT)
    await connection.close()
    port = free_port()
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey_url,
        "SERVER_KEYS": f"1:{secrets.token_hex(32)}",
        "CODE_KEYS": f"1:{secrets.token_hex(32)}",
        "JWT_SECRET": secrets.token_hex(32),
        "RATE_LIMITS": "off",
        "CONSUMER_PORT": str(port),
        **{f"{name}_PORT": "0" for name in ("CORE", "ADMIN", "RPC")},
    }
    async with process(tmp_path / "log", port, "all", **environment) as url:
        own = child("all")
        await ask(url, WARM)
        before = forget_peak(own)
        await ask(url, scenario.size)
        grown, left = peak(own) - before, own.memory_info().rss - before
    print(f"{scenario.size} requests: {grown / 2**20:.1f} MiB at most, {left / 2**20:.1f} MiB in the end")
    assert grown < GROWTH_BYTES_MAX
    assert left < LEFT_BYTES_MAX
