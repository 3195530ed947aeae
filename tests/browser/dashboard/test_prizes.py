import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from runtime.operations.currencies import CURRENCIES
from tests.support.axe import violations
from tests.support.pages.forms import field, retype
from tests.support.pages.looks import EVIL
from tests.support.staff import Desk
from tests.support.stored import config_of_prize
from tests.support.waiting import until
from tests.support.world import World

STATUS: Final = ".upload [role=status]"
WEBHOOK: Final = {"channel": "webhook", "config": {"url": "https://shop.example/mugs"}}


async def save(desk: Desk) -> None:
    await desk.page.wait_for_selector(".toast", state="detached")
    await desk.press("Save", within="main", then=".toast:has-text('Saved')")


async def refused(desk: Desk) -> list[str]:
    await desk.press("Save", within="main")
    await desk.page.locator("#content .problem").wait_for()
    desk.forgive("400")
    return list(await desk.page.locator("#content .problem p").all_inner_texts())


async def stored(desk: Desk, prize: str) -> dict[str, Any]:
    return dict((await desk.stack.admin("GET", f"/admin/prizes/{prize}")).data)


async def test_prize_is_made_changed_and_removed_once_no_active_game_names_it(desk: Desk, fair: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/prizes")
    await page.get_by_role("button", name="New prize").first.click()
    picture = "https://example.com/mug.png"
    texts = {"name": "Fair mug", "value": "8", "stock.total": "20", "description": "Stoneware.", "image_url": picture}
    for name, text in texts.items():
        await field(desk, name).fill(text)
    await field(desk, "campaign_id").select_option(fair.campaign_id)
    offered = await field(desk, "currency").evaluate("(it) => [...it.list.options].map((one) => one.value)")
    assert offered[:3] == ["EUR", "USD", "GBP"] and len(offered) == len({*offered}) > 10 and {*offered} <= CURRENCIES
    other = sorted(CURRENCIES - {*offered})[0]
    await field(desk, "currency").fill("XYZ")
    await field(desk, "fulfillment.channel").select_option("webhook")
    await field(desk, "fulfillment.config.url").fill("ftp://nowhere")
    await desk.press("Create prize", within="main", then="[name='fulfillment.config.url'][aria-invalid=true]")
    await field(desk, "fulfillment.config.url").fill("https://shop.example/mugs")
    await field(desk, "fulfillment.config.secret").fill("quite-a-long-secret")
    await page.get_by_role("link", name="Games").first.click()  # The question is dismissed.
    await desk.press("Create prize", within="main", then="[name=currency][aria-invalid=true]")
    assert "ISO 4217" in await page.inner_text(".field:has([name=currency]) .wrong")
    await field(desk, "currency").fill(other)
    await desk.press("Create prize", within="main", then=".head h1:has-text('Fair mug')")
    prize_id = page.url.rsplit("/", 1)[1]
    made = await stored(desk, prize_id)
    assert (made["value"], made["stock"]["total"], made["campaign_id"]) == (8, 20, fair.campaign_id)
    assert (made["currency"], made["description"], made["image_url"]) == (other, "Stoneware.", picture)
    assert made["fulfillment"]["config"] == {"url": "https://shop.example/mugs", "secret_set": True}
    # Only what was changed is sent: the secret stays.
    await field(desk, "name").fill("Big mug")
    await page.get_by_role("link", name="Games").first.click()
    await field(desk, "constraints.max_per_user").fill("2")
    await desk.press("Save", within="main", then=".head h1:has-text('Big mug')")
    now = await stored(desk, prize_id)
    assert now["constraints"]["max_per_user"] == 2 and now["fulfillment"] == made["fulfillment"]
    game = await fair.wheel(prize_id)
    await desk.press("Delete", within="main .head")
    await desk.press("Delete", within="dialog", then=".toast[data-tone=bad]")
    await desk.stack.admin("PUT", f"/admin/games/{game}", {"status": "paused"})
    await desk.press("Delete", within="main .head")
    await desk.press("Delete", within="dialog", then=".toast:has-text('Big mug deleted')")
    assert page.url.endswith("/prizes")
    desk.forgive("400")
    # A prize of turns asks for turns, and refuses a delivery.
    label = "document.querySelector('.field:has([name=value]) label').textContent"
    await desk.to("/prizes/new")
    await field(desk, "name").fill("Three more")
    await desk.until(f"{label} === 'Value'")
    await field(desk, "type").fill("turns")
    await desk.until(f"{label} === 'Turns'")
    assert "1 to 1000" in await page.inner_text(".field:has([name=value])")
    await field(desk, "value").fill("3")
    await field(desk, "fulfillment.channel").select_option("manual")
    await desk.press("Create prize", within="main", then="[name='fulfillment.channel'][aria-invalid=true]")
    desk.forgive("400")
    assert await violations(page) == []
    await field(desk, "fulfillment.channel").select_option("none")
    await desk.press("Create prize", within="main", then=".head h1:has-text('Three more')")
    made = await stored(desk, page.url.rsplit("/", 1)[1])
    assert (made["type"], made["value"]) == ("turns", 3)


async def test_form_of_a_webhook_hides_its_secrets_and_shows_each_error_at_its_place(desk: Desk, fair: World) -> None:
    secrets = {"secret": "quite-a-long-secret", "previous_secret": "another-long-one"}
    headers, base = {f"X-{nth}": "some" for nth in range(20)}, WEBHOOK["config"]
    prizes = [
        await fair.prize(name="Mug", fulfillment={**WEBHOOK, "config": {**base, **more}})  # type: ignore[dict-item]
        for more in (secrets, {"headers": headers}, {"headers": {"X-Key": "some"}})
    ]

    def whole(legend: str) -> str:
        return f"#content fieldset:has(> legend:text-is('{legend}')) > .wrong"

    await desk.enter("designer", path=f"/prizes/{prizes[0]}")
    await retype(field(desk, "fulfillment.config.url"), "https://elsewhere.example/mugs")
    previous = "fulfillment.config.previous_secret must be sent again, since the receiver is another one"
    assert await refused(desk) == ["Fix 1 field.", previous]
    assert await field(desk, "fulfillment.config.secret").get_attribute("aria-invalid") == "true"
    await desk.to(f"/prizes/{prizes[1]}")
    await desk.page.get_by_role("button", name="Add to headers", exact=True).click()
    await field(desk, "fulfillment.config.headers.headers_21").press_sequentially("one more")
    assert await refused(desk) == ["Fix 1 field."] and "at most 20" in await desk.page.inner_text(whole("Headers"))
    assert await violations(desk.page) == []
    await desk.to(f"/prizes/{prizes[2]}")
    await field(desk, "fulfillment.config.headers.X-Key").fill("x" * 70_000)
    assert await refused(desk) == ["Fix 1 field."]
    assert "bytes as JSON" in await desk.page.inner_text(whole("Destination"))
    # A header is hidden, stays as it is, and is not sent to another receiver.
    config: dict[str, Any] = {"url": "https://shop.example/mugs", "headers": {"X-Key": "hunter2", "channel": "some"}}
    prize = await fair.prize(name="Fair mug", fulfillment={"channel": "webhook", "config": config})
    config |= {"secret": (await config_of_prize(fair.stack, prize))["secret"]}
    await desk.to(f"/prizes/{prize}")
    url, header = field(desk, "fulfillment.config.url"), field(desk, "fulfillment.config.headers.X-Key")

    async def becomes(**change: Any) -> None:
        await desk.press("Save", within="main")
        await until(lambda: config_of_prize(fair.stack, prize), lambda it: it == {**config, **change})

    named = field(desk, "fulfillment.config.headers.channel")
    assert await named.evaluate("(it) => it.localName") == "input", "a header named like a choice is text"
    assert await header.input_value() == "***" and "hunter2" not in await desk.page.content()
    await named.fill("other")
    await becomes(headers={"X-Key": "hunter2", "channel": "other"})
    await header.fill("hunter3")
    await becomes(headers={"X-Key": "hunter3", "channel": "other"})
    await desk.page.reload()
    await url.fill("https://shop.example/cups")
    await refused(desk)
    assert await header.get_attribute("aria-invalid") == "true"


async def test_prize_form_saves_only_what_was_changed_over_others_changes(desk: Desk, fair: World) -> None:
    numbers, kind = {"value": 8, "expires_after_days": 30, "low_stock_at": 5}, "CLAIM_FIELD_KIND_CHOICE"
    fields = [
        {"key": key, "label": key, "kind": kind, "options": options}
        for key, options in {"size": ["S", "M"], "colour": ["red", "blue"], "taste": ["sweet", "salty"]}.items()
    ]
    on_claim = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    limits = {"max_per_user": 2, "max_per_day": 3}
    prize = await fair.prize(name="Mug", constraints=limits, fulfillment=on_claim, claim_fields=fields, **numbers)
    await desk.enter("admin", path=f"/prizes/{prize}")
    for name in (*numbers, "constraints.max_per_user"):
        await retype(field(desk, name), "")
    assert (await desk.stack.admin("PUT", f"/admin/prizes/{prize}", {"name": "Their mug"})).code == "OK"
    await desk.press("Save", within="main", then="main .problem:has-text('Name')")
    assert await field(desk, "value").input_value() == ""
    await save(desk)
    now = await stored(desk, prize)
    assert {name: now[name] for name in numbers} == dict.fromkeys(numbers, 0)
    assert now["constraints"] == {"max_per_user": 0, "max_per_day": 3} and now["name"] == "Their mug"
    assert await field(desk, "name").input_value() == "Their mug"
    await desk.page.get_by_role("button", name="Remove claim form 1").click()
    colour, taste = (field(desk, f"claim_fields[{nth}].options") for nth in (0, 1))
    assert (await colour.input_value(), await taste.input_value()) == ("red\nblue", "sweet\nsalty")
    await colour.press("ControlOrMeta+End")
    await colour.press_sequentially("\ngreen")
    await retype(field(desk, "value"), "2.05")
    await save(desk)
    now, left = await stored(desk, prize), [("colour", ["red", "blue", "green"]), ("taste", ["sweet", "salty"])]
    assert [(one["key"], one["options"]) for one in now["claim_fields"]] == left and now["value"] == 2.05


async def test_claim_fields_are_defined_and_their_answers_shown_to_roles_that_may_read(desk: Desk, fair: World) -> None:
    page, label = desk.page, EVIL[:80]
    prize_id = await fair.prize(name="Mug")
    await desk.enter("designer", path=f"/prizes/{prize_id}")
    await page.get_by_role("button", name="Add to claim form").click()
    for name, text in (("key", "size"), ("label", label), ("options", "M\n\n L \n")):
        if name == "options":
            await field(desk, "claim_fields[0].kind").select_option("CLAIM_FIELD_KIND_CHOICE")
        await field(desk, f"claim_fields[0].{name}").fill(text)
    await field(desk, "claim_fields[0].required").check()
    assert "quest's period" not in await page.inner_text("form.schema"), "another form's help for its own 'kind'"
    await desk.press("Save", within="main", then="form.schema .rows [role=alert]")
    desk.forgive("400")
    assert await violations(page) == []
    await field(desk, "fulfillment.redemption_mode").select_option("REDEMPTION_MODE_ON_CLAIM")
    await save(desk)
    [arguments] = (await stored(desk, prize_id))["claim_fields"]
    found = (arguments["key"], arguments["label"], arguments["required"], arguments["options"])
    assert found == ("size", label, True, ["M", "L"])
    reward_id = (await fair.round(await fair.wheel(prize_id), "dora")).data["rewards"][0]["reward_id"]
    claim = {"answers": {"size": "L"}}
    assert (await fair.stack.consumer("POST", f"/rewards/{reward_id}/claim", claim, player="dora")).code == "OK"
    rewards = f"/rewards?prize_id={prize_id}"
    for role, path, shown in (
        *(("designer", rewards, "****"), ("reward_manager", rewards, "L"), ("reward_manager", "/players/dora", "L")),
    ):
        await desk.enter(role, path=path)
        await page.get_by_role("button", name="Claim form of Mug").click()
        await page.wait_for_selector("dialog dd")
        assert await page.inner_text("dialog dd") == shown and label in await page.inner_text("dialog dt")
        assert await violations(page) == []
    assert await page.evaluate("window.evil") is None


async def test_stock_is_moved_for_a_reason_and_each_move_is_listed(desk: Desk, fair: World) -> None:
    prize, page = await fair.prize(name="Fair mug", total=5), desk.page
    await fair.round(await fair.wheel(prize), "winner")
    await desk.enter("designer", path=f"/prizes/{prize}")
    await page.wait_for_selector("main .part .empty")
    await desk.press("Adjust stock", within="main")
    await page.fill("dialog [name=change]", "-5")
    await page.fill("dialog [name=reason]", EVIL)
    await desk.press("Adjust stock", within="dialog", then="dialog [name=change][aria-invalid=true], dialog .problem")
    desk.forgive("400")
    assert await violations(page) == []
    await page.fill("dialog [name=change]", "7")
    await desk.press("Adjust stock", within="dialog")
    assert await desk.toast() == "Stock of Fair mug changed from 5 to 12"
    await desk.until("document.querySelector('.tile b').textContent === '11'")
    row = await page.locator("main tbody tr").text_content()
    assert row is not None and EVIL in row and "5 → 12" in row and "ann" in row
    await desk.press("Adjust stock", within="main")
    await page.select_option("dialog [name=by]", "unlimited")
    await page.fill("dialog [name=reason]", "made on the spot")
    await desk.press("Adjust stock", within="dialog")
    await desk.until("document.querySelectorAll('main tbody tr').length === 2")
    assert (await stored(desk, prize))["stock"] == {"total": 0, "remaining": 0, "awarded": 1}


async def codes_of(desk: Desk, prize_id: str) -> dict[str, Any]:
    return dict((await desk.stack.admin("GET", f"/admin/prizes/{prize_id}/codes")).data)


@asynccontextmanager
async def second_part_held(desk: Desk) -> AsyncIterator[asyncio.Event]:
    """Holds the second part of an import for the block, then drops it: continued, it might reach the service."""
    go_on, count = asyncio.Event(), 0

    async def hold(route: Any) -> None:
        nonlocal count
        count += route.request.method == "POST"
        if count == 2 and route.request.method == "POST" and not go_on.is_set():
            await go_on.wait()
            await route.abort()
        else:
            await route.continue_()

    await desk.page.route("**/codes**", hold)
    yield go_on
    go_on.set()
    await desk.page.unroute_all(behavior="wait")


async def test_code_file_is_imported_with_its_progress_stopped_and_resumed(desk: Desk, fair: World) -> None:
    page, prize_id = desk.page, await fair.prize(fulfillment={"channel": "voucher_code"})
    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.wait_for_selector(".upload")
    lines = [f"FAIR-{nth:08};2039-12-31" for nth in range(6_998)]
    sent = "\n".join(["code;expires_at", *lines, "has space", lines[0]]).encode()
    async with second_part_held(desk):
        file: Any = {"name": "codes.csv", "mimeType": "text/csv", "buffer": sent}
        await page.set_input_files(".upload input[type=file]", file)
        await page.wait_for_selector(f"{STATUS}:has-text('5,000 of 7,000 lines: 5,000 added')")
        assert await page.locator(".upload progress").evaluate("bar => bar.value / bar.max") == 5 / 7
        await desk.press("Stop", within=".upload")
        await page.wait_for_selector(f"{STATUS}:has-text('Stopped after 5,000 of 7,000 lines: 5,000 added')")
    assert (await codes_of(desk, prize_id))["totals"]["free"] == 5_000
    await desk.press("Continue", within=".upload")
    await page.wait_for_selector(f"{STATUS}:has-text('Upload complete. 7,000 lines: 6,998 added, 1 duplicates')")
    await page.get_by_text("First 2 lines not added").click()
    found = await page.locator(".upload .lines li").all_text_contents()
    assert found == ["Line 7,000contains white space or unprintable characters", "Line 7,001duplicate"]
    assert (await codes_of(desk, prize_id))["totals"]["free"] == 6_998
    await page.wait_for_selector("text=6,998 available")
    assert "FAIR-0" not in await page.inner_text("main") and "code_" in await page.inner_text("main table")
    desk.wrong[:] = [one for one in desk.wrong if "ERR_ABORTED" not in one and "/codes" not in one]


async def test_codes_are_dropped_given_another_end_and_withdrawn(desk: Desk, fair: World) -> None:
    page, prize_id = desk.page, await fair.prize(total=2, fulfillment={"channel": "voucher_code"})

    async def ends() -> list[int]:
        return sorted(item["expires_at"] for item in (await codes_of(desk, prize_id))["items"])

    await desk.enter("reward_manager", path=f"/prizes/{prize_id}")
    await page.fill(".upload input[type=date]", "2039-12-31")
    make = """() => {
        const one = new DataTransfer();
        one.items.add(new File(["A-000001\\nA-000002\\nA-000003"], "a.txt"));
        return one;
    }"""
    await page.dispatch_event(".upload", "drop", {"dataTransfer": await page.evaluate_handle(make)})
    await page.wait_for_selector(f"{STATUS}:has-text('3 added')")
    await page.wait_for_selector(".notice:has-text('3 available codes for a stock of 2')")
    assert await ends() == [2_208_988_800] * 3
    await page.get_by_label("Select code_").first.check()
    await desk.press("Change expiry", within="main", then="dialog:has-text('Issued codes are not affected')")
    shown = await page.locator("dialog select option").all_text_contents()
    assert shown == ["1 selected code", "All 3 available codes"]
    await page.locator("dialog select").focus()
    for key, word in (("ArrowDown", "Change 3 codes"), ("ArrowUp", "Change 1 code")):
        await page.keyboard.press(key)
        await page.wait_for_selector(f"dialog button:text-is('{word}')")
        assert await page.evaluate("document.activeElement.matches('dialog select')"), key
    await page.fill("dialog input[type=datetime-local]", "2001-01-01T00:00")
    await desk.press("Change 1 code", within="dialog", then="dialog .wrong:has-text('must be a future time')")
    assert await violations(page) == []
    desk.forgive("400")
    await page.fill("dialog input[type=datetime-local]", "2038-01-01T00:00")
    await desk.press("Change 1 code", within="dialog")
    assert await desk.toast() == "Expiry of 1 code changed"
    await page.wait_for_selector("main tbody time[datetime^='2038-01-01T00:00']")
    assert await ends() == [2_145_916_800, 2_208_988_800, 2_208_988_800]
    await fair.database.execute("UPDATE codes SET expires_at = now() WHERE prize_id = $1", prize_id)
    await desk.to(f"/prizes/{prize_id}?state=expired")
    await page.wait_for_selector("text=3 expired")
    await desk.press("Change expiry", within="main")
    await page.wait_for_selector("dialog option:has-text('All 3 expired codes')", state="attached")
    await desk.press("Change 3 codes", within="dialog", then="text=3 available")
    assert await ends() == [0] * 3
    await desk.to(f"/prizes/{prize_id}")
    await page.get_by_label("Select code_").first.check()
    await desk.press("Withdraw 1", within="main", then="dialog:has-text('Withdraw this code?')")
    await desk.press("Withdraw", within="dialog")
    assert await desk.toast() == "1 code withdrawn"
    await page.wait_for_selector("text=2 available · 1 withdrawn")
    await desk.press("Withdraw all 2 available", within="main")
    await page.wait_for_selector("dialog:has-text('The 2 codes can no longer be won')")
    await desk.press("Withdraw", within="dialog", then="text=3 withdrawn")
    assert (await codes_of(desk, prize_id))["totals"] == {"free": 0, "assigned": 0, "withdrawn": 3, "expired": 0}
    await desk.to(f"/prizes/{prize_id}?state=free")
    await page.wait_for_selector(".empty:has-text('No results')")


async def test_release_schedule_is_set_and_removed(desk: Desk, fair: World) -> None:
    page, prize = desk.page, await fair.prize(name="Bike", total=9)
    await desk.enter("designer", path=f"/prizes/{prize}")
    await field(desk, "release.kind").select_option("SEALED")
    await field(desk, "release.units").fill("4")
    await field(desk, "release.timezone").fill("Europe/Rome")
    await field(desk, "release.starts_at").fill("2030-06-01T09:00")
    await field(desk, "release.ends_at").fill("2030-06-30T20:00")
    await page.get_by_role("button", name="Add to Hours").click()
    for day in ("Mon", "Sat"):
        await page.get_by_label(day).check()
    await field(desk, "release.hours[0].from_hour").fill("9")
    await field(desk, "release.hours[0].to_hour").fill("20")
    await desk.press("Save", within="main", then=".toast:has-text('Saved')")
    release: dict[str, Any] = (await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["release"]
    assert (release["kind"], release["units"], release["starts_at"]) == ("SEALED", 4, 1906527600)
    assert release["hours"] == [{"weekdays": [1, 6], "from_hour": 9, "to_hour": 20}]
    await field(desk, "release.kind").select_option("NONE")
    await page.wait_for_selector(".toast", state="detached")
    await desk.press("Save", within="main", then=".toast:has-text('Saved')")
    assert (await fair.stack.admin("GET", f"/admin/prizes/{prize}")).data["release"] is None
