"""The forecast of a large game whose plays may win several units, such as those of what players catch.

What a play wants is independent of other plays, so the characteristic function of all plays is a power of that of one.
This is exact for stocks that certainly last or certainly run out. Those that may or may not run out add their own
distribution; the rest of the cost depends on them by its correlation only.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, fsum, sqrt
from operator import mul
from statistics import NormalDist
from typing import Final, NamedTuple

from runtime.rules.forecast import large
from runtime.rules.forecast.blocks import Blocks, blocks_of
from runtime.rules.forecast.bounds import TAIL
from runtime.rules.forecast.caps import without_caps
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.fourier import significant, totals
from runtime.rules.forecast.grid import (
    ERROR,
    POINTS_MAX,
    POINTS_MIN,
    Grid,
    Layout,
    costs_of,
    finished,
    layout_of,
    transformed,
)
from runtime.rules.forecast.plays import turning, units_of
from runtime.rules.forecast.sums import Bent
from runtime.rules.forecast.terms import (
    FALLBACK_UNLIMITED,
    PLAYS_ROUNDED,
    QUANTILES,
    RUN_OUT_ESTIMATED,
    UNCORRELATED_STOCKS,
    Costs,
    Forecast,
    GameTerms,
    PrizeForecast,
)

_UNLIKELY: Final = 1e-9
_WORK_MAX: Final = 8_000_000
"""The operations of a distribution: some two seconds."""
_TIED_MAX: Final = 3
"""The stocks whose dependence on each other counts."""
_ATOMS_MAX: Final = 60_000
"""The combinations of the units of these stocks."""
_SPREAD_POINTS: Final = 200
_NORMAL: Final = NormalDist()


class Limited(NamedTuple):
    """A stock that may or may not run out. members: the prizes that take from it. units: how many units plays want.

    Each unit costs `value` up to `limit`, and `after` beyond it. stands_in: units beyond other limits take from it too.
    """

    members: frozenset[int]
    units: Costs
    value: float
    limit: int
    after: float
    stands_in: bool = False


class Layer(NamedTuple):
    """The units wanted of a stock, without the part that is correlated with the layers before.

    weights: by prize. shares: how many of the wanted units come with each unit of the layers before. gone: the wanted
    units that are taken by stocks of other members. cells: its amounts with their probabilities.
    """

    stock: Limited
    weights: list[float]
    shares: list[float]
    gone: int
    cells: list[tuple[float, float]]


class Linear(NamedTuple):
    """The rest of the cost: the cost of each unit of each prize, and a fixed part."""

    values: list[float]
    shift: float


def forecast(game: GameTerms, liability: float, shown: tuple[int, ...]) -> Forecast:
    """The forecast of a game of any kind and size. shown: the plays to report the cost of, by number."""
    if (blocks := blocks_of(game)) is not None:
        return _of_blocks(game, blocks, liability, shown)
    if not game.wins_several:
        return large.forecast(game, liability, shown)
    game, caps = without_caps(game)
    return _Game(game, caps).forecast(liability, shown)


def costs(game: GameTerms) -> Costs:
    """The distribution of the cost, as in `forecast`."""
    if (blocks := blocks_of(game)) is None and not game.wins_several:
        return large.costs(game)
    return _Game(*without_caps(game if blocks is None else blocks.whole)).costs()


def _of_blocks(game: GameTerms, blocks: Blocks, liability: float, shown: tuple[int, ...]) -> Forecast:
    """The forecast of a game with caps from that of its blocks (blocks.py)."""
    whole, assumptions = without_caps(blocks.whole)
    taken = _Game(whole, assumptions if blocks.share == 1.0 else [*assumptions, PLAYS_ROUNDED])
    found = taken.forecast(liability, ())
    for prize, terms in zip(found.prizes, game.prizes, strict=True):
        at = blocks.plays * blocks.share * (prize.run_out_at - 0.5)
        prize.run_out_at = min(float(game.plays), max(terms.stock or 0.0, at)) if prize.run_out_at else 0.0
    cost_of = {play: taken.cost_in_block(blocks, *blocks.place(play)) for play in shown}
    costs = [blocks.cost(play % blocks.plays) for play in range(min(game.per_player, 10))]
    return replace(found, cost_of=cost_of, player_cost_of=costs)


class _Game:
    def __init__(self, game: GameTerms, assumptions: list[str]) -> None:
        self._game = game
        self._prizes = range(len(game.prizes))
        self._fallback = game.instead
        self._units = [units_of(game, i) for i in self._prizes]
        self._rates = [fsum(count * chance for count, chance in units.items()) for units in self._units]
        self._wanted = [totals(units, game.plays) for units in self._units]
        self._assumptions = set(assumptions)
        self._cost_error = 0.0

    def costs(self) -> Costs:
        return costs_of(self._distribution(*self._cost(self._demands())))

    def _demands(self) -> list[Costs]:
        """The units wanted of each prize, with those that the fallback prize stands in for."""
        wanted, own = [*self._wanted], self._fallback
        if own is not None:
            values = [float(i == own) for i in self._prizes]
            wanted[own] = costs_of(self._distribution(*self._parts(values, 1.0)))
        return wanted

    def forecast(self, liability: float, shown: tuple[int, ...]) -> Forecast:
        game, wanted = self._game, self._demands()
        grid = self._distribution(*self._cost(wanted))
        prizes = [self._prize(i, wanted[i]) for i in self._prizes]
        if any(one.run_out_at for one in prizes):
            self._assumptions.add(RUN_OUT_ESTIMATED)
        per_play = fsum(rate * prize.value for rate, prize in zip(self._rates, game.prizes, strict=True))
        return Forecast(
            fsum(one.mean * prize.value for one, prize in zip(prizes, game.prizes, strict=True)),
            costs_of(grid),
            prizes,
            {play: self._cost_of_play(play) for play in shown},
            liability,
            [per_play] * min(game.per_player, 10),
            error_max=10 * ERROR if grid.exact else 1e-5,
            cost_error=max(4 * grid.blur, self._cost_error),
            assumptions=tuple(sorted(self._assumptions)),
        )

    def _cost(self, wanted: Sequence[Costs]) -> tuple[Linear, list[Limited]]:
        values, own = [prize.value for prize in self._game.prizes], self._fallback
        if own is None:
            return self._parts(values, 0.0)
        value, stock, demand = values[own], self._game.prizes[own].stock, wanted[own]
        if stock is None or demand.above(stock + 0.5) < _UNLIKELY:
            return self._parts(values, value)
        values[own] = 0.0
        linear, limited = self._parts(values, 0.0, counted=True)
        if 1.0 - demand.above(stock - 0.5) < _UNLIKELY:
            return linear._replace(shift=linear.shift + stock * value), limited
        if len(limited) >= _TIED_MAX:
            self._assumptions.add(FALLBACK_UNLIMITED)
            self._cost_error = demand.beyond(stock) * value
            values[own] = value
            return self._parts(values, value)
        gone = [i for i in self._prizes if i != own and self._is_gone(i)]
        units = demand if not limited else self._apart(own, gone)
        return linear, [*limited, Limited(frozenset((own, *gone)), units, value, stock, 0.0, stands_in=True)]

    def _apart(self, own: int, gone: Sequence[int]) -> Costs:
        """The units wanted of the fallback prize without those that uncertain stocks leave."""
        values = [float(i == own or i in gone) for i in self._prizes]
        shift = -float(sum(self._game.prizes[i].stock or 0 for i in gone))
        return costs_of(self._distribution(Linear(values, shift), ()))

    def _is_gone(self, i: int) -> bool:
        stock = self._game.prizes[i].stock
        return stock is not None and 1.0 - self._wanted[i].above(stock - 0.5) < _UNLIKELY

    def _parts(self, values: Sequence[float], after: float, *, counted: bool = False) -> tuple[Linear, list[Limited]]:
        """The parts of a sum of values[i] per unit in stock. after: per further unit, except of the fallback prize.
        counted: further units matter, even if they add nothing themselves.
        """
        linear, limited, shift = [*values], [], 0.0
        for i, prize in enumerate(self._game.prizes):
            stock = prize.stock
            if i == self._fallback or stock is None or self._wanted[i].above(stock + 0.5) < _UNLIKELY:
                continue
            linear[i] = after
            if self._is_gone(i):
                shift += stock * (values[i] - after)
            elif counted or values[i] != after:
                linear[i] = 0.0
                limited.append(Limited(frozenset((i,)), self._wanted[i], values[i], stock, after))
        return Linear(linear, shift), limited

    def _distribution(self, linear: Linear, limited: Sequence[Limited]) -> Grid:
        """The distribution of the linear part and the limited stocks.

        The units wanted of each stock are split into a multiple of those before, by their covariance, and an
        uncorrelated rest. Uncorrelated parts are taken as independent.
        """
        game, layers, rest, shift = self._game, self._layers(limited[:_TIED_MAX]), [*linear.values], linear.shift
        low, high = self._range(linear)
        slopes = [self._slope(linear.values, layer.weights) for layer in layers]
        for layer, slope in zip(layers, slopes, strict=True):
            rest = [value - slope * weight for value, weight in zip(rest, layer.weights, strict=True)]
        if limited and (any(rest) or len(limited) > 1):
            self._assumptions.add(UNCORRELATED_STOCKS)
        bents = [Bent(0.0, one.value, one.limit, one.after) for one in limited]
        for one, bent in zip(limited, bents, strict=True):
            low += bent.at(floor(one.units.amounts[0]))
            high += one.value * one.limit if one.stands_in else bent.at(ceil(one.units.amounts[-1]) + 1)
        turned, work = turning(game, [i for i in self._prizes if rest[i]])
        points = POINTS_MAX
        while points > POINTS_MIN and points * work > _WORK_MAX:
            points //= 2
        slants = [share for layer in layers for share in layer.shares]
        costs = [value for bent in bents for value in (bent.value, bent.after)]
        layout = layout_of([shift, *rest, *slopes, *slants, *costs], low, high, points)
        spectra = [_transform(layout, _atoms(layers, slopes))] if layers else []
        spectra += [_transform(layout, [(bent.at(count), chance) for count, chance in _whole(one.units)])
                    for one, bent in zip(limited[_TIED_MAX:], bents[_TIED_MAX:], strict=True)]  # fmt: skip
        found = [0j] * len(layout.turns)
        error = 1e-3 * max(1.0, fsum(map(abs, rest)))
        deviation = sqrt(max(0.0, self._variance(rest))) + error

        def of_play(turn: float) -> complex:
            return turned([cmath.exp(complex(0.0, -turn * value)) for value in rest])

        for j, turn, play in significant(layout.turns, game.plays, deviation, of_play):
            log = game.plays * complex(math.log(abs(play)), cmath.phase(play))
            found[j] = cmath.exp(log + complex(0.0, turn * (layout.first - shift)))
            for part in spectra:
                found[j] *= part[j]
        return finished(layout, [whole / found[0].real for whole in found])

    def _layers(self, limited: Sequence[Limited]) -> list[Layer]:
        layers: list[Layer] = []
        for one in limited:
            weights = [float(i in one.members) for i in self._prizes]
            shares = [self._slope(weights, layer.weights) for layer in layers]
            for layer, share in zip(layers, shares, strict=True):
                weights = [w - share * before for w, before in zip(weights, layer.weights, strict=True)]
            spread = costs_of(self._distribution(Linear(weights, 0.0), ())) if any(shares) else one.units
            mean = fsum(amount * chance for amount, chance in _pairs(one.units))
            gone = round(self._game.plays * fsum(self._rates[i] for i in one.members) - mean)
            atoms = _pairs(spread) if any(shares) else [(units + gone, chance) for units, chance in _whole(spread)]
            layers.append(Layer(one, weights, shares, gone, _cells(atoms, _ATOMS_MAX ** (1 / len(limited)))))
        return layers

    def _slope(self, values: Sequence[float], weights: Sequence[float]) -> float:
        """By how much the values of the units rise with each unit of these weights, on average."""
        scale, variance = max(abs(value) for value in values), self._variance(weights)
        if not scale or variance * self._game.plays < 1.0:
            return 0.0
        both, apart = (
            self._variance([value / scale + sign * weight for value, weight in zip(values, weights, strict=True)])
            for sign in (1, -1)
        )
        return round((both - apart) / 4 / variance * scale, 6)

    def _variance(self, values: Sequence[float]) -> float:
        """The variance of the values of the units of one play."""
        turned, _ = turning(self._game, [i for i in self._prizes if values[i]])
        turn = 1e-3 / max(1.0, fsum(abs(value) for value in values))
        return -2.0 * math.log(abs(turned([cmath.exp(complex(0.0, turn * value)) for value in values]))) / turn**2

    def _range(self, linear: Linear) -> tuple[float, float]:
        """Bounds outside of which the linear part lies with a negligible probability (Chernoff)."""
        values, size = linear.values, max((abs(value) for value in linear.values), default=0.0)
        if not size:
            return linear.shift, linear.shift
        turned, _ = turning(self._game, [i for i in self._prizes if values[i]])

        def bound(tilt: float) -> float:
            try:
                one = turned([complex(math.exp(tilt * value)) for value in values]).real
                return (self._game.plays * math.log(one) + TAIL) / abs(tilt) if one > 0 else math.inf
            except OverflowError:
                return math.inf

        ends = [min(bound(sign * math.exp(x / 3) / size) for x in range(-45, 12)) for sign in (-1, 1)]
        return linear.shift - ends[0], linear.shift + ends[1]

    def _prize(self, i: int, wanted: Costs) -> PrizeForecast:
        stock = self._game.prizes[i].stock
        mean = fsum(amount * chance for amount, chance in zip(wanted.amounts, wanted.chances, strict=True))
        units = tuple(round(wanted.quantile(share)) for share in QUANTILES)
        if stock is None:
            return PrizeForecast(self._game.prizes[i].id, mean, units, 0.0, 0.0)
        run_out = wanted.above(stock - 0.5) if stock else 1.0
        at = self._run_out_at(i, stock) if stock and run_out > 1e-9 else 0.0
        units = tuple(min(count, stock) for count in units)
        return PrizeForecast(self._game.prizes[i].id, mean - wanted.beyond(stock), units, run_out, at)

    def _run_out_at(self, i: int, stock: int) -> float:
        """The expected play of the last unit, if there is one, as if the units wanted were normally distributed."""
        plays, rate = self._game.plays, self._rates[i]
        if i == self._fallback:
            return large.first_play(plays, lambda play: self._fluid(i, play) >= stock)
        deviation = sqrt(max(1e-12, fsum((k - rate) ** 2 * chance for k, chance in self._units[i].items())))

        def gone(play: float) -> float:
            return _NORMAL.cdf((play * rate - stock + 0.5) / (deviation * sqrt(play)))

        middle = min(float(plays), stock / rate)
        width = 7.0 * deviation * sqrt(middle) / rate + 1.0
        first, last = max(0.5, middle - width), min(float(plays), middle + width)
        step, whole = (last - first) / _SPREAD_POINTS, gone(last)
        if not whole:  # As unlikely as it is, it is likeliest at the end.
            return last
        parts = (1.0 - gone(first + (k + 0.5) * step) / whole for k in range(_SPREAD_POINTS))
        return 0.5 + first + step * fsum(parts)

    def _fluid(self, own: int, play: int) -> float:
        """The expected units wanted of the fallback prize by a play."""
        rates, prizes = self._rates, self._game.prizes
        others = (max(0.0, play * rates[i] - (p.stock or 0)) for i, p in enumerate(prizes) if p.stock is not None)
        return play * rates[own] + fsum(others) - max(0.0, play * rates[own] - (prizes[own].stock or 0))

    def cost_in_block(self, blocks: Blocks, block: int, place: int) -> float:
        """The expected cost of a play after so many blocks, and so many plays of its block."""
        cost, refused = 0.0, 0.0
        for i, chance, most in blocks.falls.kinds:
            counts, stock = binomial(place, chance), self._game.prizes[i].stock
            accepted = counts.below(most)
            if stock is not None:
                before = totals(self._units[i], block, 256) if block else Costs([0.0], [1.0])
                accepted = fsum(
                    weight * (1.0 - before.above(stock - count - 0.5))
                    for count, weight in enumerate(counts.weights, counts.first)
                    if count < min(most, stock)
                )
            cost += chance * accepted * self._game.prizes[i].value
            refused += chance * (1.0 - accepted) if i != self._fallback else 0.0
        return (cost + refused * self._fallback_value(block)) / blocks.share

    def _fallback_value(self, plays: int) -> float:
        """The value of the fallback prize after so many plays; 0 if it is then out of stock."""
        if self._fallback is None:
            return 0.0
        own = self._game.prizes[self._fallback]
        return own.value if own.stock is None or self._fluid(self._fallback, plays) < own.stock else 0.0

    def _cost_of_play(self, play: int) -> float:
        """The expected cost of the play with this number, counted from 1."""
        cost, missing = 0.0, 0.0
        for i, prize in enumerate(self._game.prizes):
            rate = self._rates[i]
            if prize.stock is not None and rate:
                before = totals(self._units[i], play - 1, 256) if play > 1 else Costs([0.0], [1.0])
                got = _short(before, self._units[i], prize.stock)
                missing += rate - got if i != self._fallback else 0.0
                rate = got
            cost += rate * prize.value
        return cost + missing * self._fallback_value(play - 1)


def _short(before: Costs, units: Mapping[int, float], stock: int) -> float:
    """The expected units that a play gets, after what plays before it wanted."""
    found = 0.0
    for amount, chance in zip(before.amounts, before.chances, strict=True):
        left = max(0.0, stock - amount)
        if left:
            found += chance * fsum(min(float(count), left) * share for count, share in units.items())
    return found


def _atoms(layers: Sequence[Layer], slopes: Sequence[float]) -> list[tuple[float, float]]:
    """The amounts that the stocks and what depends on them add, with their probabilities."""
    states: list[tuple[tuple[float, ...], float, float, float]] = [((), 1.0, 0.0, 0.0)]
    for layer, slope in zip(layers, slopes, strict=True):
        following, stock = [], layer.stock
        for parts, chance, amount, beyond in states:
            offset = fsum(map(mul, layer.shares, parts)) - layer.gone + (beyond if stock.stands_in else 0.0)
            for cell, share in layer.cells:
                units = cell + offset
                got = units if units < stock.limit else stock.limit
                cost = stock.value * got + stock.after * (units - got) + slope * cell
                following.append(((*parts, cell), chance * share, amount + cost, beyond + units - got))
        states = following
    return [(amount, chance) for _, chance, amount, _ in states]


def _transform(layout: Layout, atoms: Iterable[tuple[float, float]]) -> list[complex]:
    """The transform of amounts. One between two points is divided between them, so that the mean stays."""
    cells = [0j] * layout.points
    for amount, chance in atoms:
        place = amount / layout.step
        at = floor(place + 1e-9)
        rest = max(0.0, place - at)
        cells[at % layout.points] += chance * (1.0 - rest)
        cells[(at + 1) % layout.points] += chance * rest
    return transformed(cells)


def _pairs(costs: Costs) -> list[tuple[float, float]]:
    return list(zip(costs.amounts, costs.chances, strict=True))


def _cells(atoms: Sequence[tuple[float, float]], most: float) -> list[tuple[float, float]]:
    """Neighbouring amounts as one, at their mean, so that at most so many are left."""
    width = max(1, ceil(len(atoms) / most))
    found = []
    for first in range(0, len(atoms), width):
        chance = fsum(one[1] for one in atoms[first : first + width])
        if chance > 0:
            found.append((fsum(a * c for a, c in atoms[first : first + width]) / chance, chance))
    return found


def _whole(costs: Costs) -> list[tuple[float, float]]:
    """The probability of each number of units, from a distribution that may be smoothed."""
    if not costs.spread:
        return _pairs(costs)
    first, last = floor(costs.amounts[0] - costs.spread), ceil(costs.amounts[-1] + costs.spread)
    weights = [0.0] * (last - first + 1)
    half = costs.spread / 2
    for amount, chance in _pairs(costs):
        for unit in range(round(amount - half), round(amount + half) + 1):
            inside = min(amount + half, unit + 0.5) - max(amount - half, unit - 0.5)
            weights[unit - first] += chance * max(0.0, inside) / costs.spread
    return [(float(max(0, first + k)), weight) for k, weight in enumerate(weights) if weight > 0]
