"""What one play wants of each prize, if it may win several units: before stocks, and under caps and other odds."""

from __future__ import annotations

import cmath
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import fsum, prod
from typing import Final, TypeAlias

from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.terms import Falls, GameTerms, Wanted

LISTED_MAX: Final = 2_000
"""The most combinations of caught items that are listed one by one."""
_NEGLIGIBLE: Final = 1e-15

Turned: TypeAlias = Callable[[Sequence[complex]], complex]
"""The expected product of factors[i] over the units of each prize i that a play wants."""


def caught(falls: Falls, alone: int | None = None, into: int | None = None) -> tuple[tuple[float, Wanted], ...]:
    """All combinations of prizes that caught items win. alone: of this prize only. into: the prize that items win which
    exceed the most of their kind; None: none.
    """
    states: Mapping[tuple[int, Wanted], float] = {(falls.items, ()): 1.0}
    rest = 1.0
    for prize, chance, most in falls.kinds:
        if not chance or alone not in (None, prize):
            continue
        following: defaultdict[tuple[int, Wanted], float] = defaultdict(float)
        for (left, wanted), weight in states.items():
            counts = binomial(left, chance / rest if chance < rest else 1.0)
            for count, share in enumerate(counts.weights, counts.first):
                if weight * share > _NEGLIGIBLE:
                    after = _added(wanted, prize, min(count, most))
                    after = after if into is None else _added(after, into, max(0, count - most))
                    following[left - count, after] += weight * share
        rest, states = rest - chance, following
    found: defaultdict[Wanted, float] = defaultdict(float)
    for (_, wanted), weight in states.items():
        found[wanted] += weight
    return tuple((chance, wanted) for wanted, chance in found.items())


def combinations(falls: Falls) -> int:
    """At most so many combinations are caught."""
    return prod(min(most, falls.items) + 1 for _, chance, most in falls.kinds if chance)


def listed(game: GameTerms) -> GameTerms:
    """The game with the combinations of its caught items, if they are few."""
    if game.falls is None:
        return game
    if combinations(game.falls) > LISTED_MAX:
        return game
    return replace(game, wins=caught(game.falls), falls=None)


def units_of(game: GameTerms, prize: int) -> dict[int, float]:
    """The distribution of the units of a prize that a play wants."""
    found: defaultdict[int, float] = defaultdict(float)
    for chance, wanted in caught(game.falls, prize) if game.falls is not None else game.wins:
        found[dict(wanted).get(prize, 0)] += chance
    found[0] += max(0.0, 1.0 - fsum(found.values()))
    return dict(sorted(found.items()))


def won(game: GameTerms, wanted: Wanted, left: Sequence[int]) -> Wanted:
    """What a play gets, by the rule of collect_items.py."""
    given = {i: min(units, left[i]) for i, units in wanted}
    if game.on_unavailable == "fallback" and game.fallback is not None:
        missing = sum(units - given[i] for i, units in wanted if i != game.fallback)
        if missing:
            given[game.fallback] = min(given.get(game.fallback, 0) + missing, left[game.fallback])
    return tuple((i, units) for i, units in given.items() if units)


def thinned(game: GameTerms, shares: Mapping[int, float], into: int | None = None) -> GameTerms:
    """The game in which each unit of these prizes is wanted with a probability only. into: the prize wanted instead."""
    if game.falls is not None:
        kinds = tuple((i, chance * shares.get(i, 1.0), most) for i, chance, most in game.falls.kinds)
        if into is not None:
            kinds += tuple((into, c * (1.0 - shares[i]), most) for i, c, most in game.falls.kinds if i in shares)
        return replace(game, falls=replace(game.falls, kinds=kinds))
    wins: Mapping[Wanted, float] = {wanted: chance for chance, wanted in game.wins}
    for i, share in shares.items():
        following: defaultdict[Wanted, float] = defaultdict(float)
        for wanted, chance in wins.items():
            units = dict(wanted).get(i, 0)
            others = tuple(one for one in wanted if one[0] != i)
            counts = binomial(units, share)
            for kept, weight in enumerate(counts.weights, counts.first):
                after = _added(others, i, kept)
                after = after if into is None else _added(after, into, units - kept)
                following[after] += chance * weight
        wins = following
    return replace(game, wins=tuple((chance, wanted) for wanted, chance in wins.items()))


def clipped(game: GameTerms, most: Mapping[int, int]) -> GameTerms:
    """The game in which a play wants at most so many units of these prizes. Prizes of one kind of item only."""
    if game.falls is not None:
        kinds = tuple((i, chance, min(limit, most.get(i, limit))) for i, chance, limit in game.falls.kinds)
        return replace(game, falls=replace(game.falls, kinds=kinds))
    wins: defaultdict[Wanted, float] = defaultdict(float)
    for chance, wanted in game.wins:
        wins[tuple((i, min(units, most.get(i, units))) for i, units in wanted)] += chance
    return replace(game, wins=tuple((chance, wanted) for wanted, chance in wins.items()))


def turning(game: GameTerms, prizes: Iterable[int]) -> tuple[Turned, int]:
    """The characteristic function of a play, and about how many operations it takes. prizes: those with factors."""
    kept = frozenset(prizes)
    if game.falls is not None:
        falling = _Falling(game.falls, kept)
        return falling.turned, falling.work
    wins: defaultdict[Wanted, float] = defaultdict(float)
    for chance, wanted in game.wins:
        wins[tuple(one for one in wanted if one[0] in kept)] += chance
    lost = 1.0 - fsum(wins.values())

    def turned(factors: Sequence[complex]) -> complex:
        whole = complex(lost)
        for wanted, chance in wins.items():
            product = complex(chance)
            for i, units in wanted:
                product *= factors[i] ** units
            whole += product
        return whole

    return turned, 1 + sum(1 + len(wanted) for wanted in wins)


class _Falling:
    """The characteristic function of the units that caught items win in a play.

    The counts of the kinds add up to the items that fall. They equal independent Poisson counts under the condition
    that their total is that number, and the condition is an integral over an angle, as in fourier.py.
    """

    def __init__(self, falls: Falls, kept: frozenset[int]) -> None:
        items = falls.items
        nodes = _nodes(items)
        kinds = [kind for kind in falls.kinds if kind[0] in kept and kind[1] and kind[2]]
        rest = 1.0 - fsum(chance for _, chance, _ in kinds)
        turns = [cmath.exp(complex(0.0, 2 * math.pi * k / nodes)) for k in range(nodes)]
        back = [cmath.exp(complex(0.0, -2 * math.pi * k * items / nodes)) for k in range(nodes)]
        self._base = [cmath.exp(rest * items * (z - 1.0)) * b for z, b in zip(turns, back, strict=True)]
        self._free = [(i, [chance * items * z for z in turns], chance * items) for i, chance, most in kinds
                      if not _binds(items, chance, most)]  # fmt: skip
        self._capped = [
            (i, most, _weights(turns, chance * items, most)) for i, chance, most in kinds if _binds(items, chance, most)
        ]
        self.work = work_of(replace(falls, kinds=tuple(kinds)))
        self._whole = 1.0
        self._whole = self.turned([1.0] * (1 + max((i for i, _, _ in kinds), default=0))).real

    def turned(self, factors: Sequence[complex]) -> complex:
        products = self._base
        for i, rates, rate in self._free:
            factor = factors[i]
            products = [one * cmath.exp(z * factor - rate) for one, z in zip(products, rates, strict=True)]
        for i, most, (first, rows, beyond) in self._capped:
            factor = factors[i]
            sums = [end * factor**most for end in beyond]
            power = factor**first
            for row in rows:
                sums = [total + weight * power for total, weight in zip(sums, row, strict=True)]
                power *= factor
            products = [one * total for one, total in zip(products, sums, strict=True)]
        return sum(products) / self._whole


def work_of(falls: Falls) -> int:
    """About how many operations a value of the characteristic function of what falls takes, if it is not listed."""
    work = 2
    for _, chance, most in falls.kinds:
        work += 2 + len(_counted(chance * falls.items, most)) if _binds(falls.items, chance, most) else 3
    return work * _nodes(falls.items)


def _nodes(items: int) -> int:
    return math.ceil(7.0 * math.sqrt(items)) + 40


def _counted(rate: float, most: int) -> range:
    """The counts below `most` that are not negligible."""
    first = max(0, min(most, int(rate - 9.0 * math.sqrt(rate) - 10)))
    return range(first, min(most, int(rate + 9.0 * math.sqrt(rate) + 40)))


def _binds(items: int, chance: float, most: int) -> bool:
    return most < items and binomial(items, chance).at_least(most + 1) > 1e-13


def _weights(turns: Sequence[complex], rate: float, most: int) -> tuple[int, list[list[complex]], list[complex]]:
    """For each turn z, exp(-rate) (rate z)^k / k! for each k below `most` where it is not negligible, from the first k
    on; and the rest of exp(rate (z - 1)).
    """
    counts, rows = _counted(rate, most), []
    for k in counts:
        size = math.exp(k * math.log(rate) - rate - math.lgamma(k + 1))
        rows.append([size * z**k for z in turns])
    beyond = [cmath.exp(rate * (z - 1.0)) for z in turns]
    for row in rows:
        beyond = [end - weight for end, weight in zip(beyond, row, strict=True)]
    return counts.start, rows, beyond


def _added(wanted: Wanted, prize: int, units: int) -> Wanted:
    if not units:
        return wanted
    found = dict(wanted)
    found[prize] = found.get(prize, 0) + units
    return tuple(sorted(found.items()))
