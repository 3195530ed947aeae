"""Every change leaves an entry: who, what, before and after, under which trace."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from tests.support.operations import furnish
from tests.support.resources import make_campaign, make_game, make_prize


async def entries(stack: Any, **query: str) -> list[dict[str, Any]]:
    return list((await stack.admin("GET", "/admin/audit", **query)).data["items"])


async def test_change_is_noted_with_who_before_after_and_trace(stack: Any) -> None:
    campaign = await make_campaign(stack)
    answer = await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"name": "Winter"})
    newest, oldest = await entries(stack, subject_type="campaign", subject_id=campaign["id"])
    assert (newest["action"], newest["subject_type"], newest["subject_id"]) == (
        "campaign.update",
        "campaign",
        campaign["id"],
    )
    assert newest["actor"] == "staff_test"
    assert newest["trace_id"] == answer.envelope["trace_id"]
    assert (newest["before"]["name"], newest["after"]["name"]) == ("Autumn", "Winter")
    assert oldest["action"] == "campaign.create"
    assert newest["created_at"] > 0
    assert await entries(stack, actor="somebody else") == []


async def test_every_kind_of_change_is_noted_and_refused_ones_are_not(stack: Any) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    assert (await stack.admin("DELETE", f"/admin/prizes/{prize_id}")).reason == "IN_USE"
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"status": "paused"})
    await stack.admin("DELETE", f"/admin/games/{game['id']}")
    await stack.admin("DELETE", f"/admin/prizes/{prize_id}")
    await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})
    assert [entry["action"] for entry in await entries(stack)] == [
        "campaign.duplicate",
        "prize.delete",
        "game.delete",
        "game.update",
        "game.create",
        "prize.create",
        "campaign.create",
    ]


async def test_an_import_of_codes_is_noted_without_the_codes(stack: Any) -> None:
    prize_id = await make_prize(stack, fulfillment={"channel": "voucher_code"})
    body = {"codes": ["MARKER-1", "MARKER-2"]}
    for _ in range(2):
        assert (await stack.admin("POST", f"/admin/prizes/{prize_id}/codes", body)).data
    again, first = (await entries(stack, subject_id=prize_id))[:2]
    assert (first["action"], first["actor"]) == ("prize.import_codes", "staff_test")
    assert (first["after"], again["after"]) == ({"added": 2, "duplicates": 0}, {"added": 0, "duplicates": 2})
    assert "MARKER" not in str(await entries(stack))


async def test_an_event_that_was_made_up_is_noted(stack: Any) -> None:
    emitted = (await stack.admin("POST", "/admin/integrations/emit", {"type": "prize_won", "data": {}})).data
    (entry,) = await entries(stack, subject_id=emitted["event_id"])
    assert (entry["action"], entry["actor"], entry["after"]["type"]) == ("event.emit", "staff_test", "prize_won")


async def test_a_retry_of_a_task_is_noted_and_a_refused_one_is_not(stack: Any) -> None:
    known = await furnish(stack)
    path = f"/admin/fulfillment/tasks/{known['task']}/retry"
    await stack.database.execute("UPDATE tasks SET status = 'dead', next_attempt_at = NULL, lease_until = NULL")
    assert (await stack.admin("POST", path, {})).data
    (entry,) = await entries(stack, subject_id=known["task"])
    assert (entry["action"], entry["subject_type"], entry["actor"]) == ("task.retry", "task", "staff_test")
    await stack.database.execute("UPDATE tasks SET status = 'delivered', next_attempt_at = NULL, lease_until = NULL")
    assert (await stack.admin("POST", path, {})).reason == "ILLEGAL_TRANSITION"
    assert len(await entries(stack, subject_id=known["task"])) == 1


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_entries SET actor = 'x'", "DELETE FROM audit_entries", "TRUNCATE audit_entries"]
)
async def test_the_database_itself_refuses_to_rewrite_an_entry(stack: Any, statement: str) -> None:
    """The role of these tests is a superuser: what it may not, nobody may."""
    await make_campaign(stack)
    before = await entries(stack)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stack.database.execute(statement)
    assert before and await entries(stack) == before
