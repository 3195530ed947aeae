"""The forecast of a game of any size.

Each stock certainly runs out, certainly lasts, or is uncertain; certain means with a probability above 1 - 1e-10. If no
stock is uncertain, the cost has a closed form under every policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, sqrt
from typing import Final

from runtime.rules.forecast import redraw
from runtime.rules.forecast.caps import liability_of, without_caps
from runtime.rules.forecast.counts import Counts, binomial
from runtime.rules.forecast.fourier import Aside, Bent, Held, Steady, Sum, distribution, range_of
from runtime.rules.forecast.grid import ERROR, POINTS_MAX, Grid, costs_of
from runtime.rules.forecast.held import HELD_ERROR, HeldPrize, with_held
from runtime.rules.forecast.single import cost_of_play, demand, is_shared, player_costs, run_out_at
from runtime.rules.forecast.terms import (
    FALLBACK_UNLIMITED,
    INDEPENDENT_PRIZES,
    LIMITS_AS_NORMAL,
    QUANTILES,
    REDRAW_AVERAGE,
    RUN_OUT_ESTIMATED,
    Costs,
    Forecast,
    GameTerms,
    PrizeForecast,
    PrizeTerms,
)

_UNLIKELY: Final = 1e-10
_DEVIATIONS: Final = 6.5
"""A normal variable deviates by more with a probability of 1e-10."""

_CELLS: Final = 60
"""How finely releases are computed."""


@dataclass(slots=True)
class Given:
    """What plays take of one prize. wanted: the draws of it that its stock limits; or given: its units."""

    mean: float
    wanted: Costs | None = None
    drawn: Counts | None = None
    given: Counts | None = None


@dataclass(slots=True)
class Solved:
    """A game and the distribution of its cost. cost_error: the error of an amount, if `assumption` matters."""

    grid: Grid
    given: list[Given]
    assumption: str = ""
    cost_error: float = 0.0
    error: float = 0.0


def forecast(game: GameTerms, liability: float, shown: tuple[int, ...], *, points_max: int = POINTS_MAX) -> Forecast:
    """The forecast. shown: the plays to report the cost of, by number."""
    by_player = player_costs(game)
    game, assumptions = without_caps(game)
    cells = _CELLS if points_max == POINTS_MAX else _CELLS // 6
    game, held = with_held(game, shown, cells, _boost(game) if game.on_unavailable == "redraw" else 1.0)
    assumptions, held_error = assumptions + held, HELD_ERROR if LIMITS_AS_NORMAL in held else 0.0
    held_error *= 3 if game.on_unavailable == "redraw" else 1  # What redraws give instead counts by its mean.
    solved = solve(game, points_max)
    if solved.assumption:
        assumptions.append(solved.assumption)
    if solved.grid.independent:
        assumptions.append(INDEPENDENT_PRIZES)
    prizes = [_prize(game, i, found) for i, found in enumerate(solved.given)]
    if any(one.run_out_at and is_shared(game, i) for i, one in enumerate(prizes)):
        assumptions.append(RUN_OUT_ESTIMATED)
    return Forecast(
        fsum(found.mean * prize.value for found, prize in zip(solved.given, game.prizes, strict=True)),
        costs_of(solved.grid),
        prizes,
        {play: cost_of_play(game, play, _expected) for play in shown},
        liability,
        by_player,
        error_max=max(solved.error, 10 * ERROR if solved.grid.exact else 1e-5, held_error),
        cost_error=max(4 * solved.grid.blur, solved.cost_error),
        assumptions=tuple(assumptions),
    )


def solve(game: GameTerms, points_max: int = POINTS_MAX) -> Solved:
    """The distribution of the cost of a game without caps, and the units given."""
    if game.on_unavailable == "redraw":
        return _solve_redraw(game, points_max)
    draws = [binomial(game.plays, prize.chance) for prize in game.prizes]
    given = [_given(prize, game.plays) for prize in game.prizes]
    values = [prize.value for prize in game.prizes]
    if game.on_unavailable == "fallback" and game.fallback is not None:
        return _solve_fallback(game, game.fallback, draws, given, points_max)
    return Solved(_certain(distribution(_sum(game, draws, values, 0.0), points_max=points_max)), given)


def _given(prize: PrizeTerms, plays: int) -> Given:
    if isinstance(prize, HeldPrize):
        return Given(prize.given.mean, given=prize.given)
    draws = binomial(plays, prize.chance)
    return Given(draws.up_to(prize.stock), drawn=draws)


def _certain(grid: Grid | None) -> Grid:
    assert grid is not None
    return grid


# -- lose, fallback -----------------------------------------------------------------------------


def _sum(
    game: GameTerms, draws: Sequence[Counts], values: Sequence[float], after: float, alone: int | None = None
) -> Sum:
    """The sum of values[i] per unit of prize i in stock, and `after` per draw beyond it. alone: a prize taken as
    unlimited.
    """
    steady: list[Steady] = []
    bent: list[Bent | Held] = []
    shift = 0.0
    for i, (prize, count, value) in enumerate(zip(game.prizes, draws, values, strict=True)):
        if prize.chance == 0:
            continue
        if i == alone or value == after or _lasts(prize, count):
            steady.append(Steady(prize.chance, value))
        elif _is_gone(prize, count):
            steady.append(Steady(prize.chance, after))
            shift += (prize.stock or 0) * (value - after)
        else:
            bent.append(_bent(prize, value, after))
    lost = 1.0 - fsum(prize.chance for prize in game.prizes)
    return Sum(game.plays, _merged([*steady, Steady(max(0.0, lost), 0.0)]), tuple(bent), shift)


def _merged(parts: Sequence[Steady]) -> tuple[Steady, ...]:
    chances: dict[tuple[float, bool], float] = {}
    for part in parts:
        chances[part.value, part.aside] = chances.get((part.value, part.aside), 0.0) + part.chance
    return tuple(Steady(chance, value, aside) for (value, aside), chance in chances.items() if chance)


def _solve_fallback(
    game: GameTerms, fallback: int, draws: Sequence[Counts], given: list[Given], points_max: int
) -> Solved:
    """Each draw beyond a stock takes a unit of the fallback prize."""
    own, values = game.prizes[fallback], [prize.value for prize in game.prizes]
    counted = [1.0 if i == fallback else 0.0 for i in range(len(values))]
    points = 256 if own.stock is None else 512
    wanted = costs_of(_certain(distribution(_sum(game, draws, counted, 1.0, alone=fallback), points_max=points)))
    mean = demand(game, game.plays, fallback)
    given[fallback] = Given(mean, wanted=wanted)
    unlimited = _sum(game, draws, values, own.value, alone=fallback)
    if own.stock is None or wanted.above(own.stock + 0.5) < 1e-8:
        return Solved(_certain(distribution(unlimited, points_max=points_max)), given)
    given[fallback].mean = mean - wanted.beyond(own.stock)
    values[fallback] = 0.0
    limited = _sum(game, draws, values, 0.0, alone=fallback)
    if 1.0 - wanted.above(own.stock - 0.5) < 1e-8:
        given[fallback].mean = float(own.stock)
        total = replace(limited, shift=limited.shift + own.stock * own.value)
        return Solved(_certain(distribution(total, points_max=points_max)), given)
    grid = distribution(_aside(game, fallback, draws, limited), points_max=points_max)
    if grid is not None:
        return Solved(grid, given)
    beyond = mean - given[fallback].mean
    grid = _certain(distribution(unlimited, points_max=points_max))
    return Solved(grid, given, FALLBACK_UNLIMITED, beyond * own.value)


def _aside(game: GameTerms, fallback: int, draws: Sequence[Counts], limited: Sum) -> Sum:
    """The sum with the fallback prize as a count aside. Draws beyond a stock that runs out for certain count from its
    first draw on, so the limit is higher by that stock.
    """
    own = game.prizes[fallback]
    steady, bent, gone, shift = [Steady(own.chance, 0.0, True)], [], 0, 0.0
    for i, (prize, count) in enumerate(zip(game.prizes, draws, strict=True)):
        if i == fallback or prize.chance == 0:
            continue
        if _lasts(prize, count):
            steady.append(Steady(prize.chance, prize.value))
        elif _is_gone(prize, count):
            steady.append(Steady(prize.chance, 0.0, True))
            gone += prize.stock or 0
            shift += (prize.stock or 0) * prize.value
        else:
            bent.append(_bent(prize, prize.value, 0.0))
    steady.append(Steady(max(0.0, 1.0 - fsum(prize.chance for prize in game.prizes)), 0.0))
    limit = (own.stock or 0) + gone
    return Sum(limited.plays, _merged(steady), tuple(bent), shift - gone * own.value, Aside(own.value, limit))


def _lasts(prize: PrizeTerms, draws: Counts) -> bool:
    """Whether the stock certainly lasts."""
    return not isinstance(prize, HeldPrize) and (prize.stock is None or draws.at_least(prize.stock + 1) < _UNLIKELY)


def _is_gone(prize: PrizeTerms, draws: Counts) -> bool:
    """Whether the stock certainly runs out."""
    given = prize.given if isinstance(prize, HeldPrize) else draws
    return prize.stock is not None and given.below(prize.stock) < _UNLIKELY


def _bent(prize: PrizeTerms, value: float, after: float) -> Bent | Held:
    if isinstance(prize, HeldPrize):
        return prize.held._replace(chance=prize.chance, value=value, after=after)
    return Bent(prize.chance, value, prize.stock or 0, after)


# -- redraw -------------------------------------------------------------------------------------


def _solve_redraw(game: GameTerms, points_max: int) -> Solved:
    """A draw beyond a stock takes a unit of another prize.

    What prizes that run out for certain leave of the wins is a stream of draws among the others (redraw.py).
    """
    plays, prizes = game.plays, game.prizes
    whole = fsum(prize.chance for prize in prizes)
    gone, open_ = _gone_for_certain(game)
    taken = sum(prizes[i].stock or 0 for i in gone)
    left, rest = plays * whole - taken, fsum(prizes[i].chance for i in open_)
    shares = {i: prizes[i].chance / rest for i in open_}
    shift = fsum((prizes[i].stock or 0) * prizes[i].value for i in gone)
    unsure = _unsure(game, shares, left)
    certain = [(prize.stock or 0) if prize.chance else 0 for prize in prizes]
    given = [Given(float(units), given=Counts(units, [1.0])) for units in certain]
    steady = [i for i in open_ if i not in unsure]
    base = fsum(shares[i] for i in steady)
    won = _merged([Steady(shares[i] / base, prizes[i].value) for i in steady]) or (Steady(1.0, 0.0),)
    held = [i for i in open_ if isinstance(prizes[i], HeldPrize)]
    sharing = {i: _shared(prizes[i], shares[i] * left / plays) for i in open_}
    for i in open_:
        given[i] = _given(replace(prizes[i], chance=sharing[i]), plays)
    beyond = {i: plays * sharing[i] - given[i].mean for i in unsure}
    for i in steady:  # They share what the uncertain ones do not give.
        given[i].mean += fsum(beyond.values()) * shares[i] / base
        given[i].drawn = binomial(plays, min(1.0, given[i].mean / plays))
    limited = tuple(_bent(replace(prizes[i], chance=sharing[i]), prizes[i].value, _mean(won)) for i in unsure)
    uncertain = fsum(sharing[i] for i in unsure)
    parts = [Steady(max(0.0, whole - uncertain) * part.chance, part.value) for part in won]
    total = Sum(plays, _merged([*parts, Steady(max(0.0, 1.0 - whole), 0.0)]), limited, shift, won=won, fewer=taken)
    if not unsure:
        return Solved(_certain(distribution(total, points_max=points_max)), given)
    stream = redraw.Stream(
        plays,
        whole,
        taken,
        _merged([Steady(shares[i], prizes[i].value) for i in steady]),
        tuple(Bent(shares[i], prizes[i].value, prizes[i].stock or 0) for i in unsure),
        shift,
    )
    low, high = range_of(total)
    spread = max(prize.value for prize in prizes)
    margin = spread * fsum(beyond.values()) * 4
    bounds = max(shift, low - margin), min(high + margin, liability_of(game))
    result = None if held else redraw.distribution(stream, *bounds, points_max)
    if result is None:
        grid = _certain(distribution(total, points_max=points_max))
        astray = fsum(
            beyond[i] * shares[j] / (1.0 - shares[i]) * abs(prizes[j].value - _mean(won))
            for i in unsure
            for j in unsure
            if i != j
        )
        return Solved(grid, given, REDRAW_AVERAGE if gone or len(unsure) > 1 else "", astray)
    for i, counts in zip(unsure, result.given, strict=True):
        given[i] = Given(counts.mean, given=counts)
    remaining = left - fsum(given[i].mean for i in unsure)
    for i in steady:
        given[i] = Given(
            remaining * shares[i] / base, drawn=binomial(plays, min(1.0, remaining * shares[i] / base / plays))
        )
    return Solved(result.grid, given, error=result.error)


def _shared(prize: PrizeTerms, chance: float) -> float:
    return prize.held.chance if isinstance(prize, HeldPrize) else min(1.0, chance)


def _boost(game: GameTerms) -> float:
    """By how much redraws for prizes that certainly sell out raise the odds of the others."""
    gone, open_ = _gone_for_certain(game)
    whole, rest = (fsum(game.prizes[i].chance for i in some) for some in ([*gone, *open_], open_))
    left = whole - sum(game.prizes[i].stock or 0 for i in gone) / game.plays
    return left / rest if rest else 1.0


def _mean(parts: Sequence[Steady]) -> float:
    return fsum(part.chance * part.value for part in parts)


def _gone_for_certain(game: GameTerms) -> tuple[list[int], list[int]]:
    """The drawn prizes in two groups: those that certainly sell out, and the others."""
    plays, prizes = game.plays, game.prizes
    whole = fsum(prize.chance for prize in prizes)
    least = plays * whole - _DEVIATIONS * sqrt(plays * whole * max(0.0, 1.0 - whole))
    open_ = [i for i, prize in enumerate(prizes) if prize.chance and prize.stock != 0]
    gone = [i for i, prize in enumerate(prizes) if prize.chance and prize.stock == 0]
    while True:
        rest = fsum(prizes[i].chance for i in open_)
        left = int(least - sum(prizes[i].stock or 0 for i in gone))
        found = [
            i
            for i in open_
            if (stock := prizes[i].stock) is not None
            and not prizes[i].freed
            and not isinstance(prizes[i], HeldPrize)
            and left > 0
            and binomial(left, prizes[i].chance / rest).below(stock) < _UNLIKELY
        ]
        if not found:
            return gone, open_
        gone.append(found[0])
        open_.remove(found[0])


def _unsure(game: GameTerms, shares: dict[int, float], left: float) -> list[int]:
    """Those of the open prizes that may or may not run out, also when redraws for each other reach them."""
    most = int(left + _DEVIATIONS * sqrt(game.plays * fsum(p.chance for p in game.prizes))) + 1
    unsure = [i for i in shares if isinstance(game.prizes[i], HeldPrize)]
    while True:
        rest = fsum(share for i, share in shares.items() if i not in unsure)
        found = [
            i
            for i, share in shares.items()
            if i not in unsure
            and (stock := game.prizes[i].stock) is not None
            and binomial(most, min(1.0, share / rest)).at_least(stock + 1) >= _UNLIKELY
        ]
        if not found:
            return unsure
        unsure += found


# -- prizes -------------------------------------------------------------------------------------


def _prize(game: GameTerms, i: int, found: Given) -> PrizeForecast:
    prize, stock = game.prizes[i], game.prizes[i].stock
    if isinstance(prize, HeldPrize):
        given = tuple(prize.given.quantile(share) for share in QUANTILES)
        return PrizeForecast(prize.id, found.mean, given, prize.run_out, prize.gone_at)
    if found.wanted is not None:
        units = [round(found.wanted.quantile(share)) for share in QUANTILES]
        run_out = 0.0 if stock is None else found.wanted.above(stock - 0.5)
    else:
        counts = found.given or found.drawn
        assert counts is not None
        units = [counts.quantile(share) for share in QUANTILES]
        run_out = 0.0 if stock is None else counts.at_least(stock)
    if stock is not None:
        units = [min(count, stock) for count in units]
        run_out = 1.0 if stock == 0 else run_out
    at = run_out_at(game, i, stock, run_out) if stock and run_out > 1e-9 else 0.0
    return PrizeForecast(prize.id, found.mean, tuple(units), run_out, at)


def _expected(game: GameTerms, plays: int) -> list[float]:
    """The expected units of each prize after so many plays."""
    if not plays:
        return [0.0] * len(game.prizes)
    return [found.mean for found in solve(replace(game, plays=plays), 4).given]
