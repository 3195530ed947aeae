from functools import cache
from typing import Final

from tests.support.chromium import Page
from tests.support.node import package

_RUN: Final = """async () => {
    // All of its rules but one: the way back to the campaign stands beside the game, not in it. What `preload` fetches
    // is for rules of sound and video, of which the pages have none.
    const rules = { region: { enabled: false } };
    const told = await axe.run(document, { resultTypes: ["violations"], rules, preload: false });
    return told.violations.flatMap((rule) =>
        rule.nodes.map((node) => `${rule.id}: ${node.target.flat().join(" ")}: ${node.failureSummary}`));
}"""
_FLAT: Final = """() => {
    const { shadowRoot } = document.querySelector("tombola-game");
    const sheet = new CSSStyleSheet();
    const flat = (what, ground) => `${what} { background: var(--t-${ground}) !important; }`;
    sheet.replaceSync(flat(".frame", "ground") + flat(".frame:not([data-led]) .main, dialog .main", "primary"));
    shadowRoot.adoptedStyleSheets = [...shadowRoot.adoptedStyleSheets, sheet];
}"""


@cache
def axe() -> str:
    return (package("axe-core") / "axe.min.js").read_text()


async def violations(page: Page) -> list[str]:
    """What axe finds on the page as it stands, by all of its rules. Grounds are made flat: it judges no gradients."""
    if await page.locator("tombola-game .frame").count():
        await page.evaluate(_FLAT)
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(axe())
    return await page.evaluate(_RUN)
