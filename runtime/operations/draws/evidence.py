"""The evidence file of a draw, in parts: JSON lines that anyone can check without this service.

    {"format": "tombola-draw-1", "id", "name", "tickets_root", "ticket_count", "holder_count", "randomness", ...}
    {"holder": "<pseudonym>", "tickets": 3}      one per holder, in order
    {"value", "result": [{"ticket", "holder"}, ...], "result_hash", "drawn_at"}      once the winners are drawn

The last line also has the draw's "entry" in the log and its "leaf_index", once it is there.

runtime/rules/raffle/selection.py defines the hashes and the selection; runtime/commands/evidence/draws.py checks them.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg
import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid, unknown
from runtime.operations.row import Operation
from runtime.rules.raffle.selection import FORMAT, shown_randomness
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("draws")

HOLDERS_PER_PART: Final = 2_000

_HEAD: Final = (
    *("id", "campaign_id", "name", "tickets", "prizes", "alternates"),
    *("tickets_root", "ticket_count", "holder_count", "closed_at"),
)


async def read_draw_file(engine: Engine, request: m.ReadDrawFileRequest) -> m.ReadDrawFileReply:
    """A part of the evidence file. NOT_FOUND UNKNOWN_DRAW while the tickets are not frozen."""
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["evidence"], tenant_id, request.id)
    if row is None:
        raise unknown("draw", request.id)
    first = _position(request.after)
    rows = await engine.database.fetch(_SQL["tickets"], tenant_id, request.id, first, HOLDERS_PER_PART)
    lines: list[Any] = [] if first else [_head(row)]
    lines += [{"holder": one["holder"], "tickets": one["tickets"]} for one in rows]
    after = rows[-1]["first_ticket"] + rows[-1]["tickets"] if rows else row["ticket_count"]
    is_last = after >= row["ticket_count"]
    if is_last and row["drawn_at"]:
        lines.append(_end(row))
    text = b"".join(msgspec.json.encode(line) + b"\n" for line in lines).decode()
    return m.ReadDrawFileReply(lines=text, after="" if is_last else str(after))


def _position(after: str) -> int:
    if not after:
        return 0
    if not (after.isascii() and after.isdigit() and int(after) < 2**63):
        raise invalid("after", "must be the `after` of a part of this file")
    return int(after)


def _head(row: asyncpg.Record) -> dict[str, Any]:
    shown = {name: row[name] for name in _HEAD}
    return {"format": FORMAT, **shown, "randomness": shown_randomness(row["randomness"])}


def _end(row: asyncpg.Record) -> dict[str, Any]:
    shown = {name: row[name] for name in ("result", "result_hash", "drawn_at")}
    leaf = {"leaf_index": row["leaf_index"], "entry": row["entry"]} if row["entry"] else {}
    return {"value": row["randomness"]["value"], **shown, **leaf}


READ_DRAW_FILE: Final = Operation("ReadDrawFile", "GET /draws/{id}/file", run=read_draw_file)
