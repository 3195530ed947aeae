"""The payloads of a play, by game type."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from runtime.rules.reading import Name, Part

NETWORK_SLACK_MS: Final = 2000
"""How far a player's clock may run ahead of the time since start."""

MAX_SCORE: Final = 2**53 - 1
"""The highest score of any game: JSON numbers and sorted sets are doubles, exact up to here."""

MAX_DURATION_MS: Final = 2**53 - 1

UNTIMED_MS: Final = MAX_DURATION_MS
"""A time since start that no play exceeds. Validators get it when the game does not verify timing."""


class NoPayload(Part, frozen=True):
    """Spin, scratch, collection: an empty object."""


class ScorePayload(Part, frozen=True):
    """Egg-catcher: the score, and the play's duration."""

    score: Annotated[int, Meta(ge=0, le=MAX_SCORE)]
    duration_ms: Annotated[int, Meta(ge=1, le=MAX_DURATION_MS)]


class CaughtPayload(Part, frozen=True):
    """Gift-catcher: item ids of the drop plan, in the order in which they were caught."""

    caught_items: tuple[Name, ...]
