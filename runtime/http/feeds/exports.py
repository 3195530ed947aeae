"""An export as it is downloaded: CSV, sent as its client reads it, in parts that Core is asked for one by one.

    GET /admin/exports/{name}?campaign_id&from&to&cursor  ->  text/csv

Nothing is held but a part: a client that reads slowly keeps nothing open in the database. What breaks off has no end
(the chunked body is cut), and `cursor`, the first cell of the last whole line, goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.operations.figures.exports import READ_EXPORT
from runtime.operations.row import REWARD_MANAGERS
from runtime.wire import codec

NAMES: Final = {"campaign_id": "campaign_id", "from": "since", "to": "until", "cursor": "after"}
"""A query's parameter -> the field of Core's message."""

TRIES: Final = 6
PAUSE_SECONDS: Final = 0.5
"""How often, and how far apart, a part is asked for that Core does not give: an export outlives its restart."""


def handler(edge: Edge, scope: Callable[[web.Request], m.Scope]) -> Handler:
    """The handler of exports. Contacts are whole for who may move what was won; for the others they are masked."""
    reveals = REWARD_MANAGERS.roles(edge.settings.role_matrix)

    async def answer(request: web.Request) -> web.StreamResponse:
        identity = await edge.auth.identify(request)
        asked = {field: request.query[name] for name, field in NAMES.items() if name in request.query}
        message = codec.from_query(m.ReadExportRequest, asked, frozenset({"scope", "name", "reveal"}))
        message.name, message.scope = request.match_info["name"], scope(request)
        message.reveal = identity is not None and bool(identity.roles & reveals)
        part = await _part(edge, message)  # Before the answer begins: a refusal is an answer of its own.
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/csv; charset=utf-8",
                "Content-Disposition": f'attachment; filename="{message.name}.csv"',
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            }
        )
        await response.prepare(request)
        try:
            if not message.after:
                await response.write(part.head.encode())
            while True:
                await response.write(part.lines.encode())
                if not part.after:
                    return response
                message.after = part.after
                await edge.auth.identify(request)  # What has been revoked since reads nothing more.
                part = await _persistently(edge, message)
        except (Fault, ConnectionError):
            if request.transport is not None:
                request.transport.abort()  # No end is sent: who reads it knows that there is more.
            return response

    return answer


async def _persistently(edge: Edge, message: m.ReadExportRequest) -> m.ReadExportReply:
    left = TRIES
    while True:
        try:
            return await _part(edge, message)
        except Fault as fault:
            left -= 1
            if fault.status is not Status.UNAVAILABLE or not left:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _part(edge: Edge, message: m.ReadExportRequest) -> m.ReadExportReply:
    reply: m.ReadExportReply = await edge.caller.call(READ_EXPORT, message)
    return reply
