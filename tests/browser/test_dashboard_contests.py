"""The dashboard's leaderboards and quests: made, changed, corrected and ended, without curl."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.test_dashboard import EVIL, look
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.leaderboards import make_board
from tests.support.staff import Desk, at_desk
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def ranked(stall: World) -> tuple[str, str]:
    """A board of four who have played, four times to once, and its prize for the first two."""
    prize = await stall.prize(name="Fair mug", total=1)
    game = await stall.wheel(name="Harvest wheel")
    for plays, player in ((4, "dora"), (3, "carl"), (2, "bert"), (1, "anna")):
        for _ in range(plays):
            await stall.round(game, player)
    prizes = [{"from_rank": 1, "to_rank": 2, "prize_id": prize}]
    board = await make_board(stall.stack, stall.campaign_id, name="Busiest", metric="plays", prizes=prizes)
    await stall.stack.engine.rankings.drain()  # Until it is built, which making it began.
    return board["id"], prize


async def places(desk: Desk) -> list[list[str]]:
    """Rank, player and score of each row."""
    await desk.settled()
    rows = await desk.page.locator("tbody tr").all()
    return [(await row.locator("td").all_text_contents())[:3] for row in rows]


async def test_a_board_is_made_corrected_and_finalized_after_saying_who_gets_what(desk: Desk, stall: World) -> None:
    await desk.enter("designer", path="/leaderboards")
    await desk.press("New leaderboard", within="main")
    await desk.page.get_by_label("Name", exact=True).fill("Autumn's best")
    await desk.page.get_by_label("Campaign", exact=True).last.select_option(label="Autumn Fair")
    await desk.page.get_by_label("What counts").select_option("plays")
    await desk.press("Make leaderboard", within="dialog")
    await desk.page.wait_for_url("**/leaderboards/board_*")
    await desk.page.wait_for_selector(".empty:has-text('Nobody is ranked')")
    assert await desk.page.locator(".head").get_by_role("button", name="Finalize").count() == 0  # Not a designer's.

    board_id, prize = await ranked(stall)
    await desk.enter("reward_manager", path=f"/leaderboards/{board_id}")
    assert await places(desk) == [["1", "dora", "4"], ["2", "carl", "3"], ["3", "bert", "2"], ["4", "anna", "1"]]
    await desk.page.wait_for_selector("tbody tr:nth-child(2) td:has-text('Fair mug')")
    assert await desk.page.locator("tbody td:has-text('Fair mug')").count() == 2
    await desk.press("Disqualify: dora", within="tbody")
    await desk.page.get_by_label("Reason", exact=True).fill("two accounts")
    await desk.press("Disqualify", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('dora is disqualified')")
    await desk.page.wait_for_selector("tbody tr:has-text('dora')", state="detached")
    await desk.press("Adjust: bert", within="tbody")
    await desk.page.get_by_label("Add to the score").fill("5")
    await desk.page.get_by_label("Reason", exact=True).fill("a round was lost")
    await desk.press("Adjust", within="dialog footer")
    await desk.page.wait_for_selector("tbody tr:first-child:has-text('bert')")
    assert await places(desk) == [["1", "bert", "7"], ["2", "carl", "3"], ["3", "anna", "1"]]
    await desk.press("Finalize", within="main .head")
    await desk.page.wait_for_selector("dialog:has-text('prizes are given')")
    told = await desk.page.inner_text("dialog")
    assert "2 prizes are given" in told and "1. bert: Fair mug" in told and "2. carl: Fair mug" in told
    await desk.press("Finalize", within="dialog")
    # One mug was left: the better place has it, and the other says why it has none.
    await desk.page.wait_for_selector(".toast:has-text('one prize is given')")
    await desk.page.wait_for_selector("tbody tr:nth-child(2):has-text('out of stock')")
    assert await desk.page.locator("tbody").get_by_role("button").count() == 0
    won = await stall.database.fetch("SELECT player_id FROM rewards WHERE prize_id = $1", prize)
    assert [row["player_id"] for row in won] == ["bert"]


async def test_a_live_board_is_archived_after_saying_that_it_gives_nothing(desk: Desk, stall: World) -> None:
    board_id, prize = await ranked(stall)
    await desk.enter("designer", path=f"/leaderboards/{board_id}")
    await desk.press("Archive", within="main .head")
    assert "none of its prizes are given" in await desk.page.inner_text("dialog")
    await desk.press("Cancel", within="dialog")
    assert (await stall.stack.admin("GET", f"/admin/leaderboards/{board_id}")).data["status"].endswith("ACTIVE")
    await desk.press("Archive", within="main .head")
    await desk.press("Archive", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('Busiest is archived.')")
    await desk.page.wait_for_selector(".head .status:has-text('Archived')")
    assert await desk.page.locator(".head").get_by_role("button", name="Archive").count() == 0
    assert (await stall.stack.consumer("GET", f"/leaderboards/{board_id}", player="dora")).http == 404
    assert await stall.database.fetch("SELECT FROM rewards WHERE prize_id = $1", prize) == []


async def test_who_edits_a_board_that_was_changed_meanwhile_is_told_and_loses_nothing(desk: Desk, stall: World) -> None:
    board_id, _ = await ranked(stall)
    await desk.enter("designer", path=f"/leaderboards/{board_id}")
    await desk.press("Edit", within="main .head")
    await desk.page.get_by_label("Name", exact=True).fill("Mine")
    await stall.stack.admin("PUT", f"/admin/leaderboards/{board_id}", {"mode": "best"})
    await desk.press("Save", within="dialog")
    await desk.page.wait_for_selector("dialog .problem:has-text('How it counts')")
    assert await desk.page.get_by_label("Name", exact=True).input_value() == "Mine"
    await desk.press("Save", within="dialog")
    await desk.page.wait_for_selector("h1:has-text('Mine')")
    kept = (await stall.stack.admin("GET", f"/admin/leaderboards/{board_id}")).data
    assert (kept["name"], kept["mode"]) == ("Mine", "LEADERBOARD_MODE_BEST")


async def test_standings_are_paged_and_a_reader_is_offered_nothing_to_do(desk: Desk, stall: World) -> None:
    board_id, _ = await ranked(stall)
    await stall.database.execute(
        "INSERT INTO leaderboard_adjustments (tenant_id, entry_id, board_id, player_id, delta, reason)"
        " SELECT $1, 'entry_' || n, $2, 'extra_' || to_char(n, 'FM00'), 1000 - n, 'r' FROM generate_series(0, 29) AS n",
        stall.stack.tenant_id,
        board_id,
    )
    await stall.stack.engine.rankings.rebuild(stall.stack.tenant_id, board_id)
    await desk.enter("designer", path=f"/leaderboards/{board_id}")
    assert (await places(desk))[0] == ["1", "extra_00", "1,000"] and len(await places(desk)) == 25
    await desk.press("Next page", within="main")
    await desk.page.wait_for_selector("tbody tr:has-text('dora')")
    assert (await places(desk))[0] == ["26", "extra_25", "975"] and len(await places(desk)) == 9
    assert await desk.page.locator("tbody").get_by_role("button").count() == 0


async def test_a_quest_s_secret_is_shown_once_with_a_call_that_tells_an_event(desk: Desk, stall: World) -> None:
    await desk.enter("designer", path="/quests")
    await desk.press("New quest", within="main")
    await desk.page.get_by_label("Name", exact=True).fill("Newsletter")
    await desk.page.get_by_label("Campaign", exact=True).last.select_option(stall.campaign_id)
    await desk.page.locator("dialog [name=status]").select_option("active")
    await desk.page.locator("dialog [name='condition.kind']").select_option("event")
    await desk.page.get_by_label("How many").fill("1")
    await desk.press("Make quest", within="dialog")
    shown = desk.page.get_by_role("region", name="An event is told so")
    await shown.wait_for()
    assert await violations(desk.page) == []
    first = await desk.page.get_by_label("Secret", exact=True).input_value()
    said = await told(await shown.inner_text())
    [quest] = (await stall.stack.admin("GET", "/admin/quests", campaign=stall.campaign_id)).data["items"]
    assert (said["event_id"], said["quest_id"], quest["secret"]) == ("newsletter-4711", quest["id"], "")
    await desk.press("Close", within="dialog footer")
    await desk.page.wait_for_selector("tbody tr:has-text('1 events told from outside')")
    await desk.press("New secret", within="tbody")
    assert "for the time being" in await desk.page.inner_text("dialog")
    await desk.press("New secret", within="dialog")
    await shown.wait_for()
    second = await desk.page.get_by_label("Secret", exact=True).input_value()
    assert second.startswith("whsec_") and second != first
    await desk.press("Close", within="dialog footer")
    await desk.press("End the old one", within="tbody")
    await desk.press("End the old one", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('The old secret has ended.')")
    kept = await stall.database.fetchval("SELECT signing FROM quests WHERE quest_id = $1", quest["id"])
    assert list(kept) == ["secret"]


async def told(script: str) -> Any:
    """What is answered to a call, as a shell makes it."""
    shell = await asyncio.create_subprocess_exec(*("sh", "-euc", script), stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    return json.loads(said)["data"]


async def test_a_quest_is_made_changed_found_and_archived(desk: Desk, stall: World) -> None:
    await desk.enter("designer", path="/quests")
    await desk.press("New quest", within="main")
    await desk.page.get_by_label("Name", exact=True).fill("Visit the stall")
    await desk.page.get_by_label("Campaign", exact=True).last.select_option(stall.campaign_id)
    await desk.page.get_by_label("Turns").fill("3")
    await desk.page.locator("dialog [name=status]").select_option("active")
    await desk.page.locator("dialog [name='condition.kind']").select_option("plays")
    await desk.press("Make quest", within="dialog")
    await desk.page.wait_for_selector("dialog [name='condition.count'][aria-invalid=true]")
    desk.forgive("400")
    await desk.page.get_by_label("How many").fill("1")
    await desk.press("Make quest", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('Visit the stall is made. It is now: Active.')")
    await desk.page.wait_for_selector("tbody tr:has-text('Visit the stall'):has-text('1 plays')")
    await desk.press("Edit", within="tbody")
    await desk.page.locator("dialog [name=type]").select_option("daily")
    await desk.press("Save", within="dialog")
    await desk.page.wait_for_selector("tbody tr:has-text('Daily')")
    [quest] = (await stall.stack.admin("GET", "/admin/quests", campaign=stall.campaign_id)).data["items"]
    assert (quest["name"], quest["turns"], quest["type"]) == ("Visit the stall", 3, "QUEST_TYPE_DAILY")
    assert (quest["condition"]["kind"], quest["condition"]["count"]) == ("QUEST_CONDITION_KIND_PLAYS", 1)
    await stall.round(await stall.wheel(), "anna")
    answer = await stall.stack.consumer("POST", f"/quests/{quest['id']}/complete", {}, player="anna")
    assert answer.data["turns_granted"] == 3
    await desk.press("Archive", within="tbody")
    assert "stay given" in await desk.page.inner_text("dialog")
    await desk.press("Archive", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('Visit the stall is archived.')")
    await desk.to(f"/quests?status=archived&campaign_id={stall.campaign_id}")
    assert await desk.rows() == ["Visit the stall"] and await desk.page.locator("tbody button").count() == 0


async def test_axe_finds_nothing_names_stay_text_and_pages_fit(browser: Browser, stall: World) -> None:
    board_id, _ = await ranked(stall)
    quest = {"campaign_id": stall.campaign_id, "name": EVIL, "turns": 1}
    await stall.stack.admin("PUT", f"/admin/leaderboards/{board_id}", {"name": EVIL})
    await stall.stack.admin("POST", "/admin/quests", quest)
    found: dict[str, list[str]] = {}
    for width, scheme in ((375, "light"), (1440, "dark")):
        options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        async with at_desk(browser, stall.stack, **options) as desk:
            await desk.enter("admin")
            for path, button in (
                ("/leaderboards", "New leaderboard"),
                (f"/leaderboards/{board_id}", "Edit"),
                ("/quests", "New quest"),
            ):
                await desk.to(path)
                assert EVIL in await desk.page.inner_text("main"), path
                name = path.split("/")[1] + ("-one" if path.count("/") > 1 else "")
                await look(desk, f"{name}-{width}-{scheme}")
                found[f"{path} {scheme}"] = await violations(desk.page)
                await desk.press(button, within="main .head")
                await look(desk, f"{name}-form-{width}-{scheme}")
                found[f"{path} {button} {scheme}"] = await violations(desk.page)
            assert await desk.page.evaluate("window.evil") is None
    assert {view: told for view, told in found.items() if told} == {}
