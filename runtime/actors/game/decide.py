"""Decides each request of a game by the pure rules, from the game's state.

Nothing here waits, reads a store or changes the state. A decision lists its changes (`Effects`); the batch records
them, so that later decisions see them.
"""

from __future__ import annotations

from functools import partial

import msgspec

from runtime import events
from runtime import messages as m
from runtime.actors.changes import NewPlay
from runtime.actors.game import eligibility, milestones
from runtime.actors.game.awards import Effects, Winner, prize_won
from runtime.actors.game.pending import Answer, Decision, PendingRequest
from runtime.actors.game.sessions import next_session
from runtime.actors.game.state import POINTS, GameState
from runtime.errors import Fault
from runtime.rules import Attempt, Outcome, Words, seed_hash


def decide(state: GameState, pending: PendingRequest) -> Decision | Answer:
    """A decision to commit, or the answer to a request that changes nothing. Raises Fault, StaleRead."""
    eligibility.check_access(state, pending)
    match type(pending.request):
        case m.PlayRequest:
            return play(state, pending)
        case m.RedeemRequest:
            return milestones.redeem(state, pending)
        case m.StartRequest:
            return Answer(pending, start(state, pending))
        case m.EligibilityRequest:
            return Answer(pending, report_eligibility(state, pending))
        case _:
            return Answer(pending, milestones.list_progress(state, pending))


def start(state: GameState, pending: PendingRequest) -> m.StartReply:
    """A session for the player, if a play would be admitted now."""
    state.snapshot.refuse_unless_open(state.now)
    player = eligibility.player_of(state, pending)
    eligibility.admit(state, player)
    opened = next_session(state, player)
    return m.StartReply(
        session_id=opened.session_id,
        seed_hash=opened.seed_hash,
        commitment=opened.commitment,
        revision_hash=opened.revision_hash,
        expires_at=opened.expires_at,
        drop_plan=opened.drop_plan,
        guest_player_id=pending.player_id if pending.anonymous else "",
    )


def report_eligibility(state: GameState, pending: PendingRequest) -> m.EligibilityReply:
    """Whether `start` would be admitted, and if not, why. Uses data read in this round (`READS`).

    Differs from `start` in three ways. An anonymous caller gets LOGIN_REQUIRED and not TOKEN_MISSING: it says what to
    do. A closed game gets a more specific reason than GAME_INACTIVE or CAMPAIGN_CLOSED. SOLD_OUT does not prevent a
    start.
    """
    snapshot, player = state.snapshot, eligibility.player_of(state, pending)
    reply = m.EligibilityReply(can_play=True, remaining_turns=player.turns, free_plays_remaining=-1)
    if snapshot.max_plays_per_day:
        reply.free_plays_remaining = max(0, snapshot.max_plays_per_day - player.day_plays)
        reply.resets_at = state.resets_at
    if snapshot.max_plays_per_user:
        remaining = max(0, snapshot.max_plays_per_user - player.plays)
        free = reply.free_plays_remaining
        reply.free_plays_remaining = remaining if free < 0 else min(free, remaining)
    if snapshot.requires_turn:
        reply.free_plays_remaining = 0
    try:
        snapshot.refuse_unless_open(state.now)
        if eligibility.needs_token(snapshot, pending):
            raise eligibility.login_required()
        eligibility.refuse_starter(state, pending)
        eligibility.admit(state, player)
        reply.reason = "SOLD_OUT" if eligibility.sold_out(state) else ""
    except Fault as fault:
        reply.can_play = False
        closed = fault.reason in ("GAME_INACTIVE", "CAMPAIGN_CLOSED")
        reply.reason = snapshot.closed_reason(state.now) if closed else fault.reason
        reply.starts_at = snapshot.dates.start if reply.reason == "NOT_STARTED" else 0
        reply.resets_at = fault.facts.get("resets_at", reply.resets_at)
    return reply


def play(state: GameState, pending: PendingRequest) -> Decision:
    """One play, decided."""
    snapshot, session, request = state.snapshot, pending.session, pending.request
    assert session is not None
    snapshot.refuse_unless_open(state.now)
    before = state.players[pending.player_id]
    price = eligibility.admit_play(state, session, before)
    rules, seed, payload = snapshot.rules, session.seed, request.payload or {}
    plan = rules.seed_generator.plan(rules.config, seed) if snapshot.shows_plan else ()
    busy_until = eligibility.check_payload(state, session, before, payload, plan)
    may_win = partial(eligibility.available, state, before)
    words = Words(seed, request.client_seed)
    outcome = rules.reward_handler.decide(Attempt(rules.config, snapshot.game, words, payload, plan, may_win))

    effects = Effects.on(before)
    effects.count_play(state, session, price, busy_until)
    winner = Winner(before.player_id, snapshot.campaign_id, state.day, snapshot.game_id, session.play_id)
    rewards: list[m.WonReward] = []
    for won in outcome.awards:
        rewards += effects.give(snapshot.prizes[won.prize_id], won.quantity, winner)
    for item in outcome.credits:
        effects.credit(item.item, item.quantity, "play_reward", winner.play_id)
        rewards.append(m.WonReward(name=item.item, type="item", quantity=item.quantity))
    points = effects.player.balances.get(POINTS, 0) - before.balances.get(POINTS, 0)
    granted = milestones.cross(state, winner, effects) if snapshot.auto_grant else []
    balances = effects.player.balances
    reply = m.PlayReply(
        rewards=rewards,
        metadata=outcome.metadata,
        play_id=winner.play_id,
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(currency=name, balance=balances[name]) for name in effects.currencies()],
        milestones_granted=granted,
        next=next_session(state, effects.player)
        if request.next and eligibility.admits(state, effects.player)
        else None,
    )
    effects.play = NewPlay(
        play_id=winner.play_id,
        game_id=snapshot.game_id,
        player_id=before.player_id,
        session_id=session.token,
        revision=snapshot.revision,
        seed=seed,
        client_seed=request.client_seed,
        payload=payload,
        outcome=encode_outcome(outcome, reply),
        score=outcome.score,
        wins=len(rewards),
        points=points,
        idempotency_key=pending.idempotency.key,
        request_hash=pending.idempotency.request_hash,
    )
    return Decision(pending, reply, effects, play_events(state, effects.play, reply, winner, pending.work.trace_id))


def encode_outcome(outcome: Outcome, reply: m.PlayReply) -> bytes:
    """The play row's `outcome`: the rule's decision for replay, and the reply for history and retries."""
    return msgspec.json.encode(
        {
            "decided": outcome,
            "rewards": reply.rewards,
            "balances": reply.balances,
            "milestones_granted": reply.milestones_granted,
            **({"next": reply.next} if reply.next is not None else {}),
        }
    )


def play_events(
    state: GameState, row: NewPlay, reply: m.PlayReply, winner: Winner, trace_id: str
) -> list[events.Event]:
    """play_completed, and a numbered prize_won for each prize: the play's own first, then those of its rungs."""
    prizes = state.snapshot.prizes
    payloads: list[events.EventData] = [
        events.PlayCompleted(
            play_id=row.play_id,
            game_id=row.game_id,
            player_id=row.player_id,
            score=row.score,
            wins=row.wins,
            points=row.points,
        )
    ]
    for reward in reply.rewards:
        if reward.prize_id:
            payloads.append(prize_won(winner, prizes[reward.prize_id], reward.quantity, reward.reward_id))
    for rung in reply.milestones_granted:
        payloads.append(prize_won(winner, prizes[rung.prize_id], 1, rung.reward_id, milestone_id=rung.id))
    return [state.event(data, trace_id, nth=max(0, nth)) for nth, data in enumerate(payloads, -1)]
