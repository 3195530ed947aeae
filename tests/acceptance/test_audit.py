"""Every change leaves an entry: who, what, before and after, under which trace."""

from __future__ import annotations

from typing import Any

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
