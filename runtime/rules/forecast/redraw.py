"""Games with the policy `redraw`, where some stock may or may not run out.

A draw of a sold-out prize wins another prize, in proportion to the chances. So the number of wins is binomial until all
prizes are sold out. The prizes won are a stream of independent draws that skips sold-out prizes. In continuous time,
each prize has an independent Poisson process that ends with its stock, and the stream stops at the number of wins. The
probability of a result is therefore an integral over the time of the stop, and over an angle that fixes the number of
wins.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import add, mul
from typing import Final, NamedTuple

from runtime.rules.forecast.bounds import TAIL, range_of
from runtime.rules.forecast.counts import Counts, binomial, drawn_below, poisson, poisson_up_to
from runtime.rules.forecast.fourier import angles, centre_of, phased
from runtime.rules.forecast.grid import POINTS_MIN, Grid, Layout, finished, layout_of, progression
from runtime.rules.forecast.sums import Bent, Steady, Sum, mean_turn
from runtime.rules.forecast.terms import GameTerms

UNLIKELY: Final = 1e-10
_DEVIATIONS: Final = 6.5
"""A normal variable deviates by more with a probability of 1e-10."""
_NEGLIGIBLE: Final = 2 * TAIL
"""Twice, since at earlier times the integrand falls less."""
_MANY: Final = 10**12
_RANGES: Final = 5
"""The groups of times for which bounds of the cost are computed."""
_TIMES_MAX: Final = 120
_ERROR: Final = 1e-7
"""The error of the whole probability up to which the times are close enough."""
_MICROSECONDS: Final = 500_000
"""The time of a distribution, by its counts and points: twice as much if it is then exact."""
_MICROSECONDS_MAX: Final = 2_000_000
"""With more, even for the fewest points, it is not computed."""
_TIMES_USUAL: Final = 20


@dataclass(frozen=True, slots=True)
class Stream:
    """The wins among prizes that may still be free.

    wins: the chance of a win per play. gone: the wins that went to prizes which run out for certain; shift: their
    cost. open: the prizes that never run out, with their share of a draw; limited: the others. All shares add up to 1.
    """

    plays: int
    wins: float
    gone: int
    open: tuple[Steady, ...]
    limited: tuple[Bent, ...]
    shift: float

    @property
    def share(self) -> float:
        """The share of the prizes that never run out."""
        return math.fsum(part.chance for part in self.open)

    @property
    def mean(self) -> float:
        return self.plays * self.wins - self.gone

    @property
    def variance(self) -> float:
        return self.plays * self.wins * (1.0 - self.wins)

    def wins_turned(self, angle: float) -> complex:
        """E exp(-i angle wins of the stream)."""
        one = 1.0 - self.wins + self.wins * cmath.exp(complex(0.0, -angle))
        return one**self.plays * cmath.exp(complex(0.0, angle * self.gone))


class Result(NamedTuple):
    """grid: of the cost. given: the units of each limited prize. error: of the whole probability."""

    grid: Grid
    given: list[Counts]
    error: float


class _Moment(NamedTuple):
    """A node of the time integral: the counts of the limited prizes then, and the probability that they reached their
    limits.
    """

    time: float
    weight: float
    counts: list[Counts]
    full: list[float]
    mass: float


def distribution(stream: Stream, highest: float, points_max: int, *, counted: bool) -> Result | None:
    """The distribution of the cost, which is at most `highest`. None: it would take too long.

    counted: whether the units of the limited prizes are needed, too.
    """
    middle = time_of(stream, stream.mean)
    earliest = _earliest(stream, middle)
    step, most = _angles(stream, middle, earliest, 0.0)
    usual = [*_partly(stream, [poisson(part.chance * middle) for part in stream.limited])]
    if _TIMES_USUAL * _microseconds(usual, POINTS_MIN, most) > _MICROSECONDS_MAX:
        return None
    moments = _moments(stream, middle, step, most)
    if not moments or len(moments) > _TIMES_MAX:
        return None
    low, high = _range(stream, moments, highest)
    values = [part.value for part in stream.open] + [part.value for part in stream.limited] + [stream.shift]
    partly = [count for moment in moments for count in _partly(stream, moment.counts)]
    points, work, layout = points_max, math.inf, layout_of(values, low, high, points_max)
    while work > (1 + layout.exact) * _MICROSECONDS and points >= min(points_max, POINTS_MIN):
        layout = layout_of(values, low, high, points)
        centre, astray = _centre(stream, layout, middle)
        step, most = _angles(stream, middle, earliest, astray)
        work = _microseconds(partly, layout.points, most)
        points //= 2
    if work > _MICROSECONDS_MAX:
        return None
    turns = layout.turns
    found = [0j] * len(turns)
    firsts = [min(part.limit, *(moment.counts[i].first for moment in moments)) for i, part in enumerate(stream.limited)]
    given = [[0.0] * (part.limit + 1 - first) for part, first in zip(stream.limited, firsts, strict=True)]
    moved = replace(
        stream,
        open=tuple(part._replace(value=part.value - centre) for part in stream.open),
        limited=tuple(part._replace(value=part.value - centre) for part in stream.limited),
    )
    opened = [mean_turn(moved.open, turn) for turn in turns]
    for a in range(most + 1):
        weight = step / (2 * math.pi)
        wins = [weight * stream.wins_turned(a * step + turn * centre) for turn in turns] if centre or not a else []
        again = [weight * stream.wins_turned(-a * step + turn * centre) for turn in turns] if centre or not a else []
        if not centre and a:
            wins = [weight * stream.wins_turned(a * step)] * len(turns)
            again = [wins[0].conjugate()] * len(turns)
        if max(map(abs, (*wins, *again))) < 1e-12:
            continue
        for moment in moments:
            _add(moved, layout, moment, a * step, (wins, again), opened, found, (firsts, given) if counted else None)
    ended = _ended(stream)
    whole = found[0].real + ended
    total = math.fsum(part.value * part.limit for part in stream.limited)
    for j, turn in enumerate(turns):
        found[j] = (found[j] + ended * cmath.exp(complex(0.0, -turn * total))) / whole
        found[j] *= cmath.exp(complex(0.0, turn * (layout.first - stream.shift)))
    counts = []
    for first, weights in zip(firsts, given if counted else (), strict=False):
        weights[-1] += ended
        counts.append(Counts(first, [max(0.0, weight) for weight in weights]))
    return Result(finished(layout, found), counts, abs(1.0 - whole))


def _add(
    stream: Stream,
    layout: Layout,
    moment: _Moment,
    angle: float,
    wins: tuple[list[complex], list[complex]],
    opened: Sequence[complex],
    found: list[complex],
    given: tuple[list[int], list[list[float]]] | None,
) -> None:
    """Adds the flux at one time and angle, and at the negated angle, to the characteristic function and the counts."""
    share, turned = stream.share, cmath.exp(complex(0.0, angle))
    weights: list[list[complex]] = []
    ends: list[complex] = []
    for part, counts, filled in zip(stream.limited, moment.counts, moment.full, strict=True):
        inside = counts.weights[: max(0, part.limit - counts.first)]
        weights.append(phased(inside, angle, counts.first))
        ends.append(filled * cmath.exp(complex(0.0, angle * part.limit)))
    partly = [at for at, inside in enumerate(weights) if inside]
    over = [at for at, inside in enumerate(weights) if not inside]
    spectra = [progression(layout, stream.limited[at].value, moment.counts[at].first, weights[at]) for at in partly]
    # Those that reached their limits for certain add a fixed amount.
    fixed = _filled(layout, math.fsum(stream.limited[at].value * stream.limited[at].limit for at in over))
    for sign in (1, -1) if angle else (1,):
        phase, end = moment.time * turned, math.prod(ends[at] for at in over) * moment.weight
        if sign < 0:
            phase, end = phase.conjugate(), end.conjugate()
        products = [
            end * factor * more * cmath.exp(phase * one - moment.time * share)
            for factor, more, one in zip(wins[0] if sign > 0 else wins[1], fixed, opened, strict=True)
        ]
        rates = [complex(share)] * len(products)
        for at, below in zip(partly, spectra, strict=True):
            part, full = stream.limited[at], ends[at]
            if sign < 0:
                below = [below[0].conjugate(), *map(complex.conjugate, below[: -len(products) : -1])]
                full = full.conjugate()
            units = _filled(layout, part.value * part.limit)
            wholes = [one + full * more for one, more in zip(below, units, strict=False)]
            # The flux is a sum over the prizes; each has its share of the rate while it is below its limit.
            rates = [
                rate + part.chance * one / (whole or 1e-300)
                for rate, one, whole in zip(rates, below, wholes, strict=False)
            ]
            products = list(map(mul, products, wholes))
        for j, flux in enumerate(map(mul, products, rates)):
            found[j] += flux
    if given is not None:
        _count(stream, moment, moment.weight * wins[0][0], turned, weights, ends, given, twice=angle > 0)


@lru_cache(maxsize=64)
def _filled(layout: Layout, amount: float) -> list[complex]:
    """The characteristic function of a certain amount."""
    return [cmath.exp(complex(0.0, -turn * amount)) for turn in layout.turns]


def _count(
    stream: Stream,
    moment: _Moment,
    scale: complex,
    turned: complex,
    weights: Sequence[Sequence[complex]],
    ends: Sequence[complex],
    given: tuple[list[int], list[list[float]]],
    *,
    twice: bool,
) -> None:
    """Adds the flux to the counts of each limited prize, from its first on. The negated angle adds the conjugate."""
    share = stream.share
    common = scale * cmath.exp(moment.time * share * (turned - 1.0)) * (2 if twice else 1)
    below = [sum(phased) for phased in weights]
    wholes = [inside + end for inside, end in zip(below, ends, strict=True)]
    for at, part in enumerate(stream.limited):
        others, rates = common, complex(share)
        for k, whole in enumerate(wholes):
            if k != at:
                others *= whole
                rates += stream.limited[k].chance * below[k] / whole if whole else 0j
        first, inside = moment.counts[at].first, others * (rates + part.chance)
        counts = given[1][at]
        begins, more = first - given[0][at], [(inside * weight).real for weight in weights[at]]
        counts[begins : begins + len(more)] = map(add, counts[begins:], more)
        counts[-1] += (others * rates * ends[at]).real


def _ended(stream: Stream) -> float:
    """The probability that all is gone."""
    if stream.open:
        return 0.0
    return binomial(stream.plays, stream.wins).at_least(stream.gone + sum(part.limit for part in stream.limited))


def _partly(stream: Stream, counts: Sequence[Counts]) -> Iterator[int]:
    """How many counts below its limit each prize may have, of those that may be below it."""
    for part, one in zip(stream.limited, counts, strict=True):
        if one.first < part.limit:
            yield min(one.last + 1, part.limit) - one.first


def _microseconds(counted: Sequence[int], points: int, most: int) -> float:
    """About how long these counts take at each angle."""
    return (most + 1) * (0.25 * sum(counted) + 1.2 * points * len(counted))


def _angles(stream: Stream, middle: float, earliest: float, astray: float) -> tuple[float, int]:
    """The nodes of the angle: their distance, and their number from 0 up. astray: how far from 0 a peak may be."""
    spread = _spread(stream, earliest)
    period = math.ceil(14.0 * math.sqrt(spread**2 + 8.0 * spread + 20.0)) + 30
    if _by_wins(stream, middle):
        return angles(period, stream.variance, TAIL)
    return angles(period, middle * stream.share, _NEGLIGIBLE, astray=astray)


def _by_wins(stream: Stream, middle: float) -> bool:
    """Whether the integrand is negligible except around angles of 0 because the number of wins varies. If not, it is
    because the wins of open prizes do, with values around 0.
    """
    return 2 * stream.variance >= middle * stream.share


def _centre(stream: Stream, layout: Layout, middle: float) -> tuple[float, float]:
    """What the value of each win is reduced by, so that values are around 0; and how far from 0 a peak still is."""
    return (0.0, 0.0) if _by_wins(stream, middle) else centre_of(stream.open, layout, middle, _NEGLIGIBLE)


def _moments(stream: Stream, middle: float, step: float, most: int) -> list[_Moment]:
    """The nodes of the time at which the flux is not negligible, so close that they add up to the whole probability."""
    spread = math.sqrt(stream.variance + middle)
    now, later = (
        _won(stream, time, [poisson(part.chance * time) for part in stream.limited]) for time in (middle, middle * 1.01)
    )
    rate = max(1e-12, (later - now) / (0.01 * middle))
    width, before = min(0.3, 0.5 * spread / rate / middle), math.inf
    found: dict[int, _Moment] = {}
    kept: list[_Moment] = []
    while True:
        for direction in (1, -1):
            k = 0 if direction > 0 else -1
            while len(found) <= _TIMES_MAX:
                if k not in found:
                    found[k] = _moment(stream, middle * math.exp(k * width), width, step, most)
                ahead = _won(stream, found[k].time, found[k].counts) - stream.mean
                if found[k].mass < 3e-9 and abs(k) > 4:
                    break
                if direction * ahead > 7.0 * math.sqrt(stream.variance + max(0.0, stream.mean + ahead)) + 10.0:
                    break  # The number of wins is certain to differ.
                k += direction
        error = abs(1.0 - _ended(stream) - math.fsum(moment.mass for moment in found.values()))
        if before < math.inf and len(found) > _TIMES_MAX:
            return kept
        kept = [found[k] for k in sorted(found) if found[k].mass > 1e-9]
        if error < _ERROR or error > before / 2 or len(found) > _TIMES_MAX:
            return kept
        width, before = width / 2, error
        halves = ((2 * k, one._replace(weight=one.weight / 2, mass=one.mass / 2)) for k, one in found.items())
        found = dict(halves)


def _moment(stream: Stream, time: float, width: float, step: float, most: int) -> _Moment:
    counts = [poisson(part.chance * time) for part in stream.limited]
    full = [count.at_least(part.limit) for count, part in zip(counts, stream.limited, strict=True)]
    mass = 0.0
    for a in range(most + 1):
        angle = a * step
        turned = cmath.exp(complex(0.0, angle))
        product = stream.wins_turned(angle) * cmath.exp(time * stream.share * (turned - 1.0))
        rates = complex(stream.share)
        for part, count, end in zip(stream.limited, counts, full, strict=True):
            below = sum(phased(count.weights[: max(0, part.limit - count.first)], angle, count.first))
            whole = below + end * cmath.exp(complex(0.0, angle * part.limit))
            product *= whole
            rates += part.chance * below / whole if whole else 0j
        mass += (product * rates).real * (2 if a else 1)
    return _Moment(time, width * time, counts, full, mass * width * time * step / (2 * math.pi))


def _won(stream: Stream, time: float, counts: Sequence[Counts]) -> float:
    """The expected units won by this time of the stream. counts: of the draws of the limited prizes by then."""
    parts = zip(counts, stream.limited, strict=True)
    return time * stream.share + math.fsum(count.up_to(part.limit) for count, part in parts)


def _spread(stream: Stream, time: float) -> float:
    """The standard deviation of the units won by this time, without the number of wins."""
    parts = ((poisson(part.chance * time), part.limit) for part in stream.limited)
    return math.sqrt(stream.variance + time * stream.share + math.fsum(one.variance_up_to(most) for one, most in parts))


def _earliest(stream: Stream, middle: float) -> float:
    """The time before which the stream stops with a negligible probability."""
    time = middle
    for _ in range(4):  # The earlier, the wider the spread.
        time = time_of(stream, max(0.0, stream.mean - 7.0 * _spread(stream, time) - 10.0))
    return time


def _range(stream: Stream, moments: Sequence[_Moment], highest: float) -> tuple[float, float]:
    """Bounds of the cost, which only rises: from those of the times at which the stream may stop.

    The more units are won by a time, the likelier is a stop by then, and the unlikelier a low cost. So both together
    are at most as likely as if they were independent, and a bound at an unlikely time may be exceeded more often.
    """
    low, high, ended = math.inf, stream.shift, _ended(stream)
    wide = -(-len(moments) // _RANGES)
    for at in range(0, len(moments), wide):
        before = max(0, at - 1)
        first, last = moments[before], moments[min(at + wide, len(moments) - 1)]
        stopped = math.fsum(moment.mass for moment in moments[: at + wide])
        left = ended + math.fsum(moment.mass for moment in moments[before:])
        low = min(low, _range_at(stream, first.time, stopped)[0])
        high = max(high, _range_at(stream, last.time, left)[1])
    return max(stream.shift, low), highest if ended > UNLIKELY else min(high, highest)


def _range_at(stream: Stream, time: float, mass: float) -> tuple[float, float]:
    """Bounds of the cost at a time of the stream, for a part of the whole probability.

    So many plays make the counts those of independent processes.
    """
    counts, share = [poisson(part.chance * time) for part in stream.limited], time / _MANY
    steady = [part._replace(chance=part.chance * share) for part in stream.open]
    limited = tuple(part._replace(chance=part.chance * share) for part in stream.limited)
    rest = Steady(1.0 - share, 0.0)
    tail = max(1.0, TAIL + math.log(min(1.0, mass)))
    return range_of(Sum(_MANY, (*steady, rest), limited, stream.shift), counts, tail)


def time_of(stream: Stream, units: float, since: float = 0.0) -> float:
    """The time by which so many units are expected to be won. Newton's method approaches it from below: the units won
    rise ever more slowly. since: an earlier time.
    """
    time, wanted = max(units, since), min(units, 0.999 * most_of(stream))
    for _ in range(60):
        found = [poisson_up_to(part.chance * time, part.limit) for part in stream.limited]
        won = time * stream.share + math.fsum(units for units, _ in found)
        free = zip(stream.limited, found, strict=True)
        rate = stream.share + math.fsum(part.chance * below for part, (_, below) in free)
        step = (wanted - won) / rate
        time += max(0.0, step)
        if step < 1e-9 * time:
            break
    return time


def most_of(stream: Stream) -> float:
    return math.inf if stream.open else float(sum(part.limit for part in stream.limited))


# -- which prizes run out -----------------------------------------------------------------------


def gone_for_certain(game: GameTerms) -> tuple[list[int], list[int]]:
    """The drawn prizes in two groups: those that certainly sell out, and the others."""
    plays, prizes = game.plays, game.prizes
    whole = math.fsum(prize.chance for prize in prizes)
    least = plays * whole - _DEVIATIONS * math.sqrt(plays * whole * max(0.0, 1.0 - whole))
    open_ = [i for i, prize in enumerate(prizes) if prize.chance and prize.stock != 0]
    gone = [i for i, prize in enumerate(prizes) if prize.chance and prize.stock == 0]
    while True:
        rest = math.fsum(prizes[i].chance for i in open_)
        left = int(least - sum(prizes[i].stock or 0 for i in gone))
        found = (
            i
            for i in open_
            if (stock := prizes[i].stock) is not None
            and left > 0
            and drawn_below(left, prizes[i].chance / rest, stock) < UNLIKELY
        )
        if (sold := next(found, None)) is None:
            return gone, open_
        gone.append(sold)
        open_.remove(sold)


def unsure_of(game: GameTerms, shares: dict[int, float], left: float) -> list[int]:
    """Those of the open prizes that may or may not run out, also when redraws for each other reach them."""
    most = int(left + _DEVIATIONS * math.sqrt(game.plays * math.fsum(p.chance for p in game.prizes))) + 1
    unsure: list[int] = []
    while True:
        rest = math.fsum(share for i, share in shares.items() if i not in unsure)
        found = [
            i
            for i, share in shares.items()
            if i not in unsure
            and (stock := game.prizes[i].stock) is not None
            and drawn_below(most, min(1.0, share / rest), stock + 1) <= 1.0 - UNLIKELY
        ]
        if not found:
            return unsure
        unsure += found
