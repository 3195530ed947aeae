"""Judges a recorded history: lists what cannot be explained, one line each."""

from collections.abc import Iterator

from ops.history import answers, rewards, stock, turns, wallets
from ops.history.checker import check
from ops.history.reading import Reading
from ops.history.record import History
from ops.history.tables import Tables
from ops.history.terms import Terms

MODELS = (turns.things, wallets.balances, wallets.rungs, rewards.standings, stock.stocks)


def problems(history: History, tables: Tables, terms: Terms) -> list[str]:
    """What cannot be explained. Empty: everything can."""
    reading = Reading(history, tables, terms)
    return [*answers.problems(reading), *rewards.codes(history, tables), *_orders(reading)]


def _orders(reading: Reading) -> Iterator[str]:
    """Objects without an order that makes every response right."""
    for things in MODELS:
        for name, ops, initial in things(reading):
            verdict = check(ops, initial)
            if verdict.gave_up:
                yield f"{name}: too many orders to try"
            elif not verdict.explained:
                yield (
                    f"no order explains {name}: after {' -> '.join(verdict.longest[-6:]) or 'nothing'}"
                    f" (state {verdict.state}) none of these fits: {'; '.join(verdict.blocked)}"
                )
