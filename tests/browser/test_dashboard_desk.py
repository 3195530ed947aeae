"""The dashboard's desk: from a player's complaint to its answer, rewards in bulk, and integrations, without curl."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.guests import guest_who_played, log_in
from tests.support.receiver import receiving
from tests.support.stack import Stack
from tests.support.staff import Desk, at_desk
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{count}${evil}"
EMAIL = "paula.plain@example.com"
MANUAL = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}
SCREENS = ((375, "light"), (768, "dark"), (1440, "light"))


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


async def complainant(stall: World, contact: str = EMAIL, name: str = "Paula Plain") -> tuple[str, str]:
    """A player whose prize was never delivered, and the reward."""
    player = await log_in(stall.stack, contact=contact)
    assert (await stall.stack.consumer("PUT", "/players/me", {"display_name": name}, player=player)).code == "OK"
    url = {"url": "http://127.0.0.1:9/none"}
    webhook = {"channel": "webhook", "redemption_mode": "REDEMPTION_MODE_ON_WIN", "config": url}
    game = await stall.wheel(await stall.prize(name="Fair mug", fulfillment=webhook), name="Harvest wheel")
    reward = (await stall.round(game, player)).data["rewards"][0]["reward_id"]
    await stall.turns(player, 2)
    for statement in (
        "UPDATE tasks SET status = 'dead', attempts = 8, last_error = 'answered 503: the shop is closed' "
        "WHERE reward_id = $1",
        "UPDATE rewards SET status = 'failed' WHERE reward_id = $1",
        "UPDATE stock SET awarded = awarded - 1 WHERE prize_id = (SELECT prize_id FROM rewards WHERE reward_id = $1)",
    ):
        await stall.database.execute(statement, reward)
    return player, reward


async def shown(desk: Desk, text: str) -> None:
    await desk.page.locator("main").get_by_text(text).first.wait_for()


async def test_a_complaint_is_answered_without_a_terminal(desk: Desk, stall: World) -> None:
    player, reward = await complainant(stall)
    await desk.enter("reward_manager", path="/players")
    await desk.page.fill("input[type=search]", EMAIL)
    await desk.page.wait_for_url("**q=paula**")
    await desk.until("document.querySelectorAll('tbody tr').length === 1")
    assert await desk.rows() == ["Paula Plain"]
    await desk.page.get_by_role("link", name="Paula Plain").click()
    await desk.settled()
    assert await desk.title() == "Paula Plain"
    assert EMAIL not in await desk.page.content() and "p***@example.com" in await desk.page.inner_text("main")
    # What was played, how it was decided, and that it is decided so again.
    await desk.press("Look", within="main")
    await desk.page.wait_for_selector("dialog .details")
    told = await desk.page.inner_text("dialog")
    assert "it comes to the same" in told and "Decision path" in told and "Fair mug" in told
    assert "draw" in told or "[" in told
    assert await violations(desk.page) == []
    await desk.press("Close", within="dialog footer")
    # Why it was not delivered, and that it is tried again.
    await shown(desk, "answered 503: the shop is closed")
    await desk.press("Try again", within="main")
    await desk.press("Try again", within="dialog")
    assert await desk.told() == "One delivery is tried again."
    status = "SELECT status FROM tasks WHERE reward_id = $1"
    assert await stall.database.fetchval(status, reward) == "pending"
    # And a turn for the trouble: pressed twice under one key it is one.
    await desk.press("Give turns", within="main .head")
    await desk.page.get_by_label("Campaign", exact=True).select_option(stall.campaign_id)
    await desk.page.get_by_label("Reason", exact=True).fill("sorry for the wait")
    await desk.press("Give turns", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('One turn is given: 3 left now.')")
    entries = (await desk.stack.admin("GET", f"/admin/players/{player}/turns/ledger")).data["items"]
    assert (entries[0]["amount"], entries[0]["reason"]) == (1, "TURN_REASON_ADJUSTMENT")
    noted = (await desk.stack.admin("GET", "/admin/audit", subject_id=player)).data["items"][0]
    assert (noted["actor"], noted["after"]["why"]) == ("ann", "sorry for the wait")


@pytest.mark.parametrize("act", ["Give turns", "Adjust balance"])
async def test_a_gift_whose_answer_was_lost_is_given_once_however_often_it_is_pressed(
    desk: Desk, stall: World, act: str
) -> None:
    player = await log_in(stall.stack, contact=f"{act.split()[0]}.once@example.com")
    await desk.enter("admin", path=f"/players/{player}")
    keys: list[str | None] = []

    async def lose(route: Any) -> None:
        """The first is done, and nobody hears of it."""
        keys.append(route.request.headers.get("idempotency-key"))
        if len(keys) == 1:
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await desk.page.route("**/wallet/adjustments" if act == "Adjust balance" else "**/turns", lose)
    await desk.press(act, within="main .head")
    if act == "Give turns":
        await desk.page.get_by_label("Campaign", exact=True).select_option(stall.campaign_id)
        await desk.page.get_by_label("Reason", exact=True).fill("sorry for the wait")
    else:
        fields = {"scope_key": stall.stack.tenant_id, "currency": "points", "amount": "5", "reference_id": "ticket 1"}
        for name, text in fields.items():
            await desk.page.locator(f"dialog [name={name}]").fill(text)
    await desk.press(act, within="dialog footer")
    await desk.until("document.querySelector('dialog .problem, .toast')")
    await desk.press(act, within="dialog footer")
    await desk.until("!document.querySelector('dialog')")
    assert len(keys) == 2 and keys[0] and keys[0] == keys[1]
    table = "turn_entries" if act == "Give turns" else "ledger_entries"
    query = f"SELECT amount FROM {table} WHERE player_id = $1"
    assert [row["amount"] for row in await stall.database.fetch(query, player)] == [1 if act == "Give turns" else 5]
    desk.forgive("Failed to load")


async def test_what_is_wrong_with_a_gift_of_turns_stands_at_its_field(desk: Desk, stall: World) -> None:
    player = await log_in(stall.stack, contact="field@example.com")
    await desk.enter("admin", path=f"/players/{player}")
    await desk.press("Give turns", within="main .head")
    await desk.page.get_by_label("Campaign", exact=True).select_option(stall.campaign_id)
    await desk.page.get_by_label("How many").fill("7")
    await desk.page.get_by_label("Reason", exact=True).fill(" ")
    await desk.press("Give turns", within="dialog footer")
    await desk.page.wait_for_selector("dialog [name=reason][aria-invalid=true]")
    assert await desk.page.get_by_label("How many").input_value() == "7"
    assert (await desk.stack.admin("GET", f"/admin/players/{player}/turns")).data["items"] == []
    desk.forgive("400")


async def test_a_guest_is_merged_after_its_things_were_told_and_contacts_go(desk: Desk, stall: World) -> None:
    player = await log_in(stall.stack, contact="merge.me@example.com")
    guest = await guest_who_played(stall, await stall.wheel(await stall.prize(), access="public"))
    await desk.looks_at_guest(player, guest.player_id)
    await desk.press("Merge", within="dialog footer")
    await desk.page.wait_for_selector(".toast:has-text('is this player now')")
    await desk.until("document.querySelector('.tile b').textContent === '1'")
    await desk.press("Take away", within="main")
    assert "m***@example.com" in await desk.page.inner_text("dialog")
    await desk.press("Take away", within="dialog")
    await desk.until("!document.querySelector('main').innerText.includes('m***@')")
    await desk.press("Sign out everywhere", within="main .head")
    await desk.press("Sign out everywhere", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('signed out everywhere')")
    await desk.press("Suspend", within="main .head")
    await desk.press("Suspend", within="dialog")
    await desk.page.wait_for_selector(".head .status:has-text('Suspended')")
    await desk.press("Restore", within="main .head")
    await desk.press("Restore", within="dialog")
    await desk.page.wait_for_selector(".head .status:has-text('Active')")


async def test_a_player_is_exported_as_a_file_and_erased_for_a_reason(desk: Desk, stall: World, tmp_path: Path) -> None:
    player, _ = await complainant(stall, "erase.me@example.com", "Erna Erased")
    await desk.enter("admin", path=f"/players/{player}")
    async with desk.page.expect_download() as told:
        await desk.press("Export", within="main .head")
    await (await told.value).save_as(tmp_path / "export.json")
    found = json.loads((tmp_path / "export.json").read_text())
    assert "erase.me@example.com" in str(found) and "Erna Erased" in str(found)
    await desk.press("Erase", within="main .head")
    assert "cannot be taken back" in await desk.page.inner_text("dialog")
    await desk.page.get_by_label("Reason", exact=True).fill("asked for")
    await desk.press("Erase", within="dialog footer")
    await desk.page.wait_for_selector(".head .status:has-text('Erased')")
    assert await desk.title() == player


async def test_rewards_are_moved_at_once_and_those_that_are_not_say_why(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name="Hamper", total=9, fulfillment=MANUAL)
    game = await stall.wheel(prize)
    ids = [(await stall.round(game, f"hamper_{n}")).data["rewards"][0]["reward_id"] for n in range(3)]
    assert (await stall.stack.admin("POST", f"/admin/rewards/{ids[0]}/fulfill", {})).http == 200
    await desk.enter("reward_manager", path=f"/rewards?prize_id={prize}")
    boxes = desk.page.locator("tbody input[type=checkbox]")
    for nth in range(3):
        await boxes.nth(nth).check()
    await desk.press("Fulfill 3", within="main .head")
    assert "3 count as delivered" in await desk.page.inner_text("dialog")
    await desk.press("Fulfill", within="dialog")
    await desk.page.wait_for_selector(".toast:has-text('2 rewards are fulfilled.')")
    await desk.page.wait_for_selector(".toast[data-tone=bad]:has-text('One was not done')")
    await desk.until("document.querySelectorAll('tbody .status[data-tone=good]').length === 3")
    assert "is fulfilled" in (await desk.page.inner_text("tbody small")).lower()
    assert await boxes.nth(2).is_checked() and not await boxes.nth(0).is_checked()


async def test_one_reward_is_fulfilled_and_another_revoked_where_they_are_listed(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name="Basket", total=9, fulfillment=MANUAL)
    game = await stall.wheel(prize)
    for n in range(2):
        await stall.round(game, f"basket_{n}")
    await desk.enter("reward_manager", path=f"/rewards?prize_id={prize}")
    rows = desk.page.locator("tbody tr")
    for nth, verb, word, status in (
        (0, "Fulfill", "is fulfilled", "Fulfilled"),
        (1, "Revoke", "is revoked", "Revoked"),
    ):
        await rows.nth(nth).get_by_role("button", name=verb, exact=True).click()
        assert "Basket" in await desk.page.inner_text("dialog")
        await desk.press(verb, within="dialog")
        await desk.page.wait_for_selector(f".toast:has-text('{word}')")
        await rows.nth(nth).locator(f".status:has-text('{status}')").wait_for()
    shown = [await rows.nth(nth).get_by_role("button").all_inner_texts() for nth in range(2)]
    assert shown == [["Revoke"], []], "what is over offers nothing"
    stock = (await stall.stack.admin("GET", f"/admin/prizes/{prize}")).data["stock"]
    assert (stock["total"], stock["remaining"]) == (9, 8), "what is revoked can be won again"


async def test_an_integration_is_made_tried_paused_given_a_secret_and_removed(desk: Desk, stall: World) -> None:
    async with receiving() as receiver:
        await desk.enter("admin", path="/integrations")
        await desk.press("New integration", within="main")
        await desk.page.get_by_label("Address", exact=True).fill("no address")
        await desk.press("Make integration", within="dialog")
        await desk.page.wait_for_selector("dialog .problem")
        desk.forgive("400")
        await desk.page.get_by_label("Address", exact=True).fill(receiver.url)
        await desk.press("Make integration", within="dialog")
        await desk.page.wait_for_selector(".toast:has-text('is made, and active')")
        await desk.page.wait_for_selector(f"tbody tr:has-text('{receiver.url}')")
        row = f"tbody tr:has-text('{receiver.url}')"
        await desk.press("Send me one", within=row)
        assert (await receiver.next()).json["type"] == "integration_test"
        await desk.page.wait_for_selector(".toast:has-text('It took the event')")
        await desk.press("Log", within=row)
        await desk.page.wait_for_selector("dialog tbody tr:has-text('integration_test')")
        await desk.page.click("dialog summary")
        assert '"type":"integration_test"' in await desk.page.locator("dialog pre").first.inner_text()
        assert await violations(desk.page) == []
        await desk.shot("dashboard-integrations-log")
        await desk.press("Resend", within="dialog tbody")
        again, first = await receiver.next(), receiver.all[0]
        assert again.headers["webhook-id"] == first.headers["webhook-id"] and again.json == first.json
        await desk.press("Close", within="dialog footer")
        await desk.press("Pause", within=row)
        assert receiver.url in await desk.page.inner_text("dialog") and "never told" in await desk.page.inner_text(
            "dialog"
        )
        await desk.press("Pause", within="dialog")
        await desk.page.wait_for_selector(f"{row} .status:has-text('Paused')")
        await desk.press("Edit", within=row)
        await desk.page.get_by_label("Address", exact=True).fill(f"{receiver.url}/mugs")
        await desk.page.get_by_role("button", name="Add to headers").click()
        await desk.page.get_by_label("Name", exact=True).fill("X-Shop")
        await desk.page.keyboard.press("Tab")
        await desk.page.locator("dialog [name='config.headers.X-Shop']").fill("hunter2")
        await desk.press("Save", within="dialog footer")
        await desk.page.wait_for_selector(f"tbody tr:has-text('{receiver.url}/mugs')")
        await desk.press("Send me one", within=row)
        sent = await receiver.next()
        assert sent.path.endswith("/mugs") and sent.headers["X-Shop"] == "hunter2"
        await desk.press("New secret", within=row)
        await desk.page.get_by_role("textbox", name="Secret").fill("a-quite-new-secret-for-it")
        await desk.press("New secret", within="dialog footer")
        await desk.page.wait_for_selector(".toast:has-text('signs with the new secret')")
        await desk.press("Remove", within=row)
        await desk.press("Remove", within="dialog")
        await desk.page.wait_for_selector(".toast:has-text('is removed')")
        await desk.page.wait_for_selector(row, state="detached")


@pytest.mark.parametrize(
    ("role", "acts"),
    [
        ("admin", {"Give turns", "Adjust balance", "Merge", "Sign out everywhere", "Suspend", "Export", "Erase"}),
        ("reward_manager", {"Give turns", "Adjust balance"}),
        ("designer", set[str]()),
    ],
)
async def test_each_role_sees_what_it_may_do_for_a_player(desk: Desk, stall: World, role: str, acts: set[str]) -> None:
    player, _ = await complainant(stall, f"{role}@example.com")
    await desk.enter(role, path=f"/players/{player}")
    assert set(await desk.page.locator("main .head button").all_inner_texts()) == acts
    assert await desk.page.get_by_role("button", name="Take away").count() == int(role == "admin")
    for path in ("/rewards", "/deliveries", "/integrations"):
        await desk.to(path)
        boxes = await desk.page.locator("tbody input[type=checkbox]").count()
        assert (boxes > 0) == (path == "/rewards" and role != "designer"), path
    assert (await desk.page.get_by_role("button", name="New integration").count() > 0) == (role == "admin")


@pytest.mark.parametrize("path", ["/rewards", "/deliveries"])
async def test_what_was_won_is_found_by_contact_and_day_and_the_address_says_so(
    desk: Desk, stall: World, path: str
) -> None:
    player, _ = await complainant(stall, f"{path[1:]}@example.com")
    await complainant(stall, f"another.{path[1:]}@example.com")
    await desk.enter("designer", path=path)
    rows = desk.page.locator("main tbody tr")
    await desk.page.get_by_label("Whole e-mail or phone number").fill(f"{path[1:]}@example.com")
    await desk.page.wait_for_url("**contact=*")
    await desk.settled()
    assert await rows.count() == 1 and player in await rows.first.inner_text()
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    since, until = ("won_from", "won_until") if path == "/rewards" else ("since", "until")
    for name, count in ((since, 1), (until, 1)):  # From and to the day that it is.
        await desk.page.locator("label.day input").nth((since, until).index(name)).fill(today)
        await desk.page.wait_for_url(f"**{name}={today}*")
        await desk.settled()
        assert await rows.count() == count
    yesterday = (datetime.now(UTC) - timedelta(days=1)).strftime("%Y-%m-%d")
    await desk.page.locator("label.day input").nth(1).fill(yesterday)
    await desk.page.wait_for_selector("main .empty")
    await desk.page.reload()
    await desk.page.wait_for_selector("main .empty")
    assert await desk.page.locator("label.day input").nth(1).input_value() == yesterday


async def test_a_delivery_shows_what_was_sent_and_how_it_was_answered(desk: Desk, stall: World) -> None:
    player, reward = await complainant(stall, "sent@example.com")
    earlier = [
        {"tried_at": 1767225600 + nth, "duration_ms": 40 + nth, "error": f"HTTP {500 + nth}", "answer": "<i>down</i>"}
        for nth in range(2)
    ]
    told = "UPDATE tasks SET tried_at = now(), duration_ms = 1234, answer = $2, earlier = $3 WHERE reward_id = $1"
    await stall.database.execute(told, reward, "<b>closed</b>", earlier)
    await desk.enter("designer", path=f"/players/{player}")
    await desk.page.get_by_role("button", name="Request and answer of task_").click()
    await desk.page.wait_for_selector("dialog dd:text-is('1,234 ms')")
    bodies = await desk.page.locator("dialog pre").all_text_contents()
    assert '"fulfillment.requested"' in bodies[0] and f'"{reward}"' in bodies[0] and bodies[1] == "<b>closed</b>"
    times = await desk.page.locator("dialog tbody tr").all_inner_texts()
    assert ["41 ms" in times[0] and "HTTP 501" in times[0], "HTTP 500" in times[1], len(times)] == [True, True, 2]
    assert bodies[2:] == ["<i>down</i>"] * 2
    assert await violations(desk.page) == []
    await desk.shot("dashboard-delivery")
    await desk.press("Close", within="dialog footer")
    await desk.to("/deliveries")
    await desk.page.get_by_role("button", name="Request and answer of task_").first.wait_for()


PAGES: tuple[str, ...] = ("/players", "/rewards", "/deliveries", "/integrations")


async def furnished(stall: World, text: str = "Fair mug") -> str:
    player, _ = await complainant(stall, "looks@example.com", text if text != "Fair mug" else "Paula Plain")
    await stall.round(await stall.wheel(await stall.prize(name=text)), player)
    hook: dict[str, Any] = {"type": "webhook", "events": ["prize_won", "prize_claimed"]}
    hook["config"] = {"url": "https://shop.example/hooks/tombola"}
    assert (await stall.stack.admin("POST", "/admin/integrations", hook)).code == "OK"
    return player


async def test_whatever_a_player_is_called_stays_text(desk: Desk, stall: World) -> None:
    player = await furnished(stall, EVIL[:100])
    await stall.database.execute("UPDATE tasks SET last_error = $1 WHERE player_id = $2", EVIL, player)
    await desk.enter("admin")
    for path in (*PAGES[:3], f"/players/{player}"):
        await desk.to(path)
        await shown(desk, EVIL[:40])
    await desk.press("Suspend", within="main .head")
    assert EVIL[:100] in await desk.page.inner_text("dialog")
    assert await desk.page.evaluate("window.evil") is None


async def test_axe_finds_nothing_and_every_page_fits_its_window(browser: Browser, stall: World) -> None:
    player = await furnished(stall)
    found: dict[str, list[str]] = {}
    for width, scheme in SCREENS:
        options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        async with at_desk(browser, stall.stack, **options) as desk:
            await desk.enter("admin")
            for path in (*PAGES, f"/players/{player}", "/players?q=none+such"):
                await desk.to(path)
                name = path.strip("/").partition("?")[0].replace(player, "one").replace("/", "-")
                name = f"{name}{'-empty' if '?' in path else ''}-{width}-{scheme}"
                await desk.shot(f"dashboard-{name}")
                wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
                assert not await desk.page.evaluate(wider), name
                if width < 1000:  # What is wider is the same, and axe is slow.
                    found[name] = await violations(desk.page)
            await desk.to(f"/players/{player}")
            for act in ("Give turns", "Erase"):
                await desk.press(act, within="main .head")
                await desk.shot(f"dashboard-player-{act.lower().replace(' ', '-')}-{width}-{scheme}")
                if width < 1000:
                    found[f"{act}-{width}"] = await violations(desk.page)
                await desk.page.keyboard.press("Escape")
                await desk.page.wait_for_selector("dialog", state="detached")
    assert {view: told for view, told in found.items() if told} == {}
