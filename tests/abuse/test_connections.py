import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from ipaddress import ip_network

import pytest
from aiohttp import web

from runtime.http import connections
from runtime.http.admission.client_address import Client
from runtime.http.envelope import ok
from runtime.http.serving import Runner, make_app, serve
from tests.support.waiting import HANG_SECONDS, until

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


async def hung_up(connection: Connection) -> bytes:
    said = b""
    async with asyncio.timeout(HANG_SECONDS):
        try:
            while more := await connection[0].read(65_536):
                said += more
        except ConnectionError:
            pass  # a reset is a way of hanging up
    connection[1].close()
    return said


@pytest.mark.parametrize("said", [b"", b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
async def test_request_head_has_a_deadline(runner: Runner, monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    connection = await connect(runner)
    connection[1].write(said)

    async def drip() -> None:
        while said and not connection[1].is_closing():
            connection[1].write(b"a")
            await asyncio.sleep(0.02)

    dripping = asyncio.create_task(drip())
    assert await hung_up(connection) == b""  # Its time was over: what is no request is told so.
    dripping.cancel()


async def test_next_request_head_has_its_own_deadline(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = await connect(runner)
    assert await ask(connection) == b"HTTP/1.1 200 OK"
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    silent = await connect(runner)
    await hung_up(silent)  # The time is over; who has asked already may wait before the next.
    assert await ask(connection) == b"HTTP/1.1 200 OK"
    connection[1].write(b"GET / HT")
    await hung_up(connection)


async def test_slow_body_is_not_bound_by_the_head_deadline(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.1)
    connection = await connect(runner)
    connection[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    await hung_up(await connect(runner))
    assert await ask(connection, b"b") == b"HTTP/1.1 200 OK"


async def test_client_that_reads_few_bytes_is_disconnected(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)
    monkeypatch.setattr(connections, "UNREAD_BYTES_PER_SECOND", 10 * len(LARGE))
    reader, writer = await leave_unread(runner)

    async def trickle() -> None:
        with suppress(ConnectionError):
            while await reader.read(1_000):
                await asyncio.sleep(0.01)

    trickling = asyncio.create_task(trickle())
    await until(lambda: not server_of(runner).connections)
    writer.transport.abort()
    await trickling


async def test_unread_response_bytes_are_bounded(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 3 * len(LARGE)
    monkeypatch.setattr(connections, "UNREAD_BYTES_MAX", most)
    greedy = [await leave_unread(runner) for _ in range(8)]
    assert 1 < len(server_of(runner).connections) < 8
    assert sum(unread(runner)) <= most
    modest = await connect(runner, "127.0.0.2")
    assert await ask(modest, b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n") == b"HTTP/1.1 200 OK"
    for _, writer in (*greedy, modest):
        writer.transport.abort()


def server_of(runner: Runner) -> web.Server:
    return runner.server


def unread(runner: Runner) -> list[int]:
    transports = [handler.transport for handler in server_of(runner).connections]
    return [transport.get_write_buffer_size() for transport in transports if transport is not None]


async def leave_unread(runner: Runner) -> Connection:
    """A connection that has asked for something large, and takes no more of it than the sockets hold."""
    reader, writer = await connect(runner)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(HANG_SECONDS):
        await reader.readuntil(b"\r\n\r\n")
    return reader, writer


async def test_slow_reader_gets_the_whole_response(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    # Reading takes longer than this, at a faster rate than that. The last 64 KiB have these seconds to themselves.
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 3.0)
    monkeypatch.setattr(connections, "UNREAD_BYTES_PER_SECOND", len(LARGE) // 200)
    reader, writer = await connect(runner)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(HANG_SECONDS):
        await reader.readuntil(b"\r\n\r\n")
        left = len(LARGE)
        while left and (more := len(await reader.read(2**20))):
            left -= more
            await asyncio.sleep(0.05)
    assert left == 0
    writer.close()


async def test_address_has_a_bounded_share_of_connections(runner: Runner) -> None:
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


async def test_connections_of_all_addresses_are_bounded(runner: Runner) -> None:
    held = [await connect(runner, f"127.0.0.{2 + nth // 10}") for nth in range(40)]
    for connection in held:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
        connection[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
    await until(lambda: server_of(runner).requests_count >= 80)
    assert await ask(await connect(runner, "127.0.0.9")) in (b"HTTP/1.1 503 Service Unavailable", b"")
    for connection in held:
        assert await ask(connection, b"b") == b"HTTP/1.1 200 OK"
        connection[1].close()


async def test_address_with_most_idle_connections_loses_them_first(runner: Runner) -> None:
    """Otherwise four addresses could block a port with one cheap request a minute."""
    held = [await connect(runner, f"127.0.0.{2 + nth // 10}") for nth in range(40)]
    for connection in held:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
    modest = [await connect(runner, f"127.0.0.{9 + nth}") for nth in range(8)]
    for connection in modest:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
    assert await ask(await connect(runner, "127.0.0.2")) in (b"HTTP/1.1 503 Service Unavailable", b"HTTP/1.1 200 OK")
    lost = [connection for connection in held if connection[0].at_eof()]
    assert 8 <= len(lost) <= 9
    for connection in (*held, *modest):
        connection[1].close()


async def test_process_with_too_low_a_file_limit_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_files_allowed", lambda wanted: connections.FILES_SPARE)
    with pytest.raises(RuntimeError, match="limit of open files is 256"):
        await serve(make_app(), "127.0.0.1", 0)


async def test_trusted_proxy_may_use_all_connections() -> None:
    app = make_app()
    app.router.add_route("*", "/", plain)
    runner = await serve(app, "127.0.0.1", 0, connections_max=20, proxies=(ip_network("127.0.0.0/8"),))
    held = [await connect(runner) for _ in range(20)]
    for connection in held:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
        connection[1].close()
    await runner.cleanup()


async def test_network_share_is_bounded_over_all_its_addresses(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each address of an IPv6 /48 would get its own share."""

    def peer_client(peer: str, _: object) -> Client:
        return Client(peer, "a network" if peer < "127.0.0.6" else "another")

    monkeypatch.setattr(connections, "peer_client", peer_client)
    walked = [await connect(runner, f"127.0.0.{2 + nth % 4}") for nth in range(40 // connections.NETWORK_SHARES)]
    for connection in walked:
        assert await ask(connection) == b"HTTP/1.1 200 OK"
    assert await ask(await connect(runner, "127.0.0.5")) in (b"HTTP/1.1 503 Service Unavailable", b"")
    modest = await connect(runner, "127.0.0.7")
    assert await ask(modest) == b"HTTP/1.1 200 OK"
    for connection in (*walked, modest):
        connection[1].close()
