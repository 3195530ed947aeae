"""An export as it is downloaded: CSV, sent as its client reads it, in parts that Core is asked for one by one.

    GET /admin/exports/{name}?campaign_id&from&to&cursor  ->  text/csv

Nothing is held but a part: a client that reads slowly keeps nothing open in the database. Each reads on and on, though:
a tenant has few under way at a time at an edge, its merchants' staff all but one of them, and the edge has few in all;
one more is refused with 429, to be asked again. Who takes nothing for STALLED_SECONDS is cut off, so that no place is
held for ever. What breaks off has no end (the chunked body is cut), and `cursor`, the first cell of the last whole
line, goes on from there.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.operations.reporting.exports import READ_EXPORT
from runtime.operations.row import REWARD_MANAGERS
from runtime.wire import codec

NAMES: Final = {"campaign_id": "campaign_id", "from": "since", "to": "until", "cursor": "after"}
"""A query's parameter -> the field of Core's message."""

TRIES: Final = 6
PAUSE_SECONDS: Final = 0.5
"""How often, and how far apart, a part is asked for that Core does not give: an export outlives its restart."""


OF_TENANT_MAX: Final = 2
OF_EDGE_MAX: Final = 8
AGAIN_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 120.0


class Places:
    """Who may export at the same time: so many of a tenant's, of which its merchants' one, and so many in all."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._merchants: set[str] = set()

    @contextmanager
    def one(self, tenant_id: str, *, of_merchant: bool = False) -> Iterator[None]:
        """A place for the length of the block. RATE_LIMITED where there is none."""
        # No await from here to the addition: two that come at once would both find the last place.
        full = self._taken[tenant_id] >= OF_TENANT_MAX or self._taken.total() >= OF_EDGE_MAX
        if full or (of_merchant and tenant_id in self._merchants):
            what = "as many exports as run at a time are under way; ask again when one is done"
            raise Fault(
                Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", what, retry_after_seconds=AGAIN_SECONDS, policy="exports"
            )
        self._taken[tenant_id] += 1
        if of_merchant:
            self._merchants.add(tenant_id)
        try:
            yield
        finally:
            if of_merchant:
                self._merchants.remove(tenant_id)
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]


def handler(edge: Edge, scope: Callable[[web.Request], m.Scope]) -> Handler:
    """The handler of exports. Contacts are whole for who may move what was won; for the others they are masked, as they
    are for a merchant's staff where the campaign is the tenant's own.
    """
    reveals = REWARD_MANAGERS.roles(edge.settings.role_matrix)
    places = Places()

    async def answer(request: web.Request) -> web.StreamResponse:
        whose = scope(request)
        with places.one(whose.tenant_id, of_merchant=bool(whose.merchant_id)):
            return await export(request)

    async def export(request: web.Request) -> web.StreamResponse:
        identity = await edge.auth.identify(request)
        asked = {field: request.query[name] for name, field in NAMES.items() if name in request.query}
        message = codec.from_query(m.ReadExportRequest, asked, frozenset({"scope", "name", "reveal", "begins"}))
        message.name, message.scope = request.match_info["name"], scope(request)
        message.reveal = identity is not None and bool(identity.roles & reveals)
        message.begins = True
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
                async with asyncio.timeout(STALLED_SECONDS):
                    await response.write(part.lines.encode())
                if not part.after:
                    return response
                message.after, message.begins = part.after, False
                await edge.auth.identify(request)  # What has been revoked since reads nothing more.
                part = await _persistently(edge, message)
        except (Fault, ConnectionError, TimeoutError):
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
