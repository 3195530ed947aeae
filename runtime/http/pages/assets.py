"""Serves uploaded pictures and fonts to anyone, under their URL /assets/{tenant}/{id}.

An id is the hash of the bytes, so a response never changes: browsers and proxies may store it for a year. A process
keeps a few recent ones in memory, for a minute, so that a busy page costs Core one read.
"""

from __future__ import annotations

import base64
import time
from collections import OrderedDict
from typing import Final, NamedTuple

from aiohttp import web

from runtime import messages as m
from runtime.http.edge import Edge
from runtime.http.pages.files import FOREVER
from runtime.operations.assets import READ_ASSET
from runtime.wire import codec

PATH: Final = "/assets/{tenant}/{id}"
CACHED_BYTES_MAX: Final = 16 * 1024 * 1024
CACHED_SECONDS: Final = 60.0

_HEADERS: Final = {
    "Cache-Control": FOREVER,
    "X-Content-Type-Options": "nosniff",
    # If a browser shows the file as a page, nothing in it may run.
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Access-Control-Allow-Origin": "*",  # Browsers load fonts with CORS, and these files are public.
    "Cross-Origin-Resource-Policy": "cross-origin",
}


class _Stored(NamedTuple):
    type: str
    body: bytes
    until: float


def mount(app: web.Application, edge: Edge) -> None:
    """Adds the route."""
    app.router.add_get(PATH, Assets(edge).serve)


class Assets:
    """The files, with a cache of recent ones."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._stored: OrderedDict[tuple[str, str], _Stored] = OrderedDict()
        self._bytes = 0

    async def serve(self, request: web.Request) -> web.Response:
        """NOT_FOUND UNKNOWN_ASSET or UNKNOWN_TENANT."""
        tenant_id = codec.path_text("tenant", request.match_info["tenant"])
        asset_id = codec.path_text("id", request.match_info["id"])
        headers = {**_HEADERS, "ETag": f'"{asset_id}"'}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return web.Response(status=304, headers=headers)
        found = await self._find(tenant_id, asset_id, request)
        return web.Response(body=found.body, headers={**headers, "Content-Type": found.type})

    async def _find(self, tenant_id: str, asset_id: str, request: web.Request) -> _Stored:
        key, now = (tenant_id, asset_id), time.monotonic()
        found = self._stored.get(key)
        if found is not None and now < found.until:
            self._stored.move_to_end(key)
            return found
        await self._edge.tenants.check(tenant_id, request)
        message = m.GetAssetRequest(scope=m.Scope(tenant_id=tenant_id), id=asset_id)
        reply = await self._edge.lookups.call(READ_ASSET, message, request)
        found = _Stored(reply.type, base64.b64decode(reply.content), now + CACHED_SECONDS)
        self._store(key, found)
        return found

    def _store(self, key: tuple[str, str], found: _Stored) -> None:
        if (older := self._stored.pop(key, None)) is not None:
            self._bytes -= len(older.body)
        self._stored[key] = found
        self._bytes += len(found.body)
        while self._bytes > CACHED_BYTES_MAX:
            self._bytes -= len(self._stored.popitem(last=False)[1].body)
