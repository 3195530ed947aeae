"""The dashboard's forms: what is typed is saved, rows stay themselves, and what is wrong is told where it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.axe import violations
from tests.support.staff import Desk
from tests.support.world import EGGS, WHEEL, World

if TYPE_CHECKING:
    from playwright.async_api import Locator

pytestmark = pytest.mark.asyncio(loop_scope="session")

HEADERS_MAX = 20
LONG = 70_000
"""More than a config may have of bytes."""


def field(desk: Desk, name: str) -> Locator:
    return desk.page.locator(f"#content form.schema [name='{name}']")


def whole(desk: Desk, legend: str) -> Locator:
    """What is told of several fields together."""
    return desk.page.locator(f"#content fieldset:has(> legend:text-is('{legend}')) > .wrong")


async def retype(control: Locator, text: str) -> None:
    """Types over what is there, key by key."""
    await control.focus()
    await control.press("ControlOrMeta+a")
    await control.press("Delete")
    await control.press_sequentially(text)


async def save(desk: Desk) -> None:
    await desk.press("Save", within="main")
    await desk.page.wait_for_selector(".toast:has-text('Saved.')")


async def stored(desk: Desk, path: str) -> dict[str, Any]:
    return dict((await desk.stack.admin("GET", path)).data)


# -- numbers ---------------------------------------------------------------------------------


async def test_a_number_is_typed_key_by_key(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", campaign_id=stall.campaign_id)
    game = await stall.game(WHEEL, {"prizes": [{"prize_id": mug, "probability": 0.5}]})
    await desk.enter("designer", path=f"/games/{game}")
    chance = field(desk, "handler_config.prizes[0].probability")
    await retype(chance, "0.05")
    assert await chance.input_value() == "0.05"
    await desk.page.keyboard.press("Backspace")
    await desk.page.keyboard.type("01")
    assert await chance.input_value() == "0.001"
    await save(desk)
    config = (await stored(desk, f"/admin/games/{game}"))["handler_config"]
    assert config["prizes"] == [{"prize_id": mug, "probability": 0.001}]
    await desk.page.wait_for_selector(".toast", state="detached")
    await retype(chance, "1e-2")
    await save(desk)
    config = (await stored(desk, f"/admin/games/{game}"))["handler_config"]
    assert config["prizes"][0]["probability"] == 0.01


async def test_what_is_assumed_of_plays_is_typed_key_by_key(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", value=10, currency="EUR", campaign_id=stall.campaign_id)
    groups = {name: [{"prize_id": mug, "probability": 1}] for name in ("gold", "silver", "bronze")}
    game = await stall.game(EGGS, {"tiers": [], "prize_groups": groups})
    await desk.enter("designer", path=f"/games/{game}")
    share = desk.page.get_by_label("Plays that reach gold, in percent (assumed)")
    assert await share.input_value() == "33.3"
    for text in ("0.05", "33.3333", ""):
        await retype(share, text)
        assert await share.input_value() == text
    rate = desk.page.get_by_label("Plays a day")
    assert await rate.input_value() == "1000"
    await retype(rate, "")
    assert await rate.input_value() == ""
    await desk.page.keyboard.type("40")
    assert await rate.input_value() == "40"
    # Of 40 plays two thirds win what is worth 10.
    await desk.page.wait_for_selector(".together:has-text('266.4')")


async def test_a_prize_s_number_that_is_emptied_becomes_none(desk: Desk, stall: World) -> None:
    numbers = {"value": 8, "expires_after_days": 30, "low_stock_at": 5}
    prize = await stall.prize(name="Mug", constraints={"max_per_user": 2, "max_per_day": 3}, **numbers)
    await desk.enter("designer", path=f"/prizes/{prize}")
    for name in (*numbers, "constraints.max_per_user"):
        await retype(field(desk, name), "")
    await save(desk)
    now = await stored(desk, f"/admin/prizes/{prize}")
    assert {name: now[name] for name in numbers} == dict.fromkeys(numbers, 0)
    assert now["constraints"] == {"max_per_user": 0, "max_per_day": 3} and now["name"] == "Mug"
    await desk.page.reload()
    await desk.settled()
    assert [await field(desk, name).input_value() for name in numbers] == ["0", "0", "0"]
    await retype(field(desk, "value"), "2.05")
    await save(desk)
    assert (await stored(desk, f"/admin/prizes/{prize}"))["value"] == 2.05


# -- rows ------------------------------------------------------------------------------------


async def test_the_rows_that_are_left_keep_what_is_in_them(desk: Desk, stall: World) -> None:
    asked = [
        {"key": key, "label": key, "kind": "CLAIM_FIELD_KIND_CHOICE", "options": options}
        for key, options in {"size": ["S", "M"], "colour": ["red", "blue"], "taste": ["sweet", "salty"]}.items()
    ]
    claimed = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    prize = await stall.prize(name="Mug", fulfillment=claimed, claim_fields=asked)
    await desk.enter("designer", path=f"/prizes/{prize}")
    await desk.page.get_by_role("button", name="Remove what a claim asks 1").click()
    colour, taste = (field(desk, f"claim_fields[{nth}].options") for nth in (0, 1))
    assert (await colour.input_value(), await taste.input_value()) == ("red\nblue", "sweet\nsalty")
    await colour.press("ControlOrMeta+End")
    await colour.press_sequentially("\ngreen")
    await save(desk)
    left = (await stored(desk, f"/admin/prizes/{prize}"))["claim_fields"]
    assert [(one["key"], one["options"]) for one in left] == [
        ("colour", ["red", "blue", "green"]),
        ("taste", ["sweet", "salty"]),
    ]


async def test_which_codes_end_is_chosen_with_the_arrows(desk: Desk, stall: World) -> None:
    prize = await stall.prize(codes=["A-000001", "A-000002", "A-000003"])
    await desk.enter("reward_manager", path=f"/prizes/{prize}")
    page = desk.page
    await page.get_by_label("Choose code_").first.check()
    await desk.press("Change the end", within="main")
    await page.locator("dialog select").focus()
    for key, word in (("ArrowDown", "Change 3 codes"), ("ArrowUp", "Change a code"), ("ArrowDown", "Change 3 codes")):
        await page.keyboard.press(key)
        await page.wait_for_selector(f"dialog button:text-is('{word}')")
        assert await page.evaluate("document.activeElement.matches('dialog select')"), key


# -- maps ------------------------------------------------------------------------------------


async def names_of(desk: Desk) -> list[str]:
    keys = await desk.page.get_by_label("Name", exact=True).all()
    return [await key.input_value() for key in keys[1:]]  # The first is the game's.


async def test_a_name_is_added_beside_those_there_are(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", campaign_id=stall.campaign_id)
    groups = {"prize_groups_2": [{"prize_id": mug, "probability": 0.25}]}
    game = await stall.game(EGGS, {"tiers": [], "prize_groups": groups})
    await desk.enter("designer", path=f"/games/{game}")
    for _ in range(2):
        await desk.page.get_by_role("button", name="Add to prize groups", exact=True).click()
    assert await names_of(desk) == ["prize_groups_2", "prize_groups_3", "prize_groups_4"]
    await save(desk)
    now = (await stored(desk, f"/admin/games/{game}"))["handler_config"]["prize_groups"]
    assert now == {**groups, "prize_groups_3": [], "prize_groups_4": []}


async def test_a_name_that_another_has_is_refused_and_nothing_is_lost(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", campaign_id=stall.campaign_id)
    chances = {"gold": 0.1, "lead": 0.2, "zinc": 0.3}
    groups = {name: [{"prize_id": mug, "probability": chance}] for name, chance in chances.items()}
    game = await stall.game(EGGS, {"tiers": [], "prize_groups": groups})
    await desk.enter("designer", path=f"/games/{game}")
    page = desk.page
    key = page.get_by_label("Name", exact=True).nth(2)
    assert await names_of(desk) == ["gold", "lead", "zinc"]
    await retype(key, "gold")
    await page.keyboard.press("Tab")
    await page.wait_for_selector(".wrong:text-is('Another one has this name already.')")
    assert await names_of(desk) == ["gold", "gold", "zinc"]
    assert await page.locator("[name$='.probability']").count() == 3
    assert await violations(page) == []
    await desk.press("Save", within="main")
    assert await key.evaluate("it => it === document.activeElement && it.validity.customError")
    assert (await stored(desk, f"/admin/games/{game}"))["revision"] == 1
    # Typed over, it is taken; a number goes before the others, with what is in its row.
    await retype(key, "7")
    await page.keyboard.press("Tab")
    assert await page.locator(".wrong").count() == 0
    assert await names_of(desk) == ["7", "gold", "zinc"]
    await save(desk)
    now = (await stored(desk, f"/admin/games/{game}"))["handler_config"]["prize_groups"]
    assert now == {"gold": groups["gold"], "7": groups["lead"], "zinc": groups["zinc"]}


async def test_a_name_is_taken_once_the_other_is_gone(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", campaign_id=stall.campaign_id)
    chances = {"gold": 0.1, "silver": 0.2}
    groups = {name: [{"prize_id": mug, "probability": chance}] for name, chance in chances.items()}
    game = await stall.game(EGGS, {"tiers": [], "prize_groups": groups})
    await desk.enter("designer", path=f"/games/{game}")
    await retype(desk.page.get_by_label("Name", exact=True).nth(2), "gold")
    await desk.page.get_by_role("button", name="Remove gold", exact=True).click()
    assert await names_of(desk) == ["gold"]
    await save(desk)
    now = (await stored(desk, f"/admin/games/{game}"))["handler_config"]["prize_groups"]
    assert now == {"gold": groups["silver"]}


# -- what is wrong ---------------------------------------------------------------------------


async def test_what_is_wrong_where_no_control_is_is_told_by_its_path(desk: Desk, stall: World) -> None:
    config = {
        "url": "https://shop.example/mugs",
        "secret": "quite-a-long-secret",
        "previous_secret": "another-long-one",
    }
    prize = await stall.prize(name="Mug", fulfillment={"channel": "webhook", "config": config})
    await desk.enter("designer", path=f"/prizes/{prize}")
    await retype(field(desk, "fulfillment.config.url"), "https://elsewhere.example/mugs")
    await desk.press("Save", within="main")
    problem = desk.page.locator("#content .problem")
    await problem.wait_for()
    desk.forgive("400")
    assert await problem.locator("p").all_inner_texts() == [
        "One field needs another look.",
        "fulfillment.config.previous_secret must be given anew: it was given for another receiver",
    ]
    assert await field(desk, "fulfillment.config.secret").get_attribute("aria-invalid") == "true"


async def test_what_is_wrong_with_a_map_is_told_there(desk: Desk, stall: World) -> None:
    headers = {f"X-{nth}": "some" for nth in range(HEADERS_MAX)}
    config = {"url": "https://shop.example/mugs", "headers": headers}
    prize = await stall.prize(name="Mug", fulfillment={"channel": "webhook", "config": config})
    await desk.enter("designer", path=f"/prizes/{prize}")
    await desk.page.get_by_role("button", name="Add to headers", exact=True).click()
    await field(desk, f"fulfillment.config.headers.headers_{HEADERS_MAX + 1}").press_sequentially("one more")
    await desk.press("Save", within="main")
    await whole(desk, "Headers").wait_for()
    desk.forgive("400")
    assert f"at most {HEADERS_MAX}" in await whole(desk, "Headers").inner_text()
    assert await desk.page.locator("#content .problem p").all_inner_texts() == ["One field needs another look."]
    assert await violations(desk.page) == []


async def test_what_is_wrong_with_an_object_is_told_there(desk: Desk, stall: World) -> None:
    config = {"url": "https://shop.example/mugs", "headers": {"X-Key": "some"}}
    prize = await stall.prize(name="Mug", fulfillment={"channel": "webhook", "config": config})
    await desk.enter("designer", path=f"/prizes/{prize}")
    await field(desk, "fulfillment.config.headers.X-Key").fill("x" * LONG)
    await desk.press("Save", within="main")
    await whole(desk, "Where to").wait_for()
    desk.forgive("400")
    assert "bytes as JSON" in await whole(desk, "Where to").inner_text()
    assert await desk.page.locator("#content .problem p").all_inner_texts() == ["One field needs another look."]


async def test_a_header_may_be_called_like_a_field_that_has_a_control_of_its_own(desk: Desk, stall: World) -> None:
    config = {"url": "https://shop.example/mugs", "headers": {"channel": "some", "options": "more"}}
    prize = await stall.prize(fulfillment={"channel": "webhook", "config": config})
    await desk.enter("admin", path=f"/prizes/{prize}")
    for name in config["headers"]:
        header = field(desk, f"fulfillment.config.headers.{name}")
        assert (await header.input_value(), await header.evaluate("(it) => it.localName")) == ("***", "input")
