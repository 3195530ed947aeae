"""Bounds of a sum over n plays (Chernoff), outside of which it lies with a negligible probability."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from runtime.rules.forecast.counts import Counts
from runtime.rules.forecast.sums import Bent, Steady, Sum

TAIL: Final = -math.log(1e-10)
"""-log of the probability that a grid leaves out, and of the terms that an integral leaves out."""


def range_of(total: Sum, counts: Sequence[Counts], tail: float = TAIL) -> tuple[float, float]:
    """Bounds outside of which the sum lies with a negligible probability. tail: -log of it."""
    low, high = _chernoff(total, counts, tail)
    if total.aside is None:
        return low, high
    value, limit = total.aside
    steady = tuple(Steady(one.chance, one.value + value * one.aside) for one in total.steady)
    bent = tuple(one._replace(after=value) for one in total.bent)
    unlimited = replace(total, steady=steady, bent=bent, aside=None)
    return low, min(high + value * limit, _chernoff(unlimited, counts, tail)[1])


def aside_window(total: Sum, counts: Sequence[Counts]) -> tuple[int, int]:
    """Bounds of the count aside, of an odd number of counts."""
    steady = tuple(Steady(one.chance, float(one.aside)) for one in total.steady)
    bent = tuple(Bent(one.chance, 0.0, one.limit, 1.0) for one in total.bent)
    low, high = _chernoff(Sum(total.plays, steady, bent), counts, TAIL)
    first, last = max(0, math.floor(low)), math.ceil(high)
    return first, last + (last - first) % 2


def _chernoff(total: Sum, counts: Sequence[Counts], tail: float) -> tuple[float, float]:
    size = max((abs(value) for value in total.values[1:]), default=0.0)
    if size == 0.0:
        return total.shift, total.shift
    groups = [_grouped(bent, count) for bent, count in zip(total.bent, counts, strict=True)]

    def least(sign: int) -> float:
        return _least(lambda tilt: _bound(total, groups, tail, sign * tilt / size))

    return -least(-1), least(1)


class _Groups(NamedTuple):
    """Neighbouring counts of a limited prize together: the logarithms of their weights, and their amounts' bounds."""

    logs: list[float]
    least: list[float]
    most: list[float]


def _grouped(bent: Bent, counts: Counts) -> _Groups:
    stride, found = max(1, len(counts.weights) // 64), _Groups([], [], [])
    for at in range(0, len(counts.weights), stride):
        first = counts.first + at
        last = min(first + stride - 1, counts.last)
        weight = math.fsum(counts.weights[at : at + stride])
        if weight > 0:
            amounts = [bent.at(end) for end in (first, last, min(max(bent.limit, first), last))]
            found.logs.append(math.log(weight))
            found.least.append(min(amounts))
            found.most.append(max(amounts))
    return found


def _least(bound: Callable[[float], float]) -> float:
    """The least of the bounds, which fall up to some tilt and rise after it."""
    low, high = -60, 12
    while low < high:
        middle = (low + high) // 2
        here, ahead = (bound(math.exp(x / 3)) for x in (middle, middle + 1))
        low, high = (low, middle) if here <= ahead else (middle + 1, high)
    return bound(math.exp(low / 3))


def _bound(total: Sum, groups: Sequence[_Groups], tail: float, tilt: float) -> float:
    """The bound of the sum, or with a negative tilt of its negative, that this tilt gives."""
    log = total.shift * tilt + tail
    bent_chance = math.fsum(bent.chance for bent in total.bent)
    steady = math.fsum(part.chance * math.exp(min(700.0, tilt * part.value)) for part in total.steady)
    log += total.plays * math.log(steady + bent_chance)
    # The counts of a multinomial distribution are negatively associated, so independent ones give an upper bound.
    for logs, least, most in groups:
        parts = [weight + tilt * amount for weight, amount in zip(logs, most if tilt > 0 else least, strict=True)]
        highest = max(parts)
        log += highest + math.log(math.fsum([math.exp(part - highest) for part in parts]))
    log -= total.fewer * tilt * math.fsum(part.chance * part.value for part in total.won)
    return log / abs(tilt)
