"""Milestone rungs: crossed inside a play, redeemed by the player, reported as progress (spec.md, Milestones).

These are decisions of the game's actor (play.py), which knows the player's balances and grants and
commits what is decided here with everything else of its turn. A rung is granted to a player once, in
either mode: by its row in milestone_grants.
"""

from __future__ import annotations

from typing import Any

import msgspec

from runtime import events
from runtime import messages as m
from runtime.actors.changes import Changes, NewGrant
from runtime.actors.game.actor import GameActor, Seat, Ticket
from runtime.actors.game.awards import Winner
from runtime.actors.game.snapshot import PrizeCard, Rulebook, RungCard
from runtime.errors import Fault, Status, invalid, unknown


def cross(actor: GameActor, book: Rulebook, seat: Seat, winner: Winner, changes: Changes) -> list[m.GrantedMilestone]:
    """Grants each rung that the player's balances now reach, lowest first. One whose prize is gone stays claimable.

    A rung's points may reach a further rung: hence the loop, which ends since each pass grants one.
    """
    granted: list[m.GrantedMilestone] = []
    while True:
        for rung in sorted(book.rungs, key=lambda rung: rung.threshold):
            if rung.id in seat.grants or seat.balances.get(rung.currency, 0) < rung.threshold:
                continue
            prize = book.prizes.get(rung.prize_id)
            if actor.available(prize, seat, 1):
                assert prize is not None
                granted.append(_grant(actor, book, seat, rung, prize, winner, changes))
                break
        else:
            return granted


def _grant(
    actor: GameActor, book: Rulebook, seat: Seat, rung: RungCard, prize: PrizeCard, winner: Winner, changes: Changes
) -> m.GrantedMilestone:
    by_rung = Winner(winner.player_id, winner.campaign_id, winner.day, winner.game_id, winner.play_id, rung.id)
    rewards = actor.give(book, seat, prize, 1, by_rung, changes)
    reward_id = rewards[0].reward_id
    seat.grants[rung.id] = int(actor.engine.clock.now())
    changes.grants.append(NewGrant(book.game_id, seat.player_id, rung.id, reward_id, None, None, None))
    return m.GrantedMilestone(id=rung.id, name=rung.name, prize_id=rung.prize_id, reward_id=reward_id)


def redeem(
    actor: GameActor, book: Rulebook, ticket: Ticket, changes: Changes
) -> tuple[m.RedeemReply, list[events.Event]]:
    """Claims a rung, or buys it: (the answer, the events). Refusals change nothing.

    NOT_FOUND UNKNOWN_MILESTONE; ALREADY_EXISTS ALREADY_GRANTED; FAILED_PRECONDITION
    THRESHOLD_NOT_REACHED, OUT_OF_STOCK, GAME_INACTIVE, CAMPAIGN_CLOSED.
    """
    request, now = ticket.request, actor.engine.clock.now()
    book.refuse_unless_open(now)
    if not request.milestone_id:
        raise invalid("milestone_id", "is required")
    rung = next((rung for rung in book.rungs if rung.id == request.milestone_id), None)
    if rung is None:
        raise unknown("milestone", request.milestone_id)
    seat = actor.seats[ticket.player_id]
    if rung.id in seat.grants:
        actor.doubt(seat)
        raise Fault(
            Status.ALREADY_EXISTS,
            "ALREADY_GRANTED",
            f"milestone {rung.id!r} was granted already",
            granted_at=seat.grants[rung.id],
        )
    balance = seat.balances.get(rung.currency, 0)
    if balance < rung.threshold:
        actor.doubt(seat)
        raise Fault(
            Status.FAILED_PRECONDITION,
            "THRESHOLD_NOT_REACHED",
            f"{balance} of {rung.threshold} {rung.currency}",
            balance=balance,
            threshold=rung.threshold,
        )
    prize = book.prizes.get(rung.prize_id)
    if not actor.available(prize, seat, 1):
        raise Fault(Status.FAILED_PRECONDITION, "OUT_OF_STOCK", "this milestone's prize is out of stock")
    assert prize is not None
    entries_before = len(changes.ledger)
    if book.spends:
        actor.credit(book, seat, rung.currency, -rung.threshold, "milestone_spend", rung.id, changes)
    seat.grants[rung.id] = int(now)
    winner = Winner(seat.player_id, book.campaign_id, actor.day, book.game_id, "", rung.id)
    won = actor.give(book, seat, prize, 1, winner, changes)[0]
    touched = [entry.currency for entry in changes.ledger[entries_before:]]
    delivered = bool(won.reward_id) and prize.delivered_at_win
    reply = _reply(book, seat, rung, prize, won, delivered, touched, int(now))
    changes.grants.append(
        NewGrant(
            book.game_id,
            seat.player_id,
            rung.id,
            won.reward_id,
            ticket.asked.key,
            ticket.asked.request_hash,
            msgspec.json.encode(reply),
        )
    )
    data = {
        "game_id": book.game_id,
        "player_id": seat.player_id,
        "prize_id": prize.prize_id,
        "reward_id": won.reward_id,
        "milestone_id": rung.id,
        "name": prize.name,
        "type": prize.type,
        "quantity": 1,
        "value": prize.value,
    }
    return reply, [actor.event(events.PRIZE_WON, book, ticket, now, data)]


def _reply(
    book: Rulebook,
    seat: Seat,
    rung: RungCard,
    prize: PrizeCard,
    won: m.WonReward,
    delivered: bool,
    touched: list[str],
    now: int,
) -> m.RedeemReply:
    reward = None
    if won.reward_id:
        reward = m.Reward(
            id=won.reward_id,
            prize_id=prize.prize_id,
            name=prize.name,
            type=prize.type,
            value=prize.value,
            quantity=1,
            status=m.RewardStatus.FULFILLED if delivered else m.RewardStatus.WON,
            game_id=book.game_id,
            campaign_id=book.campaign_id,
            milestone_id=rung.id,
            won_at=now,
            fulfilled_at=now if delivered else 0,
            expires_at=now + prize.expires_after_days * 86400 if prize.expires_after_days else 0,
        )
    currencies = dict.fromkeys([rung.currency, *touched])
    return m.RedeemReply(
        milestone=_progress(book, seat, rung),
        reward=reward,
        balances=[m.CurrencyBalance(currency=name, balance=seat.balances.get(name, 0)) for name in currencies],
    )


def progress(actor: GameActor, book: Rulebook, ticket: Ticket) -> m.ListMilestonesReply:
    """The rungs and where the player stands, in the order of the block. By what was just read."""
    request, seat = ticket.request, actor.seats[ticket.player_id]
    query = ("milestones", actor.tenant_id, actor.game_id, ticket.player_id)
    page = actor.engine.cursors.read(request.cursor, request.limit, query=query)
    first = int(page.after[0]) + 1 if page.after else 0
    rungs = list(enumerate(book.rungs))[first : first + page.fetch]
    shown, pagination = actor.engine.cursors.write(rungs, page.limit, key=lambda row: (row[0],), query=query)
    return m.ListMilestonesReply(items=[_progress(book, seat, rung) for _, rung in shown], pagination=pagination)


def _progress(book: Rulebook, seat: Seat, rung: RungCard) -> m.MilestoneProgress:
    balance = seat.balances.get(rung.currency, 0)
    granted_at = seat.grants.get(rung.id, 0)
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
