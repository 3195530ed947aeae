"""The QR picture of a code is read by a scanner as the code, as it is seen in the page."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from tests.support.browsing import STILL, visiting
from tests.support.panels import open_as, panel
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.asyncio(loop_scope="session")

CODES = ("CIDER-0001", "Gutschein-№7-5€-🎃", ("https://shop.example/redeem?code=" + "A1b2C3d4" * 12)[:128])
"""What is in most pools; what needs UTF-8; and one as long as a code may be."""

PIXELS = """async (png) => {
    const image = new Image();
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    return [image.width, image.height, Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 1])];
}"""
"""A picture's width, height and brightness."""


async def scanned(page: Page, picture: bytes) -> list[str]:
    """What a scanner reads in a PNG."""
    import zxingcpp

    width, height, pixels = await page.evaluate(PIXELS, base64.b64encode(picture).decode())
    found = zxingcpp.read_barcodes(memoryview(bytes(pixels)).cast("B", shape=[height, width]))
    return [one.text for one in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 320), ("dark", 1440)])
async def test_a_code_is_scanned_from_the_screen(
    fair: World, browser: Browser, shop: Stack, scheme: str, width: int
) -> None:
    pytest.importorskip("zxingcpp")
    game_id = await fair.wheel(await fair.prize(name="Voucher", codes=CODES), access="public")
    for _ in CODES:
        await fair.round(game_id, "ann")
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    async with visiting(browser, shop, **STILL, **options) as visit:
        await open_as(visit, game_id, "ann")
        await panel(visit, "rewards")
        cards, read = visit.page.locator("[data-reward]"), []
        for nth in range(len(CODES)):
            await cards.nth(nth).get_by_text("QR code").click()
            picture = cards.nth(nth).locator(".qr")
            await picture.locator("svg").wait_for()
            (text,) = await scanned(visit.page, await picture.screenshot())
            assert text == await cards.nth(nth).locator("code").inner_text()
            read.append(text)
        assert sorted(read) == sorted(CODES)


async def test_a_code_is_copied(fair: World, browser: Browser, shop: Stack) -> None:
    """By the clipboard's own way, and by the one that is left on plain HTTP."""
    game_id = await fair.wheel(await fair.prize(name="Voucher", codes=["CIDER-0001"]), access="public")
    await fair.round(game_id, "ann")
    for permissions in ([], ["clipboard-read", "clipboard-write"]):
        async with visiting(browser, shop, **STILL, permissions=permissions) as visit:
            if not permissions:
                await visit.page.add_init_script("delete Navigator.prototype.clipboard")
            await open_as(visit, game_id, "ann")
            await panel(visit, "rewards")
            await visit.page.click("dialog >> text=Copy")
            await visit.page.wait_for_selector("dialog >> text=Copied")
            if permissions:
                assert await visit.page.evaluate("navigator.clipboard.readText()") == "CIDER-0001"
            else:
                selected = "document.querySelector('tombola-game').shadowRoot.getSelection?.().toString()"
                assert await visit.page.evaluate(selected) in ("CIDER-0001", None)
