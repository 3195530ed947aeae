"""Streams the evidence file of a draw.

    GET /draws/{id}/file  ->  application/x-ndjson

Anyone may read it, so the downloads at one time are limited per client address and IPv6 network; another one gets 429.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.http.admission.client_address import client_of
from runtime.http.auth.identity import not_staff
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.http.feeds.downloads import JSON_LINES, Slots, persistently, send
from runtime.operations.draws.evidence import READ_DRAW_FILE
from runtime.wire import codec

OF_EDGE_MAX: Final = 32
OF_NETWORK_MAX: Final = 8
"""Of an IPv6 /48, which one subscriber may have with 65,536 addresses (/64)."""


def handler(edge: Edge) -> Handler:
    """The handler of evidence files."""
    slots, networks = Slots("downloads", OF_EDGE_MAX), Slots("downloads", OF_EDGE_MAX, OF_NETWORK_MAX)

    async def answer(request: web.Request) -> web.StreamResponse:
        scope = await edge.checked_scope(request, not_staff(await edge.auth.identify(request)))
        draw_id = codec.path_text("id", request.match_info["id"])
        message = m.ReadDrawFileRequest(scope=m.Scope(tenant_id=scope.tenant_id), id=draw_id)
        headers = {"Content-Type": JSON_LINES, "Content-Disposition": f'attachment; filename="{message.id}.jsonl"'}
        client = client_of(request, edge.settings.trusted_proxies)
        with slots.one(client.address), networks.one(client.network or client.address):
            return await send(request, headers, parts(request, message))

    async def parts(request: web.Request, message: m.ReadDrawFileRequest) -> AsyncIterator[str]:
        part: m.ReadDrawFileReply = await edge.lookups.call(READ_DRAW_FILE, message, request)
        yield part.lines
        while part.after:
            message.after = part.after
            part = await persistently(lambda: edge.caller.call(READ_DRAW_FILE, message))
            yield part.lines

    return answer
