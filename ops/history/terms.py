"""What the checker must know of a tenant: its catalogue's bounds, by the names that the history calls things by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Bounds(NamedTuple):
    """What bounds a player's plays of a game. 0: no bound. daily: free plays; paid: each play takes a turn."""

    ever: int = 0
    daily: int = 0
    paid: bool = False


@dataclass(frozen=True)
class Terms:
    """A tenant's catalogue.

    zone: the campaign's, as it was made. names: of what has an id, by the id. bounds: of the bounded games.
    thresholds: coins that a rung needs, by its id. rung: the prize that rungs grant.
    born: the statuses that a prize's rewards begin with, of prizes that no worker delivers.
    stock: totals of the prizes whose every movement is in the history. quest_turns: what a completed quest gives.
    session_seconds: how long a session can be played. planned: games whose start reserves the player's next play.
    slack_seconds: how far clocks may be apart.
    """

    campaign: str
    names: Mapping[str, str]
    zone: str = "UTC"
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    thresholds: Mapping[str, int] = field(default_factory=dict)
    born: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rung: str = ""
    stock: Mapping[str, int] = field(default_factory=dict)
    quest_turns: int = 0
    session_seconds: float = 0.0
    planned: frozenset[str] = frozenset()
    slack_seconds: float = 2.0
