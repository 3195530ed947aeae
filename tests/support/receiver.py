"""A receiver of webhooks: a real HTTP server that answers as it is told and remembers what it got."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from tests.support.waiting import HANG_SECONDS


@dataclass(frozen=True)
class Got:
    path: str
    headers: Any
    body: bytes
    closing: asyncio.Event
    request: web.Request

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


Reply = Callable[[Got], Awaitable[web.StreamResponse]]


class Receiver:
    """`got` is filled as requests come; `replies` answer them in turn, then 204 for ever."""

    def __init__(self) -> None:
        self.url = ""
        self.got: asyncio.Queue[Got] = asyncio.Queue()
        self.all: list[Got] = []
        self.replies: list[Reply] = []
        self.closing = asyncio.Event()

    async def next(self) -> Got:
        async with asyncio.timeout(HANG_SECONDS):
            return await self.got.get()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        got = Got(request.path, request.headers.copy(), await request.read(), self.closing, request)
        self.all.append(got)
        self.got.put_nowait(got)
        return await self.replies.pop(0)(got) if self.replies else web.Response(status=204)


def status(number: int, **headers: str) -> Reply:
    async def reply(got: Got) -> web.StreamResponse:
        return web.Response(status=number, headers={name.replace("_", "-"): value for name, value in headers.items()})

    return reply


async def hang(got: Got) -> web.StreamResponse:
    await got.closing.wait()
    return web.Response(status=500)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", receiver.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield receiver
    finally:
        receiver.closing.set()
        await runner.cleanup()
