"""The hosted pages: a game at /p/{game_id}, a campaign with its games at /c/{campaign_id}, the themes at /themes.

All that is of a page's own is in its head, for link previews; the game is played by the widget. No script is inline,
so the policy lets the page run our files and nothing else, whatever a name or a text of an operator's says.

A slow line is crossed twice until a game can be played: for the page, which has its styles (by their hash in the
policy), its name and what the game is in it, so that it is seen at once; then for the widget, the game and the words.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from html import escape
from typing import Any, Final
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.http.pages.brand import NO_BRAND, Brand, brand_of
from runtime.http.pages.files import ENTRY, files
from runtime.http.pages.page_texts import PAGE_TEXTS, PageTexts
from runtime.http.pages.static_documents import Document, kept
from runtime.http.views import edge_view
from runtime.operations import BY_NAME
from runtime.rules.ui import CAMPAIGN_PARTS
from runtime.wire import codec

_DESCRIPTION_CHARACTERS_MAX: Final = 200
_PICTURES: Final = {
    "spin_wheel": "🎡",
    "scratch_card": "🎟️",
    "egg_catcher": "🥚",
    "gift_catcher": "🎁",
    "collection": "🍁",
}
_GAMES: Final = {
    "spin_wheel": ("wheel",),
    "scratch_card": ("scratch",),
    "score_to_tier": ("eggs", "catching"),
    "collect_items": ("gifts", "catching"),
    "lucky_item": ("collection",),
}
"""The files of `widget/games` that a page of this type or reward handler is sure to load (widget/games.js)."""

_HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "strict-origin-when-cross-origin",
    "Cache-Control": "no-cache",
}
_RIGHT_TO_LEFT: Final = frozenset({"ar"})
_render = edge_view(BY_NAME["RenderGame"])

Ask = Callable[[str, Any], Awaitable[Any]]
"""Core's answer to the operation of the name: names that are nobody's count against the address that asks."""

Make = Callable[[Ask, m.Scope, str, str, str], Awaitable[str]]


def mount(app: web.Application, edge: Edge) -> None:
    """Adds the pages."""
    app.router.add_get("/p/{id}", _page(edge, "game", _game))
    app.router.add_get("/c/{id}", _page(edge, "campaign", _campaign))
    app.router.add_get("/themes", _gallery())


def _policy(origins: Iterable[str], styles: str) -> str:
    """Content-Security-Policy. origins: whose pages may frame ours, as they may call the edge. styles: inline ones."""
    framing = " ".join(["'self'", *origins])
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{digest}';"
        " img-src 'self' https: data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
        f" frame-ancestors {framing}"
    )


def _gallery() -> Handler:
    pages = {language: kept(partial(_themes, language)) for language in PAGE_TEXTS}

    async def answer(request: web.Request) -> web.StreamResponse:
        return await pages[_language(request.headers.get("Accept-Language", ""))](request)

    return answer


def _page(edge: Edge, what: str, make: Make) -> Handler:
    headers = {**_HEADERS, "Vary": "Accept-Language"}

    async def answer(request: web.Request) -> web.Response:
        status, named = 200, request.query.get("tenant_id", "")
        language = _language(request.headers.get("Accept-Language", ""))
        framing: tuple[str, ...] = ()
        try:
            shown_id = codec.path_text("id", request.match_info["id"])
            scope = m.Scope(tenant_id=(await edge.checked_scope(request, None)).tenant_id)
            named = scope.tenant_id if named else ""  # What else is asked is nobody's, and would be kept.

            async def ask(name: str, message: Any) -> Any:
                return await edge.names.call(BY_NAME[name], message, request)

            async def made() -> bytes:
                return (await make(ask, scope, shown_id, named, language)).encode()

            body = await edge.cache.get(scope.tenant_id, f"page {what}:{shown_id}:{named}:{language}", made)
            framing = await edge.origins.frame_ancestors(scope.tenant_id, **{f"{what}_id": shown_id})
        except Fault as fault:
            if fault.status not in (Status.NOT_FOUND, Status.INVALID_ARGUMENT):
                raise
            status, body = fault.http, _missing(what, language).encode()
        policy = _policy(framing, _styles(body))
        return web.Response(body=body, status=status, headers={**headers, "Content-Security-Policy": policy})

    return answer


def _styles(page: bytes) -> str:
    """What stands inline in a page. What others wrote there is escaped, so these tags are ours."""
    return page.partition(b"<style>")[2].partition(b"</style>")[0].decode()


def _language(accepted: str) -> str:
    """The first of an Accept-Language that the widget has words of; English where it has none."""
    asked = (one.partition(";")[0].partition("-")[0].strip().lower() for one in accepted.split(","))
    plain = (one for one in asked if one.isalpha())
    return next((one for one in plain if one == "en" or f"words/{one}.js" in files().documents), "en")


async def _game(ask: Ask, scope: m.Scope, game_id: str, tenant: str, language: str) -> str:
    reply = await ask("RenderGame", m.GetGameRequest(scope=scope, id=game_id))
    game: m.Render = reply.render
    campaign: m.Campaign | None = None
    several = False
    if game.campaign_id:
        asked = m.GetCampaignRequest(scope=scope, id=game.campaign_id)
        around = await ask("GetPublicCampaign", asked)
        campaign, several = around.campaign, len(around.games) > 1
    found, ui = files(), game.ui or {}
    settings = (campaign.settings if campaign is not None else None) or {}
    prizes = ", ".join(dict.fromkeys(prize.name for prize in game.prizes))
    title = f"{game.name} · {campaign.name}" if campaign is not None else game.name
    described = _text(ui.get("description")) or _text(settings.get("description")) or prizes
    picture = _picture(
        *(ui.get("picture"), _of(ui, "picture", "image"), _of(ui, "background", "image")),
        *(settings.get("picture"), _of(settings, "background", "image")),
    )
    parts = _GAMES.get(game.type) or _GAMES.get(game.reward_handler, ())
    needed = [ENTRY, *(f"games/{part}.js" for part in parts), f"words/{language}.js"]
    loads = "".join(
        f'<link rel="modulepreload" href="{found.address(path)}">\n' for path in needed if path in found.documents
    )
    render = msgspec.json.encode(_render(reply)).decode()
    named = f' tenant="{escape(tenant)}"' if tenant else ""
    back = ""
    if campaign is not None and several:
        address = f"/c/{quote(campaign.id)}{_query(tenant)}"
        back = f'<p class="back"><a href="{address}">{escape(campaign.name)}</a></p>'
    return _whole(
        title=title,
        description=described,
        picture=picture,
        loads=f'{loads}<script type="module" src="{found.address(ENTRY)}"></script>\n',
        body=f"<main>\n<tombola-game game=\"{escape(game.id)}\"{named} hosted render='{_quoted(render)}'>"
        f"<h1>{escape(game.name)}</h1></tombola-game>\n</main>\n{back}{_terms(settings, language)}",
        language=language,
        brand=brand_of(ui),
        site=campaign.name if campaign is not None else "",
    )


def _quoted(text: str) -> str:
    """For an attribute in single quotes: JSON is full of the double ones, which would be six characters each."""
    return text.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")


async def _campaign(ask: Ask, scope: m.Scope, campaign_id: str, tenant: str, language: str) -> str:
    """The campaign's games to choose from; where it has one, that game's page."""
    asked = m.GetCampaignRequest(scope=scope, id=campaign_id)
    reply = await ask("GetPublicCampaign", asked)
    if len(reply.games) == 1:
        return await _game(ask, scope, reply.games[0].id, tenant, language)
    campaign: m.Campaign = reply.campaign
    settings, texts = campaign.settings or {}, PAGE_TEXTS[language]
    games = "".join(_card(game, tenant, texts) for game in reply.games)
    listed = f'<ul class="games">\n{games}</ul>' if games else f'<p class="lead">{escape(texts.no_games)}</p>'
    told = _text(settings.get("description"))
    lead = f'<p class="lead">{escape(told)}</p>\n' if told else ""
    picture = _picture(settings.get("picture"), _of(settings, "picture", "image"))
    cover = f'<img class="cover" src="{escape(picture)}" alt="">\n' if picture else ""
    themed = any(_of(settings, part) for part in CAMPAIGN_PARTS)
    looks = [settings] if themed else [game.ui or {} for game in reply.games]
    return _whole(
        title=campaign.name,
        description=told or ", ".join(game.name for game in reply.games),
        picture=picture or _picture(*(_of(one, "background", "image") for one in (settings, *looks))),
        body=f"<main>\n{cover}<h1>{escape(campaign.name)}</h1>\n{lead}{listed}\n</main>\n{_terms(settings, language)}",
        language=language,
        brand=next((brand for brand in map(brand_of, looks) if brand.style), NO_BRAND),
    )


def _card(game: m.Render, tenant: str, texts: PageTexts) -> str:
    """A game to choose: its picture, name and state, and the button that opens it."""
    ui = game.ui or {}
    image = _picture(ui.get("picture"), _of(ui, "picture", "image"))
    emoji = _text(_of(ui, "picture", "emoji")) or _PICTURES.get(game.type, "🎲")
    shown = f'<img src="{escape(image)}" alt="">' if image else escape(emoji)
    state = _state(game, texts)
    return (
        f'<li><a href="/p/{quote(game.id)}{_query(tenant)}"><span class="picture" aria-hidden="true">{shown}</span>'
        f'<span class="name">{escape(game.name)}</span>{state and f"<span>{escape(state)}</span>"}'
        f'<span class="play">{escape(texts.view if game.reason else texts.play)}</span></a></li>\n'
    )


def _state(game: m.Render, texts: PageTexts) -> str:
    """What is to be known of a game before it is opened; "" where it can be played."""
    if game.reason == "NOT_STARTED":
        start = datetime.fromtimestamp(game.starts_at, ZoneInfo(game.timezone or "UTC"))
        return texts.starts.format(when=f"{start:%Y-%m-%d %H:%M %Z}")
    return {"PAUSED": texts.paused, "ENDED": texts.ended, "SOLD_OUT": texts.sold_out}.get(game.reason, "")


def _terms(settings: Mapping[str, Any], language: str) -> str:
    """The campaign's conditions, as its settings have them: a text, or the https address of one."""
    terms, said = _text(settings.get("terms")).strip(), escape(PAGE_TEXTS[language].terms)
    if not terms:
        return ""
    if _is_https(terms) and not any(one.isspace() for one in terms):
        return f'<footer><a href="{escape(terms)}" rel="noopener">{said}</a></footer>'
    return f"<footer><details><summary>{said}</summary><p>{escape(terms)}</p></details></footer>"


def _themes(language: str) -> Document:
    """Every theme that `ui.theme.preset` may name, on a widget that plays nothing, for operators to choose from."""
    found, said = files(), PAGE_TEXTS[language]
    loads = (
        f'<link rel="stylesheet" href="{found.address("themes/page.css")}">\n'
        f'<script type="module" src="{found.address("themes/page.js")}"></script>\n'
    )
    lead = escape(said.themes_lead)
    body = f'<main class="themes">\n<h1>{escape(said.themes)}</h1>\n<p class="lead">{lead}</p>\n</main>'
    page = _whole(title=said.themes, description=said.themes_lead, loads=loads, body=body, language=language).encode()
    policy = _policy((), _styles(page))
    return Document.of(page, {**_HEADERS, "Vary": "Accept-Language", "Content-Security-Policy": policy})


def _missing(what: str, language: str) -> str:
    said = PAGE_TEXTS[language].no_game if what == "game" else PAGE_TEXTS[language].no_campaign
    body = f'<main>\n<h1 class="missing">{escape(said)}</h1>\n</main>'
    return _whole(title=said, body=body, language=language)


def _whole(
    *,
    title: str,
    body: str,
    language: str,
    description: str = "",
    picture: str = "",
    loads: str = "",
    brand: Brand = NO_BRAND,
    site: str = "",
) -> str:
    """The page; `loads` and `body` are HTML, the rest is text. site: what the page is one of."""
    found = files()
    direction = "rtl" if language in _RIGHT_TO_LEFT else "ltr"
    said = escape(description[:_DESCRIPTION_CHARACTERS_MAX])
    seen = f'<meta property="og:image" content="{escape(picture)}">\n' if picture else ""
    if picture:
        seen += f'<meta property="og:image:alt" content="{escape(title)}">\n'
    if site:
        seen += f'<meta property="og:site_name" content="{escape(site)}">\n'
    if brand.colour:
        seen += f'<meta name="theme-color" content="{escape(brand.colour)}">\n'
    return (
        f'<!doctype html>\n<html lang="{language}" dir="{direction}">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="{brand.scheme}">\n'
        f'<meta name="description" content="{said}">\n'
        f'<meta property="og:type" content="website">\n<meta property="og:title" content="{escape(title)}">\n'
        f'<meta property="og:description" content="{said}">\n{seen}'
        f'<meta name="twitter:card" content="{"summary_large_image" if picture else "summary"}">\n'
        f'<link rel="icon" href="{found.address("icon.svg")}">\n'
        f"<style>{found.styles}{brand.style}</style>\n{loads}"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _query(tenant: str) -> str:
    return f"?tenant_id={quote(tenant)}" if tenant else ""


def _of(value: Any, *names: str) -> Any:
    """What stands at the end of the names, in what an operator may have made of anything; else None."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _picture(*values: Any) -> str:
    """The first https address: what shows a preview loads no other."""
    return next((value for value in values if isinstance(value, str) and _is_https(value)), "")


def _is_https(address: str) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme == "https" and bool(parts.netloc)
