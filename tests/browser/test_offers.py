"""What the element offers the page that it stands on: attributes, methods, events, slots, and its look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import OTHER_TENANT, Stack, make_tenant
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

MADE = """([game, attributes, html]) => {
    document.querySelector("tombola-game").remove();
    window.told = [];
    for (const name of ["ready", "started", "played", "won", "claimed", "refused", "error"])
        document.addEventListener(`tombola:${name}`, (event) => window.told.push([name, event.detail]));
    const made = document.createElement("tombola-game");
    for (const [name, value] of Object.entries({ game, ...attributes })) made.setAttribute(name, value);
    for (const [slot, text] of Object.entries(html)) {
        const child = made.appendChild(document.createElement("p"));
        child.slot = slot;
        child.textContent = text;
    }
    document.querySelector("main").append(made);
}"""
STYLE = """(css) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    document.adoptedStyleSheets.push(sheet);
}"""
OF_PART = """([part, property]) => getComputedStyle(
    document.querySelector("tombola-game").shadowRoot.querySelector(`[part~=${part}]`)).getPropertyValue(property)"""


async def embed(visit: Visit, game_id: str, **attributes: Any) -> None:
    """The element made by a page's own script, in place of the hosted one."""
    slots = attributes.pop("slots", {})
    given = {name.replace("_", "-"): value for name, value in attributes.items()}
    await visit.page.evaluate(MADE, [game_id, given, slots])
    await visit.ready()


async def told(visit: Visit) -> dict[str, Any]:
    return dict(await visit.page.evaluate("window.told"))


async def test_events_tell_what_happens_in_their_order(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public", rules={"max_plays_per_user": 1})
    await visit.open(game_id)
    await embed(visit, game_id, client_seed="lucky")
    result = await visit.play()
    assert result["client_seed"] == "lucky"
    names = [name for name, _ in await visit.page.evaluate("window.told")]
    assert names == ["ready", "started", "played", "won"]
    details = await told(visit)
    assert details["ready"]["game"]["id"] == game_id and details["ready"]["standing"]["can_play"] is True
    assert details["started"]["session_id"] == result["session"]["session_id"]
    assert details["played"] == result
    assert details["won"] == {"rewards": result["rewards"], "play_id": result["play_id"]}
    assert await visit.page.evaluate("document.querySelector('tombola-game').play()") is None
    refused = (await told(visit))["refused"]
    assert refused["reason"] == "CAP_USER" and set(refused) == {"reason", "message", "resets_at"}
    visit.forgive("400")


async def test_start_opens_the_session_that_play_plays(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    await visit.open(game_id)
    session = await visit.page.evaluate("document.querySelector('tombola-game').start()")
    again = await visit.page.evaluate("document.querySelector('tombola-game').start()")
    assert again == session
    assert (await visit.play())["session"] == session
    assert len(await fair.plays()) == 1


async def test_a_players_token_plays_as_that_player_and_nobody_is_asked_to_sign_in(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"))
    await visit.open(game_id)
    await embed(visit, game_id, token=fair.stack.token("ann"))
    await visit.press()
    assert await visit.kind() == "won"
    assert await visit.page.is_hidden("[data-panel=login]") and await visit.page.is_hidden("[data-keep]")
    assert len((await fair.history(game_id))["items"]) == 1


async def test_a_tenant_is_named_by_its_attribute(shop: Stack, visit: Visit) -> None:
    other = await make_tenant(shop, OTHER_TENANT)
    async with new_world(other, name="Elsewhere") as world:
        game_id = await world.wheel(await world.prize(name="Cup"), access="public", name="Far wheel")
        here = Visit(visit.page, other)
        await here.open(game_id)
        await embed(here, game_id, tenant=OTHER_TENANT)
        await here.press()
        assert "Cup" in await here.result()
        await embed(here, game_id)
        assert await here.page.inner_text(".card h3") == "There is no such game, or it is over."
    visit.forgive("404")


async def test_the_page_has_its_look_its_parts_and_its_slots(fair: World, visit: Visit) -> None:
    ui = {"theme": {"primary": "#ff0000", "radius": "1em", "font": "Georgia"}, "background": {"color": "#ffffff"}}
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public", ui=ui)
    await visit.open(game_id)
    css = """tombola-game { --tombola-primary: rgb(0 102 51); --tombola-accent: rgb(250 200 0); --tombola-mode: light;
        --tombola-background: rgb(240 240 240); --tombola-font: monospace; --tombola-radius: 3px; }
        tombola-game::part(button) { text-transform: uppercase; } tombola-game::part(title) { letter-spacing: 3px; }"""
    await visit.page.evaluate(STYLE, css)
    await embed(visit, game_id, slots={"before": "Our fair", "after": "Terms apply"})
    for part, name, value in (
        ("button", "--t-primary", "rgb(0 102 51)"),
        ("button", "--t-accent", "rgb(250 200 0)"),
        ("frame", "--t-ground", "rgb(240 240 240)"),
        ("frame", "border-top-left-radius", "3px"),
        ("frame", "font-family", "monospace"),
        ("button", "text-transform", "uppercase"),
        ("title", "letter-spacing", "3px"),
    ):
        found = str(await visit.page.evaluate(OF_PART, [part, name]))
        assert found == value or (name == "font-family" and found.startswith(value)), (part, name, found)
    assert await visit.page.is_visible("text=Our fair") and await visit.page.is_visible("text=Terms apply")


async def test_a_locale_is_named_by_its_attribute(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
        await visit.open(game_id)
        await embed(visit, game_id, locale="de-AT")
        assert await visit.page.get_attribute(".frame", "lang") == "de-AT"


async def test_what_could_not_be_loaded_is_loaded_again_by_the_button(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    await visit.open(game_id)
    away = True

    async def answer(route: Any) -> None:
        await (route.abort("connectionrefused") if away else route.continue_())

    await visit.page.route("**/render", answer)
    await embed(visit, game_id)
    assert await visit.kind() == "refused"
    assert (await told(visit))["error"]["reason"] == "NO_ANSWER"
    away = False
    await visit.page.click("button.main")
    await visit.page.wait_for_selector(".wheel")
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("ERR_CONNECTION_REFUSED")
