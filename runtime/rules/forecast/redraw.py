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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import mul
from typing import Final, NamedTuple

from runtime.rules.forecast.bounds import TAIL
from runtime.rules.forecast.counts import Counts, binomial, poisson
from runtime.rules.forecast.fourier import angles, centre_of, phased
from runtime.rules.forecast.grid import Grid, Layout, finished, layout_of, points_for, progression
from runtime.rules.forecast.sums import Bent, Steady, mean_turn
from runtime.rules.forecast.terms import GameTerms

UNLIKELY: Final = 1e-10
_DEVIATIONS: Final = 6.5
"""A normal variable deviates by more with a probability of 1e-10."""
_NEGLIGIBLE: Final = 2 * TAIL
"""Twice, since at earlier times the integrand falls less."""
_TIMES_MAX: Final = 120
_TIMES_USUAL: Final = 25


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


def distribution(stream: Stream, low: float, high: float, points_max: int) -> Result | None:
    """The distribution of the cost, between two bounds. None: it would take too long."""
    middle = _time_of(stream, stream.mean)
    last = [poisson(part.chance * middle) for part in stream.limited]
    counted = [min(count.last, part.limit) - count.first + 1 for count, part in zip(last, stream.limited, strict=True)]
    values = [part.value for part in stream.open] + [part.value for part in stream.limited] + [stream.shift]
    points, affordable = 0, points_max
    while points != affordable:
        points, layout = affordable, layout_of(values, low, high, affordable)
        centre, astray = _centre(stream, layout, middle)
        step, most = _angles(stream, middle, astray)
        affordable = points_for(_TIMES_USUAL * (most + 1), counted, points)
        if not affordable:
            return None
    moments = _moments(stream, middle, step, most)
    if not moments or len(moments) > _TIMES_MAX:
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
            _add(moved, layout, moment, a * step, (wins, again), opened, found, (firsts, given))
    ended = _ended(stream)
    whole = found[0].real + ended
    total = math.fsum(part.value * part.limit for part in stream.limited)
    for j, turn in enumerate(turns):
        found[j] = (found[j] + ended * cmath.exp(complex(0.0, -turn * total))) / whole
        found[j] *= cmath.exp(complex(0.0, turn * (layout.first - stream.shift)))
    counts = []
    for first, weights in zip(firsts, given, strict=True):
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
    given: tuple[list[int], list[list[float]]],
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
        for k, weight in enumerate(weights[at], first - given[0][at]):
            counts[k] += (inside * weight).real
        counts[-1] += (others * rates * ends[at]).real


def _ended(stream: Stream) -> float:
    """The probability that all is gone."""
    if stream.open:
        return 0.0
    return binomial(stream.plays, stream.wins).at_least(stream.gone + sum(part.limit for part in stream.limited))


def _angles(stream: Stream, middle: float, astray: float) -> tuple[float, int]:
    """The nodes of the angle: their distance, and their number from 0 up. astray: how far from 0 a peak may be."""
    spread = math.sqrt(stream.variance + middle)
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
    """The nodes of the time at which the flux is not negligible."""
    spread = math.sqrt(stream.variance + middle)
    rate = max(1e-12, (_given(stream, middle * 1.01) - _given(stream, middle)) / (0.01 * middle))
    width = min(0.3, 0.5 * spread / rate / middle)
    found: dict[int, _Moment] = {}
    for direction in (1, -1):
        k = 0 if direction > 0 else -1
        while len(found) <= _TIMES_MAX:
            moment = _moment(stream, middle * math.exp(k * width), width, step, most)
            found[k] = moment
            ahead = _given(stream, moment.time) - stream.mean
            if moment.mass < 3e-9 and abs(k) > 4:
                break
            if direction * ahead > 7.0 * math.sqrt(stream.variance + max(0.0, stream.mean + ahead)) + 10.0:
                break  # The number of wins is certain to differ.
            k += direction
    return [found[k] for k in sorted(found) if found[k].mass > 1e-9]


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
            below, one = 0j, cmath.exp(complex(0.0, angle * count.first))
            for weight in count.weights[: max(0, min(count.last, part.limit - 1) - count.first + 1)]:
                below += weight * one
                one *= turned
            whole = below + end * cmath.exp(complex(0.0, angle * part.limit))
            product *= whole
            rates += part.chance * below / whole if whole else 0j
        mass += (product * rates).real * (2 if a else 1)
    return _Moment(time, width * time, counts, full, mass * width * time * step / (2 * math.pi))


def _given(stream: Stream, time: float) -> float:
    """The expected units won by this time of the stream."""
    return time * stream.share + math.fsum(poisson(part.chance * time).up_to(part.limit) for part in stream.limited)


def _time_of(stream: Stream, units: float) -> float:
    """The time by which so many units are expected to be won. Newton's method approaches it from below: the units won
    rise ever more slowly.
    """
    time, wanted = units, min(units, 0.999 * _most(stream))
    for _ in range(60):
        counts = [poisson(part.chance * time) for part in stream.limited]
        parts = list(zip(counts, stream.limited, strict=True))
        won = time * stream.share + math.fsum(count.up_to(part.limit) for count, part in parts)
        rate = stream.share + math.fsum(count.below(part.limit) * part.chance for count, part in parts)
        step = (wanted - won) / rate
        time += max(0.0, step)
        if step < 1e-9 * time:
            break
    return time


def _most(stream: Stream) -> float:
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
        found = [
            i
            for i in open_
            if (stock := prizes[i].stock) is not None
            and left > 0
            and binomial(left, prizes[i].chance / rest).below(stock) < UNLIKELY
        ]
        if not found:
            return gone, open_
        gone.append(found[0])
        open_.remove(found[0])


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
            and binomial(most, min(1.0, share / rest)).at_least(stock + 1) >= UNLIKELY
        ]
        if not found:
            return unsure
        unsure += found
