"""sql/wallet.sql: balances and their ledger."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import of, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("wallet.balances")
def balances(
    st: Statement,
    tenant_id: str,
    player_id: str,
    scope_key: str,
    after_scope: str | None,
    after_currency: str | None,
    limit: int,
) -> Result:
    rows = [
        row
        for row in st.find("balances", tenant_id=tenant_id, player_id=player_id)
        if scope_key in ("", row.scope_key)
        and (after_scope is None or (row.scope_key, row.currency) > (after_scope, after_currency))
    ]
    rows.sort(key=lambda row: (row.scope_key, row.currency))
    return [of(row, "scope_key currency balance", updated_at=unix(row.updated_at)) for row in rows[:limit]]


@statement("wallet.ledger")
def ledger(
    st: Statement,
    tenant_id: str,
    player_id: str,
    scope_key: str,
    currency: str,
    after_seq: int | None,
    after_id: str | None,
    limit: int,
) -> Result:
    rows = [
        row
        for row in st.find("ledger_entries", tenant_id=tenant_id, player_id=player_id)
        if (after_seq is None or (row.seq, row.entry_id) < (after_seq, after_id))
        and scope_key in ("", row.scope_key)
        and currency in ("", row.currency)
    ]
    rows.sort(key=lambda row: (row.seq, row.entry_id), reverse=True)
    names = "entry_id seq currency scope_key amount balance_after reason reference_id"
    return [of(row, names, created_at=unix(row.created_at)) for row in rows[:limit]]


@statement("wallet.move")
async def move(
    st: Statement,
    tenant_id: str,
    player_id: str,
    scope_key: str,
    currency: str,
    amount: int,
    entry_id: str,
    reason: str,
    reference_id: str,
    reward_id: str,
) -> Result:
    own: dict[str, Any] = {"tenant_id": tenant_id, "player_id": player_id, "scope_key": scope_key, "currency": currency}
    moved = []
    if amount > 0:
        moved = [
            await st.upsert(
                "balances",
                lambda b, excluded: {
                    "balance": b.balance + excluded.balance,
                    "seq": max(b.seq + 1, st.clock()),
                    "updated_at": st.now,
                },
                **own,
                balance=amount,
                seq=st.clock(),
            )
        ]
    row = st.get("balances", tenant_id, player_id, scope_key, currency)
    if amount < 0 and row is not None and row.balance + amount >= 0:
        moved = await st.update(
            [row],
            lambda b: {"balance": b.balance + amount, "seq": max(b.seq + 1, st.clock()), "updated_at": st.now},
            lambda b: b.balance + amount >= 0,
        )
    names = "entry_id currency scope_key amount balance_after reason reference_id"
    given = []
    for b in moved:
        entry = await st.insert(
            "ledger_entries",
            **own,
            entry_id=entry_id,
            seq=b.seq,
            amount=amount,
            balance_after=b.balance,
            reason=reason,
            reference_id=reference_id,
            reward_id=reward_id,
        )
        given.append(of(entry, names, created_at=unix(entry.created_at)))
    return given


@statement("wallet.balance")
def balance(st: Statement, tenant_id: str, player_id: str, scope_key: str, currency: str) -> Result:
    row = st.get("balances", tenant_id, player_id, scope_key, currency)
    return [of(row, "balance")] if row else []


@statement("wallet.target")
def target(st: Statement, tenant_id: str, player_id: str, scope_key: str, merchant_id: str) -> Result:
    merchant = st.get("merchants", tenant_id, scope_key)
    known = bool(scope_key) and st.get("campaigns", tenant_id, scope_key) is not None
    reads = known and st.campaigns_of(tenant_id, merchant_id, False)(scope_key)
    writes = known and st.campaigns_of(tenant_id, merchant_id, True)(scope_key)
    return [
        {
            "player": st.get("players", tenant_id, player_id) is not None,
            "scope": scope_key == tenant_id
            or reads
            or (merchant is not None and merchant_id in ("", merchant.merchant_id)),
            "own": merchant_id in ("", scope_key) or writes,
        }
    ]
