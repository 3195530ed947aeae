"""The dashboard's people and tokens, merchants and tenants: made, changed and ended without curl."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest
import pytest_asyncio

from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.stack import Stack, make_tenant
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCREENS = ((375, "light"), (1280, "dark"))
EVIL = "\"'><img src=x onerror=window.evil=1>{count}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def house(office: Stack) -> Stack:
    """A tenant whose people and tokens are nobody else's."""
    return await make_tenant(office, "tenant_people")


async def opens(stack: Stack, token: str) -> bool:
    return (await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))).code == "OK"


async def ends(stack: Stack, token: str) -> None:
    async def refused() -> bool:
        return not await opens(stack, token)

    await until(refused)


async def test_a_token_is_made_shown_once_and_revoked(desk: Desk, house: Stack) -> None:
    page = desk.page
    await desk.enter("admin", path="/people")
    await desk.press("New token")
    await page.fill("dialog [name=name]", "   ")
    await desk.press("Make the token", within="dialog")
    await page.wait_for_selector("dialog [name=name][aria-invalid=true]")
    desk.forgive("400")
    await page.fill("dialog [name=name]", EVIL)
    await page.select_option("dialog [name='roles[0]']", "designer")
    await desk.press("Make the token", within="dialog")
    token = await page.input_value("dialog input[aria-label=Token]")
    assert token.startswith("tmb_") and await opens(house, token)
    await desk.press("Close", within="dialog footer")
    await desk.page.reload()
    await desk.settled()
    assert token not in await page.content()
    shown = await page.inner_text(".list tbody tr")
    assert EVIL in shown and "Designer" in shown and "ann" in shown and "Active" in shown
    await desk.press("Revoke", within=".list tbody")
    asked = await page.inner_text("dialog")
    assert "refused within a second" in asked and "last used in the hour of" in asked and EVIL in asked
    await desk.press("Revoke", within="dialog")
    assert await desk.told() == "The token is revoked"
    await page.wait_for_selector(".list tbody .status:text-is('Revoked')")
    assert not await page.locator(".list tbody").get_by_role("button", name="Revoke").count()
    await ends(house, token)
    assert await page.evaluate("window.evil") is None


async def test_somebody_s_sessions_are_ended(desk: Desk, house: Stack) -> None:
    session = house.token("bob", ("designer",))
    assert await opens(house, session)
    await desk.enter("admin", path="/people")
    row = desk.page.locator(".part tr:has(td:text-is('bob'))").first
    await row.get_by_role("button", name="End sessions").click()
    assert "signed out everywhere" in await desk.page.inner_text("dialog")
    await desk.press("End sessions", within="dialog")
    assert await desk.told() == "Their sessions are ended"
    await ends(house, session)


NAV: Final = "document.querySelector('#nav').innerText"


async def test_each_role_sees_what_it_may_do(desk: Desk, house: Stack) -> None:
    await house.admin("POST", "/admin/tokens", {"name": "ci", "roles": ["designer"]})
    for role in ("designer", "platform"):
        await desk.enter(role, path="/people")
        await desk.until(f"!!document.querySelector('main tbody') === {str(role == 'designer').lower()}")
        buttons = await desk.page.locator("main").get_by_role("button").all_inner_texts()
        assert not {"New token", "Revoke", "End sessions"} & {*buttons}, role
    await desk.until(f"{NAV}.includes('Tenants')")
    nav = await desk.page.inner_text("#nav")
    assert "Merchants" not in nav and "People" not in nav
    await desk.enter("admin", path="/people")
    await desk.until(f"{NAV}.includes('Merchants')")
    assert "Tenants" not in await desk.page.inner_text("#nav")
    # A merchant's own staff changes no merchant, and ends nobody's sessions.
    merchant_id = await make_merchant(house)
    token = replace(house, merchant_id=merchant_id).token("mel", ("admin",))
    await desk.page.evaluate("token => sessionStorage.setItem('tombola.token', token)", token)
    await desk.to("/merchants")
    await desk.until("document.querySelectorAll('main tbody tr').length === 1")
    assert not await desk.page.get_by_role("button", name="Change").count()


@pytest.mark.parametrize(
    ("role", "path", "new"), [("admin", "/merchants", "merchant"), ("platform", "/tenants", "tenant")]
)
async def test_merchants_and_tenants_are_made_renamed_and_suspended(
    desk: Desk, house: Stack, role: str, path: str, new: str
) -> None:
    page = desk.page
    await desk.enter(role, path=path)
    await desk.press(f"New {new}", within="main")
    await page.fill("dialog [name=name]", f"Fair {EVIL}")
    if new == "tenant":
        await desk.press("Add to origins", within="dialog")
        await page.fill("dialog [name='origins[0]']", "https://fair.example")
    await desk.press(f"New {new}", within="dialog")
    made, row = page.locator("tbody tr", has_text="Fair "), page.locator("tbody tr", has_text="High ")
    await made.get_by_role("button", name="Change").click()
    await page.fill("dialog [name=name]", f"High {EVIL}")
    await desk.press("Change", within="dialog")
    await row.wait_for()
    if new == "tenant":
        assert "https://fair.example" in await row.inner_text()
    await row.get_by_role("button", name="Suspend").click()
    assert "until it is restored" in await page.inner_text("dialog")
    await desk.press("Suspend", within="dialog")
    await row.locator(".status:text-is('Suspended')").wait_for()
    await row.get_by_role("button", name="Restore").click()
    await desk.press("Restore", within="dialog")
    await row.locator(".status:text-is('Active')").wait_for()
    assert await page.evaluate("window.evil") is None


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_these_pages_fit_their_windows_and_axe_finds_nothing(
    browser: Browser, house: Stack, width: int, scheme: str
) -> None:
    for name in ("Nightly import", "Till"):
        await house.admin("POST", "/admin/tokens", {"name": name, "roles": ["reward_manager", "designer"]})
    await make_merchant(house)
    found: dict[str, list[str]] = {}
    options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with at_desk(browser, house, **options) as desk:

        async def look(name: str) -> None:
            found[name] = await violations(desk.page)
            await desk.shot(f"dashboard-{name}-{width}-{scheme}")
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not await desk.page.evaluate(wide), name

        for role, path, new in (
            ("admin", "/people", "New token"),
            ("admin", "/merchants", "New merchant"),
            ("platform", "/tenants", "New tenant"),
        ):
            await desk.enter(role, path=path)
            await look(path[1:])
            await desk.press(new, within="main")
            await desk.page.wait_for_selector("dialog form")
            await look(f"{path[1:]}-new")
        await desk.page.keyboard.press("Escape")
    assert {view: told for view, told in found.items() if told} == {}
