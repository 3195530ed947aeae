"""The proxy of fault scenarios: what it does to a connection, and that it counts what met it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from ops.certification.proxy import Proxy, between

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1000):
        writer.write(chunk)
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with between(server.sockets[0].getsockname()[1]) as (proxy,):
        yield proxy
    server.close()


async def connect(proxy: Proxy) -> Connection:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def say(connection: Connection, what: bytes) -> bytes:
    connection[1].write(what)
    return await connection[0].readexactly(len(what))


async def test_proxy_delays_both_ways(proxy: Proxy) -> None:
    connection = await connect(proxy)
    assert await say(connection, b"a" * 300_000) == b"a" * 300_000
    proxy.delay_seconds = 0.1
    began = time.monotonic()
    assert await say(connection, b"late") == b"late"
    assert time.monotonic() - began >= 0.2
    assert proxy.delayed_bytes == 2 * len(b"late")


async def test_proxy_holds_bytes_back_until_healed(proxy: Proxy) -> None:
    connection = await connect(proxy)
    proxy.partition()
    asked = asyncio.ensure_future(say(connection, b"held"))
    while not proxy.held_bytes:
        await asyncio.sleep(0)
    assert not asked.done()
    proxy.heal()
    assert await asked == b"held"


async def test_proxy_resets_or_forgets_connections_and_takes_new_ones(proxy: Proxy) -> None:
    connection = await connect(proxy)
    await say(connection, b"there")
    proxy.cut()
    with pytest.raises(OSError):
        await say(connection, b"gone")
    connection = await connect(proxy)
    await say(connection, b"there")
    proxy.half_open()
    asked = asyncio.ensure_future(say(connection, b"forgotten"))
    assert await say(await connect(proxy), b"anew") == b"anew"
    assert (proxy.cuts, proxy.forgotten, asked.done()) == (1, 1, False)
    asked.cancel()


async def test_proxy_refuses_connections(proxy: Proxy) -> None:
    proxy.accepting = False
    with pytest.raises(OSError):
        await say(await connect(proxy), b"hello")
    assert proxy.refused == 1
