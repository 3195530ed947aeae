"""Claims that go to the database together, and the answers that they bring."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from runtime import messages as m
from runtime.actors import claims
from runtime.actors.claims import Claimer
from runtime.actors.mailbox import Work
from runtime.errors import Fault
from runtime.metrics import FULFILLMENT_TASKS


def claim(reward_id: str, player_id: str = "ann", answers: dict[str, Any] | None = None) -> Work[Any]:
    request = m.ClaimRewardRequest(id=reward_id, player_id=player_id, answers=answers)
    return Work(request, asyncio.get_running_loop().create_future())


def problems(refused: Fault) -> list[tuple[str, str]]:
    return [(row["field"], row["description"]) for row in refused.facts["violations"]]


async def test_claim_without_a_player_is_refused_and_the_others_go_on() -> None:
    nobody, anns, odd = claim("r1", ""), claim("r1"), claim("r2", answers={"name": 7})
    assert claims._groups([nobody, anns, odd]) == [[anns]]
    assert problems(cast(Fault, nobody.future.exception())) == [("player_id", "is required")]
    assert problems(cast(Fault, odd.future.exception())) == [("answers.name", "must be a string")]


class Publisher:
    def __init__(self) -> None:
        self.published: list[str] = []

    def tasks(self, _: str, task_ids: Sequence[str]) -> None:
        self.published += task_ids

    def events(self, events: Any) -> None:
        self.published += [event.type for event in events]


def test_delivery_with_its_claim_is_counted() -> None:
    row = dict.fromkeys(("player_id", "prize_id", "name", "type", "game_id", "play_id", "milestone_id"), "")
    row |= {"status": "fulfilled", "campaign_id": "camp", "merchant_id": None, "sent_task_id": None}
    claimed: dict[str, Any] = {**row, "value": 1, "quantity": 1, "claimed_at": 1.0, "outcome": "claimed"}
    publisher = Publisher()
    claimer = cast(Claimer, SimpleNamespace(engine=SimpleNamespace(publisher=publisher), tenant_id="t"))
    before = FULFILLMENT_TASKS.labels("delivered")._value.get()
    rows = [
        {**claimed, "reward_id": "r1", "delivered": True, "awaiting": False},
        {**claimed, "reward_id": "r2", "delivered": True, "awaiting": False},
        {**claimed, "reward_id": "r3", "delivered": False, "awaiting": False, "sent_task_id": "task_1"},
        {"reward_id": "r4", "outcome": "illegal", "delivered": True, "awaiting": False},
    ]
    claims._publish(claimer, dict.fromkeys(("r1", "r2", "r3", "r4"), ""), rows)
    assert FULFILLMENT_TASKS.labels("delivered")._value.get() == before + 2
    assert publisher.published == ["task_1", *["prize_claimed"] * 3]
