"""What an admin does to a reward by hand: fulfill it, revoke it, show its code. Each is noted in the audit log.

Neither answer has the reward's code. `reveal_code` alone shows it to staff, and is noted too.
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
    hold,
    illegal,
    message,
    open_code,
    out_of_stock,
    take_again,
)
from runtime.errors import unknown
from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations import reading
from runtime.operations.audit import record
from runtime.operations.idempotent_writes import Done, once
from runtime.operations.players.merging import hold_player
from runtime.operations.wallet import BALANCE as _BALANCE
from runtime.operations.wallet import MOVE as _MOVE
from runtime.operations.wallet import insufficient
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("rewards")


class Held(NamedTuple):
    """A reward that is locked, and all that its move may touch. owner_id: whose it counts as now, by a login maybe."""

    row: Any
    owner_id: str
    movements: Sequence[Any]


Apply = Callable[[asyncpg.Connection, Held], Awaitable[None]]
"""Does the move to a reward that is locked and may make it."""


async def fulfill(engine: Engine, request: m.FulfillRewardRequest) -> m.RewardReply:
    """Marks a reward as delivered, from WON, CLAIMED, FULFILLING or FAILED; its task is DELIVERED with it.

    A delivery under way ends with that: what its attempt comes to is not recorded, and it is not tried again. A voucher
    that has no code yet takes one, and a reward that FAILED takes its unit of stock anew:
    FAILED_PRECONDITION OUT_OF_STOCK where none is free; UNAVAILABLE CODE_UNAVAILABLE where no key opens it, so
    that its owner would not see it. Any other state: ILLEGAL_TRANSITION.
    """
    tenant_id = tenant_of(request)

    async def apply(connection: asyncpg.Connection, held: Held) -> None:
        row = held.row
        if row["status"] not in HOLDING:
            await take_again(connection, tenant_id, request.id)
        if row["channel"] == "voucher_code":
            code = await connection.fetchrow(_SQL["take_code"], tenant_id, row["prize_id"], request.id)
            if code is None:
                raise out_of_stock(request.id)
            open_code(engine, tenant_id, code, request.id, row["prize_id"])
        states = sorted(MOVES["fulfill"].before)
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
    """Takes a reward back, from every state but REVOKED and EXPIRED (ILLEGAL_TRANSITION).

    What was delivered stays used: a code that its player has seen goes to nobody else. Of what was not
    delivered, the stock and the code return and the task is cancelled. The caps' counters stay: a player
    who won a prize has won it; a rung stays granted. What the reward moved in the wallet is moved back, as
    REVERSAL: the player has the price of a bought rung again, and loses the points of one that gave points,
    and the turns of one that gave turns (FAILED_PRECONDITION INSUFFICIENT_BALANCE where they are spent).
    """
    tenant_id = tenant_of(request)

    async def apply(connection: asyncpg.Connection, held: Held) -> None:
        row = held.row
        if row["type"] == TURNS:
            await _take_turns(connection, tenant_id, held)
        for moved in held.movements:
            await _reverse(connection, tenant_id, row, moved)
        states = sorted(MOVES["revoke"].before)
        revoked = await connection.fetchval(_SQL["revoke"], tenant_id, request.id, states)
        assert revoked is not None, "the reward is locked, and its state was legal"
        if row["status"] in HOLDING:
            await give_back(connection, tenant_id, [request.id])

    reply: m.RewardReply = (await _move(engine, request, "revoke", apply, {"reason": request.reason})).reply
    return reply


async def reveal_code(engine: Engine, request: m.RevealCodeRequest) -> m.RevealCodeReply:
    """The code of a reward that was delivered, for staff to give it to its winner again. Noted in the audit log.

    NOT_FOUND UNKNOWN_CODE where the reward has none, or is not FULFILLED; UNAVAILABLE CODE_UNAVAILABLE where no key
    opens it.
    """
    tenant_id, reward_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.RevealCodeReply:
        row = await reading.to_write(connection, _SQL["sealed"], request, "reward", reward_id)
        if row["ciphertext"] is None:
            raise unknown("code", reward_id)
        code = open_code(engine, tenant_id, row, reward_id, row["prize_id"])
        about = {"player_id": row["player_id"], "prize_id": row["prize_id"], "reason": request.reason}
        await record(connection, tenant_id, "reward.reveal_code", reward_id, after=about)
        return m.RevealCodeReply(code=code)

    return await engine.database.transaction(work)


async def _take_turns(connection: asyncpg.Connection, tenant_id: str, held: Held) -> None:
    """Takes back the turns that a reward gave, which are locked. INSUFFICIENT_BALANCE."""
    reward_id = held.row["reward_id"]
    if await connection.fetchval(_SQL["take_turns"], tenant_id, held.owner_id, reward_id, ids.make("turn")) is None:
        left = await connection.fetchval(_SQL["hold_turns"], tenant_id, held.owner_id, held.row["campaign_id"])
        raise insufficient(left)


async def _reverse(connection: asyncpg.Connection, tenant_id: str, reward: Any, moved: Any) -> None:
    """Moves back what a reward moved in one balance, which is locked. INSUFFICIENT_BALANCE."""
    wallet = (tenant_id, moved["player_id"], moved["scope_key"], moved["currency"])
    entry = (ids.make("entry"), "reversal", reward["reward_id"], reward["reward_id"])
    if await connection.fetchrow(_MOVE, *wallet, -moved["amount"], *entry) is None:
        raise insufficient(await connection.fetchval(_BALANCE, *wallet))


async def _move(engine: Engine, request: reading.Asked, move: str, apply: Apply, said: dict[str, str]) -> Done:
    """Takes the locks, holds the reward's state against the table of moves, applies the move, and notes it."""
    tenant_id, reward_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.RewardReply:
        about = await connection.fetchrow(_SQL["about"], tenant_id, reward_id)
        if about is None:
            raise unknown("reward", reward_id)
        # A merge under way would take the guest's balances away while they are waited for: what it paid would be lost.
        owner_id = await hold_player(connection, tenant_id, about["player_id"])
        if about["type"] == TURNS:
            await connection.execute(_SQL["hold_turns"], tenant_id, owner_id, about["campaign_id"])
        movements = await connection.fetch(_SQL["hold_movements"], tenant_id, about["player_id"], reward_id)
        await hold(connection, tenant_id, reward_id, about["prize_id"])
        await connection.execute(_SQL["hold_task"], tenant_id, reward_id)
        before = await reading.to_write(connection, _SQL["held"], request, "reward", reward_id)
        if before["status"] not in MOVES[move].before:
            raise illegal(before, move)
        await apply(connection, Held(before, owner_id, movements))
        after = await connection.fetchrow(_SQL["held"], tenant_id, reward_id, "", True)
        assert after is not None
        await record(
            connection, tenant_id, f"reward.{move}", reward_id, before=_noted(before), after=_noted(after) | said
        )
        return m.RewardReply(reward=message(after))

    return await once(engine, request, m.RewardReply, work)


def _noted(row: Any) -> dict[str, Any]:
    return {name: row[name] for name in ("player_id", "prize_id", "status", "claimed_at", "fulfilled_at")}
