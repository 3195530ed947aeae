"""Milestone rungs: crossed by a play, redeemed by the player, and listed as progress.

Decisions use the game's state, which includes the player's balances and grants; the batch commits their changes. In
either mode a player is granted a rung once: by its row in milestone_grants.
"""

from __future__ import annotations

from typing import Any

import msgspec

from runtime import messages as m
from runtime.actors.changes import NewGrant
from runtime.actors.game.awards import Effects, Winner, prize_won
from runtime.actors.game.eligibility import (
    Withheld,
    player_of,
    refuse_guest,
    refuse_suspended,
    refuse_without_entry,
    require_fresh,
    withheld,
)
from runtime.actors.game.pending import Decision, PendingRequest
from runtime.actors.game.state import GameSnapshot, GameState, PrizeTerms, RungTerms
from runtime.errors import Fault, Status, invalid, unknown
from runtime.stores.paging import Cursors


def cross(state: GameState, winner: Winner, effects: Effects) -> list[m.GrantedMilestone]:
    """Grants each rung that the player's balances now reach, lowest first. A rung without an available prize stays
    claimable.

    A rung's points may reach a further rung, so the scan repeats; it ends because each pass grants one rung.
    """
    snapshot, player = state.snapshot, effects.player
    granted: list[m.GrantedMilestone] = []
    while True:
        for rung in sorted(snapshot.rungs, key=_threshold):
            if rung.id in player.grants or player.balances.get(rung.currency, 0) < rung.threshold:
                continue
            prize = snapshot.prizes.get(rung.prize_id)
            if withheld(state, player, prize, 1, taken=effects.taken(rung.prize_id)) is None:
                assert prize is not None
                reward_id = effects.give(prize, 1, winner._replace(milestone_id=rung.id))[0].reward_id
                grant = NewGrant(
                    game_id=snapshot.game_id,
                    player_id=player.player_id,
                    milestone_id=rung.id,
                    reward_id=reward_id,
                    idempotency_key=None,
                    request_hash=None,
                    reply=None,
                )
                effects.grant(grant, int(state.now))
                granted.append(
                    m.GrantedMilestone(id=rung.id, name=rung.name, prize_id=rung.prize_id, reward_id=reward_id)
                )
                break
        else:
            return granted


def _threshold(rung: RungTerms) -> int:
    return rung.threshold


def redeem(state: GameState, pending: PendingRequest) -> Decision:
    """Claims or buys a rung. Refusals change nothing.

    INVALID_ARGUMENT on `milestone_id`; NOT_FOUND UNKNOWN_MILESTONE; ALREADY_EXISTS ALREADY_GRANTED; PERMISSION_DENIED
    LOGIN_REQUIRED, SUSPENDED, NOT_ELIGIBLE; FAILED_PRECONDITION ENTRY_REQUIRED, THRESHOLD_NOT_REACHED, OUT_OF_STOCK,
    NOT_RELEASED, CAP_USER and CAP_DAY of the prize, GAME_INACTIVE, CAMPAIGN_CLOSED. StaleRead before refusing by
    cached data.
    """
    snapshot, milestone_id, now = state.snapshot, pending.request.milestone_id, int(state.now)
    if not milestone_id:
        raise invalid("milestone_id", "is required")
    # Check first: a grant stays valid even if the campaign, the game or the rung has changed since.
    before = state.players[pending.player_id]
    if milestone_id in before.grants:
        require_fresh(state, before)
        raise Fault(
            Status.ALREADY_EXISTS,
            "ALREADY_GRANTED",
            f"milestone {milestone_id!r} has already been granted",
            granted_at=before.grants[milestone_id],
        )
    refuse_guest(state, before)
    snapshot.refuse_unless_redeemable(state.now)
    rung = next((rung for rung in snapshot.rungs if rung.id == milestone_id), None)
    if rung is None:
        raise unknown("milestone", milestone_id)
    refuse_suspended(state, before)
    refuse_without_entry(state, before)
    balance = before.balances.get(rung.currency, 0)
    if balance < rung.threshold:
        require_fresh(state, before)
        raise Fault(
            Status.FAILED_PRECONDITION,
            "THRESHOLD_NOT_REACHED",
            f"this milestone requires {rung.threshold} {rung.currency}; the balance is {balance}",
            balance=balance,
            threshold=rung.threshold,
        )
    prize = snapshot.prizes.get(rung.prize_id)
    if reason := withheld(state, before, prize, 1):
        raise _prize_withheld(state, prize, reason)
    assert prize is not None
    effects = Effects.on(before)
    winner = Winner(before.player_id, snapshot.campaign_id, state.day, snapshot.game_id, milestone_id=rung.id)
    won = effects.give(prize, 1, winner)[0]
    if snapshot.spends:
        # The entry names the reward it paid for, so that a revoke can refund it.
        effects.credit(rung.currency, -rung.threshold, "milestone_spend", rung.id, won.reward_id)
    reply = _reply(snapshot, rung, prize, won, effects, now)
    grant = NewGrant(
        game_id=snapshot.game_id,
        player_id=before.player_id,
        milestone_id=rung.id,
        reward_id=won.reward_id,
        idempotency_key=pending.idempotency.key,
        request_hash=pending.idempotency.request_hash,
        reply=msgspec.json.encode(reply),
    )
    effects.grant(grant, now)
    reply = with_content(reply, snapshot)
    event = state.event(prize_won(winner, prize, 1, won.reward_id), pending.work.trace_id)
    return Decision(pending, reply, effects, [event])


def _prize_withheld(state: GameState, prize: PrizeTerms | None, reason: Withheld) -> Fault:
    """The refusal of a rung with an unavailable prize: names the cap that is reached and when it resets."""
    if prize is None or reason is Withheld.OUT_OF_STOCK:
        return Fault(Status.FAILED_PRECONDITION, reason.name, "this milestone's prize is out of stock")
    if reason is Withheld.NOT_RELEASED:
        return Fault(Status.FAILED_PRECONDITION, reason.name, "no unit of this milestone's prize is free yet")
    limit, unit, resets_at = prize.max_per_user, "player", 0
    if reason is Withheld.CAP_DAY:
        limit, unit, resets_at = prize.max_per_day, "day", state.resets_at
    message = f"the limit of {limit} units of this milestone's prize per {unit} is reached"
    return Fault(Status.FAILED_PRECONDITION, reason.name, message, limit=limit, resets_at=resets_at)


def _reply(
    snapshot: GameSnapshot, rung: RungTerms, prize: PrizeTerms, won: m.WonReward, effects: Effects, now: int
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
    balances = effects.player.balances
    currencies = dict.fromkeys([rung.currency, *effects.currencies()])
    return m.RedeemReply(
        milestone=_progress(rung, balances.get(rung.currency, 0), granted_at=now),
        reward=reward,
        balances=[m.CurrencyBalance(currency=name, balance=balances.get(name, 0)) for name in currencies],
    )


def list_progress(state: GameState, pending: PendingRequest) -> m.ListMilestonesReply:
    """The rungs with the player's progress, in the block's order. Uses freshly read data."""
    snapshot, request, player = state.snapshot, pending.request, player_of(state, pending)
    query = ("milestones", snapshot.tenant_id, snapshot.game_id, pending.player_id)
    cursors = Cursors(state.keys)
    page = cursors.read(request.cursor, request.limit, query=query)
    first = int(page.after[0]) + 1 if page.after else 0
    places = range(len(snapshot.rungs))[first : first + page.fetch]
    shown, pagination = cursors.write(places, page.limit, key=_position, query=query)
    rungs = [snapshot.rungs[place] for place in shown]
    balances, grants = player.balances, player.grants
    items = [_progress(rung, balances.get(rung.currency, 0), granted_at=grants.get(rung.id, 0)) for rung in rungs]
    return m.ListMilestonesReply(items=items, pagination=pagination)


def _position(place: int) -> tuple[int]:
    return (place,)


def _progress(rung: RungTerms, balance: int, *, granted_at: int) -> m.MilestoneProgress:
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


def with_content(reply: m.RedeemReply, snapshot: GameSnapshot) -> m.RedeemReply:
    """Adds the prize's current public content, which is not stored with the reply."""
    if reply.reward is not None:
        prize = snapshot.prizes.get(reply.reward.prize_id)
        reply.reward.prize = (prize and prize.content) or m.PrizeContent()
    return reply


def decode_row(row: Any) -> m.RedeemReply:
    """The reply to a committed redeem, without the prize's content."""
    reply = row["reply"]
    milestone, reward = reply["milestone"], reply["reward"]
    return m.RedeemReply(
        milestone=m.MilestoneProgress(**{**milestone, "status": m.MilestoneStatus(milestone["status"])}),
        reward=None if reward is None else m.Reward(**{**reward, "status": m.RewardStatus(reward["status"])}),
        balances=[m.CurrencyBalance(**balance) for balance in reply["balances"]],
    )
