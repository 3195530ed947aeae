"""The catchers: what was caught is what is reported, whoever catches it and however, and it is shown as decided."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import Visit, visiting
from tests.support.stack import Stack
from tests.support.world import EGGS, GIFTS, World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATIENCE_MS = 90_000
"""A game of some seconds, on a machine that draws a few frames a second."""

HAND = """([catches, most]) => {
    const root = document.querySelector("tombola-game").shadowRoot;
    const step = () => {
        requestAnimationFrame(step);
        const field = root.querySelector(".field.on");
        if (!field) return;
        const box = field.getBoundingClientRect();
        const low = [...field.querySelectorAll(".falls")]
            .map((node) => node.getBoundingClientRect())
            .filter((one) => one.top < box.top + box.height * 0.85)
            .sort((one, other) => other.top - one.top)[0];
        if (!low) return;
        const x = (low.left + low.width / 2 - box.left) / box.width;
        const full = most > 0 && parseInt(root.querySelector(".tally span").textContent) >= most;
        const clientX = box.left + box.width * (catches && !full ? x : x < 0.5 ? 1 : 0);
        field.dispatchEvent(new PointerEvent("pointermove", { clientX, bubbles: true }));
    };
    step();
}"""
"""A hand that brings the basket under whatever falls lowest, or away from it, or away once it caught so many."""

WATCH = """() => {
    const field = document.querySelector("tombola-game").shadowRoot.querySelector(".field");
    window.seen = { places: new Set(), came: [], began: 0 };
    new MutationObserver((changes) => {
        if (field.classList.contains("on")) window.seen.began ||= performance.now();
        for (const node of changes.flatMap((change) => [...change.addedNodes]))
            if (node.className === "falls") window.seen.came.push(performance.now() - window.seen.began);
        for (const node of field.querySelectorAll(".falls")) window.seen.places.add(node.style.transform);
    }).observe(field, { subtree: true, childList: true, attributes: true });
}"""
"""Notes where things fall and when they came, from the game's beginning."""

BASKET = """() => new DOMMatrix(getComputedStyle(
    document.querySelector("tombola-game").shadowRoot.querySelector(".basket")).transform).e"""
MOVING = "document.querySelector('tombola-game').shadowRoot.getAnimations().length"


PLACES = """[...document.querySelector("tombola-game").shadowRoot.querySelectorAll(".falls")]
    .map((one) => one.style.transform).join()"""
FRAMES = """new Promise((go) => {
    let left = 9;
    const step = () => (left-- ? requestAnimationFrame(step) : go());
    step();
})"""
HIDE = """Object.defineProperty(document, "hidden", { configurable: true, value: true });
document.dispatchEvent(new Event("visibilitychange"))"""
"""What a page is told that goes to the background."""


async def eggs(fair: World, *, most: int = 3, lives: int = 2, **fields: Any) -> str:
    """A public game of so many eggs, which wins from the first point on."""
    prize_id = await fair.prize(name="Fair mug")
    config = {
        "tiers": [{"min": 1, "max": 1000, "prize_group": "all"}],
        "prize_groups": {"all": [{"prize_id": prize_id, "probability": 1}]},
        "max_score": most,
        "max_score_per_second": 5,
    }
    ui = {"catcher": {"most": most, "lives": lives}}
    return await fair.game(EGGS, config, access="public", name="Egg catcher", ui=ui, **fields)


async def gifts(fair: World, *, count: int = 4, interval_ms: int = 300, **fields: Any) -> str:
    """A public game of so many stars, all of which count."""
    drops = [{"type": "star", "prize_id": await fair.prize(name="Star"), "frequency": 1, "max_catchable": count}]
    config = {"drops": drops, "total_items": count, "interval_ms": interval_ms}
    ui = {"items": {"star": {"emoji": "⭐", "label": "A star"}}}
    return await fair.game(GIFTS, config, access="public", name="Gift catcher", ui=ui, **fields)


async def ended(visit: Visit) -> str:
    """won, lost or refused, once the game is over."""
    await visit.page.wait_for_selector(".card[data-result]:not([hidden])", timeout=PATIENCE_MS)
    return await visit.kind()


async def reported(fair: World) -> list[dict[str, Any]]:
    """The payloads and outcomes of this campaign's plays, as they are kept."""
    rows = await fair.database.fetch(
        "SELECT p.payload, p.outcome, p.score FROM plays AS p JOIN games AS g USING (tenant_id, game_id)"
        " WHERE p.tenant_id = $1 AND g.campaign_id = $2 ORDER BY p.play_id",
        fair.stack.tenant_id,
        fair.campaign_id,
    )
    return [dict(row) for row in rows]


async def test_eggs_that_are_caught_are_the_score_that_wins(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair))
        await visit.page.evaluate(HAND, [True, 0])
        await visit.press()
        assert await ended(visit) == "won" and "Fair mug" in await visit.result()
        assert "3 points" in await visit.page.inner_text(".over") and "Fair mug" in await visit.page.inner_text(".over")
    (play,) = await reported(fair)
    assert (play["payload"]["score"], play["score"]) == (3, 3) and play["payload"]["duration_ms"] > 1000


async def test_each_egg_that_is_missed_takes_a_life_and_none_is_no_prize(
    fair: World, browser: Browser, shop: Stack
) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair))
        assert await visit.page.inner_text(".tally span >> nth=1") == "❤️❤️"
        await visit.page.evaluate(HAND, [False, 0])
        await visit.press()
        await visit.page.wait_for_selector(".tally >> text=❤️🤍", timeout=PATIENCE_MS)
        assert "1 life left" in await visit.page.inner_text("[role=status]")
        assert await ended(visit) == "lost"
    assert [play["payload"]["score"] for play in await reported(fair)] == [0]


async def test_who_has_played_all_is_refused_and_the_game_does_not_run(fair: World, visit: Visit) -> None:
    await visit.open(await eggs(fair, lives=1, rules={"max_plays_per_day": 1}))
    await visit.press()
    await ended(visit)
    await visit.page.reload()
    assert await visit.kind() == "refused" and "all your plays" in await visit.result()
    assert len(await fair.plays()) == 1


async def test_a_reload_in_mid_game_plays_the_same_session_over(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await gifts(fair))
        await visit.press()
        await visit.page.wait_for_selector(".falls")
        await visit.page.reload()
        await visit.ready()
        assert await fair.plays() == []
        await visit.page.evaluate(HAND, [True, 0])
        await visit.press()
        assert await ended(visit) == "won"
        assert visit.api_calls().count("POST start") == 1
    assert len(await fair.plays()) == 1


async def test_a_lost_answer_and_a_reload_report_the_same_catch(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        sent: list[str] = []

        async def lose(route: Route) -> None:
            sent.append(json.dumps((route.request.post_data_json or {})["payload"]))
            await (route.abort("connectionreset") if len(sent) == 1 else route.continue_())

        await visit.page.route("**/api/v1/games/*/play", lose)
        await visit.open(await gifts(fair))
        await visit.page.evaluate(HAND, [True, 0])
        async with visit.page.expect_request("**/play", timeout=PATIENCE_MS):
            await visit.press()
        await visit.page.reload()
        assert await ended(visit) == "won"
        visit.forgive("ERR_CONNECTION_RESET")
    assert len(sent) >= 2 and set(sent) == {sent[0]} and len(await fair.plays()) == 1


async def test_gifts_fall_as_planned_and_those_that_were_caught_are_won(
    fair: World, browser: Browser, shop: Stack
) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await gifts(fair, count=5))
        await visit.page.evaluate(HAND, [True, 2])
        await visit.page.evaluate(WATCH)
        await visit.press()
        assert await ended(visit) == "won"
        told = await visit.result()
        caught = int((await visit.page.inner_text(".tally span >> nth=0")).split()[0])
        assert f"{caught} × Star" in told
        came = await visit.page.evaluate("window.seen.came")
    assert len(came) == 5 and all(at >= 300 * nth - 60 for nth, at in enumerate(came)), came
    (play,) = await reported(fair)
    items = play["payload"]["caught_items"]
    assert len(items) == len(set(items)) == caught == play["outcome"]["rewards"][0]["quantity"]


async def test_who_catches_nothing_wins_nothing(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await gifts(fair, count=1))  # A basket that dodges one may meet the next.
        await visit.page.evaluate(HAND, [False, 0])
        await visit.press()
        assert await ended(visit) == "lost"
    assert [play["payload"] for play in await reported(fair)] == [{"caught_items": []}]


async def test_things_stand_still_for_who_wants_it_and_can_be_caught(fair: World, visit: Visit) -> None:
    await visit.open(await eggs(fair))
    await visit.page.evaluate(HAND, [True, 0])
    await visit.page.evaluate(WATCH)
    await visit.press()
    await visit.page.wait_for_selector(".falls")
    assert await visit.page.evaluate(MOVING) == 0
    assert await ended(visit) == "won"
    places = await visit.page.evaluate("[...window.seen.places]")
    assert len({place.split(",")[1] for place in places}) <= 7 and "rotate" not in str(places), places


async def test_gifts_that_stand_still_are_picked_by_keyboard_alone(fair: World, visit: Visit) -> None:
    await visit.open(await gifts(fair, count=8, interval_ms=300))
    keyboard = visit.page.keyboard
    await visit.page.focus("button.main")
    began = await visit.page.evaluate("performance.now()")
    await keyboard.press("Enter")
    await visit.page.wait_for_selector(".picks button >> nth=5")
    assert await visit.page.evaluate("performance.now()") - began > 5 * 300, "none sooner than it would have fallen"
    assert await visit.page.locator(".falls").count() == 0 and await visit.page.evaluate(MOVING) == 0
    await visit.page.focus(".picks button >> nth=0")
    await keyboard.press("Space")
    await keyboard.press("Tab")
    await keyboard.press("Space")
    await keyboard.press("Space")
    await keyboard.press("Tab")
    await keyboard.press("Enter")
    assert await visit.page.inner_text(".tally") == "2 caught\n6 / 8"
    await visit.page.focus("button.main")
    await keyboard.press("Enter")
    await visit.page.wait_for_selector(".tally >> text=8 / 8")
    await keyboard.press("Enter")
    assert await visit.kind() == "won" and "2 × Star" in await visit.result()
    assert [play["payload"] for play in await reported(fair)] == [{"caught_items": ["item_0", "item_2"]}]


async def test_the_arrow_keys_and_a_and_d_move_the_basket(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair, lives=9, most=1000))
        await visit.page.focus("button.main")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".field.on:focus-visible")
        box = await visit.page.locator(".field").bounding_box()
        assert box is not None
        right = f"> {box['width'] * 0.9}"
        for key, where in {"ArrowLeft": "< 1", "d": right, "a": "< 1", "ArrowRight": right}.items():
            await visit.page.keyboard.down(key)
            await visit.page.wait_for_function(f"() => ({BASKET})() {where}", timeout=PATIENCE_MS)
            await visit.page.keyboard.up(key)
        await visit.page.keyboard.press("Tab")
        await visit.page.wait_for_selector(".main:focus-visible >> text=Pause")


async def test_a_game_can_be_paused_and_pauses_in_the_background(fair: World, browser: Browser, shop: Stack) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair, lives=1))
        await visit.press()
        await visit.page.wait_for_selector(".falls")
        for by in ("button", "background"):
            await (visit.page.click("button.main") if by == "button" else visit.page.evaluate(HIDE))
            await visit.page.wait_for_selector(".main >> text=Go on")
            before = await visit.page.evaluate(PLACES)
            await visit.page.evaluate(FRAMES)
            assert await visit.page.evaluate(PLACES) == before
            assert "Catch" in await visit.page.inner_text(".over")
            await visit.page.click("button.main")
            await visit.page.wait_for_selector(".main >> text=Pause")
        await visit.page.wait_for_function(f"() => ({PLACES}) !== {json.dumps(before)}")


async def test_a_finger_moves_the_basket_and_not_the_page(fair: World, browser: Browser, shop: Stack) -> None:
    size = {"width": 360, "height": 420}
    async with visiting(browser, shop, viewport=size, has_touch=True, is_mobile=True) as visit:
        await visit.open(await eggs(fair, lives=9, most=1000))
        await visit.page.tap("button.main")
        await visit.page.wait_for_selector(".field.on")
        box = await visit.page.locator(".field").bounding_box()
        assert box is not None
        devtools = await visit.page.context.new_cdp_session(visit.page)
        scrolled = await visit.page.evaluate("scrollY")

        async def touch(kind: str, *at: tuple[float, float]) -> None:
            points = [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]} for x, y in at]
            await devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        await touch("touchStart", (0.1, 0.8))
        await visit.page.wait_for_function(f"() => ({BASKET})() < {0.15 * box['width']}", timeout=PATIENCE_MS)
        for y in (0.7, 0.5, 0.3):
            await touch("touchMove", (0.9, y))
        await visit.page.wait_for_function(f"() => ({BASKET})() > {0.85 * box['width']}", timeout=PATIENCE_MS)
        await touch("touchEnd")
        assert await visit.page.evaluate("scrollY") == scrolled


async def test_another_game_can_be_played_where_one_was_left(fair: World, browser: Browser, shop: Stack) -> None:
    wheel = await fair.wheel(await fair.prize(name="Pumpkin"), access="public")
    async with visiting(browser, shop) as visit:
        await visit.open(await eggs(fair))
        await visit.press()
        await visit.page.wait_for_selector(".falls")
        await visit.page.evaluate("(id) => document.querySelector('tombola-game').setAttribute('game', id)", wheel)
        await visit.page.wait_for_selector(".wheel")
        await visit.press()
        assert await ended(visit) == "won" and "Pumpkin" in await visit.result()
    assert len(await fair.plays()) == 1


@pytest.mark.parametrize(
    ("shape", "shown"),
    [({**EGGS, "type": "duck_hunt"}, ".egg"), ({**GIFTS, "type": "rain"}, ".field")],
    ids=["score_to_tier", "collect_items"],
)
async def test_a_type_that_is_not_known_is_played_by_what_rewards_it(
    fair: World, visit: Visit, shape: dict[str, Any], shown: str
) -> None:
    configs: dict[str, dict[str, Any]] = {
        "score_to_tier": {"tiers": [{"min": 0, "max": 9, "prize_group": "a"}], "prize_groups": {"a": []}},
        "collect_items": {
            "drops": [{"type": "x", "prize_id": await fair.prize(), "frequency": 1, "max_catchable": 1}],
            "total_items": 1,
            "interval_ms": 1,
        },
    }
    await visit.open(await fair.game(shape, configs[shape["reward_handler"]], access="public"))
    assert await visit.page.is_visible(shown)


@pytest.mark.parametrize(
    "ui", [{"catcher": 3, "egg": "x", "items": "y"}, {"catcher": {"lives": -1, "most": "a"}, "items": [None, 3]}]
)
async def test_whatever_an_operator_made_of_its_parts_it_can_be_played(fair: World, visit: Visit, ui: Any) -> None:
    egg, gift = await eggs(fair), await gifts(fair, count=1)
    await fair.looks(egg, ui)
    await fair.looks(gift, ui)
    await visit.open(egg)
    await visit.page.evaluate(HAND, [False, 0])
    await visit.press()
    assert await ended(visit) == "lost"
    await visit.open(gift)
    await visit.press()
    await visit.page.click(".picks button")
    await visit.page.click("button.main")
    assert await ended(visit) == "won", await reported(fair)
