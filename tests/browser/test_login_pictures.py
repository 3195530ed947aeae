"""Pictures of each step of signing in, to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.browser.test_login import SUBMIT, ask_for_code
from tests.browser.test_pictures import SCREENS, SIZES, demo_games, look
from tests.support.browsing import STILL, visiting
from tests.support.login import Phone
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_every_step_of_signing_in_fits_its_screen(
    fair: World, browser: Browser, shop: Stack, capsys: pytest.CaptureFixture[str], width: int, scheme: str
) -> None:
    game_id = (await demo_games(fair))["spin_wheel"]
    mail, phone = f"somebody.with.a.long.name.{width}.{scheme}@example.test", Phone(capsys)
    size = {"width": width, "height": SIZES[width]}
    async with visiting(browser, shop, **STILL, viewport=size, color_scheme=scheme) as visit:
        await visit.open(game_id)
        for _ in range(3):  # Until something is won, or plays are over.
            await visit.press()
            if await visit.kind() == "won":
                break
        await look(visit, f"login-0-kept-{width}-{scheme}")
        await visit.page.click("[data-panel=login]")
        await visit.page.fill("#login-field", "ada")
        await visit.page.click(SUBMIT)
        await visit.page.wait_for_selector("dialog [role=alert]:has-text('name@example.com')")
        await look(visit, f"login-1-wrong-{width}-{scheme}")
        await ask_for_code(visit, mail)
        await look(visit, f"login-2-code-{width}-{scheme}")
        await visit.page.fill("#login-field", phone.wrong(mail))
        await visit.page.click(SUBMIT)
        await visit.page.wait_for_selector("dialog [role=alert]:has-text('4 tries left')")
        await look(visit, f"login-3-tries-{width}-{scheme}")
        await visit.page.fill("#login-field", phone.code(mail))
        await visit.page.click(SUBMIT)
        await visit.page.wait_for_selector("dialog >> text=You are signed in as")
        await look(visit, f"login-4-done-{width}-{scheme}")
        await visit.page.click("dialog .main:has-text('Back to the game')")
        await look(visit, f"login-5-signed-in-{width}-{scheme}")
        await visit.page.click("[data-panel=login]")
        await look(visit, f"login-6-account-{width}-{scheme}")
        visit.forgive("401")
