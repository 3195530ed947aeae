"""The state of a campaign, or of one of its games: derived from status, dates and stock, and stored nowhere.

    ANNOUNCED     it has not begun
    RUNNING       it can be played
    PAUSED        staff paused it
    SOLD_OUT      it can be played, but no prize is left except the consolation
    CLAIMS_OPEN   it has ended, and winners can redeem until `redeem_until`
    ENDED         it has ended

The first of ended, paused and announced applies. A game may have dates of its own, within those of its campaign.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """The states; the values are those of CampaignState in game.proto, as stored tokens."""

    ANNOUNCED = "announced"
    RUNNING = "running"
    PAUSED = "paused"
    SOLD_OUT = "sold_out"
    CLAIMS_OPEN = "claims_open"
    ENDED = "ended"


REASONS: Final[Mapping[State, str]] = {
    State.ANNOUNCED: "NOT_STARTED",
    State.RUNNING: "",
    State.PAUSED: "PAUSED",
    State.SOLD_OUT: "SOLD_OUT",
    State.CLAIMS_OPEN: "ENDED",
    State.ENDED: "ENDED",
}
"""The `reason` of a game in each state."""


class Dates(NamedTuple):
    """When it begins and ends, and until when winners can redeem; in unix seconds, 0: unset."""

    start: int
    end: int
    redeem_until: int = 0

    def within(self, opens_at: int, closes_at: int) -> Dates:
        """The dates of a game with its own, in a campaign with these."""
        ends = [end for end in (self.end, closes_at) if end]
        return Dates(max(self.start, opens_at), min(ends, default=0), self.redeem_until)


def state_of(status: str, campaign_status: str, dates: Dates, now: float, *, sold_out: bool = False) -> State:
    """The state. status: of the game, or "active" for a campaign. sold_out: whether no prize is left."""
    if has_ended(campaign_status, dates.end, now):
        return State.CLAIMS_OPEN if now < dates.redeem_until else State.ENDED
    if (status, campaign_status) != ("active", "active"):
        return State.PAUSED
    if now < dates.start:
        return State.ANNOUNCED
    return State.SOLD_OUT if sold_out else State.RUNNING


def has_ended(campaign_status: str, end: int, now: float) -> bool:
    """The same rule as campaign_status() in schema.sql."""
    dated = campaign_status in ("active", "paused") and 0 < end <= now
    return dated or campaign_status == "ended"
