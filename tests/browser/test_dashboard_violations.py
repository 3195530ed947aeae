"""What does not add up, at the dashboard: found by the auditor, told on Home, looked at, and closed for a reason."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from runtime.operations.conservation import checks
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.stack import Stack, make_tenant
from tests.support.staff import at_desk
from tests.support.world import new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

HOLDS = "The sum of a ledger is its balance."


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stack(office: Stack) -> AsyncIterator[Stack]:
    """A tenant whose one player has 5 points that no ledger knows of."""
    stack = await make_tenant(office, "tenant_books")
    async with new_world(stack, name="Autumn Fair") as world:
        await world.round(await world.wheel(await world.prize()), "ann")
        row = "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance) VALUES ($1, $2, $3, $4, 5)"
        await stack.database.execute(row, stack.tenant_id, "ann", world.campaign_id, "points")
        await checks.audit(stack.database, stack.tenant_id)
        yield stack
        await stack.database.execute("DELETE FROM balances WHERE tenant_id = $1", stack.tenant_id)


async def test_what_does_not_add_up_is_found_from_home_and_closed_for_a_reason(browser: Browser, stack: Stack) -> None:
    open_ = (await stack.admin("GET", "/admin/violations", status="open")).data["items"]
    assert HOLDS in [one["holds"] for one in open_]
    async with at_desk(browser, stack, **STILL) as desk:
        await desk.enter("admin")
        await desk.page.click(f"section:has-text('{HOLDS}') a:text-is('Violations')")
        await desk.page.wait_for_url("**/violations?status=open")
        await desk.settled()
        row = desk.page.locator(f"tbody tr:has-text('{HOLDS}')")
        assert await row.locator("a").get_attribute("href") == "/dashboard/players/ann"
        await row.get_by_role("button").click()
        await desk.page.wait_for_selector("dialog dd.said:text-is('0')")
        assert await violations(desk.page) == []
        await desk.shot("dashboard-violation")
        await desk.press("Close it", within="dialog")
        assert await desk.page.locator("dialog :invalid").count() > 0, "a reason is required"
        await desk.page.locator("dialog [name=reason]").fill("5 points were typed into the table")
        await desk.press("Close it", within="dialog")
        await desk.page.wait_for_selector(".toast:has-text('The violation is closed.')")
        await row.wait_for(state="detached")
        await desk.to("/violations?status=closed")
        await row.get_by_role("button").click()
        said = await desk.page.inner_text("dialog")
        assert "5 points were typed into the table" in said and "Close it" not in said
    [noted] = (await stack.admin("GET", "/admin/audit", action="violation.close")).data["items"]
    assert noted["after"]["reason"] == "5 points were typed into the table"


async def test_who_may_not_close_it_looks_at_it(browser: Browser, stack: Stack) -> None:
    async with at_desk(browser, stack, **STILL) as desk:
        await desk.enter("designer", path="/violations")
        await desk.page.locator(f"tbody tr:has-text('{HOLDS}')").first.get_by_role("button").click()
        await desk.page.wait_for_selector("dialog dl.details")
        assert await desk.page.locator("dialog form").count() == 0
        assert desk.wrong == []
