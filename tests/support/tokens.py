"""Tokens of ours, and an issuer of others whose JWKS document is what a test says."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from runtime.errors import Fault
from runtime.http.auth.tokens import Tokens

SECRET = "s" * 32


def own_tokens(**options: Any) -> Tokens:
    return Tokens(SECRET, issuer="tombola", audience="edge", staff_audience="staff", **options)


def claims(**changes: Any) -> dict[str, Any]:
    """The claims of a player's token; None leaves one out."""
    now = int(time.time())
    standard = {"iss": "tombola", "aud": "edge", "sub": "player_1", "tenant_id": "tenant_1", "roles": []}
    full: dict[str, Any] = {**standard, "iat": now, "exp": now + 60, **changes}
    return {name: value for name, value in full.items() if value is not None}


async def reason_of(tokens: Tokens, token: str) -> str:
    with pytest.raises(Fault) as caught:
        await tokens.verify(token)
    assert caught.value.http == 401
    return caught.value.reason


class Issuer:
    """Counts how often it is asked. padding: characters that its document has at least."""

    def __init__(self) -> None:
        self.document: Any = {"keys": []}
        self.status, self.padding, self.asked, self.url = 200, 0, 0, ""
        self.begun, self.may_answer = asyncio.Event(), asyncio.Event()
        self.may_answer.set()

    async def answer(self, _: web.Request) -> web.Response:
        self.asked += 1
        self.begun.set()
        await self.may_answer.wait()
        return web.Response(text=json.dumps(self.document).ljust(self.padding), status=self.status)


@asynccontextmanager
async def serving_issuer(*keys: dict[str, Any]) -> AsyncIterator[Issuer]:
    issuer, app = Issuer(), web.Application()
    issuer.document["keys"] += keys
    app.router.add_get("/jwks", issuer.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
    yield issuer
    issuer.may_answer.set()
    await runner.cleanup()
