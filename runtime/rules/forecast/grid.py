"""A distribution of amounts on a grid, from its characteristic function.

It is exact if all amounts are multiples of the grid's step, and within `ERROR` if the distribution is smooth at the
size of a step. Otherwise it is smoothed, and `Grid.blur` says by how much.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add, mul, sub
from typing import Final, NamedTuple

from runtime.rules.forecast.terms import Costs

ERROR: Final = 1e-8
"""The error of a probability, from all that is cut off."""
POINTS_MAX: Final = 4096
POINTS_MIN: Final = 256
WORK_MAX: Final = 250_000
"""The points of all transforms of a distribution: some two seconds."""
_RUN: Final = 4
"""If more neighbouring amounts than this share a cell on average, adding them up run by run is faster."""
DIRECT_MAX: Final = 80
"""For so few amounts, adding them up is faster than a transform."""
_BLUR_STEPS: Final = 2.0
_MARGIN_STEPS: Final = 16
"""The steps beyond each bound: smoothing would otherwise carry an amount at one end to the other end."""


class Grid(NamedTuple):
    """Probabilities at `first`, `first + step` ... exact: the amounts are multiples of the step. blur: the standard
    deviation of the smoothing. independent: the counts of the prizes were taken as independent.
    """

    first: float
    step: float
    chances: list[float]
    exact: bool
    blur: float
    independent: bool = False


class Layout(NamedTuple):
    """The points of a grid, a power of two."""

    first: float
    step: float
    points: int
    exact: bool

    @property
    def turns(self) -> list[float]:
        """The arguments at which the characteristic function is needed. Those of the other half are conjugates."""
        return _turns(self)


@lru_cache(maxsize=16)
def _turns(layout: Layout) -> list[float]:
    return [2 * math.pi * j / (layout.points * layout.step) for j in range(layout.points // 2 + 1)]


def points_for(nodes: int, counted: Sequence[int], points_max: int) -> int:
    """The points of a grid that are affordable; 0: not even the fewest. counted: the counts of each limited prize."""
    transforms = nodes * (0.1 + sum(0.15 + min(1.0, (5 + counts) / 100) for counts in counted))
    points = points_max
    while transforms * points > WORK_MAX and points > POINTS_MIN:
        points //= 2
    return points if transforms * points <= 1.5 * WORK_MAX else 0


def layout_of(values: Sequence[float], low: float, high: float, points: int) -> Layout:
    """The grid for sums of these values between two bounds."""
    unit = _unit(values)
    if unit and (high - low) / unit < 2 * points - 2:
        points *= 2
        first = math.floor(low / unit + 1e-9) * unit
        while points // 2 >= (high - first) / unit + 2 and points > 4:
            points //= 2
        return Layout(first, unit, points, True)
    margin = min(_MARGIN_STEPS, points // 4)
    step = max(high - low, 1e-9) / (points - 2 * margin)
    return Layout(low - margin * step, step, points, False)


def finished(layout: Layout, found: list[complex], *, independent: bool = False) -> Grid:
    """The distribution with this characteristic function: E exp(-i t (sum - first)) for each of `layout.turns`."""
    points, blur = layout.points, 0.0
    if not layout.exact and not _is_smooth([abs(one) for one in found]):
        blur = _BLUR_STEPS * layout.step
        found = [one * math.exp(-0.5 * (turn * blur) ** 2) for one, turn in zip(found, layout.turns, strict=True)]
    spectrum = [one.conjugate() for one in found] + found[points // 2 - 1 : 0 : -1]
    chances = [max(0.0, one.real) for one in transformed(spectrum)]
    whole = math.fsum(chances)
    return Grid(layout.first, layout.step, [chance / whole for chance in chances], layout.exact, blur, independent)


def _is_smooth(sizes: Sequence[float]) -> bool:
    """Whether the characteristic function stays small once it is.

    That of multiples of one amount returns at each multiple of an argument. If it first does so within the grid's
    arguments, it also does in their upper half.
    """
    small = next((j for j, size in enumerate(sizes) if size <= ERROR), len(sizes))
    first = max(len(sizes) // 2, min(small, len(sizes) - 1 - len(sizes) // 8))
    return max(sizes[first:]) <= ERROR


def costs_of(grid: Grid) -> Costs:
    """The amounts of a grid, without those at its ends that do not occur."""
    kept = [m for m, chance in enumerate(grid.chances) if chance > 1e-13]
    places = range(kept[0], kept[-1] + 1)
    amounts = [round(grid.first + m * grid.step, 6) for m in places]
    return Costs(amounts, [grid.chances[m] for m in places], 0.0 if grid.exact else grid.step)


def progression(layout: Layout, value: float, first: int, weights: Sequence[complex]) -> list[complex]:
    """The transform of the amounts `value` times `first`, `first` + 1 ..., with these weights."""
    if len(weights) <= DIRECT_MAX:
        turned, found = _turned(layout, value), [0j] * layout.points
        for weight in reversed(weights):
            found = [one * turn + weight for one, turn in zip(found, turned, strict=True)]
        if not first:
            return found
        return [one * end for one, end in zip(found, _turned(layout, first * value), strict=True)]
    places, rests, runs = _places(layout, value, first, len(weights))
    cells = [0j] * (layout.points + 1)
    if len(runs) * _RUN < len(weights):
        for begin, end in runs:
            part, place = weights[begin:end], places[begin]
            beyond = sum(map(mul, part, rests[begin:end]))
            cells[place] += sum(part) - beyond
            cells[place + 1] += beyond
    elif not rests:
        for place, weight in zip(places, weights, strict=True):
            cells[place] += weight
    else:
        for place, rest, weight in zip(places, rests, weights, strict=True):
            beyond = weight * rest
            cells[place] += weight - beyond
            cells[place + 1] += beyond
    cells[0] += cells.pop()
    return transformed(cells)


class _Places(NamedTuple):
    """The cell of each amount, and the part of its weight that belongs to the next cell, so that the mean stays. No
    parts: all amounts are multiples of the step. runs: of neighbouring amounts in one cell.
    """

    cells: list[int]
    rests: list[float]
    runs: list[tuple[int, int]]


@lru_cache(maxsize=512)
def _places(layout: Layout, value: float, first: int, count: int) -> _Places:
    places = [units * value / layout.step for units in range(first, first + count)]
    cells = [math.floor(place + 1e-9) for place in places]
    rests = [max(0.0, place - cell) for place, cell in zip(places, cells, strict=True)]
    begins = [at for at in range(count) if not at or cells[at] != cells[at - 1]]
    runs = list(pairwise([*begins, count]))
    return _Places([cell % layout.points for cell in cells], rests if max(rests) > 1e-9 else [], runs)


@lru_cache(maxsize=256)
def _turned(layout: Layout, value: float) -> list[complex]:
    """exp(-i t value) for each argument, of both halves."""
    half = [cmath.exp(complex(0.0, -turn * value)) for turn in layout.turns]
    return half + [one.conjugate() for one in half[-2:0:-1]]


def _unit(values: Sequence[float]) -> float:
    """The largest amount that all values are multiples of, if they have at most four decimals; else 0."""
    scaled = [round(value * 10_000) for value in values]
    if any(abs(value * 10_000 - whole) > 1e-6 for value, whole in zip(values, scaled, strict=True)):
        return 0.0
    return math.gcd(*scaled) / 10_000 or 1.0


class _Passes(NamedTuple):
    """The passes of a transform: the roots by which each multiplies the second, third and fourth part of its results.
    places: where each amplitude is after the last pass.
    """

    roots: list[tuple[list[complex], ...]]
    places: list[int]


@lru_cache(maxsize=16)
def _passes(size: int) -> _Passes:
    roots, found, left = [], [0], size
    while left >= 4:
        turns = [-2 * math.pi * (i * left // size) / left for i in range(size // 4)]
        roots.append(tuple([cmath.exp(complex(0.0, part * turn)) for turn in turns] for part in (1, 2, 3)))
        found = [one + size // left * part for one in found for part in range(4)]
        left //= 4
    if left == 2:
        found = [one + size // 2 * part for one in found for part in range(2)]
    return _Passes(roots, sorted(range(size), key=found.__getitem__))


def transformed(values: list[complex]) -> list[complex]:
    """The discrete Fourier transform: sum of v[m] exp(-2 pi i j m / size), for each j. The size is a power of two.

    Each pass has radix 4, the last one has radix 2 if need be; `map` keeps the loops out of the interpreter.
    """
    size, (roots, places) = len(values), _passes(len(values))
    for second, third, fourth in roots:
        a, b, c, d = (values[part * size // 4 : (part + 1) * size // 4] for part in range(4))
        even, odd, more, less = list(map(add, a, c)), list(map(sub, a, c)), list(map(add, b, d)), list(map(sub, b, d))
        less, values = [one * -1j for one in less], [0j] * size
        values[0::4] = map(add, even, more)
        values[1::4] = map(mul, map(add, odd, less), second)
        values[2::4] = map(mul, map(sub, even, more), third)
        values[3::4] = map(mul, map(sub, odd, less), fourth)
    if size.bit_length() % 2 == 0:
        a, b, values = values[: size // 2], values[size // 2 :], [0j] * size
        values[0::2], values[1::2] = map(add, a, b), map(sub, a, b)
    return [values[place] for place in places]
