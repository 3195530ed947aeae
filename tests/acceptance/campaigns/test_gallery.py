"""The ready campaigns: each is a file that the command applies, and every game of it can be played as it is."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import aiohttp
import pytest

from runtime.commands import documents
from runtime.commands.groups.campaigns import show_gallery
from runtime.http import gallery
from tests.support.gallery import applied
from tests.support.world import World

PAYLOADS: dict[str, Any] = {
    "score_to_tier": ({"score": 0, "duration_ms": 1}, {"score": 20, "duration_ms": 60_000}),
    "collect_items": ({"caught_items": []}, {}),
}
"""What is played at once, and what somebody good would have reached."""


@pytest.mark.parametrize("name", gallery.ABOUT)
async def test_gallery_campaign_is_applied_and_its_games_can_be_played(world: World, name: str) -> None:
    stack = world.stack
    campaign_id = await applied(stack, name)
    made = (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})).data
    games = (await stack.admin("GET", "/admin/games", campaign_id=campaign_id)).data["items"]
    quests = (await stack.admin("GET", "/admin/quests", campaign_id=campaign_id)).data["items"]
    for quest in quests:
        assert (await stack.consumer("POST", f"/quests/{quest['id']}/complete", {}, player="ann")).data["turns_granted"]
    assert made["status"] == "CAMPAIGN_STATUS_ACTIVE" and games
    for game in games:
        at_once, well = PAYLOADS.get(game["reward_handler"], ({}, {}))
        assert (await world.round(game["id"], payload=at_once)).data["play_id"]
        run = (await stack.admin("POST", f"/admin/games/{game['id']}/test-plays", {"times": 500, "payload": well})).data
        assert any(row["outcome"] != "nothing" and row["count"] for row in run["frequencies"]), run["frequencies"]
        assert (await stack.consumer("GET", f"/games/{game['id']}/render")).data["ui"]["theme"]["primary"]


async def test_gallery_list_and_command_have_each_file(world: World) -> None:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"{world.stack.process.admin_url}/api/v1/gallery.json") as answer,
    ):
        shown = (await answer.json())["campaigns"]
    assert [row["name"] for row in shown] == list(gallery.ABOUT) and len(shown) == 8
    assert all(row["about"] and row["file"]["games"] and row["file"]["prizes"] for row in shown)
    for row in shown:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            show_gallery(row["name"])
        assert documents.parse(row["name"], said.getvalue()).value == row["file"]
