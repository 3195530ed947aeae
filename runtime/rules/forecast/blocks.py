"""Caps per player or per day as one play: all plays of a player, or of a day, of which so many wins count as the cap.

Players, and days, are independent of each other until a stock runs out. So the game equals one whose plays are these
blocks, and in which several items fall (`Falls`): one for each play, of which at most the cap counts. Further ones
lose, or win the fallback prize.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from runtime.rules.forecast.caps import players_of
from runtime.rules.forecast.counts import binomial
from runtime.rules.forecast.plays import LISTED_MAX, caught, combinations, work_of
from runtime.rules.forecast.terms import Falls, GameTerms

WORK_MAX: Final = 12_000
"""The operations (`work_of`) up to which a forecast with a budget takes some five seconds."""

STEPS_MAX: Final = 20_000
"""The steps in which combinations are listed: with more, a budget takes longer."""

SHARE_MIN: Final = 0.98
"""With fewer plays than this share of what blocks have room for, the odds would be off."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A game as blocks. whole: each of its plays is a block. falls: the plays of a block. into: the prize that refused
    draws win; None: none. share: of the plays that blocks have room for; the odds of `falls` are multiplied by it.
    daily: blocks are days, not players.
    """

    game: GameTerms
    whole: GameTerms
    falls: Falls
    into: int | None
    share: float
    daily: bool

    @property
    def plays(self) -> int:
        """Of a block."""
        return self.falls.items

    def place(self, play: int) -> tuple[int, int]:
        """The block of a play, and the plays of the block before it. play: counted from 1."""
        if not self.daily:
            return divmod(play - 1, self.plays)
        block = (play - 1) * self.whole.plays // self.game.plays
        return block, play - 1 + -block * self.game.plays // self.whole.plays

    def cost(self, place: int) -> float:
        """The expected cost of a play after so many others of its block, while all is in stock."""
        cost, refused = 0.0, 0.0
        for i, chance, most in self.falls.kinds:
            accepted = chance * binomial(place, chance).below(most)
            cost += accepted * self.game.prizes[i].value
            refused += chance - accepted
        return (cost + refused * (self.game.prizes[self.into].value if self.into is not None else 0.0)) / self.share


def blocks_of(game: GameTerms) -> Blocks | None:
    """The game as blocks. None without caps or with both kinds, with redraws or a capped fallback, or if too large."""
    daily = -(-game.plays // game.days)
    of_players = any(game.is_capped(i) for i in range(len(game.prizes)))
    of_days = any(0 < prize.per_day < daily for prize in game.prizes)
    if game.wins_several or game.on_unavailable == "redraw" or of_players == of_days:
        return None
    into = game.instead
    count, plays = (players_of(game), game.per_player) if of_players else (game.days, daily)
    share = game.plays / (count * plays)
    caps = [min(plays, prize.per_player if of_players else prize.per_day) or plays for prize in game.prizes]
    falls = Falls(plays, tuple((i, p.chance * share, caps[i]) for i, p in enumerate(game.prizes) if p.chance))
    listed = combinations(falls) * (1 if into is None else plays + 1)
    is_listed = listed <= LISTED_MAX and listed * plays <= STEPS_MAX
    if share < SHARE_MIN or (into is not None and caps[into] < plays):
        return None
    if not is_listed and (into is not None or work_of(falls) > WORK_MAX):
        return None
    prizes = tuple(replace(prize, per_player=0, per_day=0) for prize in game.prizes)
    whole = replace(game, prizes=prizes, plays=count, per_player=0, days=1)
    whole = replace(whole, wins=caught(falls, into=into)) if is_listed else replace(whole, falls=falls)
    return Blocks(game, whole, falls, into, share, of_days)
