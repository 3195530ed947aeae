"""Reward handler `probability`: spin wheel and scratch card.

Config: `{prizes: [{prize_id, probability}]}`. Probabilities lie in [0, 1] and add up to at most 1;
the rest is "no prize". With an empty list every play loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from runtime.rules.base import Attempt, Award, Odds, Outcome
from runtime.rules.chances import Chances, PrizeChance, Trail, draw_prize, sum_violations
from runtime.rules.payloads import NoPayload
from runtime.rules.reading import Part, Violation, read

Payload = NoPayload


class Config(Part, frozen=True, dict=True):
    prizes: tuple[PrizeChance, ...]

    @cached_property
    def chances(self) -> Chances:
        return Chances(self.prizes)

    def broken_rules(self, path: str) -> Iterable[Violation]:
        return sum_violations(self.prizes, f"{path}.prizes")


def parse(raw: Mapping[str, Any]) -> Config:
    return read(Config, raw, "handler_config")


def prizes(config: Config) -> Iterable[tuple[str, str]]:
    return ((f"handler_config.prizes[{i}].prize_id", prize.prize_id) for i, prize in enumerate(config.prizes))


def winnable(config: Config) -> Iterable[str]:
    return (prize.prize_id for prize in config.prizes if prize.probability)


def currencies(config: Config) -> Iterable[str]:
    return ()


def odds(config: Config) -> Iterable[Odds]:
    return ((prize.probability, [Award(prize.prize_id, 1)]) for prize in config.prizes)


def decide(attempt: Attempt) -> Outcome:
    """At most one prize. Metadata: `slot_index`."""
    trail = Trail(attempt)
    prize_id, slot_index = draw_prize(attempt.config.chances, trail)
    awards = [] if prize_id is None else [Award(prize_id, 1)]
    return Outcome(awards, [], {"slot_index": slot_index}, trail.path, 0)
