"""sql/audit.sql: the audit log."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import dumps, loads, newest, of, unix
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
def list_(
    st: Statement,
    tenant_id: str,
    subject_type: str,
    subject_id: str,
    actor: str,
    merchant_id: str,
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
    ]
    return [
        {"id": row.entry_id}
        | of(row, "actor action subject_type subject_id")
        | {"before": loads(row.before), "after": loads(row.after), "trace_id": row.trace_id}
        | {"created_at": unix(row.created_at)}
        for row in newest(rows, "entry_id", after, limit)
    ]
