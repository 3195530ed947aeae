"""What a prize asks of its winner, in the page: a form that loses nothing, and on the staff's side its editor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.panels import FOCUSED, open_as, panel, said
from tests.support.stack import Stack
from tests.support.staff import Desk
from tests.support.waiting import until
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

EVIL: Final = "\"'><img src=x onerror=window.evil=1><script>window.evil=1</script>{count}"
ASKED: Final[list[dict[str, Any]]] = [
    {"key": "name", "label": EVIL, "required": True},
    {"key": "address", "label": "Address", "kind": "CLAIM_FIELD_KIND_LONG_TEXT", "required": True},
    {"key": "size", "label": "Size", "kind": "CLAIM_FIELD_KIND_CHOICE", "options": ["M", EVIL]},
]
ON_CLAIM: Final = {"redemption_mode": "on_claim", "channel": "none"}


@pytest.fixture(scope="module")
def house(counter: Stack) -> Stack:
    return counter


@pytest_asyncio.fixture(loop_scope="session")
async def shopper(browser: Browser, house: Stack) -> AsyncIterator[Visit]:
    async with visiting(browser, house, **STILL) as visit:
        yield visit


async def won(stall: World, visit: Visit, player: str) -> str:
    """The reward of a prize that asks, with the panel of rewards open before its winner."""
    prize_id = await stall.prize(name="Mug", fulfillment=ON_CLAIM, claim_fields=ASKED)
    game = await stall.wheel(prize_id, access="public")
    reward_id = (await stall.round(game, player)).data["rewards"][0]["reward_id"]
    await open_as(visit, game, player)
    await panel(visit, "rewards")
    return str(reward_id)


async def answers(stall: World, reward_id: str) -> dict[str, str]:
    found = (await stall.stack.admin("GET", f"/admin/rewards/{reward_id}")).data["answers"]
    return {one["key"]: one["value"] for one in found}


async def focus_is_on(visit: Visit, name: str) -> None:
    async def is_there() -> bool:
        return await visit.page.evaluate(f"{FOCUSED}?.name") == name

    await until(is_there)


async def test_the_keyboard_alone_fills_the_form_in_and_nothing_typed_is_lost(stall: World, shopper: Visit) -> None:
    page = shopper.page
    reward_id = await won(stall, shopper, "ann")
    await page.press("dialog [data-act=ask]", "Enter")
    await focus_is_on(shopper, "name")
    assert EVIL in await page.inner_text("dialog form.claim label >> nth=0")
    assert await violations(page) == []
    await page.keyboard.type("Ann <b>Lee</b>")
    await page.keyboard.press("Enter")
    await focus_is_on(shopper, "address")
    await page.wait_for_selector("dialog form.claim [name=address][aria-invalid=true]")
    assert await page.input_value("dialog form.claim [name=name]") == "Ann <b>Lee</b>"
    assert await page.inner_text("dialog form.claim .wrong:not(:empty)") == "Please fill this in."
    assert await violations(page) == []
    await shopper.shot("claim-form")
    assert [call for call in shopper.api_calls() if "claim" in call] == [], "the service is not asked in vain"
    await page.keyboard.type("1 Mill Lane")
    await page.keyboard.press("Enter")
    await page.keyboard.type("Bath")
    # Closed and opened again: what was typed is there.
    await page.keyboard.press("Escape")
    await panel(shopper, "rewards")
    await page.click("dialog [data-act=ask]")
    assert await page.input_value("dialog form.claim [name=address]") == "1 Mill Lane\nBath"
    await page.select_option("dialog form.claim [name=size]", EVIL)
    await page.press("dialog form.claim [data-act=claim]", "Enter")
    await page.wait_for_selector("dialog [data-status=FULFILLED]")
    assert await said(shopper) == "Mug is claimed"
    assert await answers(stall, reward_id) == {"name": "Ann <b>Lee</b>", "address": "1 Mill Lane\nBath", "size": EVIL}
    assert await page.evaluate("window.evil") is None
    assert "Mill Lane" not in await page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")


async def test_what_the_service_refuses_is_told_at_its_field(stall: World, shopper: Visit) -> None:
    page = shopper.page
    reward_id = await won(stall, shopper, "bea")
    await page.click("dialog [data-act=ask]")
    await page.fill("dialog form.claim [name=name]", "\u202ebea")
    await page.fill("dialog form.claim [name=address]", "2 Mill Lane")
    await page.click("dialog form.claim [data-act=claim]")
    await page.wait_for_selector("dialog form.claim [name=name][aria-invalid=true]")
    shopper.forgive("400")
    await focus_is_on(shopper, "name")
    assert await page.inner_text("dialog form.claim .wrong:not(:empty)") == "Please check this."
    assert await page.input_value("dialog form.claim [name=address]") == "2 Mill Lane"
    await page.fill("dialog form.claim [name=name]", "Bea")
    await page.wait_for_selector("dialog form.claim [name=name][aria-invalid=false]")
    await page.click("dialog form.claim [data-act=claim]")
    await page.wait_for_selector("dialog [data-status=FULFILLED]")
    assert await answers(stall, reward_id) == {"name": "Bea", "address": "2 Mill Lane"}


async def test_a_form_whose_prize_asks_something_else_by_now_says_so(stall: World, shopper: Visit) -> None:
    page = shopper.page
    reward_id = await won(stall, shopper, "cleo")
    await page.click("dialog [data-act=ask]")
    await page.fill("dialog form.claim [name=name]", "Cleo")
    await page.fill("dialog form.claim [name=address]", "3 Mill Lane")
    prize_id = await stall.database.fetchval("SELECT prize_id FROM rewards WHERE reward_id = $1", reward_id)
    body = {"claim_fields": [*ASKED, {"key": "shoe", "label": "Shoe", "required": True}]}
    assert (await stall.stack.admin("PUT", f"/admin/prizes/{prize_id}", body)).code == "OK"
    await page.click("dialog form.claim [data-act=claim]")
    await page.wait_for_selector("dialog .refusal >> text=Open this list again")
    shopper.forgive("400")
    assert await page.input_value("dialog form.claim [name=name]") == "Cleo"


async def test_staff_defines_what_is_asked_and_reads_the_answers(desk: Desk, stall: World) -> None:
    page = desk.page
    prize_id = await stall.prize(name="Mug")
    await desk.enter("designer", path=f"/prizes/{prize_id}")
    form = "#content form.schema"
    await page.get_by_role("button", name="Add to what a claim asks").click()
    await page.fill(f"{form} [name='claim_fields[0].key']", "size")
    await page.fill(f"{form} [name='claim_fields[0].label']", EVIL)
    await page.select_option(f"{form} [name='claim_fields[0].kind']", "CLAIM_FIELD_KIND_CHOICE")
    await page.fill(f"{form} [name='claim_fields[0].options']", "M\n\n L \n")
    await page.check(f"{form} [name='claim_fields[0].required']")
    await desk.press("Save", within="main")
    await page.wait_for_selector(f"{form} .rows [role=alert]")
    desk.forgive("400")
    assert await violations(page) == []
    await page.select_option(f"{form} [name='fulfillment.redemption_mode']", "REDEMPTION_MODE_ON_CLAIM")
    await desk.press("Save", within="main")
    await page.wait_for_selector(".toast:has-text('Saved')")
    asked = (await stall.stack.admin("GET", f"/admin/prizes/{prize_id}")).data["claim_fields"]
    kind = "CLAIM_FIELD_KIND_CHOICE"
    assert asked == [{"key": "size", "label": EVIL, "kind": kind, "required": True, "options": ["M", "L"]}]
    reward_id = (await stall.round(await stall.wheel(prize_id), "dora")).data["rewards"][0]["reward_id"]
    body = {"answers": {"size": "L"}}
    claimed = await stall.stack.consumer("POST", f"/rewards/{reward_id}/claim", body, player="dora")
    assert claimed.code == "OK"
    for role, shown in (("designer", "****"), ("reward_manager", "L")):
        await desk.enter(role, path=f"/rewards?prize_id={prize_id}")
        await page.get_by_role("button", name="Answers for Mug").click()
        await page.wait_for_selector("dialog dd")
        assert await page.inner_text("dialog dd") == shown
        assert EVIL in await page.inner_text("dialog dt")
        assert await violations(page) == []
        await page.keyboard.press("Escape")
    await desk.enter("reward_manager", path="/players/dora")
    await page.get_by_role("button", name="Answers for Mug").click()
    await page.wait_for_selector("dialog dd")
    assert await page.inner_text("dialog dd") == "L"
    assert await page.evaluate("window.evil") is None
