"""A brand's colours and font on the hosted pages: custom properties that `page.css` makes the page of.

What reads on what, in light and dark, CSS works out of them itself, so nothing is computed here; and nothing comes
here but what the schema of `ui` lets be a colour, or a font's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from runtime.rules import ui as looks

_GENERIC: Final = frozenset({"serif", "sans-serif", "monospace", "cursive", "fantasy", "system-ui", "ui-rounded"})
_FAMILY: Final = re.compile(r"[\w .+-]{1,60}")


class Brand(NamedTuple):
    """style: CSS, "" where nothing is a brand's own. scheme: of `color-scheme`. colour: the main one, or ""."""

    style: str = ""
    scheme: str = "light dark"
    colour: str = ""


NO_BRAND: Final = Brand()


def brand_of(ui: Mapping[str, Any] | None) -> Brand:
    """Of a game's ui, or of a campaign's settings, as they are shown."""
    shown = looks.filled(dict(ui or {})) or {}
    theme, background = (_mapping(shown.get(name)) for name in looks.CAMPAIGN_PARTS)
    colours = {
        "primary": _colour(theme.get("primary")),
        "background": _colour(background.get("color")),
    }
    values = {f"--{name}": colour for name, colour in colours.items() if colour}
    if font := _font(theme.get("font")):
        values["--font"] = font
    mode = theme.get("mode")
    if mode in ("light", "dark"):
        values["color-scheme"] = str(mode)
    style = "".join(f"{name}:{value};" for name, value in values.items())
    return Brand(f":root{{{style}}}" if style else "", values.get("color-scheme", "light dark"), colours["primary"])


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _colour(value: Any) -> str:
    """A colour; "" for what is none: settings of before the schema may hold anything."""
    return value if isinstance(value, str) and looks.is_colour(value) else ""


def _font(value: Any) -> str:
    """A list of families, each quoted but the generic ones; "" where any is no name."""
    families = [one.strip().strip("\"'").strip() for one in value.split(",")] if isinstance(value, str) else []
    if not families or not all(_FAMILY.fullmatch(family) for family in families):
        return ""
    return ",".join(family if family in _GENERIC else f'"{family}"' for family in families)
