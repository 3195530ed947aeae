"""The texts of e-mails to players: a campaign's templates, or the built-in texts of `texts.json` in 12 languages.

A template is plain text with placeholders in braces, and limited Markdown as in page texts. Values are inserted after
the Markdown is rendered, escaped: no value can add markup, links or headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from html import escape
from importlib import resources
from typing import Any, Final, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

import msgspec

from runtime.rules.ui.markdown import html_of

_ALWAYS: Final = ("player_name", "campaign", "claim_url")
_OF_REWARD: Final = (*_ALWAYS, "prize", "expires_at")
PLACEHOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "won": _OF_REWARD,
    "code_delivered": (*_OF_REWARD, "code"),
    "reminder": _OF_REWARD,
    "draw_result": (*_ALWAYS, "draw"),
}
"""What the texts of each kind of message may contain."""

REMINDER_HOURS: Final = 24
FALLBACK: Final = "en"
SUBJECT_MAX: Final = 200
BODY_MAX: Final = 5_000
NAME_MAX: Final = 60

_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_LINK_TO_CLAIM: Final = re.compile(r"\[([^\][]+)\]\(\{claim_url\}\)")
_LINK: Final = re.compile(r"(?<=\]\()https://[^\s()]+(?=\))")
_CLAIM: Final = "https://claim.invalid/"
"""Stands for the claim's URL while the Markdown is rendered."""
_ADDRESS: Final = re.compile(r"://|\w[.\u3002\uff0e\uff61]\w{2}")
"""With each dot that browsers take for one in a host."""


class Mail(NamedTuple):
    """A rendered message. text, html: the body in both forms, without the link to unsubscribe."""

    language: str
    subject: str
    text: str
    html: str


@cache
def built_in() -> Mapping[str, Any]:
    """{language: {kind: {"subject", "body"}, "unsubscribe", ...}}"""
    found: dict[str, Any] = msgspec.json.decode((resources.files(__package__) / "texts.json").read_bytes())
    return found


def unknown_placeholders(kind: str, text: str) -> list[str]:
    """The placeholders of a text that its kind of message does not have."""
    return [name for name in dict.fromkeys(_PLACEHOLDER.findall(text)) if name not in PLACEHOLDERS[kind]]


def template_of(messages: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any] | None:
    """A campaign's template of this kind; None if the message is not sent."""
    found = (messages or {}).get("templates", ())
    return next((one for one in found if one["kind"] == kind and not one["paused"]), None)


def language_of(wanted: Iterable[str]) -> str:
    """The first of the languages that has built-in texts; English if none has."""
    return next((one for one in map(_plain, wanted) if one in built_in()), FALLBACK)


def rendered(
    kind: str, template: Mapping[str, Any], values: Mapping[str, str], *, language: str, default: str = ""
) -> Mail:
    """The message in the first language that has a text: the player's, the campaign's default; otherwise built in."""
    wanted = (language, _plain(language), default or FALLBACK)
    subjects, bodies = template["subject"], template["body"]
    shown = next((one for one in wanted if one in bodies), language)
    own = built_in()[language_of((shown, default))][kind]
    subject = next((subjects[one] for one in (shown, *wanted) if one in subjects), own["subject"])
    filled = {name: one_line(values.get(name, "")) for name in PLACEHOLDERS[kind]}
    body = _with_links(bodies.get(shown, own["body"]), filled)
    return Mail(
        language=language_of((shown, default)),
        subject=one_line(_filled(subject, filled))[:SUBJECT_MAX],
        text=_filled(_LINK_TO_CLAIM.sub(r"\1: {claim_url}", body), filled),
        html=_html(body, filled),
    )


def name_shown(name: str) -> str:
    """A player's name as a message shows it. Empty if it has an address: players would send advertising to others."""
    return "" if _ADDRESS.search(name) else one_line(name)[:NAME_MAX]


def local_time(at: int, zone: str) -> str:
    """A time (unix seconds) in a campaign's zone; "" for 0."""
    return f"{datetime.fromtimestamp(at, ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}" if at else ""


def one_line(text: str) -> str:
    """The text without line breaks and other control characters, which would end a header."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _plain(language: str) -> str:
    return language.replace("_", "-").partition("-")[0].lower()


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _with_links(body: str, values: Mapping[str, str]) -> str:
    """The body with the placeholders in the URLs of its links filled, percent-encoded."""
    encoded = {name: quote(value, safe="") for name, value in values.items()}
    return _LINK.sub(lambda found: _filled(found[0], encoded), body)


def _html(body: str, values: Mapping[str, str]) -> str:
    address = escape(values["claim_url"])
    linked = _LINK_TO_CLAIM.sub(rf"[\1]({_CLAIM})", body)
    made = {name: escape(value) for name, value in values.items()} | {"claim_url": f'<a href="{address}">{address}</a>'}
    return _filled(html_of(linked).replace(f'href="{_CLAIM}"', f'href="{address}"'), made)
