"""Plays and redeems that are committed already: how a retry gets its answer again.

The rows say it, not the ephemeral store, so that losing that loses no guarantee: a play by its session
or by its player's idempotency key, a redeem by its key.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.game import milestones
from runtime.actors.game.actor import GameActor, Ticket
from runtime.errors import Fault, Status
from runtime.rules import Outcome, seed_hash

QUERIES: Final = sql.load("play")


async def answer_found(actor: GameActor, tickets: list[Ticket]) -> list[Ticket]:
    """Answers the tickets whose play (or redeem) is committed already; returns the rest."""
    plays = [ticket for ticket in tickets if ticket.session is not None]
    found_plays: list[Any] = []
    if plays:
        keyed = [ticket for ticket in plays if ticket.hash is not None]
        found_plays = await actor.engine.database.fetch(
            QUERIES["find"],
            actor.tenant_id,
            [ticket.session.play_id for ticket in plays if ticket.session is not None],
            [ticket.player_id for ticket in keyed],
            [ticket.request.idempotency_key for ticket in keyed],
        )
    redeems = [ticket for ticket in tickets if ticket.session is None and ticket.hash is not None]
    found_redeems: dict[tuple[str, str], Any] = {}
    if redeems:
        rows = await actor.engine.database.fetch(
            QUERIES["find_redeems"],
            actor.tenant_id,
            [ticket.player_id for ticket in redeems],
            [ticket.request.idempotency_key for ticket in redeems],
        )
        found_redeems = {(row["player_id"], row["idempotency_key"]): row for row in rows}
    by_play = {row["play_id"]: row for row in found_plays}
    by_key = {(row["player_id"], row["idempotency_key"]): row for row in found_plays}
    rest = []
    for ticket in tickets:
        ticket.searched = True
        key = (ticket.player_id, ticket.request.idempotency_key) if ticket.hash is not None else None
        if ticket.session is None:
            row = found_redeems.get(key) if key else None
        else:
            row = (by_key.get(key) if key else None) or by_play.get(ticket.session.play_id)
        if row is None:
            rest.append(ticket)
        elif key is None or row["idempotency_key"] != key[1]:
            ticket.work.refuse(Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session was played already"))
        elif row["request_hash"] != ticket.hash:
            ticket.work.refuse(
                Fault(
                    Status.INVALID_ARGUMENT,
                    "IDEMPOTENCY_MISMATCH",
                    "this Idempotency-Key was used for another request",
                    http_status=422,
                )
            )
        else:
            ticket.work.answer(milestones.decode_row(row) if ticket.session is None else decode_row(row))
    return rest


def play_hash(request: m.PlayRequest) -> bytes:
    """What makes two requests under one Idempotency-Key the same: session, payload and client seed."""
    said = msgspec.json.encode([request.id, request.session_id, request.payload or {}, request.client_seed])
    return hashlib.sha256(said).digest()[:16]


def encode_outcome(outcome: Outcome, reply: m.PlayReply) -> bytes:
    """The play row's `outcome`: the rule's decision for replay, and the answer for history and retries."""
    return msgspec.json.encode(
        {
            "decided": outcome,
            "rewards": reply.rewards,
            "balances": reply.balances,
            "milestones_granted": reply.milestones_granted,
        }
    )


def decode_row(row: Any) -> m.PlayReply:
    """The answer that a committed play was given."""
    outcome, seed = row["outcome"], row["seed"]
    return m.PlayReply(
        rewards=[m.WonReward(**reward) for reward in outcome["rewards"]],
        metadata=outcome["decided"]["metadata"],
        play_id=row["play_id"],
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(**balance) for balance in outcome["balances"]],
        milestones_granted=[m.GrantedMilestone(**rung) for rung in outcome["milestones_granted"]],
    )
