import os
import re
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from runtime.rules import REWARD_HANDLERS
from tests.support.axe import violations
from tests.support.chromium import Dialog
from tests.support.pages.forms import field, names_of, retype
from tests.support.staff import Desk
from tests.support.tables import contents
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World

ROOT: Final = Path(__file__).parents[3]
WIDGET: Final = "document.querySelector('.preview tombola-game')"
DRAWN: Final = f"{WIDGET}?.shadowRoot.querySelector('button')"


async def game_of(desk: Desk) -> dict[str, Any]:
    return dict((await desk.stack.admin("GET", f"/admin/games/{desk.page.url.rpartition('/')[2]}")).data)


async def save(desk: Desk) -> None:
    await desk.page.wait_for_selector(".toast", state="detached")
    await desk.press("Save", within=".designer", then=".toast:has-text('Saved')")


async def test_designer_shows_odds_stock_and_contrast_and_saves_what_was_typed(desk: Desk, fair: World) -> None:
    own = {"campaign_id": fair.campaign_id}
    sledge = await fair.prize(name="Sledge", value=20, total=100, **own)
    voucher = await fair.prize(name="Voucher", codes=[f"SAVE-{nth}" for nth in range(5)], **own)
    sticker = await fair.prize(name="Sticker", **own)
    game = await fair.game(WHEEL, {"prizes": []}, status="draft", name="Snow wheel")
    await desk.enter("designer", path=f"/games/{game}")
    page, form = desk.page, desk.page.locator(".designer form")
    odds = [(sledge, "25"), (voucher, "12.5"), (sticker, "50")]  # In percent; the API has fractions.
    for nth, (prize, chance) in enumerate(odds):
        await form.get_by_role("button", name="Add to prizes").click()
        await field(desk, f"handler_config.prizes[{nth}].prize_id").select_option(prize)
        await field(desk, f"handler_config.prizes[{nth}].probability").fill(chance)
    first = field(desk, "handler_config.prizes[0].probability")
    await first.fill("125")
    await page.wait_for_selector(".sum[data-tone=bad]:has-text('Reduce the total by')")
    await retype(first, "0.05")
    await page.keyboard.press("Backspace")
    await page.keyboard.type("01")
    assert await first.input_value() == "0.001", "a number is typed key by key"
    await retype(first, "25")
    await page.wait_for_selector(".sum[data-tone=warn]:has-text('87.5 %')")
    # Of 40 plays a day 10 sledges of 100 are won, and all 5 codes.
    await page.get_by_label("Plays per day", exact=True).fill("40")
    await desk.until("!document.querySelectorAll('.odds tbody tr')[1].textContent.includes('unlimited')")
    rows = [str(row).split("\t") for row in await page.locator(".odds tbody tr").all_inner_texts()]
    assert "Sledge" in rows[0][0] and rows[0][3] == "5", "20 times a quarter"
    now = datetime.now(ZoneInfo("UTC"))
    for row, days in zip(rows, (10, 1), strict=False):
        assert row[-1].startswith((now + timedelta(days=days)).strftime("%-d %b %Y")), rows
    assert rows[2][-1] == "unlimited"
    await field(desk, "ui.theme.preset").select_option("midnight")
    await desk.until("document.querySelectorAll('.contrasts [data-tone=good]').length >= 4")
    note, unsaved = page.locator(".aside .part-head").first, "Unsaved changes"
    assert unsaved in await note.inner_text() and "Test plays use revision 1 until you save" in await note.inner_text()
    await page.set_viewport_size({"width": 1280, "height": 800})
    await page.evaluate("scrollTo(0, 900)")
    top = "document.querySelector('.preview').getBoundingClientRect().top"
    await desk.until(f"scrollY > 800 && {top} > 0 && {top} < 400")  # It stays in view beside the form.
    await form.get_by_role("button", name="Add to rungs").click()
    await field(desk, "milestones.rungs[0].threshold").fill("10")
    assert await field(desk, "milestones.rungs[0].currency").count() == 0, "there is one currency to choose from"
    await field(desk, "milestones.rungs[0].prize_id").select_option(label="Sledge")
    frame = "JSON.stringify(document.querySelector('.preview').getBoundingClientRect())"
    before = await page.evaluate(frame)
    await save(desk)
    assert "Test plays of revision 2" in await note.inner_text() and unsaved not in await note.inner_text()
    stored = await game_of(desk)
    chances = [{"prize_id": prize, "probability": float(chance) / 100} for prize, chance in odds]
    assert stored["handler_config"] == {"prizes": chances}
    assert stored["ui"] == {"theme": {"preset": "midnight"}} and stored["status"] == "GAME_STATUS_DRAFT"
    assert [(rung["prize_id"], rung["currency"]) for rung in stored["milestones"]["rungs"]] == [(sledge, "points")]
    await form.get_by_role("button", name="Remove prizes 2").click()
    await page.wait_for_selector(".designer form [role=status]:has-text('Voucher has unlimited stock')")
    assert await page.evaluate(frame) == before, "the preview keeps its place"
    await form.get_by_role("button", name="Add to prizes").click()
    await field(desk, "handler_config.prizes[2].prize_id").select_option(voucher)
    await page.wait_for_selector(".designer form [role=status]:has-text('Voucher')", state="detached")
    await page.reload()
    await page.wait_for_selector(".preview tombola-game")
    await desk.press("Run test plays", within=".sheet:has([name=times])", then="table:has-text('Published')")
    tried = await page.inner_text(".table:has(th:text-is('Published')) tbody")
    assert "Sledge" in tried and "25 %" in tried and "12.5 %" in tried
    assert (await desk.stack.admin("POST", f"/admin/prizes/{voucher}/codes/withdraw", {"all_free": True})).data
    await page.reload()
    await page.wait_for_selector(".odds tr:has-text('Voucher'):has-text('out of stock')")


async def test_refused_save_is_in_view_and_leaving_asks_about_unsaved_changes(desk: Desk, fair: World) -> None:
    odds = [{"prize_id": await fair.prize(name=name), "probability": 0.5} for name in ("Mug", "Tote")]
    game = await fair.game(WHEEL, {"prizes": odds}, status="draft")
    await desk.enter("designer", path=f"/games/{game}")
    page, first = desk.page, field(desk, "handler_config.prizes[0].probability")
    await first.fill("90")
    await page.get_by_role("button", name="Save", exact=True).click()
    await desk.until("document.activeElement?.matches('.problem, [aria-invalid=true]')")
    await until(lambda: desk.wrong)
    desk.wrong.clear()  # The refusal itself.
    questions: list[str] = []

    async def stay(dialog: Dialog) -> None:
        questions.append(dialog.message)
        await dialog.dismiss()

    page.once("dialog", stay)
    await page.get_by_role("link", name="Prizes").first.click()
    assert questions == ["Discard unsaved changes?"] and await first.input_value() == "90"
    page.once("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("link", name="Prizes").first.click()
    await page.wait_for_url("**/prizes")


async def test_score_game_costs_follow_the_assumed_share_of_each_group(desk: Desk, fair: World) -> None:
    mug, trip = await fair.prize(name="Mug", value=4, total=100), await fair.prize(name="Trip", value=900, total=0)
    groups = {"low": [{"prize_id": mug, "probability": 0.5}]}
    groups |= {"high": [{"prize_id": mug, "probability": 0.5}, {"prize_id": trip, "probability": 0.1}]}
    tiers = [{"min": 1, "max": 9, "prize_group": "low"}, {"min": 10, "max": 99, "prize_group": "high"}]
    game_id = await fair.game(EGGS, {"tiers": tiers, "prize_groups": groups}, status="draft")
    await desk.enter("designer", path=f"/games/{game_id}")
    low = desk.page.get_by_label("Plays that reach low")
    assert await low.input_value() == "50"
    for text in ("0.05", "33.3333", "", "75"):
        await retype(low, text)
        assert await low.input_value() == text
    await desk.page.get_by_label("Plays that reach high").fill("5")
    await retype(desk.page.get_by_label("Plays per day", exact=True), "100")
    # 0.75 * 0.5 * 4 + 0.05 * (0.5 * 4 + 0.1 * 900)
    await desk.page.wait_for_selector(".together:has-text('Average cost: 6.1 per play, 610 per day')")
    assert "80 % of plays reach a group. The remaining 20 %" in await desk.page.inner_text(".aside")
    # 40 mugs a day of both groups: a hundred last two days and a half.
    gone = await desk.page.locator("tr:has-text('Mug') [data-title='Runs out']").all_inner_texts()
    assert len(gone) == 2 and gone[0] == gone[1] != "" and await violations(desk.page) == []
    await desk.page.get_by_label("Plays that reach high").fill("50")
    await desk.page.wait_for_selector("[data-tone=bad]:has-text('The shares add up to 125 %')")


async def test_form_of_each_handler_keeps_its_config(desk: Desk, fair: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is that of docs/how-to/plugins.md, whose config has one more field."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/how-to/plugins.md").read_text(), re.DOTALL)
    code = next(block for block in blocks if "def register" in block).replace("< 0.5", "< attempt.config.chance")
    module = ModuleType("double_or_nothing")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(code.replace("prize_id: str\n", "prize_id: str\n    chance: float = 0.5\n", 1), module.__dict__)
    monkeypatch.setitem(REWARD_HANDLERS._things, module.__name__, module)
    mug, cup = [await fair.prize(name=name, campaign_id=fair.campaign_id) for name in ("Mug", "Cup")]
    odds = [{"prize_id": mug, "probability": 0.5}]
    drop = {"type": "egg", "prize_id": mug, "frequency": 1, "max_catchable": 1}
    configs: Sequence[tuple[dict[str, Any], dict[str, Any]]] = (
        (WHEEL, {"prizes": odds}),
        (EGGS, {"tiers": [{"min": 1, "max": 9, "prize_group": "good"}], "prize_groups": {"good": odds}}),
        *((GIFTS, {"drops": [drop], "total_items": 2, "interval_ms": 9}), (COLLECTION, COINS)),
    )
    await desk.enter("designer")
    for shape, config in configs:
        await desk.to(f"/games/{await fair.game(shape, config)}")
        await field(desk, "name").fill("Saved again")
        await save(desk)
        stored = await game_of(desk)
        assert (stored["name"], stored["handler_config"]) == ("Saved again", config)
    game = await fair.game({"type": "scratch_card", "reward_handler": module.__name__}, {"prize_id": mug})
    await desk.to(f"/games/{game}")
    assert await field(desk, "handler_config.prize_id").input_value() == mug
    await field(desk, "handler_config.prize_id").select_option(label="Cup")
    await field(desk, "handler_config.chance").fill("1")
    await save(desk)
    assert (await game_of(desk))["handler_config"] == {"prize_id": cup, "chance": 1}
    await desk.press("Run test plays", within=".sheet:has([name=times])", then=".table:has-text('Cup')")


async def test_map_in_a_form_keeps_its_rows_and_refuses_a_taken_name(desk: Desk, fair: World) -> None:
    page, mug = desk.page, await fair.prize(name="Mug", campaign_id=fair.campaign_id)
    groups = {name: [{"prize_id": mug, "probability": 0.1 * (1 + n)}] for n, name in enumerate(("gold", "lead"))}
    game = await fair.game(EGGS, {"tiers": [], "prize_groups": groups})
    await desk.enter("designer", path=f"/games/{game}")
    for _ in range(2):
        await page.get_by_role("button", name="Add to prize groups", exact=True).click()
    assert await names_of(desk) == ["gold", "lead", "prize_groups_3", "prize_groups_4"]
    key = page.get_by_label("Name", exact=True).nth(2)
    await retype(key, "gold")
    await page.keyboard.press("Tab")
    await page.wait_for_selector(".wrong:text-is('This name is already in use. Choose another one.')")
    assert (await names_of(desk))[:2] == ["gold", "gold"] and await page.locator("[name$='.probability']").count() == 2
    assert await violations(page) == []
    await desk.press("Save", within="main")
    assert await key.evaluate("it => it === document.activeElement && it.validity.customError")
    assert (await game_of(desk))["revision"] == 1
    await retype(key, "7")
    await page.keyboard.press("Tab")
    assert await page.locator(".wrong").count() == 0
    assert (await names_of(desk))[:2] == ["7", "gold"], "a number goes first, with what is in its row"
    await save(desk)
    now = (await game_of(desk))["handler_config"]["prize_groups"]
    assert now == {"gold": groups["gold"], "7": groups["lead"], "prize_groups_3": [], "prize_groups_4": []}
    # A name is free once its row is gone.
    await retype(page.get_by_label("Name", exact=True).nth(1), "gold")
    await page.get_by_role("button", name="Remove gold", exact=True).last.click()
    await save(desk)
    assert (await game_of(desk))["handler_config"]["prize_groups"]["gold"] == groups["lead"]


async def test_preview_is_drawn_as_it_is_typed_and_makes_test_plays_alone(desk: Desk, fair: World) -> None:
    gift = await fair.prize(name="Gift", total=1)
    drops = {"drops": [{"type": "gift", "prize_id": gift, "frequency": 1, "max_catchable": 3}]}
    gifts = await fair.game(GIFTS, {**drops, "total_items": 3, "interval_ms": 100}, status="draft")
    wheel = await fair.wheel(gift, name="Sure wheel", status="draft")
    await desk.enter("designer", path=f"/games/{wheel}")
    await desk.until(f"!!{DRAWN}")
    colour = f"getComputedStyle({WIDGET}.shadowRoot.firstElementChild).getPropertyValue('--t-primary')"
    assert await desk.page.evaluate(f"{DRAWN} && {colour}") != "rgb(0 102 68)"
    await field(desk, "ui.theme.primary").fill("#006644")
    await desk.until(f"{DRAWN} && {colour} === 'rgb(0 102 68)'")
    had, widget = await contents(desk.stack.database, desk.stack.tenant_id), desk.page.locator(".preview tombola-game")
    await widget.get_by_role("button", name="Spin the wheel").click()
    await desk.until(f"{WIDGET}.shadowRoot.textContent.includes('Gift')")
    result = await widget.evaluate("it => it.play()")
    assert result["test"] and result["rewards"][0]["name"] == "Gift"
    await desk.to(f"/games/{gifts}")
    await desk.until(f"!!{DRAWN}")
    assert len((await widget.evaluate("it => it.start()"))["drop_plan"]) == 3
    has = await contents(desk.stack.database, desk.stack.tenant_id)
    assert {name for name in had if has[name] != had[name]} <= {"test_runs", "audit_entries"}
    query = "JSON.stringify(Object.keys({...sessionStorage}))"
    assert "tombola.play" in await desk.page.evaluate(query)
    await desk.page.click("nav a:text-is('Games')")
    await desk.until(f"!{query}.includes('tombola.play')")


async def test_designer_keeps_a_ui_that_it_cannot_show_and_says_what_is_not_used(desk: Desk, fair: World) -> None:
    ui = {"wheel": "later", "theme": "ours", "background": {"color": "Brand Red"}, "own": [1]}
    game_id = await fair.wheel(await fair.prize(), name="Odd", status="draft", ui=ui)
    await desk.enter("designer", path=f"/games/{game_id}")
    await field(desk, "name").fill("Odder")
    await save(desk)
    unused = await desk.page.inner_text("[role=status]:has(code)")
    assert all(f"ui.{path}" in unused for path in ("wheel", "theme", "background.color"))
    now = await game_of(desk)
    assert (now["name"], now["ui"]) == ("Odder", ui)
    await field(desk, "ui.background.color").fill("teal")
    await save(desk)
    assert (await game_of(desk))["ui"] == {**ui, "background": {"color": "teal"}}


async def test_stale_game_form_shows_the_conflict_and_merges_what_was_typed(desk: Desk, fair: World) -> None:
    game_id = await fair.wheel(await fair.prize(), name="Wheel", rules={"max_plays_per_user": 1})
    await desk.enter("designer", path=f"/games/{game_id}")
    await field(desk, "name").fill("Mine")
    await field(desk, "rules.max_plays_per_day").fill("4")
    ocean, path = {"theme": {"preset": "ocean"}}, f"/admin/games/{game_id}"
    assert (await desk.stack.admin("PUT", path, {"name": "Theirs", "ui": ocean})).code == "OK"
    await desk.press("Save", within=".designer")
    conflict = await desk.page.locator(".conflict").inner_text()
    assert "revision 2" in conflict and "Theirs" in conflict and "ocean" in conflict
    assert "Both changed: Name" in conflict and await field(desk, "name").input_value() == "Mine"
    assert (await game_of(desk))["name"] == "Theirs"
    await desk.press("Keep my changes")
    await save(desk)
    stored = await game_of(desk)
    assert (stored["name"], stored["ui"], stored["revision"]) == ("Mine", ocean, 3)
    assert stored["rules"]["max_plays_per_day"] == 4
    # What somebody else saved stands in the form after a save over it, and is not undone by the next.
    await field(desk, "name").fill("Mine again")
    rules = {**stored["rules"], "max_plays_per_user": 9}
    assert (await desk.stack.admin("PUT", path, {"rules": rules})).code == "OK"
    await desk.press("Save", within=".designer")
    await desk.page.locator(".conflict button").click()
    await save(desk)
    assert await field(desk, "rules.max_plays_per_user").input_value() == "9"
    await field(desk, "rules.max_plays_per_day").fill("3")
    await desk.press("Save", within=".designer")
    both = {"max_plays_per_day": 3, "max_plays_per_user": 9}
    await until(lambda: game_of(desk), lambda it: both.items() <= it["rules"].items())
    # An earlier revision is compared, and restored.
    await desk.page.reload()
    await desk.settled()
    await desk.page.locator("table:has-text('By') tr", has_text="1").last.get_by_role("button", name="Compare").click()
    assert {"name", "ui.theme"} <= {*await desk.page.locator("dialog tbody td:first-child").all_text_contents()}
    await desk.press("Close", within="dialog")
    await field(desk, "name").fill("Not saved")
    await desk.page.get_by_role("button", name="Restore", exact=True).last.click()
    asked = await desk.page.inner_text("dialog")
    assert "revision 7" in asked and "Discard unsaved changes?" in asked
    await desk.press("Restore", within="dialog", then="h1:text-is('Wheel')")
    assert (await game_of(desk))["ui"] == {} and await field(desk, "name").input_value() == "Wheel"
    desk.forgive("409")


async def test_forecast_shows_the_cost_its_marks_and_odds_within_the_budget(desk: Desk, fair: World) -> None:
    tv, mug = await fair.prize(name="TV", value=400, total=3), await fair.prize(name="Mug", value=8)
    odds = [{"prize_id": tv, "probability": 0.0005}, {"prize_id": mug, "probability": 0.05}]
    game = await fair.game(WHEEL, {"prizes": odds}, name="Budget wheel")
    await desk.enter("designer", path=f"/games/{game}")
    sheet = desk.page.locator(".sheet:has([name=plays])")
    await sheet.locator("[name=plays]").fill("5000")
    await sheet.locator("[name=budget]").fill("2500")
    await desk.press("Compute forecast", within=".sheet:has([name=plays])")
    chart = desk.page.locator(".chart.forecast svg")
    await chart.wait_for(timeout=30_000)
    assert "50 %" in str(await chart.get_attribute("aria-label"))
    assert {"50 %", "90 %", "99 %", "Budget"} < set(await chart.locator("text").all_text_contents())
    section = desk.page.locator("section:has(.chart.forecast)")
    assert "exceeds 2,500 with a probability of" in await section.inner_text()
    rows = [await row.inner_text() for row in await section.locator("tbody tr").all()]
    assert [row.split()[0] for row in rows] == ["TV", "Mug"] and await violations(desk.page) == []
    for width in (390, 768, 1280):
        await desk.page.set_viewport_size({"width": width, "height": 900})
        await section.scroll_into_view_if_needed()
        assert await desk.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if os.environ.get("TOMBOLA_PICTURES"):
            await section.screenshot(path=f"{ROOT}/.tombola/screenshots/forecast-{width}.png")
    drop = {"type": "egg", "prize_id": tv, "frequency": 1, "max_catchable": 2}
    await desk.to(f"/games/{await fair.game(GIFTS, {'drops': [drop], 'total_items': 2, 'interval_ms': 9})}")
    await desk.page.get_by_label("Caught: egg (%)").fill("50")
    await desk.press("Compute forecast", within=".sheet:has([name=plays])")
    section = desk.page.locator("section:has-text('Catches are as entered')")
    await section.locator("text=Units per play").wait_for(timeout=30_000)
