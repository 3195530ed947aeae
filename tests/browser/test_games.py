import json
from typing import Any, Final

from tests.support.browsing import Visit, visiting
from tests.support.chromium import Browser, Route
from tests.support.pages import games
from tests.support.pages.games import ROOT
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World

LABELS: Final = ("Toffee apple", "Fair mug", "Golden pumpkin", "Next time")
ANGLE: Final = f"""() => {{
    const {{ a, b }} = new DOMMatrix(getComputedStyle({ROOT}.querySelector(".disc")).transform);
    return (Math.atan2(b, a) * 180 / Math.PI + 360) % 360;
}}"""
UPPERMOST: Final = f"""(() => {{
    const {{ left, top, width, height }} = {ROOT}.querySelector(".deck").getBoundingClientRect();
    return {ROOT}.elementFromPoint(left + width / 2, top + height / 2).closest(".back, .face").className;
}})()"""


async def wheel(fair: World, *, wins: int | None, **fields: Any) -> str:
    prizes = [await fair.prize(name=label) for label in LABELS[:3]]
    segments = [
        {"label": label, "emoji": "🍏", **({"prize_id": prizes[i]} if i < 3 else {})} for i, label in enumerate(LABELS)
    ]
    won = [] if wins is None else [prizes[wins]]
    return await fair.wheel(*won, access="public", ui={"wheel": {"segments": segments}}, **fields)


async def segment(visit: Visit, count: int = len(LABELS)) -> int:
    degrees = await visit.page.evaluate(ANGLE)
    return round((360 - degrees) % 360 / (360 / count)) % count


async def card(fair: World) -> str:
    odds = {"prizes": [{"prize_id": await fair.prize(name="Fair mug"), "probability": 1}]}
    return await fair.game(games.CARD, odds, access="public", ui={"items": [{"emoji": "⭐"}]})


async def scratch(visit: Visit, share: float) -> None:
    box = await visit.page.locator(".scratch canvas").bounding_box()
    mouse, rows = visit.page.mouse, 6
    await mouse.move(box["x"] + 5, box["y"] + 5)
    await mouse.down()
    for row in range(rows):
        y = box["y"] + (row + 0.5) / rows * share * box["height"]
        await mouse.move(box["x"] + 4, y)
        await mouse.move(box["x"] + box["width"] - 4, y, steps=4)
    await mouse.up()


async def test_wheel_points_at_the_drawn_prize(fair: World, visit: Visit, browser: Browser) -> None:
    await visit.open(await wheel(fair, wins=2, rules={"max_plays_per_day": 3}))
    assert await visit.page.inner_text(".left") == "3 plays left"
    await visit.press()
    assert await visit.kind() == "won" and LABELS[2] in await visit.result()
    assert await visit.page.inner_text(".left") == "2 plays left"
    assert await segment(visit) == 2
    await visit.open(await wheel(fair, wins=None))
    await visit.press()
    assert await visit.kind() == "lost" and "No prize" in await visit.result()
    assert await segment(visit) == 3, "a loss is a segment without a prize"
    async with visiting(browser, fair.stack) as moving:
        await moving.open(await wheel(fair, wins=1))
        await moving.press()
        assert "Fair mug" in await moving.result()
        assert await segment(moving) == 1
    assert len(await fair.plays()) == 3


async def test_wheel_points_at_no_other_prize_than_the_won_one(fair: World, visit: Visit) -> None:
    tote, voucher = [await fair.prize(name=name) for name in ("Tote bag", "10 euro voucher")]
    ui = {"wheel": {"segments": [{"label": "Tote bag", "prize_id": tote}, {"label": "Next time"}]}}
    odds = {"prizes": [{"prize_id": tote, "probability": 0}, {"prize_id": voucher, "probability": 1}]}
    await visit.open(await fair.game(WHEEL, odds, access="public", ui=ui))
    await visit.press()
    assert "10 euro voucher" in await visit.result()
    assert await visit.page.locator(".disc.dim").count() == 1 and await visit.page.locator(".hit.on").count() == 0
    # Without segments there is one for each prize: the odds may name them in another order, or twice.
    rare = {"prize_id": tote, "probability": 1e-8}
    odds = {"prizes": [rare, rare, {"prize_id": voucher, "probability": 1 - 1e-6}]}
    await visit.open(await fair.game(WHEEL, odds, access="public"))
    await visit.press()
    assert "10 euro voucher" in await visit.result() and await segment(visit, 3) == 1


async def test_scratch_card_opens_by_scratching_alone(fair: World, moving: Visit) -> None:
    await moving.open(await card(fair))
    await moving.press(then=".main >> text=Scratch")
    await moving.page.reload()
    await moving.page.wait_for_selector(".main >> text=Scratch")
    await scratch(moving, 0.2)
    assert await moving.page.is_hidden(".card"), "too little foil is off"
    await scratch(moving, 1)
    assert "Fair mug" in await moving.result()
    assert len(await fair.plays()) == 1, "the reload showed the same card"
    await moving.press(then=".main >> text=Scratch")
    assert await moving.page.is_hidden(".card"), "the next card is covered again"
    await moving.page.evaluate(f"for (let i = 0; i < 12; i++) {ROOT}.querySelector('.main').click()")
    await moving.result()
    assert len(await fair.plays()) == 2, "presses beyond the last one take no card"
    await moving.open(await card(fair))
    await scratch(moving, 1)  # Touching a card takes it.
    await moving.page.wait_for_selector(".scratch .under :text('Fair mug')")
    await scratch(moving, 1)
    assert "Fair mug" in await moving.result()
    assert len(await fair.plays()) == 3


async def test_collection_card_turns_to_what_was_drawn(fair: World, moving: Visit) -> None:
    await moving.open(await games.collection(fair))
    assert await moving.page.evaluate(UPPERMOST) == "back"
    await moving.page.click(".deck")
    assert await moving.kind() == "won" and "2 × Maple leaf" in await moving.result()
    assert "2 × Maple leaf" in await moving.page.inner_text(".leaf .face")
    assert await moving.page.evaluate(UPPERMOST) == "face"
    async with moving.page.expect_response("**/play"):
        await moving.press()
    await moving.page.reload()  # Before the card was seen.
    assert await moving.kind() == "won"
    assert await moving.page.evaluate(games.ALBUM) == {"Maple leaf": 4, "chestnut": 0}
    assert len(await fair.plays()) == 2


BROKEN: Final[list[tuple[str, Any]]] = [
    ("wheel", {"wheel": "later", "theme": "ours", "background": 3, "picture": [], "texts": "x", "prizes": 1}),
    *(("wheel", {"wheel": {"segments": one}}) for one in ([], [{"label": "One"}], [{"emoji": "⭐"}] * 40, "x", [None])),
    *(("collection", {"items": one}) for one in ("nonsense", [None, 3, {"item": {}}], {"a": {"item": "maple"}}, None)),
    *(("gifts", {"items": one}) for one in ("y", [None, 3])),
    *(("eggs", {"catcher": 3, "egg": "x"}), ("eggs", {"catcher": {"lives": -1, "most": "a"}})),
]


async def test_game_of_an_unknown_type_or_with_a_broken_ui_can_be_played(fair: World, visit: Visit) -> None:
    unplayable = []
    for shape, ui in BROKEN:
        game_id = await games.made(fair, shape)
        assert (await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"ui": ui})).data["ui"] == ui
        await visit.open(game_id)
        await visit.page.evaluate(games.HAND, [True, 0])
        await visit.press()
        if shape == "eggs":  # Without a `most` of its own the game is long.
            await visit.page.wait_for_selector(games.UNDER_WAY[shape])
        elif await games.finish(visit, "won") != "won":
            unplayable.append((shape, ui))
        if shape == "collection":
            assert (await visit.page.evaluate(games.ALBUM))["maple"] % 2 == 0, ui
    assert unplayable == []
    # An unknown type is played as its reward handler wants.
    mug = await fair.prize(name="Mug")
    drop = {"type": "x", "prize_id": mug, "frequency": 1, "max_catchable": 1}
    scored = {"tiers": [{"min": 0, "max": 9, "prize_group": "a"}], "prize_groups": {"a": []}}
    dropped = {"drops": [drop], "total_items": 1, "interval_ms": 1}
    for kind, config, shown in (
        *(({**EGGS, "type": "duck_hunt"}, scored, ".egg"), ({**GIFTS, "type": "rain"}, dropped, ".field")),
    ):
        await visit.open(await fair.game(kind, config, access="public"))
        assert await visit.page.is_visible(shown), shown
    await visit.open(await fair.wheel(mug, type="something_new", access="public"))
    await visit.page.wait_for_selector(".plain")
    await visit.press()
    assert await visit.kind() == "won" and "Mug" in await visit.result()
    await visit.open(await fair.game({**COLLECTION, "type": "something_new"}, COINS, access="public"))
    await visit.press()
    assert await visit.kind() == "won" and "2 × coin" in await visit.result()
    assert (await visit.page.evaluate(games.ALBUM))["coin"] == 2


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
    await moving.open(await games.eggs(fair))
    await moving.press(then=".falls")
    for by in ("button", "background"):
        await (moving.page.click("button.main") if by == "button" else moving.page.evaluate(HIDE))
        await moving.page.wait_for_selector(".main >> text=Continue")
        before = await moving.page.evaluate(PLACES)
        await moving.page.evaluate(FRAMES)
        assert await moving.page.evaluate(PLACES) == before, by
        assert "Catch" in await moving.page.inner_text(".over")
        await moving.click("button.main", then=".main >> text=Pause")
    await moving.page.evaluate(games.HAND, [True, 0])
    assert await games.ended(moving) == "won" and "Fair mug" in await moving.result()
    over = await moving.page.inner_text(".over")
    (play,) = await games.reported(fair)
    assert play["payload"]["score"] == play["score"] == int(over.split(" points")[0].split()[-1]) in (2, 3)
    assert "Fair mug" in over and play["payload"]["duration_ms"] > 1000


async def test_missed_egg_takes_a_life_and_score_zero_loses(fair: World, moving: Visit) -> None:
    await moving.open(await games.eggs(fair))
    assert await moving.page.inner_text(".tally span >> nth=1") == "❤️❤️"
    await moving.page.evaluate(games.HAND, [False, 0])
    await moving.press()
    await moving.page.wait_for_selector(".tally >> text=❤️🤍", timeout=games.PATIENCE_MS)
    assert "1 life left" in await moving.page.inner_text("[role=status]")
    assert await games.ended(moving) == "lost"
    assert [play["payload"]["score"] for play in await games.reported(fair)] == [0]


async def test_gift_catcher_reports_one_catch_through_reloads_and_a_lost_answer(fair: World, moving: Visit) -> None:
    sent: list[str] = []

    async def lose(route: Route) -> None:
        sent.append(json.dumps((route.request.post_data_json or {})["payload"]))
        await (route.abort("connectionreset") if len(sent) == 1 else route.continue_())

    await moving.page.route("**/api/v1/games/*/play", lose)
    await moving.open(await games.gifts(fair, count=5))
    await moving.press(then=".falls")
    await moving.reload()
    assert await fair.plays() == [], "a game left midway is not played"
    await moving.page.evaluate(games.HAND, [True, 2])
    await moving.page.evaluate(WATCH)
    async with moving.page.expect_request("**/play", timeout=games.PATIENCE_MS):
        await moving.press()
    came = await moving.page.evaluate("window.seen.came")
    assert len(came) == 5 and all(at >= 300 * nth - 200 for nth, at in enumerate(came)), came
    await moving.page.reload()
    assert await games.ended(moving) == "won"
    assert moving.api_calls().count("POST start") == 1
    assert len(sent) >= 2 and set(sent) == {sent[0]}
    (play,) = await games.reported(fair)
    items, result = play["payload"]["caught_items"], await moving.result()
    assert 0 < len(items) < 5 and len(items) == len(set(items)) == play["outcome"]["rewards"][0]["quantity"]
    assert (f"{len(items)} × Star" if len(items) > 1 else "Star") in result
    moving.forgive("ERR_CONNECTION_RESET")


async def test_reduced_motion_stops_every_animation(fair: World, visit: Visit) -> None:
    await visit.open(await games.eggs(fair, most=2))
    await visit.page.evaluate(games.HAND, [True, 0])
    await visit.page.evaluate(WATCH)
    await visit.press(then=".falls")
    assert await visit.page.evaluate(games.MOVING) == 0
    assert await games.ended(visit) == "won"
    places = await visit.page.evaluate("[...window.seen.places]")
    assert len({place.split(",")[1] for place in places}) <= 7 and "rotate" not in str(places), places
    for shape in ("wheel", "collection", "gifts"):
        await visit.open(await games.made(fair, shape))
        await visit.page.evaluate(games.HAND, [True, 0])
        await visit.press(then=games.UNDER_WAY.get(shape, ".card[data-result=won]"))
        assert await visit.page.evaluate(games.MOVING) == 0, shape
        assert await games.finish(visit, "won") == "won", shape


async def test_basket_follows_the_keys_and_a_finger_that_does_not_scroll(fair: World, browser: Browser) -> None:
    size = {"width": 360, "height": 420}
    async with visiting(browser, fair.stack, viewport=size, has_touch=True, is_mobile=True) as visit:
        await visit.open(await games.eggs(fair, lives=9, most=1000))
        await visit.page.focus("button.main")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".field.on:focus-visible")
        box = await visit.page.locator(".field").bounding_box()

        async def basket(where: str) -> None:
            await visit.page.wait_for_function(f"() => ({BASKET})() {where}", timeout=games.PATIENCE_MS)

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
    leave = f"document.querySelector('tombola-game').setAttribute('game', '{wheel}')"

    async def leave_it(route: Route) -> None:
        await moving.page.evaluate(leave)
        await route.continue_()

    eggs = await games.eggs(fair, lives=1)
    await moving.open(eggs)
    await moving.page.route("**/start", leave_it)
    assert await moving.page.evaluate("document.querySelector('tombola-game').play()") is None
    await moving.page.unroute("**/start")
    await moving.open(eggs)
    await moving.page.evaluate("() => { window.left = document.querySelector('tombola-game').play(); }")
    await moving.page.wait_for_selector(".falls")
    await moving.page.evaluate(leave)
    assert await moving.page.evaluate("window.left") is None
    await moving.page.wait_for_selector(".wheel")
    await moving.press()
    assert await games.ended(moving) == "won" and "Pumpkin" in await moving.result()
    assert len(await fair.plays()) == 1
