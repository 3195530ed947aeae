"""What becomes of a start and of a play: decided by the pure rules, from what the game's actor knows.

Nothing here waits. A play puts everything that it changes into `Changes`, and moves what the actor
remembers on, so that the plays behind it in the batch see it as done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime import events, ids
from runtime import messages as m
from runtime.actors.changes import Changes, NewPlay
from runtime.actors.game import milestones, timing
from runtime.actors.game.actor import GameActor, PlayerState, StaleRead
from runtime.actors.game.awards import Winner, prize_won
from runtime.actors.game.pending import Decision, PendingRequest
from runtime.actors.game.retries import encode_outcome
from runtime.actors.game.sessions import Session, commitment_of, issue
from runtime.actors.game.snapshot import POINTS, GameSnapshot
from runtime.errors import Fault
from runtime.rules import Attempt, Drop, Outcome, Words, seed_hash


def start(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest) -> m.StartReply:
    """A session for the player, where a play would now be admitted."""
    now = actor.engine.clock.now()
    snapshot.refuse_unless_open(now)
    player = actor.state_of(pending)
    actor.admit(snapshot, player)
    opened = _session(actor, snapshot, player, now)
    return m.StartReply(
        session_id=opened.session_id,
        seed_hash=opened.seed_hash,
        commitment=opened.commitment,
        revision_hash=opened.revision_hash,
        expires_at=opened.expires_at,
        drop_plan=opened.drop_plan,
        guest_player_id=pending.player_id if pending.anonymous else "",
    )


def _session(actor: GameActor, snapshot: GameSnapshot, player: PlayerState, now: float) -> m.NextSession:
    """A new session of the player. Where it shows a plan, it is of the player's next play, and always the same one."""
    settings = actor.engine.settings
    session = issue(
        actor.engine.keyring.server,
        actor.tenant_id,
        actor.game_id,
        player.player_id,
        now,
        snapshot.revision_hash,
        ordinal=player.plays if snapshot.shows_plan else -1,
    )
    hashed = seed_hash(session.seed)
    return m.NextSession(
        session_id=session.token,
        seed_hash=hashed,
        commitment=commitment_of(hashed, snapshot.revision_hash, session.token),
        revision_hash=snapshot.revision_hash,
        expires_at=session.issued_ms // 1000 + settings.session_ttl_seconds,
        drop_plan=[
            m.PlannedDrop(id=drop.id, type=drop.type, at_ms=drop.at_ms)
            for drop in snapshot.rules.seed_generator.plan(snapshot.rules.config, session.seed)
        ],
    )


def _next(actor: GameActor, snapshot: GameSnapshot, player: PlayerState, now: float) -> m.NextSession | None:
    """The session of a next play; None where a start would be refused."""
    try:
        actor.admit(snapshot, player)
    except (Fault, StaleRead):  # A memory that would refuse is not read again for this: a start does that.
        return None
    return _session(actor, snapshot, player, now)


def eligibility(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest) -> m.EligibilityReply:
    """Whether `start` would be let in, and why not. By what was just read (`READS`)."""
    player = actor.state_of(pending)
    reply = m.EligibilityReply(can_play=True, remaining_turns=player.turns, free_plays_remaining=-1)
    if snapshot.max_plays_per_day:
        reply.free_plays_remaining = max(0, snapshot.max_plays_per_day - player.day_plays)
        reply.resets_at = actor.resets_at
    if snapshot.max_plays_per_user:
        left = max(0, snapshot.max_plays_per_user - player.plays)
        free = reply.free_plays_remaining
        reply.free_plays_remaining = left if free < 0 else min(free, left)
    if snapshot.requires_turn:
        reply.free_plays_remaining = 0
    try:
        snapshot.refuse_unless_open(actor.engine.clock.now())
        actor.refuse_guest(snapshot, player)
        actor.admit(snapshot, player)
    except Fault as fault:
        reply.can_play = False
        reply.reason = fault.reason
        reply.resets_at = fault.facts.get("resets_at", reply.resets_at)
    return reply


def play(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest, changes: Changes) -> Decision:
    """One play, decided: everything that it changes goes into `changes`."""
    request, session = pending.request, pending.session
    assert session is not None
    now = actor.engine.clock.now()
    snapshot.refuse_unless_open(now)
    player = actor.players[pending.player_id]
    actor.require_session(snapshot, session, player)
    spends_turn = actor.admit(snapshot, player)
    if spends_turn and not snapshot.requires_turn and any(player.player_id in who for who in actor.committing.values()):
        raise StaleRead  # Where the play before this one is undone, a free one is left, and no turn is to be spent.
    seed, rules = session.seed, snapshot.rules
    plan = rules.seed_generator.plan(rules.config, seed)
    payload = request.payload or {}
    busy_until = _check(actor, snapshot, player, session, payload, plan, int(now * 1000))
    outcome = rules.reward_handler.decide(
        Attempt(
            rules.config,
            snapshot.game,
            Words(seed, request.client_seed),
            payload,
            plan,
            lambda prize_id, quantity: not actor.withheld(snapshot.prizes.get(prize_id), player, quantity),
        )
    )
    # From here on nothing refuses: what is remembered moves on, for the plays behind this one.
    play_id, entries_before = session.play_id, len(changes.ledger)
    _count(actor, snapshot, player, session, spends_turn, busy_until, changes)
    winner = Winner(player.player_id, snapshot.campaign_id, actor.day, actor.game_id, play_id)
    rewards, points = _rewards(actor, snapshot, player, outcome, winner, changes)
    granted = milestones.cross(actor, snapshot, player, winner, changes) if snapshot.auto_grant else []
    currencies = dict.fromkeys(entry.currency for entry in changes.ledger[entries_before:])
    reply = m.PlayReply(
        rewards=rewards,
        metadata=outcome.metadata,
        play_id=play_id,
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(currency=name, balance=player.balances[name]) for name in currencies],
        milestones_granted=granted,
        next=_next(actor, snapshot, player, now) if request.next else None,
    )
    changes.plays.append(
        NewPlay(
            play_id,
            actor.game_id,
            player.player_id,
            session.token,
            snapshot.revision,
            seed,
            request.client_seed,
            payload,
            encode_outcome(outcome, reply),
            outcome.score,
            len(rewards),
            points,
            pending.asked.key,
            pending.asked.request_hash,
        )
    )
    return Decision(pending, reply, _events(actor, snapshot, pending, winner, outcome, reply, points, now))


def _check(
    actor: GameActor,
    snapshot: GameSnapshot,
    player: PlayerState,
    session: Session,
    payload: Mapping[str, Any],
    plan: tuple[Drop, ...],
    now_ms: int,
) -> int:
    """Refuses what cannot have been played. Up to when the play takes the player's time; 0: it takes none."""
    rules = snapshot.rules
    begins = timing.begins_ms(player.busy_until, session.issued_ms, now_ms)
    try:
        took_ms = rules.validator.check(
            rules.reward_handler, rules.config, payload, plan, timing.left_ms(begins, now_ms)
        )
    except Fault:
        if begins > session.issued_ms:
            actor.require_fresh(player)
        raise
    return begins + took_ms if took_ms else 0


def _count(
    actor: GameActor,
    snapshot: GameSnapshot,
    player: PlayerState,
    session: Session,
    spends_turn: bool,
    busy_until: int,
    changes: Changes,
) -> None:
    """Counts the play, with the time that it takes, and spends the turn that it costs."""
    player.plays += 1
    player.day_plays += 1
    # A play that spends a turn is beyond the day's free ones: its bound is that no rival played in between. That of
    # a plan's play is also that none before it was undone: it is of this ordinal or of none. Likewise one that takes
    # time: a rival may have taken the same.
    cap, day_cap = snapshot.max_plays_per_user, snapshot.max_plays_per_day
    if spends_turn and not snapshot.requires_turn:
        day_cap = player.day_plays
    if exact := session.ordinal >= 0 or busy_until > 0:
        cap = player.plays
        player.busy_until = max(player.busy_until, busy_until)
    if player.guest:
        changes.hold_guest(player.player_id)
    changes.count_play(
        actor.game_id,
        player.player_id,
        actor.day,
        cap=cap,
        day_cap=day_cap,
        day_ends=actor.resets_at,
        exact=exact,
        busy_until=busy_until,
    )
    if spends_turn:
        changes.move_turns(
            ids.make("turn"), player.player_id, snapshot.campaign_id, player.turns, -1, "play", session.play_id
        )
        player.turns -= 1


def _rewards(
    actor: GameActor, snapshot: GameSnapshot, player: PlayerState, outcome: Outcome, winner: Winner, changes: Changes
) -> tuple[list[m.WonReward], int]:
    """Gives what the rule decided. The rewards that the player is told of, and the points among them."""
    before = player.balances.get(POINTS, 0)
    rewards: list[m.WonReward] = []
    for won in outcome.awards:
        rewards += actor.give(snapshot, player, snapshot.prizes[won.prize_id], won.quantity, winner, changes)
    for won_item in outcome.credits:
        actor.credit(snapshot, player, won_item.item, won_item.quantity, "play_reward", winner.play_id, changes)
        rewards.append(m.WonReward(name=won_item.item, type="item", quantity=won_item.quantity))
    return rewards, player.balances.get(POINTS, 0) - before


def _events(
    actor: GameActor,
    snapshot: GameSnapshot,
    pending: PendingRequest,
    winner: Winner,
    outcome: Outcome,
    reply: m.PlayReply,
    points: int,
    now: float,
) -> list[events.Event]:
    """play_completed, and prize_won for each prize."""
    completed = events.PlayCompleted(
        reply.play_id, actor.game_id, winner.player_id, outcome.score, len(reply.rewards), points
    )
    found = [actor.event(completed, snapshot, pending, now)]
    for reward in reply.rewards:
        if reward.prize_id:
            won = prize_won(winner, snapshot.prizes[reward.prize_id], reward.quantity, reward.reward_id)
            found.append(actor.event(won, snapshot, pending, now, nth=len(found) - 1))
    for rung in reply.milestones_granted:
        won = prize_won(winner, snapshot.prizes[rung.prize_id], 1, rung.reward_id, milestone_id=rung.id)
        found.append(actor.event(won, snapshot, pending, now, nth=len(found) - 1))
    return found
