"""Manual actions of staff on a reward: fulfill, revoke, reveal its code. Each is recorded in the audit log.

Only `reveal_code` returns the reward's code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.state import TURNS
from runtime.actors.rewards import (
    HOLDING,
    MOVES,
    give_back,
    illegal,
    lock_reward,
    message,
    open_code,
    out_of_stock,
)
from runtime.errors import unknown
from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations import reading
from runtime.operations.audit import record
from runtime.operations.checks import Checks
from runtime.operations.fulfillment import retake
from runtime.operations.idempotent_writes import Done, once
from runtime.operations.players.merging import lock_owner
from runtime.operations.wallet import BALANCE as _BALANCE
from runtime.operations.wallet import MOVE as _MOVE
from runtime.operations.wallet import insufficient
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("rewards")


class LockedReward(NamedTuple):
    """A locked reward and the locked wallet movements of its move."""

    row: Any
    movements: Sequence[Any]


Apply = Callable[[asyncpg.Connection, LockedReward], Awaitable[None]]
"""Applies a move to a reward that is locked and in a legal state for it."""


async def fulfill(engine: Engine, request: m.FulfillRewardRequest) -> m.RewardReply:
    """Marks a WON, CLAIMED, FULFILLING or FAILED reward and its task as delivered. Other states: ILLEGAL_TRANSITION.

    This ends a delivery attempt under way: its outcome is not recorded, and there is no retry. A voucher without a code
    takes one, and a FAILED reward takes its unit of stock again: FAILED_PRECONDITION OUT_OF_STOCK if there is none.
    UNAVAILABLE CODE_UNAVAILABLE if no key of CODE_KEYS opens the code, which its owner could not see then.
    """
    tenant_id = tenant_of(request)

    async def apply(connection: asyncpg.Connection, locked: LockedReward) -> None:
        row, states = locked.row, sorted(MOVES["fulfill"].before)
        if row["status"] not in HOLDING:
            await retake(connection, tenant_id, request.id)
        if row["channel"] == "voucher_code":
            code = await connection.fetchrow(_SQL["take_code"], tenant_id, row["prize_id"], request.id, states)
            if code is None:
                raise out_of_stock(request.id)
            open_code(engine, tenant_id, code, request.id, row["prize_id"])
        moved = await connection.fetchrow(
            _SQL["fulfill"], tenant_id, request.id, states, ids.make("task"), row["channel"]
        )
        assert moved is not None, "the reward is locked, and its state was legal"

    done = await _move(engine, request, "fulfill", apply, {"note": request.note})
    if not done.repeated:
        FULFILLMENT_TASKS.labels("delivered").inc()
    reply: m.RewardReply = done.reply
    return reply


async def revoke(engine: Engine, request: m.RevokeRewardRequest) -> m.RewardReply:
    """Revokes a reward in any state but REVOKED and EXPIRED (ILLEGAL_TRANSITION).

    A delivered code stays used, since its player has seen it. An undelivered reward returns its stock and code, and its
    task is cancelled. The win still counts towards caps, and a rung stays granted. Wallet movements are reversed
    (REVERSAL): the player gets the price of a bought rung back, and loses the points or turns that the reward gave.
    FAILED_PRECONDITION INSUFFICIENT_BALANCE if those are spent.
    """
    tenant_id = tenant_of(request)

    async def apply(connection: asyncpg.Connection, locked: LockedReward) -> None:
        row = locked.row
        if row["type"] == TURNS:
            await _take_turns(connection, tenant_id, locked)
        for moved in locked.movements:
            await _reverse(connection, tenant_id, row, moved)
        states = sorted(MOVES["revoke"].before)
        revoked = await connection.fetchval(_SQL["revoke"], tenant_id, request.id, states)
        assert revoked is not None, "the reward is locked, and its state was legal"
        if row["status"] in HOLDING:
            await give_back(connection, tenant_id, [request.id])

    reply: m.RewardReply = (await _move(engine, request, "revoke", apply, {"reason": request.reason})).reply
    return reply


async def reveal_code(engine: Engine, request: m.RevealCodeRequest) -> m.RevealCodeReply:
    """Returns the code of a delivered reward, for staff to send to its winner again. Recorded in the audit log.

    NOT_FOUND UNKNOWN_CODE if the reward has no code or is not FULFILLED; UNAVAILABLE CODE_UNAVAILABLE if no key of
    CODE_KEYS opens it.
    """
    tenant_id, reward_id = tenant_of(request), request.id
    checks = Checks()
    checks.required("reason", request.reason)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> m.RevealCodeReply:
        row = await reading.for_update(connection, _SQL["sealed"], request, "reward", reward_id)
        if row["ciphertext"] is None:
            raise unknown("code", reward_id)
        code = open_code(engine, tenant_id, row, reward_id, row["prize_id"])
        facts = {"player_id": row["player_id"], "prize_id": row["prize_id"], "reason": request.reason}
        await record(connection, tenant_id, "reward.reveal_code", reward_id, after=facts)
        return m.RevealCodeReply(code=code)

    return await engine.database.transaction(work)


async def _take_turns(connection: asyncpg.Connection, tenant_id: str, locked: LockedReward) -> None:
    """Takes back what the reward gave from its holder: a surplus reward and its turns stay with the merged guest."""
    player_id, reward_id = locked.row["player_id"], locked.row["reward_id"]
    taken = await connection.fetchval(_SQL["take_back_turns"], tenant_id, player_id, reward_id, ids.make("turn"))
    if taken is None:
        raise insufficient(
            await connection.fetchval(_SQL["lock_turns"], tenant_id, player_id, locked.row["campaign_id"])
        )


async def _reverse(connection: asyncpg.Connection, tenant_id: str, reward: Any, moved: Any) -> None:
    """Reverses a reward's movement of one locked balance. INSUFFICIENT_BALANCE if its points are spent."""
    wallet = (tenant_id, moved["player_id"], moved["scope_key"], moved["currency"])
    entry = (ids.make("entry"), "reversal", reward["reward_id"], reward["reward_id"])
    if await connection.fetchrow(_MOVE, *wallet, -moved["amount"], *entry) is None:
        raise insufficient(await connection.fetchval(_BALANCE, *wallet))


async def _move(engine: Engine, request: reading.IdRequest, move: str, apply: Apply, facts: dict[str, str]) -> Done:
    """Changes a reward's status by `move` (a key of MOVES), once per Idempotency-Key.

    Locks the reward, its task and the balances that it changed, in the lock order, and checks the status before
    `apply`. The audit record has `facts`.
    """
    tenant_id, reward_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.RewardReply:
        target = await connection.fetchrow(_SQL["about"], tenant_id, reward_id)
        if target is None:
            raise unknown("reward", reward_id)
        # Waits for a merge under way. Otherwise it could move the guest's balances meanwhile, and the refund be lost.
        await lock_owner(connection, tenant_id, target["player_id"])
        if target["type"] == TURNS:
            await connection.execute(_SQL["lock_turns"], tenant_id, target["player_id"], target["campaign_id"])
        movements = await connection.fetch(_SQL["lock_balances"], tenant_id, target["player_id"], reward_id)
        await lock_reward(connection, tenant_id, reward_id, target["prize_id"])
        await connection.execute(_SQL["lock_task"], tenant_id, reward_id)
        before = await reading.for_update(connection, _SQL["get_locked"], request, "reward", reward_id)
        if before["status"] not in MOVES[move].before:
            raise illegal(before, move)
        await apply(connection, LockedReward(before, movements))
        after = await connection.fetchrow(_SQL["get_locked"], tenant_id, reward_id, "", True)
        assert after is not None
        await record(
            connection,
            tenant_id,
            f"reward.{move}",
            reward_id,
            before=_audit_facts(before),
            after=_audit_facts(after) | facts,
        )
        return m.RewardReply(reward=message(after))

    return await once(engine, request, m.RewardReply, work)


def _audit_facts(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in ("player_id", "prize_id", "status", "claimed_at", "fulfilled_at")}
