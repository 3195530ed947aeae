"""The panels in which players enter codes, typed or scanned, and see prize draws."""

from tests.support.axe import violations
from tests.support.browsing import Visit
from tests.support.chromium import Page
from tests.support.packs import TICKETS, make_pack, redeem
from tests.support.panels import open_as, panel
from tests.support.world import World

SEND = "dialog [data-act=codes]"

CAMERA = """(refuses) => {
    const read = { rawValue: "https://brand.example/?code=SCAN-0001" };
    window.BarcodeDetector = class { async detect() { return [read]; } };
    const stream = async () => {
        if (refuses) throw new DOMException("no", "NotAllowedError");
        const stream = document.createElement("canvas").captureStream();
        window.stopped = () => stream.getTracks().every((track) => track.readyState === "ended");
        return stream;
    };
    Object.defineProperty(navigator, "mediaDevices", { value: { getUserMedia: stream }, configurable: true });
    HTMLMediaElement.prototype.play = async () => {};
}"""


async def enter(page: Page, code: str) -> None:
    await page.fill("dialog input[name=code]", code)
    await page.click(SEND)


async def test_code_gives_turns_to_a_visitor_and_opens_the_game(fair: World, visit: Visit) -> None:
    await make_pack(fair, "OPEN-0001", "OPEN-0002")
    await make_pack(fair, "TICKET-01", gives=TICKETS)
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"requires_turn": True})
    await visit.open(game_id)
    await panel(visit, "codes")
    assert await violations(visit.page) == []
    await enter(visit.page, "nothing-1")
    await visit.page.wait_for_selector("dialog >> text=This code does not exist")
    await enter(visit.page, "open ooo1")
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")
    await enter(visit.page, "open-0001")
    await visit.page.wait_for_selector("dialog >> text=already been used")
    await enter(visit.page, "TICKET-01")
    await visit.page.wait_for_selector("dialog >> text=5 ticket added")
    await visit.page.keyboard.press("Escape")
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("404")
    visit.forgive("409")


async def test_camera_reads_a_code_and_is_switched_off(fair: World, visit: Visit) -> None:
    await make_pack(fair, "SCAN-0001")
    await visit.page.add_init_script(f"({CAMERA})(false)")
    await open_as(visit, await fair.wheel(await fair.prize(), access="public"), "scanner")
    await panel(visit, "codes")
    await visit.page.click("dialog [data-act=scan]")
    await visit.page.wait_for_function("() => document.querySelector('tombola-game') && window.stopped?.()")
    assert await visit.page.input_value("dialog input[name=code]") == "SCAN-0001"
    await visit.page.click(SEND)
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")


async def test_refused_camera_leaves_the_field(fair: World, visit: Visit) -> None:
    await make_pack(fair, "TYPED-001")
    await visit.page.add_init_script(f"({CAMERA})(true)")
    await open_as(visit, await fair.wheel(await fair.prize(), access="public"), "shy")
    await panel(visit, "codes")
    await visit.page.click("dialog [data-act=scan]")
    await visit.page.wait_for_selector("dialog >> text=The camera cannot be used")
    await enter(visit.page, "TYPED-001")
    await visit.page.wait_for_selector("dialog >> text=2 turns earned")


async def test_draws_show_tickets_until_now_and_then_what_was_won(fair: World, visit: Visit) -> None:
    prize_id = await fair.prize(name="Bicycle", total=1)
    game_id = await fair.wheel(await fair.prize(), access="public")
    await make_pack(fair, "TICKET-01", gives=TICKETS)
    await open_as(visit, game_id, "lucky")
    assert (await redeem(fair, "TICKET-01", "lucky")).code == "OK"
    draw = {"campaign_id": fair.campaign_id, "name": "Autumn raffle", "tickets": {"currency": "ticket"}}
    draw |= {"prizes": [{"prize_id": prize_id, "count": 1}], "randomness": {"kind": "INTERNAL"}}
    draw_id = (await fair.stack.admin("POST", "/admin/draws", draw)).data["id"]
    await open_as(visit, game_id, "lucky")
    await panel(visit, "draws")
    await visit.page.wait_for_selector("dialog [data-draw]:has-text('Bicycle') >> text=You have 5 tickets")
    assert await violations(visit.page) == []
    for step in ("close", "draw", "confirm"):
        assert (await fair.stack.admin("POST", f"/admin/draws/{draw_id}/{step}", {})).code == "OK"
    await visit.page.keyboard.press("Escape")
    await panel(visit, "draws")
    await visit.page.wait_for_selector("dialog [data-draw] >> text=You won: Bicycle")
    await visit.page.set_viewport_size({"width": 390, "height": 800})
    await visit.shot("draws-390")
