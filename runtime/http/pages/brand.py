"""A brand's colours and font on the hosted pages, as custom properties for `page.css`.

CSS derives readable contrasts in light and dark itself. Only values that the schema of `ui` accepts as a colour or a
font name are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from runtime.rules import ui as looks

_GENERIC: Final = frozenset({"serif", "sans-serif", "monospace", "cursive", "fantasy", "system-ui", "ui-rounded"})
_FAMILY: Final = re.compile(r"[\w .+-]{1,60}")


OWN_FONT: Final = "Brand"
"""The family of an uploaded font, as in the widget (widget/look.js)."""


class Brand(NamedTuple):
    """style: CSS, "" without brand values. scheme: the value of `color-scheme`. colour: the primary one, or ""."""

    style: str = ""
    scheme: str = "light dark"
    colour: str = ""


NO_BRAND: Final = Brand()


def brand_of(ui: Mapping[str, Any] | None) -> Brand:
    """The brand in a game's ui or a campaign's settings."""
    shown = looks.with_preset(dict(ui or {})) or {}
    theme, background = (_mapping(shown.get(name)) for name in looks.CAMPAIGN_PARTS)
    colours = {
        "primary": _colour(theme.get("primary")),
        "background": _colour(background.get("color")),
    }
    values = {f"--{name}": colour for name, colour in colours.items() if colour}
    faces = ""
    file, fonts = theme.get("font_file"), _font(theme.get("font"))
    if isinstance(file, str) and looks.is_asset(file):
        faces = f'@font-face{{font-family:"{OWN_FONT}";src:url("{file}") format("woff2");font-display:swap}}'
        fonts = ",".join(filter(None, (f'"{OWN_FONT}"', fonts)))
    if fonts:
        values["--font"] = fonts
    mode = theme.get("mode")
    if mode in ("light", "dark"):
        values["color-scheme"] = str(mode)
    style = "".join(f"{name}:{value};" for name, value in values.items())
    return Brand(
        f"{faces}:root{{{style}}}" if style else "", values.get("color-scheme", "light dark"), colours["primary"]
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _colour(value: Any) -> str:
    """The colour; "" if it is invalid: settings older than the schema may contain anything."""
    return value if isinstance(value, str) and looks.is_colour(value) else ""


def _font(value: Any) -> str:
    """A list of font families, quoted unless generic; "" if any is invalid."""
    families = [one.strip().strip("\"'").strip() for one in value.split(",")] if isinstance(value, str) else []
    if not families or not all(_FAMILY.fullmatch(family) for family in families):
        return ""
    return ",".join(family if family in _GENERIC else f'"{family}"' for family in families)
