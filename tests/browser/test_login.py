import asyncio
from typing import Any, Final

import pytest

from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser, Route
from tests.support.login import Phone, let_resend
from tests.support.pages.games import owners, public_wheel
from tests.support.pages.login import (
    ACCOUNT,
    SET_TOKEN,
    STORED,
    SUBMIT,
    ask_for_code,
    enter_code,
    login_of,
    sign_in,
    sign_out,
)
from tests.support.pages.looks import SCREENS, accessible, window
from tests.support.world import World

PLAY: Final = "**/api/v1/games/*/play"
REFRESH: Final = "**/api/v1/players/auth/refresh"


async def expire(fair: World, visit: Visit, login: dict[str, Any]) -> None:
    await visit.page.evaluate(SET_TOKEN, fair.stack.token(login["player"]["id"], seconds=-3600))


async def test_guest_who_won_signs_in_keeps_it_and_signs_out(fair: World, visit: Visit, phone: Phone) -> None:
    contact = "+12025550171"
    await visit.open(await public_wheel(fair))
    await visit.page.evaluate("window.same = true")
    await visit.press()
    assert await visit.kind() == "won"
    login = await sign_in(visit, phone, contact, by=".card [data-next]")
    assert login["player"]["contacts"][0]["value"] == contact
    bearer = {"Authorization": f"Bearer {login['token']}"}
    mine = await visit.stack.consumer("GET", "/rewards/me", headers=bearer)
    assert [reward["name"] for reward in mine.data["items"]] == ["Mug"]
    assert await visit.page.is_visible(".card[data-result=won]") and await visit.page.evaluate("window.same")
    assert await visit.page.inner_text(".card [data-next]") == "My rewards"
    stored = await visit.page.evaluate("Object.keys(localStorage).map((name) => name.split(':')[0])")
    assert stored == ["tombola.login"], "the guest is forgotten"
    await visit.reload()
    assert await visit.page.evaluate(ACCOUNT) == f"Signed in as {contact}"
    await visit.press()
    assert await visit.kind() == "won"
    assert await owners(fair) == [login["player"]["id"]] * 2
    await visit.page.click("[data-panel=login]")
    await visit.click("dialog button:has-text('Sign out')", then="dialog >> text=You are signed out")
    assert await visit.page.evaluate(STORED) is None and await visit.page.evaluate(ACCOUNT) == "Sign in"
    assert (await visit.stack.consumer("GET", "/players/me", headers=bearer)).reason == "TOKEN_INVALID"
    again = await visit.stack.consumer("POST", "/players/auth/refresh", {"refresh_token": login["refresh_token"]})
    assert again.http == 401
    await visit.page.keyboard.press("Escape")
    assert await visit.play()
    assert len(set(await owners(fair))) == 2, "the next play is another guest's"


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_login_form_fits_says_what_is_wrong_and_survives_a_reload(
    fair: World, browser: Browser, phone: Phone, width: int, scheme: str
) -> None:
    async with visiting(browser, fair.stack, **STILL, **window(width, scheme)) as visit:
        found: dict[str, list[str]] = {}
        await fill_login_form(fair, visit, phone, f"{width}-{scheme}", found)
        assert found == {}


async def fill_login_form(fair: World, visit: Visit, phone: Phone, name: str, found: dict[str, list[str]]) -> None:
    contact, alert = f"somebody.with.a.long.name.{name}@again.test", "dialog [role=alert]"
    await visit.open(await public_wheel(fair, access="player"))
    assert "Please sign in to play" in await visit.result()
    await visit.page.click(".card [data-next]")
    for way, written, message in (
        *(("email", "ada", "Enter a valid email address"), ("email", "ada@@x", "Enter a valid email address")),
        *(("phone", "0151 123", "with country code"), ("phone", "+999999999999", "with country code")),
    ):
        await visit.page.check(f"dialog [value={way}]")
        assert await visit.page.get_attribute("#login-field", "type") == {"email": "email", "phone": "tel"}[way]
        await visit.page.fill("#login-field", written)
        await visit.click(SUBMIT, then=f"{alert}:has-text('{message}')")
        await accessible(visit, f"login-wrong-{name}", found)
    await ask_for_code(visit, contact)
    await accessible(visit, f"login-code-{name}", found)
    assert await visit.page.is_hidden("dialog .more button:has-text('Resend code')")
    assert "Resend code in" in await visit.page.inner_text("dialog .more")
    await visit.page.click("dialog button:has-text('Change email')")
    await visit.click(SUBMIT, then=f"{alert}:has-text('Too many attempts')")
    await let_resend(visit.stack)
    await visit.click(SUBMIT, then="dialog >> text=Code sent")
    field = visit.page.locator("#login-field")
    assert await field.get_attribute("autocomplete") == "one-time-code"
    assert await field.get_attribute("inputmode") == "numeric"
    await field.fill(phone.wrong(contact))
    await field.press("Enter")
    await visit.page.wait_for_selector(f"{alert}:has-text('4 attempts left')")
    await accessible(visit, f"login-tries-{name}", found)
    assert await field.get_attribute("aria-invalid") == "true"
    assert await field.get_attribute("aria-describedby") == "login-wrong"
    assert await visit.page.evaluate("document.activeElement.shadowRoot.activeElement.id") == "login-field"
    later = """() => {
        const name = Object.keys(sessionStorage).find((name) => name.startsWith("tombola.challenge"));
        const kept = JSON.parse(sessionStorage.getItem(name));
        sessionStorage.setItem(name, JSON.stringify({...kept, resend_at: 1}));
    }"""
    await visit.page.evaluate(later)
    await visit.reload()
    await visit.click(".card [data-next]", then=f"dialog >> text=Code sent to {contact}")
    await let_resend(visit.stack)
    await visit.click("dialog .more button:has-text('Resend code')", then="dialog >> text=New code sent")
    await enter_code(visit, phone, contact)
    await visit.page.wait_for_selector(".card", state="hidden")
    await visit.press()
    assert await visit.kind() == "won"
    await visit.page.click("[data-panel=login]")
    await accessible(visit, f"login-account-{name}", found)
    visit.forgive("400", "401", "429")


@pytest.mark.parametrize("answer", ["lost", "late"])
async def test_expired_token_is_refreshed_during_a_play(fair: World, visit: Visit, phone: Phone, answer: str) -> None:
    await visit.open(await public_wheel(fair))
    login = await sign_in(visit, phone, "fay@renew.test")
    requests: list[str] = []
    sent: list[str] = []
    over = asyncio.Event()

    async def note(route: Route) -> None:
        requests.append(route.request.headers["idempotency-key"])
        await route.continue_()

    async def lose(route: Route) -> None:
        sent.append(route.request.post_data or "")
        if len(sent) > 1:
            return await route.continue_()
        await route.fetch()  # The tokens are rotated, and the page does not hear of it.
        if answer == "late":
            await over.wait()
        return await route.abort("connectionreset")

    await visit.page.route(PLAY, note)
    await visit.page.route(REFRESH, lose)
    await visit.press()
    assert await visit.kind() == "won"
    await expire(fair, visit, login)
    try:
        await visit.press(then=".frame:not([data-state=won])")
        await visit.page.wait_for_selector(".frame[data-state=won]")
    finally:
        over.set()
    assert len(sent) == 2 and len(set(sent)) == 1 and len(requests) == 3 and len(set(requests[1:])) == 1
    now = await login_of(visit)
    assert now["refresh_token"] != login["refresh_token"] and now["player"]["id"] == login["player"]["id"]
    assert await owners(fair) == [login["player"]["id"]] * 2
    visit.forgive("401", "ERR_CONNECTION_RESET")


async def test_play_under_way_is_shown_once_to_who_signs_in_meanwhile(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await public_wheel(fair))
    login = await sign_in(visit, phone, "gus@ended.test")
    bearer = {"Authorization": f"Bearer {login['token']}"}
    keys: list[str] = []

    async def note(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:  # Between the start and the play.
            ended = await visit.stack.consumer("POST", "/players/auth/logout", {"everywhere": True}, headers=bearer)
            assert ended.http == 200
        await route.continue_()

    await visit.page.route(PLAY, note)
    await visit.press()
    assert "sign in again" in await visit.result()
    await let_resend(visit.stack)
    await sign_in(visit, phone, "gus@ended.test", by=".card [data-next]")
    await visit.page.wait_for_selector(".card[data-result=won]")
    assert len(set(keys)) == 1 and await owners(fair) == [login["player"]["id"]]
    visit.forgive("401")
    # A guest's play, whose answer was lost.
    await visit.page.unroute(PLAY)
    await sign_out(visit)
    await visit.open(await public_wheel(fair))
    keys.clear()
    heard = False

    async def lose(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) == 1:
            await route.fetch()
        await (route.continue_() if heard else route.abort("connectionreset"))

    await visit.page.route(PLAY, lose)
    await visit.press(then="text=This is taking longer than usual")
    login = await sign_in(visit, phone, "hal@lost.test")
    heard = True
    assert await visit.kind() == "won"
    assert len(set(keys)) == 1 and (await owners(fair)).count(login["player"]["id"]) == 1
    visit.forgive("ERR_CONNECTION_RESET", "401")


async def test_tabs_share_a_login_its_tokens_and_the_earlier_guest(fair: World, browser: Browser, phone: Phone) -> None:
    async with visiting(browser, fair.stack, **STILL) as visit:
        game_id = await public_wheel(fair)
        await visit.open(game_id)
        await visit.play()
        other = Visit(await visit.page.context.new_page(), fair.stack)
        await other.open(game_id)
        await other.play()  # Holds the next session, as the guest.
        await visit.page.bring_to_front()
        login = await sign_in(visit, phone, "joe@tabs.test")
        await other.play()
        assert await owners(fair) == [login["player"]["id"]] * 3
        await expire(fair, visit, login)
        await visit.play()
        assert (await login_of(visit))["refresh_token"] != login["refresh_token"]
        await other.play()
        assert await owners(fair) == [login["player"]["id"]] * 5
        visit.forgive("401")
