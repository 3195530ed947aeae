"""The page around a game: its texts by language, and what follows a result. Part `page` of a campaign's settings, and
of a game's ui, which takes precedence.

    {"texts": {"title": {"en": "Spring fair", "de": "Frühlingsmarkt"}, "terms": {...}, ...},
     "after": {"label": {"en": "Visit our shop"}, "url": "https://shop.example", "redirect_seconds": 0, "share": true},
     "states": {"announced": {"text": {"en": "The fair opens soon."}, "image": "https://..."}, "ended": {...}, ...},
     "layout": "calendar"}

`states` are those of runtime/rules/campaign_state.py. `layout` is of the campaign's page only. A text is Markdown,
limited to paragraphs, lists, bold, italics and https links. Values of another form are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

LEGAL: Final = ("terms", "privacy", "imprint")
"""Texts with their own page. They may also be an https URL."""

CALENDAR: Final = "calendar"
"""The layout of a campaign's page that shows its games as doors."""

FALLBACK: Final = "en"


def merged(campaign: Any, game: Any) -> dict[str, Any]:
    """The campaign's page with the game's texts, fields and states in place of its own."""
    made: dict[str, Any] = {}
    for page in (campaign, game):
        for part in ("texts", "after"):
            if isinstance(page, Mapping) and isinstance(value := page.get(part), Mapping):
                made[part] = {**made.get(part, {}), **value}
        for name, state in states_of(page).items():
            states = made.setdefault("states", {})
            states[name] = {**states.get(name, {}), **state}
    return made


def states_of(page: Any) -> dict[str, Mapping[str, Any]]:
    """{state: {"text", "image"}} of a page."""
    states = page.get("states") if isinstance(page, Mapping) else None
    found = states.items() if isinstance(states, Mapping) else ()
    return {name: state for name, state in found if isinstance(state, Mapping)}


def without_legal(page: Mapping[str, Any]) -> dict[str, Any]:
    """The page without its legal texts, which are long, and with `legal`: the names of those that exist."""
    texts = page.get("texts", {})
    legal = [name for name in LEGAL if text_of(texts.get(name), FALLBACK)]
    made = {**page, "texts": {name: value for name, value in texts.items() if name not in LEGAL}}
    return {**made, "legal": legal} if legal else made


def text_of(texts: Any, language: str) -> str:
    """The text in a language, else in English, else in any; "" if there is none. The widget chooses alike
    (widget/page.js).
    """
    if isinstance(texts, str):
        return texts
    if not isinstance(texts, Mapping):
        return ""
    found = {name: text for name, text in texts.items() if isinstance(text, str) and text.strip()}
    for name in (language, language.partition("-")[0], FALLBACK):
        if name in found:
            return str(found[name])
    return str(next(iter(found.values()), ""))
