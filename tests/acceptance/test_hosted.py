"""Hosted pages as they are kept: each address has its own, whatever else was asked for before."""

from __future__ import annotations

import re

import aiohttp
import pytest

from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, TENANT, Stack


@pytest.mark.settings(default_tenant=TENANT)
async def test_a_page_names_its_tenant_where_its_address_does_and_no_other(stack: Stack) -> None:
    """What a page is kept by: a tenant of a header's is not the one that links of the page are to carry."""
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
            await asked("", X_Tenant_Id=TENANT)
            await asked(f"?tenant_id={TENANT}")
            await asked(f"?tenant_id={OTHER_TENANT}", X_Tenant_Id=TENANT)
            await asked(f"?tenant_id={TENANT}", X_Tenant_Id=OTHER_TENANT)
    plain, of_address = (200, [], []), (200, [TENANT], [TENANT])
    assert named == [plain, plain, of_address, of_address, (404, [], [])] * 2
