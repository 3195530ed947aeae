import json
from typing import Any, Final

from tests.support.browsing import Visit
from tests.support.login import Phone
from tests.support.pages.games import ROOT

SUBMIT: Final = "dialog .login [type=submit]"
STORED: Final = "Object.entries(localStorage).find(([name]) => name.startsWith('tombola.login'))?.[1] ?? null"
SET_TOKEN: Final = """(token) => {
    const [name, kept] = Object.entries(localStorage).find(([name]) => name.startsWith("tombola.login"));
    localStorage.setItem(name, JSON.stringify({...JSON.parse(kept), token}));
}"""
SET_GUEST: Final = """(token) => {
    const name = Object.keys(localStorage).find((name) => name.startsWith("tombola.guest"));
    localStorage.setItem(name, JSON.stringify(token));
}"""
ACCOUNT: Final = f"{ROOT}.querySelector('[data-panel=login]').lastChild.textContent"


async def ask_for_code(visit: Visit, contact: str) -> None:
    await visit.page.check(f"dialog [value={'phone' if contact.startswith('+') else 'email'}]")
    await visit.page.fill("#login-field", contact)
    await visit.click(SUBMIT, then=f"dialog >> text=Code sent to {contact}")


async def enter_code(visit: Visit, phone: Phone, contact: str) -> None:
    await visit.page.fill("#login-field", phone.code(contact))
    await visit.click(SUBMIT, then="dialog >> text=Signed in as")
    await visit.page.click("dialog button:has-text('Back to the game')")


async def sign_in(visit: Visit, phone: Phone, contact: str, by: str = "[data-panel=login]") -> dict[str, Any]:
    await visit.page.click(by)
    await ask_for_code(visit, contact)
    await enter_code(visit, phone, contact)
    return await login_of(visit)


async def login_of(visit: Visit) -> dict[str, Any]:
    return dict(json.loads(await visit.page.evaluate(STORED)))


async def sign_out(visit: Visit) -> None:
    await visit.page.bring_to_front()
    await visit.page.click("[data-panel=login]")
    await visit.click("dialog button:has-text('Sign out')", then="dialog >> text=You are signed out")
    await visit.page.keyboard.press("Escape")
    await visit.page.wait_for_selector("dialog", state="detached")
