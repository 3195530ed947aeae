"""Retries: a play or redeem that is already committed gets its first answer again.

The lookup uses database rows only, so losing the ephemeral store loses no guarantee: a play is found by its session or
its idempotency key, a redeem by its key.
"""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.game import milestones
from runtime.actors.game.cache import GameCache
from runtime.actors.game.pending import PendingRequest
from runtime.actors.idempotency import Replay, first_answer
from runtime.errors import Fault, Status
from runtime.rules import seed_hash

QUERIES: Final = sql.load("play")


async def answer_committed(cache: GameCache, requests: list[PendingRequest]) -> list[PendingRequest]:
    """Looks up each request once. Repeats the answer of a committed one; refuses a request that differs from it.

    Returns the requests that are still to be decided.
    """
    plays = await _plays(cache, [pending for pending in requests if pending.session is not None])
    redeems = await _redeems(cache, [pending for pending in requests if pending.session is None])
    played = {row["play_id"] for row in plays}
    plays_by_key = {(row["player_id"], row["idempotency_key"]): row for row in plays}
    redeems_by_key = {(row["player_id"], row["idempotency_key"]): row for row in redeems}
    rest = []
    for pending in requests:
        pending.searched = True
        idempotency = pending.idempotency
        key = (idempotency.player_id, idempotency.key)
        try:
            if pending.session is None:
                reply: Any = first_answer(redeems_by_key.get(key), idempotency, milestones.decode_row)
                if reply is not None and cache.snapshot is not None:
                    reply = milestones.with_content(reply, cache.snapshot)
            else:
                reply = first_answer(plays_by_key.get(key), idempotency, decode_row)
                if reply is None and pending.session.play_id in played:
                    raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session was played already")
        except Fault as fault:
            pending.work.refuse(fault)
            continue
        if reply is None:
            rest.append(pending)
        else:
            pending.work.answer(Replay(reply))
    return rest


async def _plays(cache: GameCache, requests: list[PendingRequest]) -> list[Any]:
    """The plays with these requests' sessions or idempotency keys."""
    if not requests:
        return []
    keyed = [pending.idempotency for pending in requests if pending.idempotency.key is not None]
    return await cache.engine.database.fetch(
        QUERIES["find"],
        cache.tenant_id,
        [pending.session.play_id for pending in requests if pending.session is not None],
        [idempotency.player_id for idempotency in keyed],
        [idempotency.key for idempotency in keyed],
        cache.game_id,
    )


async def _redeems(cache: GameCache, requests: list[PendingRequest]) -> list[Any]:
    """The redeems with these requests' idempotency keys."""
    keyed = [pending.idempotency for pending in requests if pending.idempotency.key is not None]
    if not keyed:
        return []
    return await cache.engine.database.fetch(
        QUERIES["find_redeems"],
        cache.tenant_id,
        [idempotency.player_id for idempotency in keyed],
        [idempotency.key for idempotency in keyed],
        cache.game_id,
    )


def decode_row(row: Any) -> m.PlayReply:
    """The reply to a committed play."""
    outcome, seed = row["outcome"], row["seed"]
    return m.PlayReply(
        rewards=[m.WonReward(**reward) for reward in outcome["rewards"]],
        metadata=outcome["decided"]["metadata"],
        play_id=row["play_id"],
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(**balance) for balance in outcome["balances"]],
        milestones_granted=[m.GrantedMilestone(**rung) for rung in outcome["milestones_granted"]],
        next=_next(outcome["next"]) if "next" in outcome else None,
    )


def _next(stored: dict[str, Any]) -> m.NextSession:
    return m.NextSession(**{**stored, "drop_plan": [m.PlannedDrop(**drop) for drop in stored["drop_plan"]]})
