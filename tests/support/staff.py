from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from runtime.http.login.sign_in import link_of
from tests.support.browsing import Visit, visiting
from tests.support.chromium import Browser
from tests.support.stack import Stack
from tests.support.waiting import until


@dataclass
class Desk(Visit):
    @property
    def home(self) -> str:
        return f"{self.stack.process.admin_url}/dashboard"

    def link(self, *roles: str, subject: str = "ann", path: str = "") -> str:
        process, tenant_id = self.stack.process, self.stack.tenant_id
        made = link_of(process.settings, process.admin_url, subject, tenant_id=tenant_id, roles=roles or ("admin",))
        return made.replace("/dashboard#", f"/dashboard{path}#")

    async def enter(self, *roles: str, path: str = "") -> None:
        if self.page.url.startswith("http"):
            await self.page.evaluate("sessionStorage.clear()")
            await self.page.goto("about:blank")  # Else a link of the same page would change who it is while it works.
        await self.follow(self.link(*roles, path=path))
        await self.settled()

    async def looks_at_guest(self, player_id: str, guest_id: str) -> None:
        await self.enter("admin", path=f"/players/{player_id}")
        await self.press("Merge", within="main .head")
        await self.page.get_by_label("Guest", exact=True).fill(guest_id)
        await self.press("Preview merge", within="dialog", then="dialog:has-text('1 plays, 1 rewards')")

    async def follow(self, link: str) -> None:
        await self.page.goto(link)
        await self.press("Sign in", within="dialog")

    async def settled(self) -> None:
        await self.page.wait_for_selector("#content h1, #content .empty")
        await self.page.locator(".loading, [aria-busy=true]").first.wait_for(state="detached")

    async def until(self, script: str) -> None:
        """Waits until it is so. Asked from outside: the page's policy lets it evaluate nothing itself."""
        await until(lambda: self.page.evaluate(script))

    async def to(self, path: str) -> None:
        await self.page.goto(self.home + path)
        await self.settled()

    async def go(self, path: str) -> None:
        """As by a link of the page, which is not loaded anew."""
        script = "(to) => { const link = document.createElement('a'); link.href = to; document.body.append(link);"
        await self.page.evaluate(f"{script} link.click(); link.remove(); }}", self.home + path)
        await self.settled()

    async def title(self) -> str:
        return str(await self.page.inner_text("main h1"))

    async def press(
        self, name: str = "", within: str = "body", *, then: str = "", gone: str = "", url: str = ""
    ) -> None:
        await self.page.locator(within).get_by_role("button", name=name, exact=True).first.click()
        await self.until_shown(then, gone, url)

    async def toast(self) -> str:
        await self.page.wait_for_selector(".toast")
        return str(await self.page.locator(".toast span").last.inner_text())

    async def rows(self) -> list[str]:
        await self.settled()
        return [str(text) for text in await self.page.locator("tbody tr td:first-child").all_inner_texts()]


@asynccontextmanager
async def at_desk(browser: Browser, stack: Stack, **options: Any) -> AsyncIterator[Desk]:
    """A fresh tab. At the end nothing may have gone wrong in it, as of `visiting`."""
    async with visiting(browser, stack, **options) as visit:
        desk = Desk(visit.page, visit.stack, visit.wrong, visit.asked)
        yield desk
        outside = [one for one in desk.asked if not one.split(" ", 1)[1].startswith(("http://127.0.0.1:", "data:"))]
        assert outside == [], outside
