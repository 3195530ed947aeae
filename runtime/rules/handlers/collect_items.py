"""Reward handler `collect_items`: gift-catcher.

Config: `{drops: [{type, prize_id, frequency, max_catchable}], total_items, interval_ms}`. The session's
plan lists the items that fall; each caught item wins one unit of its type's prize. At most
`max_catchable` items of a type count (0: none); catching more is no error. A drop without a prize_id
is a decoy: it counts in the score and wins nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, Final

from msgspec import Meta

from runtime.rules.base import Attempt, Award, Outcome, Worth
from runtime.rules.chances import Trail
from runtime.rules.draw import pick_certain
from runtime.rules.payloads import CaughtPayload
from runtime.rules.reading import MAX_ENTRIES, Name, OptionalName, Part, Violation, read

Payload = CaughtPayload

MAX_COUNT: Final = 1_000_000
MAX_INTERVAL_MS: Final = 3_600_000


class ItemType(Part, frozen=True):
    """A type of item: how often it falls, how many may count, and which prize each one wins."""

    type: Name
    frequency: Annotated[int, Meta(ge=0, le=MAX_COUNT)]
    max_catchable: Annotated[int, Meta(ge=0, le=MAX_COUNT)]
    prize_id: OptionalName = ""


class Config(Part, frozen=True, dict=True):
    """The typed handler_config. It is a `DropSource`."""

    drops: tuple[ItemType, ...]
    total_items: Annotated[int, Meta(ge=1, le=MAX_ENTRIES)]
    interval_ms: Annotated[int, Meta(ge=1, le=MAX_INTERVAL_MS)]

    @cached_property
    def frequency_sums(self) -> tuple[float, ...]:
        """Running sums of frequencies (whole, so exact) over their total."""
        sums = tuple(accumulate(drop.frequency for drop in self.drops))
        return tuple(running / sums[-1] for running in sums)

    @cached_property
    def drops_by_type(self) -> dict[str, ItemType]:
        return {drop.type: drop for drop in self.drops}

    def drop_type(self, word: float) -> str:
        """The first type whose running sum of frequencies over their total exceeds the word."""
        return self.drops[pick_certain(self.frequency_sums, word)].type

    def broken_rules(self, path: str) -> Iterable[Violation]:
        seen: set[str] = set()
        for i, drop in enumerate(self.drops):
            if drop.type in seen:
                yield f"{path}.drops[{i}].type", "is listed twice"
            seen.add(drop.type)
        if not any(drop.frequency for drop in self.drops):
            yield f"{path}.drops", "at least one drop needs a frequency above 0"


def parse(raw: Mapping[str, Any]) -> Config:
    return read(Config, raw, "handler_config")


def prizes(config: Config) -> Iterable[tuple[str, str]]:
    return (
        (f"handler_config.drops[{i}].prize_id", drop.prize_id) for i, drop in enumerate(config.drops) if drop.prize_id
    )


def winnable(config: Config) -> Iterable[str]:
    return (drop.prize_id for drop in config.drops if drop.prize_id and drop.frequency and drop.max_catchable)


def currencies(config: Config) -> Iterable[str]:
    return ()


def most(config: Config, worth: Worth) -> float:
    """The maximum that one play gives: the most valuable types first, within total_items and max_catchable."""
    kinds = [(worth(Award(drop.prize_id, 1)), drop) for drop in config.drops if drop.prize_id and drop.frequency]
    total, remaining = 0.0, config.total_items
    for value, drop in sorted(kinds, key=lambda kind: kind[0], reverse=True):
        caught = min(drop.max_catchable, remaining)
        total, remaining = total + value * caught, remaining - caught
    return total


def decide(attempt: Attempt) -> Outcome:
    """One award per prize, in the order in which prizes were first caught.

    If a prize runs short, the available units are awarded. The missing units are lost, or replaced by the
    game's fallback prize as far as that is available. `redraw` loses them too, as nothing was drawn.
    Metadata: `counted_items` by type. Score: their number.
    """
    config: Config = attempt.config
    trail = Trail(attempt)
    counted = _count(config, attempt)
    wanted: dict[str, int] = {}
    for item_type, quantity in counted.items():
        prize_id = config.drops_by_type[item_type].prize_id
        if prize_id:
            wanted[prize_id] = wanted.get(prize_id, 0) + quantity
    granted = {prize_id: trail.most_available(prize_id, quantity) for prize_id, quantity in wanted.items()}
    if attempt.game.on_unavailable == "fallback":
        _fall_back(attempt.game.fallback_prize_id, wanted, granted, trail)
    awards = [Award(prize_id, quantity) for prize_id, quantity in granted.items() if quantity]
    return Outcome(awards, [], {"counted_items": counted}, trail.path, sum(counted.values()))


def _count(config: Config, attempt: Attempt) -> dict[str, int]:
    """Caught items that count, by type. Items outside the plan, and repeats, never count."""
    types = {drop.id: drop.type for drop in attempt.plan}
    counted: dict[str, int] = {}
    for item_id in attempt.payload["caught_items"]:
        item_type = types.pop(item_id, None)
        if item_type is None:
            continue
        before = counted.get(item_type, 0)
        if before < config.drops_by_type[item_type].max_catchable:
            counted[item_type] = before + 1
    return counted


def _fall_back(prize_id: str, wanted: dict[str, int], granted: dict[str, int], trail: Trail) -> None:
    """Add one unit of the fallback prize for each missing unit of other prizes, as far as it is available."""
    missing = sum(quantity - granted[other] for other, quantity in wanted.items() if other != prize_id)
    if prize_id and missing:
        own = granted.get(prize_id, 0)
        granted[prize_id] = trail.most_available(prize_id, own + missing, known=own)
