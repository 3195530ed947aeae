"""The proxy of ops/certify: it delays, holds back, cuts and forgets, and nothing is lost that it does not cut."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from ops.certification.proxy import Proxy, between
from ops.certification.rows.network import FAULTS

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1000):
        writer.write(chunk)
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    """Before a server that answers what it is told."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with between(server.sockets[0].getsockname()[1]) as (proxy,):
        yield proxy
    server.close()


async def connect(proxy: Proxy) -> Connection:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def say(connection: Connection, what: bytes) -> bytes:
    connection[1].write(what)
    return await connection[0].readexactly(len(what))


async def test_what_is_said_is_answered(proxy: Proxy) -> None:
    connection = await connect(proxy)
    assert await say(connection, b"a" * 300_000) == b"a" * 300_000


async def test_a_delay_holds_either_way(proxy: Proxy) -> None:
    connection = await connect(proxy)
    proxy.delay_seconds = 0.1
    began = time.monotonic()
    assert await say(connection, b"late") == b"late"
    assert time.monotonic() - began >= 0.2


async def test_a_partition_holds_back_and_healing_lets_it_through(proxy: Proxy) -> None:
    connection = await connect(proxy)
    proxy.partition()
    asked = asyncio.ensure_future(say(connection, b"held"))
    done, _ = await asyncio.wait([asked], timeout=0.1)
    assert not done
    proxy.heal()
    assert await asked == b"held"


async def test_a_cut_is_heard_of(proxy: Proxy) -> None:
    connection = await connect(proxy)
    await say(connection, b"there")
    proxy.cut()
    assert proxy.cuts == 1
    with pytest.raises(OSError):
        await say(connection, b"gone")
    assert await say(await connect(proxy), b"anew") == b"anew"


async def test_a_forgotten_connection_is_silent_and_new_ones_work(proxy: Proxy) -> None:
    connection = await connect(proxy)
    await say(connection, b"there")
    proxy.half_open()
    assert proxy.forgotten == 1
    asked = asyncio.ensure_future(say(connection, b"forgotten"))
    assert await say(await connect(proxy), b"anew") == b"anew"
    assert not asked.done()
    asked.cancel()


async def test_who_is_not_taken_is_reset(proxy: Proxy) -> None:
    proxy.accepting = False
    with pytest.raises(OSError):
        await say(await connect(proxy), b"hello")


async def test_what_is_withheld_is_never_asked_and_the_rest_is(proxy: Proxy) -> None:
    proxy.withheld = b"XACK"
    connection = await connect(proxy)
    await say(connection, b"XREADGROUP")
    connection[1].write(b"*4 XACK stream")
    assert await say(await connect(proxy), b"anew") == b"anew"
    asked = asyncio.ensure_future(say(connection, b"forgotten"))
    proxy.heal()
    assert await say(await connect(proxy), b"XACK") == b"XACK"
    assert not asked.done()
    asked.cancel()


async def test_what_a_fault_meets_is_counted(proxy: Proxy) -> None:
    connection = await connect(proxy)
    await say(connection, b"before")
    assert (proxy.delayed_bytes, proxy.held_bytes, proxy.refused) == (0, 0, 0)
    proxy.delay_seconds = 0.01
    await say(connection, b"late")
    assert proxy.delayed_bytes == 2 * len(b"late")
    proxy.heal()
    proxy.partition()
    asked = asyncio.ensure_future(say(connection, b"held"))
    while not proxy.held_bytes:
        await asyncio.sleep(0)
    proxy.heal()
    assert await asked == b"held"
    # Either way, unless it was healed before the answer was there.
    assert proxy.held_bytes in (len(b"held"), 2 * len(b"held"))
    proxy.accepting = False
    with pytest.raises(OSError):
        await say(await connect(proxy), b"hello")
    assert proxy.refused == 1


async def test_a_proxy_that_is_not_on_the_way_meets_nothing(proxy: Proxy) -> None:
    for fault in FAULTS.values():
        fault.begin(proxy)
        assert fault.met(proxy) == 0
        proxy.heal()
