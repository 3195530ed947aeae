"""No play is lost and none is played or shown twice, whatever happens between the page and the service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAY = "**/api/v1/games/*/play"
KEPT = "Object.entries(sessionStorage).filter(([name]) => name.startsWith('tombola.play')).map(([, kept]) => kept)[0]"

COPY = """(kept) => {
    const name = Object.keys(sessionStorage).find((name) => name.startsWith("tombola.play"));
    sessionStorage.setItem(name, kept);
}"""


async def game(fair: World, **fields: Any) -> str:
    return await fair.wheel(await fair.prize(name="Mug"), access="public", **fields)


async def test_a_double_click_is_one_play(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    await visit.page.dblclick("button.main")
    await visit.page.click(".wheel")
    await visit.result()
    assert len(await fair.plays()) == 1


async def test_a_lost_answer_is_asked_for_again_and_shown_once(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    keys: list[str] = []

    async def lose(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) < 3:
            await route.fetch()  # The service decides; its answer never comes.
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await visit.page.route(PLAY, lose)
    await visit.press()
    assert await visit.kind() == "won"
    assert len(keys) == 3 and len(set(keys)) == 1
    assert len(await fair.plays()) == 1
    visit.forgive("ERR_CONNECTION_RESET")


async def test_a_reload_in_mid_play_asks_for_the_same_play(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    bodies: list[Any] = []

    async def hang(route: Route) -> None:
        bodies.append((route.request.headers["idempotency-key"], route.request.post_data))
        if len(bodies) == 1:
            await route.fetch()
            await visit.page.evaluate("setTimeout(() => location.reload())")
        else:
            await route.continue_()

    await visit.page.route(PLAY, hang)
    await visit.press()
    assert "This is the result of your previous play" in await visit.result()
    assert len(bodies) == 2 and bodies[0] == bodies[1]
    assert len(await fair.plays()) == 1
    await visit.page.reload()
    await visit.ready()
    assert await visit.page.is_hidden(".card"), "it was shown, and is not shown again"
    assert len(bodies) == 2


async def test_a_reload_while_the_wheel_turns_shows_the_same_result(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await game(fair, rules={"max_plays_per_day": 10}))
        async with visit.page.expect_response(PLAY) as first:
            await visit.press()
        play_id = (await (await first.value).json())["data"]["play_id"]
        async with visit.page.expect_response(PLAY) as again:
            await visit.page.reload()
        assert (await (await again.value).json())["data"]["play_id"] == play_id
        assert await visit.kind() == "won"
        await visit.page.wait_for_selector("text=9 plays left")
        await visit.press()
        await visit.page.wait_for_selector("text=8 plays left")
    assert len(await fair.plays()) == 2


async def test_a_play_that_is_asked_for_offline_goes_on_by_itself(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    await visit.page.context.set_offline(True)
    await visit.press()
    await visit.page.wait_for_selector("text=You are offline")
    await visit.page.context.set_offline(False)
    assert await visit.kind() == "won"
    assert len(await fair.plays()) == 1
    visit.forgive("ERR_INTERNET_DISCONNECTED")


async def test_a_service_that_is_busy_is_asked_again_when_it_said(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    answers = iter([503, 429])

    async def busy(route: Route) -> None:
        status = next(answers, None)
        if status is None:
            return await route.continue_()
        body = {"code": "UNAVAILABLE", "message": "", "trace_id": "", "data": {"reason": "OVERLOADED"}}
        await route.fulfill(status=status, headers={"Retry-After": "1"}, body=json.dumps(body))
        return None

    await visit.page.route(PLAY, busy)
    await visit.press()
    assert await visit.kind() == "won"
    assert len(await fair.plays()) == 1
    visit.forgive("503", "429")


async def test_an_expired_token_is_renewed_by_the_page_and_the_play_goes_on(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"))
    old, new = fair.stack.token("ann", seconds=-3600), fair.stack.token("ann")
    await visit.open(game_id)
    await visit.page.evaluate(
        """([old, fresh]) => {
            const game = document.querySelector("tombola-game");
            game.addEventListener("tombola:error", (event) => {
                window.told = event.detail.reason;
                game.setAttribute("token", fresh);
            });
            game.setAttribute("token", old);
        }""",
        [old, new],
    )
    await visit.press()
    assert await visit.kind() == "won"
    assert await visit.page.evaluate("window.told") in ("TOKEN_EXPIRED", "TOKEN_INVALID")
    assert len(await fair.plays()) == 1
    visit.forgive("401")


async def test_a_session_that_ended_is_begun_anew_with_nothing_said(fair: World, visit: Visit) -> None:
    game_id = await game(fair)
    await visit.open(game_id)
    await visit.play()
    # The next session is kept; the game's terms are others by now, so it is none any more.
    kept = json.loads(await visit.page.evaluate(KEPT))
    assert kept["session"]["session_id"]
    other = await fair.prize(name="Cup")
    config = {"prizes": [{"prize_id": other, "probability": 1}]}
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})
    await visit.press()
    await visit.page.wait_for_selector(".card:not([hidden]) >> text=Cup")
    assert len(await fair.plays()) == 2
    visit.forgive("400")


async def test_two_tabs_play_two_plays(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        game_id = await game(fair, rules={"max_plays_per_user": 3})
        await visit.open(game_id)
        await visit.play()
        other = Visit(await visit.page.context.new_page(), shop)
        await other.open(game_id)
        await other.page.wait_for_function(
            "document.querySelector('tombola-game').shadowRoot.querySelector('.left').textContent === '2 plays left'"
        )
        assert (await other.play())["play_id"]
        await visit.play()
        assert len(await fair.plays()) == 3


async def test_what_a_tab_was_copied_with_is_not_played_twice(fair: World, visit: Visit) -> None:
    """A duplicated tab brings the session that its first one plays."""
    await visit.open(await game(fair))
    await visit.play()
    kept = await visit.page.evaluate(KEPT)
    await visit.play()
    await visit.page.evaluate(COPY, kept)
    await visit.page.reload()
    await visit.ready()
    await visit.play()
    assert len(await fair.plays()) == 3
    visit.forgive("409")


async def test_a_play_that_is_asked_for_again_too_late_begins_no_other(fair: World, visit: Visit) -> None:
    game_id = await game(fair)
    await visit.open(game_id)
    await visit.play()
    kept = json.loads(await visit.page.evaluate(KEPT))
    other = await fair.prize(name="Cup")
    config = {"prizes": [{"prize_id": other, "probability": 1}]}
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": config})
    # As if the tab had been closed while the next play was under way.
    asked = {"key": "asked-before", "payload": {}, "client_seed": ""}
    await visit.page.evaluate(COPY, json.dumps({**kept, "asked": asked}))
    async with visit.page.expect_response(PLAY) as refused:
        await visit.page.reload()
    assert (await refused.value).status == 400
    await visit.ready()
    assert await visit.page.is_hidden(".card") and len(await fair.plays()) == 1
    visit.forgive("400")


async def test_all_that_waits_for_the_pages_new_token_goes_on_with_it(fair: World, visit: Visit) -> None:
    old, new = fair.stack.token("ann"), fair.stack.token("ann", seconds=700)
    await visit.open(await fair.wheel(await fair.prize(name="Mug")))
    give = "(token) => document.querySelector('tombola-game').setAttribute('token', token)"
    async with visit.page.expect_response("**/eligibility"):
        await visit.page.evaluate(give, old)
    await visit.page.wait_for_selector("button.main:not([aria-disabled=true])")
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        if old not in route.request.headers.get("authorization", ""):
            return await route.continue_()
        refused.append(route.request.url)
        await route.fulfill(status=401, json={"code": "UNAUTHENTICATED", "data": {"reason": "TOKEN_EXPIRED"}})
        return None

    async def at_least(count: int) -> bool:
        return len(refused) >= count

    await visit.page.route("**/api/v1/**", refuse)
    await visit.press()
    await until(lambda: at_least(1))
    await visit.page.click("[data-panel=rewards]")
    await until(lambda: at_least(2))
    await visit.page.evaluate(give, new)
    await visit.page.wait_for_selector("dialog[open]")
    await visit.page.keyboard.press("Escape")
    assert await visit.kind() == "won" and len(await fair.plays()) == 1
    visit.forgive("401")
