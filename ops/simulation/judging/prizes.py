"""What a prize's stock and a reward's state must be: their sequential models, and the history as operations on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from ops.history.checker import FOREVER, Op
from ops.simulation.catalogue import STOCKED, stock_of
from ops.simulation.judging.reading import Done, Reading
from runtime.actors.rewards import MOVES

DELIVERED: Final = ("parcel", "errand")
"""Prizes that a receiver is given, whenever it can be reached."""

Step = Callable[[Any], Iterable[Any]]


class Stock(NamedTuple):
    total: int
    remaining: int


def stocks(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each prize that has a stock."""
    totals = stock_of(reading.world.plan.world)
    for name in STOCKED:
        if not totals[name]:
            continue
        prize_id = reading.world.ids[name]
        ops = [
            *_takes(reading, prize_id),
            *_returns(reading, prize_id),
            *_restocks(reading, prize_id),
            *_sold_out(reading, prize_id, name),
        ]
        row = next(row for row in reading.tables.stock if row.prize_id == prize_id)
        end = Stock(row.total, row.remaining)
        ops.append(Op(reading.world.loop.now, FOREVER, _is(end), "what the table says in the end"))
        yield f"the stock of {name}", ops, Stock(totals[name], totals[name])


def _source(reading: Reading, row: Any) -> tuple[str, Done] | None:
    """What gave a reward, and when. None where nobody here asked for it (a board that finalized itself)."""
    world = reading.world
    if row.play_id:
        for play, done in reading.played:
            if play.play_id == row.play_id:
                return f"{world.name_of(row.player_id)}'s play", done
    if row.milestone_id:
        asked = [
            attempt
            for attempt in reading.of("Redeem")
            if attempt.request["milestone_id"] == row.milestone_id
            and attempt.request["id"] == row.game_id
            and reading.person(attempt.request["player_id"]) == reading.person(row.player_id)
        ]
        answers = reading.world.answers
        answered = [one for one in asked if one.ok and answers[one.number].reward.id == row.reward_id]
        if asked:
            done = reading.done(asked)
            done.ended = min((attempt.ended for attempt in answered), default=FOREVER)
            return f"{world.name_of(row.player_id)}'s redeem", done
    finals = reading.of("FinalizeLeaderboard")
    if finals:
        done = reading.done(finals)
        done.ended = FOREVER
        return "the board's rank", done
    return None


def _takes(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    units: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], Any] = {}
    for row in reading.tables.rewards:
        if row.prize_id == prize_id:
            key = (row.play_id or row.reward_id, row.milestone_id, "")
            units[key] += row.quantity
            first.setdefault(key, row)
    for key, quantity in units.items():
        source = _source(reading, first[key])
        told, done = source or ("something", Done(0.0, FOREVER, ()))
        yield Op(done.began, done.ended, _take(quantity), f"{told} takes {quantity}", about=done.about)


def _returns(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    for row in reading.tables.rewards:
        if row.prize_id != prize_id:
            continue
        for _ in range(reading.failures(row.reward_id)):
            # Given up, and tried again: in between somebody else may have had the unit.
            told = f"the delivery of {row.reward_id} is given up"
            yield Op(0.0, FOREVER, _back(row.quantity), told, optional=True)
            yield Op(0.0, FOREVER, _take(row.quantity), f"{row.reward_id} is tried again", optional=True)
        if row.status not in ("revoked", "failed", "expired") or row.fulfilled_at is not None:
            continue
        if row.status == "expired":
            yield Op(reading.expiry(row), FOREVER, _back(row.quantity), f"{row.reward_id} expires")
            continue
        asked = [attempt for attempt in reading.of("RevokeReward") if attempt.request["id"] == row.reward_id]
        merges = [done for _, done in reading.merges(reading.person(row.player_id))]
        began = min([attempt.began for attempt in asked] + [done.began for done in merges], default=0.0)
        ended = min((attempt.ended for attempt in asked if attempt.ok), default=FOREVER)
        told = f"{row.reward_id} comes back"
        yield Op(began, ended, _back(row.quantity), told, about=tuple(attempt.number for attempt in asked))


def _restocks(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    for attempt in reading.of("UpdatePrize"):
        if attempt.request["id"] != prize_id:
            continue
        total = attempt.request["prize"]["stock"]["total"]
        about = (attempt.number,)
        if attempt.ok:
            yield Op(attempt.began, attempt.ended, _total(total), f"staff set the total to {total}", about=about)
        elif attempt.outcome == "unknown":
            told = f"staff perhaps set the total to {total}"
            yield Op(attempt.began, FOREVER, _total(total), told, optional=True, about=about)
        elif attempt.outcome == "STOCK_BELOW_AWARDED":
            told = f"staff are told that {total} is less than awarded"
            yield Op(attempt.began, attempt.ended, _below(total), told, about=about)


def _sold_out(reading: Reading, prize_id: str, name: str) -> Iterator[Op[Any]]:
    for row, done in reading.played:
        path = msgspec.json.decode(row.outcome)["decided"]["path"]
        if ["available", prize_id, 1, False] in path:
            told = f"{reading.world.name_of(row.player_id)}'s play finds none"
            yield Op(done.began, done.ended, _none_left, told, about=done.about)
    mine = {row.reward_id: row.task_id for row in reading.tables.tasks if row.prize_id == prize_id}
    for attempt in reading.refusals("FulfillReward", "RetryTask", "CompleteTask"):
        if attempt.outcome == "OUT_OF_STOCK" and attempt.request["id"] in {*mine, *mine.values()}:
            told = f"{attempt.who} is told that no unit is left to take again"
            yield Op(attempt.began, attempt.ended, _none_left, told, about=(attempt.number,))
    if name == "rung":
        for attempt in reading.refusals("Redeem"):
            if attempt.outcome == "OUT_OF_STOCK":
                told = f"{attempt.who} is told that none is left"
                yield Op(attempt.began, attempt.ended, _none_left, told, about=(attempt.number,))


def _take(quantity: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        if state.remaining >= quantity:
            yield state._replace(remaining=state.remaining - quantity)

    return step


def _back(quantity: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        if state.remaining + quantity <= state.total:
            yield state._replace(remaining=state.remaining + quantity)

    return step


def _total(total: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        remaining = state.remaining + total - state.total
        if remaining >= 0:
            yield Stock(total, remaining)

    return step


def _below(total: int) -> Step:
    return lambda state: [state] if total < state.total - state.remaining else []


def _none_left(state: Stock) -> list[Stock]:
    return [state] if state.remaining == 0 else []


def _is(end: Stock) -> Step:
    return lambda state: [state] if state == end else []


# -- rewards -----------------------------------------------------------------------------------


class Standing(NamedTuple):
    """A reward's status, and whether it was ever claimed."""

    status: str
    claimed: bool = False


def rewards(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each reward that somebody claimed, fulfilled or revoked, or that a merge ended."""
    coded = reading.world.plan.world["coded"]
    instant = {"rare", "fruit", *(["coded"] if coded == "on_win" else [])}
    asked: dict[str, list[Any]] = {}
    for attempt in reading.of("ClaimReward", "FulfillReward", "RevokeReward"):
        asked.setdefault(attempt.request["id"], []).append(attempt)
    for row in reading.tables.rewards:
        if row.type == "points":
            continue
        name = reading.world.name_of(row.prize_id)
        person = reading.person(row.player_id)
        merges = list(reading.merges(person))
        attempts = asked.get(row.reward_id, [])
        revoked = [attempt for attempt in attempts if attempt.operation == "RevokeReward"]
        ops = list(_moves(reading, attempts, name, bool(merges)))
        for guest, done in merges:
            told = f"{reading.world.name_of(guest)} logs in, which ends it"
            if row.status == "revoked" and row.player_id == guest:
                ops.append(Op(done.began, done.ended, _ended, told, optional=bool(revoked), about=done.about))
        if name in DELIVERED:
            for move, after in (("attempt", "fulfilling"), ("deliver", "fulfilled"), ("give_up", "failed")):
                for _ in range(1 + reading.failures(row.reward_id)):
                    ops.append(Op(0.0, FOREVER, _move(move, after), f"a worker: {move}", optional=True))
        if row.expires_at is not None:
            ops.append(Op(reading.expiry(row), FOREVER, _move("expire", "expired"), "it expires", optional=True))
        end = Standing(row.status, row.claimed_at is not None)
        ops.append(Op(reading.world.loop.now, FOREVER, _stands(end), f"the table says {end.status} in the end"))
        began = Standing("fulfilled" if name in instant else "won")
        yield f"reward {row.reward_id} ({name})", ops, began


def _moves(reading: Reading, attempts: list[Any], prize: str, merged: bool) -> Iterator[Op[Any]]:
    groups: dict[tuple[str, str], list[Any]] = {}
    for attempt in attempts:
        key = attempt.request.get("idempotency_key") or f"step {attempt.step}"
        groups.setdefault((attempt.operation, key), []).append(attempt)
    for (operation, _), own in groups.items():
        move = {"ClaimReward": "claim", "FulfillReward": "fulfill", "RevokeReward": "revoke"}[operation]
        waits = prize == "rung" or prize in DELIVERED
        after = {"claim": "claimed" if waits else "fulfilled", "fulfill": "fulfilled", "revoke": "revoked"}[move]
        done = reading.done(own)
        if done.reply is not None:
            yield Op(done.began, done.ended, _move(move, after), f"{own[0].who} {move}s it", about=done.about)
        elif any(attempt.outcome == "unknown" for attempt in own):
            told = f"{own[0].who} perhaps {move}s it"
            yield Op(done.began, FOREVER, _move(move, after), told, optional=True, about=done.about)
        for attempt in own:
            if attempt.refused and attempt.outcome != "UNREACHABLE":
                step = _refusal(move, attempt.outcome, merged)
                told = f"{attempt.who} is told {attempt.outcome} where they would {move} it"
                yield Op(attempt.began, attempt.ended, step, told, about=(attempt.number,))


def _move(move: str, after: str) -> Step:
    def step(state: Standing) -> Iterator[Standing]:
        if state.status in MOVES[move].before:
            yield Standing(after, state.claimed or move == "claim")

    return step


def _refusal(move: str, reason: str, merged: bool) -> Step:
    def step(state: Standing) -> Iterator[Standing]:
        match reason:
            case "ALREADY_CLAIMED":
                holds = move == "claim" and state.claimed
            case "ILLEGAL_TRANSITION":
                holds = state.status not in MOVES[move].before and not (move == "claim" and state.claimed)
            case "UNKNOWN_REWARD":
                holds = merged and move == "claim"  # surplus stays the guest's, whom nobody is any more
            case "SUSPENDED":
                holds = True
            case "OUT_OF_STOCK":
                holds = move == "fulfill" and state.status == "failed"  # it gave its unit back
            case _:
                holds = False
        if holds:
            yield state

    return step


def _ended(state: Standing) -> Iterator[Standing]:
    if state.status != "revoked":
        yield Standing("revoked", state.claimed)


def _stands(end: Standing) -> Step:
    return lambda state: [state] if state == end else []
