import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.http.serving import make_app, serve
from runtime.operations import API
from tests.support.browsing import Visit
from tests.support.node import package
from tests.support.pages.foreign import foreign_site
from tests.support.pages.games import CARD, HAND, ROOT, finish
from tests.support.pages.looks import EVIL, evil_ui, home_alone
from tests.support.stack import OTHER_TENANT, make_tenant
from tests.support.waiting import until
from tests.support.world import COLLECTION, EGGS, GIFTS, WHEEL, World, new_world

MADE: Final = """([game, attributes, html]) => {
    document.querySelector("tombola-game").remove();
    window.fired = [];
    for (const name of ["ready", "started", "played", "won", "claimed", "refused", "error"])
        document.addEventListener(`tombola:${name}`, (event) => window.fired.push([name, event.detail]));
    const made = document.createElement("tombola-game");
    for (const [name, value] of Object.entries({ game, ...attributes })) made.setAttribute(name, value);
    for (const [slot, text] of Object.entries(html)) {
        const child = made.appendChild(document.createElement("p"));
        child.slot = slot;
        child.textContent = text;
    }
    document.querySelector("main").append(made);
}"""
EMBED: Final = (Path(__file__).parents[2] / "docs/how-to/embed.md").read_text()
STYLE: Final = """(css) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    document.adoptedStyleSheets.push(sheet);
}"""
OF_PART: Final = (
    f"([part, property]) => getComputedStyle({ROOT}.querySelector(`[part~=${{part}}]`)).getPropertyValue(property)"
)


async def embed(visit: Visit, game_id: str, slots: dict[str, str] | None = None, **attributes: str) -> None:
    fields = {"tenant": visit.stack.tenant_id} | {name.replace("_", "-"): value for name, value in attributes.items()}
    await visit.page.evaluate(MADE, [game_id, fields, slots or {}])
    await visit.ready()


async def fired(visit: Visit) -> dict[str, Any]:
    return dict(await visit.page.evaluate("window.fired"))


async def test_element_removed_while_its_game_loads_reports_no_error(fair: World, visit: Visit) -> None:
    async def load(route: Any) -> None:
        await visit.page.locator(".frame").evaluate("(it) => it.getRootNode().host.remove()")
        await route.continue_()

    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    await visit.page.route("**/games/wheel.js", load)
    async with visit.page.expect_response("**/games/wheel.js") as found:
        await visit.page.goto(f"{visit.stack.process.consumer_url}/p/{game_id}?tenant_id={visit.stack.tenant_id}")
    await visit.page.evaluate("(file) => import(file).then(() => {})", (await found.value).url)
    assert visit.wrong == []


async def test_element_fires_its_events_in_order_and_plays_as_its_token_and_tenant(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public", rules={"max_plays_per_user": 1})
    await visit.open(game_id)
    await embed(visit, game_id, client_seed="lucky", locale="de-AT")
    assert await visit.page.get_attribute(".frame", "lang") == "de-AT"
    session = await visit.page.evaluate("document.querySelector('tombola-game').start()")
    assert session == await visit.page.evaluate("document.querySelector('tombola-game').start()")
    result = await visit.play()
    assert (result["client_seed"], result["session"]) == ("lucky", session)
    names = [name for name, _ in await visit.page.evaluate("window.fired")]
    assert names == ["ready", "started", "played", "won"]
    details = await fired(visit)
    assert details["ready"]["game"]["id"] == game_id and details["ready"]["standing"]["can_play"] is True
    assert details["started"]["session_id"] == result["session"]["session_id"]
    assert details["played"] == result
    assert details["won"] == {"rewards": result["rewards"], "play_id": result["play_id"]}
    assert await visit.page.evaluate("document.querySelector('tombola-game').play()") is None
    refused = (await fired(visit))["refused"]
    assert refused["reason"] == "CAP_USER" and set(refused) == {"reason", "message", "resets_at"}
    assert len(await fair.plays()) == 1
    visit.forgive("400")
    # By the token of a player, and for another tenant.
    game_id = await fair.wheel(await fair.prize(name="Mug"))
    await visit.open(game_id)
    assert await visit.kind() == "refused" and "sign in" in await visit.result(), "the game is for players alone"
    await embed(visit, game_id, token=fair.stack.token("ann"))
    await visit.press()
    assert await visit.kind() == "won"
    assert await visit.page.is_hidden("[data-panel=login]") and await visit.page.is_hidden("[data-next=keep]")
    assert len((await fair.history(game_id))["items"]) == 1
    async with new_world(await make_tenant(fair.stack, OTHER_TENANT), name="Elsewhere") as world:
        far_id = await world.wheel(await world.prize(name="Cup"), access="public", name="Far wheel")
        await embed(visit, far_id, tenant=OTHER_TENANT)
        await visit.press()
        assert "Cup" in await visit.result()
        await embed(visit, far_id)
        assert await visit.page.inner_text(".card h3") == "This game does not exist or has ended."
    visit.forgive("404")


async def test_element_takes_the_page_s_colours_parts_and_slots(fair: World, visit: Visit) -> None:
    ui = {"theme": {"primary": "#ff0000", "radius": "1em", "font": "Georgia"}, "background": {"color": "#ffffff"}}
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public", ui=ui)
    await visit.open(game_id)
    css = """tombola-game { --tombola-primary: rgb(0 102 51); --tombola-accent: rgb(250 200 0); --tombola-mode: light;
        --tombola-background: rgb(240 240 240); --tombola-font: monospace; --tombola-radius: 3px; }
        tombola-game::part(button) { text-transform: uppercase; } tombola-game::part(title) { letter-spacing: 3px; }"""
    await visit.page.evaluate(STYLE, css)
    await embed(visit, game_id, {"before": "Our fair", "after": "Terms apply"})
    for part, name, value in (
        *(("button", "--t-primary", "rgb(0 102 51)"), ("button", "--t-accent", "rgb(250 200 0)")),
        *(("frame", "--t-ground", "rgb(240 240 240)"), ("frame", "border-top-left-radius", "3px")),
        *(("frame", "font-family", "monospace"), ("button", "text-transform", "uppercase")),
        ("title", "letter-spacing", "3px"),
    ):
        found = str(await visit.page.evaluate(OF_PART, [part, name]))
        assert found == value or (name == "font-family" and found.startswith(value)), (part, name, found)
    assert await visit.page.is_visible("text=Our fair") and await visit.page.is_visible("text=Terms apply")


async def test_element_that_could_not_load_loads_again_by_its_button(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    await visit.open(game_id)
    away = True
    await visit.page.route("**/render", lambda one: one.abort("connectionrefused") if away else one.continue_())
    await embed(visit, game_id)
    assert await visit.kind() == "refused"
    assert (await fired(visit))["error"]["reason"] == "NO_ANSWER"
    away = False
    await visit.click("button.main", then=".wheel")
    await visit.press()
    assert await visit.kind() == "won"
    visit.forgive("ERR_CONNECTION_REFUSED")


async def allow(fair: World, *origins: str) -> None:
    changed = await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"origins": list(origins)})
    assert changed.data["origins"] == list(origins)


async def test_site_embeds_and_frames_the_game_only_where_it_is_allowed(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public")
    async with foreign_site(fair.stack, game_id) as origin:
        await allow(fair, origin)
        await visit.page.goto(f"{origin}/shop")
        await visit.ready()
        await visit.press()
        assert "Mug" in await visit.result()
        await visit.click("[data-panel=login]", then="dialog #login-field")
        assert await visit.page.context.cookies() == []
        await visit.page.goto(f"{origin}/frame")
        framed = visit.page.frame_locator("iframe")
        await framed.locator("button.main").click()
        await framed.locator(".card[data-result=won]").wait_for()
    assert len(await fair.plays()) == 2
    async with foreign_site(fair.stack, game_id) as origin:
        await allow(fair, "https://*.brand.example")
        await visit.page.goto(f"{origin}/shop")
        assert await visit.kind() == "refused"
        shown = await visit.page.inner_text("tombola-game .card h3")
        assert shown == "Connection problem. Your play is saved. Please try again."
        async with visit.page.expect_event("console", lambda said: "frame-ancestors" in said.text):
            await visit.page.goto(f"{origin}/frame")
        frame = visit.page.frames[1]
        await frame.wait_for_load_state()
        assert await frame.locator("tombola-game").count() == 0
    assert len(await fair.plays()) == 2
    visit.forgive("CORS policy", "ERR_FAILED", "403", "frame-ancestors")


@pytest.mark.parametrize("framework", ["plain", "react", "vue"])
async def test_docs_example_shows_the_game_and_wins(framework: str, fair: World, visit: Visit, tmp_path: Path) -> None:
    game_id, edge = await fair.wheel(await fair.prize(name="Mug"), access="public"), fair.stack.process.consumer_url
    if framework == "plain":
        shown = EMBED.partition("```html\n")[2].partition("```")[0].replace("https://play.example", edge)
        shown = shown.replace('game="game_..."', f'game="{game_id}" tenant="{fair.stack.tenant_id}"')
    else:
        subprocess.run(["node", package("vue").parents[1] / "examples.js", tmp_path], check=True)
        scripts = (f"{edge}/widget/v1/tombola.js", f"{framework}.js")
        shown = "<main id=root></main>" + "".join(f"<script type=module src={one}></script>" for one in scripts)
    (tmp_path / "shop.html").write_text(f"<!doctype html><title>Shop</title>{shown}")
    said: list[str] = []
    visit.page.on("console", lambda message: said.append(message.text))
    app = make_app()
    app.router.add_static("/", tmp_path)
    runner = await serve(app, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    await allow(fair, origin)
    await visit.page.goto(f"{origin}/shop.html?game={game_id}&tenant={fair.stack.tenant_id}")
    await visit.ready()
    await visit.press()
    assert "Mug" in await visit.result()
    assert (await visit.page.evaluate("window.won") == 1) or any("Mug" in line for line in said)
    await runner.cleanup()


ADDRESSES: Final = (
    *("javascript:window.evil=1", "http://127.0.0.1:1/x.png", "data:text/html,<script>window.evil=1</script>"),
    *("//evil.example/x.png", EVIL),
)


async def test_text_of_a_game_is_never_run_and_its_addresses_are_not_requested(fair: World, visit: Visit) -> None:
    await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"name": EVIL})
    prize_id = await fair.prize(name=EVIL)
    odds = [{"prize_id": prize_id, "probability": 1}]
    drop = {"type": "maple", "prize_id": prize_id, "frequency": 1, "max_catchable": 9}
    tiers = {"tiers": [{"min": 0, "max": 99, "prize_group": "all"}], "prize_groups": {"all": odds}}
    leaf = {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]}
    shapes: list[tuple[dict[str, Any], dict[str, Any]]] = [
        *(((WHEEL, {"prizes": odds}),) * len(ADDRESSES)),
        *((CARD, {"prizes": odds}), (EGGS, tiers), (GIFTS, {"drops": [drop], "total_items": 2, "interval_ms": 1})),
        (COLLECTION, leaf),
    ]
    addresses = [*ADDRESSES, *[ADDRESSES[0]] * (len(shapes) - len(ADDRESSES))]
    for (shape, config), address in zip(shapes, addresses, strict=True):
        ui = evil_ui(address, prize_id)
        await visit.open(await fair.game(shape, config, name=EVIL, access="public", ui=ui))
        await visit.page.evaluate(HAND, [False, 0])
        await visit.press()
        assert await finish(visit, "won") == "won", shape
        where = ".stage" if shape in (EGGS, GIFTS, COLLECTION) else ".card"
        assert "<script>window.evil=1</script>" in await visit.page.inner_text(where), shape
        assert await visit.page.title() == f"{EVIL} · {EVIL}"
        assert await visit.page.evaluate("window.evil") is None, (shape, address)
    home = visit.stack.process.consumer_url
    await visit.page.goto(f"{home}/c/{fair.campaign_id}?tenant_id={visit.stack.tenant_id}")
    assert EVIL in await visit.page.inner_text("h1") and await visit.page.evaluate("window.evil") is None
    assert home_alone(visit)


@pytest.mark.parametrize(
    "surface", ["consumer", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("core", "admin"))]
)
async def test_docs_page_shows_every_operation_and_loads_only_its_own_files(visit: Visit, surface: Surface) -> None:
    # So tall that every operation is in sight: the page draws no others.
    await visit.page.set_viewport_size({"width": 1400, "height": 20_000})
    home = f"{getattr(visit.stack.process, f'{surface}_url')}{API}/"
    answer = await visit.page.goto(f"{home}docs")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "http" not in policy
    named = re.findall(r'(?:src|href)="([^"]+)"', await answer.text())
    assert named and not [name for name in named if "//" in name]
    for name in named:
        async with visit.stack.http.get(home + name) as file:
            assert file.status == 200, name
            assert file.headers["Content-Type"].split("/")[0] in ("text", "image", "application")
    rows = [row for verbs in document(surface)["paths"].values() for row in verbs.values()]
    ids = {f"operations-{row['tags'][0]}-{row['operationId']}" for row in rows}
    assert ids
    shown = visit.page.locator("[id^=operations-]")
    await until(lambda: shown.evaluate_all("(all) => all.map((one) => one.id)"), lambda it: ids <= set(it))
    assert "Failed to load API definition" not in await visit.page.content()
    assert [one for one in visit.asked if home not in one and "data:" not in one] == []
