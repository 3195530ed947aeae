"""The hosted pages: a game at /p/{game_id}, a campaign with its games at /c/{campaign_id}, with its terms,
privacy notice and imprint below that; the themes at /themes.

The head of a page has its own data, for link previews; the widget plays the game. No script is inline, so the
Content-Security-Policy allows only our own script files, whatever an operator's name or text contains.

A game is playable after two round trips. The first loads the page, with its inline styles (allowed by their hash in the
policy), its name and the game's data, so that it renders at once; the second loads the widget, the game and the texts.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from html import escape, unescape
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status, unknown
from runtime.http.edge import Edge
from runtime.http.envelope import Handler
from runtime.http.pages.brand import NO_BRAND, Brand, brand_of
from runtime.http.pages.campaign_parts import (
    cards,
    doors,
    entry_place,
    notice,
    picture_of,
    query_of,
    quoted,
    text_in,
    value_at,
)
from runtime.http.pages.files import ENTRY, files
from runtime.http.pages.page_texts import PAGE_TEXTS
from runtime.http.pages.page_tracking import sources_of, trackers_of, tracking_head
from runtime.http.pages.static_documents import Document, built_once
from runtime.http.views import edge_view
from runtime.operations import BY_NAME
from runtime.rules.ui import CAMPAIGN_PARTS, is_asset, with_preset
from runtime.rules.ui.markdown import html_of, is_link
from runtime.rules.ui.pages import CALENDAR, LEGAL, text_of
from runtime.wire import codec
from runtime.wire.origins import host_problem

_DESCRIPTION_CHARACTERS_MAX: Final = 200
_CSS_CHARACTERS_MAX: Final = 20_000
_TAG: Final = re.compile(r"<[^>]*>")
_BREAK: Final = re.compile(r"</(?:p|li)>|<br>")
_GAMES: Final = {
    "spin_wheel": ("wheel",),
    "scratch_card": ("scratch",),
    "moments": ("scratch",),
    "score_to_tier": ("eggs", "catching"),
    "collect_items": ("gifts", "catching"),
    "lucky_item": ("collection",),
}
"""The files of `widget/games` to preload, by type or reward handler (widget/games.js)."""

HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "strict-origin-when-cross-origin",
    "Cache-Control": "no-cache",
}
_RIGHT_TO_LEFT: Final = frozenset({"ar"})
_render = edge_view(BY_NAME["RenderGame"])

Ask = Callable[[str, Any], Awaitable[Any]]
"""Calls Core's operation of this name, with the lookup limit for unknown ids."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page. tenant: as the address names it. base: the edge's public URL, "" if it is unknown.
    host_campaign: the campaign whose host it is, if any.
    """

    call: Ask
    scope: m.Scope
    tenant: str
    language: str
    base: str
    host_campaign: str


Make = Callable[[Asked, str], Awaitable[str]]


def mount(app: web.Application, edge: Edge) -> None:
    """Adds the pages."""
    app.router.add_get("/", _page(edge, "campaign", _campaign))
    app.router.add_get("/p/{id}", _page(edge, "game", _game))
    app.router.add_get("/c/{id}", _page(edge, "campaign", _campaign))
    for name in LEGAL:
        app.router.add_get(f"/c/{{id}}/{name}", _page(edge, "campaign", partial(_legal, name), below=name))
    app.router.add_get("/themes", _gallery())


def policy_of(origins: Iterable[str], styles: str, forms: str = "'none'", trackers: Iterable[str] = ()) -> str:
    """The Content-Security-Policy. origins: those that may frame the page. styles: the inline styles. forms: where the
    page's forms may be sent. trackers: those that the page may load.
    """
    scripts, calls = (" ".join(["'self'", *sources]) for sources in sources_of(trackers))
    framing = " ".join(["'self'", *origins])
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'sha256-{digest}';"
        f" img-src 'self' https: data:; font-src 'self'; connect-src {calls}; base-uri 'none';"
        f" form-action {forms}; frame-ancestors {framing}"
    )


def _gallery() -> Handler:
    pages = {language: built_once(partial(_themes, language)) for language in PAGE_TEXTS}

    async def answer(request: web.Request) -> web.StreamResponse:
        return await pages[language_of(request.headers.get("Accept-Language", ""))](request)

    return answer


def _page(edge: Edge, what: str, make: Make, below: str = "") -> Handler:
    headers = {**HEADERS, "Vary": "Accept-Language"}

    async def answer(request: web.Request) -> web.Response:
        status, named = 200, request.query.get("tenant_id", "")
        language = language_of(request.headers.get("Accept-Language", ""))
        framing: tuple[str, ...] = ()
        try:
            of_host = await host_of(edge, request)
            if "id" not in request.match_info:
                if not of_host.campaign_id:
                    raise web.HTTPNotFound
                scope, shown_id = m.Scope(tenant_id=of_host.tenant_id), of_host.campaign_id
            else:
                shown_id = codec.path_text("id", request.match_info["id"])
                scope = m.Scope(tenant_id=(await edge.checked_scope(request, None)).tenant_id)
            if of_host.tenant_id not in ("", scope.tenant_id):
                raise unknown("tenant", scope.tenant_id)  # A brand's host shows no page of another tenant.
            # The checked tenant only, because it is part of the cache key.
            named = scope.tenant_id if named or of_host.tenant_id else ""

            async def ask(name: str, message: Any) -> Any:
                return await edge.lookups.call(BY_NAME[name], message, request)

            async def made() -> bytes:
                base = edge.settings.consumer_base_url.rstrip("/")
                asked = Asked(ask, scope, named, language, base, of_host.campaign_id)
                return (await make(asked, shown_id)).encode()

            key = f"page {what}{below}:{shown_id}:{named}:{language}:{of_host.campaign_id}"
            body = await edge.cache.get(scope.tenant_id, key, made)
            framing = await edge.origins.frame_ancestors(scope.tenant_id, **{f"{what}_id": shown_id})
        except Fault as fault:
            if fault.status not in (Status.NOT_FOUND, Status.INVALID_ARGUMENT):
                raise
            status, body = fault.http, _missing(what, language).encode()
        policy = policy_of(framing, styles_of(body), trackers=trackers_of(body))
        return web.Response(body=body, status=status, headers={**headers, "Content-Security-Policy": policy})

    return answer


async def host_of(edge: Edge, request: web.Request) -> m.FindHostReply:
    """The tenant and campaign of the request's host; empty for the service's own hosts."""
    host = request.headers.get("Host", "").lower().partition(":")[0].removesuffix(".")
    if host == urlsplit(edge.settings.consumer_base_url).hostname or host_problem(host):
        return m.FindHostReply()
    return await edge.origins.campaign_of(host, request)


def styles_of(page: bytes) -> str:
    """The inline styles of a page as a browser hashes them: with LF line breaks. Operators' texts are escaped, so the
    first style tags are ours.
    """
    styles = page.partition(b"<style>")[2].partition(b"</style>")[0].decode()
    return styles.replace("\r\n", "\n").replace("\r", "\n")


def language_of(accepted: str) -> str:
    """The first language of an Accept-Language that the widget has texts in; else English."""
    requested = (one.partition(";")[0].partition("-")[0].strip().lower() for one in accepted.split(","))
    plain = (one for one in requested if one.isalpha())
    return next((one for one in plain if one == "en" or f"words/{one}.js" in files().documents), "en")


async def _game(asked: Asked, game_id: str) -> str:
    scope, tenant, language = asked.scope, asked.tenant, asked.language
    reply = await asked.call("RenderGame", m.GetGameRequest(scope=scope, id=game_id))
    game: m.Render = reply.render
    campaign: m.Campaign | None = None
    several = False
    if game.campaign_id:
        message = m.GetCampaignRequest(scope=scope, id=game.campaign_id)
        around = await asked.call("GetPublicCampaign", message)
        campaign, several = around.campaign, len(around.games) > 1
    found, ui = files(), game.ui or {}
    settings = (campaign.settings if campaign is not None else None) or {}
    prizes = ", ".join(dict.fromkeys(prize.name for prize in game.prizes))
    texts = value_at(ui, "page", "texts")
    own_title = text_of(value_at(texts, "title"), language)
    title = own_title or (f"{game.name} · {campaign.name}" if campaign is not None else game.name)
    intro = _plain(text_of(value_at(texts, "intro"), language))
    own_description, of_campaign = text_in(ui.get("description")), text_in(settings.get("description"))
    described = intro or own_description or of_campaign or prizes
    if of_campaign and not own_description and not several:
        # The campaign has no page that shows it.
        reply.render.ui = ui = {**ui, "description": of_campaign}
    picture = picture_of(
        *(ui.get("preview"), settings.get("preview"), ui.get("picture")),
        *(value_at(ui, "picture", "image"), value_at(ui, "background", "image")),
        *(settings.get("picture"), value_at(settings, "background", "image")),
    )
    parts = _GAMES.get(game.type) or _GAMES.get(game.reward_handler, ())
    own = ("page.js",) if "page" in ui else ()
    needed = [ENTRY, *(f"games/{part}.js" for part in parts), f"words/{language}.js", *own]
    loads = "".join(
        f'<link rel="modulepreload" href="{found.address(path)}">\n' for path in needed if path in found.documents
    )
    render = msgspec.json.encode(_render(reply)).decode()
    named = f' tenant="{escape(tenant)}"' if tenant else ""
    back = ""
    if campaign is not None and several:
        address = f"/c/{quote(campaign.id)}{query_of(tenant)}"
        back = f'<p class="back"><a href="{address}">{escape(campaign.name)}</a></p>'
    return whole_page(
        title=title,
        description=described,
        picture=_absolute(picture, asked.base),
        loads=f'{loads}<script type="module" src="{found.address(ENTRY)}"></script>\n',
        body=f"<main>\n<tombola-game game=\"{escape(game.id)}\"{named} hosted render='{quoted(render)}'>"
        f"<h1>{escape(own_title or game.name)}</h1></tombola-game>\n</main>\n{back}"
        f"{_footer(asked, settings, game.campaign_id)}",
        language=language,
        brand=brand_of(ui),
        css=_css(settings),
        site=campaign.name if campaign is not None else "",
        head=tracking_head(campaign, tenant, asked.host_campaign),
    )


async def _campaign(asked: Asked, campaign_id: str) -> str:
    """The page with the campaign's games to choose from; with a single game, that game's page."""
    message = m.GetCampaignRequest(scope=asked.scope, id=campaign_id)
    reply = await asked.call("GetPublicCampaign", message)
    if len(reply.games) == 1 and not _has_doors(reply.campaign.settings or {}):
        return await _game(asked, reply.games[0].id)
    language, tenant = asked.language, asked.tenant
    campaign: m.Campaign = reply.campaign
    settings, texts = campaign.settings or {}, PAGE_TEXTS[language]
    calendar = _has_doors(settings)
    if not reply.games and (campaign.entry is not None or reply.draws):
        listed = entry_place(reply, with_preset(settings) or {}, texts)
    else:
        listed = doors(reply.games, tenant, texts) if calendar else cards(reply.games, tenant, texts)
    around = notice(reply, language)
    own = value_at(settings, "page", "texts")
    title = text_of(value_at(own, "title"), language) or campaign.name
    intro, described = text_of(value_at(own, "intro"), language), text_in(settings.get("description"))
    lead = f'<p class="lead">{escape(described)}</p>\n' if described else ""
    if intro:
        lead, described = f'<div class="lead">{html_of(intro)}</div>\n', _plain(intro)
    picture = picture_of(settings.get("picture"), value_at(settings, "picture", "image"))
    cover = f'<img class="cover" src="{escape(picture)}" alt="">\n' if picture else ""
    themed = any(value_at(settings, part) for part in CAMPAIGN_PARTS)
    looks = [settings] if themed else [game.ui or {} for game in reply.games]
    backgrounds = (value_at(one, "background", "image") for one in (settings, *looks))
    return whole_page(
        title=title,
        description=described or ", ".join(game.name for game in reply.games),
        picture=_absolute(picture_of(settings.get("preview"), picture, *backgrounds), asked.base),
        loads=_loads(_scripts(around + listed), calendar),
        body=f'<main data-campaign="{escape(campaign_id)}" data-tenant="{escape(tenant)}">\n'
        f"{_logo(settings)}{cover}<h1>{escape(title)}</h1>\n{lead}{around}{listed}\n</main>\n"
        f"{_footer(asked, settings, campaign_id)}",
        language=language,
        brand=next((brand for brand in map(brand_of, looks) if brand.style), NO_BRAND),
        css=_css(settings),
        head=tracking_head(campaign, tenant, asked.host_campaign),
    )


def _has_doors(settings: Mapping[str, Any]) -> bool:
    return bool(value_at(settings, "page", "layout") == CALENDAR)


def _scripts(shown: str) -> list[str]:
    """The scripts that report a view, and those for a campaign's times, its links to games and its entry form."""
    parts = (("times.js", "<time"), ("links.js", '<a href="/p/'), ("enter.js", "<div data-entry"))
    return ["views.js", *(name for name, part in parts if part in shown)]


def _loads(scripts: Iterable[str], calendar: bool) -> str:
    """The elements that load the scripts, and the calendar's styles."""
    sheet = f'<link rel="stylesheet" href="{files().address("calendar.css")}">\n' if calendar else ""
    return sheet + "".join(f'<script type="module" src="{files().address(one)}"></script>\n' for one in scripts)


def _logo(settings: Mapping[str, Any]) -> str:
    """The logo of the campaign's theme. A game shows its own."""
    logo = picture_of(value_at(settings, "theme", "logo"))
    alt = text_in(value_at(settings, "theme", "logo_alt"))
    return f'<img class="logo" src="{escape(logo)}" alt="{escape(alt)}">\n' if logo else ""


def _css(settings: Mapping[str, Any]) -> str:
    """The campaign's own CSS; "" if it is invalid: a tag would end the style element."""
    css = text_in(settings.get("css"))
    return css if "<" not in css and len(css) <= _CSS_CHARACTERS_MAX else ""


def _legal_text(settings: Mapping[str, Any], name: str, language: str) -> str:
    """The campaign's terms, privacy notice or imprint; "" if there is none."""
    own = text_of(value_at(settings, "page", "texts", name), language)
    return (own or (text_in(settings.get("terms")) if name == "terms" else "")).strip()


def _footer(asked: Asked, settings: Mapping[str, Any], campaign_id: str) -> str:
    """Links to the campaign's terms, privacy notice and imprint."""
    links = []
    for name in LEGAL:
        if text := _legal_text(settings, name, asked.language):
            here = f"/c/{quote(campaign_id)}/{name}{query_of(asked.tenant)}"
            address = text if is_link(text) else here
            label = escape(getattr(PAGE_TEXTS[asked.language], name))
            links.append(f'<a href="{escape(address)}" rel="noopener">{label}</a>')
    return f"<footer>{' '.join(links)}</footer>" if links else ""


async def _legal(name: str, asked: Asked, campaign_id: str) -> str:
    """The page of the campaign's terms, privacy notice or imprint. NOT_FOUND without one."""
    message = m.GetCampaignRequest(scope=asked.scope, id=campaign_id)
    campaign: m.Campaign = (await asked.call("GetPublicCampaign", message)).campaign
    settings = campaign.settings or {}
    text = _legal_text(settings, name, asked.language)
    if not text:
        raise unknown("campaign", campaign_id)
    label = getattr(PAGE_TEXTS[asked.language], name)
    shown = f'<p><a href="{escape(text)}" rel="noopener">{escape(text)}</a></p>' if is_link(text) else html_of(text)
    back = f'<p class="back"><a href="/c/{quote(campaign_id)}{query_of(asked.tenant)}">{escape(campaign.name)}</a></p>'
    return whole_page(
        title=f"{label} · {campaign.name}",
        body=f'<main class="legal">\n{_logo(settings)}<h1>{escape(label)}</h1>\n{shown}</main>\n{back}'
        f"{_footer(asked, settings, campaign_id)}",
        language=asked.language,
        brand=brand_of(settings),
        css=_css(settings),
        site=campaign.name,
    )


def _plain(text: str) -> str:
    """The words of a Markdown text, for link previews."""
    return " ".join(unescape(_TAG.sub("", _BREAK.sub(" ", html_of(text)))).split())


def _themes(language: str) -> Document:
    """The page of all themes for `ui.theme.preset`, each on a demo widget, for operators to choose from."""
    found, texts = files(), PAGE_TEXTS[language]
    loads = (
        f'<link rel="stylesheet" href="{found.address("themes/page.css")}">\n'
        f'<script type="module" src="{found.address("themes/page.js")}"></script>\n'
    )
    lead = escape(texts.themes_lead)
    body = f'<main class="themes">\n<h1>{escape(texts.themes)}</h1>\n<p class="lead">{lead}</p>\n</main>'
    page = whole_page(
        title=texts.themes, description=texts.themes_lead, loads=loads, body=body, language=language
    ).encode()
    policy = policy_of((), styles_of(page))
    return Document.of(page, {**HEADERS, "Vary": "Accept-Language", "Content-Security-Policy": policy})


def _missing(what: str, language: str) -> str:
    title = PAGE_TEXTS[language].no_game if what == "game" else PAGE_TEXTS[language].no_campaign
    body = f'<main>\n<h1 class="missing">{escape(title)}</h1>\n</main>'
    return whole_page(title=title, body=body, language=language)


def whole_page(
    *,
    title: str,
    body: str,
    language: str,
    description: str = "",
    picture: str = "",
    loads: str = "",
    brand: Brand = NO_BRAND,
    css: str = "",
    site: str = "",
    head: str = "",
) -> str:
    """The whole page; `loads`, `body` and `head` are HTML, the rest is text. site: the campaign's name."""
    found = files()
    direction = "rtl" if language in _RIGHT_TO_LEFT else "ltr"
    summary = escape(description[:_DESCRIPTION_CHARACTERS_MAX])
    meta = f'<meta property="og:image" content="{escape(picture)}">\n' if picture else ""
    if picture:
        meta += f'<meta property="og:image:alt" content="{escape(title)}">\n'
    if site:
        meta += f'<meta property="og:site_name" content="{escape(site)}">\n'
    if brand.colour:
        meta += f'<meta name="theme-color" content="{escape(brand.colour)}">\n'
    return (
        f'<!doctype html>\n<html lang="{language}" dir="{direction}">\n<head>\n<meta charset="utf-8">\n{head}'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="{brand.scheme}">\n'
        f'<meta name="description" content="{summary}">\n'
        f'<meta property="og:type" content="website">\n<meta property="og:title" content="{escape(title)}">\n'
        f'<meta property="og:description" content="{summary}">\n{meta}'
        f'<meta name="twitter:card" content="{"summary_large_image" if picture else "summary"}">\n'
        f'<link rel="icon" href="{found.address("icon.svg")}">\n'
        f"<style>{found.styles}{brand.style}{css}</style>\n{loads}"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _absolute(picture: str, base: str) -> str:
    """The URL of a picture for link previews, which need an absolute one; "" if the edge's own URL is unknown."""
    return picture if not is_asset(picture) else f"{base}{picture}" if base else ""
