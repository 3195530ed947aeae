"""Reward handler `lucky_item`: collection.

Config: `{items: [{item, weight, quantity, slot_index}]}`. Word 0 picks one item by its weight over the
total; the play credits `quantity` of the wallet currency `item`. There is no loss: to model one, list a
worthless item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Final

from msgspec import Meta

from runtime.rules.base import Attempt, Credit, Odds, Outcome, Worth
from runtime.rules.chances import Trail
from runtime.rules.draw import pick_certain, running_sums, scaled
from runtime.rules.payloads import NoPayload
from runtime.rules.reading import Name, Part, Violation, read

Payload = NoPayload

MAX_WEIGHT: Final = 1e12
MAX_QUANTITY: Final = 1_000_000_000
MAX_SLOT_INDEX: Final = 1_000_000


class LuckyItem(Part, frozen=True):
    """A currency, its weight in the draw, how many units a pick credits, and where the ui shows it."""

    item: Name
    weight: Annotated[float, Meta(ge=0, le=MAX_WEIGHT)]
    quantity: Annotated[int, Meta(ge=1, le=MAX_QUANTITY)]
    slot_index: Annotated[int, Meta(ge=-1, le=MAX_SLOT_INDEX)]


class Config(Part, frozen=True, dict=True):
    items: tuple[LuckyItem, ...]

    @cached_property
    def sums(self) -> tuple[float, ...]:
        """Running sums of the weights, each over their total."""
        return running_sums(scaled([item.weight for item in self.items]))

    def broken_rules(self, path: str) -> Iterable[Violation]:
        if not any(item.weight for item in self.items):
            yield f"{path}.items", "at least one item needs a weight above 0"


def parse(raw: Mapping[str, Any]) -> Config:
    return read(Config, raw, "handler_config")


def prizes(config: Config) -> Iterable[tuple[str, str]]:
    """None: wallet items are not prizes."""
    return ()


def currencies(config: Config) -> Iterable[str]:
    """Every item, once, in the list's order."""
    return dict.fromkeys(item.item for item in config.items)


def most(config: Config, worth: Worth) -> float:
    """The maximum that one play gives: the most valuable item that can be drawn."""
    return max(worth(Credit(item.item, item.quantity)) for item in config.items if item.weight)


def odds(config: Config) -> Iterable[Odds]:
    shares = scaled([item.weight for item in config.items])
    return ((share, [Credit(one.item, one.quantity)]) for share, one in zip(shares, config.items, strict=True))


def decide(attempt: Attempt) -> Outcome:
    """One credit. Metadata: `item`, `quantity`, `slot_index`."""
    config: Config = attempt.config
    trail = Trail(attempt)
    lucky = config.items[pick_certain(config.sums, trail.word(0))]
    metadata = {"item": lucky.item, "quantity": lucky.quantity, "slot_index": lucky.slot_index}
    return Outcome([], [Credit(lucky.item, lucky.quantity)], metadata, trail.path, 0)
