"""What an admin does to a reward by hand: fulfill it, or revoke it. Both are noted in the audit log.

Neither answer has the reward's code: that is its owner's alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.rewards import MOVES, illegal, message, out_of_stock
from runtime.errors import invalid
from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations import reading
from runtime.operations.audit import record
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("rewards")

TEXT_CHARACTERS_MAX: Final = 1000
"""Of a note or a reason."""

HOLDS: Final = ("hold", "hold_task")
"""The locks of a move, in the order of sql/locks.py."""

RETURNS: Final = ("hold_stock", "hold_code", *HOLDS)
"""Those of a move that gives back what was won; the tenant's comes before."""

Apply = Callable[[asyncpg.Connection, Any], Awaitable[None]]
"""Does the move to a reward that is locked and may make it. `row` is the reward as it is."""


async def fulfill(engine: Engine, request: m.FulfillRewardRequest) -> m.RewardReply:
    """Marks a reward as delivered, from WON, CLAIMED or FAILED; its task is DELIVERED with it.

    A voucher takes its code now: FAILED_PRECONDITION OUT_OF_STOCK where none is free. Any other state:
    FAILED_PRECONDITION ILLEGAL_TRANSITION.
    """
    _check_text("note", request.note)
    tenant_id = tenant_of(request)

    async def apply(connection: asyncpg.Connection, row: Any) -> None:
        if row["channel"] == "voucher_code":
            code_id = await connection.fetchval(_SQL["take_code"], tenant_id, row["prize_id"], request.id)
            if code_id is None:
                raise out_of_stock(request.id)
        states = sorted(MOVES["fulfill"].before)
        moved = await connection.fetchrow(
            _SQL["fulfill"], tenant_id, request.id, states, ids.make("task"), row["channel"]
        )
        assert moved is not None, "the reward is locked, and its state was legal"

    reward = await _move(engine, request, "fulfill", HOLDS, apply, {"note": request.note})
    FULFILLMENT_TASKS.labels("delivered").inc()
    return m.RewardReply(reward=reward)


async def revoke(engine: Engine, request: m.RevokeRewardRequest) -> m.RewardReply:
    """Takes a reward back, from every state but REVOKED and EXPIRED (ILLEGAL_TRANSITION).

    What was delivered stays used: a code that its player has seen goes to nobody else. Of what was not
    delivered, the stock and the code return and the task is cancelled. The caps' counters stay: a player
    who won a prize has won it. The wallet stays too: what a rung cost its player is given back, where it
    is to be, by an adjustment, since taking a reward from a cheat is not to pay the cheat.
    """
    _check_text("reason", request.reason)
    tenant_id = tenant_of(request)
    version: int | None = None

    async def apply(connection: asyncpg.Connection, row: Any) -> None:
        nonlocal version
        moved = await connection.fetchrow(_SQL["revoke"], tenant_id, request.id, sorted(MOVES["revoke"].before))
        assert moved is not None, "the reward is locked, and its state was legal"
        version = await connection.fetchval(_SQL["catalog_changed"], tenant_id) if moved["returned"] else None

    reward = await _move(engine, request, "revoke", RETURNS, apply, {"reason": request.reason})
    if version is not None:
        # Games that had counted the prize as sold out look at its stock afresh.
        engine.catalog_changed(tenant_id, version)
    return m.RewardReply(reward=reward)


async def _move(
    engine: Engine,
    request: reading.Asked,
    move: str,
    holds: tuple[str, ...],
    apply: Apply,
    said: dict[str, str],
) -> m.Reward:
    """Takes the locks, holds the reward's state against the table of moves, applies the move, and notes it."""

    tenant_id, reward_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.Reward:
        if holds is RETURNS:
            await connection.execute(_SQL["hold_tenant"], tenant_id)
        for hold in holds:
            await connection.execute(_SQL[hold], tenant_id, reward_id)
        before = await reading.to_write(connection, _SQL["held"], request, "reward", reward_id)
        if before["status"] not in MOVES[move].before:
            raise illegal(before, move)
        await apply(connection, before)
        after = await connection.fetchrow(_SQL["held"], tenant_id, reward_id, "", True)
        assert after is not None
        await record(
            connection, tenant_id, f"reward.{move}", reward_id, before=_noted(before), after=_noted(after) | said
        )
        return message(after)

    return await engine.database.transaction(work)


def _noted(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in ("player_id", "prize_id", "status", "claimed_at", "fulfilled_at")}


def _check_text(field: str, text: str) -> None:
    if len(text) > TEXT_CHARACTERS_MAX:
        raise invalid(field, f"must be at most {TEXT_CHARACTERS_MAX} characters")
