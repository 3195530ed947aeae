import random
from typing import Any, Final

import pytest

from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.pages.crowd import CODE, crowded
from tests.support.pages.games import HAND, ROOT, SHAPES, UNDER_WAY, demo_games, finish, made
from tests.support.pages.looks import SCREENS, accessible, fits, home_alone, window
from tests.support.panels import open_as, panel
from tests.support.scenario import FULL
from tests.support.world import World

PANELS: Final = ("prizes", "rewards", "milestones", "quests", "ranking", "wallet", "history", "fair")
CUT: Final = f"""() => [...{ROOT}.querySelectorAll("dialog *, .frame *")]
    .filter((one) => one instanceof HTMLElement && one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => !one.closest(".listen, .backdrop, .deck, .slots, .field > :not(.over)"))
    .filter((one) => !one.matches(".field") && !one.querySelector(".disc, .field"))
    .filter((one) => getComputedStyle(one).display !== "inline")
    .map((one) => `${{one.className}}: ${{one.textContent.slice(0, 40)}}`)"""


async def whole(visit: Visit, name: str) -> None:
    """`fits`; nothing in the game or its dialog is cut, and the dialog is within the window."""
    await fits(visit, name)
    assert await visit.page.evaluate(CUT) == [], name
    dialog, size = visit.page.locator("dialog"), visit.page.viewport_size
    if await dialog.count():
        box = await dialog.bounding_box()
        assert size and box and box["y"] >= 0 and box["y"] + box["height"] <= size["height"] + 1, name


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_panels_fit_run_no_text_and_pass_axe(fair: World, browser: Browser, width: int, scheme: str) -> None:
    game_id, found = await crowded(fair), dict[str, list[str]]()
    async with visiting(browser, fair.stack, **STILL, **window(width, scheme)) as visit:
        await visit.open(game_id)
        for name in ("rewards", "milestones", "wallet", "history", "fair"):
            await panel(visit, name)
            await whole(visit, f"panel-{name}-nobody-{width}-{scheme}")
            await visit.page.keyboard.press("Escape")
        await open_as(visit, game_id, "ann")
        await visit.play()
        await whole(visit, f"panels-around-{width}-{scheme}")
        for name in PANELS:
            text = await panel(visit, name)
            assert "<img src=x onerror=" in text or name in ("wallet", "history", "fair"), name
            if name == "rewards":
                assert CODE in await visit.page.locator("dialog code").all_inner_texts()
                await visit.click("dialog >> text=QR code", then=".qr svg")
            if name == "wallet":
                await visit.page.wait_for_selector("[data-entry]")
            if name == "fair":
                await visit.click("dialog button:has-text('Verify now')", then=".steps li")
            await whole(visit, f"panel-{name}-{width}-{scheme}")
            await accessible(visit, f"panel-{name}", found)
            await visit.page.keyboard.press("Escape")
        assert await visit.page.evaluate("window.evil") is None
        assert await visit.page.evaluate(f"{ROOT}.querySelectorAll('script, img, [onerror]').length") == 0
        assert home_alone(visit)
    assert found == {}


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
async def test_demo_is_played_and_axe_finds_nothing(fair: World, browser: Browser, width: int, scheme: str) -> None:
    await demo_games(fair)
    found: dict[str, list[str]] = {}
    campaign = f"{fair.stack.process.consumer_url}/c/{fair.campaign_id}?tenant_id={fair.stack.tenant_id}"
    async with visiting(browser, fair.stack, **STILL, **window(width, scheme)) as visit:
        answer = await visit.page.goto(f"{fair.stack.process.consumer_url}/p/game_nothing")
        assert answer is not None and answer.status == 404
        assert "This game does not exist" in await visit.page.inner_text("h1")
        visit.forgive("404")
        await accessible(visit, f"missing-{width}-{scheme}", found)
        await visit.page.goto(campaign)
        await accessible(visit, f"campaign-{width}-{scheme}", found)
        games = await visit.page.locator(".games a").evaluate_all("links => links.map(link => link.href)")
        assert len(games) == 5
        for nth, address in enumerate(games):
            await visit.page.goto(address)
            await visit.ready()
            await visit.page.evaluate(HAND, [False, 0])
            await accessible(visit, f"demo-{nth}-ready-{width}-{scheme}", found)
            await visit.press()
            assert await finish(visit, "won") in ("won", "lost")
            await accessible(visit, f"demo-{nth}-played-{width}-{scheme}", found)
    assert found == {}
    assert len(await fair.plays()) == 5


LANGUAGES: Final = {
    "ar": ("معرض الخريف الكبير", "كوب Fair mug (كبير)", "العب واربح كوبًا كل يوم حتى آخر ورقة شجر."),
    "de": ("Herbstjahrmarktsgewinnspiel", "Donaudampfschifffahrtstasse", "Einmal täglich, bis das letzte Blatt fällt."),
    "ja": ("秋のお祭りキャンペーン", "お祭りのマグカップ", "毎日一回、最後の葉が落ちるまで遊べます。"),
}
"""{locale: (a game's name, a prize's, the game's description)}"""


@pytest.mark.parametrize(
    ("width", "height", "zoom"),
    [
        (320, 640, 1),
        *(
            pytest.param(*one, marks=pytest.mark.nightly)
            for one in ((160, 320, 2), (768, 1024, 1), (800, 360, 1), (1440, 900, 1), (3840, 2160, 1))
        ),
    ],
)
@pytest.mark.parametrize("locale", ["de", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("ar", "ja"))])
async def test_games_fit_in_every_script(
    fair: World, browser: Browser, width: int, height: int, zoom: int, locale: str
) -> None:
    """Also at 200 % in a window of 320 pixels, which leaves half of it."""
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}, "device_scale_factor": zoom}
    name, prize, description = LANGUAGES[locale]
    async with visiting(browser, fair.stack, **STILL, **options, locale=locale) as visit:
        for shape in SHAPES:
            ui = {"description": description, "theme": {"preset": "carnival"}}
            await visit.open(await made(fair, shape, name=name, prize=prize, ui=ui, rules={"max_plays_per_day": 1}))
            await whole(visit, f"{locale}-{shape}-ready-{width}")
            await visit.press()
            if shape in UNDER_WAY:
                await visit.page.wait_for_selector(UNDER_WAY[shape])
                await (whole if zoom == 1 else fits)(visit, f"{locale}-{shape}-played-{width}")
            if shape == "eggs":
                continue  # Its end looks like that of gifts.
            assert await finish(visit, "won") == "won"
            await whole(visit, f"{locale}-{shape}-won-{width}")
        shown = visit.page.locator("[data-panel]:visible")
        for opened in await shown.evaluate_all("(all) => all.map((one) => one.dataset.panel)"):
            await visit.click(f"[data-panel={opened}]", then="dialog .panel > :not(.busy)")
            await fits(visit, f"{locale}-{opened}-{width}")
            await visit.page.keyboard.press("Escape")
        await visit.page.reload()
        await visit.result()
        await whole(visit, f"{locale}-refused-{width}")


LOOKS: Final[dict[str, dict[str, Any]]] = {
    "yellow on white": {"theme": {"primary": "#ffee00", "accent": "#ffffff"}, "background": {"color": "#ffffff"}},
    "black on navy": {"theme": {"primary": "#000000", "accent": "#000080"}, "background": {"color": "#000080"}},
    "grey on grey": {"theme": {"primary": "#777777", "accent": "#7f7f7f"}, "background": {"color": "#808080"}},
}

CONTRASTS: Final = """async (themes) => {
    const { Look, contrast, css, ink, rgb } = await import(document.querySelector("script").src);
    const lowest = (theme) => {
        const look = new Look(theme);
        const grounds = [look.ground, look.surface, look.glow];
        const pairs = [[ink(look.primary), look.primary], [ink(look.accent), look.accent]];
        for (const ink of [look.text, look.quiet, look.strong]) pairs.push(...grounds.map((ground) => [ink, ground]));
        return Math.min(...pairs.map(([ink, ground]) => {
            const told = (colour) => rgb(css(colour));
            return contrast(told(ink), told(ground));
        }));
    };
    return themes.map(lowest);
}"""


async def test_contrast_is_enough_in_any_brand_colours(fair: World, visit: Visit) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1, in the browser's own steps of 255."""
    drawn = random.Random(22)
    colours = [f"#{value:06x}" for value in (0, 0xFFFFFF, 0x777777, 0x808080, 0x737373, 0xFFEE00, 0x000080)]
    colours += [f"#{drawn.randrange(1 << 24):06x}" for _ in range(60 if FULL else 20)]
    colours += [f"#{v:02x}{v:02x}{v:02x}" for v in range(100, 140, 1 if FULL else 3)]
    themes = [
        {
            "theme": {"primary": drawn.choice(colours), "accent": drawn.choice(colours), "mode": mode},
            "background": {"color": ground},
        }
        for ground in colours
        for mode in ("light", "dark")
        for _ in range(4)
    ]
    segments = [{"label": "Mug", "emoji": "☕"}, {"label": "Tea", "emoji": "🍵"}, {"label": "Nothing"}]
    found = {}
    for name, ui in LOOKS.items():
        ui = {**ui, "wheel": {"segments": segments}, "description": "Turn it, and see."}
        await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public", ui=ui))
        found[f"{name} ready"] = await violations(visit.page)
        await visit.press()
        await visit.result()
        found[f"{name} won"] = await violations(visit.page)
        await panel(visit, "prizes")
        found[f"{name} prizes"] = await violations(visit.page)
    assert {view: issues for view, issues in found.items() if issues} == {}
    lowest = await visit.page.evaluate(CONTRASTS, themes)
    assert [(round(one, 2), theme) for one, theme in zip(lowest, themes, strict=True) if one < 4.5] == []
