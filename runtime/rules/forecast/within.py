"""The odds that keep a budget: one factor for all prizes that cost something."""

from __future__ import annotations

from dataclasses import replace
from math import fsum, inf, sqrt
from statistics import NormalDist
from typing import Final, TypeAlias

from runtime.rules.forecast import chain, several
from runtime.rules.forecast.caps import liability_of
from runtime.rules.forecast.plays import listed, thinned, units_of
from runtime.rules.forecast.terms import Costs, GameTerms

RISK: Final = 0.01
"""The probability of exceeding the budget that the odds may leave."""
TARGET: Final = NormalDist().inv_cdf(RISK)
_ROUNDS: Final = 14
_CLOSE: Final = 0.03
"""How many standard deviations from the wanted risk are close enough: 0.08 % of probability."""
_SURE: Final = 1e-9
_STATES_WORK_MAX: Final = 50_000

Point: TypeAlias = tuple[float, float]
"""A factor for the odds, and the risk that they leave, as in `_deviations`."""


def factor_within(game: GameTerms, budget: float, costs: Costs) -> float:
    """The largest factor for the odds of all prizes with a value at which the cost exceeds the budget with a
    probability of at most RISK; the odds still add up to at most 1. 0: no odds do. costs: with a factor of 1.

    If plays may win several units: the largest probability with which each unit of such a prize is kept, or the factor
    for the frequencies of what falls.
    """
    costly = fsum(prize.chance for prize in game.prizes if prize.value > 0)
    free = fsum(prize.chance for prize in game.prizes if prize.value <= 0)
    # Plays that may win several units have no odds that could rise evenly.
    high = 1.0 if game.wins_several or not costly else max(1.0, (1.0 - free) / costly)
    mean, deviation = _moments(costs)
    latest = (1.0, _deviations(costs, budget))
    # Where stocks last, the mean is proportional to the factor.
    low = (0.0, latest[1] - (mean / deviation if deviation else 8.0))
    if latest[1] <= TARGET:
        if high == 1.0 or liability_of(game) <= budget:
            return high
        low, latest = latest, (high, _deviations(_costs(scaled(game, high)), budget))
        if latest[1] <= TARGET:
            return high
    elif not costly:
        return 0.0
    return _between(game, budget, low, latest)


def _between(game: GameTerms, budget: float, lower: Point, latest: Point) -> float:
    """The largest factor between two points: the lower keeps the budget, the other does not."""
    low, high, before = lower[0], latest[0], lower
    for _ in range(_ROUNDS):
        # The deviations are nearly linear in the factor, so a secant finds it in a few steps; bisection bounds them.
        slope = (latest[1] - before[1]) / (latest[0] - before[0])
        wanted = latest[0] + (TARGET - _CLOSE / 2 - latest[1]) / slope if slope > 0 else 0.0
        middle = min(high - 0.02 * (high - low), max(low + 0.02 * (high - low), wanted))
        before, latest = latest, (middle, _deviations(_costs(scaled(game, middle)), budget))
        low, high = (middle, high) if latest[1] <= TARGET else (low, middle)
        if TARGET - _CLOSE <= latest[1] <= TARGET or high - low < 1e-4 * high:
            break
    return low


def scaled(game: GameTerms, factor: float) -> GameTerms:
    """The game with the odds, or the units kept, or the frequencies, of prizes with a value multiplied."""
    chances = [prize.chance * factor if prize.value > 0 else prize.chance for prize in game.prizes]
    if game.wins_several:
        game = thinned(game, {i: factor for i, prize in enumerate(game.prizes) if prize.value > 0})
        units = (units_of(game, i) for i in range(len(game.prizes)))
        chances = [fsum(count * chance for count, chance in one.items()) for one in units]
    prizes = zip(game.prizes, chances, strict=True)
    return replace(game, prizes=tuple(replace(prize, chance=chance) for prize, chance in prizes))


def _deviations(costs: Costs, budget: float) -> float:
    """The risk of exceeding the budget, as a number of standard deviations. If it is nearly 0 or 1: how many the mean
    is away from the budget, so that it still says how far to go.
    """
    risk = costs.above(budget)
    if _SURE < risk < 1.0 - _SURE:
        return NormalDist().inv_cdf(risk)
    mean, deviation = _moments(costs)
    most = -NormalDist().inv_cdf(_SURE)
    away = (mean - budget) / deviation if deviation else inf
    return max(most, min(1e6, away)) if risk > 0.5 else min(-most, max(-1e6, away))


def _moments(costs: Costs) -> tuple[float, float]:
    """The mean and the standard deviation."""
    pairs = list(zip(costs.amounts, costs.chances, strict=True))
    mean = fsum(amount * chance for amount, chance in pairs)
    return mean, sqrt(fsum((amount - mean) ** 2 * chance for amount, chance in pairs))


def _costs(game: GameTerms) -> Costs:
    game = listed(game)
    return chain.forecast(game, 0.0, ()).costs if chain.is_small(game, _STATES_WORK_MAX) else several.costs(game)
