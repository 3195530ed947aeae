"""The player's wallet, and manual adjustments.

Plays, milestones and rewards change balances through runtime/actors/committer.py. A balance always equals the
sum of its entries: one statement writes both.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import BALANCE_MAX, Fault, Status, forbidden, invalid, unknown, violations
from runtime.operations import audit, reading, samples
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import NeedsApproval, may_need_approval, settle
from runtime.operations.idempotent_writes import once
from runtime.operations.players import merging
from runtime.operations.row import REWARD_MANAGERS, Access, Command, Consumer, Operation
from runtime.wire.scope import merchant_of, player_id_of, tenant_of

_SQL: Final = sql.load("wallet")
BALANCES: Final = _SQL["balances"]
LEDGER: Final = _SQL["ledger"]
MOVE: Final = _SQL["move"]
BALANCE: Final = _SQL["balance"]
TARGET: Final = _SQL["target"]


async def list_balances(engine: Engine, request: m.ListBalancesRequest) -> m.ListBalancesReply:
    """A player's balances by scope and currency. `scope_key` filters by scope."""
    tenant_id, player_id = tenant_of(request), player_id_of(request)
    filters = (tenant_id, player_id, request.scope_key)
    rows, pagination = await reading.page(engine, BALANCES, request, *filters, key=("scope_key", "currency"))
    return m.ListBalancesReply(items=[m.WalletBalance(**row) for row in rows], pagination=pagination)


async def list_ledger(engine: Engine, request: m.ListLedgerRequest) -> m.ListLedgerReply:
    """A player's ledger entries, newest first. Filters: `scope_key` and `currency`.

    Entries are ordered by when they changed their balance, so that `balance_after` of one is where the next starts. An
    entry created while a client pages comes before the pages it has read, so that none repeats or is skipped.
    """
    filters = (tenant_of(request), player_id_of(request), request.scope_key, request.currency)
    rows, pagination = await reading.page(engine, LEDGER, request, *filters, key=("seq", "entry_id"), replica=True)
    return m.ListLedgerReply(items=[ledger_entry(row) for row in rows], pagination=pagination)


@may_need_approval
async def adjust_balance(engine: Engine, request: m.AdjustBalanceRequest) -> m.LedgerEntryReply:
    """Changes a balance by `amount`, which may be negative. `scope_key` is the id of a campaign, a merchant or the
    tenant. Any `currency` is accepted: draws, packs and other systems use names that no game credits.

    A retry with the same Idempotency-Key returns the first entry, however late.
    FAILED_PRECONDITION INSUFFICIENT_BALANCE if the balance would become negative. An `amount` above
    DUAL_ADJUSTMENT_ABOVE, up or down, needs approval by a second person: 202 APPROVAL_NEEDED.
    """
    player_id = player_id_of(request)
    _check_adjustment(request)
    tenant_id, wallet = tenant_of(request), (request.scope_key, request.currency)

    async def adjust(connection: asyncpg.Connection) -> m.LedgerEntryReply:
        target = await connection.fetchrow(TARGET, tenant_id, player_id, request.scope_key, merchant_of(request))
        assert target is not None
        if not target["player"]:
            raise unknown("player", player_id)
        if not target["scope"]:
            raise invalid("scope_key", "must be the id of a campaign, of a merchant or of the tenant")
        if not target["own"]:
            raise forbidden("wallet", request.scope_key)
        owner_id = await merging.lock_owner(connection, tenant_id, player_id)
        entry = (ids.make("entry"), "adjustment", request.reference_id, "")
        try:
            row = await connection.fetchrow(MOVE, tenant_id, owner_id, *wallet, request.amount, *entry)
        except asyncpg.NumericValueOutOfRangeError:
            raise invalid("amount", f"must not raise the balance above {BALANCE_MAX}") from None
        if row is None:
            raise insufficient(await connection.fetchval(BALANCE, tenant_id, owner_id, *wallet))
        after = {"player_id": owner_id, **dict(row)}
        await audit.record(connection, tenant_id, "player.adjust_balance", owner_id, after=after)
        await settle(connection, policy.adjustment(engine.settings, request.amount), lambda: _approval(owner_id, row))
        return m.LedgerEntryReply(entry=ledger_entry(row))

    reply: m.LedgerEntryReply = (await once(engine, request, m.LedgerEntryReply, adjust)).reply
    return reply


def _approval(player_id: str, row: Any) -> NeedsApproval:
    wallet = {name: row[name] for name in ("scope_key", "currency")}
    before = {**wallet, "balance": row["balance_after"] - row["amount"]}
    after = {**wallet, "balance": row["balance_after"], "amount": row["amount"], "reference_id": row["reference_id"]}
    return NeedsApproval(player_id, before=before, after=after)


def insufficient(balance: int | None) -> Fault:
    """FAILED_PRECONDITION INSUFFICIENT_BALANCE: the balance would become negative."""
    current = balance or 0
    message = f"the balance is only {current}"
    return Fault(Status.FAILED_PRECONDITION, "INSUFFICIENT_BALANCE", message, balance=current)


def _check_adjustment(request: m.AdjustBalanceRequest) -> None:
    found = [(name, "is required") for name in ("scope_key", "currency") if not getattr(request, name)]
    if not request.amount:
        found.append(("amount", "must not be 0"))
    if found:
        raise violations(found)


def ledger_entry(row: Any) -> m.LedgerEntry:
    return m.LedgerEntry(
        id=row["entry_id"],
        currency=row["currency"],
        scope_key=row["scope_key"],
        amount=row["amount"],
        balance_after=row["balance_after"],
        reason=m.LedgerReason[row["reason"].upper()],
        reference_id=row["reference_id"],
        created_at=row["created_at"],
    )


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation("ListBalances", "GET /wallet", run=list_balances, consumer=Consumer(Access.PLAYER)),
    Operation("ListLedger", "GET /wallet/ledger", run=list_ledger, consumer=Consumer(Access.PLAYER)),
    Operation(
        "AdjustBalance",
        "POST /wallet/adjustments",
        run=adjust_balance,
        admin=REWARD_MANAGERS,
        refusals=("INSUFFICIENT_BALANCE", "UNKNOWN_PLAYER", "APPROVAL_NEEDED"),
        example={
            "player_id": samples.PLAYER,
            "scope_key": samples.CAMPAIGN,
            "currency": "points",
            "amount": 10,
            "reference_id": "ticket-4711",
        },
        command=Command(
            "wallets adjust PLAYER SCOPE CURRENCY AMOUNT --reference!",
            "Adjust a balance: `5` adds, `-- -5` subtracts.",
            help={
                "player": "The player's id.",
                "scope": "The wallet's scope: the id of a campaign, of a merchant or of the tenant.",
                "currency": "The currency: points, an item of a game, or a name of your own.",
                "amount": "The amount.",
                "reference": "The reference, stored in the ledger.",
            },
            outcome="{balance_after} {currency} left",
        ),
    ),
)
