"""What Tombola tells other systems: the canonical events (spec.md, Events)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from runtime import ids, trace

PLAY_COMPLETED: Final = "play_completed"
PRIZE_WON: Final = "prize_won"
PRIZE_CLAIMED: Final = "prize_claimed"
QUEST_COMPLETED: Final = "quest_completed"
LEADERBOARD_FINALIZED: Final = "leaderboard_finalized"
TYPES: Final = (PLAY_COMPLETED, PRIZE_WON, PRIZE_CLAIMED, QUEST_COMPLETED, LEADERBOARD_FINALIZED)


class Event(msgspec.Struct, frozen=True):
    """One event. `id` is stable over every retry; occurred_at is unix seconds."""

    id: str
    type: str
    occurred_at: int
    tenant_id: str
    merchant_id: str
    campaign_id: str
    data: dict[str, Any]
    trace_id: str = ""


def new_event(
    type: str,
    *,
    occurred_at: float,
    tenant_id: str,
    merchant_id: str,
    campaign_id: str,
    data: dict[str, Any],
    trace_id: str | None = None,
) -> Event:
    """An event of this moment; in the current trace, where a batch does not say whose it is."""
    trace_id = trace.current.get() if trace_id is None else trace_id
    return Event(ids.make("evt"), type, int(occurred_at), tenant_id, merchant_id, campaign_id, data, trace_id)
