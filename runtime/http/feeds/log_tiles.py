"""Serves a tenant's log in the format of C2SP tlog-tiles.

    GET /log/{tenant}/checkpoint             the newest signed checkpoint; for anyone
    GET /log/{tenant}/stamp                  the newest stamped checkpoint, and its stamp, as JSON; for anyone
    GET /log/{tenant}/tile/{L}/{N}[.p/{W}]   the hashes of a tile; for anyone
    GET /admin/log/checkpoint, /admin/log/stamp, /admin/log/tile/...         the same for staff
    GET /admin/log/checkpoint?fresh=true     the same, after the rows of now were appended
    GET /admin/log/tile/entries/{N}[.p/{W}]  an entry bundle; for staff

A tenant that does not exist gets the same responses as one without a log, so that tenants cannot be probed.

A tile never changes, so caches may keep a public one. The URLs for staff do not name the tenant, so a cache would serve
one tenant's tile to another: no cache may keep those. Entry bundles are made of the rows as they are now.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status, invalid
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.http.pages.files import FOREVER
from runtime.operations.log import (
    READ_FRESH_LOG_CHECKPOINT,
    READ_LOG_CHECKPOINT,
    READ_LOG_ENTRIES,
    READ_LOG_STAMP,
    READ_LOG_TILE,
)
from runtime.rules.log.tiles import parse_tile
from runtime.wire import codec

CHECKPOINT: Final = "/checkpoint"
STAMP: Final = "/stamp"
TILE: Final = "/tile/{path:.+}"

PUBLIC: Final = "public, max-age=5"
"""How long a cache may keep a checkpoint or a stamp."""

NO_STORE: Final = "no-store"

_MISSING: Final = {
    "UNKNOWN_LOG": "there is no log, or it has no checkpoint yet",
    "UNKNOWN_STAMP": "there is no log, or no time-stamping authority has stamped it yet",
    "UNKNOWN_TILE": "there is no such tile, or the log has not grown so far yet",
}

Scoped = Callable[[web.Request], Awaitable[m.Scope]]


def of_tenant(edge: Edge) -> Scoped:
    """The scope of a public request: the tenant in its path. NOT_FOUND UNKNOWN_TENANT."""

    async def scope(request: web.Request) -> m.Scope:
        tenant_id = codec.path_text("tenant", request.match_info["tenant"])
        await edge.tenants.check(tenant_id, request)
        return m.Scope(tenant_id=tenant_id)

    return scope


def checkpoint_handler(edge: Edge, scope: Scoped, *, staff: bool) -> Handler:
    """The handler of checkpoints. staff: on the admin edge. NOT_FOUND UNKNOWN_LOG before the first."""

    async def answer(request: web.Request) -> web.StreamResponse:
        owner = await _owner(scope, request, "UNKNOWN_LOG")
        fresh = request.query.get("fresh", "false") if staff else "false"
        if fresh not in ("true", "false"):
            raise invalid("fresh", "must be true or false")
        operation = READ_FRESH_LOG_CHECKPOINT if fresh == "true" else READ_LOG_CHECKPOINT
        reply: m.ReadLogCheckpointReply = await edge.caller.call(operation, m.ReadLogCheckpointRequest(scope=owner))
        if not reply.note:
            raise _missing("UNKNOWN_LOG")
        return _response(reply.note.encode(), "text/plain; charset=utf-8", NO_STORE if staff else PUBLIC)

    return answer


def stamp_handler(edge: Edge, scope: Scoped, *, staff: bool) -> Handler:
    """The handler of stamps. staff: on the admin edge. NOT_FOUND UNKNOWN_STAMP before the first."""

    async def answer(request: web.Request) -> web.StreamResponse:
        message = m.ReadLogCheckpointRequest(scope=await _owner(scope, request, "UNKNOWN_STAMP"))
        reply: m.ReadLogStampReply = await edge.caller.call(READ_LOG_STAMP, message)
        if not reply.stamp:
            raise _missing("UNKNOWN_STAMP")
        body = json.dumps({"checkpoint": reply.note, "stamp": reply.stamp}).encode()
        return _response(body, "application/json", NO_STORE if staff else PUBLIC)

    return answer


def tile_handler(edge: Edge, scope: Scoped, *, staff: bool) -> Handler:
    """The handler of tiles. staff: on the admin edge, also bundles. NOT_FOUND UNKNOWN_TILE beyond the log's end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        path = codec.path_text("path", request.match_info["path"])
        tile = parse_tile(path)
        if tile is None or (tile.entries and not staff):
            raise _missing("UNKNOWN_TILE")
        owner = await _owner(scope, request, "UNKNOWN_TILE")
        if tile.entries and owner.merchant_id:
            raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "entries are for the tenant's own staff")
        message = m.ReadLogTileRequest(scope=owner, level=tile.level, number=tile.number, width=tile.width)
        operation = READ_LOG_ENTRIES if tile.entries else READ_LOG_TILE
        reply: m.ReadLogTileReply = await edge.caller.call(operation, message)
        if not reply.content:
            raise _missing("UNKNOWN_TILE")
        return _response(base64.b64decode(reply.content), "application/octet-stream", NO_STORE if staff else FOREVER)

    return answer


async def _owner(scope: Scoped, request: web.Request, reason: str) -> m.Scope:
    """The request's scope. NOT_FOUND with the reason if there is no such tenant."""
    try:
        return await scope(request)
    except Fault as fault:
        raise (_missing(reason) if fault.status is Status.NOT_FOUND else fault) from None


def _missing(reason: str) -> Fault:
    return Fault(Status.NOT_FOUND, reason, _MISSING[reason])


def _response(body: bytes, content_type: str, caching: str) -> web.Response:
    headers = {"Content-Type": content_type, "Cache-Control": caching, "X-Content-Type-Options": "nosniff"}
    return web.Response(body=body, headers=headers)
