"""One draw over prizes with probabilities, and the fallback when the drawn prize is not available.

`probability` and each group of `score_to_tier` draw with it. Every reward handler uses `Trail`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Meta

from runtime.rules.base import Attempt, GameRule
from runtime.rules.draw import pick_by_sums, pick_certain, running_sums, scaled
from runtime.rules.reading import Name, Part, Violation

NO_SLOT: Final = -1

SUM_TOLERANCE: Final = 1e-9
"""How far the sum of probabilities may exceed 1. Covers the rounding of decimal fractions (ten times 0.1)."""


class Trail:
    """Draws words and checks availability for one decision, and records both.

    Steps of the path: `["word", i, word]` and `["available", prize_id, quantity, answer]`.
    """

    __slots__ = ("_available", "_words", "game", "path")

    def __init__(self, attempt: Attempt) -> None:
        self.game = attempt.game
        self.path: list[Any] = []
        self._words = attempt.words
        self._available = attempt.available

    def word(self, i: int) -> float:
        word = self._words.word(i)
        self.path.append(["word", i, word])
        return word

    def available(self, prize_id: str, quantity: int) -> bool:
        """May this play take `quantity` units of the prize in total?"""
        answer = self._available(prize_id, quantity)
        self.path.append(["available", prize_id, quantity, answer])
        return answer

    def most_available(self, prize_id: str, quantity: int, *, known: int = 0) -> int:
        """The most units, up to `quantity`, that this play may take; `known` of them are known to be available.

        Checks the full quantity, then bisects, so that the path stays short (1000 items: 11 checks).
        """
        if quantity == known or self.available(prize_id, quantity):
            return quantity
        least, most = known, quantity - 1
        while least < most:
            middle = (least + most + 1) // 2
            if self.available(prize_id, middle):
                least = middle
            else:
                most = middle - 1
        return least


class PrizeChance(Part, frozen=True):
    prize_id: Name
    probability: Annotated[float, Meta(ge=0, le=1)]


class Chances:
    """Prizes with their running sums, computed once per configuration so that a draw is one bisection."""

    __slots__ = ("prize_ids", "probabilities", "sums")

    def __init__(self, prizes: Sequence[PrizeChance]) -> None:
        self.prize_ids = tuple(prize.prize_id for prize in prizes)
        self.probabilities = tuple(prize.probability for prize in prizes)
        self.sums = running_sums(self.probabilities)


class Drawn(NamedTuple):
    """The prize to award (None: a loss) and the segment where a wheel stops."""

    prize_id: str | None
    slot_index: int


def sum_violations(prizes: Sequence[PrizeChance], path: str) -> Iterable[Violation]:
    """A violation when the probabilities at `path` add up to more than 1."""
    total = (running_sums(prize.probability for prize in prizes) or (0.0,))[-1]
    if total > 1 + SUM_TOLERANCE:
        yield path, f"probabilities add up to {total:.12g} ({total * 100:.10g} %); at most 1 (100 %) is allowed"


def draw_prize(chances: Chances, trail: Trail) -> Drawn:
    """Word 0 picks the prize; the rest of the range up to 1 is a loss."""
    index = pick_by_sums(chances.sums, trail.word(0))
    if index is None:
        return _lost(chances.prize_ids, trail)
    prize_id = chances.prize_ids[index]
    if trail.available(prize_id, 1):
        return Drawn(prize_id, slot_of_prize(trail.game, prize_id, index))
    if trail.game.on_unavailable == "redraw":
        return _redraw(chances, trail, unavailable=prize_id)
    if trail.game.on_unavailable == "fallback":
        return _fall_back(chances.prize_ids, trail)
    return _lost(chances.prize_ids, trail)


def first_available(prize_ids: Sequence[str], trail: Trail) -> Drawn:
    """The first prize that is available; else the game's fallback prize, or a loss."""
    for index, prize_id in enumerate(prize_ids):
        if trail.available(prize_id, 1):
            return Drawn(prize_id, slot_of_prize(trail.game, prize_id, index))
    if trail.game.on_unavailable == "fallback":
        return _fall_back(prize_ids, trail)
    return _lost(prize_ids, trail)


def _lost(prize_ids: Sequence[str], trail: Trail) -> Drawn:
    return Drawn(None, slot_of_loss(trail.game, len(prize_ids)))


def _redraw(chances: Chances, trail: Trail, unavailable: str) -> Drawn:
    """Word 1 picks among the available prizes only, with probabilities scaled to sum to 1. No prize: a loss."""
    answers = {unavailable: False}
    indexes = []
    for index, (prize_id, probability) in enumerate(zip(chances.prize_ids, chances.probabilities, strict=True)):
        if probability == 0:
            continue  # It can never be drawn; checking it would only lengthen the path.
        if prize_id not in answers:
            answers[prize_id] = trail.available(prize_id, 1)
        if answers[prize_id]:
            indexes.append(index)
    if not indexes:
        return _lost(chances.prize_ids, trail)
    sums = running_sums(scaled([chances.probabilities[index] for index in indexes]))
    index = indexes[pick_certain(sums, trail.word(1))]
    return Drawn(chances.prize_ids[index], slot_of_prize(trail.game, chances.prize_ids[index], index))


def _fall_back(prize_ids: Sequence[str], trail: Trail) -> Drawn:
    """The game's fallback prize; a loss when that is not available either."""
    prize_id = trail.game.fallback_prize_id
    if prize_id and trail.available(prize_id, 1):
        return Drawn(prize_id, slot_of_fallback(trail.game, prize_ids))
    return _lost(prize_ids, trail)


# -- slot_index: where a wheel stops ------------------------------------------------------------
#
# A segment names its prize by `prize_id`. If no segment names one (an older ui with only an emoji or an
# image in each), segment *i* shows entry *i* of `prizes`. A loss then stops at the first segment after
# those; segment 0 would show a prize to a player who lost. -1: no segment shows the result. An index
# among segments that name other prizes would show the wrong prize.


def slot_of_prize(game: GameRule, prize_id: str, index: int) -> int:
    """The first segment that names the prize; its `index` in `prizes` if no segment names any; else -1."""
    if not game.segments:
        return index
    if prize_id in game.segments:
        return game.segments.index(prize_id)
    return index if not any(game.segments) and index < len(game.segments) else NO_SLOT


def slot_of_fallback(game: GameRule, prize_ids: Sequence[str]) -> int:
    """The fallback prize's segment, else its index in `prizes`, else -1."""
    prize_id = game.fallback_prize_id
    return slot_of_prize(game, prize_id, prize_ids.index(prize_id) if prize_id in prize_ids else NO_SLOT)


def slot_of_loss(game: GameRule, prize_count: int) -> int:
    """The first segment without a prize, else -1."""
    if not game.segments:
        return NO_SLOT
    if not any(game.segments):
        return prize_count if prize_count < len(game.segments) else NO_SLOT
    return next((i for i, prize_id in enumerate(game.segments) if not prize_id), NO_SLOT)
