import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from runtime.events import TYPES
from tests.support.axe import violations
from tests.support.chromium import Route
from tests.support.guests import guest_who_played, log_in
from tests.support.login import bearer
from tests.support.pages.desk import MANUAL, undelivered
from tests.support.pages.looks import EVIL
from tests.support.receiver import receiving
from tests.support.stack import Stack
from tests.support.staff import Desk
from tests.support.waiting import until
from tests.support.world import World

WIDE = """[document.documentElement, ...document.querySelectorAll("main .table")]
    .filter((one) => one.scrollWidth > one.clientWidth).map((one) => `${one.className} ${one.scrollWidth}`)"""


async def test_lost_answer_of_a_gift_or_a_creation_repeats_nothing(desk: Desk, fair: World) -> None:
    player = await log_in(fair.stack)
    await fair.database.execute(
        "INSERT INTO campaigns (tenant_id, campaign_id, name, status)"
        " SELECT $1, 'camp_' || lpad(n::text, 4, '0'), 'Campaign ' || n, 'active' FROM generate_series(1, 130) AS n",
        fair.stack.tenant_id,
    )
    for act, table in (("Grant turns", "turn_entries"), ("Adjust balance", "ledger_entries")):
        await desk.enter("admin", path=f"/players/{player}")
        await give(desk, fair, act)
        found = await fair.database.fetch(f"SELECT amount FROM {table} WHERE player_id = $1", player)
        assert [row["amount"] for row in found] == [5], act
    desk.forgive("Failed to load", "400")

    async def lost(route: Route) -> None:
        if route.request.method != "POST":
            return await route.continue_()
        await route.fetch()
        return await route.abort("connectionreset")

    await desk.to("/campaigns")
    await desk.page.route("**/api/v1/admin/campaigns", lost)
    await desk.press("New campaign", within="main")
    await desk.page.get_by_label("Name", exact=True).fill("Made once")
    await desk.press("Create campaign", within="dialog", then="dialog .problem:has-text('check before you retry')")
    desk.forgive("ERR_")
    assert len((await desk.stack.admin("GET", "/admin/campaigns", q="Made once")).data["items"]) == 1


async def give(desk: Desk, fair: World, act: str) -> None:
    keys: list[str | None] = []

    async def lose(route: Route) -> None:
        if route.request.method != "POST":
            return await route.continue_()
        keys.append(route.request.headers.get("idempotency-key"))
        if len(keys) != 2:
            return await route.continue_()
        await route.fetch()  # The service does it; its answer is lost.
        return await route.abort()

    await desk.page.route("**/wallet/adjustments" if act == "Adjust balance" else "**/turns", lose)
    await desk.press(act, within="main .head")
    fields = {"scope_key": fair.stack.tenant_id, "currency": "points", "reference_id": "ticket 1", "amount": "0"}
    if act == "Grant turns":
        await desk.page.get_by_label("Campaign", exact=True).select_option(label="Campaign 1")  # Not of the first page.
        await desk.page.get_by_label("Amount").fill("5")
        fields = {"reason": " "}
    for name, text in fields.items():
        await desk.page.locator(f"dialog [name={name}]").fill(text)
    await desk.press(act, within="dialog footer")
    last = f"dialog [name={[*fields][-1]}]"
    await desk.page.wait_for_selector(f"{last}[aria-invalid=true]")
    await desk.page.fill(last, "sorry" if act == "Grant turns" else "5")
    await desk.press(act, within="dialog footer", then="dialog .problem:not(:has-text('needs another look'))")
    await desk.press(act, within="dialog footer")
    await desk.until("!document.querySelector('dialog')")
    assert len(keys) == 3 and keys[1] and keys[1] == keys[2]
    await desk.page.unroute_all()


async def test_player_is_merged_unlinked_suspended_exported_and_erased(desk: Desk, fair: World, tmp_path: Path) -> None:
    page, player = desk.page, await log_in(fair.stack, contact="merge.me@example.com")
    guest = await guest_who_played(fair, await fair.wheel(await fair.prize(), access="public"))
    await desk.looks_at_guest(player, guest.player_id)
    assert await page.evaluate("document.activeElement.textContent") == "Cancel", "Enter does not merge"
    await page.keyboard.press("Enter")
    await page.wait_for_selector("dialog", state="detached")
    into = "SELECT coalesce(merged_into, '') FROM players WHERE player_id = $1"
    assert await fair.database.fetchval(into, guest.player_id) == ""
    await desk.looks_at_guest(player, guest.player_id)
    await desk.press("Merge", within="dialog footer", then=".toast:has-text('Guest merged')")
    await desk.until("document.querySelector('.tile b').textContent === '1'")
    async with page.expect_download() as actual:
        await desk.press("Export", within="main .head")
    await (await actual.value).save_as(tmp_path / "export.json")
    assert "merge.me@example.com" in str(json.loads((tmp_path / "export.json").read_text()))
    await desk.press("Unlink", within="main")
    assert "m***@example.com" in await page.inner_text("dialog")
    await desk.press("Unlink", within="dialog")
    await desk.until("!document.querySelector('main').innerText.includes('m***@')")
    await desk.press("Sign out everywhere", within="main .head")
    await desk.press("Sign out everywhere", within="dialog", then=".toast:has-text('signed out everywhere')")
    for act, status in (("Suspend", "Suspended"), ("Restore", "Active")):
        await desk.press(act, within="main .head")
        await desk.press(act, within="dialog", then=f".head .status:has-text('{status}')")
    await desk.press("Erase", within="main .head")
    assert "cannot be undone" in await page.inner_text("dialog")
    await page.get_by_label("Reason", exact=True).fill("asked for")
    await desk.press("Erase", within="dialog footer", then=".head .status:has-text('Erased')")
    assert await desk.title() == player


async def test_rewards_are_moved_one_by_one_and_together_and_a_refusal_says_why(desk: Desk, fair: World) -> None:
    prize = await fair.prize(name="Hamper", total=9, fulfillment=MANUAL)
    game = await fair.wheel(prize)
    ids = [(await fair.round(game, f"hamper_{n}")).data["rewards"][0]["reward_id"] for n in range(4)]
    await desk.enter("reward_manager", path=f"/rewards?prize_id={prize}")
    rows = desk.page.locator("tbody tr")
    await rows.nth(0).get_by_role("button", name="Revoke", exact=True).click()
    assert "Hamper" in await desk.page.inner_text("dialog")
    await desk.press("Revoke", within="dialog", then=".toast:has-text('reward revoked')")
    await rows.nth(0).locator(".status:has-text('Revoked')").wait_for()
    assert await rows.nth(0).get_by_role("button").count() == 0
    stock = (await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["stock"]
    assert (stock["total"], stock["remaining"]) == (9, 6), "a revoked reward is back in stock"
    assert (await fair.stack.admin("POST", f"/admin/rewards/{ids[0]}/fulfill", {})).http == 200
    for nth in range(3):
        await desk.page.locator("tbody input[type=checkbox]:not([disabled])").nth(nth).check()
    await desk.press("Mark 3 as delivered", within="main .head")
    assert "Voucher prizes get their codes" in await desk.page.inner_text("dialog")
    await desk.press("Mark as delivered", within="dialog", then=".toast:has-text('2 rewards marked as delivered')")
    await desk.page.wait_for_selector(".toast[data-tone=bad]:has-text('1 reward failed')")
    await desk.until("document.querySelectorAll('tbody .status[data-tone=good]').length === 3")
    assert "is revoked" in (await desk.page.inner_text("tbody small")).lower()
    assert await desk.page.locator("tbody input:checked").count() == 1, "what was refused stays chosen"
    voucher = await fair.prize(name="Voucher", codes=["AGAIN-1"], fulfillment={**MANUAL, "channel": "voucher_code"})
    await fair.round(await fair.wheel(voucher), await log_in(fair.stack, contact="hamper@example.com"))
    await desk.to(f"/rewards?prize_id={voucher}")
    await desk.press("Issue code", within="tbody")
    await desk.press("Issue code", within="dialog")
    assert await desk.toast() == "Voucher code issued"
    await desk.press("Show code", within="tbody")
    await desk.page.get_by_label("Reason", exact=True).fill("lost the mail")
    await desk.press("Show code", within="dialog footer")
    assert await desk.page.get_by_label("Voucher code", exact=True).input_value() == "AGAIN-1"
    await desk.page.keyboard.press("Escape")
    await desk.press("Send code", within="tbody")
    await desk.page.get_by_label("Reason", exact=True).fill("lost the mail")
    await desk.press("Send code", within="dialog footer", then=".toast:has-text('Code sent to h***@example.com')")


async def test_rewards_and_deliveries_are_found_by_contact_and_day_with_each_answer(desk: Desk, fair: World) -> None:
    player, reward = await undelivered(fair, "found@example.com")
    await undelivered(fair, "another@example.com")
    today = datetime.now(UTC)
    await desk.enter("designer")
    for path, names in (("/rewards", ("won_from", "won_until")), ("/deliveries", ("since", "until"))):
        await desk.to(path)
        rows, days = desk.page.locator("main tbody tr"), desk.page.locator("label.day input")
        await desk.page.get_by_label("Full email or phone number").fill("found@example.com")
        await desk.page.wait_for_url("**contact=*")
        await desk.settled()
        assert await rows.count() == 1 and player in await rows.first.inner_text()
        for nth, name in enumerate(names):  # From and to the same day.
            await days.nth(nth).fill(f"{today:%Y-%m-%d}")
            await desk.page.wait_for_url(f"**{name}={today:%Y-%m-%d}*")
            await desk.settled()
            assert await rows.count() == 1
        yesterday = f"{today - timedelta(days=1):%Y-%m-%d}"
        await days.nth(1).fill(yesterday)
        await desk.page.wait_for_selector("main .empty")
        await desk.page.reload()
        await desk.page.wait_for_selector("main .empty")
        assert await days.nth(1).input_value() == yesterday
    # A delivery shows its request and each answer.
    earlier = [
        {"tried_at": 1767225600 + nth, "duration_ms": 40 + nth, "error": f"HTTP {500 + nth}", "answer": "<i>down</i>"}
        for nth in range(2)
    ]
    tried = "UPDATE tasks SET tried_at = now(), duration_ms = 1234, answer = $2, earlier = $3 WHERE reward_id = $1"
    await fair.database.execute(tried, reward, "<b>closed</b>", earlier)
    await desk.to(f"/players/{player}")
    await desk.page.get_by_role("button", name="View details of task_").click()
    await desk.page.wait_for_selector("dialog dd:text-is('1,234 ms')")
    bodies = await desk.page.locator("dialog pre").all_text_contents()
    assert '"fulfillment.requested"' in bodies[0] and f'"{reward}"' in bodies[0] and bodies[1] == "<b>closed</b>"
    times = await desk.page.locator("dialog tbody tr").all_inner_texts()
    assert ["41 ms" in times[0] and "HTTP 501" in times[0], "HTTP 500" in times[1], len(times)] == [True, True, 2]
    assert bodies[2:] == ["<i>down</i>"] * 2 and await violations(desk.page) == []
    await fair.database.execute("UPDATE tasks SET last_error = repeat('HTTP500 ', 50) WHERE reward_id = $1", reward)
    await desk.to("/deliveries")
    await desk.page.get_by_role("button", name="View details of task_").first.wait_for()
    assert await desk.page.locator("tbody tr").first.locator("a.name").inner_text() == "Fair mug"
    for width in (1280, 768, 390, 320):
        await desk.page.set_viewport_size({"width": width, "height": 800})
        assert await desk.page.evaluate(WIDE) == [], f"wider than its place at {width} px"


async def test_integration_is_made_tried_changed_and_removed(desk: Desk, fair: World) -> None:
    page = desk.page
    async with receiving() as receiver:
        row = f"tbody tr:has-text('{receiver.url}')"
        await desk.enter("admin", path="/integrations")
        await desk.press("New integration", within="main")
        types = await page.locator("dialog [name=type] option").all_text_contents()
        assert types == ["Webhook", "Workflow", "Spreadsheet", "SMS", "Messaging", "CRM"]
        boxes = await page.locator("dialog [name^='events.']").evaluate_all("all => all.map(one => one.name)")
        assert boxes == [f"events.{type}" for type in TYPES]
        options = page.get_by_label("Campaign", exact=True).locator("option")
        await options.nth(1).wait_for(state="attached")
        assert await options.all_text_contents() == ["All campaigns", "Autumn Fair"]
        await page.get_by_label("Quest completed").check()
        await page.get_by_label("URL", exact=True).fill("no address")
        await desk.press("Create integration", within="dialog", then="dialog .problem")
        desk.forgive("400")
        await page.get_by_label("URL", exact=True).fill(receiver.url)
        await desk.press("Create integration", within="dialog")
        await page.wait_for_selector(".toast:has-text('Integration created and active')")
        assert (await page.input_value("dialog input[readonly]")).startswith("whsec_")
        await desk.press("Close", within="dialog footer")
        [made] = (await fair.stack.admin("GET", "/admin/integrations")).data["items"]
        assert made["events"] == ["prize_won", "quest_completed"]
        await desk.press("Send test event", within=row)
        assert (await receiver.next()).json["type"] == "integration_test"
        await page.wait_for_selector(".toast:has-text('Test event delivered')")
        await desk.press("Log", within=row, then="dialog tbody tr:has-text('integration_test')")
        await page.click("dialog summary")
        assert '"type":"integration_test"' in await page.locator("dialog pre").first.inner_text()
        assert await violations(page) == []
        await desk.press("Resend", within="dialog tbody")
        again, first = await receiver.next(), receiver.all[0]
        assert again.headers["webhook-id"] == first.headers["webhook-id"] and again.json == first.json
        await desk.press("Close", within="dialog footer")
        await desk.press("Pause", within=row)
        assert receiver.url in await page.inner_text("dialog") and "never sent" in await page.inner_text("dialog")
        await desk.press("Pause", within="dialog", then=f"{row} .status:has-text('Paused')")
        await desk.press("Edit", within=row)
        await page.get_by_label("URL", exact=True).fill(f"{receiver.url}/mugs")
        await page.locator("dialog [name='config.secret']").fill("another-secret-of-the-shop")
        await page.get_by_role("button", name="Add to headers").click()
        await page.get_by_label("Name", exact=True).fill("X-Shop")
        await page.keyboard.press("Tab")
        await page.locator("dialog [name='config.headers.X-Shop']").fill("hunter2")
        await page.locator("dialog [name='config.include.contact']").check()
        await page.locator("dialog [name='config.consent']").fill("news")
        [made] = (await fair.stack.admin("GET", "/admin/integrations")).data["items"]
        theirs = {"events": ["prize_claimed"], "config": {"url": receiver.url, "headers": {"X-Fair": "4"}}}
        assert (await fair.stack.admin("PUT", f"/admin/integrations/{made['id']}", theirs)).code == "OK"
        await desk.press("Save", within="dialog footer")
        await page.wait_for_selector("dialog >> text=Someone else changed: Destination, Events.")
        await desk.press("Save", within="dialog footer", then=f"tbody tr:has-text('{receiver.url}/mugs')")
        [now] = (await fair.stack.admin("GET", "/admin/integrations")).data["items"]
        assert now["events"] == theirs["events"], "only what was typed is changed"
        assert (now["config"]["include"], now["config"]["consent"]) == (["contact"], "news")
        await desk.press("Send test event", within=row)
        sent = await receiver.next()
        assert sent.path.endswith("/mugs") and sent.headers["X-Shop"] == "hunter2"
        await desk.press("Rotate secret", within=row)
        await page.get_by_role("textbox", name="Secret").fill("a-quite-new-secret-for-it")
        await desk.press("Rotate secret", within="dialog footer", then=".toast:has-text('Secret rotated')")
        await desk.press("Delete", within=row)
        await desk.press("Delete", within="dialog", then=".toast:has-text('Integration deleted')")
        await page.wait_for_selector(row, state="detached")
        await desk.press("New integration", within="main")
        for type, service, texts in (
            ("SPREADSHEET", "google_sheets", ["spreadsheet_id", "secret"]),
            ("MESSAGING", "slack", ["text", "secret"]),
        ):
            await page.select_option("dialog [name=type]", f"INTEGRATION_TYPE_{type}")
            assert await page.input_value("dialog [name='config.service']") == service
            for text in texts:
                await page.fill(f"dialog [name='config.{text}']", receiver.url)
        await desk.press("Create integration", within="dialog")
        await desk.press("Send test event", within="tbody tr:has-text('Messaging · Slack')")
        assert (await receiver.next()).json == {"text": receiver.url}


async def opens(stack: Stack, token: str) -> bool:
    return (await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))).code == "OK"


async def ends(stack: Stack, token: str) -> None:
    await until(lambda: opens(stack, token), lambda it: not it)


async def test_token_is_shown_once_and_revoked_and_a_person_s_sessions_ended(desk: Desk) -> None:
    page, stack = desk.page, desk.stack
    session = stack.token("bob", ("designer",))
    assert await opens(stack, session)
    await page.add_init_script("delete Navigator.prototype.clipboard")
    await desk.enter("admin", path="/people")
    await desk.press("New token")
    await page.fill("dialog [name=name]", "   ")
    await desk.press("Create token", within="dialog", then="dialog [name=name][aria-invalid=true]")
    desk.forgive("400")
    await page.fill("dialog [name=name]", EVIL[:90])
    await page.select_option("dialog [name='roles[0]']", "designer")
    await desk.press("Create token", within="dialog")
    token = await page.input_value("dialog input[aria-label=Token]")
    assert token.startswith("tmb_") and await opens(stack, token)
    await page.get_by_role("button", name="Copy Token").click()
    selected = "((it) => it.selectionEnd - it.selectionStart)(document.querySelector('dialog input'))"
    assert await page.evaluate(selected) == len(token), "without a clipboard it is selected"
    await desk.press("Close", within="dialog footer")
    await page.reload()
    await desk.settled()
    assert token not in await page.content()
    shown = await page.inner_text(".list tbody tr")
    assert EVIL[:90] in shown and "Designer" in shown and "ann" in shown and "Active" in shown
    await desk.press("Revoke", within=".list tbody")
    text = await page.inner_text("dialog")
    assert "fail within a second" in text and "Last used in the hour of" in text and EVIL[:90] in text
    await desk.press("Revoke", within="dialog")
    assert await desk.toast() == "Token revoked"
    await page.wait_for_selector(".list tbody .status:text-is('Revoked')")
    assert not await page.locator(".list tbody").get_by_role("button", name="Revoke").count()
    await ends(stack, token)
    person = page.locator(".part tr:has(td:text-is('bob'))").first
    await person.get_by_role("button", name="End sessions").click()
    assert "Signs them out everywhere" in await page.inner_text("dialog")
    await desk.press("End sessions", within="dialog", then=".toast:has-text('Sessions ended')")
    await ends(stack, session)
    assert await page.evaluate("window.evil") is None
