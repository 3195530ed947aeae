"""How often something with a fixed chance happens in n plays: the binomial distribution, and the Poisson one."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

_NEGLIGIBLE: Final = 1e-16
"""A probability relative to the most likely count, below which a count is left out."""


class Counts:
    """A distribution of counts: `first`, and the probability of each count from there. The rest is negligible."""

    __slots__ = ("_sums", "first", "mean", "weights")

    def __init__(self, first: int, weights: Sequence[float]) -> None:
        total = math.fsum(weights)
        self.first = first
        self.weights = [weight / total for weight in weights]
        self._sums = [0.0, *accumulate(self.weights)]
        self.mean = first + math.fsum(i * weight for i, weight in enumerate(self.weights))

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
        inside = enumerate(self.weights[: most - self.first], self.first)
        return math.fsum(count * weight for count, weight in inside) + most * self.at_least(most)

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
    return _around(mode, lambda c: (n - c) / (c + 1) * odds, n)


def poisson(mean: float) -> Counts:
    """The count with this mean, if there is no limit to the plays."""
    return _around(int(mean), lambda c: mean / (c + 1), None) if mean > 0 else Counts(0, [1.0])


def _around(mode: int, ratio: Callable[[int], float], most: int | None) -> Counts:
    """The counts around the most likely one. ratio(c): P(c + 1) / P(c)."""
    upper, weight, count = [1.0], 1.0, mode
    while weight > _NEGLIGIBLE and count != most:
        weight *= ratio(count)
        count += 1
        upper.append(weight)
    lower, weight, count = [], 1.0, mode
    while weight > _NEGLIGIBLE and count > 0:
        count -= 1
        weight /= ratio(count)
        lower.append(weight)
    return Counts(count, lower[::-1] + upper)
