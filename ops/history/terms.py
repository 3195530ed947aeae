"""What the checker must know of a tenant: its catalogue's limits, by the history's names."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Bounds(NamedTuple):
    """Limits on a player's plays of a game. 0: none. daily: free plays; paid: each play takes a turn."""

    ever: int = 0
    daily: int = 0
    paid: bool = False


@dataclass(frozen=True)
class Terms:
    """A tenant's catalogue.

    zone: the campaign's initial time zone. names: by id. bounds: of the limited games.
    thresholds: coins required for a milestone, by its id. rung: the prize that milestones grant.
    born: the initial statuses of a prize's rewards, for prizes that no worker delivers.
    stock: totals of the prizes with their complete history. quest_turns: turns for a completed quest.
    session_seconds: lifetime of a session. planned: games whose start reserves the player's next play.
    slack_seconds: maximum difference of clocks.
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
