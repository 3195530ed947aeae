"""The odds that keep a budget: one factor for all prizes that cost something."""

from __future__ import annotations

from dataclasses import replace
from math import fsum, inf, sqrt
from statistics import NormalDist
from typing import Final

from runtime.rules.forecast import chain, several
from runtime.rules.forecast.caps import liability_of
from runtime.rules.forecast.plays import thinned
from runtime.rules.forecast.terms import Costs, GameTerms

RISK: Final = 0.01
"""The probability of exceeding the budget that the odds may leave."""
_ROUNDS: Final = 14
_CLOSE: Final = 0.02
"""How many standard deviations from the wanted risk are close enough: 0.05 % of probability."""
_POINTS: Final = 512
_SURE: Final = 1e-9
_STATES_WORK_MAX: Final = 50_000


def factor_within(game: GameTerms, budget: float) -> float:
    """The largest factor for the odds of all prizes with a value at which the cost exceeds the budget with a
    probability of at most RISK; the odds still add up to at most 1. 0: no odds do. If plays may win several units: the
    largest probability with which each unit of such a prize is kept.
    """
    costly = fsum(prize.chance for prize in game.prizes if prize.value > 0)
    free = fsum(prize.chance for prize in game.prizes if prize.value <= 0)
    if not costly:
        return 1.0
    # Plays that may win several units have no odds that could rise evenly.
    high = 1.0 if game.wins_several else (1.0 - free) / costly
    target = NormalDist().inv_cdf(RISK)
    if liability_of(game) <= budget or (most := _deviations(scaled(game, high), budget)) <= target:
        return high
    low, before, latest = 0.0, (0.0, -8.0), (high, most)
    # Without redraws, each round takes less time and the factor is nearly the same.
    guess = factor_within(replace(game, on_unavailable="lose"), budget) if game.on_unavailable == "redraw" else 0.0
    for _ in range(_ROUNDS):
        # The deviations are nearly linear in the factor, so a secant finds it in a few steps; bisection bounds them.
        slope = (latest[1] - before[1]) / (latest[0] - before[0])
        wanted = latest[0] + (target - _CLOSE / 2 - latest[1]) / slope if slope > 0 else 0.0
        middle = min(high - 0.02 * (high - low), max(low + 0.02 * (high - low), wanted))
        middle, guess = (guess, 0.0) if low < guess < high else (middle, 0.0)
        before, latest = latest, (middle, _deviations(scaled(game, middle), budget))
        low, high = (middle, high) if latest[1] <= target else (low, middle)
        if target - _CLOSE <= latest[1] <= target or high - low < 1e-4 * high:
            break
    return low


def scaled(game: GameTerms, factor: float) -> GameTerms:
    """The game with the odds of prizes with a value multiplied."""
    if game.wins_several:
        return thinned(game, {i: factor for i, prize in enumerate(game.prizes) if prize.value > 0})
    prizes = (replace(prize, chance=prize.chance * factor) if prize.value > 0 else prize for prize in game.prizes)
    return replace(game, prizes=tuple(prizes))


def _deviations(game: GameTerms, budget: float) -> float:
    """The risk of exceeding the budget, as a number of standard deviations. If it is nearly 0 or 1: how many the mean
    is away from the budget, so that it still says how far to go.
    """
    costs = _costs(game)
    risk = costs.above(budget)
    if _SURE < risk < 1.0 - _SURE:
        return NormalDist().inv_cdf(risk)
    pairs = list(zip(costs.amounts, costs.chances, strict=True))
    mean = fsum(amount * chance for amount, chance in pairs)
    variance = fsum((amount - mean) ** 2 * chance for amount, chance in pairs)
    most = -NormalDist().inv_cdf(_SURE)
    away = (mean - budget) / sqrt(variance) if variance else inf
    return max(most, min(1e6, away)) if risk > 0.5 else min(-most, max(-1e6, away))


def _costs(game: GameTerms) -> Costs:
    liability = liability_of(game)
    if chain.is_small(game, _STATES_WORK_MAX):
        return chain.forecast(game, liability, ()).costs
    found = several.forecast(game, liability, (), points_max=_POINTS)
    return replace(found.costs, amounts=[amount + found.cost_error for amount in found.costs.amounts])
