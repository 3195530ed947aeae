"""sql/keyring.sql: which keys the processes that live have, and use."""

from __future__ import annotations

from ops.simulation.postgres.values import of
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("keyring.take_turns")
async def take_turns(st: Statement, key: int) -> Result:
    await st.store.hold_advisory(st.tx, key)
    return [{"pg_advisory_xact_lock": None}]


@statement("keyring.others")
def others(st: Statement, tenant_id: str, holder_id: str, seconds: float) -> Result:
    rows = [
        row
        for row in st.find("key_holders", tenant_id=tenant_id)
        if row.holder_id != holder_id and row.seen_at > st.after(-seconds)
    ]
    return [of(row, "kind process", known=list(row.known), used=row.used) for row in rows]


@statement("keyring.retired")
def retired(st: Statement, tenant_id: str) -> Result:
    return [of(row, "key_id") for row in st.find("retired_keys", tenant_id=tenant_id)]


@statement("keyring.announce")
async def announce(
    st: Statement, tenant_id: str, kind: str, holder_id: str, process: str, known: list[str], used: str
) -> Result:
    await st.upsert(
        "key_holders",
        lambda row, excluded: of(excluded, "known used", seen_at=st.now),
        tenant_id=tenant_id,
        kind=kind,
        holder_id=holder_id,
        process=process,
        known=tuple(known),
        used=used,
    )
    return 1


@statement("keyring.leave")
async def leave(st: Statement, tenant_id: str, holder_id: str) -> Result:
    return len(await st.delete(st.find("key_holders", tenant_id=tenant_id, holder_id=holder_id)))


@statement("keyring.forget")
async def forget(st: Statement, tenant_id: str, seconds: float) -> Result:
    def silent(row: object) -> bool:
        return bool(row.seen_at < st.after(-seconds))  # type: ignore[attr-defined]

    rows = [row for row in st.find("key_holders", tenant_id=tenant_id) if silent(row)]
    return len(await st.delete(rows, silent))
