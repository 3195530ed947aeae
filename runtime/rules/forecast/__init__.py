"""Forecasts of a game: the distribution of its cost, what is left of its stock, and odds that keep a budget.

Small games are computed state by state, others by the characteristic function of the cost. Neither samples.
"""

from __future__ import annotations

from typing import Final

from runtime.rules.forecast import chain, large
from runtime.rules.forecast.caps import liability_of
from runtime.rules.forecast.terms import Forecast, GameTerms

SHOWN_PLAYS: Final = 5


def forecast(game: GameTerms) -> Forecast:
    """The forecast of a game with at least one play."""
    shown = tuple(sorted({1 + (game.plays - 1) * i // (SHOWN_PLAYS - 1) for i in range(SHOWN_PLAYS)}))
    if chain.is_small(game):
        return chain.forecast(game, liability_of(game), shown)
    return large.forecast(game, liability_of(game), shown)


__all__ = ["SHOWN_PLAYS", "Forecast", "GameTerms", "forecast", "liability_of"]
