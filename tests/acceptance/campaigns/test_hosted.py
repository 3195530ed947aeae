import contextlib
import io
import re
import time
from typing import Any

import aiohttp
import pytest

from runtime.commands import documents
from runtime.commands.groups.campaigns import show_gallery
from runtime.http import gallery
from runtime.operations.checks import TIME_MAX
from tests.support.gallery import applied
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, TENANT, Stack
from tests.support.world import World


@pytest.mark.settings(default_tenant=TENANT)
async def test_hosted_page_names_the_tenant_of_its_address_only(stack: Stack) -> None:
    """Pages are cached by address: the tenant of a header must not get into their links."""
    campaign = await make_campaign(stack)
    game, _ = [await make_game(stack, campaign["id"], await make_prize(stack), access="public") for _ in range(2)]
    named = []
    async with aiohttp.ClientSession(stack.process.consumer_url) as browser:

        async def load(query: str, **headers: str) -> None:
            address = f"/p/{game['id']}{query}"
            sent = {name.replace("_", "-"): one for name, one in headers.items()}
            async with browser.get(address, headers=sent) as page:
                text = await page.text()
            named.append((page.status, re.findall(r' tenant="(.*?)"', text), re.findall(r"[?]tenant_id=(\w+)", text)))

        for _ in range(2):  # The second time of what is kept.
            await load("")
            await load("", X_Tenant_Id=stack.tenant_id)
            await load(f"?tenant_id={stack.tenant_id}")
            await load(f"?tenant_id={OTHER_TENANT}", X_Tenant_Id=stack.tenant_id)
            await load(f"?tenant_id={stack.tenant_id}", X_Tenant_Id=OTHER_TENANT)
    plain, of_address = (200, [], []), (200, [stack.tenant_id], [stack.tenant_id])
    assert named == [plain, plain, of_address, of_address, (404, [], [])] * 2


async def test_hosted_page_has_a_preview_and_is_framed_by_the_campaign_s_origins(own_world: World) -> None:
    picture, brand = "https://brand.example/a.png?x=1&y=2", "https://*.brand.example"
    ui = {"picture": {"image": picture}, "background": {"image": "https://brand.example/b.png"}}
    game_id = await own_world.wheel(await own_world.prize(name="Mug"), name="Wheel & deal", ui=ui)
    changed = {"name": "Autumn Fair", "origins": [brand], "settings": {"description": "Win a mug."}}
    assert (await own_world.stack.admin("PUT", f"/admin/campaigns/{own_world.campaign_id}", changed)).code == "OK"
    pages = []
    async with aiohttp.ClientSession(own_world.stack.process.consumer_url) as browser:
        for address in (f"/p/{game_id}", f"/c/{own_world.campaign_id}"):
            async with browser.get(address, params={"tenant_id": own_world.stack.tenant_id}) as answer:
                pages.append(await answer.text())
                policy = answer.headers["Content-Security-Policy"]
                assert policy.endswith(f"frame-ancestors 'self' {brand}")
                assert "unsafe" not in policy and {"script-src 'self'", "form-action 'none'"} <= {*policy.split("; ")}
    for part in (
        'property="og:title" content="Wheel &amp; deal · Autumn Fair"',
        *('property="og:site_name" content="Autumn Fair"', 'property="og:description" content="Win a mug."'),
        "<title>Wheel &amp; deal · Autumn Fair</title>",
        'property="og:image" content="https://brand.example/a.png?x=1&amp;y=2"',
        'name="description" content="Win a mug."',
        '"description":"Win a mug."',  # The widget shows it: the campaign has no page of its games.
    ):
        assert part in pages[0], part
    assert "style=" not in pages[0]


async def test_campaign_page_opens_its_only_game_and_offers_several(own_world: World) -> None:
    stack, campaign = own_world.stack, own_world.campaign_id
    cover, terms = "https://brand.example/cover.png", "No purchase\n<needed>."

    async def page(address: str, starts: int = 2_000_000_000, zone: str = "Asia/Kathmandu", **settings: Any) -> str:
        body = {"name": "Autumn Fair", "settings": settings, "start_date": starts, "timezone": zone}
        assert (await stack.admin("PUT", f"/admin/campaigns/{campaign}", body)).code == "OK"
        async with aiohttp.ClientSession(stack.process.consumer_url) as browser:
            async with browser.get(address, params={"tenant_id": stack.tenant_id}) as answer:
                return await answer.text()

    assert "No games are available" in await page(f"/c/{campaign}")
    data, ui = "data:image/png;base64,AAAA", {"theme": {"primary": "#0b5c8a"}, "picture": {"emoji": "🍄"}}
    first = await own_world.wheel(await own_world.prize(), name="Wheel", ui={**ui, "background": {"image": data}})
    for address in (f"/c/{campaign}", f"/p/{first}"):
        only = await page(address, terms=terms)
        assert f'<tombola-game game="{first}"' in only and f'href="/c/{campaign}/terms?' in only
        assert 'class="back"' not in only, "it would lead to the same game"
    second = await own_world.wheel(await own_world.prize(), name="Card", ui={"picture": {"image": cover}})
    assert 'class="back"' in await page(f"/p/{first}")
    both = await page(f"/c/{campaign}", terms="https://brand.example/terms", picture=cover)
    assert re.findall(r'href="/p/(\w+)', both) == [second, first]
    assert both.count('<span class="play">View</span>') == 2
    assert both.count(">2033-05-18 09:18 +0545</time>") == 3, "on each card, and for the campaign"
    assert "🍄" in both and data not in both and both.count(f'<img src="{cover}"') == 1
    assert f'<img class="cover" src="{cover}"' in both and 'href="https://brand.example/terms"' in both
    assert "--primary:#0b5c8a" in both, "its games' theme, as the campaign has none"
    assert "--primary:teal" in await page(f"/c/{campaign}", theme={"primary": "teal"})
    assert ">9999-12-31 13:59 +14<" in await page(f"/c/{campaign}", TIME_MAX, "Pacific/Kiritimati")
    games = (await stack.consumer("GET", f"/public/campaigns/{campaign}")).data["games"]
    assert not any("ui" in game for game in games)


@pytest.mark.parametrize("name", gallery.ABOUT)
async def test_gallery_campaign_is_applied_and_its_games_can_be_played(world: World, name: str) -> None:
    stack = world.stack
    campaign_id = await applied(stack, name)
    made = (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"status": "active"})).data
    games = (await stack.admin("GET", "/admin/games", campaign_id=campaign_id)).data["items"]
    for quest in (await stack.admin("GET", "/admin/quests", campaign_id=campaign_id)).data["items"]:
        assert (await stack.consumer("POST", f"/quests/{quest['id']}/complete", {}, player="ann")).data["turns_granted"]
    assert made["status"] == "CAMPAIGN_STATUS_ACTIVE" and games
    payloads: dict[str, Any] = {
        "score_to_tier": ({"score": 0, "duration_ms": 1}, {"score": 20, "duration_ms": 60_000}),
        "collect_items": ({"caught_items": []}, {}),
    }
    for game in (game for game in games if int(game["start_date"]) < time.time()):
        at_once, well = payloads.get(game["reward_handler"], ({}, {}))
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
    assert [row["name"] for row in shown] == list(gallery.ABOUT) and len(shown) == 9
    assert all(row["about"] and row["file"]["games"] and row["file"]["prizes"] for row in shown)
    for row in shown:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            show_gallery(row["name"])
        assert documents.parse(row["name"], said.getvalue()).value == row["file"]
