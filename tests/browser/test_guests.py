import asyncio
import re
from contextlib import suppress
from typing import Final

import pytest

from runtime.http.pages import files
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser, Route
from tests.support.login import Phone
from tests.support.packs import make_pack
from tests.support.pages.games import ALBUM, ROOT, collection, owners, public_wheel, rungs
from tests.support.pages.login import SET_GUEST, STORED, sign_in, sign_out
from tests.support.panels import panel
from tests.support.waiting import until
from tests.support.world import World

API: Final = "**/api/v1/**"
NO_LOCKS: Final = "Object.defineProperty(Navigator.prototype, 'locks', { value: undefined })"
ASIDE: Final = "(Object.entries(localStorage).find(([name]) => name.startsWith('tombola.aside:'))?.[1] ?? '')"
SIGNED_IN: Final = """() => [...document.querySelectorAll("tombola-game")].every(
    (one) => one.shadowRoot.querySelector("[data-panel=login]").textContent.includes("Signed in"))"""


async def refuse_token(visit: Visit, reason: str, token: str) -> None:
    async def refuse(route: Route) -> None:
        if token not in route.request.headers.get("authorization", ""):
            return await route.continue_()
        body = {"code": "UNAUTHENTICATED", "message": "", "trace_id": "", "data": {"reason": reason}}
        return await route.fulfill(status=401, json=body)

    await visit.page.route(API, refuse)


async def test_refused_guest_is_the_guest_again_once_its_token_works(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await public_wheel(fair))
    await visit.play()
    token = await visit.guest_token()
    for reason in ("TOKEN_INVALID", "TOKEN_EXPIRED"):
        await refuse_token(visit, reason, token)
        await visit.page.reload()
        await visit.page.wait_for_function(f"() => {ASIDE} !== ''")
        await visit.page.unroute(API)
        await visit.page.reload()
        await visit.page.wait_for_function(f"() => {ASIDE} === ''")
        assert await visit.guest_token() == token, reason
        await visit.page.wait_for_function(f"() => {ROOT}.querySelector('.main')")
        await visit.play()
    assert len(await owners(fair)) == 3 and len(set(await owners(fair))) == 1
    # Also after another guest has played and signed in meanwhile.
    await refuse_token(visit, "TOKEN_INVALID", token)
    await visit.page.evaluate("sessionStorage.clear()")
    await visit.reload()
    await visit.play()
    assert await visit.guest_token() != token and token in await visit.page.evaluate(ASIDE)
    await visit.page.unroute(API)
    login = await sign_in(visit, phone, "ned@aside.test")
    await visit.page.reload()
    await visit.page.wait_for_function(f"() => {ASIDE} === ''")
    assert await visit.guest_token() == token
    found = await owners(fair)
    assert found.count(login["player"]["id"]) == 1 and len(found) == 4
    visit.forgive("401")


async def test_guest_of_an_expired_token_plays_as_another_or_signs_in(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await public_wheel(fair))
    await visit.play()
    await visit.page.evaluate(SET_GUEST, fair.stack.token((await owners(fair))[0], seconds=-3600))
    await visit.play()
    await visit.play()
    assert len(await owners(fair)) == 3
    await visit.page.evaluate(SET_GUEST, fair.stack.token((await owners(fair))[0], seconds=-3600))
    login = await sign_in(visit, phone, "max@late.test")
    await visit.page.evaluate("sessionStorage.clear()")
    await visit.reload()
    await visit.play()
    await visit.play()
    found = await owners(fair)
    assert len(found) == 5 and found.count(login["player"]["id"]) >= 2
    visit.forgive("401")


async def test_suspended_guest_is_not_merged_and_stays_in_the_browser(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await public_wheel(fair))
    await visit.play()
    token, [guest] = await visit.guest_token(), await owners(fair)
    await fair.database.execute("UPDATE players SET status = 'suspended' WHERE player_id = $1", guest)
    login = await sign_in(visit, phone, "pia@kept.test")
    assert login["player"]["id"] != guest and "guest_merged" not in login
    assert await owners(fair) == [guest] and await visit.guest_token() == token


async def test_guest_lasts_as_long_as_the_page_if_the_storage_is_full(fair: World, visit: Visit) -> None:
    full = "Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); }"
    await visit.page.add_init_script(f"{NO_LOCKS}; {full}")
    await visit.open(await public_wheel(fair))
    await visit.play()
    await visit.play()
    assert len(await owners(fair)) == 2 and len(set(await owners(fair))) == 1


@pytest.mark.parametrize("locks", [True, False])
async def test_tabs_of_one_browser_share_one_guest_and_play_count(fair: World, browser: Browser, locks: bool) -> None:
    async with visiting(browser, fair.stack, **STILL) as visit:
        if not locks:
            await visit.page.context.add_init_script(NO_LOCKS)
        game_id = await public_wheel(fair, rules={"max_plays_per_user": 4})
        other = Visit(await visit.page.context.new_page(), fair.stack)
        for one in (visit, other):
            await one.open(game_id)
        under_way: list[str] = []

        async def slowly(route: Route) -> None:
            under_way.append(route.request.headers.get("authorization", ""))
            for one in (visit, other):  # Both have begun by now.
                await one.page.wait_for_selector(".frame:not([data-state=ready])")
            await route.continue_()

        await visit.page.context.route("**/api/v1/games/*/start", slowly)
        await asyncio.gather(visit.play(), other.play())
        assert len(await owners(fair)) == 2 and len(set(await owners(fair))) == 1
        assert [bool(bearer) for bearer in under_way] == [False, True]
        await visit.page.context.unroute("**/api/v1/games/*/start")
        await other.page.reload()
        await other.page.wait_for_function(f"() => {ROOT}.querySelector('.left')?.textContent === '2 plays left'")
        assert (await other.play())["play_id"]
        await visit.play()
        assert len(await fair.plays()) == 4 and len(set(await owners(fair))) == 1


async def test_code_redeemed_during_the_first_start_makes_no_second_guest(fair: World, visit: Visit) -> None:
    await make_pack(fair, "OPEN-0001")
    await visit.open(await public_wheel(fair))
    redeemed = asyncio.Event()

    async def slowly(route: Route) -> None:
        with suppress(TimeoutError):  # Redeeming waits for it.
            await asyncio.wait_for(redeemed.wait(), 3)
        await route.continue_()

    await visit.page.route("**/start", slowly)
    await visit.press()
    await panel(visit, "codes")
    await visit.page.fill("dialog input[name=code]", "OPEN-0001")
    await visit.click("dialog [data-act=codes]", then="dialog >> text=2 turns earned")
    redeemed.set()
    await until(lambda: owners(fair), bool)
    redeemer = "SELECT player_id FROM redemptions WHERE tenant_id = $1"
    assert await owners(fair) == [await fair.database.fetchval(redeemer, fair.stack.tenant_id)]


async def test_login_reaches_all_tabs_and_broadcasts_no_token(fair: World, browser: Browser, phone: Phone) -> None:
    second = """([id, tenant]) => {
        const game = document.createElement("tombola-game");
        game.setAttribute("game", id);
        game.setAttribute("tenant", tenant);
        window.heard = [];
        new BroadcastChannel("tombola.login").onmessage = ({ data }) => window.heard.push(data);
        return new Promise((ready) => {
            game.addEventListener("tombola:ready", ready);
            document.querySelector("main").append(game);
        });
    }"""
    async with visiting(browser, fair.stack, **STILL) as visit:
        other = Visit(await visit.page.context.new_page(), fair.stack)
        two = await public_wheel(fair, rules={"max_plays_per_user": 3})
        for one in (visit, other):
            await one.open(await public_wheel(fair))
            await one.page.evaluate(second, [two, fair.stack.tenant_id])
        await visit.page.bring_to_front()  # A tab in the background is slow to take a click.
        login = await sign_in(visit, phone, "rex@page.test", by="[data-panel=login] >> nth=0")
        for one in (visit, other):
            await one.page.wait_for_function(SIGNED_IN)
        await other.page.evaluate("document.querySelectorAll('tombola-game')[1].play()")
        assert await owners(fair) == [login["player"]["id"]]
        await other.page.bring_to_front()
        await other.page.locator("[data-panel=login]").nth(1).click()
        await other.page.click("dialog button:has-text('Sign out')")
        await visit.page.wait_for_function(SIGNED_IN.replace("Signed in", "Sign in"))
        assert await visit.page.evaluate("window.heard") == await other.page.evaluate("window.heard") == []
        assert await visit.page.evaluate(STORED) is None


async def test_sign_out_leaves_no_session_to_the_next_player(fair: World, browser: Browser, phone: Phone) -> None:
    async with visiting(browser, fair.stack, **STILL) as visit:
        games = [await public_wheel(fair) for _ in range(2)]
        other = Visit(await visit.page.context.new_page(), fair.stack)
        await visit.open(games[0])
        await visit.page.bring_to_front()
        login = await sign_in(visit, phone, "sue@leaves.test")
        for one, game_id in ((visit, games[1]), (visit, games[0]), (other, games[0])):
            await one.open(game_id)
            await one.play()  # The next session is kept.
        query = "Object.keys(sessionStorage).filter((name) => name.startsWith('tombola.play')).length"
        assert (await visit.page.evaluate(query), await other.page.evaluate(query)) == (2, 1)
        await other.page.bring_to_front()
        await other.click("[data-panel=history]", then="dialog li")
        await sign_out(visit)
        assert await visit.page.evaluate(query) == 0
        await other.page.wait_for_selector("dialog .blank")
        assert await other.page.evaluate(query) == 0
        await visit.open(games[1])
        for one in (visit, other):
            await one.play()
        found = await owners(fair)
        assert found.count(login["player"]["id"]) == 3 and len(set(found)) == 2 and len(found) == 5


async def test_album_is_that_of_the_player_and_follows_a_redemption(fair: World, visit: Visit, phone: Phone) -> None:
    game_id = await collection(fair, rules={"max_plays_per_user": 2})
    await visit.open(game_id)
    await visit.play()
    leaves = f"{ALBUM}['Maple leaf']"
    assert await visit.page.evaluate(leaves) == 2
    contact = {"contact": {"type": "CONTACT_TYPE_EMAIL", "value": "tia@album.test"}}
    player_id = (await fair.stack.core("POST", "/players/resolve", contact)).data["player"]["id"]
    assert (await fair.round(game_id, player_id)).code == "OK"
    await sign_in(visit, phone, "tia@album.test")
    await visit.page.wait_for_function(f"() => {leaves} === 4")
    assert await rungs(visit) == ["Redeem", "4 / 8"]
    await sign_out(visit)
    await visit.page.wait_for_function(f"() => {leaves} === 0")
    assert await rungs(visit) == ["0 / 3", "0 / 8"]
    rung = {"name": "Leaves", "currency": "maple", "threshold": 2, "prize_id": await fair.prize(name="Jar")}
    milestones = {"mode": "spend_exchange", "rungs": [rung]}
    assert (await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"milestones": milestones})).code == "OK"
    await visit.open(game_id)
    await visit.play()
    assert await visit.page.evaluate(leaves) == 2
    await visit.page.click("[data-panel=milestones]")
    await visit.page.click("dialog [data-act=redeem]")
    await visit.page.wait_for_function(f"() => {leaves} === 0")


async def test_page_loaded_before_an_update_plays_on_with_its_parts(fair: World, visit: Visit, phone: Phone) -> None:
    """Its entry lacks what today's parts import; they bring an entry of their own."""
    address, old = files.files().address(""), f"/widget/{'0' * 16}/"

    async def old_page(route: Route) -> None:
        answer = await route.fetch()
        await route.fulfill(response=answer, body=(await answer.text()).replace(address, old))

    async def old_entry(route: Route) -> None:
        entry = files.files().documents[files.ENTRY].plain.body.decode()
        await route.fulfill(body=re.sub(r"export ?{.*?};", "", entry, flags=re.DOTALL), content_type="text/javascript")

    await visit.page.route("**/p/*", old_page)
    await visit.page.route(f"**{old}{files.ENTRY}", old_entry)
    await visit.open(await public_wheel(fair))
    await visit.press()
    assert await visit.kind() == "won"
    login = await sign_in(visit, phone, "vic@update.test", by=".card [data-next]")
    await visit.page.wait_for_function(SIGNED_IN)
    await visit.press(then=".frame[data-state=won]")
    assert await owners(fair) == [login["player"]["id"]] * 2
    assert any(old in one for one in visit.asked) and any(f"{address}games/wheel.js" in one for one in visit.asked)
