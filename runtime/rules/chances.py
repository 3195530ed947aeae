"""One draw over prizes with probabilities, and what to do when the drawn prize is not available.

Shared by `probability` and by each group of `score_to_tier`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from runtime.rules.base import Trail
from runtime.rules.draw import pick_by_sums, pick_certain, running_sums, scaled
from runtime.rules.reading import Name, Part, Violation
from runtime.rules.wheel import slot_of_fallback, slot_of_loss, slot_of_prize

SUM_TOLERANCE: Final = 1e-9
"""How far over 1 the probabilities may add up: rounding of decimal fractions (ten times 0.1), nothing more."""


class PrizeChance(Part, frozen=True):
    """One prize and the probability that a draw picks it."""

    prize_id: Name
    probability: Annotated[float, Meta(ge=0, le=1)]


class Chances:
    """Prizes with their running sums, made once per configuration so that a draw is one bisection."""

    __slots__ = ("prize_ids", "probabilities", "sums")

    def __init__(self, prizes: Sequence[PrizeChance]) -> None:
        self.prize_ids = tuple(prize.prize_id for prize in prizes)
        self.probabilities = tuple(prize.probability for prize in prizes)
        self.sums = running_sums(self.probabilities)


class Drawn(NamedTuple):
    """The prize to award, None for a loss, and where a wheel stops."""

    prize_id: str | None
    slot_index: int


def sum_violations(prizes: Sequence[PrizeChance], path: str) -> Iterable[Violation]:
    """A violation when the probabilities at `path` add up to more than 1."""
    total = (running_sums(prize.probability for prize in prizes) or (0.0,))[-1]
    if total > 1 + SUM_TOLERANCE:
        yield path, f"probabilities add up to {total:.12g}; at most 1 is allowed"


def draw_prize(chances: Chances, trail: Trail) -> Drawn:
    """Word 0 picks the prize; what is left over of 1 is a loss."""
    index = pick_by_sums(chances.sums, trail.word(0))
    if index is None:
        return _lost(chances, trail)
    prize_id = chances.prize_ids[index]
    if trail.available(prize_id, 1):
        return Drawn(prize_id, slot_of_prize(trail.game, prize_id, index))
    if trail.game.on_unavailable == "redraw":
        return _redraw(chances, trail, unavailable=prize_id)
    if trail.game.on_unavailable == "fallback":
        return _fall_back(chances, trail)
    return _lost(chances, trail)


def _lost(chances: Chances, trail: Trail) -> Drawn:
    return Drawn(None, slot_of_loss(trail.game, len(chances.prize_ids)))


def _redraw(chances: Chances, trail: Trail, unavailable: str) -> Drawn:
    """Word 1 picks among the available prizes alone, their probabilities scaled to sum to 1; none: a loss."""
    answers = {unavailable: False}
    indexes = []
    for index, (prize_id, probability) in enumerate(zip(chances.prize_ids, chances.probabilities, strict=True)):
        if probability == 0:
            continue  # It could not be drawn, so its answer would only lengthen the path.
        if prize_id not in answers:
            answers[prize_id] = trail.available(prize_id, 1)
        if answers[prize_id]:
            indexes.append(index)
    if not indexes:
        return _lost(chances, trail)
    sums = running_sums(scaled([chances.probabilities[index] for index in indexes]))
    index = indexes[pick_certain(sums, trail.word(1))]
    return Drawn(chances.prize_ids[index], slot_of_prize(trail.game, chances.prize_ids[index], index))


def _fall_back(chances: Chances, trail: Trail) -> Drawn:
    """The game's fallback prize; when that is not available either, a loss."""
    prize_id = trail.game.fallback_prize_id
    if prize_id and trail.available(prize_id, 1):
        return Drawn(prize_id, slot_of_fallback(trail.game, chances.prize_ids))
    return _lost(chances, trail)
