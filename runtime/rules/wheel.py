"""Where a wheel stops: `metadata.slot_index` (contract.md, "Draws").

A segment names its prize by `prize_id`. Where no segment names any (an older ui that only has an emoji
or an image in each), segment *i* shows entry *i* of `prizes`, so a loss stops at the first segment
after those; stopping at segment 0 would show a prize to a player who lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from runtime.rules.base import GameRule

NO_SLOT: Final = -1


def slot_of_prize(game: GameRule, prize_id: str, index: int) -> int:
    """The first segment that names the prize, else its `index` in `prizes`."""
    if game.segments and prize_id in game.segments:
        return game.segments.index(prize_id)
    return index


def slot_of_fallback(game: GameRule, prize_ids: Sequence[str]) -> int:
    """The fallback prize's own segment, else its index in `prizes`, else -1."""
    prize_id = game.fallback_prize_id
    return slot_of_prize(game, prize_id, prize_ids.index(prize_id) if prize_id in prize_ids else NO_SLOT)


def slot_of_loss(game: GameRule, prize_count: int) -> int:
    """The first segment without a prize, else -1."""
    if not game.segments:
        return NO_SLOT
    if not any(game.segments):
        return prize_count if prize_count < len(game.segments) else NO_SLOT
    return next((i for i, prize_id in enumerate(game.segments) if not prize_id), NO_SLOT)
