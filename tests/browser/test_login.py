"""Who plays as a guest signs in by phone or e-mail, without losing the page, a play, or what was won."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import STILL, Visit, visiting
from tests.support.login import Phone, let_resend
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAY = "**/api/v1/games/*/play"
REFRESH = "**/api/v1/players/auth/refresh"
SUBMIT = "dialog .login [type=submit]"
LOGIN = "Object.entries(localStorage).find(([name]) => name.startsWith('tombola.login'))?.[1] ?? null"
SET_LOGIN = """([token, refresh]) => {
    const [name, kept] = Object.entries(localStorage).find(([name]) => name.startsWith("tombola.login"));
    const login = JSON.parse(kept);
    localStorage.setItem(name, JSON.stringify({...login, token, refresh_token: refresh ?? login.refresh_token}));
}"""
ACCOUNT = "document.querySelector('tombola-game').shadowRoot.querySelector('[data-panel=login]').lastChild.textContent"


@pytest.fixture
def phone(capsys: pytest.CaptureFixture[str]) -> Phone:
    return Phone(capsys)


async def game(fair: World, **fields: Any) -> str:
    return await fair.wheel(await fair.prize(name="Mug"), **{"access": "public", **fields})


async def ask_for_code(visit: Visit, contact: str) -> None:
    """From the open panel to where the code goes."""
    if not contact.startswith("+"):
        await visit.page.check("dialog [value=email]")
    else:
        await visit.page.check("dialog [value=phone]")
    await visit.page.fill("#login-field", contact)
    await visit.page.click(SUBMIT)
    await visit.page.wait_for_selector(f"dialog >> text=We have sent a code to {contact}")


async def enter(visit: Visit, phone: Phone, contact: str) -> None:
    await visit.page.fill("#login-field", phone.code(contact))
    await visit.page.click(SUBMIT)
    await visit.page.wait_for_selector("dialog >> text=You are signed in as")
    await visit.page.click("dialog .main:has-text('Back to the game')")


async def sign_in(visit: Visit, phone: Phone, contact: str, by: str = "[data-panel=login]") -> dict[str, Any]:
    """What the browser holds of the login then."""
    await visit.page.click(by)
    await ask_for_code(visit, contact)
    await enter(visit, phone, contact)
    return await login_of(visit)


async def login_of(visit: Visit) -> dict[str, Any]:
    return dict(json.loads(await visit.page.evaluate(LOGIN)))


async def owners(fair: World) -> list[str]:
    """Whose the campaign's plays are, as merges have it."""
    rows = await fair.database.fetch(
        "SELECT coalesce(nullif(o.merged_into, ''), o.player_id) AS owner FROM plays AS p"
        " JOIN games AS g USING (tenant_id, game_id) JOIN players AS o USING (tenant_id, player_id)"
        " WHERE g.campaign_id = $1",
        fair.campaign_id,
    )
    return [row["owner"] for row in rows]


@pytest.mark.parametrize("contact", ["ada@keep.test", "+12025550171"])
async def test_a_guest_who_won_signs_in_and_keeps_it(fair: World, visit: Visit, phone: Phone, contact: str) -> None:
    await visit.open(await game(fair))
    await visit.page.evaluate("window.same = true")
    await visit.press()
    assert await visit.kind() == "won"
    login = await sign_in(visit, phone, contact, by=".card [data-keep]")
    assert login["player"]["contacts"][0]["value"] == contact
    mine = await visit.stack.consumer("GET", "/rewards/me", headers={"Authorization": f"Bearer {login['token']}"})
    assert [reward["name"] for reward in mine.data["items"]] == ["Mug"]
    assert await visit.page.is_visible(".card[data-result=won]") and await visit.page.evaluate("window.same")
    assert await visit.page.is_hidden(".card [data-keep]")
    assert await visit.page.evaluate(ACCOUNT) == f"Signed in: {contact}"
    kept = await visit.page.evaluate("Object.keys(localStorage).map((name) => name.split(':')[0])")
    assert kept == ["tombola.login"], "the guest is no more"
    await visit.page.reload()
    await visit.ready()
    assert await visit.page.evaluate(ACCOUNT) == f"Signed in: {contact}"
    await visit.press()
    assert await visit.kind() == "won"
    assert await owners(fair) == [login["player"]["id"]] * 2


async def test_a_wrong_code_is_told_with_the_tries_that_are_left(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await game(fair))
    await visit.page.click("[data-panel=login]")
    await ask_for_code(visit, "bob@wrong.test")
    field = visit.page.locator("#login-field")
    assert await field.get_attribute("autocomplete") == "one-time-code"
    assert await field.get_attribute("inputmode") == "numeric"
    await field.fill(phone.wrong("bob@wrong.test"))
    await field.press("Enter")
    await visit.page.wait_for_selector("dialog [role=alert]:has-text('4 tries left')")
    assert await field.get_attribute("aria-invalid") == "true"
    assert await field.get_attribute("aria-describedby") == "login-wrong"
    assert await visit.page.evaluate("document.activeElement.shadowRoot.activeElement.id") == "login-field"
    await enter(visit, phone, "bob@wrong.test")
    visit.forgive("401")


async def test_what_is_no_address_is_told_by_the_field(fair: World, visit: Visit) -> None:
    await visit.open(await game(fair))
    await visit.page.click("[data-panel=login]")
    for way, written, told in (
        ("email", "ada", "Please write an e-mail address"),
        ("email", "ada@@x", "Please write an e-mail address"),
        ("phone", "0151 123", "with its country"),
        ("phone", "+999999999999", "with its country"),
    ):
        await visit.page.check(f"dialog [value={way}]")
        assert await visit.page.get_attribute("#login-field", "type") == {"email": "email", "phone": "tel"}[way]
        await visit.page.fill("#login-field", written)
        await visit.page.click(SUBMIT)
        await visit.page.wait_for_selector(f"dialog [role=alert]:has-text('{told}')")
    visit.forgive("400")


async def test_the_code_is_gone_on_with_after_a_reload_and_another_is_sent_when_it_may(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
    await visit.page.click("[data-panel=login]")
    await ask_for_code(visit, "eve@again.test")
    assert await visit.page.is_hidden("dialog .more button:has-text('Send another code')")
    assert "Another code can be sent in" in await visit.page.inner_text("dialog .more")
    await visit.page.click("dialog button:has-text('Another address')")
    await visit.page.click(SUBMIT)
    await visit.page.wait_for_selector("dialog [role=alert]:has-text('That was too often')")
    await let_resend(visit.stack)
    await visit.page.click(SUBMIT)
    await visit.page.wait_for_selector("dialog >> text=We have sent a code")
    await visit.page.evaluate(
        """() => {
            const name = Object.keys(sessionStorage).find((name) => name.startsWith("tombola.challenge"));
            const kept = JSON.parse(sessionStorage.getItem(name));
            sessionStorage.setItem(name, JSON.stringify({...kept, resend_at: 1}));
        }"""
    )
    await visit.page.reload()
    await visit.ready()
    await visit.page.click("[data-panel=login]")
    await visit.page.wait_for_selector("dialog >> text=We have sent a code to eve@again.test")
    await let_resend(visit.stack)
    await visit.page.click("dialog .more button:has-text('Send another code')")
    await visit.page.wait_for_selector("dialog >> text=Another code is on its way")
    await enter(visit, phone, "eve@again.test")
    visit.forgive("429")


async def test_a_players_game_is_played_by_who_signs_in_first(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await game(fair, access="player"))
    assert "Please sign in to play" in await visit.result()
    await sign_in(visit, phone, "dan@first.test", by=".card [data-keep]")
    await visit.page.wait_for_selector(".card", state="hidden")
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("401")


async def test_an_expired_token_is_renewed_in_mid_play_and_the_play_shown_once(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
    login = await sign_in(visit, phone, "fay@renew.test")
    asked: list[str] = []
    lost: list[str] = []

    async def note(route: Route) -> None:
        asked.append(route.request.headers["idempotency-key"])
        await route.continue_()

    async def lose(route: Route) -> None:
        lost.append(route.request.url)
        if len(lost) == 1:
            await route.fetch()  # The tokens are turned; nobody hears of it.
            return await route.abort("connectionreset")
        await route.continue_()
        return None

    await visit.page.route(PLAY, note)
    await visit.page.route(REFRESH, lose)
    await visit.press()
    assert await visit.kind() == "won"
    await visit.page.evaluate(SET_LOGIN, [fair.stack.token(login["player"]["id"], seconds=-3600), None])
    await visit.press()
    await visit.result()
    await visit.page.wait_for_selector(".frame[data-state=won]")
    assert len(lost) == 2 and len(asked) == 3 and len(set(asked[1:])) == 1
    assert (await login_of(visit))["refresh_token"] != login["refresh_token"]
    assert await owners(fair) == [login["player"]["id"]] * 2
    visit.forgive("401", "ERR_CONNECTION_RESET")


async def test_a_login_that_ended_elsewhere_is_asked_for_again_and_the_same_play_goes_on(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
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
    await sign_in(visit, phone, "gus@ended.test", by=".card [data-keep]")
    await visit.page.wait_for_selector(".card[data-result=won]")
    assert len(set(keys)) == 1 and await owners(fair) == [login["player"]["id"]]
    visit.forgive("401")


async def test_a_play_whose_answer_was_lost_is_shown_once_to_who_signed_in_meanwhile(
    fair: World, visit: Visit, phone: Phone
) -> None:
    """Played as a guest, and asked for again, by the same key, as the player that the guest has become."""
    await visit.open(await game(fair))
    lost: list[str] = []
    heard = False

    async def lose(route: Route) -> None:
        lost.append(route.request.headers["idempotency-key"])
        if len(lost) == 1:
            await route.fetch()
        await (route.continue_() if heard else route.abort("connectionreset"))

    await visit.page.route(PLAY, lose)
    await visit.press()
    await visit.page.wait_for_selector("text=That takes longer than usual")
    login = await sign_in(visit, phone, "hal@lost.test")
    heard = True
    assert await visit.kind() == "won"
    assert len(set(lost)) == 1 and await owners(fair) == [login["player"]["id"]]
    visit.forgive("ERR_CONNECTION_RESET", "401")


async def test_a_play_that_waits_offline_goes_on_and_signing_in_says_that_nothing_answers(
    fair: World, visit: Visit, phone: Phone
) -> None:
    await visit.open(await game(fair))
    await visit.play()
    await visit.page.click("[data-panel=login]")
    await visit.page.wait_for_selector("#login-field")  # Loaded while there is a network.
    await visit.page.keyboard.press("Escape")
    await visit.page.context.set_offline(True)
    await visit.press()
    await visit.page.wait_for_selector("text=You are offline")
    await visit.page.click("[data-panel=login]")
    await visit.page.fill("#login-field", "lea@offline.test")
    await visit.page.click(SUBMIT)
    await visit.page.wait_for_selector("dialog [role=alert]:has-text('No answer came')")
    await visit.page.context.set_offline(False)
    await visit.page.wait_for_selector(".frame[data-state=won]")
    await ask_for_code(visit, "lea@offline.test")
    await enter(visit, phone, "lea@offline.test")
    assert await owners(fair) == [(await login_of(visit))["player"]["id"]] * 2
    visit.forgive("ERR_INTERNET_DISCONNECTED")


@pytest.mark.parametrize("signs_in", [True, False])
async def test_a_guest_whose_token_has_ended_signs_in_or_plays_on_as_another(
    fair: World, visit: Visit, phone: Phone, signs_in: bool
) -> None:
    await visit.open(await game(fair))
    await visit.play()
    expired = fair.stack.token((await owners(fair))[0], seconds=-3600)
    await visit.page.evaluate(
        """(token) => {
            const name = Object.keys(localStorage).find((name) => name.startsWith("tombola.guest"));
            localStorage.setItem(name, JSON.stringify(token));
        }""",
        expired,
    )
    if signs_in:
        login = await sign_in(visit, phone, "max@late.test")
        await visit.page.evaluate(
            "sessionStorage.removeItem(Object.keys(sessionStorage).find((n) => n.includes('play')))"
        )
        await visit.page.reload()
        await visit.ready()
    await visit.play()
    await visit.play()
    found = await owners(fair)
    assert len(found) == 3
    if signs_in:
        assert found.count(login["player"]["id"]) == 2
    visit.forgive("401")


async def test_who_signs_out_is_signed_out_at_the_service(fair: World, visit: Visit, phone: Phone) -> None:
    await visit.open(await game(fair))
    login = await sign_in(visit, phone, "ida@out.test")
    await visit.press()
    assert await visit.kind() == "won"
    await visit.page.click("[data-panel=login]")
    await visit.page.click("dialog button:has-text('Sign out')")
    await visit.page.wait_for_selector("dialog >> text=You are signed out")
    assert await visit.page.evaluate(LOGIN) is None and await visit.page.evaluate(ACCOUNT) == "Sign in"
    bearer = {"Authorization": f"Bearer {login['token']}"}
    assert (await visit.stack.consumer("GET", "/players/me", headers=bearer)).reason == "TOKEN_INVALID"
    again = await visit.stack.consumer("POST", "/players/auth/refresh", {"refresh_token": login["refresh_token"]})
    assert again.http == 401
    await visit.page.keyboard.press("Escape")
    assert await visit.play()
    assert len(set(await owners(fair))) == 2, "who plays on is another guest"


async def test_tabs_share_a_login_and_its_next_tokens(fair: World, browser: Browser, shop: Stack, phone: Phone) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        game_id = await game(fair)
        await visit.open(game_id)
        login = await sign_in(visit, phone, "joe@tabs.test")
        other = Visit(await visit.page.context.new_page(), shop)
        await other.open(game_id)
        await other.play()
        await visit.page.evaluate(SET_LOGIN, [fair.stack.token(login["player"]["id"], seconds=-3600), None])
        await visit.play()
        renewed = await login_of(visit)
        assert renewed["refresh_token"] != login["refresh_token"]
        await other.play()
        assert await owners(fair) == [login["player"]["id"]] * 3
        visit.forgive("401")


async def test_what_another_tab_of_the_guest_has_open_is_the_players_too(
    fair: World, browser: Browser, shop: Stack, phone: Phone
) -> None:
    async with visiting(browser, shop, **STILL) as visit:
        game_id = await game(fair)
        await visit.open(game_id)
        await visit.play()
        other = Visit(await visit.page.context.new_page(), shop)
        await other.open(game_id)
        await other.play()  # And holds the next session.
        login = await sign_in(visit, phone, "kim@guests.test")
        await other.play()
        assert await owners(fair) == [login["player"]["id"]] * 3
