import html
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from runtime.http.pages.page_texts import PAGE_TEXTS
from runtime.http.pages.verify_page import VERIFY_TEXTS
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.chromium import Browser
from tests.support.pages.games import ROOT
from tests.support.pages.looks import EVIL, fits, window
from tests.support.pages.words import ALL_WORDS, AS_IN_ENGLISH, LOAN_WORDS, OTHERS, differences
from tests.support.panels import panel
from tests.support.quests import open_quest
from tests.support.resources import make_campaign
from tests.support.world import World

LOADED: Final = "(await import(document.querySelector('script').src)).Words"


async def test_words_of_every_language_match_the_english_ones_and_are_translated(fair: World, visit: Visit) -> None:
    await visit.page.goto(f"{visit.stack.process.consumer_url}/p/game_nothing")
    visit.forgive("404")
    address = await visit.page.evaluate("document.querySelector('link[rel=icon]').href")
    entry = address.replace("icon.svg", "tombola.js")
    languages, words, plurals = await visit.page.evaluate(ALL_WORDS, [entry, list(OTHERS)])
    assert languages == ["en", *OTHERS]
    # The panels' words are added to the game's: a key of both would be overwritten.
    assert words["en"]["game"].keys() & words["en"]["panels"].keys() == set()
    wrong, same = [], set()
    for language, where in ((one, where) for one in languages for where in ("game", "panels")):
        english, own = words["en"][where], words[language][where]
        wrong += [f"{language} lacks {where}.{key}" for key in english.keys() - own.keys()]
        wrong += [f"{language} has {where}.{key} too much" for key in own.keys() - english.keys()]
        for key in english.keys() & own.keys():
            wrong += differences(f"{language} {where}.{key}", english[key], own[key], plurals[language])
            if language != "en" and key not in AS_IN_ENGLISH and own[key] == english[key]:
                same.add((language, key))
    assert wrong == []
    assert same - LOAN_WORDS == set()
    # Arabic has six plurals, and isolates a name of another script.
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    plurals = {0: "لم تبقَ", 1: "بقيت لك لعبة واحدة", 2: "بقيت لك لعبتان", 3: "بقيت لك 3 ألعاب", 11: "بقيت لك 11 لعبة"}
    plurals |= {100: "بقيت لك 100 لعبة"}
    count = f"""async (all) => {{
        const words = await {LOADED}.load("ar-AE");
        return all.map((count) => words.t("plays_left", {{ count }}));
    }}"""
    said = await visit.page.evaluate(count, list(plurals))
    assert all(text.startswith(begin) for text, begin in zip(said, plurals.values(), strict=True)), said
    name = f"""async (cases) => {{
        const Words = {LOADED};
        const said = async ([locale, name]) => (await Words.load(locale)).t("credited", {{ count: 2, name }});
        return Promise.all(cases.map(said));
    }}"""
    cases = [["ar", "Mug (large)"], ["ar", "+49 151"], ["ar", "اليوم، 2:38 م"], ["en", "قهوة"], ["en", "Mug"]]
    apart = [one.partition("× ")[2] for one in await visit.page.evaluate(name, cases)]
    assert apart == ["\u2068Mug (large)\u2069", "\u2068+49 151\u2069", "اليوم، 2:38 م", "\u2068قهوة\u2069", "Mug"]


async def says(visit: Visit) -> str:
    await visit.page.wait_for_selector(".stage .wheel")
    return str(await visit.page.inner_text("button.main"))


async def test_language_is_the_page_s_then_the_player_s_then_the_browser_s(fair: World, browser: Browser) -> None:
    words = {"won": "Juchhe!", "plays_left": {"other": "{count}!"}}
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 4}, ui={"texts": words})
    for locale, spin in {"pt-BR": "Girar a roda", "ja-JP": "ルーレットを回す", "sv-SE": "Spin the wheel"}.items():
        async with visiting(browser, fair.stack, **STILL, locale=locale) as visit:
            await visit.open(game_id)
            assert await says(visit) == spin
            spoken = "en" if locale == "sv-SE" else locale
            assert await visit.page.get_attribute("html", "lang") == spoken
            assert await visit.page.get_attribute(".frame", "lang") == spoken
    async with visiting(browser, fair.stack, **STILL, locale="de-DE") as visit:
        await visit.open(game_id)
        assert await says(visit) == "Am Rad drehen"
        player = {"locale": "pl", "display_name": "Ann", "contacts": []}
        login = {"token": fair.stack.token("ann"), "refresh_token": "", "expires_at": "4102444800", "player": player}
        name = f"tombola.login:{fair.stack.process.consumer_url}:{fair.stack.tenant_id}"
        await visit.page.evaluate("([name, login]) => localStorage.setItem(name, login)", [name, json.dumps(login)])
        await visit.open(game_id)
        assert await says(visit) == "Zakręć kołem"
        await visit.page.evaluate("document.querySelector('tombola-game').setAttribute('locale', 'fr-CA')")
        await visit.page.wait_for_selector(".frame[lang=fr-CA][data-state=ready]")
        assert await says(visit) == "Tourner la roue"
        await visit.press()
        assert "Juchhe!" in await visit.result(), "an operator's own words serve every language"
        assert await visit.page.inner_text(".left") == "3!"
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 1})
    lines = []
    for zone in ("Asia/Tokyo", "America/New_York"):
        async with visiting(browser, fair.stack, **STILL, locale="de-DE", timezone_id=zone) as visit:
            await visit.open(game_id)
            await visit.press()
            await visit.result()
            await visit.page.wait_for_selector(".left:text('Nächstes Spiel')")
            lines.append(await visit.page.inner_text(".left"))
    tokyo, new_york = (re.search(r"(heute|morgen), (\d\d?):00 \(in \d+ (?:Stunde|Minute)n?\)", line) for line in lines)
    assert tokyo and new_york, lines
    assert (int(tokyo[2]) - int(new_york[2])) % 24 in (13, 14)


@pytest.mark.parametrize("width", [320, *(pytest.param(one, marks=pytest.mark.nightly) for one in (768, 1440))])
async def test_right_to_left_mirrors_all_but_the_wheel_and_codes(fair: World, browser: Browser, width: int) -> None:
    prize_id = await fair.prize(name="Mug (large), 2 pieces!")
    segments = [{"label": "قهوة", "emoji": "☕", "prize_id": prize_id}, {"label": "شاي", "emoji": "🍵"}]
    ui = {"wheel": {"segments": segments}, "description": "أدر العجلة واربح Mug (large), 2 pieces!"}
    game_id, _ = [await fair.wheel(prize_id, access="public", name="عجلة الخريف", ui=ui) for _ in range(2)]
    async with visiting(browser, fair.stack, **STILL, **window(width, "light", 800), locale="ar") as visit:
        await visit.open(game_id)
        assert await visit.page.get_attribute("html", "dir") == "rtl" == await visit.page.get_attribute(".frame", "dir")
        back = await visit.page.locator(".back").bounding_box()
        assert back is not None and back["x"] + back["width"] > width - 20, "the way back is where reading begins"
        await visit.press()
        assert "Mug (large), 2 pieces!" in await visit.result()
        await fits(visit, f"arabic-won-{width}")
        for name in ("prizes", "rewards", "fair"):
            await panel(visit, name)
            if name == "fair":
                assert await visit.page.evaluate(f"getComputedStyle({ROOT}.querySelector('dd')).direction") == "ltr"
                await visit.click("dialog .row button", then=".steps li")
            title = await visit.page.locator("dialog h2").bounding_box()
            shut = await visit.page.locator("dialog header button:visible").bounding_box()
            assert title is not None and shut is not None and shut["x"] < title["x"]
            await fits(visit, f"arabic-{name}-{width}")
            if name == "rewards":
                side = f"getComputedStyle({ROOT}.querySelector('.facts strong')).textAlign"
                assert await visit.page.evaluate(side) == "right", "a name in Latin letters is aligned with the others"
            await visit.page.keyboard.press("Escape")


STAGES: Final = {"wheel": ".wheel", "scratch": ".scratch", "eggs": ".egg", "gifts": ".field", "collection": ".album"}
ALL_SPOKEN: Final = """async () => {
    const of = (path) => import(new URL(path, document.querySelector("script").src).href);
    const [{ WORDS }, { LANGUAGES, en }] = await Promise.all([of("words.js"), of("../tombola.js")]);
    return [LANGUAGES, Object.keys(en), WORDS];
}"""


async def gallery(visit: Visit) -> None:
    await visit.page.goto(f"{visit.stack.process.consumer_url}/themes")
    await visit.page.wait_for_selector(".looks[data-shown=wheel] .look:nth-child(6) button.main")


async def test_gallery_and_missing_pages_speak_every_language(fair: World, browser: Browser, visit: Visit) -> None:
    base = visit.stack.process.consumer_url
    for language, said in PAGE_TEXTS.items():
        found = {"/themes": said.themes, "/verify": VERIFY_TEXTS[language].title}
        for path, text in {**found, "/p/none": said.no_game, "/c/none": said.no_campaign}.items():
            answer = await visit.page.request.get(base + path, headers={"Accept-Language": f"{language}-XX, en;q=0.5"})
            page = html.unescape(await answer.text())
            direction = "rtl" if language == "ar" else "ltr"
            assert f'<html lang="{language}" dir="{direction}">' in page, (path, language)
            assert f">{text}</h1>" in page and f"<title>{text}</title>" in page, (path, language)
            assert (said.themes_lead in page) is (path == "/themes")
            assert answer.status == (200 if path in found else 404)
            assert "Accept-Language" in answer.headers["vary"], "a cache keeps the languages apart"
    await gallery(visit)
    languages, known, words = await visit.page.evaluate(ALL_SPOKEN)
    assert languages == list(PAGE_TEXTS) == list(words)
    assert all(words[language].keys() == words["en"].keys() for language in languages)
    assert not words["en"].keys() & set(known), "a key of the widget's would be overwritten here"
    assert [one for one in languages[1:] for key in words["en"] if words[one][key] == words["en"][key]] == []
    assert all("{name}" in words[language]["copy_name"] for language in languages)
    async with visiting(browser, fair.stack, **STILL, locale="ar") as arabic:
        await gallery(arabic)
        assert await arabic.page.inner_text("h1") == PAGE_TEXTS["ar"].themes
        names = await arabic.page.locator("[data-game]").all_inner_texts()
        assert names == [words["ar"][f"game_{game}"] for game in STAGES]
        assert set(await arabic.page.locator(".look .frame h2").all_inner_texts()) == {words["ar"]["game_wheel"]}
        assert await arabic.page.locator(".look .frame").first.get_attribute("dir") == "rtl"


async def test_brand_colours_and_font_style_the_campaign_page_and_nothing_else(fair: World, visit: Visit) -> None:
    async def opened(settings: dict[str, Any]) -> None:
        update = "UPDATE campaigns SET settings = $2 WHERE campaign_id = $1"
        await fair.database.execute(update, fair.campaign_id, settings)
        path = f"/c/{fair.campaign_id}?tenant_id={visit.stack.tenant_id}"
        await visit.page.goto(visit.stack.process.consumer_url + path)

    theme = {"primary": "#0b5c8a", "font": "Brand Sans, sans-serif", "mode": "dark"}
    settings = {"theme": theme, "background": {"color": "#20304a"}}
    changed = await fair.stack.admin("PUT", f"/admin/campaigns/{fair.campaign_id}", {"settings": settings})
    assert changed.code == "OK"
    await opened(settings)
    root = "getComputedStyle(document.documentElement)"
    assert (await visit.page.evaluate(f"{root}.fontFamily")).startswith('"Brand Sans", sans-serif')
    assert await visit.page.evaluate(f"{root}.colorScheme") == "dark"
    ground = await visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = re.match(r"oklch\(([\d.]+)", ground)
    assert lightness and float(lightness[1]) <= 0.26
    assert await visit.page.get_attribute("meta[name=theme-color]", "content") == "#0b5c8a"
    evil = 'x;}body{display:none}</style><script>window.evil=1</script>"'
    await opened({"theme": {"primary": evil, "font": evil, "mode": evil}, "background": {"color": evil}})
    assert await visit.page.is_visible("h1") and await visit.page.evaluate("window.evil") is None
    assert "display:none" not in await visit.page.evaluate("document.querySelector('style').textContent")
    font = f"getComputedStyle({ROOT}.querySelector('.frame')).fontFamily"
    for written, used in (
        *(("Georgia, 'Brand Serif', serif", True), ("url(https://evil.example/a.woff)", False)),
        *(("x; color: red", False), ("expression(alert(1))", False), ("{}", False)),
    ):
        ui = {"theme": {"font": written}}
        await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public", ui=ui))
        await visit.page.evaluate("document.documentElement.style.fontFamily = 'monospace'")  # It is not inherited.
        assert (await visit.page.evaluate(font)).startswith("Georgia") is used, written
    assert not any("evil" in one for one in visit.asked)


EXAMPLES: Final[list[list[str]]] = json.loads(Path("tests/support/pages/prose.json").read_text())
TEXTS: Final[dict[str, Any]] = {
    "title": {"en": "Spring fair", "ar": "معرض الربيع"},
    "intro": {"en": "Spin the wheel and **win** a [mug](https://brand.example).", "ar": "أدر العجلة و**اربح**."},
    "how": {"en": "1. Press the button.\n2. Wait.", "ar": "اضغط على الزر."},
    "lose": {"en": "Not this time: here is *10 %* off.", "ar": "حظ أوفر."},
    "thanks": {"en": "Thank you for playing.", "ar": "شكرًا لك."},
    "imprint": {"en": "Brand Ltd."},
}
AFTER: Final = {"label": {"en": "To the shop", "ar": "إلى المتجر"}, "url": "https://brand.example/shop", "share": True}


async def losing(fair: World, texts: dict[str, Any], after: dict[str, Any], **settings: Any) -> str:
    """A game of a campaign with a page, in which no play wins."""
    page = {"texts": texts, "after": after}
    world = World(fair.stack, (await make_campaign(fair.stack, settings={"page": page, **settings}))["id"])
    return await world.game({"type": "scratch_card", "reward_handler": "probability"}, {"prizes": []}, access="public")


async def frame(visit: Visit, selector: str) -> str:
    return " ".join((await visit.page.inner_text(f".frame {selector}")).split())


async def test_texts_are_shown_around_the_game_and_after_the_result(
    fair: World, visit: Visit, browser: Browser
) -> None:
    game_id = await losing(fair, TEXTS, AFTER)
    page = visit.page
    campaign_id = (await fair.stack.admin("GET", f"/admin/games/{game_id}")).data["campaign_id"]
    await open_quest(fair.stack, campaign_id, name="Invite", condition={"kind": "referrals"})
    await visit.open(game_id)
    assert await frame(visit, "h1") == "Spring fair"
    assert await page.inner_text(".lead strong") == "win"
    assert await page.get_attribute(".lead a", "href") == "https://brand.example"
    await page.click(".how summary")
    assert await frame(visit, ".how ol") == "Press the button. Wait."
    async with page.expect_response("**/referral-code"):
        await visit.play()
    assert "Not this time: here is 10 % off." in await visit.result()
    assert await frame(visit, ".card .quiet") == "Thank you for playing."
    assert await page.get_attribute(".next a", "href") == AFTER["url"]
    assert await page.inner_text(".next a") == "To the shop"
    await page.evaluate("navigator.share = async (shared) => { window.shared = shared; }")
    await page.click(".next button")
    link = await page.evaluate("window.shared.url")
    assert re.search(r"[?&]invite=\w{10}$", link)
    async with visiting(browser, fair.stack, **STILL) as friend:
        await friend.page.goto(link)
        await friend.ready()
        await friend.play()
        invited = "SELECT count(*) FROM referrals WHERE campaign_id = $1"
        assert await fair.database.fetchval(invited, campaign_id) == 1, "before the play"
    assert await violations(page) == []
    assert await page.get_attribute("footer a", "href") is not None, "the hosted page has the legal links"


@pytest.mark.parametrize("stays", [True, False])
async def test_redirect_waits_and_can_be_cancelled(fair: World, visit: Visit, stays: bool) -> None:
    shop = f"{fair.stack.process.consumer_url}/healthz"
    after = {"url": "https://brand.example/shop", "redirect_seconds": 1 if not stays else 2}
    game_id = await losing(fair, {}, after)
    page = visit.page
    await page.route("https://brand.example/shop", lambda route: route.fulfill(status=302, headers={"Location": shop}))
    await visit.open(game_id)
    await page.clock.install()
    await visit.play()
    await page.wait_for_selector(".leaving")
    if stays:
        await page.click(".leaving button")
        await page.clock.run_for(5_000)
        assert await page.query_selector(".leaving") is None
        assert f"/p/{game_id}" in page.url
    else:
        async with page.expect_request("https://brand.example/shop"):
            await page.clock.run_for(3_000)
    visit.wrong.clear()


async def test_html_in_every_text_stays_text_in_the_widget(fair: World, visit: Visit) -> None:
    texts = {name: {"en": EVIL} for name in ("title", "intro", "how", "lose", "thanks", "terms")}
    after = {"label": {"en": EVIL}, "url": f"https://brand.example/{EVIL}", "share": True}
    await visit.open(await losing(fair, texts, after, theme={"logo": EVIL, "logo_alt": EVIL}))
    await visit.play()
    assert await visit.page.inner_text(".card .prose >> nth=0") == EVIL
    assert await visit.page.evaluate("window.evil") is None
    assert await visit.page.query_selector(".next a, .logo") is None, "an invalid address is not used"


async def test_widget_renders_markdown_as_the_service_does(fair: World, visit: Visit) -> None:
    await visit.open(await losing(fair, {"title": "x"}, {}))
    version = await visit.page.evaluate(
        "performance.getEntriesByType('resource').map((one) => one.name).find((one) => one.endsWith('/page.js'))"
    )
    rendered = await visit.page.evaluate(
        """async ([address, texts]) => {
            const { Page } = await import(address);
            const shown = (intro) => new Page({ ui: { page: { texts: { intro } } } }, {}, "en").intro();
            return texts.map((text) => shown(text).innerHTML);
        }""",
        [version, [text for text, _ in EXAMPLES]],
    )
    plain = [html.replace(' target="_blank" rel="noopener"', "") for html in rendered]
    assert plain == [html for _, html in EXAMPLES]
