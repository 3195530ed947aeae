"""Estimates of games with redraws, for which the integral of redraw.py would take too long or misses a part.

At a fixed time, the units of the prizes are independent. So an estimate takes the average time of the last win. The
real time varies with the units: the later it is, the more further wins there are, which cost `rate` each. To the first
order this cancels out if each unit is worth `rate` less, and `rate` is added for each win. The error is small if each
limited prize has a small share of the draws. The numbers of wins are taken in slices, each with its time and rate.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from runtime.rules.forecast.counts import Counts, binomial, poisson
from runtime.rules.forecast.grid import finished, layout_of, progression
from runtime.rules.forecast.redraw import Result, Stream, most_of, time_of
from runtime.rules.forecast.sums import Steady, mean_turn

_SLICES: Final = 9
_SLICES_UNCOUNTED: Final = 5
_POINTS_MAX: Final = 1024
_DEVIATIONS: Final = 8.0
_NEGLIGIBLE: Final = 1e-10
_IRRATIONAL: Final = [math.pi]
"""Values that are multiples of no step: those of a slice are not."""


class _Slice(NamedTuple):
    """Some neighbouring numbers of wins, with their chance and the average time of the last win.

    given: the units of each limited prize. The cost is `fixed`, and what units add: those `drawn` of prizes that last,
    and independent `counted` ones. astray: how far the mean cost may be off, since the time depends on the prizes that
    are still free.
    """

    chance: float
    time: float
    given: list[Counts]
    drawn: list[Steady]
    counted: list[tuple[float, Counts]]
    fixed: float
    astray: float

    @property
    def range(self) -> tuple[float, float]:
        """Bounds of the cost."""
        means = [value * counts.mean for value, counts in self.counted]
        means += [self.time * part.chance * part.value for part in self.drawn]
        squares = [value**2 * counts.variance_up_to(counts.last) for value, counts in self.counted]
        squares += [self.time * part.chance * part.value**2 for part in self.drawn]
        mean, spread = self.fixed + math.fsum(means), _DEVIATIONS * math.sqrt(math.fsum(squares))
        return mean - spread, mean + spread


def estimate(stream: Stream, highest: float, points_max: int, *, counted: bool) -> tuple[Result, float]:
    """The distribution of the cost, which is at most `highest`, with the units of each limited prize; and how far an
    amount may be off. counted: whether the units are needed; otherwise it is faster and coarser.
    """
    slices = [*_slices(stream, _SLICES if counted else _SLICES_UNCOUNTED)]
    lows, highs = zip(*(one.range for one in slices), strict=True)
    points = min(points_max, _POINTS_MAX)
    layout = layout_of(_IRRATIONAL, max(stream.shift, min(lows)), min(highest, max(highs)), points)
    found = [0j] * len(layout.turns)
    for one in slices:
        share = math.fsum(part.chance for part in one.drawn)
        product = [
            one.chance
            * cmath.exp(one.time * (mean_turn(one.drawn, turn) - share) - 1j * turn * (one.fixed - layout.first))
            for turn in layout.turns
        ]
        for value, counts in one.counted:
            spectrum = progression(layout, value, counts.first, counts.weights)
            product = [before * more for before, more in zip(product, spectrum, strict=False)]
        found = [before + more for before, more in zip(found, product, strict=True)]
    given = []
    if counted:
        given = [_mixed((one.chance, one.given[i]) for one in slices) for i in range(len(stream.limited))]
    astray = math.fsum(one.chance * one.astray for one in slices)
    return Result(finished(layout, found), given, 0.0), astray


def _slices(stream: Stream, count: int) -> Iterator[_Slice]:
    """So many at most, and one for the wins with which all prizes are sold out."""
    wins, time = binomial(stream.plays, stream.wins), 0.0
    end = len(wins.weights) if stream.open else max(0, stream.gone + int(most_of(stream)) - wins.first)
    if chance := math.fsum(wins.weights[end:]):
        given = [Counts(part.limit, [1.0]) for part in stream.limited]
        fixed = stream.shift + math.fsum(part.value * part.limit for part in stream.limited)
        yield _Slice(chance, 0.0, given, [], [], fixed, 0.0)
    width = -(-len(wins.weights) // count)
    for at in range(0, end, width):
        weights = wins.weights[at : min(at + width, end)]
        if (chance := math.fsum(weights)) > _NEGLIGIBLE:
            some = Counts(wins.first + at, weights)
            time = time_of(stream, max(0.0, some.mean - stream.gone), time)
            yield _slice(stream, chance, some, time)


def _slice(stream: Stream, chance: float, wins: Counts, time: float) -> _Slice:
    """The slice of these wins, the last of which comes at this time on average."""
    draws = [poisson(part.chance * time) for part in stream.limited]
    given = [counts.capped(part.limit) for part, counts in zip(stream.limited, draws, strict=True)]
    free = [part.chance * counts.below(part.limit) for part, counts in zip(stream.limited, draws, strict=True)]
    costs = [part.value * one for part, one in zip(stream.limited, free, strict=True)]
    costs += [part.value * part.chance for part in stream.open]
    speed = max(1e-300, stream.share + math.fsum(free))
    rate = math.fsum(costs) / speed
    drawn, counted, astray = list(stream.open), [(rate, wins)], 0.0
    for part, counts, units, one in zip(stream.limited, draws, given, free, strict=True):
        if counts.last <= part.limit:
            drawn.append(Steady(part.chance, part.value))
        else:
            counted.append((part.value - rate, units))
        astray += (part.value - rate) * (part.chance - one) * (part.limit - units.mean)
    drawn = [Steady(part.chance, part.value - rate) for part in drawn]
    return _Slice(chance, time, given, drawn, counted, stream.shift - rate * stream.gone, abs(astray) / speed)


def _mixed(parts: Iterable[tuple[float, Counts]]) -> Counts:
    """The distribution of a count that has each of these with its chance."""
    found: dict[int, float] = {}
    for chance, counts in parts:
        for count, weight in enumerate(counts.weights, counts.first):
            found[count] = found.get(count, 0.0) + chance * weight
    first = min(found)
    return Counts(first, [found.get(count, 0.0) for count in range(first, max(found) + 1)])
