"""How often something with a fixed chance happens in n plays: the binomial distribution, and the Poisson one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, count, repeat
from operator import mul, truediv
from typing import Final

_LARGE: Final = 1_000.0
_NEGLIGIBLE: Final = 1e-16
"""A probability relative to the most likely count, below which a count is left out."""


class Counts:
    """A distribution of counts: `first`, and the probability of each count from there. The rest is negligible."""

    __slots__ = ("_sums", "first", "weights")

    def __init__(self, first: int, weights: Sequence[float]) -> None:
        total = math.fsum(weights)
        self.first = first
        self.weights = [weight / total for weight in weights]
        self._sums = [0.0, *accumulate(self.weights)]

    @property
    def mean(self) -> float:
        return self.first + math.fsum(map(mul, self.weights, range(len(self.weights))))

    @property
    def last(self) -> int:
        return self.first + len(self.weights) - 1

    def below(self, count: int) -> float:
        """P(C < count)."""
        return self._sums[min(max(0, count - self.first), len(self.weights))]

    def at_least(self, count: int) -> float:
        """P(C >= count)."""
        index = min(max(0, count - self.first), len(self.weights))
        # The smaller half is summed on its own, since 1 - x loses the digits of a small result.
        return 1.0 - self._sums[index] if self._sums[index] < 0.5 else math.fsum(self.weights[index:])

    def up_to(self, most: int | None) -> float:
        """E min(C, most)."""
        if most is None or most >= self.last:
            return self.mean
        if most <= self.first:
            return float(most)
        return math.fsum(map(mul, self.weights, range(self.first, most))) + most * self.at_least(most)

    def variance_up_to(self, most: int) -> float:
        """The variance of min(C, most)."""
        mean = self.up_to(most)
        inside = enumerate(self.weights[: max(0, most - self.first)], self.first)
        return (
            math.fsum(weight * (count - mean) ** 2 for count, weight in inside)
            + self.at_least(most) * (most - mean) ** 2
        )

    def capped(self, most: int) -> Counts:
        """The distribution of min(C, most)."""
        if most >= self.last:
            return self
        return Counts(min(self.first, most), [*self.weights[: max(0, most - self.first)], self.at_least(most)])

    def quantile(self, share: float) -> int:
        """The least count with P(C <= count) >= share."""
        return self.first + bisect_left(self._sums, share - 1e-12, 1, len(self._sums) - 1) - 1


@lru_cache(maxsize=256)
def binomial(n: int, chance: float) -> Counts:
    """The count in n independent plays."""
    if chance <= 0.0 or n == 0:
        return Counts(0, [1.0])
    if chance >= 1.0:
        return Counts(n, [1.0])
    odds = chance / (1.0 - chance)
    mode = min(n, int((n + 1) * chance))
    above = map(truediv, range(n - mode, 0, -1), count(mode + 1))
    below = map(truediv, count(n - mode + 1), range(mode, 0, -1))
    return _around(mode, map(mul, above, repeat(odds)), map(mul, below, repeat(odds)))


def drawn_below(plays: int, chance: float, count: int) -> float:
    """The probability of fewer draws."""
    return float(plays * chance < count) if _is_far(plays * chance, count) else binomial(plays, chance).below(count)


def drawn_beyond(plays: int, chance: float, stock: int) -> float:
    """The expected draws beyond a stock."""
    mean = plays * chance
    return max(0.0, mean - stock) if _is_far(mean, stock) else mean - binomial(plays, chance).up_to(stock)


def _is_far(mean: float, count: int) -> bool:
    """Whether draws with this mean are on one side of a count, but for a negligible probability."""
    return abs(mean - count) > 9.0 * math.sqrt(mean) + 20.0


def poisson(mean: float) -> Counts:
    """The count with this mean, if there is no limit to the plays."""
    if mean <= 0:
        return Counts(0, [1.0])
    mode = int(mean)
    return _around(mode, map(truediv, repeat(mean), count(mode + 1)), map(truediv, repeat(mean), range(mode, 0, -1)))


def poisson_up_to(mean: float, most: int) -> tuple[float, float]:
    """E min(C, most) and P(C < most) of a Poisson count; of a large one by the normal distribution."""
    if mean < _LARGE:
        count = poisson(mean)
        return count.up_to(most), count.below(most)
    spread = math.sqrt(mean)
    ahead = (most - mean) / spread
    below = 0.5 * math.erfc(-ahead / math.sqrt(2.0))
    beyond = spread * math.exp(-0.5 * ahead**2) / math.sqrt(2.0 * math.pi) - (most - mean) * (1.0 - below)
    return mean - max(0.0, beyond), below


def _around(mode: int, above: Iterable[float], below: Iterable[float]) -> Counts:
    """The counts around the most likely one. above, below: P(c + 1) / P(c) from it upwards, and from the count before
    it downwards.
    """
    upper, lower = _falling(accumulate(above, mul, initial=1.0)), _falling(accumulate(below, truediv, initial=1.0))
    return Counts(mode - len(lower) + 1, lower[:0:-1] + upper)


def _falling(weights: Iterable[float]) -> list[float]:
    """The weights up to the first that is negligible."""
    found = []
    for weight in weights:
        found.append(weight)
        if weight <= _NEGLIGIBLE:
            break
    return found
