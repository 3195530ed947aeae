"""Reward handler `score_to_tier`: egg-catcher.

Config: `{tiers: [{min, max, prize_group}], prize_groups: {group: [{prize_id, probability}]}, max_score,
max_score_per_second}`. A tier covers scores from min to max, inclusive; tiers do not overlap; a score
in no tier is a loss. `max_score` and `max_score_per_second` are optional; 0 means no limit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from runtime.rules.base import Attempt, Award, Outcome
from runtime.rules.chances import Chances, PrizeChance, Trail, draw_prize, slot_of_loss, sum_violations
from runtime.rules.payloads import MAX_SCORE, ScorePayload
from runtime.rules.reading import Name, Part, Violation, read

Payload = ScorePayload


class Tier(Part, frozen=True):
    """Scores from `min` to `max`, inclusive, draw from `prize_group`."""

    min: float
    max: float
    prize_group: Name

    def broken_rules(self, path: str) -> Iterable[Violation]:
        if self.min > self.max:
            yield f"{path}.max", "must not be below min"


class Config(Part, frozen=True, dict=True):
    tiers: tuple[Tier, ...]
    prize_groups: dict[Name, tuple[PrizeChance, ...]]
    max_score: Annotated[int, Meta(ge=0, le=MAX_SCORE)] = 0
    max_score_per_second: Annotated[float, Meta(ge=0)] = 0.0

    @cached_property
    def chances(self) -> dict[str, Chances]:
        return {group: Chances(prizes) for group, prizes in self.prize_groups.items()}

    @cached_property
    def longest(self) -> int:
        """The prizes of the longest group. If no wheel segment names a prize, every loss stops after that many."""
        return max(map(len, self.prize_groups.values()), default=0)

    @cached_property
    def tiers_by_min(self) -> tuple[int, ...]:
        return tuple(sorted(range(len(self.tiers)), key=lambda i: self.tiers[i].min))

    @cached_property
    def minimums(self) -> tuple[float, ...]:
        """The `min` of each of `tiers_by_min`."""
        return tuple(self.tiers[i].min for i in self.tiers_by_min)

    def tier_of(self, score: int) -> int | None:
        """The index of the tier that covers the score, or None."""
        position = bisect_right(self.minimums, score) - 1
        if position < 0:
            return None
        index = self.tiers_by_min[position]
        return index if score <= self.tiers[index].max else None

    def broken_rules(self, path: str) -> Iterable[Violation]:
        for lower, upper in zip(self.tiers_by_min, self.tiers_by_min[1:], strict=False):
            if self.tiers[upper].min <= self.tiers[lower].max:
                yield f"{path}.tiers[{upper}].min", f"must be above tiers[{lower}].max, which is inclusive"
        for i, tier in enumerate(self.tiers):
            if tier.prize_group not in self.prize_groups:
                yield f"{path}.tiers[{i}].prize_group", "is not in prize_groups"
        for group, prizes in self.prize_groups.items():
            yield from sum_violations(prizes, f"{path}.prize_groups.{group}")


def parse(raw: Mapping[str, Any]) -> Config:
    return read(Config, raw, "handler_config")


def prizes(config: Config) -> Iterable[tuple[str, str]]:
    for group, chances in config.prize_groups.items():
        for i, prize in enumerate(chances):
            yield f"handler_config.prize_groups.{group}[{i}].prize_id", prize.prize_id


def winnable(config: Config) -> Iterable[str]:
    """The prizes of the tiers' groups."""
    groups = {tier.prize_group for tier in config.tiers}
    return (prize.prize_id for group in groups for prize in config.prize_groups[group] if prize.probability)


def currencies(config: Config) -> Iterable[str]:
    return ()


def decide(attempt: Attempt) -> Outcome:
    """At most one prize of the score's tier.

    Metadata: `tier` (index, -1 for none), `prize_group` ("" for none) and `slot_index`, which is the
    index within the group if no wheel segment names the prize.
    """
    config: Config = attempt.config
    score = int(attempt.payload["score"])
    trail = Trail(attempt)
    tier = config.tier_of(score)
    if tier is None:
        metadata = {"tier": -1, "prize_group": "", "slot_index": slot_of_loss(attempt.game, config.longest)}
        return Outcome([], [], metadata, trail.path, score)
    group = config.tiers[tier].prize_group
    prize_id, slot_index = draw_prize(config.chances[group], trail)
    if prize_id is None:
        slot_index = slot_of_loss(attempt.game, config.longest)
    awards = [] if prize_id is None else [Award(prize_id, 1)]
    metadata = {"tier": tier, "prize_group": group, "slot_index": slot_index}
    return Outcome(awards, [], metadata, trail.path, score)
