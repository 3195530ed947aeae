"""sql/once.sql: what staff did once for each idempotency key."""

from __future__ import annotations

from ops.simulation.postgres.values import datetime_of, of
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("once.take")
async def take(
    st: Statement, tenant_id: str, merchant_id: str, subject: str, route: str, key: str, request_hash: bytes
) -> Result:
    row = await st.insert_unless(
        "keyed_requests",
        tenant_id=tenant_id,
        merchant_id=merchant_id,
        subject=subject,
        route=route,
        idempotency_key=key,
        request_hash=request_hash,
    )
    return [{"asked_at": datetime_of(row.asked_at)}] if row else []


@statement("once.keep")
async def keep(
    st: Statement, tenant_id: str, merchant_id: str, subject: str, route: str, key: str, reply: bytes
) -> Result:
    row = st.get("keyed_requests", tenant_id, merchant_id, subject, route, key)
    return len(await st.update([row] if row else [], {"reply": reply}))


@statement("once.find")
def find(st: Statement, tenant_id: str, merchant_id: str, subject: str, route: str, key: str) -> Result:
    row = st.get("keyed_requests", tenant_id, merchant_id, subject, route, key)
    return [of(row, "request_hash reply")] if row else []


@statement("once.begin_again")
async def begin_again(
    st: Statement, tenant_id: str, merchant_id: str, subject: str, route: str, key: str, seconds: float
) -> Result:
    row = st.get("keyed_requests", tenant_id, merchant_id, subject, route, key)
    before = st.clock() - round(seconds * 1_000_000)
    rows = [row] if row is not None and row.asked_at <= before else []
    taken = await st.update(rows, lambda row: {"asked_at": st.clock()}, lambda row: row.asked_at <= before)
    return [{"?column?": True} for _ in taken]
