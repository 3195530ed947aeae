"""Signing in at an OpenID provider that is not ours, and is certified: as each kind of client, and as none of its."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from ops.servers.base import free_port
from tests.support.browsing import STILL
from tests.support.issuer import CLIENT
from tests.support.login import bearer
from tests.support.provider import providing, trusting
from tests.support.stack import TENANT, new_stack, settings_of
from tests.support.staff import Desk, at_desk

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "of 3 parts: a%2Fb+c/d&e=f"
"""With all that is written otherwise where it is said in a header, or in a form."""

TOKEN = "sessionStorage.getItem('tombola.token')"


@pytest_asyncio.fixture(loop_scope="session")
async def desk(
    request: Any, browser: Browser, make_database: Callable[[], str], valkey_url: str, tmp_path: Path
) -> AsyncIterator[Desk]:
    """Somebody at an edge whose staff sign in at the provider: (how its client says who it is, the secret it has)."""
    way, secret = request.param
    url = f"http://127.0.0.1:{(port := free_port())}"
    own = {"default_tenant": TENANT, "role_matrix": "strict", **trusting(url), "oidc_client_secret": secret}
    async with new_stack(settings_of(make_database(), valkey_url, **own)) as stack:
        back = f"{stack.process.admin_url}/dashboard"
        client = {"client_id": CLIENT, "token_endpoint_auth_method": way, "redirect_uris": [back]}
        registered = client if way == "none" else {**client, "client_secret": SECRET}
        async with providing(port, registered, tmp_path / "provider.log"), at_desk(browser, stack, **STILL) as desk:
            yield desk


async def say_who(desk: Desk, who: str, path: str = "") -> None:
    """Goes to the page, and says at the provider who it is, and that the dashboard may know."""
    await desk.page.goto(f"{desk.home}{path}")
    await desk.press("Sign in with your organisation")
    await desk.page.fill("[name=login]", who)
    await desk.page.fill("[name=password]", "any")
    await desk.page.click("[type=submit]")
    await desk.page.click("button:text-is('Continue')")


WAYS = [("none", ""), ("client_secret_basic", SECRET), ("client_secret_post", SECRET)]


@pytest.mark.parametrize("desk", WAYS, ids=[way for way, _ in WAYS], indirect=True)
async def test_staff_sign_in_there_come_back_and_sign_out(desk: Desk) -> None:
    await say_who(desk, "dora", "/campaigns?status=active")
    await desk.settled()
    assert desk.page.url == f"{desk.home}/campaigns?status=active"
    assert await desk.page.inner_text(".who-name b") == "dora"
    token = await desk.page.evaluate(TOKEN)
    told = (await desk.stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))).data
    assert (told["subject"], told["tenant_id"], told["roles"]) == ("dora", TENANT, ["designer"])
    assert token not in str(desk.asked)
    await desk.press("Sign out")
    await desk.page.wait_for_selector(".notice:has-text('signed out')")
    after = await desk.stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))
    assert after.reason == "TOKEN_INVALID"
    # The provider knows who it is, and asks nothing: it is another session of ours.
    await desk.press("Sign in with your organisation")
    await desk.settled()
    assert await desk.page.inner_text(".who-name b") == "dora"
    assert await desk.page.evaluate(TOKEN) not in ("", None, token)


@pytest.mark.parametrize("desk", WAYS[:1], ids=["none"], indirect=True)
async def test_who_has_no_role_there_is_told_so(desk: Desk) -> None:
    await say_who(desk, "eve")
    await desk.page.wait_for_selector(".notice:has-text('no role here')")
    assert await desk.page.locator("nav a:has-text('Campaigns')").count() == 0
    desk.forgive("403")


@pytest.mark.parametrize("desk", [("client_secret_basic", "another")], ids=["another secret"], indirect=True)
async def test_a_client_that_the_provider_refuses_signs_nobody_in(desk: Desk) -> None:
    await say_who(desk, "ann")
    await desk.page.wait_for_selector(".notice:has-text('did not work')")
    assert await desk.page.evaluate(TOKEN) is None
    desk.forgive("401")
