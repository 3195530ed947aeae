import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from aiohttp import web

from runtime.errors import Fault, Status
from runtime.http import connections, serving
from runtime.http.bodies import read_body
from runtime.http.envelope import ok
from runtime.http.serving import Runner, make_app, serve
from runtime.http.short_path import ShortPath
from tests.support.waiting import HANG_SECONDS, until

HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\ntraceparent: 00-%b-00f067aa0ba902b7-01\r\n" % (b"4b" * 16)
PLAIN = HEAD + b"Content-Length: 4\r\n\r\n1234"
OTHERS = {"pipelined": PLAIN + PLAIN, "chunked": HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n0\r\n\r\n"}
OTHERS |= {"expect": HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n1234"}
OTHERS |= {"1.0": PLAIN.replace(b" HTTP/1.1", b" HTTP/1.0").replace(b"Host: x", b"Host: x\r\nConnection: keep-alive")}
OTHERS |= {"closing": HEAD + b"Connection: close\r\nContent-Length: 4\r\n\r\n1234"}
OTHERS |= {"get": HEAD.replace(b"POST", b"GET") + b"\r\n", "garbage": b"garbage\r\n\r\n"}
SAME = {
    "plain": PLAIN,
    "no body": HEAD + b"Content-Length: 0\r\n\r\n",
    "unknown": PLAIN.replace(b"/echo", b"/nowhere"),
    "refused": PLAIN.replace(b"/echo", b"/refuse"),
    "too large": HEAD + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000,
    "breaks": PLAIN.replace(b"/echo", b"/breaks"),
    "streamed": PLAIN.replace(b"/echo", b"/stream"),
    "cookie": PLAIN.replace(b"/echo", b"/cookie"),
    **OTHERS,
}


class Site:
    """A server on a free port. short: whether each request so far took the short path."""

    def __init__(self, runner: Runner, short: list[bool], began: asyncio.Event, go_on: asyncio.Event) -> None:
        self.runner, self.short, self.began, self.go_on = runner, short, began, go_on

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.runner.addresses[0][:2])

    async def begin_slow(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(PLAIN.replace(b"/echo", b"/slow"))
        await self.began.wait()
        return reader, writer

    @property
    def connections(self) -> list[web.RequestHandler]:
        return self.runner.server.connections


@asynccontextmanager
async def site(*, short_path: bool = True, shutdown_seconds: float = HANG_SECONDS) -> AsyncIterator[Site]:
    short: list[bool] = []
    began, go_on = asyncio.Event(), asyncio.Event()

    def note(request: web.Request) -> None:
        assert isinstance(request.protocol, ShortPath)
        short.append(request.protocol._answering is asyncio.current_task())

    async def echo(request: web.Request) -> web.Response:
        note(request)
        return ok((await read_body(request)).decode(), headers={"X-A": "1"})

    async def refuse(request: web.Request) -> web.Response:
        raise Fault(Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", "slowly", retry_after_seconds=1.2)

    async def breaks(request: web.Request) -> web.Response:
        raise RuntimeError("a bug")

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a")
        await response.write_eof(b"b")
        return response

    async def cookie(request: web.Request) -> web.Response:
        response = ok({})
        response.set_cookie("a", "b")
        return response

    async def slow(request: web.Request) -> web.Response:
        note(request)
        began.set()
        await go_on.wait()
        return ok("slow")

    app = make_app(body_bytes_max=1000)
    app.router.add_route("*", "/echo", echo)
    for handler in (refuse, breaks, stream, cookie, slow):
        app.router.add_post(f"/{handler.__name__}", handler)
    runner = await serve(app, "127.0.0.1", 0, shutdown_seconds=shutdown_seconds, short_path=short_path)
    yield Site(runner, short, began, go_on)
    go_on.set()
    await runner.cleanup()


async def exchange(own: Site, sent: bytes) -> bytes:
    """Everything that a connection receives for these bytes and one more plain request, without times and trace ids."""
    reader, writer = await own.connect()
    writer.write(sent)
    async with asyncio.timeout(HANG_SECONDS):
        received = await reader.read(65536)
        writer.write(PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        received += await reader.read()
    writer.close()
    return re.sub(rb'Date: [^\r]+|"trace_id":"[^"]+"', b"", received)


@pytest.mark.parametrize("sent", SAME.values(), ids=SAME.keys())
async def test_answer_is_the_same_bytes_with_and_without_the_short_path(sent: bytes) -> None:
    async with site() as on, site(short_path=False) as off:
        assert await exchange(on, sent) == await exchange(off, sent)


@pytest.mark.parametrize("sent", OTHERS.values(), ids=OTHERS.keys())
async def test_only_a_plain_post_takes_the_short_path(sent: bytes) -> None:
    async with site() as own:
        await exchange(own, sent)
        assert not any(own.short)
        reader, writer = await own.connect()
        for _ in range(2):
            writer.write(PLAIN)
            await reader.readuntil(b'"1234"}')
        writer.close()
        assert own.short[-2:] == [True, True]


async def test_late_body_takes_the_way_of_aiohttp() -> None:
    async with site() as own:
        reader, writer = await own.connect()
        writer.write(PLAIN[:-1])
        await until(lambda: any(one._request_in_progress for one in own.connections))
        writer.write(PLAIN[-1:])
        await reader.readuntil(b'"1234"}')
        writer.close()
        assert own.short == [False]


async def test_request_sent_before_the_answer_is_answered_after_it() -> None:
    async with site() as own:
        reader, writer = await own.begin_slow()
        writer.write(PLAIN + PLAIN)
        await until(lambda: own.connections[0]._messages)
        own.go_on.set()
        async with asyncio.timeout(HANG_SECONDS):
            received = await reader.readuntil(b'"1234"}') + await reader.readuntil(b'"1234"}')
        assert received.index(b'"slow"') < received.index(b'"1234"')
        assert own.short == [True, False, False]
        writer.close()


async def test_hang_up_ends_the_tasks_of_the_connection() -> None:
    async with site() as own:
        before = len(asyncio.all_tasks())
        _, writer = await own.begin_slow()
        writer.transport.abort()
        await writer.wait_closed()
        own.go_on.set()
        await until(lambda: not own.connections and len(asyncio.all_tasks()) <= before)


async def test_shutdown_sends_the_answer_and_then_closes() -> None:
    async with site() as own:
        reader, writer = await own.begin_slow()
        stopping = asyncio.create_task(own.runner.cleanup())
        await until(lambda: own.connections[0]._close)
        own.go_on.set()
        async with asyncio.timeout(HANG_SECONDS):
            assert (await reader.read()).endswith(b'"data":"slow"}')
            await stopping
        writer.close()


async def test_request_that_outlasts_the_drain_is_cancelled() -> None:
    async with site(shutdown_seconds=0.1) as own:
        _, writer = await own.begin_slow()
        protocol = cast(ShortPath, own.connections[0])
        await own.runner.cleanup()
        await asyncio.sleep(0)  # sleeps: yields to the cancelled task.
        assert protocol._answering is None
        writer.close()


async def test_answer_announces_the_end_once_the_server_says_goodbye() -> None:
    async with site() as own:
        reader, writer = await own.begin_slow()
        assert isinstance(own.runner.server, connections.Server)
        goodbye = asyncio.create_task(own.runner.server.say_goodbye(HANG_SECONDS))
        await asyncio.sleep(0)  # sleeps: yields to the task.
        own.go_on.set()
        async with asyncio.timeout(HANG_SECONDS):
            assert b"\r\nConnection: close\r\n" in await reader.read()
            await goodbye
        writer.close()


async def test_idle_connection_ends_after_the_keep_alive_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "KEEPALIVE_SECONDS", 0.1)
    async with site() as own:
        reader, writer = await own.begin_slow()
        await until(lambda: own.connections[0]._keepalive_handle is None)  # The timer fired during the answer.
        own.go_on.set()
        async with asyncio.timeout(HANG_SECONDS):
            assert (await reader.read()).endswith(b'"slow"}')
        writer.close()
