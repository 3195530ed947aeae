import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
import pytest

from ops.servers.base import free_port
from runtime.operations import API
from tests.support.memory import child, forget_peak, peak
from tests.support.processes import process
from tests.support.stack import TENANT, Stack
from tests.support.waiting import HANG_SECONDS

BODIES: Final = 4_000
AT_ONCE: Final = 1_500
BODY_BYTES: Final = 200_000
GROWTH_BYTES_MAX: Final = 160 * 2**20
"""Of 800 MB that are sent, 300 MB at once, which were held in several forms: 700 MB."""

pytestmark = pytest.mark.own_service


@dataclass(frozen=True)
class Edge:
    port: int
    process: psutil.Process


@pytest.fixture
async def edge(stack: Stack, tmp_path: Path, valkey_url: str) -> AsyncIterator[Edge]:
    port = free_port()
    environment = {"CORE_RPC_ADDRESSES": stack.process.rpc_address, "REDIS_URL": valkey_url}
    environment |= {"JWT_SECRET": stack.process.settings.jwt_secret, "CONSUMER_PORT": str(port), "LOGIN_SENDER": "log"}
    environment |= {"TRUSTED_PROXIES": "127.0.0.0/8"}
    async with process(tmp_path / "log", port, "consumer", **environment):
        yield Edge(port, child("consumer"))


def head_of(body: bytes, nth: int) -> bytes:
    lines = (
        *(f"POST {API}/games/game_x/play HTTP/1.1", "Host: x", f"X-Tenant-Id: {TENANT}"),
        *(f"X-Forwarded-For: 10.{nth // 2**16}.{nth // 2**8 % 2**8}.{nth % 2**8}", f"Content-Length: {len(body)}"),
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def send(edge: Edge, body: bytes, nth: int) -> int:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(head_of(body, nth))
        writer.write(body)
        async with asyncio.timeout(HANG_SECONDS):
            line = await reader.readline()
        writer.close()
        return int(line.split()[1]) if line else 0
    except ConnectionError:
        return 0


TEXT: Final = json.dumps({"session_id": "s", "payload": {"a": "x" * BODY_BYTES}}).encode()
VALUES: Final = b'{"session_id":"s","payload":{"a":[' + b'"abc",' * (BODY_BYTES // 6) + b"0]}}"


async def test_bodies_of_four_thousand_strangers_are_held_within_a_memory_bound(edge: Edge) -> None:
    bodies = (TEXT, VALUES)
    for body in bodies:
        assert await send(edge, body, 0) == 403  # Warm.
    places = asyncio.Semaphore(AT_ONCE)

    async def send_one(nth: int) -> int:
        async with places:
            return await send(edge, bodies[nth % 2], nth)

    before = forget_peak(edge.process)
    statuses = Counter(await asyncio.gather(*map(send_one, range(BODIES))))
    grown = peak(edge.process) - before
    assert grown < GROWTH_BYTES_MAX, f"{grown / 2**20:.0f} MiB; {statuses}"
    assert not [status for status in statuses if status >= 500 and status != 503], statuses
    assert statuses[403] and statuses[503], (
        statuses
    )  # Some were read to the end, and all that came beside them was not.
    for body in bodies:
        assert await send(edge, body, BODIES) == 403  # There is room again.
