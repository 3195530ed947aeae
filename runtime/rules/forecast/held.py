"""Prizes with a release, or with a cap per player or day, in a game that is too large to follow from state to state.

Between two releases, the units given grow by the draws of those plays, up to the units that are free. Under a cap, they
are the sum of what each player, or each day, takes. Both give the distribution of the units. The cost also depends on
how many draws come with so many units. Their mean and variance follow from the distributions at slightly other odds:
more draws are as much likelier there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import ceil, exp, expm1, fsum, log, sqrt
from typing import Final

from runtime.rules.forecast.counts import Counts, binomial, drawn_by
from runtime.rules.forecast.fourier import Held, totals
from runtime.rules.forecast.grid import whole
from runtime.rules.forecast.terms import LIMITS_AS_NORMAL, RELEASE_AT_END, GameTerms, PrizeTerms

HELD_ERROR: Final = 0.01
"""The error of a probability of a cost: measured with a few dozen plays, and less with more."""
_NEGLIGIBLE: Final = 1e-13
_UNLIKELY: Final = 1e-10
_TILT: Final = 0.25
"""The change of the odds of a draw, in standard deviations of the number of draws."""
_FAR: Final = 10.0
"""Draws do not deviate by as many standard deviations."""
_ALWAYS: Final = 1.0 - 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPrize(PrizeTerms):
    """A prize with such a limit; `stock` is what all plays may win. given: its units. held: the prize in a sum.
    free: the probability that a play may win it, by play. run_out, gone_at: as those of PrizeForecast.
    """

    given: Counts
    held: Held
    free: dict[int, float]
    run_out: float
    gone_at: float


def with_held(game: GameTerms, shown: Collection[int], cells: int, boost: float) -> tuple[GameTerms, list[str]]:
    """The game without releases, and caps that `without_caps` leaves; and what that assumes. cells: per standard
    deviation of the draws. boost: a factor for the odds, since other prizes are sold out.
    """
    prizes = [*game.prizes]
    assumptions: set[str] = set()
    for i, prize in enumerate(game.prizes):
        if not (prize.freed or prize.per_player or prize.per_day):
            continue
        stock = prize.stock
        if prize.freed:
            stock = prize.freed[-1][1] if stock is None else min(stock, prize.freed[-1][1])
        prizes[i] = plain = replace(prize, stock=stock, freed=(), per_player=0, per_day=0)
        if game.on_unavailable == "fallback" and i == game.fallback:
            assumptions |= {RELEASE_AT_END} if prize.freed else set()
        elif prize.chance:
            limited = _released if prize.freed else _capped
            drawn = replace(prize, chance=min(1.0, prize.chance * boost))
            found = limited(drawn, plain, game, shown, cells)
            freely = binomial(game.plays, drawn.chance).up_to(stock)
            if freely - found.given.mean > _UNLIKELY * freely:  # Otherwise it refuses only what the stock does.
                prizes[i] = found
                assumptions.add(LIMITS_AS_NORMAL)
    return replace(game, prizes=tuple(prizes)), sorted(assumptions)


def _released(prize: PrizeTerms, plain: PrizeTerms, game: GameTerms, shown: Collection[int], cells: int) -> HeldPrize:
    plays, chance, most = game.plays, min(prize.chance, _ALWAYS), plain.stock or 0
    freed = {0: 0}
    every = ceil(len(prize.freed) / (20 * cells))
    for play, units in (*prize.freed[::every], prize.freed[-1]):
        if play < plays and min(units, most) > freed[max(freed)]:
            freed[play] = min(units, most)
    lot = max(1, ceil(sqrt(plays * chance * (1.0 - chance)) / cells))
    line = _Line(freed, plays, chance, lot)
    given = line.given({*shown})
    ends = most == prize.stock and most > 0
    held = _held(plays, chance, given, lambda odds: line.given(set(), odds), lot)
    run_out, gone_at = (given.at_least(most), line.gone_at()) if ends else (0.0, 0.0)
    return _of(plain, given, held, line.free, run_out, gone_at)


def _capped(prize: PrizeTerms, plain: PrizeTerms, game: GameTerms, shown: Collection[int], _cells: int) -> HeldPrize:
    cap, count = (prize.per_day, game.days) if prize.per_day else (prize.per_player, game.players)
    plays = -(-game.plays // count)
    chance = min(_ALWAYS, prize.chance * game.plays / (plays * count))

    def given(odds: float = 1.0, most: int | None = plain.stock) -> Counts:
        each = _up_to(binomial(plays, chance * odds / (1.0 + chance * (odds - 1.0))), cap)
        units = whole(totals(dict(enumerate(each.weights, each.first)), count))
        total = _trimmed(int(units[0][0]), [weight for _, weight in units])
        return total if most is None else _up_to(total, most)

    accepted = given(most=None).mean / (game.plays * prize.chance)
    found, kept = given(), replace(plain, chance=prize.chance * accepted)
    free = {
        play: accepted * (1.0 if kept.stock is None else binomial(play - 1, kept.chance).below(kept.stock))
        for play in shown
    }
    run_out = 0.0 if kept.stock is None else found.at_least(kept.stock) if kept.stock else 1.0
    gone_at = drawn_by(game.plays, kept.chance, kept.stock) if kept.stock and run_out > 1e-9 else 0.0
    return _of(plain, found, _held(plays * count, chance, found, given), free, run_out, gone_at)


def _of(
    plain: PrizeTerms, given: Counts, held: Held, free: dict[int, float], run_out: float, gone_at: float
) -> HeldPrize:
    terms = {one.name: getattr(plain, one.name) for one in fields(plain)}
    return HeldPrize(**terms, given=given, held=held, free=free, run_out=run_out, gone_at=gone_at)


class _Line:
    """The units given from release to release. freed: the units that are free, by play.

    Many draws count as lots. There are fewer lots than draws, so the units that are free are as much fewer.
    """

    def __init__(self, freed: dict[int, int], plays: int, chance: float, lot: int) -> None:
        self._freed, self._plays, self._chance, self._lot = freed, plays, chance, lot
        self._drawn = chance if lot == 1 else chance * (1.0 - chance) / lot**2
        self._last = Counts(0, [1.0])
        self.free: dict[int, float] = {}

    def given(self, shown: set[int], odds: float = 1.0) -> Counts:
        """The units given. shown: plays to note the free units of. odds: a factor of the odds of a draw."""
        given, units = Counts(0, [1.0]), 0
        drawn = self._drawn * odds / (1.0 + self._drawn * (odds - 1.0))
        for start, end in pairwise(sorted({*self._freed, *(play - 1 for play in shown), self._plays})):
            units = self._freed.get(start, units)
            if start + 1 in shown:
                self.free[start + 1] = given.below(self._limit(units, start))
            if start == max(self._freed) and odds == 1.0:
                self._last = self._left(given, units, start)
            given = _drawn(given, binomial(end - start, drawn), self._limit(units, end))
        left = self._left(given, units, self._plays)
        return Counts(max(0, units - left.last), left.weights[min(left.last, units) - left.first :: -1])

    def _limit(self, units: int, play: int) -> int:
        if self._lot == 1:
            return units
        return round((units - self._chance * play) / self._lot + self._drawn * play)

    def _left(self, given: Counts, units: int, play: int) -> Counts:
        """The free units that are left; each lot stands for as many units."""
        weights = [weight / self._lot for weight in reversed(given.weights) for _ in range(self._lot)]
        return Counts((self._limit(units, play) - given.last) * self._lot, weights)

    def gone_at(self) -> float:
        """The expected play that takes the last unit, if one does."""
        begun = max(self._freed)
        draws = binomial(self._plays - begun, self._chance)
        units = [(n, weight * draws.at_least(n)) for n, weight in enumerate(self._last.weights, self._last.first)]
        gone = fsum(weight for _, weight in units)
        at = fsum(weight * drawn_by(self._plays - begun, self._chance, n) for n, weight in units)
        return begun + at / gone if gone > _NEGLIGIBLE else 0.0


def _held(plays: int, chance: float, given: Counts, tilted: Callable[[float], Counts], lot: int = 1) -> Held:
    """The joint distribution of the units and the draws, by the first terms of its logarithm. tilted: the units at the
    odds of a draw (of a lot of draws) times a factor.
    """
    mean, variance = plays * chance, plays * chance * (1.0 - chance)
    tilt, drawn = _TILT / sqrt(variance), chance if lot == 1 else variance / plays / lot**2
    signs = (tilt * lot, -tilt * lot)
    changed = [tilted(exp(sign)) for sign in signs]
    rises = [plays * (log(1.0 + drawn * expm1(sign)) - sign * drawn) for sign in signs]
    first = max(one.first for one in (*changed, given))
    last = min(one.last for one in (*changed, given))
    narrow = chance / variance  # A binomial number of draws varies less than a Poisson one.
    weights, draws = [], []
    for units in range(first, last + 1):
        up, down = (
            rise + log(max(one.at(units), _NEGLIGIBLE**2) / max(given.at(units), _NEGLIGIBLE**2))
            for rise, one in zip(rises, changed, strict=True)
        )
        away = max(-_FAR * sqrt(variance), min(_FAR * sqrt(variance), (up - down) / (2 * tilt)))
        spread = max(0.0, min(variance, (up + down) / tilt**2))
        wider = 1.0 / (1.0 - narrow * spread)
        weights.append(given.at(units) * sqrt(wider) * exp(0.5 * narrow * away**2 * wider))
        draws.append((mean + away * wider, spread * wider))
    return Held(chance, 0.0, Counts(first, weights), draws)


def _drawn(given: Counts, draws: Counts, limit: int) -> Counts:
    """The units given after further draws."""
    short, long = sorted((given.weights, draws.weights), key=len)
    first, found = given.first + draws.first, [0.0] * (len(short) + len(long) - 1)
    for at, one in enumerate(short):
        found[at : at + len(long)] = [a + one * b for a, b in zip(found[at:], long, strict=False)]
    return _up_to(_trimmed(first, found), limit)


def _up_to(counts: Counts, most: int) -> Counts:
    """The count, or `most` if it is larger."""
    if most <= counts.first:
        return Counts(most, [1.0])
    if most > counts.last:
        return counts
    return Counts(counts.first, [*counts.weights[: most - counts.first], counts.at_least(most)])


def _trimmed(first: int, weights: Sequence[float]) -> Counts:
    kept = [at for at, weight in enumerate(weights) if weight > _NEGLIGIBLE]
    return Counts(first + kept[0], weights[kept[0] : kept[-1] + 1])
