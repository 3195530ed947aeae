"""A test of declared odds that stays valid however often its result is looked at.

For each result, the plays are compared with a mixture of chances around the declared one. If the declared chance holds,
the mixture's likelihood ratio exceeds 1 / alpha at any time with a probability of at most alpha (Ville's inequality).
An ordinary 99.9 % range has one false alarm in a thousand looks; this one has one in 10,000 games, for ever.
"""

from __future__ import annotations

import math
from typing import Final

ALPHA: Final = 1e-4
"""The probability that a game with true odds is ever reported."""

CONCENTRATION: Final = 1_000.0
"""How close the mixture is to the declared chance. Any value is valid; this one finds 0.09 for 0.10 in 60,000 plays."""


def log_ratio(count: int, plays: int, chance: float) -> float:
    """The logarithm of the mixture's likelihood ratio. chance: between 0 and 1, both excluded."""
    hits, misses = max(0.5, CONCENTRATION * chance), max(0.5, CONCENTRATION * (1.0 - chance))
    mixture = _log_beta(hits + count, misses + plays - count) - _log_beta(hits, misses)
    return mixture - count * math.log(chance) - (plays - count) * math.log1p(-chance)


def expected_range(plays: int, chance: float, results: int) -> tuple[int, int]:
    """The least and the greatest count that is compatible with the chance. results: how many a play may have."""
    if chance in (0.0, 1.0):
        return int(plays * chance), int(plays * chance)
    limit, middle = math.log(results / ALPHA), round(plays * chance)
    return _edge(0, middle, plays, chance, limit), _edge(plays, middle, plays, chance, limit)


def _edge(outer: int, inner: int, plays: int, chance: float, limit: float) -> int:
    """The count nearest to `outer` within the limit. The ratio grows away from the expected count, `inner`."""
    if log_ratio(outer, plays, chance) < limit:
        return outer
    while abs(outer - inner) > 1:
        middle = (outer + inner) // 2
        if log_ratio(middle, plays, chance) < limit:
            inner = middle
        else:
            outer = middle
    return inner


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
