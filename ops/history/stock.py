"""What a prize's stock must be: a sequential model, and the history as operations on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ops.history.checker import FOREVER, Op
from ops.history.reading import Reading, closed

ENDED = ("revoked", "failed", "expired")
"""Statuses whose rewards have given their units back, unless they had been delivered."""


class Stock(NamedTuple):
    """total: 0 is no end of it."""

    total: int
    remaining: int


Step = Callable[[Stock], Iterable[Stock]]


def stocks(reading: Reading) -> Iterator[tuple[str, list[Op[Any]], Any]]:
    """Each prize of the terms that has a stock."""
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
    """What each play, and each redeem, took."""
    births = reading.births
    for row in reading.tables["rewards"]:
        if row["prize_id"] == prize_id:
            began, ended = births.get(row["reward_id"], (0.0, FOREVER))
            yield Op(began, ended, _takes_some(row["quantity"]), f"{row['reward_id']} takes {row['quantity']}")


def _returns(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    for row in reading.tables["rewards"]:
        if row["prize_id"] == prize_id and row["status"] in ENDED and row["fulfilled_at"] is None:
            asked = [one for one in reading.history.of("RevokeReward") if one.of == row["reward_id"]]
            began = min((one.began for one in asked), default=0.0)
            ended = min((one.ended for one in asked), default=FOREVER)
            yield Op(began, ended, _gives_back(row["quantity"]), f"{row['reward_id']} comes back")


def _restocks(reading: Reading, name: str) -> Iterator[Op[Any]]:
    for asked in reading.history.of("UpdatePrize"):
        if asked.of != name:
            continue
        total = (asked.body or {})["stock"]["total"]
        if asked.ok:
            yield Op(asked.began, asked.ended, _has_total(total), f"staff set the total to {total} (#{asked.number})")
        elif asked.unknown:
            told = f"staff perhaps set the total to {total} (#{asked.number})"
            yield Op(asked.began, FOREVER, _has_total(total), told, optional=True)
        for attempt in asked.attempts:
            if attempt.reason == "STOCK_BELOW_AWARDED":
                told = f"staff are told that {total} is less than awarded (#{asked.number})"
                yield Op(attempt.began, attempt.ended, _is_below_awarded(total), told)


def _sold_out(reading: Reading, prize_id: str) -> Iterator[Op[Any]]:
    """Plays that drew the prize and found none, and redeems that were told so."""
    for plays in reading.plays.values():
        for done in plays:
            if ["available", prize_id, 1, False] in done.outcome["decided"]["path"]:
                yield Op(done.began, done.ended, _is_sold_out, f"{done.row['play_id']} finds none")
    if reading.name_of(prize_id) != reading.terms.rung:
        return
    for asked in reading.history.of("Redeem"):
        for attempt in asked.attempts:
            if attempt.reason == "OUT_OF_STOCK":
                yield Op(attempt.began, attempt.ended, _is_sold_out, f"#{asked.number} is told that none is left")


def _takes_some(quantity: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        if state.remaining >= quantity:
            yield state._replace(remaining=state.remaining - quantity)

    return step


def _gives_back(quantity: int) -> Step:
    def step(state: Stock) -> Iterator[Stock]:
        if state.remaining + quantity <= state.total:
            yield state._replace(remaining=state.remaining + quantity)

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
