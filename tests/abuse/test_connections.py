"""Connections of strangers: how many, and for how long one may owe the rest of what it began.

The server and the sockets are real; the times are shorter than they are outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from aiohttp import web

from runtime.http import connections
from runtime.http.envelope import ok
from runtime.http.serving import Runner, make_app, serve
from tests.support.waiting import HANG_SECONDS

LARGE = b"x" * 16 * 2**20


async def plain(request: web.Request) -> web.Response:
    return ok({"read": len(await request.read())})


async def large(request: web.Request) -> web.Response:
    return web.Response(body=LARGE)


@pytest.fixture
async def runner(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runner]:
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.02)
    app = make_app()
    app.router.add_route("*", "/", plain)
    app.router.add_get("/large", large)
    runner = await serve(app, "127.0.0.1", 0, connections_max=40)
    yield runner
    await runner.cleanup()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(runner: Runner, host: str = "") -> Connection:
    address = runner.addresses[0]
    return await asyncio.open_connection(address[0], address[1], local_addr=(host, 0) if host else None)


async def ask(connection: Connection, request: bytes = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") -> bytes:
    """The status line of the answer; b"" where there is none."""
    reader, writer = connection
    try:
        writer.write(request)
        async with asyncio.timeout(HANG_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(int(length.split(b":")[1]))
        return head.split(b"\r\n")[0]
    except (ConnectionError, asyncio.IncompleteReadError):
        return b""


async def hung_up(connection: Connection) -> None:
    async with asyncio.timeout(HANG_SECONDS):
        try:
            while await connection[0].read(65_536):
                pass
        except ConnectionError:
            pass
    connection[1].close()


@pytest.mark.parametrize("said", [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
async def test_a_head_has_its_time(runner: Runner, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    """Also where it comes byte by byte: what counts is when it began."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    connection = await connect(runner)
    connection[1].write(said)

    async def drip() -> None:
        while said and not connection[1].is_closing():
            connection[1].write(b"a")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    await hung_up(connection)
    dripping.cancel()


async def test_the_next_head_on_a_connection_has_its_own(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await connect(runner)
    assert await ask(connection) == b"HTTP/1.1 200 OK"
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    silent = await connect(runner)
    await hung_up(silent)  # The time is over; who has asked already may wait before the next.
    assert await ask(connection) == b"HTTP/1.1 200 OK"
    connection[1].write(b"GET / HT")
    await hung_up(connection)


async def test_a_slow_body_is_no_slow_head(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    connection = await connect(runner)
    connection[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    await hung_up(await connect(runner))
    assert await ask(connection, b"b") == b"HTTP/1.1 200 OK"


async def test_who_reads_nothing_of_an_answer_is_hung_up_on(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)
    _, writer = await connect(runner)
    writer.transport.pause_reading()
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    server = runner.server
    assert server is not None
    async with asyncio.timeout(HANG_SECONDS):
        while not server.connections:
            await asyncio.sleep(0)
        while server.connections:
            await asyncio.sleep(0.01)
    writer.transport.abort()


async def test_who_reads_slowly_gets_it_all(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.5)
    reader, writer = await connect(runner)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(HANG_SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        left = len(LARGE)
        while left:
            left -= len(await reader.read(2**20))
            await asyncio.sleep(0.05)
    writer.close()


async def test_an_address_has_its_share_of_the_connections(runner: Runner) -> None:
    """And the others have theirs, whatever it does."""
    greedy = [await connect(runner) for _ in range(40 // connections.SHARES)]
    for connection in greedy:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
    assert await ask(await connect(runner)) in (b"HTTP/1.1 503 Service Unavailable", b"")
    modest = await connect(runner, "127.0.0.2")
    assert await ask(modest) == b"HTTP/1.1 200 OK"
    greedy[0][1].close()
    async with asyncio.timeout(HANG_SECONDS):
        while await ask(again := await connect(runner)) != b"HTTP/1.1 200 OK":
            await asyncio.sleep(0.01)
    for connection in (*greedy, modest, again):
        connection[1].close()


async def test_all_addresses_together_have_no_more_than_there_are(runner: Runner) -> None:
    hosts = [f"127.0.0.{2 + nth // 10}" for nth in range(40)]
    held = [await connect(runner, host) for host in hosts]
    for connection in held:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
    assert await ask(await connect(runner, "127.0.0.9")) in (b"HTTP/1.1 503 Service Unavailable", b"")
    for connection in held:
        connection[1].close()


async def test_a_trusted_proxy_may_have_them_all() -> None:
    app = make_app()
    app.router.add_route("*", "/", plain)
    runner = await serve(app, "127.0.0.1", 0, connections_max=20, proxies=(ip_network("127.0.0.0/8"),))
    held = [await connect(runner) for _ in range(20)]
    for connection in held:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
        connection[1].close()
    await runner.cleanup()
