"""An event of a delivery that is given up names the moment it happened, however often it is told."""

from __future__ import annotations

from datetime import UTC, datetime

from runtime.actors.deliveries import failed_event
from runtime.events import DeliveryFailed


def test_same_delivery_that_ends_at_the_same_moment_is_the_same_event() -> None:
    at = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    row = {"id": "task_abc", "at": at, "merchant_id": "shop", "campaign_id": "camp", "attempts": 8}
    row |= dict.fromkeys(("reward_id", "player_id", "prize_id", "channel", "error"), "x")
    event = failed_event("t", row, "f" * 32)
    assert event.id == f"evt_abc_{int(at.timestamp())}250000"
    assert (event.tenant_id, event.merchant_id, event.campaign_id) == ("t", "shop", "camp")
    assert (event.occurred_at, event.trace_id) == (int(at.timestamp()), "f" * 32)
    assert isinstance(event.data, DeliveryFailed) and (event.data.task_id, event.data.attempts) == ("task_abc", 8)
