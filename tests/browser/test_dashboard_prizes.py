"""The dashboard's prizes: made, changed, found and put away without curl."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.operations.currencies import CURRENCIES
from tests.browser.test_dashboard_desk import SCREENS
from tests.support.axe import violations
from tests.support.browsing import STILL
from tests.support.stack import Stack
from tests.support.staff import Desk, at_desk
from tests.support.stored import config_of_prize
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{count}${evil}"


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


def field(desk: Desk, name: str) -> str:
    return f"#content form.schema [name='{name}']"


async def test_a_prize_is_made_changed_and_put_away_without_a_terminal(desk: Desk, stall: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/prizes")
    await page.get_by_role("button", name="New prize").first.click()
    await page.fill(field(desk, "name"), "Fair mug")
    await page.fill(field(desk, "value"), "8")
    await page.select_option(field(desk, "campaign_id"), stall.campaign_id)
    await page.fill(field(desk, "stock.total"), "20")
    await page.fill(field(desk, "currency"), "EUR")
    await page.fill(field(desk, "description"), "Stoneware.")
    await page.fill(field(desk, "image_url"), "https://example.com/mug.png")
    await page.select_option(field(desk, "fulfillment.channel"), "webhook")
    await page.fill(field(desk, "fulfillment.config.url"), "ftp://nowhere")
    await desk.press("Make prize", within="main")
    await page.wait_for_selector(f"{field(desk, 'fulfillment.config.url')}[aria-invalid=true]")
    desk.forgive("400")
    await page.fill(field(desk, "fulfillment.config.url"), "https://shop.example/mugs")
    await page.fill(field(desk, "fulfillment.config.secret"), "quite-a-long-secret")
    await desk.press("Make prize", within="main")
    await page.wait_for_selector(".head h1:has-text('Fair mug')")
    prize_id = page.url.rsplit("/", 1)[1]
    made = (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}")).data
    assert (made["value"], made["stock"]["total"], made["campaign_id"]) == (8, 20, stall.campaign_id)
    assert (made["currency"], made["description"], made["terms"]) == ("EUR", "Stoneware.", "")
    assert made["image_url"] == "https://example.com/mug.png"
    assert made["fulfillment"]["config"] == {"url": "https://shop.example/mugs", "secret_set": True}
    # What is changed is what is sent: the secret, which nobody typed, stays.
    await page.fill(field(desk, "name"), "Big mug")
    await page.fill(field(desk, "constraints.max_per_user"), "2")
    await desk.press("Save", within="main")
    await page.wait_for_selector(".head h1:has-text('Big mug')")
    now = (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}")).data
    assert now["constraints"]["max_per_user"] == 2 and now["fulfillment"] == made["fulfillment"]
    # An active game names it: it cannot go, and says why.
    game = await stall.wheel(prize_id)
    await desk.press("Remove", within="main .head")
    await desk.press("Remove", within="dialog")
    await page.wait_for_selector(".toast[data-tone=bad]")
    desk.forgive("400")
    await desk.stack.admin("PUT", f"/admin/games/{game}", {"status": "paused"})
    await desk.press("Remove", within="main .head")
    await desk.press("Remove", within="dialog")
    await page.wait_for_selector(".toast:has-text('Big mug is removed.')")
    assert page.url.endswith("/prizes")


async def test_what_a_header_carries_is_not_shown_and_stays_until_it_is_typed_over(desk: Desk, stall: World) -> None:
    config = {"url": "https://shop.example/mugs", "headers": {"X-Key": "hunter2"}}
    prize = await stall.prize(name="Fair mug", fulfillment={"channel": "webhook", "config": config})
    await desk.enter("designer", path=f"/prizes/{prize}")
    page, url, header = desk.page, "fulfillment.config.url", "fulfillment.config.headers.X-Key"

    async def becomes(change: dict[str, object]) -> None:
        async def is_so() -> bool:
            return bool(await config_of_prize(stall.stack, prize) == {**config, **change})

        await desk.press("Save", within="main")
        await until(is_so)

    await page.wait_for_selector(field(desk, header))
    assert await page.input_value(field(desk, header)) == "***" and "hunter2" not in await page.content()
    await page.fill(field(desk, url), "https://shop.example/cups")
    await becomes({"url": "https://shop.example/cups"})
    await page.fill(field(desk, header), "hunter3")
    await becomes({"url": "https://shop.example/cups", "headers": {"X-Key": "hunter3"}})
    # Nor does it go to another host without being typed anew.
    await page.reload()
    await page.wait_for_selector(field(desk, header))
    await page.fill(field(desk, url), "https://elsewhere.example/mugs")
    await desk.press("Save", within="main")
    await page.wait_for_selector(f"{field(desk, header)}[aria-invalid=true]")
    desk.forgive("400")


async def test_stock_is_moved_for_a_reason_and_each_move_is_listed(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name="Fair mug", total=5)
    await stall.round(await stall.wheel(prize), "winner")
    await desk.enter("designer", path=f"/prizes/{prize}")
    page = desk.page
    await page.wait_for_selector("main .part .empty")
    await desk.press("Adjust", within="main")
    await page.fill("dialog [name=change]", "-5")
    await page.fill("dialog [name=reason]", "miscounted")
    await desk.press("Adjust", within="dialog")
    await page.wait_for_selector("dialog [name=change][aria-invalid=true], dialog .problem")
    desk.forgive("400")
    assert await violations(page) == []
    await page.fill("dialog [name=change]", "7")
    await page.fill("dialog [name=reason]", EVIL)
    await desk.press("Adjust", within="dialog")
    assert await desk.told() == "Fair mug: 5 before, 12 now."
    await desk.until("document.querySelector('.tile b').textContent === '11'")
    row = await page.locator("main tbody tr").text_content()
    assert row is not None and EVIL in row and "5 → 12" in row and "ann" in row
    await desk.press("Adjust", within="main")
    await page.select_option("dialog [name=by]", "unlimited")
    await page.fill("dialog [name=reason]", "made on the spot")
    await desk.press("Adjust", within="dialog")
    await desk.until("document.querySelectorAll('main tbody tr').length === 2")
    now = (await desk.stack.admin("GET", f"/admin/prizes/{prize}")).data["stock"]
    assert now == {"total": 0, "remaining": 0, "awarded": 1}
    assert await page.evaluate("window.evil") is None


async def test_who_saves_over_somebody_s_change_is_told_so_first(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name="Fair mug", total=5)
    await desk.enter("admin", path=f"/prizes/{prize}")
    await desk.stack.admin("PUT", f"/admin/prizes/{prize}", {"name": "Their mug"})
    await desk.page.fill(field(desk, "value"), "9")
    await desk.press("Save", within="main")
    await desk.page.wait_for_selector("main .problem:has-text('Name')")
    assert await desk.page.input_value(field(desk, "value")) == "9"
    await desk.press("Save", within="main")
    await desk.page.wait_for_selector(".head h1:has-text('Their mug')")
    now = (await desk.stack.admin("GET", f"/admin/prizes/{prize}")).data
    assert (now["name"], now["value"]) == ("Their mug", 9)


async def test_prizes_are_found_by_what_is_filtered(desk: Desk, stall: World) -> None:
    own = {"campaign_id": stall.campaign_id}
    await stall.prize(name="Fair mug")  # No campaign's: it is not found.
    mug = await stall.prize(name="Fair mug", type="goods", total=20, **own)
    await stall.prize(name="Points", type="points", value=5, **own)
    voucher = await stall.prize(name="Voucher", type="voucher", fulfillment={"channel": "voucher_code"}, **own)
    await desk.stack.admin("POST", f"/admin/prizes/{voucher}/codes", {"codes": ["A-1", "A-2", "A-3"]})
    gone = await stall.prize(name="Old mug", **own)
    await stall.round(await stall.wheel(gone), "someone")
    await stall.database.execute("UPDATE prizes SET status = 'archived' WHERE prize_id = $1", gone)
    await desk.enter("reward_manager", path=f"/prizes?campaign_id={stall.campaign_id}")
    await desk.until("document.querySelectorAll('tbody tr').length === 3")
    assert await desk.rows() == ["Voucher", "Points", "Fair mug"]
    row = await desk.page.locator("tbody tr", has_text="Voucher").text_content()
    assert row is not None and "unlimited3" in row
    assert await desk.page.locator("tbody tr", has_text="Fair mug").locator("progress").get_attribute("max") == "20"
    await desk.page.get_by_label("Status", exact=True).select_option("archived")
    await desk.until("document.querySelectorAll('tbody tr').length === 1 && !!document.querySelector('tbody .status')")
    await desk.page.wait_for_selector("tbody tr:has-text('Old mug')")
    await desk.to(f"/prizes?campaign_id={stall.campaign_id}&type=goods&q=mug")
    await desk.until("document.querySelectorAll('tbody tr').length === 1")
    assert await desk.rows() == ["Fair mug"]
    # Who may only read it reads it, and finds who won it.
    await desk.page.get_by_role("link", name="Fair mug").click()
    await desk.page.wait_for_selector("main .details")
    assert await desk.page.locator("main form.schema").count() == 0
    await desk.press("Who won it", within="main")
    await desk.page.wait_for_url(f"**/rewards?prize_id={mug}")


@pytest.mark.parametrize(("role", "acts"), [("designer", {"Remove", "Adjust"}), ("reward_manager", set[str]())])
async def test_each_role_sees_what_it_may_do_with_a_prize(desk: Desk, stall: World, role: str, acts: set[str]) -> None:
    prize = await stall.prize(total=3)
    await desk.enter(role, path=f"/prizes/{prize}")
    assert {*await desk.page.locator("main .head button, main .part-head button").all_inner_texts()} == acts
    await desk.to("/prizes")
    assert await desk.page.get_by_role("button", name="New prize").count() == int(role == "designer")
    await desk.to("/prizes/new")
    assert ("nothing at this address" in await desk.page.inner_text("main")) == (role != "designer")


async def test_whatever_a_prize_is_called_stays_text(desk: Desk, stall: World) -> None:
    prize = await stall.prize(name=EVIL, type=EVIL, total=3, description=EVIL, terms=EVIL)
    await desk.enter("admin", path="/prizes")
    for path in ("/prizes", f"/prizes/{prize}"):
        await desk.to(path)
        assert EVIL in await desk.page.inner_text("main")
    await desk.press("Remove", within="main .head")
    assert EVIL in await desk.page.inner_text("dialog")
    await desk.enter("reward_manager", path=f"/prizes/{prize}")
    assert EVIL in await desk.page.inner_text("main")
    assert await desk.page.evaluate("window.evil") is None


async def test_axe_finds_nothing_and_prizes_fit_their_window(browser: Browser, stall: World) -> None:
    prize = await stall.prize(name="Fair mug", total=20, value=8)
    for n in range(3):
        await stall.round(await stall.wheel(prize), f"player_{n}")
    found: dict[str, list[str]] = {}
    for width, scheme in SCREENS:
        options = {**STILL, "viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        async with at_desk(browser, stall.stack, **options) as desk:
            await desk.enter("admin")
            for path in ("/prizes", "/prizes/new", f"/prizes/{prize}", "/prizes?q=none+such"):
                await desk.to(path)
                name = path.strip("/").replace(prize, "one").replace("/", "-").replace("?q=none+such", "-empty")
                await desk.shot(f"dashboard-{name}-{width}-{scheme}")
                wider = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
                assert not await desk.page.evaluate(wider), name
                if width < 1000:  # What is wider is the same, and axe is slow.
                    found[f"{name}-{width}"] = await violations(desk.page)
    assert {view: told for view, told in found.items() if told} == {}


async def test_a_prize_of_turns_asks_for_turns_and_says_what_cannot_be(desk: Desk, stall: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/prizes/new")
    value = page.locator("#content form.schema .field:has([name=value])")
    await page.fill(field(desk, "name"), "Three more")
    await desk.until("document.querySelector('.field:has([name=value]) label').textContent === 'Value'")
    await page.fill(field(desk, "type"), "turns")
    await desk.until("document.querySelector('.field:has([name=value]) label').textContent === 'Turns'")
    assert "1 to 1000" in str(await value.text_content())
    await page.fill(field(desk, "value"), "3")
    await page.select_option(field(desk, "fulfillment.channel"), "manual")
    await desk.press("Make prize", within="main")
    await page.wait_for_selector(f"{field(desk, 'fulfillment.channel')}[aria-invalid=true]")
    desk.forgive("400")
    assert await violations(page) == []
    await page.select_option(field(desk, "fulfillment.channel"), "none")
    await desk.press("Make prize", within="main")
    await page.wait_for_selector(".head h1:has-text('Three more')")
    prize_id = page.url.rsplit("/", 1)[1]
    made = (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}")).data
    assert (made["type"], made["value"]) == ("turns", 3)


async def test_currencies_are_offered_and_any_other_of_iso_4217_may_be_typed(desk: Desk, stall: World) -> None:
    page = desk.page
    await desk.enter("designer", path="/prizes/new")
    currency = page.locator(field(desk, "currency"))
    offered = await currency.evaluate("(it) => [...it.list.options].map((one) => one.value)")
    assert len(offered) == len({*offered}) > 10 and {*offered} <= CURRENCIES
    assert offered[:3] == ["EUR", "USD", "GBP"]
    other = sorted(CURRENCIES - {*offered})[0]
    await page.fill(field(desk, "name"), "Voucher")
    await page.fill(field(desk, "value"), "8")
    for typed, taken in (("XYZ", False), (other, True)):
        await currency.fill(typed)
        await desk.press("Make prize", within="main")
        if not taken:
            await page.wait_for_selector(f"{field(desk, 'currency')}[aria-invalid=true]")
            assert "ISO 4217" in await page.inner_text(".field:has([name=currency]) .wrong")
            desk.forgive("400")
    await page.wait_for_selector(".head h1:has-text('Voucher')")
    prize_id = page.url.rsplit("/", 1)[1]
    assert (await desk.stack.admin("GET", f"/admin/prizes/{prize_id}")).data["currency"] == other
    assert await currency.evaluate("(it) => it.list.options.length") == len(offered)
