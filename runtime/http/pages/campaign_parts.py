"""Parts of a campaign's page: its games as cards, or as the doors of a calendar, its entry form and its state."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from runtime import messages as m
from runtime.http.pages.page_texts import PAGE_TEXTS, PageTexts
from runtime.rules.ui import is_asset
from runtime.rules.ui.markdown import html_of
from runtime.rules.ui.pages import states_of, text_of
from runtime.wire.enums import token

_PICTURES: Final = {
    "spin_wheel": "🎡",
    "scratch_card": "🎟️",
    "instant_win": "🎟️",
    "egg_catcher": "🥚",
    "gift_catcher": "🎁",
    "collection": "🍁",
}
_PLAYABLE: Final = ("", "SOLD_OUT")
"""The reasons of games that can be played."""

# -- the state -------------------------------------------------------------------------------


def notice(reply: m.PublicCampaignReply, language: str) -> str:
    """The text and picture of the campaign's state, with its dates; "" for a running campaign without them."""
    campaign, state = reply.campaign or m.Campaign(), token(reply.state)
    own, texts = states_of((campaign.settings or {}).get("page")).get(state, {}), PAGE_TEXTS[language]
    image, text = picture_of(own.get("image")), text_of(own.get("text"), language)
    starts = _time(campaign.start_date, campaign.timezone, "data-countdown")
    said = {
        "announced": escape(texts.starts).format(when=starts),
        "paused": escape(texts.paused),
        "sold_out": escape(texts.sold_out),
        "claims_open": escape(texts.claims).format(when=_time(reply.claims_until, campaign.timezone)),
        "ended": escape(texts.ended),
    }.get(state, "")
    shown = f'<img src="{escape(image)}" alt="">\n' if image else ""
    shown += html_of(text) if text else ""
    shown += f"<p>{said}</p>\n" if said else ""
    return f'<div class="state" data-state="{state}">\n{shown}</div>\n' if shown else ""


def _time(at: int, zone: str, mark: str = "") -> str:
    """A time in the campaign's zone; midnight as the day alone.

    The page's script writes it in the reader's language, and counts down to a time with the mark `data-countdown`.
    """
    local = datetime.fromtimestamp(at, ZoneInfo(zone or "UTC"))
    is_day = not (local.hour or local.minute or mark)
    shown = f"{local:%Y-%m-%d}" if is_day else f"{local:%Y-%m-%d %H:%M %Z}"
    marks = " ".join(filter(None, [f'data-zone="{escape(zone or "UTC")}"', "data-day" if is_day else "", mark]))
    return f'<time datetime="{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}" {marks}>{escape(shown)}</time>'


# -- games -----------------------------------------------------------------------------------


def cards(games: Sequence[m.Render], tenant: str, texts: PageTexts) -> str:
    """The games as a list of cards."""
    listed = "".join(_card(game, tenant, texts) for game in games)
    return f'<ul class="games">\n{listed}</ul>' if listed else f'<p class="lead">{escape(texts.no_games)}</p>'


def entry_place(reply: m.PublicCampaignReply, settings: Mapping[str, Any], texts: PageTexts) -> str:
    """Where the page's script puts the entry form, draws and rewards of a campaign without games."""
    campaign: Any = reply.campaign
    mails = any(not one.paused for one in (campaign.messages.templates if campaign.messages else ()))
    offers = [name for name, there in (("draws", reply.draws), ("messages", mails)) if there]
    looks = {part: settings[part] for part in ("theme", "background") if part in settings}
    facts = {
        "form": campaign.entry is not None,
        "open": reply.state in (m.CampaignState.RUNNING, m.CampaignState.SOLD_OUT),
        "offers": offers,
        "looks": looks,
        "view": texts.view,
    }
    return f"<div data-entry='{quoted(json.dumps(facts))}'></div>"


def quoted(text: str) -> str:
    """Escapes JSON for an attribute in single quotes. In double quotes, each of JSON's would take six characters."""
    return text.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")


def _card(game: m.Render, tenant: str, texts: PageTexts) -> str:
    """The card of a game: its picture, name and state, and the button that opens it."""
    state = _state(game, texts)
    return (
        f'<li><a href="/p/{quote(game.id)}{query_of(tenant)}">{_cover(game)}'
        f'<span class="name">{escape(game.name)}</span>{state and f"<span>{state}</span>"}'
        f'<span class="play">{escape(texts.view if game.reason else texts.play)}</span></a></li>\n'
    )


def _cover(game: m.Render) -> str:
    """A game's picture, hidden from screen readers."""
    ui = game.ui or {}
    image = picture_of(ui.get("picture"), value_at(ui, "picture", "image"))
    emoji = text_in(value_at(ui, "picture", "emoji")) or _PICTURES.get(game.type, "🎲")
    shown = f'<img src="{escape(image)}" alt="">' if image else escape(emoji)
    return f'<span class="picture" aria-hidden="true">{shown}</span>'


def _state(game: m.Render, texts: PageTexts) -> str:
    """The notice on a game's card, as HTML; "" if it can be played."""
    if game.reason == "NOT_STARTED":
        return escape(texts.starts).format(when=_time(game.starts_at, game.timezone))
    return escape({"PAUSED": texts.paused, "ENDED": texts.ended, "SOLD_OUT": texts.sold_out}.get(game.reason, ""))


def doors(games: Sequence[m.Render], tenant: str, texts: PageTexts) -> str:
    """The games as the doors of a calendar, in the order of their start.

    A door is a link if it can be played, or has ended and winners can redeem. A later one says when it opens.
    """
    ordered = sorted(games, key=lambda game: (game.starts_at, game.id))
    listed = "".join(_door(number, game, tenant, texts) for number, game in enumerate(ordered, start=1))
    return f'<ol class="doors">\n{listed}</ol>' if listed else f'<p class="lead">{escape(texts.no_games)}</p>'


def _door(number: int, game: m.Render, tenant: str, texts: PageTexts) -> str:
    is_open, state = game.reason in _PLAYABLE, _state(game, texts)
    is_today = is_open and game.starts_at > 0 and _day(game.starts_at, game.timezone) == _day(0, game.timezone)
    is_locked = game.reason == "NOT_STARTED"
    picture = '<span class="picture" aria-hidden="true">🔒</span>' if is_locked else _cover(game)
    inner = (
        f'<span class="number" aria-hidden="true">{number}</span>{picture}<span class="name">{escape(game.name)}</span>'
        f'<span class="when">{state or escape(texts.play)}</span>'
    )
    kind = "today" if is_today else "open" if is_open else "locked" if is_locked else "closed"
    if not is_open and game.state is not m.CampaignState.CLAIMS_OPEN:
        return f'<li data-door="{kind}"><div>{inner}</div></li>\n'
    today = ' aria-current="date"' if is_today else ""
    link = f'<a href="/p/{quote(game.id)}{query_of(tenant)}"{today}>{inner}</a>'
    return f'<li data-door="{kind}">{link}</li>\n'


def _day(at: int, zone: str) -> date:
    """The day of a time in a zone; at 0: today."""
    place = ZoneInfo(zone or "UTC")
    return (datetime.fromtimestamp(at, place) if at else datetime.now(place)).date()


# -- values of any form ----------------------------------------------------------------------


def query_of(tenant: str) -> str:
    return f"?tenant_id={quote(tenant)}" if tenant else ""


def value_at(value: Any, *names: str) -> Any:
    """The value at a path of names in operator-supplied JSON of any form; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def text_in(value: Any) -> str:
    return value if isinstance(value, str) else ""


def picture_of(*values: Any) -> str:
    """The first picture with an https URL, or an uploaded one: link previews load no other."""
    return next((value for value in values if isinstance(value, str) and (_is_https(value) or is_asset(value))), "")


def _is_https(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc)
