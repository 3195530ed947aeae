"""Streams exports as CSV, JSON lines or Parquet, in pages read from Core one by one as the client reads.

    GET /admin/exports/{name}?campaign_id&from&to&cursor&consent&format

The exports of a tenant at one time are limited (downloads.py), of which merchant staff may run one; another one gets
429. `cursor`, the first cell of the last complete line, resumes an interrupted export, but not as Parquet: its
footer describes the whole file.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status, invalid, violations
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.http.feeds import parquet
from runtime.http.feeds.downloads import JSON_LINES, Slots, persistently, send
from runtime.operations.reporting.exports import READ_EXPORT
from runtime.operations.row import REWARD_MANAGERS
from runtime.wire import codec

NAMES: Final = {
    "campaign_id": "campaign_id",
    "from": "since",
    "to": "until",
    "cursor": "after",
    "consent": "consent",
}
"""Query parameter -> field of Core's message."""

PARAMETERS: Final = {field: name for name, field in NAMES.items()}

CONTENT_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": JSON_LINES, "parquet": parquet.CONTENT_TYPE}
"""Format -> content type."""

OF_EDGE_MAX: Final = 8


def handler(edge: Edge, scope: Callable[[web.Request], m.Scope]) -> Handler:
    """The handler of exports. Contacts are unmasked for roles that may fulfil rewards, and masked for others. Merchant
    staff see them masked in the tenant's own campaigns.
    """
    reveals = REWARD_MANAGERS.roles(edge.settings.role_matrix)
    slots = Slots("exports", OF_EDGE_MAX)

    async def answer(request: web.Request) -> web.StreamResponse:
        owner = scope(request)
        with slots.one(owner.tenant_id, of_merchant=bool(owner.merchant_id)):
            return await export(request)

    async def export(request: web.Request) -> web.StreamResponse:
        identity = await edge.auth.identify(request)
        fields = {field: request.query[name] for name, field in NAMES.items() if name in request.query}
        with _parameters_named():
            hidden = frozenset({"scope", "name", "reveal", "begins", "json"})
            message = codec.from_query(m.ReadExportRequest, fields, hidden)
        message.name, message.scope = codec.path_text("name", request.match_info["name"]), scope(request)
        message.reveal = identity is not None and bool(identity.roles & reveals)
        form = _format(request)
        message.begins, message.json = True, form != "csv"
        headers = {
            "Content-Type": CONTENT_TYPES[form],
            "Content-Disposition": f'attachment; filename="{message.name}.{form}"',
            "Cache-Control": "no-store",
        }
        found = pages(request, message)
        return await send(request, headers, parquet.file(found) if form == "parquet" else lines(found, message.after))

    async def pages(request: web.Request, message: m.ReadExportRequest) -> AsyncIterator[m.ReadExportReply]:
        part = await _part(edge, message)
        columns = part.columns
        yield part
        while part.after:
            message.after, message.begins = part.after, False
            await edge.auth.identify(request)  # Stops if the token was revoked meanwhile.
            part = await persistently(lambda: _part(edge, message))
            if part.columns != columns:  # Its cells would be under the names of others.
                raise Fault(Status.ABORTED, "STALE_REVISION", "a form has changed during the export")
            yield part

    async def lines(found: AsyncIterator[m.ReadExportReply], after: str) -> AsyncIterator[str]:
        part = await anext(found)
        yield part.lines if after else part.head + part.lines
        async for part in found:
            yield part.lines

    return answer


def _format(request: web.Request) -> str:
    """The query's `format`; csv is the default."""
    chosen = request.query.get("format", "csv")
    if chosen not in CONTENT_TYPES:
        raise invalid("format", f"must be one of {', '.join(CONTENT_TYPES)}")
    if chosen == "parquet" and not parquet.is_available():
        raise invalid("format", "parquet needs the extra `parquet`: pip install 'tombola[parquet]'")
    return chosen


@contextmanager
def _parameters_named() -> Iterator[None]:
    """Violations raised in the block name the query's parameters instead of the message's fields."""
    try:
        yield
    except Fault as fault:
        if "violations" not in fault.facts:
            raise
        found = [(row["field"], row["description"]) for row in fault.facts["violations"]]
        raise violations((PARAMETERS.get(field, field), text) for field, text in found) from None


async def _part(edge: Edge, message: m.ReadExportRequest) -> m.ReadExportReply:
    with _parameters_named():
        reply: m.ReadExportReply = await edge.caller.call(READ_EXPORT, message)
    return reply
