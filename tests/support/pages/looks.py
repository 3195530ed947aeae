"""How a page looks: whether it fits its window, and text that a page must not take for code."""

from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import Visit

EVIL: Final = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{count}{{evil}}${evil}</title>"
"""A name that must stay text wherever it is shown."""

SIZES: Final = {320: 640, 768: 1024, 1440: 900}
SCREENS: Final = [
    pytest.param(width, scheme, marks=() if (width, scheme) == (320, "dark") else pytest.mark.nightly)
    for width in SIZES
    for scheme in ("light", "dark")
]
"""Window widths and colour schemes of the sweeps: one by default, all of them nightly."""

SCROLLS: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def fits(visit: Visit, name: str) -> None:
    """Takes a picture; the page must not be wider than its window."""
    await visit.shot(name)
    assert await visit.page.evaluate(SCROLLS) <= 0, name


async def accessible(visit: Visit, name: str, found: dict[str, list[str]]) -> None:
    await fits(visit, name)
    if violated := await violations(visit.page):
        found[name] = violated


def window(width: int, scheme: str, height: int = 0) -> dict[str, Any]:
    """Playwright's options of a context with this window and colour scheme."""
    return {"viewport": {"width": width, "height": height or SIZES[width]}, "color_scheme": scheme}


def evil_ui(address: str, prize_id: str) -> dict[str, Any]:
    """A game's `ui` that has such text, and an address that must not be requested, in every part."""
    segment = {"label": EVIL, "image": address, "emoji": EVIL, "color": EVIL, "prize_id": prize_id}
    return {
        "description": EVIL,
        "picture": {"image": address, "emoji": EVIL},
        "theme": {"primary": EVIL, "accent": "url(javascript:window.evil=1)", "radius": EVIL, "mode": EVIL},
        "background": {"color": EVIL, "image": address, "emoji": EVIL},
        "texts": {"spin": EVIL, "won": EVIL, "__proto__": EVIL, "constructor": EVIL},
        "wheel": {"segments": [segment, {"label": EVIL, "emoji": EVIL}]},
        "items": [
            {"emoji": EVIL, "image": address, "prize_id": prize_id, "item": "maple", "type": "maple", "label": EVIL}
        ],
        "prizes": {"one": {"image": address, "emoji": EVIL, "prize_id": prize_id}},
        "egg": {"emoji": EVIL, "image": address},
        "catcher": {"emoji": EVIL, "lives": 1},
    }


def home_alone(visit: Visit) -> bool:
    return [one for one in visit.asked if f" {visit.stack.process.consumer_url}/" not in one] == []
