"""Reward handler `moments`: a play wins the first prize that is free.

Config: `{prizes: [{prize_id}]}`. Nothing is drawn: time and the order of the plays decide. A prize becomes free by its
`release` schedule (release.py). Without one, plays win it until it is sold out. A play that finds no free prize gets
the fallback prize if `on_unavailable` is `fallback`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from runtime.rules.base import Attempt, Award, Outcome
from runtime.rules.chances import Trail, first_available
from runtime.rules.payloads import NoPayload
from runtime.rules.reading import Name, Part, Violation, read

Payload = NoPayload

PRIZES_MAX: Final = 50
"""Each prize may add a step to the path of every play."""


class MomentPrize(Part, frozen=True):
    prize_id: Name


class Config(Part, frozen=True):
    prizes: tuple[MomentPrize, ...]

    def broken_rules(self, path: str) -> Iterable[Violation]:
        if len(self.prizes) > PRIZES_MAX:
            yield f"{path}.prizes", f"must be at most {PRIZES_MAX}"


def parse(raw: Mapping[str, Any]) -> Config:
    return read(Config, raw, "handler_config")


def prizes(config: Config) -> Iterable[tuple[str, str]]:
    return ((f"handler_config.prizes[{i}].prize_id", prize.prize_id) for i, prize in enumerate(config.prizes))


def currencies(config: Config) -> Iterable[str]:
    return ()


def decide(attempt: Attempt) -> Outcome:
    """At most one prize. Metadata: `slot_index`."""
    trail = Trail(attempt)
    prize_id, slot_index = first_available([prize.prize_id for prize in attempt.config.prizes], trail)
    awards = [] if prize_id is None else [Award(prize_id, 1)]
    return Outcome(awards, [], {"slot_index": slot_index}, trail.path, 0)
