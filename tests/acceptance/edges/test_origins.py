from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.shared import SharedService
from tests.support.stack import OTHER_TENANT, Answer, Stack
from tests.support.waiting import until

BRAND, BELOW = "https://brand.example", "https://*.brand.example"
SHOP = "https://shop.brand.example"
PLATFORM = ("admin", "platform")
ALLOWED = "Access-Control-Allow-Origin"


@pytest.fixture
async def shop(bare_service: SharedService) -> AsyncIterator[Stack]:
    """A stack of its own: an edge remembers lists of tenants."""
    async with bare_service.own_stack() as stack:
        yield stack


async def preflight(stack: Stack, origin: str, path: str = "/games/game_1/play") -> tuple[int, str]:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    async with stack.http.options(f"{stack.process.consumer_url}/api/v1{path}", headers=headers) as answer:
        return answer.status, answer.headers.get(ALLOWED, "")


async def readable(stack: Stack, origin: str, path: str, player: str = "", **headers: str) -> bool:
    way: tuple[Any, ...] = ("POST", path, {}) if path.endswith("complete") else ("GET", path)
    answer = await stack.consumer(*way, player=player, headers={"Origin": origin, **headers})
    assert "Origin" in answer.headers["Vary"] and "Access-Control-Allow-Credentials" not in answer.headers
    assert answer.headers.get(ALLOWED, origin) == origin
    return ALLOWED in answer.headers


async def of_tenant(stack: Stack, tenant_id: str, *origins: str) -> Answer:
    return await stack.admin("PUT", f"/admin/tenants/{tenant_id}", {"origins": [*origins]}, roles=PLATFORM)


async def test_origin_of_a_tenant_reads_its_own_and_nothing_of_another(shop: Stack) -> None:
    game = await make_game(shop, (await make_campaign(shop))["id"], access="GAME_ACCESS_PUBLIC")
    render = f"/games/{game['id']}/render"
    assert await preflight(shop, BRAND) == (403, "")
    assert not await readable(shop, BRAND, render)
    assert (await of_tenant(shop, shop.tenant_id, BRAND)).data["origins"] == [BRAND]

    async def is_allowed() -> bool:
        return await readable(shop, BRAND, render) and await preflight(shop, BRAND) == (200, BRAND)

    await until(is_allowed)
    for like in (SHOP, "https://brand.example.evil.test", "https://evilbrand.example", "null"):
        assert await preflight(shop, like) == (403, "") and not await readable(shop, like, render)
    start = {"Origin": BRAND, "Idempotency-Key": "start-1"}
    started = await shop.consumer("POST", f"/games/{game['id']}/start", {}, headers=start)
    assert started.headers[ALLOWED] == BRAND and started.data["session_id"]
    other = f"Bearer {shop.token('ann', tenant_id=OTHER_TENANT)}"
    assert not await readable(shop, BRAND, "/wallet", Authorization=other), "its preflight may pass, its answer not"
    assert not await readable(shop, BRAND, "/games/game_1/render", **{"X-Tenant-Id": OTHER_TENANT})
    assert await readable(shop, BRAND, "/wallet", Authorization="Bearer expired"), "so that it may log in again"
    await of_tenant(shop, shop.tenant_id)

    async def ended() -> bool:
        return not await readable(shop, BRAND, render) and await preflight(shop, BRAND) == (403, "")

    await until(ended)


async def test_origin_of_a_campaign_plays_its_games_and_no_others(shop: Stack) -> None:
    mine = await make_campaign(shop, origins=[BELOW], budget={"amount": 5_000, "currency": "EUR"})
    theirs = await make_campaign(shop)
    hidden = await make_campaign(shop, origins=["https://draft.example"], status="CAMPAIGN_STATUS_DRAFT")
    game, other = [(await make_game(shop, one["id"]))["id"] for one in (mine, theirs)]
    assert await preflight(shop, SHOP) == (200, SHOP)
    assert await preflight(shop, BRAND) == (403, ""), "the wildcard is of names below"
    assert await preflight(shop, "https://draft.example") == (403, ""), hidden
    assert await readable(shop, SHOP, "/wallet", player="ann"), "what is of no campaign"
    assert not await readable(shop, SHOP, "/games/game_none/render")
    prizes = [{"prize_id": await make_prize(shop), "count": 1}]
    draw = {"tickets": {"entries": True}, "prizes": prizes, "randomness": {"kind": "INTERNAL"}}
    parts = {"quests": {"turns": 1}, "leaderboards": {"metric": "plays", "mode": "sum"}, "draws": draw}.items()
    for one, game_id, own in ((mine["id"], game, True), (theirs["id"], other, False)):
        asked = [(f"/admin/{kind}", {"campaign_id": one, "name": "N", **part}) for kind, part in parts]
        quest, board, raffle = [(await shop.admin("POST", *each)).data["id"] for each in asked]
        paths = [f"/games/{game_id}/render", f"/public/campaigns/{one}", f"/campaigns/{one}/entry", f"/draws/{raffle}"]
        paths += [f"/leaderboards/{board}/rankings", f"/quests/{quest}/complete"]
        assert {path: await readable(shop, SHOP, path, player="ann") for path in paths} == dict.fromkeys(paths, own)
    shown = (await shop.consumer("GET", f"/public/campaigns/{mine['id']}")).data
    assert shown["name"] == mine["name"] and not shown.keys() & {"budget", "origins"}, "what is staff's alone"


async def test_origins_are_kept_noted_copied_and_set_alone(stack: Stack) -> None:
    made = await make_campaign(stack, origins=[BRAND, BELOW])
    path = f"/admin/campaigns/{made['id']}"
    assert made["origins"] == [BRAND, BELOW]
    assert (await stack.admin("PUT", path, {"name": "Other"})).data["origins"] == [BRAND, BELOW]
    assert (await stack.admin("POST", f"{path}/duplicate", {})).data["origins"] == [BRAND, BELOW]
    assert (await stack.admin("PUT", path, {"origins": []})).data["origins"] == []
    body = {"campaign": {"origins": [SHOP], "name": "unread"}, "update_mask": ["origins"]}
    changed = (await stack.core("PUT", f"/campaigns/{made['id']}", body)).data["campaign"]
    assert (changed["origins"], changed["name"]) == ([SHOP], "Other")
    entries = (await stack.admin("GET", "/admin/audit", subject_id=made["id"])).data["items"]
    assert [(one["before"] or {}).get("origins") for one in entries][:2] == [[], [BRAND, BELOW]]
    assert [one["after"]["origins"] for one in entries][:2] == [[SHOP], []]
    await of_tenant(stack, stack.tenant_id, SHOP)
    entries = (await stack.admin("GET", "/admin/audit", subject_id=stack.tenant_id)).data["items"]
    assert entries[0]["after"]["origins"] == [SHOP]
    assert (await of_tenant(stack, stack.tenant_id)).data["origins"] == []
