"""One browser is one player, in all its tabs and games, and no guest is lost who may have won something."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from runtime.http.pages import files
from tests.browser.test_collection import ALBUM, collection, rungs
from tests.browser.test_login import LOGIN, REFRESH, SET_LOGIN, game, owners, phone, sign_in
from tests.support.browsing import STILL, Visit, visiting
from tests.support.login import Phone
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

__all__ = ["phone"]

API = "**/api/v1/**"
START = "**/api/v1/games/*/start"
PLAY = "**/api/v1/games/*/play"
VERIFY = "**/api/v1/players/auth/verify"
NO_LOCKS = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
KEPT = "(kind) => Object.entries(localStorage).find(([name]) => name.startsWith(`tombola.${kind}:`))?.[1] ?? ''"
ASIDE = f"({KEPT})('aside')"
SIGNED_IN = """() => [...document.querySelectorAll("tombola-game")].every(
    (one) => one.shadowRoot.querySelector("[data-panel=login]").textContent.includes("Signed in"))"""


async def refuse_guests(visit: Visit, reason: str, token: str) -> None:
    """From now on the service refuses this token, as if it erred."""

    async def refuse(route: Route) -> None:
        if token not in route.request.headers.get("authorization", ""):
            return await route.continue_()
        body = {"code": "UNAUTHENTICATED", "message": "", "trace_id": "", "data": {"reason": reason}}
        await route.fulfill(status=401, json=body)
        return None

    await visit.page.route(API, refuse)


@pytest.mark.parametrize("reason", ["TOKEN_INVALID", "TOKEN_EXPIRED"])
async def test_a_guest_whose_token_is_refused_for_a_while_is_the_guest_again(
    fair: World, visit: Visit, reason: str
) -> None:
    await visit.open(await game(fair))
    await visit.play()
    token = await visit.guest_token()
    await refuse_guests(visit, reason, token)
    await visit.page.reload()
    await visit.page.wait_for_function(f"() => {ASIDE} !== ''")
    await visit.page.unroute(API)
    await visit.page.reload()
    await visit.page.wait_for_function(f"() => {ASIDE} === ''")
    assert await visit.guest_token() == token
    await visit.page.wait_for_function("() => document.querySelector('tombola-game').shadowRoot.querySelector('.main')")
    await visit.play()
    assert len(set(await owners(fair))) == 1
    visit.forgive("401")


async def test_a_guest_who_was_refused_is_found_again_after_another_one_has_signed_in(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
    await visit.play()
    first = await visit.guest_token()
    await refuse_guests(visit, "TOKEN_INVALID", first)
    await visit.page.evaluate("sessionStorage.clear()")
    await visit.page.reload()
    await visit.ready()
    await visit.play()
    assert await visit.guest_token() != first and first in await visit.page.evaluate(ASIDE)
    await visit.page.unroute(API)
    login = await sign_in(visit, phone, "ned@aside.test")
    await visit.page.reload()
    await visit.page.wait_for_function(f"() => {ASIDE} === ''")
    assert await visit.guest_token() == first
    found = await owners(fair)
    assert found.count(login["player"]["id"]) == 1 and len(found) == 2
    visit.forgive("401")


async def test_a_guest_who_signed_in_elsewhere_plays_on_as_another(fair: World, visit: Visit, phone: Phone) -> None:
    """Its tokens are TOKEN_INVALID then. The service's answer was lost, so that the page does not know."""
    await visit.open(await game(fair))
    await visit.play()
    token = await visit.guest_token()
    login = await sign_in(visit, phone, "oda@merged.test")
    await visit.page.evaluate(
        """(token) => {
            const name = Object.keys(localStorage).find((name) => name.startsWith("tombola.login"));
            localStorage.setItem(name.replace("login", "guest"), JSON.stringify(token));
            localStorage.removeItem(name);
            sessionStorage.clear();
        }""",
        token,
    )
    await visit.page.reload()
    await visit.ready()
    await visit.play()
    found = await owners(fair)
    assert len(found) == 2 and found.count(login["player"]["id"]) == 1
    assert await visit.guest_token() != token
    visit.forgive("401")


async def test_a_refusal_that_is_not_the_services_own_costs_no_guest(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    await visit.play()
    token = await visit.guest_token()
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        refused.append(route.request.url)
        await (route.fulfill(status=401, body="<h1>Proxy</h1>") if len(refused) < 3 else route.continue_())

    await visit.page.route(API, refuse)
    await visit.press()
    assert await visit.kind() == "won"
    assert await visit.guest_token() == token and len(refused) >= 3
    assert len(set(await owners(fair))) == 1
    visit.forgive("401")


@pytest.mark.parametrize("locks", [True, False])
async def test_two_tabs_that_begin_at_once_are_one_guest(
    fair: World, browser: Browser, shop: Stack, locks: bool
) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        if not locks:
            await visit.page.context.add_init_script(NO_LOCKS)
        game_id = await game(fair)
        other = Visit(await visit.page.context.new_page(), shop)
        for one in (visit, other):
            await one.open(game_id)
        under_way: list[str] = []

        async def slowly(route: Route) -> None:
            under_way.append(route.request.headers.get("authorization", ""))
            for one in (visit, other):  # Both have begun by now.
                await one.page.wait_for_selector(".frame:not([data-state=ready])")
            await route.continue_()

        await visit.page.context.route(START, slowly)
        await asyncio.gather(visit.play(), other.play())
        assert len(await owners(fair)) == 2 and len(set(await owners(fair))) == 1
        assert [bool(bearer) for bearer in under_way] == [False, True]


async def test_a_guest_whom_the_service_has_not_merged_is_kept(fair: World, visit: Visit, phone: Phone) -> None:
    """What a suspended guest has won stays with it, until it is one no more."""
    await visit.open(await game(fair))
    await visit.play()
    token, [guest] = await visit.guest_token(), await owners(fair)
    await fair.database.execute("UPDATE players SET status = 'suspended' WHERE player_id = $1", guest)
    login = await sign_in(visit, phone, "pia@kept.test")
    assert login["player"]["id"] != guest and "guest_merged" not in login
    assert await owners(fair) == [guest] and await visit.guest_token() == token


async def test_a_refresh_that_hangs_is_asked_for_again_and_ends_no_login(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
    login = await sign_in(visit, phone, "quin@hangs.test")
    asked: list[str] = []
    answered = asyncio.Event()

    async def hang(route: Route) -> None:
        asked.append(route.request.post_data or "")
        if len(asked) == 1:
            await route.fetch()  # The tokens are turned; the answer comes when nobody waits for it.
            await answered.wait()
            return await route.abort()
        await route.continue_()
        return None

    await visit.page.route(REFRESH, hang)
    await visit.page.evaluate(SET_LOGIN, [fair.stack.token(login["player"]["id"], seconds=-3600), None])
    try:
        await visit.press()
        assert await visit.kind() == "won"
    finally:
        answered.set()
    assert len(asked) == 2 and len(set(asked)) == 1
    assert json.loads(await visit.page.evaluate(LOGIN))["player"]["id"] == login["player"]["id"]
    assert await owners(fair) == [login["player"]["id"]]
    visit.forgive("401", "ERR_FAILED")


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 403, "body": "<h1>Forbidden</h1>", "content_type": "text/html"},
        {"status": 413, "json": {"error": "too large"}},
        {"status": 429, "body": "", "headers": {"Retry-After": "1"}},
    ],
)
async def test_what_a_proxy_refuses_is_asked_for_again_as_the_same_play(
    fair: World, visit: Visit, answer: dict[str, Any]
) -> None:
    await visit.open(await game(fair))
    keys: list[str] = []

    async def refuse(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()  # It was played, and its answer refused on its way.
        await (route.fulfill(**answer) if len(keys) < 3 else route.continue_())

    await visit.page.route(PLAY, refuse)
    await visit.press()
    await visit.page.wait_for_selector("text=That takes longer than usual. Your play is kept.")
    assert await visit.kind() == "won"
    assert len(keys) == 3 and len(set(keys)) == 1 and len(await fair.plays()) == 1
    visit.forgive(str(answer["status"]))


async def sign_out(visit: Visit) -> None:
    await visit.page.bring_to_front()
    await visit.page.click("[data-panel=login]")
    await visit.page.click("dialog button:has-text('Sign out')")
    await visit.page.wait_for_selector("dialog >> text=You are signed out")
    await visit.page.keyboard.press("Escape")
    await visit.page.wait_for_selector("dialog", state="detached")


async def test_all_games_of_a_page_and_all_tabs_hear_who_plays_and_nobody_hears_a_token(
    fair: World, browser: Browser, shop: Stack, phone: Phone
) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        other = Visit(await visit.page.context.new_page(), shop)
        two = await game(fair, rules={"max_plays_per_user": 3})
        for one in (visit, other):
            await one.open(await game(fair))
            await one.page.evaluate(
                """([id, tenant]) => {
                    const game = document.createElement("tombola-game");
                    game.setAttribute("game", id);
                    game.setAttribute("tenant", tenant);
                    window.heard = [];
                    new BroadcastChannel("tombola.login").onmessage = ({ data }) => window.heard.push(data);
                    return new Promise((ready) => {
                        game.addEventListener("tombola:ready", ready);
                        document.querySelector("main").append(game);
                    });
                }""",
                [two, shop.tenant_id],
            )
        await visit.page.bring_to_front()  # A tab behind another one is slow to take a click.
        login = await sign_in(visit, phone, "rex@page.test", by="[data-panel=login] >> nth=0")
        for one in (visit, other):
            await one.page.wait_for_function(SIGNED_IN)
        await other.page.evaluate("document.querySelectorAll('tombola-game')[1].play()")
        assert await owners(fair) == [login["player"]["id"]]
        await other.page.bring_to_front()
        await other.page.locator("[data-panel=login]").nth(1).click()
        await other.page.click("dialog button:has-text('Sign out')")
        await visit.page.wait_for_function(SIGNED_IN.replace("Signed in", "Sign in"))
        assert await visit.page.evaluate("window.heard") == await other.page.evaluate("window.heard") == []
        assert await visit.page.evaluate(LOGIN) is None


async def test_who_signs_out_leaves_no_session_of_any_game_to_who_plays_next(
    fair: World, browser: Browser, shop: Stack, phone: Phone
) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        games = [await game(fair) for _ in range(2)]
        other = Visit(await visit.page.context.new_page(), shop)
        await visit.open(games[0])
        await visit.page.bring_to_front()
        login = await sign_in(visit, phone, "sue@leaves.test")
        for one, game_id in ((visit, games[1]), (visit, games[0]), (other, games[0])):
            await one.open(game_id)
            await one.play()  # And holds the next session.
        kept = "Object.keys(sessionStorage).filter((name) => name.startsWith('tombola.play')).length"
        assert (await visit.page.evaluate(kept), await other.page.evaluate(kept)) == (2, 1)
        await other.page.bring_to_front()
        await other.page.click("[data-panel=history]")
        await other.page.wait_for_selector("dialog li")
        await sign_out(visit)
        assert await visit.page.evaluate(kept) == 0
        await other.page.wait_for_selector("dialog .blank")
        assert await other.page.evaluate(kept) == 0
        await visit.open(games[1])
        for one in (visit, other):
            await one.play()
        found = await owners(fair)
        assert found.count(login["player"]["id"]) == 3 and len(set(found)) == 2 and len(found) == 5


async def test_the_album_and_what_is_open_are_of_who_plays_now(fair: World, visit: Visit, phone: Phone) -> None:
    game_id = await collection(fair, rules={"max_plays_per_user": 2})
    await visit.open(game_id)
    await visit.play()
    leaves = f"{ALBUM}['Maple leaf']"
    assert await visit.page.evaluate(leaves) == 2
    player = await fair.stack.core(
        "POST", "/players/resolve", {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": "tia@album.test"}}
    )
    session = (await fair.start(game_id, player.data["player"]["id"])).data["session_id"]
    assert (await fair.play(game_id, session, player.data["player"]["id"])).code == "OK"
    await sign_in(visit, phone, "tia@album.test")
    await visit.page.wait_for_function(f"() => {leaves} === 4")
    assert await rungs(visit) == ["✓ Reached", "4 / 8"]
    await sign_out(visit)
    await visit.page.wait_for_function(f"() => {leaves} === 0")
    assert await rungs(visit) == ["0 / 3", "0 / 8"]


async def test_the_album_shows_what_is_left_after_a_redemption(fair: World, visit: Visit) -> None:
    game_id = await collection(fair)
    rung = {"name": "Leaves", "currency": "maple", "threshold": 2, "prize_id": await fair.prize(name="Jar")}
    milestones = {"mode": "spend_exchange", "rungs": [rung]}
    assert (await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"milestones": milestones})).code == "OK"
    await visit.open(game_id)
    await visit.play()
    assert await visit.page.evaluate(f"{ALBUM}['Maple leaf']") == 2
    await visit.page.click("[data-panel=milestones]")
    await visit.page.click("dialog [data-act=redeem]")
    await visit.page.wait_for_function(f"() => {ALBUM}['Maple leaf'] === 0")


async def test_the_page_speaks_the_language_of_who_signs_in(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await game(fair))
    contact = "ute@deutsch.test"
    await fair.stack.core("POST", "/players/resolve", {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": contact}})
    await fair.database.execute(
        "UPDATE players SET locale = 'de' WHERE player_id = (SELECT player_id FROM contacts WHERE value = $1)",
        contact,
    )
    await visit.press()
    assert await visit.kind() == "won"
    await sign_in(visit, phone, contact, by=".card [data-keep]")
    await visit.page.wait_for_selector(".frame[lang=de]")
    assert "Gewonnen!" in await visit.result() and "Mug" in await visit.result()
    assert await visit.page.get_attribute("html", "lang") == "de"
    focused = "document.querySelector('tombola-game').shadowRoot.activeElement?.className"
    assert await visit.page.evaluate(focused) == "main"
    await visit.press()
    await visit.page.wait_for_selector(".frame[data-state=won]")
    assert len(await owners(fair)) == 2


async def test_a_page_of_before_an_update_plays_on_with_parts_that_fit_it(
    fair: World, visit: Visit, phone: Phone
) -> None:
    """Its entry lacks what parts of today take from theirs; they have an entry of their own."""
    address, old = files.files().address(""), f"/widget/{'0' * 16}/"

    async def page_of_before(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace(address, old))

    async def entry_of_before(route: Route) -> None:
        entry = files.files().documents[files.ENTRY].plain.body.decode()
        await route.fulfill(body=re.sub(r"export ?{.*?};", "", entry, flags=re.DOTALL), content_type="text/javascript")

    await visit.page.route("**/p/*", page_of_before)
    await visit.page.route(f"**{old}{files.ENTRY}", entry_of_before)
    await visit.open(await game(fair))
    await visit.press()
    assert await visit.kind() == "won"
    login = await sign_in(visit, phone, "vic@update.test", by=".card [data-keep]")
    await visit.page.wait_for_function(SIGNED_IN)
    await visit.press()
    await visit.page.wait_for_selector(".frame[data-state=won]")
    assert await owners(fair) == [login["player"]["id"]] * 2
    assert any(old in one for one in visit.asked) and any(f"{address}games/wheel.js" in one for one in visit.asked)
