"""axe-core, run inside a page: what of it somebody could not see, hear, reach or understand."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.browsing import REQUIRED

if TYPE_CHECKING:
    from playwright.async_api import Page

WEB: Final = Path(__file__).parents[2] / "ops" / "web"
_SCRIPT: Final = WEB / "node_modules" / "axe-core" / "axe.min.js"
_INSTALL: Final = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_RUN: Final = """async () => {
    // All of its rules but one: the way back to the campaign stands beside the game, not in it.
    const told = await axe.run(document, { resultTypes: ["violations"], rules: { region: { enabled: false } } });
    return told.violations.flatMap((rule) =>
        rule.nodes.map((node) => `${rule.id}: ${node.target.flat().join(" ")}: ${node.failureSummary}`));
}"""
_FLAT: Final = """() => {
    const { shadowRoot } = document.querySelector("tombola-game");
    const sheet = new CSSStyleSheet();
    const flat = (what, ground) => `${what} { background: var(--t-${ground}) !important; }`;
    sheet.replaceSync(flat(".frame", "ground") + flat(".main", "primary"));
    shadowRoot.adoptedStyleSheets = [...shadowRoot.adoptedStyleSheets, sheet];
}"""


@cache
def axe() -> str:
    """Its source, by the lock of ops/web; the test is left out where there is no npm to get it."""
    if not _SCRIPT.is_file():
        if shutil.which("npm") is None and not os.environ.get(REQUIRED):
            pytest.skip("axe-core is not there (npm ci --prefix ops/web)")
        subprocess.run(_INSTALL, cwd=WEB, check=True, timeout=300)
    return _SCRIPT.read_text()


async def violations(page: Page) -> list[str]:
    """What axe finds on the page as it stands, by all of its rules. Grounds are made flat: it judges no gradients."""
    if await page.locator("tombola-game .frame").count():
        await page.evaluate(_FLAT)
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe())
    found: list[str] = await page.evaluate(_RUN)
    return found
