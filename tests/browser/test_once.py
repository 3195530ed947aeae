import json
from typing import Any, Final

from tests.support.browsing import SETTLE_MS, Visit
from tests.support.chromium import Route
from tests.support.login import Phone
from tests.support.pages.games import owners, public_wheel
from tests.support.pages.login import SUBMIT, ask_for_code, enter_code, login_of
from tests.support.panels import open_as
from tests.support.waiting import until
from tests.support.world import World

PLAY: Final = "**/api/v1/games/*/play"
KEPT: Final = (
    "Object.entries(sessionStorage).filter(([name]) => name.startsWith('tombola.play')).map(([, kept]) => kept)[0]"
)
COPY: Final = """(kept) => {
    const name = Object.keys(sessionStorage).find((name) => name.startsWith("tombola.play"));
    sessionStorage.setItem(name, kept);
}"""
GIVE: Final = "(token) => document.querySelector('tombola-game').setAttribute('token', token)"


async def test_double_click_is_one_play_that_is_retried_with_its_key(fair: World, visit: Visit) -> None:
    """Lost answers, a proxy's refusals, and a busy service."""
    await visit.open(await public_wheel(fair))
    busy = {"code": "UNAVAILABLE", "message": "", "trace_id": "", "data": {"reason": "OVERLOADED"}}
    soon = {"Retry-After": "1"}
    answers: list[dict[str, Any] | None] = [
        *(None, {"status": 401, "body": "<h1>Proxy</h1>"}),
        {"status": 403, "body": "<h1>Forbidden</h1>", "content_type": "text/html", "headers": soon},
        {"status": 413, "json": {"error": "too large"}, "headers": soon},
        *({"status": 429, "body": "", "headers": soon}, {"status": 503, "json": busy, "headers": soon}),
    ]
    keys: list[str] = []

    async def refuse(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) > len(answers):
            return await route.continue_()
        answer = answers[len(keys) - 1]
        if answer is None:
            await route.fetch()  # The service decides; its answer is lost.
            return await route.abort("connectionreset")
        return await route.fulfill(**answer)

    await visit.page.route(PLAY, refuse)
    await visit.page.dblclick("button.main")
    await visit.click(".wheel", then="text=This is taking longer than usual. Your play is saved.")
    assert await visit.kind() == "won"
    assert len(keys) == len(answers) + 1 and len(set(keys)) == 1
    assert len(await fair.plays()) == len(set(await owners(fair))) == 1
    visit.forgive("ERR_CONNECTION_RESET", *(str(answer["status"]) for answer in answers if answer))


async def test_reload_during_a_play_shows_that_play_once(fair: World, visit: Visit, moving: Visit) -> None:
    await visit.open(await public_wheel(fair))
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
    assert "This is the result of your last play" in await visit.result()
    assert len(bodies) == 2 and bodies[0] == bodies[1]
    await visit.reload()
    assert await visit.page.is_hidden(".card"), "a result that was shown is not shown again"
    assert len(bodies) == 2
    await moving.open(await public_wheel(fair, rules={"max_plays_per_day": 10}))
    async with moving.page.expect_response(PLAY) as first:
        await moving.press()
    play_id = (await (await first.value).json())["data"]["play_id"]
    async with moving.page.expect_response(PLAY) as again:
        await moving.page.reload()
    assert (await (await again.value).json())["data"]["play_id"] == play_id
    assert await moving.kind() == "won"
    await moving.page.wait_for_selector("text=9 plays left")
    assert len(await fair.plays()) == 2


async def test_offline_play_goes_on_by_itself_and_other_errors_say_so(fair: World, visit: Visit, phone: Phone) -> None:
    contact = "lea@offline.test"
    await visit.open(await public_wheel(fair))
    await visit.page.context.set_offline(True)
    await visit.click("[data-panel=prizes]", then=".left >> text=Connection problem")
    assert await visit.page.locator("dialog").count() == 0, "the panel could not be loaded"
    await visit.page.context.set_offline(False)
    await visit.play()
    await visit.page.wait_for_selector(".card [data-next=keep]")  # Later, it would move the button under the pointer.
    await visit.page.click("[data-panel=login]")
    await visit.page.wait_for_selector("#login-field")  # Loaded while there is a network.
    await visit.page.keyboard.press("Escape")
    await visit.page.context.set_offline(True)
    await visit.press(then="text=You are offline")
    await visit.page.click("[data-panel=login]")
    await visit.page.fill("#login-field", contact)
    await visit.click(SUBMIT, then="dialog [role=alert]:has-text('Connection problem')")
    await visit.page.context.set_offline(False)
    await visit.page.wait_for_selector(".frame[data-state=won]")
    await ask_for_code(visit, contact)
    await enter_code(visit, phone, contact)
    assert await owners(fair) == [(await login_of(visit))["player"]["id"]] * 2
    visit.forgive("ERR_INTERNET_DISCONNECTED")


async def test_expired_token_of_the_page_is_renewed_for_all_that_waits(fair: World, visit: Visit) -> None:
    old, new = fair.stack.token("ann"), fair.stack.token("ann", seconds=700)
    await visit.open(await fair.wheel(await fair.prize(name="Mug")))
    async with visit.page.expect_response("**/eligibility"):
        await visit.page.evaluate(GIVE, old)
    await visit.page.wait_for_selector("button.main:not([aria-disabled=true])")
    note = "addEventListener('tombola:error', (event) => { window.reason = event.detail.reason; })"
    await visit.page.evaluate(note)
    refused: list[str] = []

    async def refuse(route: Route) -> None:
        if old not in route.request.headers.get("authorization", ""):
            return await route.continue_()
        refused.append(route.request.url)
        return await route.fulfill(status=401, json={"code": "UNAUTHENTICATED", "data": {"reason": "TOKEN_EXPIRED"}})

    await visit.page.route("**/api/v1/**", refuse)
    await visit.press()
    await until(lambda: len(refused) >= 1)
    await visit.page.click("[data-panel=rewards]")
    await until(lambda: len(refused) >= 2)
    assert await visit.page.evaluate("window.reason") == "TOKEN_EXPIRED"
    await visit.page.evaluate(GIVE, new)
    await visit.page.wait_for_selector("dialog[open]")
    await visit.page.keyboard.press("Escape")
    assert await visit.kind() == "won" and len(await fair.plays()) == 1
    visit.forgive("401")


async def test_next_player_of_the_page_gets_neither_result_nor_session(fair: World, visit: Visit) -> None:
    await open_as(visit, await public_wheel(fair), "ann")
    await visit.play()
    await visit.page.evaluate(GIVE, fair.stack.token("ann", seconds=700))
    assert await visit.kind() == "won", "a new token of the same player"
    await visit.page.evaluate("document.querySelector('tombola-game').removeAttribute('token')")
    await visit.page.wait_for_selector(".card", state="hidden")
    assert (await visit.play())["play_id"]
    assert len(set(await owners(fair))) == 2


async def test_stored_session_that_cannot_be_played_is_replaced_silently(fair: World, visit: Visit) -> None:
    game_id = await public_wheel(fair)
    await visit.open(game_id)
    await visit.play()
    stale = await visit.page.evaluate(KEPT)
    await visit.play()
    await visit.page.evaluate(COPY, stale)
    await visit.reload()
    await visit.play()
    assert len(await fair.plays()) == 3
    stored = json.loads(await visit.page.evaluate(KEPT))
    assert stored["session"]["session_id"]
    odds = {"prizes": [{"prize_id": await fair.prize(name="Cup"), "probability": 1}]}
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"handler_config": odds})
    await visit.press(then=".card:not([hidden]) >> text=Cup")
    assert len(await fair.plays()) == 4
    body = {"key": "asked-before", "payload": {}, "client_seed": ""}
    await visit.page.evaluate(COPY, json.dumps({**stored, "asked": body}))
    async with visit.page.expect_response(PLAY) as refused:
        await visit.page.reload()
    assert (await refused.value).status == 400
    await visit.ready()
    assert await visit.page.is_hidden(".card") and len(await fair.plays()) == 4
    visit.forgive("400", "409")


WRONG_CLOCK: Final = "const now = Date.now; Date.now = () => now() + 3_600_000 * (Number(window.name) || -2)"
"""Of a device whose window's name says how many hours it is ahead."""


async def test_session_and_code_last_as_long_by_a_wrong_clock(fair: World, visit: Visit) -> None:
    await visit.page.add_init_script(WRONG_CLOCK)
    await visit.open(await public_wheel(fair))
    for hours, starts in ((-2, 1), (-1.7, 2)):
        await visit.page.evaluate(f"window.name = {hours}")
        await visit.play()
        await visit.play()
        assert visit.api_calls().count("POST start") == starts, "a stored session ends after its time"
    await visit.page.evaluate("window.name = 2")
    await visit.page.click("[data-panel=login]")
    await ask_for_code(visit, "kim@ahead.test")
    await visit.reload()
    await visit.click("[data-panel=login]", then="dialog >> text=Code sent to kim@ahead.test")


async def test_button_of_a_used_up_day_works_again_after_its_end(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 1})

    async def is_over(route: Route) -> None:
        answer = await (await route.fetch()).json()
        await route.fulfill(json={**answer, "data": {**answer["data"], "resets_at": "1"}})

    async def next_day(day: int) -> None:
        await visit.page.wait_for_selector("[data-state=won] button.main[aria-disabled=true]")
        rules = {"rules": {"max_plays_per_day": day}}
        assert (await fair.stack.admin("PUT", f"/admin/games/{game_id}", rules)).http == 200

    await visit.page.route("**/eligibility", is_over)
    await visit.open(game_id)
    await visit.press()
    await next_day(2)
    await visit.page.wait_for_timeout(SETTLE_MS)
    await visit.page.click("button.main", force=True)  # Playwright does not press an inactive one.
    await until(lambda: fair.plays(), lambda plays: len(plays) == 2)
    await next_day(3)
    await visit.page.evaluate("document.dispatchEvent(new Event('visibilitychange', {bubbles: true}))")
    await visit.page.wait_for_selector("button.main[aria-disabled=false]")
