"""A sequential model of a prize's stock, and the history as operations on it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ops.history.checker import FOREVER, Op
from ops.history.reading import Reading, closed

ENDED = ("revoked", "failed", "expired")
"""Statuses in which a reward has returned its stock, unless it was delivered."""


class Stock(NamedTuple):
    """total: 0 means unlimited."""

    total: int
    remaining: int


Step = Callable[[Stock], Iterable[Stock]]


def stocks(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each limited prize of the terms."""
    rows = {reading.name_of(row["prize_id"]): row for row in reading.tables["stock"]}
    for name, total in reading.terms.stock.items():
        row = rows[name]
        if total:
            ops = [
                *_takes(reading, row["prize_id"]),
                *_returns(reading, row["prize_id"]),
                *_restocks(reading, name),
                *_sold_out(reading, row["prize_id"]),
            ]
            end = Stock(row["total"], row["remaining"])
            yield f"the stock of {name}", closed(ops, _is(end), str(end)) if ops else [], Stock(total, total)


def _takes(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    """The units that each play and each redeem took."""
    births = reading.births
    for row in reading.tables["rewards"]:
        if row["prize_id"] == prize_id:
            began, ended = births.get(row["reward_id"], (0.0, FOREVER))
            yield Op(began, ended, _moves(-row["quantity"]), f"{row['reward_id']} takes {row['quantity']}")


def _returns(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    for row in reading.tables["rewards"]:
        if row["prize_id"] == prize_id and row["status"] in ENDED and row["fulfilled_at"] is None:
            requests = [one for one in reading.history.of("RevokeReward") if one.of == row["reward_id"]]
            began = min((one.began for one in requests), default=0.0)
            ended = min((one.ended for one in requests), default=FOREVER)
            yield Op(began, ended, _moves(row["quantity"]), f"{row['reward_id']} is returned")


def _restocks(reading: Reading, name: str) -> Iterator[Op[Any]]:
    for request in reading.history.of("UpdatePrize"):
        if request.of != name:
            continue
        total = (request.body or {})["stock"]["total"]
        if request.ok:
            yield Op(
                request.began, request.ended, _has_total(total), f"staff set the total to {total} (#{request.number})"
            )
        elif request.unknown:
            label = f"staff perhaps set the total to {total} (#{request.number})"
            yield Op(request.began, FOREVER, _has_total(total), label, optional=True)
        for attempt in request.attempts:
            if attempt.reason == "STOCK_BELOW_AWARDED":
                label = f"staff cannot set the total to {total} (#{request.number})"
                yield Op(attempt.began, attempt.ended, _is_below_awarded(total), label)


def _sold_out(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    """Plays that drew the prize while sold out, and redeems that were refused as sold out."""
    for plays in reading.plays.values():
        for done in plays:
            if ["available", prize_id, 1, False] in done.outcome["decided"]["path"]:
                yield Op(done.began, done.ended, _is_sold_out, f"{done.row['play_id']} finds none")
    if reading.name_of(prize_id) != reading.terms.rung:
        return
    for request in reading.history.of("Redeem"):
        for attempt in request.attempts:
            if attempt.reason == "OUT_OF_STOCK":
                yield Op(attempt.began, attempt.ended, _is_sold_out, f"#{request.number} is refused as sold out")


def _moves(units: int) -> Step:
    """So many units come back, or leave where they are negative, within the total."""

    def step(state: Stock) -> Iterator[Stock]:
        if 0 <= state.remaining + units <= state.total:
            yield state._replace(remaining=state.remaining + units)

    return step


def _has_total(total: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        remaining = state.remaining + total - state.total
        if remaining >= 0:
            yield Stock(total, remaining)

    return step


def _is_below_awarded(total: int) -> Step:
    return lambda state: [state] if total < state.total - state.remaining else []


def _is_sold_out(state: Stock) -> list[Stock]:
    return [state] if state.remaining == 0 else []


def _is(end: Stock) -> Step:
    return lambda state: [state] if state == end else []
