"""The docs page, in a real browser that can reach nothing but the stack."""

from __future__ import annotations

import re

import pytest

from runtime.http.docs.openapi import document
from runtime.operations import API
from tests.support.browsing import Visit
from tests.support.stack import Stack
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_page_loads_only_its_own_files(shop: Stack) -> None:
    """What the page names is served, from the same host, under a policy that forbids all others."""
    base = f"{shop.process.consumer_url}{API}/"
    async with shop.http.get(f"{base}docs") as answer:
        page = await answer.text()
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "http" not in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert named and not [name for name in named if "//" in name]
    for name in named:
        async with shop.http.get(base + name) as answer:
            assert answer.status == 200, name
            assert answer.headers["Content-Type"].split("/")[0] in ("text", "image", "application")


@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_a_browser_shows_every_operation(visit: Visit, shop: Stack, surface: str) -> None:
    # So tall that every operation is in sight: of many, the page draws those that are.
    await visit.page.set_viewport_size({"width": 1400, "height": 20_000})
    await visit.page.goto(f"{getattr(shop.process, f'{surface}_url')}{API}/docs")
    rows = [row for verbs in document(surface)["paths"].values() for row in verbs.values()]  # type: ignore[arg-type]
    ids = {f"operations-{row['tags'][0]}-{row['operationId']}" for row in rows}
    assert ids

    async def shown() -> bool:
        found = await visit.page.locator("[id^=operations-]").evaluate_all("(all) => all.map((one) => one.id)")
        return ids <= set(found)

    await until(shown)
    assert "Failed to load API definition" not in await visit.page.content()
