"""What becomes of a start and of a play: decided by the pure rules, from what the game's actor knows.

Nothing here waits. A play puts everything that it changes into `Changes`, and moves what the actor
remembers on, so that the plays behind it in the batch see it as done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runtime import events, ids
from runtime import messages as m
from runtime.actors.changes import Changes, NewPlay
from runtime.actors.game import milestones, snapshot
from runtime.actors.game.actor import GameActor, Seat, Ticket
from runtime.actors.game.awards import Winner
from runtime.actors.game.retries import encode_outcome
from runtime.actors.game.sessions import issue
from runtime.actors.game.snapshot import Rulebook
from runtime.errors import Fault
from runtime.rules import Attempt, Outcome, Words, seed_hash


@dataclass(slots=True)
class Decision:
    """What a ticket will be answered once it is committed, and what is then published."""

    ticket: Ticket
    reply: Any
    events: list[events.Event] = field(default_factory=list)


def start(actor: GameActor, book: Rulebook, ticket: Ticket) -> m.StartReply:
    """A session for the player, where a play would now be admitted."""
    now = actor.engine.clock.now()
    book.refuse_unless_open(now)
    seat = actor.seats[ticket.player_id]
    actor.admit(book, seat)
    settings = actor.engine.settings
    session = issue(settings.server_keys, actor.tenant_id, actor.game_id, ticket.player_id, now)
    seed = session.seed
    return m.StartReply(
        session_id=session.token,
        seed_hash=seed_hash(seed),
        expires_at=session.issued_ms // 1000 + settings.session_ttl_seconds,
        drop_plan=[
            m.PlannedDrop(id=drop.id, type=drop.type, at_ms=drop.at_ms)
            for drop in book.rules.seed_generator.plan(book.rules.config, seed)
        ],
        guest_player_id=ticket.player_id if ticket.guest else "",
    )


def eligibility(actor: GameActor, book: Rulebook, ticket: Ticket) -> m.EligibilityReply:
    """Whether `start` would be let in, and why not. By what was just read (`READS`)."""
    seat = actor.seats[ticket.player_id]
    reply = m.EligibilityReply(can_play=True, remaining_turns=seat.turns, free_plays_remaining=-1)
    if book.max_plays_per_day:
        reply.free_plays_remaining = max(0, book.max_plays_per_day - seat.day_plays)
        reply.resets_at = actor.resets_at
    if book.max_plays_per_user:
        left = max(0, book.max_plays_per_user - seat.plays)
        free = reply.free_plays_remaining
        reply.free_plays_remaining = left if free < 0 else min(free, left)
    if book.requires_turn:
        reply.free_plays_remaining = 0
    try:
        book.refuse_unless_open(actor.engine.clock.now())
        actor.admit(book, seat)
    except Fault as fault:
        reply.can_play = False
        reply.reason = fault.reason
        reply.resets_at = fault.facts.get("resets_at", reply.resets_at)
    return reply


def play(actor: GameActor, book: Rulebook, ticket: Ticket, changes: Changes) -> Decision:
    """One play, decided: everything that it changes goes into `changes`."""
    request, session = ticket.request, ticket.session
    assert session is not None
    now = actor.engine.clock.now()
    book.refuse_unless_open(now)
    seat = actor.seats[ticket.player_id]
    spends_turn = actor.admit(book, seat)
    seed, rules = session.seed, book.rules
    plan = rules.seed_generator.plan(rules.config, seed)
    payload = request.payload or {}
    elapsed_ms = int(now * 1000) - session.issued_ms
    rules.validator.check(rules.reward_handler, rules.config, payload, plan, elapsed_ms)
    outcome = rules.reward_handler.decide(
        Attempt(
            rules.config,
            book.game,
            Words(seed, request.client_seed),
            payload,
            plan,
            lambda prize_id, quantity: actor.available(book.prizes.get(prize_id), seat, quantity),
        )
    )
    # From here on nothing refuses: what is remembered moves on, for the plays behind this one.
    play_id, entries_before = session.play_id, len(changes.ledger)
    _count(actor, book, seat, play_id, spends_turn, changes)
    winner = Winner(seat.player_id, book.campaign_id, actor.day, actor.game_id, play_id)
    rewards, points = _rewards(actor, book, seat, outcome, winner, changes)
    granted = milestones.cross(actor, book, seat, winner, changes) if book.auto_grant else []
    currencies = dict.fromkeys(entry.currency for entry in changes.ledger[entries_before:])
    reply = m.PlayReply(
        rewards=rewards,
        metadata=outcome.metadata,
        play_id=play_id,
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(currency=name, balance=seat.balances[name]) for name in currencies],
        milestones_granted=granted,
    )
    changes.plays.append(
        NewPlay(
            play_id,
            actor.game_id,
            seat.player_id,
            session.token,
            book.revision,
            seed,
            request.client_seed,
            payload,
            encode_outcome(outcome, reply),
            outcome.score,
            len(rewards),
            points,
            ticket.asked.key,
            ticket.asked.request_hash,
        )
    )
    return Decision(ticket, reply, _events(actor, book, ticket, outcome, reply, points, now))


def _count(actor: GameActor, book: Rulebook, seat: Seat, play_id: str, spends_turn: bool, changes: Changes) -> None:
    """Counts the play, and spends the turn that it costs."""
    seat.plays += 1
    seat.day_plays += 1
    # A play that spends a turn is beyond the day's free ones: its bound is that no rival played in between.
    day_cap = book.max_plays_per_day
    if spends_turn and not book.requires_turn:
        day_cap = seat.day_plays
    changes.count_play(actor.game_id, seat.player_id, actor.day, cap=book.max_plays_per_user, day_cap=day_cap)
    if spends_turn:
        changes.move_turns(ids.make("turn"), seat.player_id, book.campaign_id, seat.turns, -1, "play", play_id)
        seat.turns -= 1


def _rewards(
    actor: GameActor, book: Rulebook, seat: Seat, outcome: Outcome, winner: Winner, changes: Changes
) -> tuple[list[m.WonReward], int]:
    """Gives what the rule decided. The rewards that the player is told of, and the points among them."""
    before = seat.balances.get(snapshot.POINTS, 0)
    rewards: list[m.WonReward] = []
    for won in outcome.awards:
        rewards += actor.give(book, seat, book.prizes[won.prize_id], won.quantity, winner, changes)
    for won_item in outcome.credits:
        actor.credit(book, seat, won_item.item, won_item.quantity, "play_reward", winner.play_id, changes)
        rewards.append(m.WonReward(name=won_item.item, type="item", quantity=won_item.quantity))
    return rewards, seat.balances.get(snapshot.POINTS, 0) - before


def _events(
    actor: GameActor, book: Rulebook, ticket: Ticket, outcome: Outcome, reply: m.PlayReply, points: int, now: float
) -> list[events.Event]:
    """play_completed, and prize_won for each prize."""
    about = {"play_id": reply.play_id, "game_id": actor.game_id, "player_id": ticket.player_id}
    completed = {**about, "score": outcome.score, "wins": len(reply.rewards), "points": points}
    found = [actor.event(events.PLAY_COMPLETED, book, ticket, now, completed)]
    for reward in reply.rewards:
        if reward.prize_id:
            won = {
                **about,
                "prize_id": reward.prize_id,
                "reward_id": reward.reward_id,
                "name": reward.name,
                "type": reward.type,
                "quantity": reward.quantity,
                "value": reward.value,
            }
            found.append(actor.event(events.PRIZE_WON, book, ticket, now, won))
    for rung in reply.milestones_granted:
        won = {**about, "prize_id": rung.prize_id, "reward_id": rung.reward_id, "milestone_id": rung.id}
        found.append(actor.event(events.PRIZE_WON, book, ticket, now, won))
    return found
