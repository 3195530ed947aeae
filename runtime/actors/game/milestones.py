"""Milestone rungs: crossed inside a play, redeemed by the player, reported as progress (spec.md, Milestones).

These are decisions of the game's actor (batch.py), which knows the player's balances and grants and
commits what is decided here with everything else of its batch. A rung is granted to a player once, in
either mode: by its row in milestone_grants.
"""

from __future__ import annotations

from typing import Any

import msgspec

from runtime import messages as m
from runtime.actors.changes import Changes, NewGrant
from runtime.actors.game.actor import GameActor, PlayerState
from runtime.actors.game.awards import Winner, prize_won
from runtime.actors.game.pending import Decision, PendingRequest
from runtime.actors.game.snapshot import GameSnapshot, PrizeTerms, RungTerms
from runtime.errors import Fault, Status, invalid, unknown


def cross(
    actor: GameActor, snapshot: GameSnapshot, player: PlayerState, winner: Winner, changes: Changes
) -> list[m.GrantedMilestone]:
    """Grants each rung that the player's balances now reach, lowest first. One whose prize is gone stays claimable.

    A rung's points may reach a further rung: hence the loop, which ends since each pass grants one.
    """
    granted: list[m.GrantedMilestone] = []
    while True:
        for rung in sorted(snapshot.rungs, key=lambda rung: rung.threshold):
            if rung.id in player.grants or player.balances.get(rung.currency, 0) < rung.threshold:
                continue
            prize = snapshot.prizes.get(rung.prize_id)
            if not actor.withheld(prize, player, 1):
                assert prize is not None
                granted.append(_grant(actor, snapshot, player, rung, prize, winner, changes))
                break
        else:
            return granted


def _grant(
    actor: GameActor,
    snapshot: GameSnapshot,
    player: PlayerState,
    rung: RungTerms,
    prize: PrizeTerms,
    winner: Winner,
    changes: Changes,
) -> m.GrantedMilestone:
    by_rung = Winner(winner.player_id, winner.campaign_id, winner.day, winner.game_id, winner.play_id, rung.id)
    rewards = actor.give(snapshot, player, prize, 1, by_rung, changes)
    reward_id = rewards[0].reward_id
    player.grants[rung.id] = int(actor.engine.clock.now())
    changes.grants.append(NewGrant(snapshot.game_id, player.player_id, rung.id, reward_id, None, None, None))
    return m.GrantedMilestone(id=rung.id, name=rung.name, prize_id=rung.prize_id, reward_id=reward_id)


def redeem(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest, changes: Changes) -> Decision:
    """Claims a rung, or buys it. Refusals change nothing.

    NOT_FOUND UNKNOWN_MILESTONE; ALREADY_EXISTS ALREADY_GRANTED; PERMISSION_DENIED LOGIN_REQUIRED; FAILED_PRECONDITION
    THRESHOLD_NOT_REACHED, OUT_OF_STOCK, CAP_USER and CAP_DAY of the prize, GAME_INACTIVE, CAMPAIGN_CLOSED.
    """
    request, now = pending.request, actor.engine.clock.now()
    if not request.milestone_id:
        raise invalid("milestone_id", "is required")
    # Before anything else: what was granted stays so, whatever became of the campaign, the game or the rung.
    player = actor.players[pending.player_id]
    if request.milestone_id in player.grants:
        actor.require_fresh(player)
        raise Fault(
            Status.ALREADY_EXISTS,
            "ALREADY_GRANTED",
            f"milestone {request.milestone_id!r} was granted already",
            granted_at=player.grants[request.milestone_id],
        )
    actor.refuse_guest(snapshot, player)
    snapshot.refuse_unless_redeemable(now)
    rung = next((rung for rung in snapshot.rungs if rung.id == request.milestone_id), None)
    if rung is None:
        raise unknown("milestone", request.milestone_id)
    actor.refuse_suspended(player)
    balance = player.balances.get(rung.currency, 0)
    if balance < rung.threshold:
        actor.require_fresh(player)
        raise Fault(
            Status.FAILED_PRECONDITION,
            "THRESHOLD_NOT_REACHED",
            f"{balance} of {rung.threshold} {rung.currency}",
            balance=balance,
            threshold=rung.threshold,
        )
    prize = snapshot.prizes.get(rung.prize_id)
    if reason := actor.withheld(prize, player, 1):
        raise _withheld(actor, prize, reason)
    assert prize is not None
    entries_before = len(changes.ledger)
    if player.guest:
        changes.hold_guest(player.player_id)
    player.grants[rung.id] = int(now)
    winner = Winner(player.player_id, snapshot.campaign_id, actor.day, snapshot.game_id, "", rung.id)
    won = actor.give(snapshot, player, prize, 1, winner, changes)[0]
    if snapshot.spends:
        # The entry names what it paid for, so that a revoke can give it back.
        price = -rung.threshold
        actor.credit(snapshot, player, rung.currency, price, "milestone_spend", rung.id, changes, won.reward_id)
    touched = [entry.currency for entry in changes.ledger[entries_before:]]
    reply = _reply(snapshot, player, rung, prize, won, touched, int(now))
    changes.grants.append(
        NewGrant(
            snapshot.game_id,
            player.player_id,
            rung.id,
            won.reward_id,
            pending.asked.key,
            pending.asked.request_hash,
            msgspec.json.encode(reply),
        )
    )
    data = prize_won(winner, prize, 1, won.reward_id)
    return Decision(pending, reply, [actor.event(data, snapshot, pending, now)])


def _withheld(actor: GameActor, prize: PrizeTerms | None, reason: str) -> Fault:
    """The refusal of a rung whose prize is not to be had: which cap is reached, and when it resets."""
    if prize is None or reason == "OUT_OF_STOCK":
        return Fault(Status.FAILED_PRECONDITION, reason, "this milestone's prize is out of stock")
    limit, whose, resets_at = prize.max_per_user, "a player", 0
    if reason == "CAP_DAY":
        limit, whose, resets_at = prize.max_per_day, "a day", actor.resets_at
    message = f"all {limit} of this milestone's prize for {whose} are given"
    return Fault(Status.FAILED_PRECONDITION, reason, message, limit=limit, resets_at=resets_at)


def _reply(
    snapshot: GameSnapshot,
    player: PlayerState,
    rung: RungTerms,
    prize: PrizeTerms,
    won: m.WonReward,
    touched: list[str],
    now: int,
) -> m.RedeemReply:
    delivered = prize.is_points or prize.delivered_at_win
    expires = prize.expires_after_days and not prize.is_points
    reward = m.Reward(
        id=won.reward_id,
        prize_id=prize.prize_id,
        name=prize.name,
        type=prize.type,
        value=prize.value,
        quantity=1,
        status=m.RewardStatus.FULFILLED if delivered else m.RewardStatus.WON,
        game_id=snapshot.game_id,
        campaign_id=snapshot.campaign_id,
        milestone_id=rung.id,
        won_at=now,
        fulfilled_at=now if delivered else 0,
        expires_at=now + prize.expires_after_days * 86400 if expires else 0,
    )
    currencies = dict.fromkeys([rung.currency, *touched])
    return m.RedeemReply(
        milestone=_progress(snapshot, player, rung),
        reward=reward,
        balances=[m.CurrencyBalance(currency=name, balance=player.balances.get(name, 0)) for name in currencies],
    )


def progress(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest) -> m.ListMilestonesReply:
    """The rungs and where the player stands, in the order of the block. By what was just read."""
    request, player = pending.request, actor.state_of(pending)
    query = ("milestones", actor.tenant_id, actor.game_id, pending.player_id)
    cursors = actor.engine.cursors
    page = cursors.read(request.cursor, request.limit, query=query)
    first = int(page.after[0]) + 1 if page.after else 0
    places = range(len(snapshot.rungs))[first : first + page.fetch]
    shown, pagination = cursors.write(places, page.limit, key=lambda place: (place,), query=query)
    items = [_progress(snapshot, player, snapshot.rungs[place]) for place in shown]
    return m.ListMilestonesReply(items=items, pagination=pagination)


def _progress(snapshot: GameSnapshot, player: PlayerState, rung: RungTerms) -> m.MilestoneProgress:
    balance = player.balances.get(rung.currency, 0)
    granted_at = player.grants.get(rung.id, 0)
    if granted_at:
        status = m.MilestoneStatus.GRANTED
    elif balance >= rung.threshold:
        status = m.MilestoneStatus.CLAIMABLE
    else:
        status = m.MilestoneStatus.LOCKED
    return m.MilestoneProgress(
        id=rung.id,
        name=rung.name,
        currency=rung.currency,
        threshold=rung.threshold,
        balance=balance,
        progress=1.0 if granted_at else min(1.0, balance / rung.threshold),
        prize_id=rung.prize_id,
        status=status,
        granted_at=granted_at,
    )


def decode_row(row: Any) -> m.RedeemReply:
    """The answer that a committed redeem was given."""
    reply = row["reply"]
    milestone, reward = reply["milestone"], reply["reward"]
    return m.RedeemReply(
        milestone=m.MilestoneProgress(**{**milestone, "status": m.MilestoneStatus(milestone["status"])}),
        reward=None if reward is None else m.Reward(**{**reward, "status": m.RewardStatus(reward["status"])}),
        balances=[m.CurrencyBalance(**balance) for balance in reply["balances"]],
    )
