"""The distribution of a sum over n plays, such as their cost.

Each play falls into one category. A `Steady` category adds the same amount each time. A `Bent` one models a limited
stock: it adds one amount up to a limit, and another amount or nothing beyond it. Some categories also count towards the
fallback prize, which adds to the sum up to its own limit.

The counts of the categories add up to n, so they depend on each other. They equal independent Poisson counts under the
condition that their total is n. The condition is an integral over an angle, and so is the count of the fallback prize.
The trapezoidal rule computes both: for periodic functions its error falls faster than any power of the number of nodes.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from runtime.rules.forecast.counts import Counts, poisson
from runtime.rules.forecast.grid import POINTS_MAX, Grid, Layout, costs_of, finished, layout_of, points_for, progression
from runtime.rules.forecast.terms import Costs

TAIL: Final = -math.log(1e-10)
"""-log of the probability that a grid leaves out, and of the terms that an integral leaves out."""
NEGLIGIBLE: Final = 30.0
_OVERFLOW: Final = 600.0
_LEAST: Final = 1e-300


class Steady(NamedTuple):
    """Adds `value` for each play of the category. aside: whether these plays are counted aside."""

    chance: float
    value: float
    aside: bool = False


class Bent(NamedTuple):
    """Adds `value` for each of the first `limit` plays of the category, and `after` for each later one. The later ones
    are counted aside, if the sum has such a count.
    """

    chance: float
    value: float
    limit: int
    after: float = 0.0

    def at(self, count: float) -> float:
        return self.value * min(count, self.limit) + self.after * max(0, count - self.limit)


class Aside(NamedTuple):
    """Adds `value` for each of the first `limit` plays that are counted aside."""

    value: float
    limit: int


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of `plays` plays and `shift`. The chances add up to 1.

    fewer: so many plays that are not lost add nothing; `won`: what such a play adds otherwise. apart: independent
    counts, each with the amount that a unit adds.
    """

    plays: int
    steady: tuple[Steady, ...]
    bent: tuple[Bent, ...] = ()
    shift: float = 0.0
    aside: Aside | None = None
    won: tuple[Steady, ...] = ()
    fewer: int = 0
    apart: tuple[tuple[float, Counts], ...] = ()

    @property
    def values(self) -> list[float]:
        found = [self.shift, *(steady.value for steady in (*self.steady, *self.won))]
        found += [value for bent in self.bent for value in (bent.value, bent.after)]
        found += [value for value, _ in self.apart]
        return found if self.aside is None else [*found, self.aside.value]


class Node(NamedTuple):
    """Angles of the two integrals. paired: the node of both negated is another one."""

    total: float
    aside: float
    paired: bool


class Centred(NamedTuple):
    """A sum with amounts around 0. turning: how much more a play that is counted aside adds. astray: how far from 0 the
    integrand of some argument has its peak.
    """

    total: Sum
    turning: float = 0.0
    astray: float = 0.0


class Plan(NamedTuple):
    """The grid and the nodes of a distribution."""

    layout: Layout
    centred: Centred
    nodes: list[Node]


def distribution(total: Sum, *, points_max: int = POINTS_MAX) -> Grid | None:
    """The distribution of the sum. None: with a count aside it would take too long."""
    counts = [poisson(total.plays * bent.chance) for bent in total.bent]
    low, high = range_of(total, counts)
    low += math.fsum(value * counts.first for value, counts in total.apart)
    high += math.fsum(value * counts.last for value, counts in total.apart)
    window = (0, 0) if total.aside is None else _aside_window(total, counts)
    plan = _planned(total, [len(count.weights) for count in counts], window, (low, high), points_max)
    independent = plan is None
    if plan is None:
        if total.aside is not None:
            return None
        plan = Plan(layout_of(total.values, low, high, points_max // 2), Centred(total), [Node(0.0, 0.0, False)])
    layout, (total, turning, _), nodes = plan
    turns = layout.turns
    # As logarithms: what `fewer` plays take away may be too large for a float before the other plays are counted.
    common = [complex(0.0, turn * (layout.first - total.shift)) for turn in turns]
    if total.fewer:
        common = [
            one - total.fewer * cmath.log(mean_turn(total.won, turn) or _LEAST)
            for one, turn in zip(common, turns, strict=True)
        ]
    plain, aside = (
        [mean_turn([one for one in total.steady if one.aside is side], t) for t in turns] for side in (False, True)
    )
    if not total.bent and total.aside is None:
        logs = (one + total.plays * cmath.log(whole or _LEAST) for one, whole in zip(common, plain, strict=True))
        return finished(layout, _with(total.apart, layout, [_bounded(_exp(log)) for log in logs]))
    found = [0j] * len(turns)
    bare = plain[0].real + aside[0].real
    for node in nodes:
        spectra = [_spectrum(layout, bent, count, node) for bent, count in zip(total.bent, counts, strict=True)]
        for sign in (1, -1) if node.paired else (1,):
            turned, turned_aside = (cmath.exp(complex(0.0, sign * x)) for x in (node.total, node.total + node.aside))
            fixed = total.plays * complex(-bare, -sign * node.total)
            for j, turn in enumerate(turns):
                steady = turned * plain[j] + turned_aside * aside[j]
                if independent:
                    inner = steady / bare if bare else 0j
                    product = _exp(total.plays * bare * cmath.log(inner or _LEAST) + common[j])
                else:
                    product = _exp(total.plays * steady + fixed + common[j])
                if abs(product) < 1e-14:
                    continue
                if total.aside is not None:
                    product *= _aside_weight(total.aside, turn, sign * node.aside + turn * turning, window)
                for one in spectra:
                    product *= one[j] if sign > 0 else one[-j].conjugate()
                found[j] += product
    whole = found[0].real
    found = _with(total.apart, layout, [_bounded(one / whole) for one in found])
    return finished(layout, found, independent=independent)


def _planned(
    total: Sum, counted: Sequence[int], window: tuple[int, int], bounds: tuple[float, float], points_max: int
) -> Plan | None:
    """The plan with the most points that are affordable. None: not even the fewest are. counted: as in `points_for`."""
    points, asides = points_max, window[1] - window[0] + 1
    while points:
        layout = layout_of(total.values, *bounds, points)
        centred, nodes = _centred(total, layout), [Node(0.0, 0.0, False)]
        if total.bent or total.aside is not None:
            nodes = list(_nodes(total, asides, centred.astray))
        affordable = points_for(len(nodes), counted, points)
        if affordable == points:
            return Plan(layout, centred, nodes)
        points = affordable
    return None


def _with(apart: Iterable[tuple[float, Counts]], layout: Layout, found: list[complex]) -> list[complex]:
    """The characteristic function of the sum with independent counts."""
    for value, counts in apart:
        spectrum = progression(layout, value, counts.first, counts.weights)
        found = [one * more for one, more in zip(found, spectrum, strict=False)]
    return found


def totals(units: Mapping[int, float], plays: int, points_max: int = 1024) -> Costs:
    """The distribution of the units of all plays. units: that of a play."""
    steady = tuple(Steady(chance, float(count)) for count, chance in units.items())
    grid = distribution(Sum(plays, steady), points_max=points_max)
    assert grid is not None, "only a count aside may take too long"
    return costs_of(grid)


def shared(plays: int, wins: float, taken: int, share: float) -> Costs:
    """The distribution of a share of the wins of all plays without the first ones that are taken. wins: per play."""
    steady = (Steady(wins * share, 1.0), Steady(max(0.0, 1.0 - wins * share), 0.0))
    won = (Steady(share, 1.0), Steady(1.0 - share, 0.0))
    grid = distribution(Sum(plays, steady, won=won, fewer=taken), points_max=512)
    assert grid is not None, "only a count aside may take too long"
    return costs_of(grid)


def _exp(log: complex) -> complex:
    return cmath.exp(log) if log.real < _OVERFLOW else 0j


def _bounded(one: complex) -> complex:
    """A value of a characteristic function: at most 1. A larger one comes from wins below `Sum.fewer`, which do not
    occur, and stands for a negligible one.
    """
    return one if abs(one) < 1.001 else 0j


def mean_turn(parts: Sequence[Steady], turn: float) -> complex:
    """The characteristic function of one play of these categories, times their chance."""
    whole = 0j
    for part in parts:
        whole += part.chance * cmath.exp(complex(0.0, -turn * part.value))
    return whole


def _spectrum(layout: Layout, bent: Bent, counts: Counts, node: Node) -> list[complex]:
    weights = [
        weight * cmath.exp(complex(0.0, node.total * count + node.aside * max(0, count - bent.limit)))
        for count, weight in enumerate(counts.weights, counts.first)
    ]
    inside = min(max(0, bent.limit - counts.first + 1), len(weights))
    found = progression(layout, bent.value, counts.first, weights[:inside])
    if inside == len(weights):
        return found
    beyond = weights[inside:]
    full = progression(layout, bent.value, bent.limit, [1.0])
    if bent.after:
        rest = progression(layout, bent.after, counts.first + inside - bent.limit, beyond)
        return [one + end * more for one, end, more in zip(found, full, rest, strict=True)]
    whole = sum(beyond)
    return [one + end * whole for one, end in zip(found, full, strict=True)]


def _centred(total: Sum, layout: Layout) -> Centred:
    """The sum with amounts around 0, so that the integrand is negligible except around angles of 0.

    All n plays add the centre (`centre_of`), which is a shift.
    """
    (plain, far), (aside, far_aside) = (
        centre_of([one for one in total.steady if one.aside is side], layout, total.plays, NEGLIGIBLE)
        for side in (False, True)
    )
    aside = plain if total.aside is None else aside
    steady = tuple(one._replace(value=one.value - (aside if one.aside else plain)) for one in total.steady)
    bent = tuple(one._replace(value=one.value - plain, after=one.after - aside) for one in total.bent)
    shift = total.shift + total.plays * plain
    return Centred(replace(total, steady=steady, bent=bent, shift=shift), aside - plain, far + far_aside)


def centre_of(parts: Sequence[Steady], layout: Layout, plays: float, negligible: float) -> tuple[float, float]:
    """The amount around which these categories are taken, and how far from an angle of 0 the integrand then peaks.

    It is the mean or the likeliest amount. If amounts are multiples of one, the integrand also peaks at arguments at
    which they turn by whole circles. On an exact grid it is a multiple of the step.
    """
    chance = math.fsum(one.chance for one in parts)
    if not chance:
        return 0.0, 0.0
    mean = math.fsum(one.chance * one.value for one in parts) / chance
    mean = round(mean / layout.step) * layout.step if layout.exact else mean
    found = ((turn, mean_turn(parts, turn)) for turn in layout.turns)
    # At other arguments, the integrand is negligible at all angles.
    peaks = [(turn, cmath.phase(one)) for turn, one in found if plays * (chance - abs(one)) < negligible]
    far, centre = min(
        (max(abs(math.remainder(phase + turn * centre, 2 * math.pi)) for turn, phase in peaks), centre)
        for centre in (mean, max(parts).value)
    )
    return centre, far


def _aside_weight(aside: Aside, turn: float, angle: float, window: tuple[int, int]) -> complex:
    """The Fourier coefficient of exp(-i turn value min(count, limit)) over the counts of the window."""
    low, high = window
    limit = min(max(aside.limit, low - 1), high)
    inside = _geometric(-(turn * aside.value + angle), low, limit)
    return inside + cmath.exp(complex(0.0, -turn * aside.value * aside.limit)) * _geometric(-angle, limit + 1, high)


def _geometric(angle: float, low: int, high: int) -> complex:
    """The sum of exp(i angle k) for k from low to high."""
    count = high - low + 1
    if count <= 0:
        return 0j
    half = math.remainder(angle, 2 * math.pi) / 2
    ratio = float(count) if abs(half) < 1e-12 else math.sin(count * half) / math.sin(half)
    return ratio * cmath.exp(complex(0.0, angle * low + half * (count - 1)))


def _nodes(total: Sum, asides: int, astray: float) -> Iterator[Node]:
    """The nodes at which the integrand is not negligible, one of each pair. asides: the counts aside in question.
    astray: how far from 0 its peaks may be.
    """
    plain = math.fsum(steady.chance for steady in total.steady if not steady.aside)
    aside = math.fsum(steady.chance for steady in total.steady if steady.aside)
    period = math.ceil(7.0 * math.sqrt(total.plays)) + 40
    step, most = angles(period, total.plays * (plain + aside), astray=astray)
    spread = total.plays * plain * aside / max(plain + aside, 1e-300)
    side, sides = angles(asides, spread, astray=astray) if asides > 1 else (0.0, 0)
    for b in range(sides + 1):
        # The counts aside turn the rest along, so the nodes of the total follow.
        centre = -b * side * aside / max(plain + aside, 1e-300)
        for a in range(-most if b else 0, most + 1):
            yield Node(centre + a * step, b * side, bool(a or b))


def angles(period: int, variance: float, negligible: float = NEGLIGIBLE, *, astray: float = 0.0) -> tuple[float, int]:
    """The distance of the nodes of an integral over a period, and how many from 0 up are not negligible.

    variance: of the count in question, which makes the integrand fall. negligible: the logarithm of the fall. astray:
    how far from 0 it begins to fall.
    """
    period += 1 - period % 2  # An odd period has no node at pi, which would be its own pair.
    cosine = 1.0 - negligible / variance if variance > 0 else -1.0
    widest = astray + (math.acos(cosine) if cosine > -1.0 else math.pi)
    return 2 * math.pi / period, min(math.ceil(widest * period / (2 * math.pi)), (period - 1) // 2)


# -- bounds -------------------------------------------------------------------------------------


def range_of(total: Sum, counts: Sequence[Counts]) -> tuple[float, float]:
    """Bounds outside of which the sum lies with a negligible probability."""
    low, high = _chernoff(total, counts)
    if total.aside is None:
        return low, high
    value, limit = total.aside
    steady = tuple(Steady(one.chance, one.value + value * one.aside) for one in total.steady)
    bent = tuple(one._replace(after=value) for one in total.bent)
    unlimited = replace(total, steady=steady, bent=bent, aside=None)
    return low, min(high + value * limit, _chernoff(unlimited, counts)[1])


def _aside_window(total: Sum, counts: Sequence[Counts]) -> tuple[int, int]:
    """Bounds of the count aside, of an odd number of counts."""
    steady = tuple(Steady(one.chance, float(one.aside)) for one in total.steady)
    bent = tuple(Bent(one.chance, 0.0, one.limit, 1.0) for one in total.bent)
    low, high = _chernoff(Sum(total.plays, steady, bent), counts)
    first, last = max(0, math.floor(low)), math.ceil(high)
    return first, last + (last - first) % 2


def _chernoff(total: Sum, counts: Sequence[Counts]) -> tuple[float, float]:
    size = max((abs(value) for value in total.values[1:]), default=0.0)
    if size == 0.0:
        return total.shift, total.shift
    return -_least_bound(total, counts, -1, size), _least_bound(total, counts, 1, size)


def _least_bound(total: Sum, counts: Sequence[Counts], sign: int, size: float) -> float:
    """The least of the bounds, which fall up to some tilt and rise after it."""
    low, high = -60, 12
    while low < high:
        middle = (low + high) // 2
        here, ahead = (_bound(total, counts, sign, math.exp(x / 3) / size) for x in (middle, middle + 1))
        low, high = (low, middle) if here <= ahead else (middle + 1, high)
    return _bound(total, counts, sign, math.exp(low / 3) / size)


def _bound(total: Sum, counts: Sequence[Counts], sign: int, tilt: float) -> float:
    """The bound of the sum, or of its negative, that this tilt gives."""
    tilt *= sign
    log = total.shift * tilt + TAIL
    bent_chance = math.fsum(bent.chance for bent in total.bent)
    steady = math.fsum(part.chance * math.exp(min(700.0, tilt * part.value)) for part in total.steady)
    log += total.plays * math.log(steady + bent_chance)
    # The counts of a multinomial distribution are negatively associated, so independent ones give an upper bound.
    for bent, count in zip(total.bent, counts, strict=True):
        log += _log_moment(bent, count, tilt)
    log -= total.fewer * tilt * math.fsum(part.chance * part.value for part in total.won)
    return log / abs(tilt)


def _log_moment(bent: Bent, counts: Counts, tilt: float) -> float:
    """An upper bound of log E exp(tilt amount): neighbouring counts share the largest of their amounts."""
    stride = max(1, len(counts.weights) // 64)
    parts = []
    for at in range(0, len(counts.weights), stride):
        first = counts.first + at
        last = min(first + stride - 1, counts.last)
        weight = math.fsum(counts.weights[at : at + stride])
        if weight > 0:
            ends = (first, last, min(max(bent.limit, first), last))
            parts.append(math.log(weight) + max(tilt * bent.at(end) for end in ends))
    most = max(parts)
    return most + math.log(math.fsum(math.exp(part - most) for part in parts))
