"""sql/audit.sql: the audit log."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import dumps, like, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("audit.note")
async def note(st: Statement, *args: Any) -> Result:
    names = (
        "tenant_id",
        "entry_id",
        "actor",
        "action",
        "subject_type",
        "subject_id",
        "before",
        "after",
        "trace_id",
        "merchant_id",
    )
    values = dict(zip(names, args, strict=True))
    values |= {"before": dumps(values["before"]), "after": dumps(values["after"])}
    await st.insert("audit_entries", **values)
    return 1


@statement("audit.list")
@statement("audit.list_of_subject")
@statement("audit.list_of_actor")
@statement("audit.list_of_type")
def list_(
    st: Statement,
    tenant_id: str,
    subject_type: str,
    subject_id: str,
    actor: str,
    merchant_id: str,
    action: str,
    since: int,
    until: int,
    pattern: str,
    first: str,
    end: str,
    after: str | None,
    limit: int,
) -> Result:
    rows = [
        row
        for row in st.find("audit_entries", tenant_id=tenant_id)
        if subject_type in ("", row.subject_type)
        and subject_id in ("", row.subject_id)
        and actor in ("", row.actor)
        and merchant_id in ("", row.merchant_id)
        and first <= row.entry_id < end
        and row.action.startswith(action)
        and (since or 0) <= unix(row.created_at)
        and (not until or unix(row.created_at) < until)
        and like(_words(row), pattern)
    ]
    return [
        {"id": row.entry_id}
        | of(row, "actor action subject_type subject_id")
        | {"before": loads(row.before), "after": loads(row.after), "trace_id": row.trace_id}
        | {"created_at": unix(row.created_at)}
        for row in newest(rows, "entry_id", after, limit)
    ]


def _words(row: Any) -> str:
    before, after = loads(row.before) or {}, loads(row.after) or {}
    said = (before.get("name"), after.get("name"), after.get("reason"))
    return " ".join([row.actor, row.action, row.subject_id, *(one or "" for one in said)])
