"""A real Chromium for the tests of pages, and what it shows of the widget."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from ops.chromium import chromium
from tests.support.stack import Stack

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

NO_BROWSER: Final = "there is no Chromium, or no playwright, to test the pages in"
REQUIRED: Final = "TOMBOLA_REQUIRE_BROWSER"
"""Where this is set, tests without a browser fail instead of being left out."""

SETTLE_MS: Final = 700
"""The button rests after a result (view.js)."""

SCREENSHOTS: Final = Path(__file__).parents[2] / ".tombola" / "screenshots"
PICTURED: Final = "TOMBOLA_PICTURES"
"""Where this is set, tests leave pictures of what they open there."""

FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE *.localhost",
)


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    path = chromium()
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        path = None
    if path is None:
        if os.environ.get(REQUIRED):
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visit:
    page: Page
    stack: Stack
    wrong: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def open(self, game_id: str, **query: str) -> None:
        more = "".join(f"&{name}={value}" for name, value in query.items())
        await self.page.goto(f"{self.stack.process.consumer_url}/p/{game_id}?tenant_id={self.stack.tenant_id}{more}")
        await self.ready()

    async def ready(self) -> None:
        await self.page.wait_for_selector(".frame[data-state=ready], .frame[data-state=refused], .card[data-result]")

    async def press(self, *, then: str = "", gone: str = "", url: str = "") -> None:
        await self.page.wait_for_timeout(SETTLE_MS if await self.page.is_visible(".card[data-result]") else 0)
        await self.page.click("button.main")
        await self.until_shown(then, gone, url)

    async def click(self, selector: str, *, then: str = "", gone: str = "", url: str = "") -> None:
        await self.page.click(selector)
        await self.until_shown(then, gone, url)

    async def reload(self) -> None:
        await self.page.reload()
        await self.ready()

    async def until_shown(self, then: str, gone: str, url: str) -> None:
        """Waits for the URL and the selectors that are not empty."""
        if url:
            await self.page.wait_for_url(url)
        if then:
            await self.page.wait_for_selector(then)
        if gone:
            await self.page.wait_for_selector(gone, state="detached")

    async def result(self) -> str:
        await self.page.wait_for_selector(".card[data-result]:not([hidden])")
        return str(await self.page.inner_text(".card"))

    async def kind(self) -> str:
        await self.result()
        return str(await self.page.get_attribute(".card", "data-result"))

    async def play(self) -> dict[str, Any]:
        return dict(await self.page.evaluate("document.querySelector('tombola-game').play()"))

    async def guest_token(self) -> str:
        script = "Object.entries(localStorage).find(([name]) => name.startsWith('tombola.guest'))?.[1]"
        return str(json.loads(await self.page.evaluate(script)))

    def api_calls(self) -> list[str]:
        """Without the reports of views, which no page waits for."""
        calls = [call for call in self.asked if "/api/v1/" in call and not call.endswith("/views")]
        return [f"{call.split()[0]} {call.rsplit('/', 1)[1]}" for call in calls]

    def forgive(self, *messages: str) -> None:
        """Chromium writes every refused or lost request to the console: those that a test brings about are none."""
        self.wrong[:] = [line for line in self.wrong if not any(part in line for part in messages)]

    async def shot(self, name: str, *, whole: bool = True) -> None:
        if not os.environ.get(PICTURED):
            return
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=whole)


@asynccontextmanager
async def visiting(browser: Browser, stack: Stack, **options: Any) -> AsyncIterator[Visit]:
    """A fresh browser context with these options. Script errors and refused or foreign requests fail the test."""
    context = await browser.new_context(**{"viewport": {"width": 1024, "height": 900}, "locale": "en-GB", **options})
    context.set_default_timeout(60_000)
    try:
        visit = Visit(await context.new_page(), stack)
        visit.page.on("pageerror", lambda error: visit.wrong.append(str(error)))
        visit.page.on("console", lambda said: said.type == "error" and visit.wrong.append(said.text))
        visit.page.on("request", lambda request: visit.asked.append(f"{request.method} {request.url}"))
        yield visit
        assert not visit.wrong, visit.wrong
    finally:
        await context.close()


STILL: Final = {"reduced_motion": "reduce"}
"""Of who wants things to stay still: and what spares a test the seconds of a spin."""
