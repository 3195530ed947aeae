"""The odds that keep a budget: one factor for all prizes that cost something."""

from __future__ import annotations

from dataclasses import replace
from math import fsum
from statistics import NormalDist
from typing import Final

from runtime.rules.forecast import chain, large
from runtime.rules.forecast.caps import liability_of
from runtime.rules.forecast.terms import GameTerms

RISK: Final = 0.01
"""The probability of exceeding the budget that the odds may leave."""
_ROUNDS: Final = 14
_CLOSE: Final = 0.02
"""How many standard deviations from the wanted risk are close enough: 0.05 % of probability."""
_POINTS: Final = 512
_STATES_WORK_MAX: Final = 50_000


def factor_within(game: GameTerms, budget: float) -> float:
    """The largest factor for the odds of all prizes with a value at which the cost exceeds the budget with a
    probability of at most RISK; the odds still add up to at most 1. 0: no odds do.
    """
    costly = fsum(prize.chance for prize in game.prizes if prize.value > 0)
    free = fsum(prize.chance for prize in game.prizes if prize.value <= 0)
    if not costly:
        return 1.0
    high = (1.0 - free) / costly
    if liability_of(game) <= budget or _risk(scaled(game, high), budget) <= RISK:
        return high
    low, before, latest = 0.0, (0.0, -8.0), (high, _deviations(_risk(scaled(game, high), budget)))
    target = NormalDist().inv_cdf(RISK)
    # Without redraws, each round takes less time and the factor is nearly the same.
    guess = factor_within(replace(game, on_unavailable="lose"), budget) if game.on_unavailable == "redraw" else 0.0
    for _ in range(_ROUNDS):
        # The deviations are nearly linear in the factor, so a secant finds it in a few steps; bisection bounds them.
        slope = (latest[1] - before[1]) / (latest[0] - before[0])
        wanted = latest[0] + (target - _CLOSE / 2 - latest[1]) / slope if slope > 0 else 0.0
        middle = min(high - 0.02 * (high - low), max(low + 0.02 * (high - low), wanted))
        middle, guess = (guess, 0.0) if low < guess < high else (middle, 0.0)
        before, latest = latest, (middle, _deviations(_risk(scaled(game, middle), budget)))
        low, high = (middle, high) if latest[1] <= target else (low, middle)
        if target - _CLOSE <= latest[1] <= target or high - low < 1e-4 * high:
            break
    return low


def scaled(game: GameTerms, factor: float) -> GameTerms:
    """The game with the odds of prizes with a value multiplied."""
    prizes = (replace(prize, chance=prize.chance * factor) if prize.value > 0 else prize for prize in game.prizes)
    return replace(game, prizes=tuple(prizes))


def _risk(game: GameTerms, budget: float) -> float:
    liability = liability_of(game)
    if chain.is_small(game, _STATES_WORK_MAX):
        return chain.forecast(game, liability, ()).costs.above(budget)
    found = large.forecast(game, liability, (), points_max=_POINTS)
    return found.costs.above(budget - found.cost_error)


def _deviations(risk: float) -> float:
    return NormalDist().inv_cdf(min(1 - 1e-15, max(1e-15, risk)))
