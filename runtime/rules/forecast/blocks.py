"""Caps per player or per day as one play: all plays of a player, or of a day, of which so many wins count as the cap.

Players, and days, are independent of each other until a stock runs out. So the game equals one whose plays are these
blocks, and in which several items fall (`Falls`): one for each play, of which at most the cap counts. Further ones
lose, or win the fallback prize.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum
from typing import Final

from runtime.rules.forecast.caps import players_of
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.plays import LISTED_MAX, caught, combinations, work_of
from runtime.rules.forecast.terms import Falls, GameTerms

WORK_MAX: Final = 12_000
"""The operations (`work_of`) up to which a forecast with a budget takes some five seconds."""

STEPS_MAX: Final = 20_000
"""The steps in which combinations are listed: with more, a budget takes longer."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A game as blocks. game: each of its plays is a block. falls: the plays of a block. into: the prize that refused
    draws win; None: none. even: the plays fill all blocks; if not, the odds are lowered by the plays that are missing.
    """

    game: GameTerms
    falls: Falls
    into: int | None
    even: bool

    @property
    def plays(self) -> int:
        """Of a block."""
        return self.falls.items

    def units(self, play: int) -> list[float]:
        """The expected units of each prize in a play of a block, counted from 0, while all is in stock."""
        found = [0.0] * len(self.game.prizes)
        for i, chance, most in self.falls.kinds:
            accepted = binomial(play, chance).below(most)
            found[i] += chance * accepted
            if self.into is not None:
                found[self.into] += chance * (1.0 - accepted)
        return found

    def cost(self, play: int) -> float:
        """The expected cost of a play of a block, counted from 0, while all is in stock."""
        return fsum(units * prize.value for units, prize in zip(self.units(play), self.game.prizes, strict=True))


def blocks_of(game: GameTerms) -> Blocks | None:
    """The game as blocks. None without caps or with both kinds, with redraws or a capped fallback, or if too large."""
    of_players = any(game.is_capped(i) for i in range(len(game.prizes)))
    of_days = any(prize.per_day for prize in game.prizes)
    if game.wins_several or game.on_unavailable == "redraw" or of_players == of_days:
        return None
    into = game.fallback if game.on_unavailable == "fallback" else None
    count = players_of(game) if of_players else game.days
    plays = game.per_player if of_players else -(-game.plays // count)
    share = game.plays / (count * plays)
    caps = [min(plays, prize.per_player if of_players else prize.per_day) or plays for prize in game.prizes]
    falls = Falls(plays, tuple((i, p.chance * share, caps[i]) for i, p in enumerate(game.prizes) if p.chance))
    listed = combinations(falls) * (1 if into is None else plays + 1)
    is_listed = listed <= LISTED_MAX and listed * plays <= STEPS_MAX
    if not is_listed and (into is not None or work_of(falls) > WORK_MAX):
        return None
    if into is not None and caps[into] < plays:
        return None
    blocks = Blocks(game, falls, into, share == 1.0)
    means = [fsum(units) for units in zip(*(blocks.units(play) for play in range(plays)), strict=True)]
    prizes = tuple(
        replace(prize, chance=mean, per_player=0, per_day=0) for prize, mean in zip(game.prizes, means, strict=True)
    )
    whole = replace(game, prizes=prizes, plays=count, per_player=0, days=1)
    whole = replace(whole, wins=caught(falls, into=into)) if is_listed else replace(whole, falls=falls)
    return replace(blocks, game=whole)
