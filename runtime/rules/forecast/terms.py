"""The input of a forecast, and its results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from runtime.rules.base import OnUnavailable

QUANTILES: Final = (0.5, 0.9, 0.99)

INDEPENDENT_PRIZES: Final = "INDEPENDENT_PRIZES"
"""Prizes are counted as if they did not compete for plays. The mean is right; the spread of the cost is too wide."""
FALLBACK_UNLIMITED: Final = "FALLBACK_UNLIMITED"
"""The distribution of the cost counts a fallback prize that may run out as unlimited: an upper bound."""
REDRAW_AVERAGE: Final = "REDRAW_AVERAGE"
"""If many prizes may or may not run out, their units are those at the average time of the last win."""
CAPS_AS_ODDS: Final = "CAPS_AS_ODDS"
"""A cap per player or day lowers the odds of its prize by the expected share of refused draws."""
RELEASE_AT_END: Final = "RELEASE_AT_END"
"""All units that a release frees by the last play count as free from the start: an upper bound."""
RUN_OUT_ESTIMATED: Final = "RUN_OUT_ESTIMATED"
"""The play at which a prize runs out is an estimate, since draws for other prizes may take units of it; or with redraws
the quantiles of the units of prizes that last.
"""
PLAYERS_IN_TURN: Final = "PLAYERS_IN_TURN"
"""Each player is taken to make all their plays in a row."""

PLAYS_ROUNDED: Final = "PLAYS_ROUNDED"
"""The plays do not divide evenly among players or days, so each has a play that takes place with a probability only."""
SEALED_AS_EVEN: Final = "SEALED_AS_EVEN"
"""Units of a SEALED release count as free at even distances: their times are secret."""
ONE_PLAY_EACH: Final = "ONE_PLAY_EACH"
"""Each player plays once: neither the request nor the game limits it, and a prize has a limit per player."""
WITHOUT_MILESTONES: Final = "WITHOUT_MILESTONES"
"""Prizes of milestones are not counted: they depend on how the plays are spread over players."""
UNCORRELATED_STOCKS: Final = "UNCORRELATED_STOCKS"
"""If plays win several units, or under caps, stocks that may or may not run out depend on the rest of the cost by their
correlation only, and not on each other.
"""
PLAYS_EVEN: Final = "PLAYS_EVEN"
"""Plays come at equal distances. If a release frees units about as fast as plays come, real plays win fewer."""


@dataclass(frozen=True, slots=True)
class PrizeTerms:
    """One prize of a forecast.

    chance: per play, while it is available. stock: the units that plays may still win; None: unlimited. value: what a
    unit costs. per_player, per_day: caps; 0: none. freed: the units that are free at each play, if a release schedule
    holds back others; (play, units) in order, from play 0 on. Empty: all.
    """

    id: str
    chance: float
    stock: int | None = None
    value: float = 0.0
    per_player: int = 0
    per_day: int = 0
    freed: tuple[tuple[int, int], ...] = ()


Wanted: TypeAlias = tuple[tuple[int, int], ...]
"""What a play wants: (index of a prize, units), each prize once."""


@dataclass(frozen=True, slots=True)
class Falls:
    """A play in which items fall. kinds: (index of the prize that a caught item wins, chance that an item is of the
    kind and caught, the most items of the kind that count in a play).
    """

    items: int
    kinds: tuple[tuple[int, float, int], ...]


@dataclass(frozen=True, slots=True)
class GameTerms:
    """A game of a forecast. fallback: the index of the fallback prize, which may have no chance of its own.

    plays: of all players. per_player: the plays of each player; 0: each play is another player's. days: over which the
    plays are spread evenly.

    A play draws one prize by the chances of the prizes, unless one of these is set. in_order: it wins the first prize
    that is available. wins, falls: it may win several units: (chance, what it wants), or by what falls. A prize's
    `chance` is then the expected units per play.
    """

    prizes: tuple[PrizeTerms, ...]
    plays: int
    on_unavailable: OnUnavailable = "lose"
    fallback: int | None = None
    per_player: int = 0
    days: int = 1
    in_order: bool = False
    wins: tuple[tuple[float, Wanted], ...] = ()
    falls: Falls | None = None

    @property
    def instead(self) -> int | None:
        """The prize that a draw without a unit wins: the fallback prize; None: none, or any (`redraw`)."""
        return self.fallback if self.on_unavailable == "fallback" else None

    @property
    def wins_several(self) -> bool:
        return bool(self.wins or self.falls)

    def largest(self, prize: int) -> int:
        """The most units of a prize in a play, without those that stand in for others."""
        if self.falls is not None:
            return min(self.falls.items, sum(most for at, _, most in self.falls.kinds if at == prize))
        return max((units for _, wanted in self.wins for at, units in wanted if at == prize), default=0) or (
            0 if self.wins else 1
        )

    @property
    def units_max(self) -> int:
        """The most units of all prizes in a play."""
        if self.falls is not None:
            return min(self.falls.items, sum(most for _, _, most in self.falls.kinds))
        return max((sum(units for _, units in wanted) for _, wanted in self.wins), default=1)

    def is_capped(self, prize: int) -> bool:
        """Whether the plays of a player may reach the cap of a prize."""
        most = self.largest(prize) if prize != self.fallback else max(1, self.units_max)
        return 0 < self.prizes[prize].per_player < most * max(1, self.per_player)


@dataclass(slots=True)
class Costs:
    """A distribution of the cost: amounts in ascending order, each with its probability.

    spread: each amount stands for the range of this width around it. 0: the amounts are exact.
    """

    amounts: list[float]
    chances: list[float]
    spread: float = 0.0

    def quantile(self, share: float) -> float:
        """The least amount that the cost does not exceed with a probability of `share`."""
        total = 0.0
        for amount, chance in zip(self.amounts, self.chances, strict=True):
            if chance > 0 and total + chance >= share - 1e-9:
                return amount + self.spread * ((share - total) / chance - 0.5)
            total += chance
        return self.amounts[-1] + self.spread / 2

    def above(self, budget: float) -> float:
        """P(cost > budget)."""
        total = 0.0
        tolerance = 0.0 if self.spread else 1e-9 * max(1.0, abs(budget))
        for amount, chance in zip(reversed(self.amounts), reversed(self.chances), strict=True):
            if self.spread:
                total += chance * min(1.0, max(0.0, (amount - budget) / self.spread + 0.5))
            elif amount > budget + tolerance:
                total += chance
        return min(1.0, max(0.0, total))

    def within(self, most: float) -> Costs:
        """The distribution, if the cost is known to lie between 0 and `most`."""
        half = min(self.spread, most) / 2
        found: dict[float, float] = {}
        for amount, chance in zip(self.amounts, self.chances, strict=True):
            kept = min(max(amount, half), most - half)
            found[kept] = found.get(kept, 0.0) + chance
        return Costs(list(found), list(found.values()), self.spread if most else 0.0)

    def beyond(self, most: float) -> float:
        """E max(0, cost - most)."""
        return sum(max(0.0, a - most) * chance for a, chance in zip(self.amounts, self.chances, strict=True))


@dataclass(slots=True)
class PrizeForecast:
    """What plays take of one prize. units: the quantiles of QUANTILES. run_out: the probability that the stock is used
    up. run_out_at: the expected number of the play that takes the last unit, if one does; 0: none does.
    """

    id: str
    mean: float
    units: tuple[int, ...]
    run_out: float
    run_out_at: float


@dataclass(slots=True)
class Forecast:
    """The forecast of a game. cost_of: the expected cost of a play by its number. liability: the largest possible cost.

    player_cost_of: the expected cost of each player's n-th play while all is in stock.
    error_max: the largest error of a probability. cost_error: of an amount. assumptions: what deviates from the game.
    """

    mean: float
    costs: Costs
    prizes: list[PrizeForecast]
    cost_of: dict[int, float]
    liability: float
    player_cost_of: list[float] = field(default_factory=list)
    error_max: float = 0.0
    cost_error: float = 0.0
    assumptions: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not set(self.assumptions) - {RUN_OUT_ESTIMATED} and not self.cost_error
