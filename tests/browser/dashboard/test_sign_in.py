from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from ops.servers.base import free_port
from runtime.http.feeds import live
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.chromium import Browser
from tests.support.issuer import CLIENT, Issuer
from tests.support.login import bearer
from tests.support.provider import providing, trusting
from tests.support.stack import TENANT, Stack, new_stack, settings_of
from tests.support.staff import Desk, at_desk
from tests.support.waiting import until
from tests.support.world import World, new_world

STORED: Final = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
TOKEN: Final = "sessionStorage.getItem('tombola.token')"
WHO: Final = "document.querySelector('.who-name b').textContent"


async def sign_in_by_token(desk: Desk, token: str) -> None:
    await desk.page.click("summary")
    await desk.page.fill("input[type=password]", token)
    await desk.page.keyboard.press("Enter")
    await desk.settled()


async def test_sign_in_link_asks_first_works_once_and_leaves_no_trace(desk: Desk, browser: Browser) -> None:
    """A link may be an attacker's, of another tenant: whoever follows it unaware works for the attacker."""
    link = desk.link("admin", subject="eve", path="/campaigns")
    await desk.page.goto(link)
    await desk.page.wait_for_selector(f"dialog:has-text('signs you in as eve of tenant {desk.stack.tenant_id}.')")
    assert desk.page.url == f"{desk.home}/campaigns" and await violations(desk.page) == []
    await desk.press("Cancel", within="dialog")
    await desk.until("!document.querySelector('dialog')")
    assert await desk.page.evaluate("sessionStorage.length") == 0
    assert not [one for one in desk.asked if "/auth/link" in one], "a link that was declined is still good"
    await desk.follow(link)
    await desk.settled()
    assert await desk.page.evaluate(WHO) == "eve" and await desk.title() == "Campaigns"
    assert desk.page.url == f"{desk.home}/campaigns"
    token = await desk.page.evaluate(TOKEN)
    assert token and token not in str(desk.asked) and link.partition("=")[2] not in str(desk.asked)
    assert await desk.page.evaluate("document.cookie + JSON.stringify({...localStorage})") == "{}"
    async with at_desk(browser, desk.stack) as other:
        await other.follow(link)
        assert "has been used" in await other.page.inner_text(".notice")
        await other.enter("admin", path="/campaigns")
        await other.follow(link)
        await other.page.wait_for_selector(".toast[data-tone=bad]")
        await other.page.reload()
        await other.settled()
        assert await other.page.evaluate(WHO) == "ann", "a used link leaves the session as it is"
        other.forgive("401")


async def test_sign_in_link_asks_before_it_replaces_a_session(
    desk: Desk, fair: World, service: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("admin", path="/campaigns")
    link = desk.link("admin", subject="eve", path="/campaigns")
    for loaded in (False, True):  # In the open page, and in one that is loaded with it.
        if loaded:
            await desk.page.goto("about:blank")
        await desk.page.goto(link)
        dialog = await desk.page.inner_text("dialog")
        assert "as ann" in dialog and "as eve" in dialog
        await desk.press("Cancel", within="dialog")
        await desk.settled()
        assert await desk.page.evaluate(WHO) == "ann"
    await desk.page.goto(link)
    await desk.press("Sign in", within="dialog")
    await desk.until(f"{WHO} === 'eve'")
    await desk.page.reload()
    await desk.settled()
    assert await desk.page.evaluate(WHO) == "eve"
    await desk.to("")
    await desk.page.wait_for_selector(".now[data-away=false]")
    streams = len([one for one in desk.asked if "/admin/live" in one])
    async with new_world(service, name="Of the other tenant"):
        await desk.page.goto(Desk(desk.page, service).link("admin", subject="ida"))
        await desk.press("Sign in", within="dialog", then="main td:has-text('Of the other tenant')")
        assert fair.campaign_id not in await desk.page.content(), "nothing of the first tenant is left"
        await desk.until("!!document.querySelector('.now[data-away=false]')")
        assert len([one for one in desk.asked if "/admin/live" in one]) > streams


async def test_oidc_sign_in_returns_and_sign_out_ends_session(browser: Browser, service: Stack, issuer: Issuer) -> None:
    async with at_desk(browser, service, **STILL) as desk:
        where = f"{desk.home}/campaigns?status=active"
        await desk.page.goto(where)
        await desk.press("Sign in with SSO", then="button:text-is('ann')")
        await desk.page.goto(f"{desk.home}?code=stolen&state=another")
        await desk.page.wait_for_selector(".notice:has-text('Sign-in failed')")
        assert desk.page.url == where and "tombola.token" not in await desk.page.evaluate(STORED)
        assert not [one for one in desk.asked if "finish" in one], "a code without its state is not exchanged"
        await desk.page.goto(where)
        await desk.press("Sign in with SSO")
        await desk.page.click("button:text-is('dora')")
        await desk.settled()
        assert desk.page.url == where and await desk.title() == "Campaigns" and await desk.page.evaluate(WHO) == "dora"
        assert issuer.refused == []
        token = await desk.page.evaluate(TOKEN)
        await desk.press("Sign out", then=".notice:has-text('signed out')")
        assert (await service.admin("GET", "/admin/me", roles=(), headers=bearer(token))).reason == "TOKEN_INVALID"
        assert token not in await desk.page.evaluate(STORED)
    async with at_desk(browser, service, **STILL) as desk:
        await desk.page.goto(desk.home)
        await desk.press("Sign in with SSO")
        await desk.click("button:text-is('eve')", then=".notice:has-text('has no role')")
        assert await desk.page.locator("nav a:has-text('Campaigns')").count() == 0
        desk.forgive("403")


async def test_only_an_ended_session_leads_to_sign_in(desk: Desk, fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("admin", path=f"/campaigns/{fair.campaign_id}")
    away = {"code": "UNAVAILABLE", "message": "", "trace_id": "", "data": {"reason": "STORE_UNAVAILABLE"}}
    await desk.page.route("**/admin/me", lambda route: route.fulfill(status=503, json=away))
    await desk.page.reload()
    await desk.page.wait_for_selector(".notice")
    await desk.page.unroute("**/admin/me")
    await desk.page.reload()
    await desk.settled()
    assert await desk.title() == "Autumn Fair"
    over = desk.stack.token("ann", ("admin",), seconds=-600)
    await desk.page.evaluate("(token) => sessionStorage.setItem('tombola.token', token)", over)
    await desk.page.reload()
    await desk.page.wait_for_selector(".notice:has-text('has expired')")
    assert over not in await desk.page.evaluate(STORED)
    assert (await desk.stack.admin("GET", "/admin/me", roles=(), headers=bearer(over))).reason == "TOKEN_EXPIRED"
    await sign_in_by_token(desk, desk.stack.token("bob", ("designer",)))
    assert await desk.title() == "Autumn Fair" and await desk.page.evaluate(WHO) == "bob"
    await desk.to("")
    await desk.page.wait_for_selector(".tiles.now")
    token = await desk.page.evaluate(TOKEN)
    await desk.stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(token))
    await desk.page.wait_for_selector(".notice:has-text('Your session has expired')")
    assert desk.page.url == desk.home and await desk.page.evaluate(TOKEN) is None
    await sign_in_by_token(desk, desk.stack.token("bob", ("designer",)))
    assert await desk.title() == "Home"
    desk.forgive("401", "503")


async def test_session_end_is_announced_and_silence_reconnected(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.page.clock.install()
    monkeypatch.setattr(live, "EVERY_SECONDS", 0.1)
    await desk.enter("admin")
    await desk.page.wait_for_selector(".now[data-away=false]")
    monkeypatch.setattr(live, "EVERY_SECONDS", 3600)
    before = len([one for one in desk.asked if "/admin/live" in one])
    await desk.page.clock.fast_forward(16_000)
    await desk.page.wait_for_selector(".now[data-away=true]")
    await desk.page.route("**/admin/live*", lambda route: route.abort())  # As while the edge restarts.
    async with desk.page.expect_event("requestfailed", lambda request: "/admin/live" in request.url):
        await desk.page.clock.fast_forward(2_000)
    await desk.page.unroute_all()

    async def reconnected() -> bool:
        await desk.page.clock.fast_forward(2_000)
        return await desk.page.locator(".now[data-away=false]").count() > 0

    await until(reconnected)
    assert len([one for one in desk.asked if "/admin/live" in one]) >= before + 2
    desk.forgive("ERR_FAILED")
    await desk.to("/campaigns")
    assert await desk.page.locator(".ending").count() == 0
    lasts = desk.stack.process.settings.staff_session_seconds
    await desk.page.clock.fast_forward((lasts - 5 * 60) * 1000)
    await desk.page.wait_for_selector(".ending:has-text('within ten minutes')")
    assert await desk.title() == "Campaigns"


SECRET: Final = "of 3 parts: a%2Fb+c/d&e=f"
"""With the characters that a header and a form encode differently."""


async def test_certified_provider_signs_staff_in(
    browser: Browser, make_database: Callable[[], str], valkey_url: str, tmp_path: Path
) -> None:
    url = f"http://127.0.0.1:{(port := free_port())}"
    own = {"default_tenant": TENANT, "role_matrix": "strict", **trusting(url), "oidc_client_secret": SECRET}
    async with new_stack(settings_of(make_database(), valkey_url, **own)) as stack:
        back = f"{stack.process.admin_url}/dashboard"
        client = {"client_id": CLIENT, "client_secret": SECRET, "redirect_uris": [back]}
        async with providing(port, client, tmp_path / "provider.log"), at_desk(browser, stack, **STILL) as desk:
            await desk.page.goto(f"{desk.home}/campaigns?status=active")
            await desk.press("Sign in with SSO")
            await desk.page.fill("[name=login]", "dora")
            await desk.page.fill("[name=password]", "any")
            await desk.page.click("[type=submit]")
            await desk.page.click("button:text-is('Continue')")
            await desk.settled()
            assert desk.page.url == f"{desk.home}/campaigns?status=active"
            token = await desk.page.evaluate(TOKEN)
            me = (await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))).data
            assert (me["subject"], me["tenant_id"], me["roles"]) == ("dora", TENANT, ["designer"])
            assert token not in str(desk.asked)
