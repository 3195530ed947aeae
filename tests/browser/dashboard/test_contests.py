import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest

from runtime.operations.conservation import checks
from tests.support.axe import violations
from tests.support.pages.desk import MANUAL
from tests.support.pages.forms import field
from tests.support.pages.looks import EVIL
from tests.support.stack import Stack
from tests.support.staff import Desk
from tests.support.world import World


async def ranked(fair: World) -> tuple[str, str]:
    prize, game = await fair.prize(name="Fair mug", total=1), await fair.wheel(name="Harvest wheel")
    for plays, player in ((4, "dora"), (3, "carl"), (2, "bert"), (1, "anna")):
        for _ in range(plays):
            await fair.round(game, player)
    board = await fair.board(name="Busiest", prizes=[{"from_rank": 1, "to_rank": 2, "prize_id": prize}])
    await fair.stack.engine.rankings.drain()
    return board, prize


async def places(desk: Desk) -> list[list[str]]:
    await desk.settled()
    rows = await desk.page.locator("tbody tr").all()
    return [(await row.locator("td").all_text_contents())[:3] for row in rows]


async def test_leaderboard_is_made_edited_corrected_and_finalized(desk: Desk, fair: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/leaderboards")
    await desk.press("New leaderboard", within="main")
    await page.get_by_label("Name", exact=True).fill("Autumn's best")
    await page.get_by_label("Campaign", exact=True).last.select_option(label="Autumn Fair")
    await page.get_by_label("Ranked by").select_option("plays")
    await desk.press("Create leaderboard", within="dialog", url="**/leaderboards/board_*")
    await page.wait_for_selector(".empty:has-text('No ranked players yet')")
    assert await page.locator(".head").get_by_role("button", name="Finalize").count() == 0, "not a designer's"
    await desk.press("Edit", within="main .head")
    await page.get_by_label("Name", exact=True).fill("Mine")
    await desk.press("Save", within="dialog", then="h1:has-text('Mine')")
    board_id, prize = await ranked(fair)
    await desk.enter("reward_manager", path=f"/leaderboards/{board_id}")
    assert await places(desk) == [["1", "dora", "4"], ["2", "carl", "3"], ["3", "bert", "2"], ["4", "anna", "1"]]
    await page.wait_for_selector("tbody tr:nth-child(2) td:has-text('Fair mug')")
    assert await page.locator("tbody td:has-text('Fair mug')").count() == 2
    await desk.press("Disqualify: dora", within="tbody")
    await page.get_by_label("Reason", exact=True).fill("two accounts")
    await desk.press("Disqualify", within="dialog footer", then=".toast:has-text('dora disqualified')")
    await page.wait_for_selector("tbody tr:has-text('dora')", state="detached")
    await desk.press("Adjust: bert", within="tbody")
    await page.get_by_label("Score adjustment").fill("5")
    await page.get_by_label("Reason", exact=True).fill("a round was lost")
    await desk.press("Adjust", within="dialog footer", then="tbody tr:first-child:has-text('bert')")
    assert await places(desk) == [["1", "bert", "7"], ["2", "carl", "3"], ["3", "anna", "1"]]
    await desk.press("Finalize", within="main .head", then="dialog:has-text('prizes are awarded')")
    text = await page.inner_text("dialog")
    assert "2 prizes are awarded" in text and "1. bert: Fair mug" in text and "2. carl: Fair mug" in text
    await desk.press("Finalize", within="dialog")
    # One mug is in stock: the better place has it.
    await page.wait_for_selector(".toast:has-text('1 prize awarded')")
    await page.wait_for_selector("tbody tr:nth-child(2):has-text('out of stock')")
    assert await page.locator("tbody").get_by_role("button").count() == 0
    won = await fair.database.fetch("SELECT player_id FROM rewards WHERE prize_id = $1", prize)
    assert [row["player_id"] for row in won] == ["bert"]


async def answered(script: str) -> Any:
    shell = await asyncio.create_subprocess_exec("sh", "-euc", script, stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    return json.loads(said)["data"]


async def test_quest_is_made_changed_told_an_event_and_archived(desk: Desk, fair: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/quests")
    await desk.press("New quest", within="main")
    await page.get_by_label("Name", exact=True).fill("Newsletter")
    await page.get_by_label("Campaign", exact=True).last.select_option(fair.campaign_id)
    await page.get_by_label("Turns").fill("3")
    await page.locator("dialog [name=status]").select_option("active")
    await page.locator("dialog [name='condition.kind']").select_option("event")
    await desk.press("Create quest", within="dialog", then="dialog [name='condition.count'][aria-invalid=true]")
    desk.forgive("400")
    await page.get_by_label("Required count").fill("1")
    await desk.press("Create quest", within="dialog")
    shown = page.get_by_role("region", name="Example request")
    await shown.wait_for()
    assert await violations(page) == []
    first = await page.get_by_label("Secret", exact=True).input_value()
    event = await answered(await shown.inner_text())
    [quest] = (await fair.stack.admin("GET", "/admin/quests", campaign=fair.campaign_id)).data["items"]
    assert (event["event_id"], event["quest_id"], quest["secret"]) == ("newsletter-4711", quest["id"], "")
    await desk.press("Close", within="dialog footer", then="tbody tr:has-text('1 external events')")
    await desk.press("Rotate secret", within="tbody")
    assert "the current secret are accepted" in await page.inner_text("dialog")
    await desk.press("Rotate secret", within="dialog")
    await shown.wait_for()
    second = await page.get_by_label("Secret", exact=True).input_value()
    assert second.startswith("whsec_") and second != first
    await desk.press("Close", within="dialog footer")
    await desk.press("Revoke old secret", within="tbody")
    await desk.press("Revoke old secret", within="dialog", then=".toast:has-text('Old secret revoked')")
    stored = await fair.database.fetchval("SELECT signing FROM quests WHERE quest_id = $1", quest["id"])
    assert list(stored) == ["secret"]
    await desk.press("Edit", within="tbody")
    await page.locator("dialog [name=type]").select_option("daily")
    await desk.press("Save", within="dialog", then="tbody tr:has-text('Daily')")
    [quest] = (await fair.stack.admin("GET", "/admin/quests", campaign=fair.campaign_id)).data["items"]
    assert (quest["name"], quest["turns"], quest["type"]) == ("Newsletter", 3, "QUEST_TYPE_DAILY")
    plays = {"condition": {"kind": "plays", "count": 1}}
    assert (await fair.stack.admin("PUT", f"/admin/quests/{quest['id']}", plays)).code == "OK"
    await fair.round(await fair.wheel(), "anna")
    completed = await fair.stack.consumer("POST", f"/quests/{quest['id']}/complete", {}, player="anna")
    assert completed.data["turns_granted"] == 3
    await page.reload()
    await desk.press("Archive", within="tbody")
    assert "Earned turns remain" in await page.inner_text("dialog")
    await desk.press("Archive", within="dialog", then=".toast:has-text('Newsletter archived')")
    await desk.to(f"/quests?status=archived&campaign_id={fair.campaign_id}")
    assert await desk.rows() == ["Newsletter"] and await page.locator("tbody button").count() == 0


@pytest.fixture
def dual_control(service: Stack) -> Iterator[None]:
    engine, held = service.engine, {"dual_adjustment_above": 100, "dual_odds": True, "dual_revocations_above": 1}
    settings, engine.settings = engine.settings, replace(engine.settings, **held)
    yield
    engine.settings = settings


async def enter_as(desk: Desk, subject: str, role: str, path: str = "") -> None:
    if desk.page.url.startswith("http"):
        await desk.page.evaluate("sessionStorage.clear()")
        await desk.page.goto("about:blank")
    await desk.follow(desk.link(role, subject=subject, path=path))
    await desk.settled()


async def decide(desk: Desk, what: str, reason: str) -> None:
    await desk.press(what, within="main .head")
    await desk.page.get_by_label("Reason", exact=True).fill(reason)
    await desk.press(what, within="dialog footer", gone="dialog")


async def followed(desk: Desk) -> str:
    await desk.page.locator(".toast a", has_text="View approval").click()
    await desk.page.wait_for_selector("main .head .status")
    await desk.settled()
    return await desk.title()


async def test_second_person_approves_or_rejects(desk: Desk, fair: World, request: pytest.FixtureRequest) -> None:
    player, page = "player_points", desk.page
    game = await fair.wheel(await fair.prize(name="Mug"), name="Harvest wheel")
    by_hand = await fair.wheel(await fair.prize(name=EVIL, fulfillment=MANUAL))
    won = [(await fair.round(by_hand, f"ann{n}")).data["rewards"][0]["reward_id"] for n in range(2)]
    request.getfixturevalue("dual_control")
    assert (await fair.stack.consumer("GET", "/players/me", player=player)).http == 200
    await enter_as(desk, "ann", "reward_manager", f"/players/{player}")
    await desk.press("Adjust balance", within="main .head")
    for name, value in (("scope_key", fair.campaign_id), ("amount", "5000"), ("reference_id", "ticket-9")):
        await page.fill(f"dialog [name={name}]", value)
    await desk.press("Adjust balance", within="dialog footer")
    await page.wait_for_selector(".toast:has-text('Awaiting approval by a second person. Nothing has changed yet.')")
    await page.wait_for_selector("dialog", state="detached")
    assert await followed(desk) == f"Adjust balance of {player} by +5000 points"
    acts = [text.strip() for text in await page.locator("main .head .acts").all_text_contents()]
    assert acts == ["Withdraw"], "nobody approves their own request"
    await enter_as(desk, "dan", "designer", "/approvals")
    await page.get_by_role("link", name="by +5000 points").first.click()
    await page.wait_for_selector("main:has-text('Your role cannot approve this change.')")
    await enter_as(desk, "bob", "reward_manager")
    await page.get_by_role("link", name=f"Adjust balance of {player} by +5000 points").click()  # From Home.
    await page.wait_for_selector("table.compared")
    compared = await page.locator("table.compared").text_content() or ""
    assert "5000" in compared and "ticket-9" in compared
    await decide(desk, "Approve", "seen the ticket")
    await page.wait_for_selector(".head .status:has-text('Done')")
    assert "seen the ticket" in await page.inner_text("main")
    [balance] = (await fair.stack.admin("GET", f"/admin/players/{player}/wallet")).data["items"]
    assert balance["balance"] == 5000
    # The odds of a live game.
    await enter_as(desk, "dan", "designer", f"/games/{game}")
    chance = field(desk, "handler_config.prizes[0].probability")
    await chance.fill("25")
    await desk.press("Save", within="form.schema footer")
    await page.wait_for_selector(".toast:has-text('Awaiting approval by a second person')")
    assert await chance.input_value() == "25" and await followed(desk) == "Change the odds of Harvest wheel"
    compared = await page.locator("table.compared").text_content() or ""
    assert "Odds and prizes" in compared and "25 %" in compared
    assert "Mug" in (await page.get_by_role("region", name="Prize values").text_content() or "")
    await enter_as(desk, "eve", "designer", "/approvals?status=waiting")
    await page.get_by_role("link", name="Change the odds of Harvest wheel").click()
    await page.wait_for_selector("table.compared")
    await decide(desk, "Reject", "not before the weekend")
    await page.wait_for_selector(".head .status:has-text('Rejected')")
    odds = (await fair.stack.admin("GET", f"/admin/games/{game}")).data["handler_config"]
    assert odds["prizes"][0]["probability"] == 1
    # Revocations in bulk, with each reward.
    sent = await fair.stack.admin("POST", "/admin/rewards/bulk", {"act": "BULK_ACT_REVOKE", "ids": won})
    assert sent.http == 202
    await enter_as(desk, "bob", "reward_manager", f"/approvals/{sent.envelope['data']['approval']['id']}")
    assert await desk.title() == "Revoke 2 rewards"
    rows = await page.locator("main table:not(.compared) tbody tr").all_text_contents()
    assert len(rows) == 2 and all(EVIL in row and "Won" in row and "Revoked" in row for row in rows), rows
    assert await violations(page) == [] and await page.evaluate("window.evil") is None
    await decide(desk, "Approve", "")
    await page.wait_for_selector(".head .status:has-text('Done')")
    query = "SELECT status FROM rewards WHERE reward_id = ANY($1)"
    assert {row["status"] for row in await fair.database.fetch(query, won)} == {"revoked"}


HOLDS: Final = "The sum of a ledger is its balance."


async def test_discrepancy_is_found_from_home_and_closed_by_an_admin_for_a_reason(desk: Desk, fair: World) -> None:
    stack, page = desk.stack, desk.page
    await fair.round(await fair.wheel(await fair.prize()), "ann")
    wrong = "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance) VALUES ($1, 'ann', $2, $3, 5)"
    await stack.database.execute(wrong, stack.tenant_id, fair.campaign_id, "points")
    await checks.audit(stack.database, stack.tenant_id)
    try:
        row = page.locator(f"tbody tr:has-text('{HOLDS}')")
        await desk.enter("designer", path="/violations")
        await row.first.get_by_role("button").click()
        await page.wait_for_selector("dialog dl.details")
        assert await page.locator("dialog form").count() == 0, "a designer only looks at it"
        await desk.enter("admin")
        await page.click(f"section:has-text('{HOLDS}') a:text-is('View all')")
        await page.wait_for_url("**/violations?status=open")
        await desk.settled()
        assert await row.locator("a").get_attribute("href") == "/dashboard/players/ann"
        await row.get_by_role("button").click()
        await page.wait_for_selector("dialog dd.said:text-is('0')")
        assert await violations(page) == []
        await desk.press("Close discrepancy", within="dialog")
        assert await page.locator("dialog :invalid").count() > 0, "a reason is required"
        await page.locator("dialog [name=reason]").fill("5 points were typed into the table")
        await desk.press("Close discrepancy", within="dialog", then=".toast:has-text('Discrepancy closed')")
        await row.wait_for(state="detached")
        await desk.to("/violations?status=closed")
        await row.get_by_role("button").click()
        said = await page.inner_text("dialog")
        assert "5 points were typed into the table" in said and "Close discrepancy" not in said
        [entries] = (await stack.admin("GET", "/admin/audit", action="violation.close")).data["items"]
        assert entries["after"]["reason"] == "5 points were typed into the table"
    finally:
        await stack.database.execute("DELETE FROM balances WHERE tenant_id = $1", stack.tenant_id)


async def test_draw_is_made_closed_drawn_and_awarded_and_a_winner_replaced(desk: Desk, fair: World) -> None:
    page, prize = desk.page, await fair.prize(name="Bicycle", total=2)
    game = await fair.wheel()
    for player in ("anna", "bert", "carl"):
        await fair.round(game, player)
        ticket = {"player_id": player, "scope_key": fair.campaign_id, "currency": "ticket", "amount": 2}
        await fair.stack.admin("POST", "/admin/wallet/adjustments", {**ticket, "reference_id": "given"})
    await desk.enter("admin", path="/draws")
    await desk.press("New prize draw", within="main .head")
    await page.get_by_label("Name", exact=True).fill("Autumn raffle")
    await page.get_by_label("Campaign", exact=True).last.select_option(label="Autumn Fair")
    await page.get_by_label("A ticket for").select_option("currency")
    await page.locator("dialog [name='tickets.currency']").fill("ticket")
    await page.locator("dialog").get_by_role("button", name="Add to prizes").click()
    await page.locator("dialog [name='prizes[0].prize_id']").select_option(label="Bicycle")
    await page.locator("dialog [name='prizes[0].count']").fill("1")
    assert await page.locator("dialog [name='randomness.source']").count() == 1, "a public number has a source"
    await page.get_by_label("Random value").select_option("INTERNAL")
    assert await page.locator("dialog [name='randomness.source']").count() == 0
    await desk.shot("draw-form")
    await desk.press("Create draw", within="dialog footer", url="**/draws/draw_*")
    for step, done in (("Close draw", "Closed"), ("Draw winners", "Drawn"), ("Award prizes", "Confirmed")):
        await desk.press(step, within="main .head")
        await desk.press(step, within="dialog footer", then=f".head:has-text('{done}')")
    await page.wait_for_selector(".tile:has-text('Tickets') >> text=6")
    await page.locator("tbody tr", has_text="Bicycle").get_by_text("Prize awarded").wait_for()
    assert await violations(page) == []
    await desk.shot("draw-confirmed")
    rank = await fair.database.fetchrow("SELECT reward_id, player_id FROM rewards WHERE prize_id = $1", prize)
    await desk.press("Replace: 1", within="tbody")
    await page.locator("dialog [name=reason]").fill("not reached")
    await desk.press("Replace", within="dialog footer", then="dialog .problem:has-text('revoke it first')")
    desk.forgive("400")
    await fair.stack.admin("POST", f"/admin/rewards/{rank['reward_id']}/revoke", {"reason": "not reached"})
    await desk.press("Replace", within="dialog footer")
    await page.locator("tbody tr", has_text="Replaced").wait_for()
    rewards = await fair.database.fetch("SELECT player_id FROM rewards WHERE prize_id = $1", prize)
    assert len({row["player_id"] for row in rewards}) == 2, "the alternate has it now"
