"""A sum over n plays, each of which falls into one category."""

from __future__ import annotations

import cmath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runtime.rules.forecast.counts import Counts


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


def mean_turn(parts: Sequence[Steady], turn: float) -> complex:
    """The characteristic function of one play of these categories, times their chance."""
    whole = 0j
    for part in parts:
        whole += part.chance * cmath.exp(complex(0.0, -turn * part.value))
    return whole
