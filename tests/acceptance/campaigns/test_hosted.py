"""Hosted pages as they are kept: each address has its own, whatever else was asked for before."""

from __future__ import annotations

import re

import aiohttp
import pytest

from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, TENANT, Stack
from tests.support.world import World


@pytest.mark.settings(default_tenant=TENANT)
async def test_hosted_page_names_the_tenant_of_its_address_only(stack: Stack) -> None:
    """Pages are cached by address: the tenant of a header must not get into their links."""
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack), access="public")
    named = []
    async with aiohttp.ClientSession(stack.process.consumer_url) as browser:

        async def asked(query: str, **headers: str) -> None:
            address = f"/p/{game['id']}{query}"
            async with browser.get(
                address, headers={name.replace("_", "-"): one for name, one in headers.items()}
            ) as page:
                text = await page.text()
            named.append((page.status, re.findall(r' tenant="(.*?)"', text), re.findall(r"[?]tenant_id=(\w+)", text)))

        for _ in range(2):  # The second time of what is kept.
            await asked("")
            await asked("", X_Tenant_Id=stack.tenant_id)
            await asked(f"?tenant_id={stack.tenant_id}")
            await asked(f"?tenant_id={OTHER_TENANT}", X_Tenant_Id=stack.tenant_id)
            await asked(f"?tenant_id={stack.tenant_id}", X_Tenant_Id=OTHER_TENANT)
    plain, of_address = (200, [], []), (200, [stack.tenant_id], [stack.tenant_id])
    assert named == [plain, plain, of_address, of_address, (404, [], [])] * 2


async def test_hosted_page_has_a_preview_and_is_framed_by_the_campaign_s_origins(own_world: World) -> None:
    picture, brand = "https://brand.example/a.png?x=1&y=2", "https://*.brand.example"
    ui = {"picture": {"image": picture}, "background": {"image": "https://brand.example/b.png"}}
    game_id = await own_world.wheel(await own_world.prize(name="Mug"), name="Wheel & deal", ui=ui)
    changed = {"name": "Autumn Fair", "origins": [brand]}
    path = f"/admin/campaigns/{own_world.campaign_id}"
    assert (await own_world.stack.admin("PUT", path, changed)).code == "OK"
    pages = []
    async with aiohttp.ClientSession(own_world.stack.process.consumer_url) as browser:
        for address in (f"/p/{game_id}", f"/c/{own_world.campaign_id}"):
            async with browser.get(address, params={"tenant_id": own_world.stack.tenant_id}) as answer:
                pages.append(await answer.text())
                policy = answer.headers["Content-Security-Policy"]
                assert policy.endswith(f"frame-ancestors 'self' {brand}")
                assert "unsafe" not in policy and "script-src 'self';" in policy
    for part in (
        'property="og:title" content="Wheel &amp; deal · Autumn Fair"',
        'property="og:site_name" content="Autumn Fair"',
        'property="og:description" content="Mug"',
        "<title>Wheel &amp; deal · Autumn Fair</title>",
        'property="og:image" content="https://brand.example/a.png?x=1&amp;y=2"',
        'name="description" content="Mug"',
    ):
        assert part in pages[0], part
    assert "style=" not in pages[0]
