"""The catchers: what was caught is what the page reports, however it was caught."""

import json
from typing import Final

from tests.support.browsing import Visit, visiting
from tests.support.chromium import Browser, Route
from tests.support.pages.games import (
    HAND,
    MOVING,
    PATIENCE_MS,
    ROOT,
    UNDER_WAY,
    eggs,
    ended,
    finish,
    gifts,
    made,
    reported,
)
from tests.support.world import World

WATCH: Final = f"""() => {{
    const field = {ROOT}.querySelector(".field");
    window.seen = {{ places: new Set(), came: [], began: 0 }};
    new MutationObserver((changes) => {{
        if (field.classList.contains("on")) window.seen.began ||= performance.now();
        for (const node of changes.flatMap((change) => [...change.addedNodes]))
            if (node.className === "falls") window.seen.came.push(performance.now() - window.seen.began);
        for (const node of field.querySelectorAll(".falls")) window.seen.places.add(node.style.transform);
    }}).observe(field, {{ subtree: true, childList: true, attributes: true }});
}}"""

BASKET: Final = f"() => new DOMMatrix(getComputedStyle({ROOT}.querySelector('.basket')).transform).e"
PLACES: Final = f"[...{ROOT}.querySelectorAll('.falls')].map((one) => one.style.transform).join()"
FRAMES: Final = """new Promise((go) => {
    let left = 9;
    const step = () => (left-- ? requestAnimationFrame(step) : go());
    step();
})"""
HIDE: Final = """Object.defineProperty(document, "hidden", { configurable: true, value: true });
document.dispatchEvent(new Event("visibilitychange"))"""


async def test_egg_catcher_pauses_and_reports_what_was_caught(fair: World, moving: Visit) -> None:
    await moving.open(await eggs(fair))
    await moving.press()
    await moving.page.wait_for_selector(".falls")
    for by in ("button", "background"):
        await (moving.page.click("button.main") if by == "button" else moving.page.evaluate(HIDE))
        await moving.page.wait_for_selector(".main >> text=Continue")
        before = await moving.page.evaluate(PLACES)
        await moving.page.evaluate(FRAMES)
        assert await moving.page.evaluate(PLACES) == before, by
        assert "Catch" in await moving.page.inner_text(".over")
        await moving.page.click("button.main")
        await moving.page.wait_for_selector(".main >> text=Pause")
    await moving.page.evaluate(HAND, [True, 0])
    assert await ended(moving) == "won" and "Fair mug" in await moving.result()
    over = await moving.page.inner_text(".over")
    (play,) = await reported(fair)
    assert play["payload"]["score"] == play["score"] == int(over.split(" points")[0].split()[-1]) in (2, 3)
    assert "Fair mug" in over and play["payload"]["duration_ms"] > 1000


async def test_missed_egg_takes_a_life_and_score_zero_loses(fair: World, moving: Visit) -> None:
    await moving.open(await eggs(fair))
    assert await moving.page.inner_text(".tally span >> nth=1") == "❤️❤️"
    await moving.page.evaluate(HAND, [False, 0])
    await moving.press()
    await moving.page.wait_for_selector(".tally >> text=❤️🤍", timeout=PATIENCE_MS)
    assert "1 life left" in await moving.page.inner_text("[role=status]")
    assert await ended(moving) == "lost"
    assert [play["payload"]["score"] for play in await reported(fair)] == [0]


async def test_gift_catcher_reports_one_catch_through_reloads_and_a_lost_answer(fair: World, moving: Visit) -> None:
    sent: list[str] = []

    async def lose(route: Route) -> None:
        sent.append(json.dumps((route.request.post_data_json or {})["payload"]))
        await (route.abort("connectionreset") if len(sent) == 1 else route.continue_())

    await moving.page.route("**/api/v1/games/*/play", lose)
    await moving.open(await gifts(fair, count=5))
    await moving.press()
    await moving.page.wait_for_selector(".falls")
    await moving.page.reload()
    await moving.ready()
    assert await fair.plays() == [], "a game left midway is not played"
    await moving.page.evaluate(HAND, [True, 2])
    await moving.page.evaluate(WATCH)
    async with moving.page.expect_request("**/play", timeout=PATIENCE_MS):
        await moving.press()
    came = await moving.page.evaluate("window.seen.came")
    assert len(came) == 5 and all(at >= 300 * nth - 60 for nth, at in enumerate(came)), came
    await moving.page.reload()
    assert await ended(moving) == "won"
    assert moving.api_calls().count("POST start") == 1
    assert len(sent) >= 2 and set(sent) == {sent[0]}
    (play,) = await reported(fair)
    items, result = play["payload"]["caught_items"], await moving.result()
    assert 0 < len(items) < 5 and len(items) == len(set(items)) == play["outcome"]["rewards"][0]["quantity"]
    assert (f"{len(items)} × Star" if len(items) > 1 else "Star") in result
    moving.forgive("ERR_CONNECTION_RESET")


async def test_reduced_motion_stops_every_animation(fair: World, visit: Visit) -> None:
    await visit.open(await eggs(fair, most=2))
    await visit.page.evaluate(HAND, [True, 0])
    await visit.page.evaluate(WATCH)
    await visit.press()
    await visit.page.wait_for_selector(".falls")
    assert await visit.page.evaluate(MOVING) == 0
    assert await ended(visit) == "won"
    places = await visit.page.evaluate("[...window.seen.places]")
    assert len({place.split(",")[1] for place in places}) <= 7 and "rotate" not in str(places), places
    for shape in ("wheel", "collection", "gifts"):
        await visit.open(await made(fair, shape))
        await visit.page.evaluate(HAND, [True, 0])
        await visit.press()
        await visit.page.wait_for_selector(UNDER_WAY.get(shape, ".card[data-result=won]"))
        assert await visit.page.evaluate(MOVING) == 0, shape
        assert await finish(visit, "won") == "won", shape


async def test_basket_follows_the_keys_and_a_finger_that_does_not_scroll(fair: World, browser: Browser) -> None:
    size = {"width": 360, "height": 420}
    async with visiting(browser, fair.stack, viewport=size, has_touch=True, is_mobile=True) as visit:
        await visit.open(await eggs(fair, lives=9, most=1000))
        await visit.page.focus("button.main")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".field.on:focus-visible")
        box = await visit.page.locator(".field").bounding_box()
        assert box is not None

        async def basket(where: str) -> None:
            await visit.page.wait_for_function(f"() => ({BASKET})() {where}", timeout=PATIENCE_MS)

        right = f"> {box['width'] * 0.9}"
        for key, where in {"ArrowLeft": "< 1", "d": right, "a": "< 1", "ArrowRight": right}.items():
            await visit.page.keyboard.down(key)
            await basket(where)
            await visit.page.keyboard.up(key)
        devtools = await visit.page.context.new_cdp_session(visit.page)
        scrolled = await visit.page.evaluate("scrollY")

        async def touch(kind: str, *at: tuple[float, float]) -> None:
            points = [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]} for x, y in at]
            await devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        await touch("touchStart", (0.1, 0.8))
        await basket(f"< {0.15 * box['width']}")
        for y in (0.7, 0.5, 0.3):
            await touch("touchMove", (0.9, y))
        await basket(f"> {0.85 * box['width']}")
        await touch("touchEnd")
        assert await visit.page.evaluate("scrollY") == scrolled
        await visit.page.keyboard.press("Tab")
        await visit.page.wait_for_selector(".main:focus-visible >> text=Pause")


async def test_game_left_for_another_is_not_played(fair: World, moving: Visit) -> None:
    wheel = await fair.wheel(await fair.prize(name="Pumpkin"), access="public")
    await moving.open(await eggs(fair))
    await moving.press()
    await moving.page.wait_for_selector(".falls")
    await moving.page.evaluate("(id) => document.querySelector('tombola-game').setAttribute('game', id)", wheel)
    await moving.page.wait_for_selector(".wheel")
    await moving.press()
    assert await ended(moving) == "won" and "Pumpkin" in await moving.result()
    assert len(await fair.plays()) == 1
