import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.commands.connection import EXIT_REFUSED
from runtime.operations.budget_alerts import thresholds
from tests.support.operator import Operator
from tests.support.packs import make_pack
from tests.support.resources import make_draw
from tests.support.stack import Stack
from tests.support.world import GIFTS, TIMED, WHEEL, World, new_world

LOOKS = {"picture": "https://brand.example/wheel.png"}
PICTURE = "https://brand.example/mug.png"
EUR = {"currency": "EUR"}
TICKETS = {"currency": "ticket"}


@pytest.fixture
async def fair(module_stack: Stack) -> AsyncIterator[World]:
    later = {"end_date": int(time.time()) + 86_400, "origins": ["https://brand.example"]}
    async with new_world(module_stack, name="Autumn Fair", **later) as world:
        yield world


async def checked(world: World) -> list[tuple[str, str, str]]:
    """(level, field, message) of each item, ids left out of the fields."""
    items = (await world.stack.admin("GET", f"/admin/campaigns/{world.campaign_id}/launch-check")).data["items"]
    return [(one["level"].removeprefix("LAUNCH_LEVEL_").lower(), one["field"], one["message"]) for one in items]


async def found(world: World, level: str) -> dict[str, str]:
    items = [one for one in await checked(world) if one[0] == level]
    return {field.rpartition("/")[2].partition(".")[2] or field: message for _, field, message in items}


async def set_campaign(world: World, **fields: Any) -> None:
    answer = await world.stack.admin("PUT", f"/admin/campaigns/{world.campaign_id}", fields)
    assert answer.code == "OK", answer.envelope


async def test_launch_check_of_a_ready_campaign_finds_no_issue(fair: World) -> None:
    prize = await fair.prize(name="Mug", total=20, value=5, image_url=PICTURE, **EUR)
    await fair.wheel(prize, name="Wheel", ui=LOOKS, access="public")
    await set_campaign(fair, budget={"amount": 100, **EUR})
    items = await checked(fair)
    assert {message for level, _, message in items if level == "ok"} >= {
        *("The dates are valid", "One game is active", "The odds of Wheel add up to 100 %", "Mug has stock: 20 left"),
        *("Wheel has a picture", "Pages of other origins may show it"),
        "The remaining prizes cost 100 EUR, within the budget of 100 EUR",
    }
    assert {field for level, field, _ in items if level != "ok"} <= {"CONSUMER_BASE_URL"}
    assert f"prizes/{prize}.stock.total" in {field for _, field, _ in items}


async def test_launch_check_covers_dates_games_and_odds(fair: World) -> None:
    await set_campaign(fair, end_date=0, origins=[])
    await fair.game(WHEEL, {"prizes": []}, name="Empty", ui={"theme": {"mode": "dark"}})
    warned = await found(fair, "warning")
    assert warned["end_date"] == "No end date is set"
    assert warned["handler_config"] == "Empty has no prizes: every play loses"
    assert warned["ui.picture"] == "Empty has no picture: lists show only its name"
    assert warned["origins"] == "No origins are set: only the service's own pages may show it"
    await fair.database.execute("UPDATE campaigns SET end_date = now() WHERE campaign_id = $1", fair.campaign_id)
    assert (await found(fair, "problem"))["end_date"] == "The end date is in the past"


async def test_launch_check_accepts_a_campaign_without_games_in_whose_draw_players_take_part(fair: World) -> None:
    car = await fair.prize(name="Car", total=1, image_url=PICTURE)
    needs = "No game is active. Without a game, the campaign needs an entry form"
    assert (await found(fair, "problem")) == {"games": f"{needs} and an open prize draw"}
    raffle = await make_draw(fair.stack, fair.campaign_id, car)
    assert (await found(fair, "problem")) == {"entry": f"{needs} for its prize draw"}
    await set_campaign(fair, entry={"mode": "ENTRY_MODE_OPEN"})
    await make_draw(fair.stack, fair.campaign_id, car, name="Coded", tickets=TICKETS)
    accepted = ("ok", f"draws/{raffle}.tickets", "Players take part in the prize draw Car: no game is needed")
    items = await checked(fair)
    assert items[0][0] != "problem" and {accepted, ("ok", f"prizes/{car}.stock.total", "Car has stock: 1 left")} <= {
        *items
    }
    assert (await fair.stack.admin("PUT", f"/admin/draws/{raffle}", {"status": "DRAW_STATUS_CANCELLED"})).code == "OK"
    assert "players can enter, but win nothing" in (await found(fair, "warning"))["draws"], (
        "nothing gives tickets of Coded"
    )
    await make_pack(fair, gives={**TICKETS, "amount": 1})
    assert "Players take part in the prize draw Coded: no game is needed" in {item[2] for item in await checked(fair)}


async def test_launch_check_covers_stock_codes_and_pictures(fair: World) -> None:
    cup = await fair.prize(name="Cup", total=1)
    low = await fair.prize(name="Low", total=2, low_stock_at=2, image_url=PICTURE)
    none = await fair.prize(name="None", fulfillment={"channel": "voucher_code"}, image_url=PICTURE)
    few = await fair.prize(name="Few", codes=["code-0001", "code-0002"], total=9, image_url=PICTURE)
    many = await fair.prize(name="Many", codes=["code-0003", "code-0004"], total=1, image_url=PICTURE)
    await fair.round(await fair.wheel(cup, status="active"))
    await fair.wheel(low, none, few, many, ui={**LOOKS, "prizes": [{"prize_id": cup, "emoji": "X"}]})
    await fair.prize(name="Unnamed", total=0, fulfillment={"channel": "voucher_code"})
    items = await checked(fair)
    shown = {message for level, _, message in items if level == "problem"}
    assert shown == {"Cup has no stock left", "None has no codes left"}
    warned = {message for level, _, message in items if level == "warning"}
    codes = {f"{name} has 2 codes for a stock of {stock}" for name, stock in (("Few", 9), ("Many", 1))}
    assert {"Low runs low: 2 left", *codes} <= warned
    assert "Cup has no picture" not in warned and not any("Unnamed" in message for _, _, message in items)
    levels = [level for level, _, _ in items]
    assert levels == sorted(levels, key=["problem", "warning", "ok"].index)
    assert "fulfillment" not in await found(fair, "warning")
    await fair.stack.admin("PUT", f"/admin/prizes/{many}", {"fulfillment": {"channel": "none"}})
    unused = "Many has codes that are never given: its channel is none. Use voucher_code"
    assert (await found(fair, "warning"))["fulfillment"] == unused


async def test_launch_check_compares_a_wheel_with_its_odds(fair: World) -> None:
    mug, tote, car = [await fair.prize(name=name, image_url=PICTURE) for name in ("Mug", "Tote", "Car")]
    odds = {"prizes": [{"prize_id": mug, "probability": 0.5}, {"prize_id": tote, "probability": 0.1}]}

    async def issues(*segments: str | None, **fields: Any) -> set[tuple[str, str]]:
        shown = [{"label": prize_id and "A car", "prize_id": prize_id, "emoji": "X"} for prize_id in segments]
        game = await fair.game(WHEEL, odds, name="Wheel", ui={**LOOKS, "wheel": {"segments": shown}, **fields})
        items = await checked(fair)
        await fair.stack.admin("PUT", f"/admin/games/{game}", {"status": "paused"})
        return {(one[0], one[2]) for one in items if one[1].startswith(f"games/{game}.ui") and one[0] != "ok"}

    assert await issues(mug, None, tote, mug) == set()
    text = "The wheel of Wheel has no segment for Tote: a win of it points at nothing"
    assert await issues(mug, None) == {("problem", text)}
    assert await issues(mug, tote, car, None) == {
        ("problem", "Segment 3 of the wheel of Wheel shows A car, which has no odds and cannot be won")
    }
    text = "The wheel of Wheel has no segment without a prize: a loss points at nothing"
    assert await issues(mug, tote) == {("warning", text)}
    assert await issues(None) == {("problem", "The wheel of Wheel has fewer segments (1) than prizes (2)")}
    assert {level for level, _ in await issues(None, None, None)} == {"warning"}
    assert await issues(
        *(mug, tote, None),
        prizes=[{"prize_id": car, "emoji": "X"}, {"prize_id": [], "emoji": "X"}],
        items=[{"prize_id": {"a": 1}, "emoji": "X"}],
    ) >= {("warning", f"Wheel has a picture of the prize {car}, which it cannot award")}


@pytest.mark.parametrize("rules", [{"requires_turn": True}, {"max_plays_per_day": 2}, {}])
async def test_launch_check_compares_turns_given_and_spent(fair: World, rules: dict[str, Any]) -> None:
    wheel = await fair.wheel(name="Wheel", rules=rules)

    async def said() -> list[tuple[str, str]]:
        return [(level, message) for level, _, message in await checked(fair) if "turn" in message]

    needed = bool(rules.get("requires_turn"))
    missing = ("warning", "Every play of Wheel takes a turn, but no quest, pack or prize gives any")
    given = [("ok", "Wheel takes turns, and quests, packs or prizes give them")]
    idle = "gives turns, but no active game takes any"
    assert await said() == ([missing] if needed else [])
    await fair.quest(name="Draft", status="draft")
    await fair.quest(name="Nothing", turns=0)
    await fair.database.execute("UPDATE quests SET end_date = now() WHERE quest_id = $1", await fair.quest(name="Over"))
    assert await said() == ([missing] if needed else []), "these give none"
    caps = await make_pack(fair)
    assert await said() == (given if needed else [] if rules else [("warning", f"The pack Caps {idle}")])
    visit = await fair.quest(name="Visit")
    more = await fair.prize(name="More", type="turns", value=1, campaign_id=fair.campaign_id)
    other = await fair.wheel(more, name="Other")
    all_idle = [("warning", f"{source} {idle}") for source in ("More", "The quest Visit", "The pack Caps")]
    assert await said() == (given if needed else [] if rules else all_idle)
    if not rules:
        fields = {field for level, field, _ in await checked(fair) if level == "warning"}
        assert {f"prizes/{more}.type", f"quests/{visit}.turns", f"packs/{caps}.gives.turns"} <= fields
    for game in (other, wheel):
        await fair.stack.admin("PUT", f"/admin/games/{game}", {"status": "paused"})
    assert [one for one in await said() if one[0] == "warning"] == [], "no game is active: that is told alone"


async def test_launch_check_recommends_verified_timing_for_prizes_of_value(fair: World) -> None:
    for value, rules in ((0, {}), (5, TIMED), (5, {})):
        drops = [{"type": "a", "prize_id": await fair.prize(value=value), "frequency": 1, "max_catchable": 1}]
        game_id = await fair.game(GIFTS, {"drops": drops, "total_items": 1, "interval_ms": 1}, name="Rain", rules=rules)
    risk = "Rain has prizes of value but does not verify timing: a client may send any score at once"
    timing = [one for one in await checked(fair) if "timing" in one[1]]
    assert timing == [("warning", f"games/{game_id}.rules.verify_timing", risk)]


async def test_launch_check_compares_prizes_with_the_budget(fair: World) -> None:
    mug = await fair.prize(name="Mug", total=20, value=5, image_url=PICTURE, **EUR)
    other = await fair.prize(name="Dollars", total=5, value=1, currency="USD", image_url=PICTURE)
    plain = await fair.prize(name="Plain", total=5, value=1, image_url=PICTURE)
    open_ended = await fair.prize(name="Open", value=1, image_url=PICTURE, **EUR)
    codes = await fair.prize(name="Codes", codes=["code-1000", "code-2000"], value=10, image_url=PICTURE, **EUR)
    first = await fair.wheel(mug)
    for prize in (other, plain, open_ended, codes):
        await fair.wheel(prize)
    await set_campaign(fair, budget={"amount": 119, **EUR})
    warned = {message for level, _, message in await checked(fair) if level == "warning"}
    assert warned >= {
        "The remaining prizes cost 120 EUR, more than the budget of 119 EUR",
        "The value of Dollars is in USD: it does not count against the budget",
        "The value of Plain has no currency: it does not count against the budget",
        "Open is unlimited: its cost may exceed the budget",
    }
    await fair.round(first)
    await thresholds.check(fair.stack.engine, fair.stack.tenant_id, every_seconds=0)
    assert "cost 115 EUR on top of 5 EUR used, more than" in (await found(fair, "warning"))["budget"]
    await set_campaign(fair, budget={"amount": 5, **EUR})
    assert (await found(fair, "problem"))["budget"] == "5 EUR of the budget of 5 EUR are used"


async def test_launch_check_covers_senders_and_channels(fair: World) -> None:
    unsigned = {"url": "https://x.example", "secret": ""}
    hook = await fair.prize(name="Hook", fulfillment={"channel": "workflow", "config": unsigned})
    await fair.wheel(hook, name="Wheel", access="player")
    assert (await found(fair, "problem"))["fulfillment"].startswith("Hook has no secret: callbacks of its workflow")
    warned = await found(fair, "warning")
    assert "set CALLBACK_BASE_URL" in warned["CALLBACK_BASE_URL"]
    assert warned["LOGIN_SENDER"].startswith("Wheel requires a login")
    sms = {"type": "sms", "events": ["prize_won"], "campaign_id": fair.campaign_id, "config": {}}
    assert (await fair.stack.admin("POST", "/admin/integrations", sms)).code == "OK"
    assert (await found(fair, "warning"))["integrations"].startswith("The integration sms only logs events")
    await fair.database.execute("UPDATE prizes SET channel = 'pigeon' WHERE prize_id = $1", hook)
    assert "no plugin provides the channel pigeon" in (await found(fair, "problem"))["fulfillment"]


async def test_launch_check_names_the_missing_consumer_url(fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = fair.stack.engine
    for url, level in (("", "warning"), ("https://play.example", "ok")):
        monkeypatch.setattr(engine, "settings", replace(engine.settings, consumer_base_url=url))
        assert [one[0] for one in await checked(fair) if one[1] == "CONSUMER_BASE_URL"] == [level]


async def test_launch_check_command_exits_1_on_a_problem(fair: World, tmp_path: Path) -> None:
    tombola = Operator(fair.stack, tmp_path)
    await set_campaign(fair, budget={"amount": 50, **EUR})
    result = await tombola("campaigns", "check", fair.campaign_id)
    assert result.code == EXIT_REFUSED and "No game is active" in result.out
    result = await tombola("campaigns", "check", fair.campaign_id, "--json")
    items = [(one["level"].rpartition("_")[2].lower(), *list(one.values())[1:]) for one in json.loads(result.out)]
    assert result.code == EXIT_REFUSED and items == await checked(fair)
    await fair.wheel(await fair.prize(total=1, name="Only", campaign_id=fair.campaign_id))
    assert (await tombola("campaigns", "check", fair.campaign_id)).code == 0
    assert (await tombola("campaigns", "export", fair.campaign_id, "fair.yaml")).code == 0
    assert "amount: 50" in (tmp_path / "fair.yaml").read_text()
    again = await tombola("campaigns", "import", "fair.yaml", "--into", fair.campaign_id)
    assert again.out.strip().endswith("unchanged"), again
    listed = (await tombola("campaigns", "list")).out
    assert "50.00 EUR" in listed and "not counted yet" in listed
