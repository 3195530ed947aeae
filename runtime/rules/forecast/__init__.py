"""Forecasts of a game: the distribution of its cost, what is left of its stock, and odds that keep a budget.

Small games are computed state by state, others by the characteristic function of the cost. Neither samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from runtime.rules.forecast import chain, ordered, several
from runtime.rules.forecast.caps import allowed, caps_as_stock, liability_of
from runtime.rules.forecast.plays import listed
from runtime.rules.forecast.terms import Forecast, GameTerms
from runtime.rules.forecast.within import factor_within

SHOWN_PLAYS: Final = 5


@dataclass(frozen=True, slots=True)
class Task:
    """A forecast to make. budget: None for none."""

    game: GameTerms
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A forecast. factor: for the odds, so that the cost keeps the budget (within.py); None without a budget."""

    forecast: Forecast
    factor: float | None = None


def answer(task: Task) -> Answer:
    """The forecast, with the factor for its budget."""
    found, game = forecast(task.game), caps_as_stock(task.game)
    return Answer(
        found, None if task.budget is None or game.in_order else factor_within(game, task.budget, found.costs)
    )


def forecast(game: GameTerms) -> Forecast:
    """The forecast of a game with at least one play."""
    shown = tuple(sorted({1 + (game.plays - 1) * i // (SHOWN_PLAYS - 1) for i in range(SHOWN_PLAYS)}))
    if game.in_order:
        return ordered.forecast(game, liability_of(game), shown)
    own, game = game, listed(caps_as_stock(game))
    if chain.is_small(game):
        found = chain.forecast(game, liability_of(game), shown)
    else:
        found = several.forecast(game, liability_of(game), shown)
        found.costs = found.costs.within(found.liability)
    for i, prize in enumerate(found.prizes):
        if (stock := own.prizes[i].stock) is None or allowed(own, i) < stock:
            prize.run_out = prize.run_out_at = 0.0  # Its caps or its release limited it, not its stock.
    return found


__all__ = ["Answer", "Forecast", "GameTerms", "Task", "answer", "forecast", "liability_of"]
