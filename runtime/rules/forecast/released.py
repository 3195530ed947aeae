"""Prizes whose units a schedule frees over time, where a draw that finds none costs nothing.

The free units of a prize are a queue: a release adds to it, and each play takes one with the prize's chance. What plays
get is what was freed without what is left in the end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from math import fsum
from typing import Final

from runtime.rules.forecast.counts import Counts, binomial
from runtime.rules.forecast.terms import GameTerms, PrizeTerms

STEPS_MAX: Final = 8_000_000
"""The most products of two probabilities, for all prizes: about half a second."""
_NEGLIGIBLE: Final = 1e-14


@dataclass(slots=True)
class Released:
    """What plays take of one prize. free: the probability that a unit is free at a play, by its number. run_out_at: the
    expected number of the play that takes the last unit of the stock, if one does; 0: none does.
    """

    given: Counts
    free: dict[int, float] = field(default_factory=dict)
    run_out_at: float = 0.0


def released(game: GameTerms, shown: Collection[int], steps: int = STEPS_MAX) -> dict[int, Released]:
    """The prizes with a release, by index. Empty: there are none, or they cannot be followed in so many steps.

    shown: the plays at which `free` is asked.
    """
    prizes = {i: prize for i, prize in enumerate(game.prizes) if prize.freed and prize.chance}
    caps = any(game.is_capped(i) or prize.per_day for i, prize in enumerate(game.prizes))
    own = None if game.instead is None else game.prizes[game.instead]
    costs = own is not None and (own.value != 0.0 or own.stock is not None or own.freed)
    if game.wins_several or game.on_unavailable == "redraw" or costs or caps:
        return {}
    found = {}
    for i, prize in prizes.items():
        steps, found[i] = _followed(prize, game.plays, shown, steps)
        if steps < 0:
            return {}
    return found


def _followed(prize: PrizeTerms, plays: int, shown: Collection[int], steps: int) -> tuple[int, Released]:
    """What plays take, and how many steps are left. Below 0: it would take too long."""
    units = {since: total if prize.stock is None else min(total, prize.stock) for since, total in prize.freed}
    queue, first, freed, now = [1.0], 0, 0, 0
    result = Released(Counts(0, [1.0]))
    for time in sorted({*(since for since in units if since < plays), *(play - 1 for play in shown), plays}):
        if time > now:
            wanted = binomial(time - now, prize.chance)
            steps -= len(queue) * len(wanted.weights)
            if steps < 0:
                break
            queue, first, now = *_taken(queue, first, wanted), time
        if time == plays:
            break
        if units.get(time, freed) > freed:
            first, freed = first + units[time] - freed, units[time]
            if freed == prize.stock:
                last = _last_taken(queue, first, prize.chance, plays - time)
                result.run_out_at = time + last if last else 0.0
        if time + 1 in shown:
            result.free[time + 1] = 1.0 - (queue[0] if first == 0 else 0.0)
    result.given = Counts(freed - first - len(queue) + 1, queue[::-1])
    return steps, result


def _taken(queue: list[float], first: int, wanted: Counts) -> tuple[list[float], int]:
    """The queue after plays that want so many units, and its first length."""
    low, high = max(0, first - wanted.last), max(0, first + len(queue) - 1 - wanted.first)
    after = [0.0] * (high - low + 1)
    for count, chance in enumerate(wanted.weights, wanted.first):
        start, part = first - count - low, queue
        if start < 0:  # Only with `low` 0: these plays want more than there is.
            after[0] += chance * fsum(queue[:-start])
            start, part = 0, queue[-start:]
        after[start : start + len(part)] = [
            before + weight * chance for before, weight in zip(after[start:], part, strict=False)
        ]
    while len(after) > 1 and after[-1] < _NEGLIGIBLE:
        after.pop()
    cut = next(at for at, weight in enumerate(after) if weight >= _NEGLIGIBLE)
    return after[cut:], low + cut


def _last_taken(queue: list[float], first: int, chance: float, plays: int) -> float:
    """The expected play that empties the queue, if one of so many does; 0: none. As in large.py, for each length."""
    lengths = list(enumerate(queue, first))
    reached = fsum(weight * binomial(plays, chance).at_least(units) for units, weight in lengths)
    if reached < 1e-9:
        return 0.0
    later = binomial(plays + 1, chance)
    return fsum(weight * units / chance * later.at_least(units + 1) for units, weight in lengths) / reached
