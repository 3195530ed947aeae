"""The turns of a player, by campaign and page by page."""

from __future__ import annotations

from tests.support.quests import open_campaign, open_quest
from tests.support.stack import Stack


async def test_turns_come_by_campaign_and_in_pages(stack: Stack) -> None:
    campaigns = sorted([await open_campaign(stack) for _ in range(5)])
    for turns, campaign_id in enumerate(campaigns, 1):
        quest_id = await open_quest(stack, campaign_id, turns=turns)
        await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    seen, cursor = [], ""
    while True:
        page = (await stack.consumer("GET", "/players/me/turns", player="player_1", limit=2, cursor=cursor)).data
        seen += [(row["campaign_id"], row["balance"]) for row in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
    assert seen == list(zip(campaigns, range(1, 6), strict=True))
    one = (await stack.consumer("GET", "/players/me/turns", player="player_1", campaign=campaigns[2])).data
    assert [row["balance"] for row in one["items"]] == [3]


async def test_another_player_has_none(stack: Stack) -> None:
    quest_id = await open_quest(stack, await open_campaign(stack))
    await stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="player_1")
    assert (await stack.consumer("GET", "/players/me/turns", player="player_2")).data["items"] == []


async def test_nobody_has_no_turns_to_read(stack: Stack) -> None:
    assert (await stack.consumer("GET", "/players/me/turns")).reason == "TOKEN_MISSING"
