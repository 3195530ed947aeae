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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, repeat
from operator import add, mul
from typing import Final, NamedTuple

from runtime.rules.forecast.bounds import aside_window, range_of
from runtime.rules.forecast.counts import Counts, poisson
from runtime.rules.forecast.grid import POINTS_MAX, Grid, Layout, costs_of, finished, layout_of, points_for, progression
from runtime.rules.forecast.sums import Aside, Bent, Steady, Sum, mean_turn
from runtime.rules.forecast.terms import Costs

NEGLIGIBLE: Final = 30.0
_OVERFLOW: Final = 600.0
FALL: Final = 40.0
"""-log of the largest negligible value of a characteristic function."""
_LEAST: Final = 1e-300
_SMALLEST: Final = math.log(1e-14)


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
    window = (0, 0) if total.aside is None else aside_window(total, counts)
    plan = _planned(total, [len(count.weights) for count in counts], window, (low, high), points_max)
    independent = plan is None
    if plan is None:
        if total.aside is not None:
            return None
        plan = Plan(layout_of(total.values, low, high, points_max // 2), Centred(total), [Node(0.0, 0.0, False)])
    layout, (total, turning, _), nodes = plan
    if not total.bent and total.aside is None and not total.fewer:
        return finished(layout, _with(total.apart, layout, _powers(total, layout)))
    turns = layout.turns
    # As logarithms: what `fewer` plays take away may be too large for a float before the other plays are counted.
    common = [complex(0.0, turn * (layout.first - total.shift)) for turn in turns]
    if total.fewer:
        common = [
            one - total.fewer * cmath.log(mean_turn(total.won, turn) or _LEAST)
            for one, turn in zip(common, turns, strict=True)
        ]
    sides = [[one for one in total.steady if one.aside is side] for side in (False, True)]
    plain, aside = ([mean_turn(parts, turn) for turn in turns] for parts in sides)
    if not total.bent and total.aside is None:
        logs = (one + total.plays * cmath.log(whole or _LEAST) for one, whole in zip(common, plain, strict=True))
        return finished(layout, _with(total.apart, layout, [_bounded(_exp(log)) for log in logs]))
    found = [0j] * len(turns)
    for node in nodes:
        signs = (1, -1) if node.paired else (1,)
        kept = {sign: _products(total, (plain, aside), common, node, sign, independent=independent) for sign in signs}
        if not any(kept.values()):
            continue
        spectra = [_spectrum(layout, bent, count, node) for bent, count in zip(total.bent, counts, strict=True)]
        for sign, products in kept.items():
            for j, product in products:
                if total.aside is not None:
                    product *= _aside_weight(total.aside, turns[j], sign * node.aside + turns[j] * turning, window)
                for one in spectra:
                    product *= one[j] if sign > 0 else one[-j].conjugate()
                found[j] += product
    whole = found[0].real
    found = _with(total.apart, layout, [_bounded(one / whole) for one in found])
    return finished(layout, found, independent=independent)


def _products(
    total: Sum,
    steady: tuple[Sequence[complex], Sequence[complex]],
    common: Sequence[complex],
    node: Node,
    sign: int,
    *,
    independent: bool,
) -> list[tuple[int, complex]]:
    """What the steady categories contribute at a node, or at the negated one: (index of the argument, product)."""
    turned = [cmath.exp(complex(0.0, sign * angle)) for angle in (node.total, node.total + node.aside)]
    bare = steady[0][0].real + steady[1][0].real
    sums = [turned[0] * plain + turned[1] * aside for plain, aside in zip(*steady, strict=True)]
    if not independent:
        fixed = complex(-bare, -sign * node.total)
        logs = [total.plays * (one + fixed) for one in sums]
    else:
        logs = [total.plays * bare * cmath.log(one / bare or _LEAST) if bare else 0j for one in sums]
    kept = enumerate(map(add, logs, common))
    return [(j, cmath.exp(log)) for j, log in kept if _SMALLEST < log.real < _OVERFLOW]


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


def significant(
    turns: Sequence[float], plays: float, deviation: float, one: Callable[[float], complex], fall: float = FALL
) -> Iterator[tuple[int, float, complex]]:
    """The arguments at which the characteristic function of all plays is not negligible, with that of one play.

    Yields (index, argument, value). one: the function of one play, whose amount has at most this standard deviation.
    fall: as `FALL`.
    """
    at, least = 0, math.sqrt(-math.expm1(-2 * fall / plays))
    while at < len(turns):
        play = one(turns[at])
        size = min(1.0, abs(play))
        if plays * math.log(size or _LEAST) > -fall:
            yield at, turns[at], play
        # sqrt(1 - |play|^2) is a distance: over an argument it grows by at most the argument times the deviation.
        beyond = 0.99 * (math.sqrt(1.0 - size**2) - least)
        at += 1 + max(0, int(min(len(turns), beyond / max(_LEAST, deviation * turns[1]))))


def _deviation(parts: Sequence[Steady], chance: float) -> float:
    """The standard deviation of the amount of a play of these categories."""
    mean = math.fsum(part.chance * part.value for part in parts) / chance
    return math.sqrt(math.fsum(part.chance * (part.value - mean) ** 2 for part in parts) / chance)


def _powers(total: Sum, layout: Layout) -> list[complex]:
    """The characteristic function of a sum of steady amounts."""
    found, deviation = [0j] * len(layout.turns), _deviation(total.steady, 1.0)
    for j, turn, play in significant(layout.turns, total.plays, deviation, partial(mean_turn, total.steady)):
        found[j] = cmath.exp(complex(0.0, turn * (layout.first - total.shift)) + total.plays * cmath.log(play))
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


def _spectrum(layout: Layout, bent: Bent, counts: Counts, node: Node) -> list[complex]:
    inside = min(max(0, bent.limit - counts.first + 1), len(counts.weights))
    weights = phased(counts.weights[:inside], node.total, counts.first)
    found = progression(layout, bent.value, counts.first, weights)
    if inside == len(counts.weights):
        return found
    first = counts.first + inside
    beyond = phased(counts.weights[inside:], node.total + node.aside, first)
    if node.aside:
        back = cmath.exp(complex(0.0, -node.aside * bent.limit))
        beyond = [one * back for one in beyond]
    full = progression(layout, bent.value, bent.limit, [1.0])
    if bent.after:
        rest = progression(layout, bent.after, first - bent.limit, beyond)
        return [one + end * more for one, end, more in zip(found, full, rest, strict=True)]
    whole = sum(beyond)
    return [one + end * whole for one, end in zip(found, full, strict=True)]


def phased(weights: Sequence[float], angle: float, first: int) -> list[complex]:
    """The weights times exp(i angle count), for each count from the first on."""
    powers = accumulate(repeat(cmath.exp(complex(0.0, angle))), mul, initial=cmath.exp(complex(0.0, angle * first)))
    return list(map(mul, weights, powers))


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
    count, deviation = plays * chance, _deviation(parts, chance)
    fall = -count * math.log1p(-negligible / count) if count > negligible else math.inf
    found = significant(layout.turns, count, deviation, lambda turn: mean_turn(parts, turn) / chance, fall)
    # At other arguments, the integrand is negligible at all angles.
    peaks = [(turn, cmath.phase(one)) for _, turn, one in found if count * (1.0 - abs(one)) < negligible]
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
