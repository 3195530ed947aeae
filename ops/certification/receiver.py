"""A receiver of webhooks and workflows: it answers as it is told, remembers what it got, and calls back."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from runtime.outgoing.signing import sign


@dataclass
class Receiver:
    """got: how often each message id came, and posted: in which order. reply: answers instead of 204, where set.

    calling_back: whether workflows are told that their task is delivered.
    """

    http: aiohttp.ClientSession
    url: str = ""
    got: Counter[str] = field(default_factory=Counter)
    posted: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)
    reply: Callable[[web.Request, str], Awaitable[web.StreamResponse]] | None = None
    calling_back: bool = True
    called_back: Counter[tuple[int, str]] = field(default_factory=Counter)
    _calls: set[asyncio.Task[None]] = field(default_factory=set)
    _resets: int = 0

    def reset(self) -> None:
        """Forgets what it got, answers as it did at first, and is somewhere else: what still comes is not heard."""
        self._resets += 1
        self.url = f"{self.url.rpartition('/')[0]}/hook-{self._resets}"
        self.got.clear()
        self.posted.clear()
        self.called_back.clear()
        self.reply, self.calling_back = None, True

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if not self.url.endswith(request.path):
            return web.Response(status=204)
        body = await request.json()
        message_id = request.headers.get("webhook-id", "")
        self.got[message_id] += 1
        self.posted.append((time.monotonic(), message_id, body))
        self._begin_call(message_id, body)
        if self.reply is not None:
            return await self.reply(request, message_id)
        return web.Response(status=204)

    def call_again(self, since: float) -> None:
        """Calls back once more for what it was sent since then: the service has lost what it was told."""
        for message_id, body in {one: body for at, one, body in self.posted if at > since}.items():
            self._begin_call(message_id, body)

    def _begin_call(self, message_id: str, body: dict[str, Any]) -> None:
        url = body.get("data", {}).get("callback_url")
        if url and self.calling_back:
            call = asyncio.ensure_future(self._call_back(url, message_id))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call_back(self, url: str, message_id: str) -> None:
        """As a workflow does when its work is done; it too tries again where nobody answers."""
        from ops.certification.catalogue import SECRET

        body = json.dumps({"status": "delivered", "external_id": message_id}).encode()
        for _ in range(40):
            await asyncio.sleep(0.05)  # The attempt itself is to be noted first, as by a workflow that takes its time.
            headers = sign([SECRET], f"call-{message_id}", int(time.time()), body)
            try:
                async with self.http.post(url, data=body, headers=headers) as answer:
                    envelope = await answer.json()
                    reason = (envelope.get("data") or {}).get("reason", "")
                    self.called_back[answer.status, str(reason)] += 1
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, OSError, TimeoutError):
                self.called_back[0, ""] += 1
            await asyncio.sleep(0.25)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A receiver on a free port of 127.0.0.1."""
    app = web.Application()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    async with aiohttp.ClientSession() as http:
        receiver = Receiver(http)
        app.router.add_post("/{tail:.*}", receiver.handle)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
        try:
            yield receiver
        finally:
            await runner.cleanup()
