"""Exports: everything of a kind as lines of CSV, a part at a time, the oldest first.

A part looks at so many rows in the order of their keys, whatever is asked for of them, so each is quick, none holds a
transaction open while somebody reads slowly, and a million rows take no more memory than a thousand. A line's first
cell is its row's key, and what a part begins after: whoever was cut off goes on from the last whole line, and gets
every row once. That a download began, or goes on, is in the audit log: it hands out what is held of many people.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid, unknown
from runtime.operations import audit
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.row import Operation
from runtime.wire.contacts import masked
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("exports")

ROWS: Final = 2_000
"""Rows that a part looks at: some hundred kilobytes, and a few milliseconds of everybody's."""

CONTACTS: Final = frozenset({"email", "phone"})
NAMES: Final = frozenset({"display_name", "locale"})

SLACK_SECONDS: Final = 3600.0
"""By how much the time in a row's key may be off the row's own: keys are made by the clock of whoever makes them."""

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a cell begins with that a spreadsheet would take for a formula; some take the full-width forms, too."""


class _Kind(NamedTuple):
    """An export. prefix: of its keys, which carry the time that the row was made at; "": they do not."""

    statement: str
    prefix: str = ""


EXPORTS: Final = {
    "plays": _Kind(_SQL["plays"], "play"),
    "rewards": _Kind(_SQL["rewards"], "reward"),
    "winners": _Kind(_SQL["winners"], "reward"),
    "ledger": _Kind(_SQL["ledger"]),
    "tasks": _Kind(_SQL["tasks"], "task"),
    "audit": _Kind(_SQL["audit"], "audit"),
}
"""What there is to export, by its name."""


_BESIDE: Final = frozenset({"seen", "seen_until", "theirs"})
"""Columns that are no part of a line."""


async def read_export(engine: Engine, request: m.ReadExportRequest) -> m.ReadExportReply:
    """A part of an export, as lines of CSV; where it begins a download, that is noted. NOT_FOUND UNKNOWN_CAMPAIGN."""
    tenant_id, merchant_id, campaign_id = tenant_of(request), merchant_of(request), request.campaign_id
    checks = Checks()
    kind = EXPORTS.get(request.name)
    if kind is None:
        raise invalid("name", f"must be one of {', '.join(EXPORTS)}")
    checks.between("since", request.since, 0, TIME_MAX)
    checks.between("until", request.until, 0, TIME_MAX)
    checks.raise_found()
    if campaign_id and not await engine.database.fetchval(_SQL["campaign"], tenant_id, campaign_id, merchant_id):
        raise unknown("campaign", campaign_id)
    after = _after(kind, request, engine.settings.session_ttl_seconds + SLACK_SECONDS)
    about = (tenant_id, merchant_id, campaign_id, request.since, request.until, *after)
    rows = await engine.database.fetch(kind.statement, *about, ROWS)
    first = rows[0]
    more = first["seen"] == ROWS and not _is_past(kind, first["seen_until"], request.until)
    names = [name for name in first.keys() if name not in _BESIDE]  # noqa: SIM118  a record iterates over its values
    key, *_ = names
    lines = [_cells(row, names, reveal=request.reveal) for row in rows if row[key] is not None]
    if request.begins or not request.after:
        trace.merchant.set(merchant_id)
        asked = {
            "campaign_id": campaign_id,
            "from": request.since,
            "to": request.until,
            "cursor": request.after,
            "whole_contacts": request.reveal and not CONTACTS.isdisjoint(names),
        }

        async def note(connection: asyncpg.Connection) -> None:
            await audit.record(connection, tenant_id, "export.read", request.name, after=asked)

        await engine.database.transaction(note)
    return m.ReadExportReply(
        head=_written([names]),
        lines=_written(lines),
        rows=len(lines),
        after=first["seen_until"] if more else "",
    )


def _after(kind: _Kind, request: m.ReadExportRequest, slack_seconds: float) -> tuple[Any, ...]:
    """The key that the part begins after, as the statement takes it. INVALID_ARGUMENT for what is none."""
    if not kind.prefix:
        return _ledger_key(request.after) if request.after else ("", 0, "")
    since = ids.earliest(kind.prefix, request.since - slack_seconds) if request.since else ""
    return (max(request.after, since),)


def _ledger_key(text: str) -> tuple[str, int, str]:
    """(player, seq, entry): the primary key, in whose order entries lie."""
    seq, _, rest = text.partition("/")
    entry_id, _, player_id = rest.partition("/")
    if not (seq.isascii() and seq.isdigit() and int(seq) < 2**63):
        raise invalid("after", "must be the first cell of a line of this export")
    return player_id, int(seq), entry_id


def _is_past(kind: _Kind, key: str, until: int) -> bool:
    """Whether whatever has a later key was made after `until`."""
    if until and kind.prefix:
        with suppress(ValueError):
            return ids.unix_ms(key.removeprefix(f"{kind.prefix}_")) > (until + SLACK_SECONDS) * 1000
    return False


def _cells(row: asyncpg.Record, names: Sequence[str], *, reveal: bool) -> list[Any]:
    theirs = row.get("theirs", True)
    return [harmless(_shown(name, row[name], reveal=reveal and theirs, theirs=theirs)) for name in names]


def _shown(name: str, cell: Any, *, reveal: bool, theirs: bool) -> Any:
    """Contacts masked where they are not to be revealed; of a winner who is not theirs, no name."""
    if cell and name in CONTACTS and not reveal:
        return masked(cell)
    return None if name in NAMES and not theirs else cell


def harmless(cell: Any) -> Any:
    """The cell such that no spreadsheet takes it for a formula (OWASP, "CSV injection")."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _written(rows: Iterable[Sequence[Any]]) -> str:
    """RFC 4180: lines end with CR LF."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()


READ_EXPORT: Final = Operation(
    "ReadExport", "GET /exports", run=read_export, withheld=True, refusals=("UNKNOWN_CAMPAIGN",)
)
