"""What strangers send is held within bounds: bodies, connections, and the time that either may take."""

from __future__ import annotations

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
from tests.support.processes import process
from tests.support.stack import TENANT, Stack
from tests.support.waiting import HANG_SECONDS

BODIES: Final = 1_500
BODY_BYTES: Final = 200_000
GROWTH_BYTES_MAX: Final = 160 * 2**20
"""Of 300 MB that are sent, and that were held in several forms: 700 MB."""


@dataclass(frozen=True)
class Edge:
    """A consumer edge in a process of its own."""

    port: int
    process: psutil.Process

    def forget_peak(self) -> int:
        """Begins to measure; the bytes that it holds now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return int(self.process.memory_info().rss)

    def peak(self) -> int:
        """The most bytes that it has held since."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.fixture
async def edge(stack: Stack, tmp_path: Path, valkey_url: str) -> AsyncIterator[Edge]:
    port = free_port()
    environment = {
        "CORE_RPC_ADDRESSES": stack.process.rpc_address,
        "REDIS_URL": valkey_url,
        "JWT_SECRET": stack.process.settings.jwt_secret,
        "CONSUMER_PORT": str(port),
        "LOGIN_SENDER": "log",
    }
    async with process(tmp_path / "log", port, "consumer", **environment):
        (own,) = [
            child for child in psutil.Process().children() if child.cmdline()[1:] == ["-m", "runtime", "consumer"]
        ]
        yield Edge(port, own)


def request_of(body: bytes) -> bytes:
    head = f"POST {API}/games/game_x/play HTTP/1.1\r\nHost: x\r\nX-Tenant-Id: {TENANT}\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\nConnection: close\r\n\r\n" + body


async def send(edge: Edge, request: bytes) -> int:
    """The HTTP status of the answer; 0 where the edge hung up."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.port)
        writer.write(request)
        async with asyncio.timeout(HANG_SECONDS):
            line = await reader.readline()
        writer.close()
        return int(line.split()[1]) if line else 0
    except ConnectionError:
        return 0


TEXT: Final = json.dumps({"session_id": "s", "payload": {"a": "x" * BODY_BYTES}}).encode()
VALUES: Final = b'{"session_id":"s","payload":{"a":[' + b'"abc",' * (BODY_BYTES // 6) + b"0]}}"


@pytest.mark.parametrize("body", [TEXT, VALUES], ids=["a long text", "many values"])
async def test_bodies_of_strangers_are_held_within_a_bound(edge: Edge, body: bytes) -> None:
    assert await send(edge, request_of(body)) == 403  # Warm.
    before = edge.forget_peak()
    statuses = Counter(await asyncio.gather(*(send(edge, request_of(body)) for _ in range(BODIES))))
    grown = edge.peak() - before
    assert grown < GROWTH_BYTES_MAX, f"{grown / 2**20:.0f} MiB; {statuses}"
    assert not [status for status in statuses if status >= 500 and status != 503], statuses
    assert await send(edge, request_of(body)) in (403, 429)  # There is room again.
