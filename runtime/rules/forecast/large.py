"""The forecast of a game of any size.

Each stock certainly runs out, certainly lasts, or is uncertain; certain means with a probability above 1 - 1e-10. If no
stock is uncertain, the cost has a closed form under every policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import Final, NamedTuple

from runtime.rules.forecast import redraw, stopped
from runtime.rules.forecast.caps import liability_of, without_caps
from runtime.rules.forecast.counts import Counts, binomial, drawn_beyond, poisson
from runtime.rules.forecast.fourier import distribution, shared
from runtime.rules.forecast.grid import ERROR, POINTS_MAX, Grid, costs_of
from runtime.rules.forecast.redraw import UNLIKELY
from runtime.rules.forecast.released import Released, released
from runtime.rules.forecast.sums import Aside, Bent, Steady, Sum
from runtime.rules.forecast.terms import (
    FALLBACK_UNLIMITED,
    INDEPENDENT_PRIZES,
    QUANTILES,
    REDRAW_AVERAGE,
    RUN_OUT_ESTIMATED,
    Costs,
    Forecast,
    GameTerms,
    PrizeForecast,
)

_SOLVED_PLAYS_MAX: Final = 2_000
"""Up to this play, the cost of a play is the difference of two expected costs. Later, run-outs hardly vary."""
_REDRAW_ERROR_MAX: Final = 1e-4
"""With a larger one, the integral missed a part of the distribution."""
_SOLVED_STOCKS_MAX: Final = 3
"""With more stocks, two expected costs would take too long."""


@dataclass(slots=True)
class Given:
    """What plays take of one prize. wanted: the draws of it that its stock limits; or given: its units."""

    mean: float
    wanted: Costs | None = None
    drawn: Counts | None = None
    given: Counts | None = None


class Sharing(NamedTuple):
    """Prizes that last, and those that may or may not run out, of a game with redraws. taken: by those that do."""

    steady: list[int]
    unsure: list[int]
    taken: int


@dataclass(slots=True)
class Solved:
    """A game and the distribution of its cost. cost_error: the error of an amount, if `assumption` matters. sharing:
    prizes whose units have only a mean yet.
    """

    grid: Grid
    given: list[Given]
    assumption: str = ""
    cost_error: float = 0.0
    error: float = 0.0
    sharing: Sharing | None = None


def forecast(game: GameTerms, liability: float, shown: tuple[int, ...]) -> Forecast:
    """The forecast. shown: the plays to report the cost of, by number."""
    freed = released(game, shown)
    apart = _apart(game, freed)
    values = {i: game.prizes[i].chance * value for i, (value, _) in zip(freed, apart, strict=True)}
    costly = sum(1 for prize in game.prizes if prize.chance and prize.value)
    game, assumptions = _without_freed(game, freed)
    per_play = fsum((*values.values(), *(prize.chance * prize.value for prize in game.prizes)))
    solved = solve(game, apart=apart)
    for i, one in freed.items():
        solved.given[i] = Given(one.given.mean, given=one.given)
    if freed and game.instead is not None and (wanted := solved.given[game.instead].wanted):
        taken = fsum(one.given.mean for one in freed.values())
        less = Costs([max(0.0, amount - taken) for amount in wanted.amounts], wanted.chances, wanted.spread)
        solved.given[game.instead] = Given(solved.given[game.instead].mean - taken, wanted=less)
    if solved.sharing:
        _share_wins(game, solved.given, solved.sharing)
    if solved.assumption:
        assumptions.append(solved.assumption)
    if solved.grid.independent or (any(values.values()) and costly > 1):
        assumptions.append(INDEPENDENT_PRIZES)
    prizes = [_prize(game, i, found) for i, found in enumerate(solved.given)]
    for i, one in freed.items():
        prizes[i].run_out_at = one.run_out_at
    if RUN_OUT_ESTIMATED not in assumptions and any(
        one.run_out_at and _is_shared(game, i) for i, one in enumerate(prizes)
    ):
        assumptions.append(RUN_OUT_ESTIMATED)
    return Forecast(
        fsum(found.mean * prize.value for found, prize in zip(solved.given, game.prizes, strict=True)),
        costs_of(solved.grid),
        prizes,
        {play: cost_of_play(game, play) + fsum(values[i] * freed[i].free[play] for i in freed) for play in shown},
        liability,
        [per_play] * min(game.per_player, 10),
        error_max=max(solved.error, 10 * ERROR if solved.grid.exact else 1e-5),
        cost_error=max(4 * solved.grid.blur, solved.cost_error),
        assumptions=tuple(assumptions),
    )


def costs(game: GameTerms) -> Costs:
    """The distribution of the cost, as in `forecast`."""
    freed = released(game, ())
    apart = _apart(game, freed)
    game, _ = _without_freed(game, freed)
    return costs_of(solve(game, apart=apart, counted=False).grid)


def _without_freed(game: GameTerms, freed: Mapping[int, Released]) -> tuple[GameTerms, list[str]]:
    """The game without caps, in which draws of these prizes find no unit; and what that assumes."""
    rest = [replace(one, chance=0.0, freed=()) if i in freed else one for i, one in enumerate(game.prizes)]
    if game.instead is not None:
        own = game.prizes[game.instead]
        rest[game.instead] = replace(own, chance=own.chance + fsum(game.prizes[i].chance for i in freed))
    return without_caps(replace(game, prizes=tuple(rest)))


def _apart(game: GameTerms, freed: Mapping[int, Released]) -> tuple[tuple[float, Counts], ...]:
    return tuple((game.prizes[i].value, one.given) for i, one in freed.items())


def solve(
    game: GameTerms,
    points_max: int = POINTS_MAX,
    apart: tuple[tuple[float, Counts], ...] = (),
    *,
    counted: bool = True,
) -> Solved:
    """The distribution of the cost of a game without caps, and the units given. apart: further units, with their value,
    in a game without redraws and without a fallback prize that costs or has a limit. counted: whether units are needed.
    """
    if game.on_unavailable == "redraw":
        return _solve_redraw(game, points_max, counted=counted)
    draws = [binomial(game.plays, prize.chance) for prize in game.prizes]
    given = [Given(d.up_to(prize.stock), drawn=d) for d, prize in zip(draws, game.prizes, strict=True)]
    values = [prize.value for prize in game.prizes]
    if game.instead is not None:
        return _solve_fallback(game, game.instead, draws, given, points_max, apart)
    total = replace(_sum(game, draws, values, 0.0), apart=apart)
    return Solved(_certain(distribution(total, points_max=points_max)), given)


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
    bent: list[Bent] = []
    shift = 0.0
    for i, (prize, count, value) in enumerate(zip(game.prizes, draws, values, strict=True)):
        if prize.chance == 0:
            continue
        if prize.stock is None or i == alone or value == after or count.at_least(prize.stock + 1) < UNLIKELY:
            steady.append(Steady(prize.chance, value))
        elif count.below(prize.stock) < UNLIKELY:
            steady.append(Steady(prize.chance, after))
            shift += prize.stock * (value - after)
        else:
            bent.append(Bent(prize.chance, value, prize.stock, after))
    lost = 1.0 - fsum(prize.chance for prize in game.prizes)
    return Sum(game.plays, _merged([*steady, Steady(max(0.0, lost), 0.0)]), tuple(bent), shift)


def _merged(parts: Sequence[Steady]) -> tuple[Steady, ...]:
    chances: dict[tuple[float, bool], float] = {}
    for part in parts:
        chances[part.value, part.aside] = chances.get((part.value, part.aside), 0.0) + part.chance
    return tuple(Steady(chance, value, aside) for (value, aside), chance in chances.items() if chance)


def _solve_fallback(
    game: GameTerms,
    fallback: int,
    draws: Sequence[Counts],
    given: list[Given],
    points_max: int,
    apart: tuple[tuple[float, Counts], ...],
) -> Solved:
    """Each draw beyond a stock takes a unit of the fallback prize."""
    own, values = game.prizes[fallback], [prize.value for prize in game.prizes]
    counted = [1.0 if i == fallback else 0.0 for i in range(len(values))]
    points = 256 if own.stock is None else 512
    wanted = costs_of(_certain(distribution(_sum(game, draws, counted, 1.0, alone=fallback), points_max=points)))
    mean = _demand(game, game.plays, fallback)
    given[fallback] = Given(mean, wanted=wanted)
    unlimited = replace(_sum(game, draws, values, own.value, alone=fallback), apart=apart)
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
    steady, gone = [Steady(own.chance, 0.0, True)], 0
    for i, (prize, count) in enumerate(zip(game.prizes, draws, strict=True)):
        if i == fallback or prize.chance == 0:
            continue
        if prize.stock is None or count.at_least(prize.stock + 1) < UNLIKELY:
            steady.append(Steady(prize.chance, prize.value))
        elif count.below(prize.stock) < UNLIKELY:
            steady.append(Steady(prize.chance, 0.0, True))
            gone += prize.stock
    bent = tuple(
        Bent(prize.chance, prize.value, prize.stock)
        for i, (prize, count) in enumerate(zip(game.prizes, draws, strict=True))
        if i != fallback and prize.stock is not None and _is_unsure(count, prize.stock)
    )
    steady.append(Steady(max(0.0, 1.0 - fsum(prize.chance for prize in game.prizes)), 0.0))
    shift = fsum(
        prize.stock * prize.value
        for i, (prize, count) in enumerate(zip(game.prizes, draws, strict=True))
        if i != fallback and prize.stock is not None and prize.chance and count.below(prize.stock) < UNLIKELY
    )
    limit = (own.stock or 0) + gone
    return Sum(limited.plays, _merged(steady), bent, shift - gone * own.value, Aside(own.value, limit))


def _is_unsure(count: Counts, stock: int) -> bool:
    return count.at_least(stock + 1) >= UNLIKELY and count.below(stock) >= UNLIKELY


def _demand(game: GameTerms, plays: int, fallback: int) -> float:
    """The expected draws that want the fallback prize."""
    others = [prize for i, prize in enumerate(game.prizes) if i != fallback and prize.chance]
    missing = [drawn_beyond(plays, prize.chance, prize.stock) for prize in others if prize.stock is not None]
    return fsum((plays * game.prizes[fallback].chance, *missing))


# -- redraw -------------------------------------------------------------------------------------


def _solve_redraw(game: GameTerms, points_max: int, *, counted: bool) -> Solved:
    """A draw beyond a stock takes a unit of another prize.

    What prizes that run out for certain leave of the wins is a stream of draws among the others (redraw.py).
    """
    plays, prizes = game.plays, game.prizes
    whole = fsum(prize.chance for prize in prizes)
    gone, open_ = redraw.gone_for_certain(game)
    taken = sum(prizes[i].stock or 0 for i in gone)
    left, rest = plays * whole - taken, fsum(prizes[i].chance for i in open_)
    shares = {i: prizes[i].chance / rest for i in open_}
    shift = fsum((prizes[i].stock or 0) * prizes[i].value for i in gone)
    unsure = redraw.unsure_of(game, shares, left)
    certain = [(prize.stock or 0) if prize.chance else 0 for prize in prizes]
    given = [Given(float(units), given=Counts(units, [1.0])) for units in certain]
    steady = [i for i in open_ if i not in unsure]
    base = fsum(shares[i] for i in steady)
    won = _merged([Steady(shares[i] / base, prizes[i].value) for i in steady]) or (Steady(1.0, 0.0),)
    for i in steady:
        count = binomial(plays, min(1.0, shares[i] * left / plays))
        given[i] = Given(count.up_to(prizes[i].stock), drawn=count)
    rest_of = Sharing(steady, unsure, taken)
    if not unsure:
        parts = [Steady(whole * part.chance, part.value) for part in won]
        total = Sum(plays, _merged([*parts, Steady(max(0.0, 1.0 - whole), 0.0)]), (), shift, won=won, fewer=taken)
        return Solved(_certain(distribution(total, points_max=points_max)), given, sharing=rest_of)
    stream = redraw.Stream(
        plays,
        whole,
        taken,
        _merged([Steady(shares[i], prizes[i].value) for i in steady]),
        tuple(Bent(shares[i], prizes[i].value, prizes[i].stock or 0) for i in unsure),
        shift,
    )
    result = redraw.distribution(stream, liability_of(game), points_max, counted=counted)
    assumption, astray = RUN_OUT_ESTIMATED if steady else "", 0.0
    if result is None or result.error > _REDRAW_ERROR_MAX:
        result, astray = stopped.estimate(stream, liability_of(game), points_max, counted=counted)
        assumption = REDRAW_AVERAGE
    for i, counts in zip(unsure, result.given, strict=False):  # Uncounted, there are none.
        given[i] = Given(counts.mean, given=counts)
    remaining = left - fsum(given[i].mean for i in unsure)
    for i in steady:
        given[i].mean = remaining * shares[i] / base
    return Solved(result.grid, given, assumption, astray, error=result.error, sharing=rest_of)


def _share_wins(game: GameTerms, given: list[Given], sharing: Sharing) -> None:
    """Sets the distributions of the units of prizes that last: shares of the wins that are not taken by others.

    Exact without uncertain stocks. Otherwise, those that are likely to run out count as certain to give their mean.
    """
    steady, unsure, taken = sharing
    for i in unsure:
        counts = given[i].given or given[i].drawn
        if counts is not None and counts.at_least(game.prizes[i].stock or 0) > 0.9:
            taken += round(given[i].mean)
    whole = fsum(prize.chance for prize in game.prizes)
    for i in steady:
        share = given[i].mean / max(1e-9, game.plays * whole - taken)
        given[i].wanted = shared(game.plays, whole, taken, min(1.0, share))


# -- single prizes and plays --------------------------------------------------------------------


def _prize(game: GameTerms, i: int, found: Given) -> PrizeForecast:
    stock = game.prizes[i].stock
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
    at = _run_out_at(game, i, stock, run_out) if stock and run_out > 1e-9 else 0.0
    return PrizeForecast(game.prizes[i].id, found.mean, tuple(units), run_out, at)


def _is_shared(game: GameTerms, i: int) -> bool:
    """Whether draws for other prizes may take units of this one."""
    limited = any(one.chance and one.stock is not None for k, one in enumerate(game.prizes) if k != i)
    return limited and (game.on_unavailable == "redraw" or (game.on_unavailable == "fallback" and i == game.fallback))


def _run_out_at(game: GameTerms, i: int, stock: int, run_out: float) -> float:
    """The expected play of the last unit, if there is one: exact unless draws for other prizes take units of this one,
    where it is the play by which so many units are expected.
    """
    plays, chance = game.plays, game.prizes[i].chance
    if _is_shared(game, i):
        if game.on_unavailable == "fallback":
            return first_play(plays, lambda play: _demand(game, play, i) >= stock)
        if run_out > 0.5:
            return min(float(plays), _fluid_play(game, stock / chance))
    # The play of the s-th draw has a negative binomial distribution: E[T; T <= n] = s / p P(T' <= n + 1), where T' is
    # the play of the draw after it.
    reached = binomial(plays, chance).at_least(stock)
    if reached < 1e-12:
        return float(plays)
    return stock / chance * binomial(plays + 1, chance).at_least(stock + 1) / reached


def first_play(plays: int, reached: Callable[[int], bool]) -> float:
    """The first play by which it is reached, or the last play."""
    low, high = 0, plays
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return float(high)


def _fluid_play(game: GameTerms, time: float) -> float:
    """The play at which a stream of draws, without those of prizes that are gone, reaches this time on average.

    Each prize is gone at the time at which its draws are expected to reach its stock.
    """
    prizes = [prize for prize in game.prizes if prize.chance]
    whole = fsum(prize.chance for prize in prizes)
    won = fsum(
        prize.chance * time if prize.stock is None else min(prize.chance * time, prize.stock) for prize in prizes
    )
    return won / whole if whole else 0.0


def _fluid_time(game: GameTerms, play: int) -> float:
    """The time of the stream at a play: the inverse of `_fluid_play`. Infinity: all prizes are gone."""
    if not any(prize.chance for prize in game.prizes):
        return inf
    high = float(play)
    while _fluid_play(game, high) < play:
        if high > 1e12:
            return inf
        high *= 2
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _fluid_play(game, middle) < play else (low, middle)
    return high


def _expected(game: GameTerms, plays: int) -> list[float]:
    """The expected units of each prize after so many plays."""
    if not plays:
        return [0.0] * len(game.prizes)
    return [found.mean for found in solve(replace(game, plays=plays), 4).given]


def cost_of_play(game: GameTerms, play: int) -> float:
    """The expected cost of the play with this number, counted from 1. Where draws for one prize take units of another,
    it is computed as if their stocks were independent.
    """
    before, prizes = play - 1, game.prizes
    if game.on_unavailable == "redraw":
        stocks = sum(1 for prize in prizes if prize.chance and prize.stock)
        if play <= _SOLVED_PLAYS_MAX and stocks <= _SOLVED_STOCKS_MAX:
            after, solved = (_expected(game, plays) for plays in (play, before))
            return fsum(p.value * (b - a) for p, a, b in zip(prizes, solved, after, strict=True))
        time = _fluid_time(game, before)
        if time == inf:
            return 0.0
        free = [1.0 if p.stock is None else poisson(p.chance * time).below(p.stock) for p in prizes]
        open_ = fsum(p.chance * one for p, one in zip(prizes, free, strict=True))
        cost = fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
        return cost / open_ * fsum(p.chance for p in prizes) if open_ > 1e-12 else 0.0
    free = [1.0 if p.stock is None else binomial(before, p.chance).below(p.stock) for p in prizes]
    if game.on_unavailable != "fallback" or game.fallback is None:
        return fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
    own, at = prizes[game.fallback], game.fallback
    free[at] = 1.0 if own.stock is None else poisson(_demand(game, before, at)).below(own.stock)
    cost = fsum(p.chance * one * p.value for p, one in zip(prizes, free, strict=True))
    missing = fsum(p.chance * (1.0 - one) for i, (p, one) in enumerate(zip(prizes, free, strict=True)) if i != at)
    return cost + missing * free[at] * own.value
