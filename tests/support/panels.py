from typing import Any

from tests.support.browsing import Visit
from tests.support.chromium import Route


async def open_as(visit: Visit, game_id: str, player: str) -> None:
    await visit.open(game_id)
    await sign_in(visit, player)


async def sign_in(visit: Visit, player: str) -> None:
    script = "(token) => document.querySelector('tombola-game').setAttribute('token', token)"
    async with visit.page.expect_response("**/eligibility"):
        await visit.page.evaluate(script, visit.stack.token(player))


async def panel(visit: Visit, name: str) -> str:
    await visit.page.click(f".panels [data-panel={name}]")
    return await shown(visit, name)


async def shown(visit: Visit, name: str) -> str:
    await visit.page.wait_for_selector(f"dialog[open] [data-name={name}] > :not(.busy, .skeleton)")
    await visit.page.wait_for_selector("dialog .busy, dialog .skeleton", state="detached")
    return str(await visit.page.inner_text("dialog .panel"))


async def said(visit: Visit) -> str:
    return str(await visit.page.inner_text("dialog > .listen"))


async def watch(visit: Visit, *names: str) -> None:
    script = """(names) => {
        window.fired = [];
        for (const name of names)
            addEventListener(`tombola:${name}`, (event) => window.fired.push([name, event.detail]));
    }"""
    await visit.page.evaluate(script, list(names))


async def fired(visit: Visit) -> list[Any]:
    return list(await visit.page.evaluate("window.fired"))


async def lose(visit: Visit, path: str, times: int = 2) -> list[str]:
    """The first answers of `path` are lost after the service decided. Returns the keys of the requests."""
    keys: list[str] = []

    async def lost(route: Route) -> None:
        keys.append(route.request.headers["idempotency-key"])
        if len(keys) <= times:
            await route.fetch()
            await route.abort("connectionreset")
        else:
            await route.continue_()

    await visit.page.route(path, lost)
    return keys
