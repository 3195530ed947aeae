"""The game designer of the dashboard: a form beside what its players see, tried out, compared and restored."""

from __future__ import annotations

import re
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from runtime.http import gallery
from runtime.rules import REWARD_HANDLERS
from tests.browser.test_dashboard import EVIL
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.gallery import applied, exported
from tests.support.pages.looks import SCREENS
from tests.support.staff import Desk, at_desk
from tests.support.tables import contents
from tests.support.world import EGGS, GIFTS, WHEEL, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROOT = Path(__file__).parents[2]
DRAWN = "document.querySelector('.preview tombola-game')?.shadowRoot.querySelector('button')"


async def game_of(desk: Desk) -> dict[str, Any]:
    """The game whose page is open, as it is stored."""
    return dict((await desk.stack.admin("GET", f"/admin/games/{desk.page.url.rpartition('/')[2]}")).data)


async def save(desk: Desk) -> None:
    await desk.press("Save", within=".designer")
    await desk.page.wait_for_selector(".toast:has-text('Saved.')")


async def test_the_odds_say_when_a_prize_of_stock_and_one_of_codes_run_out(desk: Desk, stall: World) -> None:
    mug = await stall.prize(name="Mug", total=100, campaign_id=stall.campaign_id)
    codes = [f"SAVE-{nth}" for nth in range(5)]
    voucher = await stall.prize(name="Voucher", codes=codes, campaign_id=stall.campaign_id)
    free = await stall.prize(name="Sticker", campaign_id=stall.campaign_id)
    odds = [(mug, 0.25), (voucher, 0.125), (free, 0.5)]
    prizes = [{"prize_id": prize, "probability": chance} for prize, chance in odds]
    game = await stall.game(WHEEL, {"prizes": prizes})
    await desk.enter("designer", path=f"/games/{game}")
    rate = desk.page.get_by_label("Plays a day")
    # 10 mugs of 100 go in a day, and all 5 codes.
    now = datetime.now(ZoneInfo("UTC"))
    await rate.fill("40")
    rows = desk.page.locator(".odds tbody tr")
    await desk.until("!document.querySelectorAll('.odds tbody tr')[1].textContent.includes('unlimited')")
    told = [str(row).split("\t")[-1] for row in await rows.all_inner_texts()]
    for text, days in zip(told, (10, 1), strict=False):
        assert text.startswith((now + timedelta(days=days)).strftime("%-d %b %Y")), told
    assert told[2] == "unlimited"
    assert (await desk.stack.admin("POST", f"/admin/prizes/{voucher}/codes/withdraw", {"all_free": True})).data
    await desk.page.reload()
    await desk.page.wait_for_selector(".odds tr:has-text('Voucher'):has-text('out of stock')")


async def test_a_game_is_made_designed_and_tried_out_without_a_terminal(desk: Desk, stall: World) -> None:
    sledge = await stall.prize(name="Sledge", value=20, total=100, campaign_id=stall.campaign_id)
    await desk.enter("designer", path=f"/campaigns/{stall.campaign_id}")
    await desk.page.click("main a:text-is('New game')")
    await desk.page.get_by_label("Name", exact=True).fill("Snow wheel")
    await desk.press("Make game")
    await desk.page.wait_for_selector("h1:text-is('Snow wheel')")
    form = desk.page.locator(".designer form")
    await form.get_by_role("button", name="Add to prizes").click()
    await form.locator("[name='handler_config.prizes[0].prize_id']").select_option(label="Sledge")
    chance = form.locator("[name='handler_config.prizes[0].probability']")
    await chance.fill("1.25")
    await desk.page.wait_for_selector(".sum[data-tone=bad]:has-text('25 % too much')")
    await chance.fill("0.25")
    await desk.page.wait_for_selector(".sum[data-tone=warn]:has-text('25 %')")
    odds = await desk.page.inner_text(".odds tbody tr")
    assert "Sledge" in odds and odds.split("\t")[3] == "5"  # 20 times a quarter
    await form.locator("[name='ui.theme.preset']").select_option("midnight")
    await desk.until("document.querySelectorAll('.contrasts [data-tone=good]').length >= 4")
    await form.get_by_role("button", name="Add to rungs").click()
    for field, text in (("currency", "points"), ("threshold", "10")):
        await form.locator(f"[name='milestones.rungs[0].{field}']").fill(text)
    await form.locator("[name='milestones.rungs[0].prize_id']").select_option(label="Sledge")
    await save(desk)
    stored = await game_of(desk)
    assert stored["handler_config"] == {"prizes": [{"prize_id": sledge, "probability": 0.25}]}
    assert stored["ui"] == {"theme": {"preset": "midnight"}} and stored["status"] == "GAME_STATUS_DRAFT"
    assert [rung["prize_id"] for rung in stored["milestones"]["rungs"]] == [sledge]
    # Tried out: what comes out stands beside the odds.
    await desk.press("Play", within=".sheet:has([name=times])")
    await desk.page.wait_for_selector("table:has-text('Declared')")
    told = await desk.page.inner_text(".table:has(th:text-is('Declared')) tbody")
    assert "Sledge" in told and "25 %" in told and "75 %" in told


async def test_a_plugin_s_handler_is_designed_in_a_form_of_its_own(
    desk: Desk, stall: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one of docs/plugins.md, whose config has a field more."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text(), re.DOTALL)
    code = next(block for block in blocks if "def register" in block).replace("< 0.5", "< attempt.config.chance")
    module = ModuleType("double_or_nothing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(code.replace("prize_id: str\n", "prize_id: str\n    chance: float = 0.5\n", 1), module.__dict__)
    monkeypatch.setitem(REWARD_HANDLERS._things, module.__name__, module)
    mug, cup = [await stall.prize(name=name, campaign_id=stall.campaign_id) for name in ("Mug", "Cup")]
    game = await stall.game({"type": "scratch_card", "reward_handler": module.__name__}, {"prize_id": mug})
    await desk.enter("designer", path=f"/games/{game}")
    form = desk.page.locator(".designer form")
    assert await form.locator("[name='handler_config.prize_id']").input_value() == mug
    await form.locator("[name='handler_config.prize_id']").select_option(label="Cup")
    await form.locator("[name='handler_config.chance']").fill("1")
    await save(desk)
    assert (await game_of(desk))["handler_config"] == {"prize_id": cup, "chance": 1}
    await desk.press("Play", within=".sheet:has([name=times])")
    await desk.page.wait_for_selector(".table:has-text('Cup')")


async def test_the_widget_is_drawn_as_it_is_typed_and_plays_test_plays_alone(desk: Desk, stall: World) -> None:
    gift = await stall.prize(name="Gift", total=1)
    drops = {"drops": [{"type": "gift", "prize_id": gift, "frequency": 1, "max_catchable": 3}]}
    gifts = await stall.game(GIFTS, {**drops, "total_items": 3, "interval_ms": 100}, status="draft")
    wheel = await stall.wheel(gift, name="Sure wheel", status="draft")
    await desk.enter("designer", path=f"/games/{wheel}")
    await desk.until(f"!!{DRAWN}")
    colour = "getComputedStyle(document.querySelector('.preview tombola-game').shadowRoot.firstElementChild)"
    before = await desk.page.evaluate(f"{DRAWN} && {colour}.getPropertyValue('--t-primary')")
    await desk.page.locator("[name='ui.theme.primary']").fill("#006644")
    await desk.until(f"{DRAWN} && {colour}.getPropertyValue('--t-primary') === 'rgb(0 102 68)'")
    assert before != "rgb(0 102 68)"
    had = await contents(desk.stack.database)
    await desk.page.locator(".preview tombola-game").get_by_role("button", name="Spin the wheel").click()
    await desk.until("document.querySelector('.preview tombola-game').shadowRoot.textContent.includes('Gift')")
    result = await desk.page.locator(".preview tombola-game").evaluate("it => it.play()")
    assert result["test"] and result["rewards"][0]["name"] == "Gift"
    await desk.to(f"/games/{gifts}")
    await desk.until(f"!!{DRAWN}")
    session = await desk.page.locator(".preview tombola-game").evaluate("it => it.start()")
    assert len(session["drop_plan"]) == 3
    has = await contents(desk.stack.database)
    assert {name for name in had if has[name] != had[name]} <= {"test_runs", "audit_entries"}
    kept = "JSON.stringify(Object.keys({...sessionStorage}))"
    assert "tombola.play" in await desk.page.evaluate(kept)
    await desk.page.click("nav a:text-is('Games')")
    await desk.until(f"!{kept}.includes('tombola.play')")


async def test_a_stale_tab_gets_the_conflict_shown_and_loses_nothing_typed(desk: Desk, stall: World) -> None:
    game_id = await stall.wheel(await stall.prize(), name="Wheel")
    await desk.enter("designer", path=f"/games/{game_id}")
    await desk.page.locator("[name='name']").fill("Mine")
    await desk.page.locator("[name='rules.max_plays_per_day']").fill("4")
    theirs = {"name": "Theirs", "rules": {"max_plays_per_user": 7}, "ui": {"theme": {"preset": "ocean"}}}
    await desk.stack.admin("PUT", f"/admin/games/{game_id}", {"name": theirs["name"], "ui": theirs["ui"]})
    await desk.press("Save", within=".designer")
    conflict = await desk.page.wait_for_selector(".conflict")
    assert conflict is not None
    told = await conflict.inner_text()
    assert "revision 2" in told and "Theirs" in told and "ocean" in told and "You both changed: Name" in told
    assert await desk.page.locator("[name='name']").input_value() == "Mine"
    assert (await game_of(desk))["name"] == "Theirs"
    await desk.shot("designer_conflict")
    await desk.press("Keep mine, and go on")
    await save(desk)
    stored = await game_of(desk)
    assert (stored["name"], stored["rules"]["max_plays_per_day"], stored["revision"]) == ("Mine", 4, 3)
    assert stored["ui"] == theirs["ui"]
    desk.forgive("409")


async def test_a_revision_is_compared_and_restored(desk: Desk, stall: World) -> None:
    game_id = await stall.wheel(await stall.prize(), name="First", ui={"theme": {"preset": "forest"}})
    await desk.stack.admin("PUT", f"/admin/games/{game_id}", {"name": "Second", "ui": {}})
    await desk.enter("designer", path=f"/games/{game_id}")
    await desk.press("Compare")
    fields = await desk.page.locator("dialog tbody td:first-child").all_text_contents()
    assert sorted(fields) == ["name", "ui.theme"]
    await desk.press("Close", within="dialog")
    await desk.press("Restore")
    dialog = await desk.page.inner_text("dialog")
    assert "2 values" in dialog and "revision 3" in dialog
    await desk.press("Restore", within="dialog")
    await desk.page.wait_for_selector("h1:text-is('First')")
    assert (await game_of(desk))["ui"] == {"theme": {"preset": "forest"}}
    assert await desk.page.locator("[name='name']").input_value() == "First"


@pytest.mark.parametrize(("role", "may"), [("admin", True), ("designer", True), ("reward_manager", False)])
async def test_each_role_sees_what_it_may_do_with_a_game(desk: Desk, stall: World, role: str, may: bool) -> None:
    game_id = await stall.wheel(await stall.prize())
    await desk.enter(role, path=f"/games/{game_id}")
    await desk.page.locator("table:has-text('By')").wait_for()
    save, play = (desk.page.get_by_role("button", name=name, exact=True) for name in ("Save", "Play"))
    for part in (save, play, desk.page.locator(".preview")):
        if may:
            await part.wait_for()
        assert await part.count() == int(may)
    assert not [one for one in desk.wrong if "403" in one]


async def test_whatever_a_game_says_stays_text(desk: Desk, stall: World) -> None:
    odds = {"tiers": [], "prize_groups": {EVIL: [{"prize_id": await stall.prize(name=EVIL), "probability": 1}]}}
    game_id = await stall.game(EGGS, odds, name=EVIL, ui={"theme": {"font": EVIL}, "background": {"emoji": EVIL}})
    await desk.stack.admin("PUT", f"/admin/games/{game_id}", {"name": f"{EVIL}2", "ui": {}})
    await desk.enter("admin", path=f"/games/{game_id}")
    await desk.until(f"!!{DRAWN}")
    assert EVIL in await desk.page.inner_text("main")
    await desk.press("Compare")
    assert EVIL in await desk.page.inner_text("dialog")
    assert await desk.page.evaluate("window.evil") is None


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_the_designer_fits_its_window_and_axe_finds_nothing(
    browser: Browser, stall: World, width: int, scheme: str
) -> None:
    game_id = await stall.wheel(await stall.prize(name="Tea", value=3, total=9), ui={"theme": {"preset": "ocean"}})
    options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    async with at_desk(browser, stall.stack, **options) as desk:
        await desk.enter("designer", path=f"/games/{game_id}")
        await desk.press("Play", within=".sheet:has([name=times])")
        await desk.page.wait_for_selector("table:has-text('Declared')")
        await desk.until(f"!!{DRAWN}")
        for path in ("", "/games", f"/campaigns/{stall.campaign_id}/games/new", "/campaigns/gallery"):
            if path:
                await desk.to(path)
            await desk.shot(f"designer{path.replace(stall.campaign_id, '').replace('/', '_')}_{width}_{scheme}")
            assert await desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert await violations(desk.page) == [], path


async def test_a_ready_campaign_is_made_whole_as_a_draft_and_as_the_command_makes_it(desk: Desk) -> None:
    await desk.enter("designer", path="/campaigns")
    await desk.page.click("main a:text-is('Start with a ready one')")
    await desk.page.wait_for_selector(".gallery")
    assert await desk.page.locator(".gallery li").count() == len(gallery.ABOUT)
    await desk.until("[...document.querySelectorAll('.gallery img')].every((one) => one.naturalWidth > 0)")
    await desk.press("Start with this: High score week")
    assert "5 things" in await desk.page.inner_text("dialog")
    await desk.page.get_by_label("Name", exact=True).fill("Autumn scores")
    await desk.page.get_by_label("Time zone").fill("Europe/Rome")
    await desk.page.get_by_label("Ends").fill("2031-12-24T20:00")
    await desk.press("Start with this", within="dialog")
    await desk.page.wait_for_selector("h1:text-is('Autumn scores')")
    made = await exported(desk.stack, desk.page.url.rpartition("/")[2])
    like = await exported(desk.stack, await applied(desk.stack, "high_score"))
    assert made.pop("campaign") == {
        "name": "Autumn scores",
        "timezone": "Europe/Rome",
        "end_date": "2031-12-24T19:00:00Z",
    } | {"status": "draft"}
    like.pop("campaign")
    assert made == like and {"games", "prizes", "leaderboards"} <= set(made)
