"""Caps per player or per day as one play: all plays of a player, or of a day, of which so many wins count as the cap.

Players, and days, are independent of each other until a stock runs out. So the game equals one whose plays are these
blocks, and in which several items fall (`Falls`): one for each play, of which at most the cap counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import fsum
from typing import Final

from runtime.rules.forecast.caps import players_of
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.plays import work_of
from runtime.rules.forecast.terms import Falls, GameTerms

WORK_MAX: Final = 12_000
"""The operations (`work_of`) up to which a forecast with a budget takes some five seconds."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A game as blocks. game: each of its plays is a block. plays: of a block. most: the wins of each prize that count
    in a block. even: the plays fill all blocks; if not, the odds are lowered by the plays that are missing.
    """

    game: GameTerms
    plays: int
    most: list[int]
    even: bool

    def units(self, play: int) -> list[float]:
        """The expected units of each prize in a play of a block, counted from 0, while all is in stock."""
        kinds = () if self.game.falls is None else self.game.falls.kinds
        found = [0.0] * len(self.most)
        for i, chance, most in kinds:
            found[i] = chance * binomial(play, chance).below(most)
        return found

    def cost(self, play: int) -> float:
        """The expected cost of a play of a block, counted from 0, while all is in stock."""
        return fsum(units * prize.value for units, prize in zip(self.units(play), self.game.prizes, strict=True))


def blocks_of(game: GameTerms) -> Blocks | None:
    """The game as blocks. None without caps or with both kinds, if refused draws win a prize, or for large blocks."""
    of_players = any(game.is_capped(i) for i in range(len(game.prizes)))
    of_days = any(prize.per_day for prize in game.prizes)
    if game.wins_several or game.on_unavailable != "lose" or of_players == of_days:
        return None
    count = players_of(game) if of_players else game.days
    plays = game.per_player if of_players else -(-game.plays // count)
    share = game.plays / (count * plays)
    caps = [prize.per_player if of_players else prize.per_day for prize in game.prizes]
    most = [min(cap, plays) if cap else plays for cap in caps]
    falls = Falls(plays, tuple((i, p.chance * share, most[i]) for i, p in enumerate(game.prizes) if p.chance))
    if work_of(falls) > WORK_MAX:
        return None
    prizes = tuple(
        replace(prize, chance=binomial(plays, prize.chance * share).up_to(cap), per_player=0, per_day=0)
        for prize, cap in zip(game.prizes, most, strict=True)
    )
    blocks = replace(game, prizes=prizes, plays=count, per_player=0, days=1, falls=falls)
    return Blocks(blocks, plays, most, share == 1.0)
