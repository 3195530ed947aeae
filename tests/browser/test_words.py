"""Our own words: whole in each of twelve languages, chosen as the player wants it, and from right to left too."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import pytest_asyncio

from tests.browser.test_catchers import PATIENCE_MS
from tests.browser.test_outcomes import SHAPES, UNDER_WAY, finish, made
from tests.browser.test_pictures import OVERFLOW, SCREENS, SIZES, look
from tests.support.browsing import STILL, Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

OTHERS: Final = ("de", "fr", "es", "it", "pt", "nl", "pl", "tr", "ar", "ja", "zh")
ALL_WORDS: Final = """async ([address, languages]) => {
    const { LANGUAGES, en } = await import(address);
    const of = async (path) => (await import(new URL(path, address).href)).default;
    const words = { en: { game: en, panels: await of("words/more/en.js") } };
    for (const one of languages)
        words[one] = { game: await of(`words/${one}.js`), panels: await of(`words/more/${one}.js`) };
    const plurals = (one) => new Intl.PluralRules(one).resolvedOptions().pluralCategories;
    return [LANGUAGES, words, Object.fromEntries(Object.keys(words).map((one) => [one, plurals(one)]))];
}"""
AS_IN_ENGLISH: Final = {"credited", "day_time", "has", "rank_prize"}
"""Keys whose words may be the same in every language: signs and names alone."""

LOAN_WORDS: Final = {
    *((language, "login_code") for language in ("de", "fr", "nl")),
    *((language, "login_email") for language in ("fr", "it", "pt", "nl", "pl")),
    *((language, "pause") for language in ("de", "fr")),
    ("fr", "needs_POINTS"),
}
"""(language, key) of words that the language has taken from English, or shares with it."""

NAMES: Final = {
    "ar": ("معرض الخريف الكبير", "كوب Fair mug (كبير)", "العب واربح كوبًا كل يوم حتى آخر ورقة شجر."),
    "de": ("Herbstjahrmarktsgewinnspiel", "Donaudampfschifffahrtstasse", "Einmal täglich, bis das letzte Blatt fällt."),
    "ja": ("秋のお祭りキャンペーン", "お祭りのマグカップ", "毎日一回、最後の葉が落ちるまで遊べます。"),
}
"""{locale: (a game's name, a prize's, what is told of the game)}"""

CUT: Final = """() => [...document.querySelector("tombola-game").shadowRoot.querySelectorAll(".frame *")]
    .filter((one) => one instanceof HTMLElement && one.clientWidth > 1 && one.scrollWidth > one.clientWidth + 1)
    .filter((one) => !one.closest(".listen, .backdrop, .deck, .slots, .field > :not(.over)"))
    .filter((one) => !one.matches(".field") && !one.querySelector(".disc, .field"))
    .filter((one) => getComputedStyle(one).display !== "inline")
    .map((one) => `${one.className}: ${one.textContent.slice(0, 40)}`)"""
"""What is wider than its place."""


WIDTHS: Final = sorted(SIZES) if len(SCREENS) > len(SIZES) else [min(SIZES)]
"""All of them where all pictures are taken."""

BROWSERS: Final = {
    "de-AT": "Am Rad drehen",
    "pt-BR": "Girar a roda",
    "ja-JP": "ルーレットを回す",
    "sv-SE": "Spin the wheel",
}


def texts(value: Any) -> dict[str, str]:
    """{plural category: text}; {"": text} of words that do not count."""
    return value if isinstance(value, dict) else {"": value}


def placeholders(value: Any) -> set[str]:
    return {name for text in texts(value).values() for name in re.findall(r"\{(\w+)\}", text)}


async def says(visit: Visit) -> str:
    """The button's words, once the game is there: until then they are those of every game."""
    await visit.page.wait_for_selector(".stage .wheel")
    return str(await visit.page.inner_text("button.main"))


@pytest_asyncio.fixture(loop_scope="session")
async def everything(browser: Browser, shop: Stack) -> tuple[list[str], dict[str, Any], dict[str, list[str]]]:
    """(the languages, {language: {game, panels}}, {language: its plural categories})."""
    async with visiting(browser, shop, **STILL) as visit:
        await visit.page.goto(f"{shop.process.consumer_url}/p/game_nothing")
        visit.forgive("404")
        address = await visit.page.evaluate("document.querySelector('link[rel=icon]').href")
        entry = address.replace("icon.svg", "tombola.js")
        languages, words, plurals = await visit.page.evaluate(ALL_WORDS, [entry, list(OTHERS)])
        return languages, words, plurals


async def test_every_language_says_all_that_english_says_and_nothing_else(everything: Any) -> None:
    languages, words, plurals = everything
    assert languages == ["en", *OTHERS]
    # What the panels say is added to what the game says: a key of both would be another one from then on.
    assert words["en"]["game"].keys() & words["en"]["panels"].keys() == set()
    wrong = []
    for language, where in ((one, where) for one in languages for where in ("game", "panels")):
        english, own = words["en"][where], words[language][where]
        wrong += [f"{language} lacks {where}.{key}" for key in english.keys() - own.keys()]
        wrong += [f"{language} has {where}.{key} too much" for key in own.keys() - english.keys()]
        for key in english.keys() & own.keys():
            name = f"{language} {where}.{key}"
            counted, said = isinstance(english[key], dict), texts(own[key])
            if counted and set(said) != set(plurals[language]):
                wrong.append(f"{name}: {sorted(said)} are not its plurals {sorted(plurals[language])}")
            if not counted and isinstance(own[key], dict):
                wrong.append(f"{name} has plurals, English has none")
            unknown = placeholders(own[key]) ^ placeholders(english[key])
            # "one", "two", "zero" may say the number in words.
            if unknown or any(
                placeholders(text) != placeholders(english[key])
                for category, text in said.items()
                if category not in ("zero", "one", "two")
            ):
                wrong.append(f"{name}: its {{names}} are not those of English")
            if not all(text.strip() for text in said.values()):
                wrong.append(f"{name} says nothing")
    assert wrong == []


async def test_no_language_is_left_in_english(everything: Any) -> None:
    _, words, _ = everything
    same = {
        (language, key)
        for language in OTHERS
        for where in ("game", "panels")
        for key, value in words[language][where].items()
        if key not in AS_IN_ENGLISH and value == words["en"][where].get(key)
    }
    assert same - LOAN_WORDS == set()


@pytest.mark.parametrize("locale", BROWSERS)
async def test_the_browsers_language_is_spoken_where_there_are_words_of_it(
    fair: World, browser: Browser, shop: Stack, locale: str
) -> None:
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 1})
    async with visiting(browser, shop, **STILL, locale=locale) as visit:
        await visit.open(game_id)
        assert await says(visit) == BROWSERS[locale]
        spoken = "en" if locale == "sv-SE" else locale
        assert await visit.page.get_attribute("html", "lang") == spoken
        assert await visit.page.get_attribute(".frame", "lang") == spoken


async def test_the_pages_language_goes_before_the_players_and_that_before_the_browsers(
    fair: World, browser: Browser, shop: Stack
) -> None:
    texts = {"won": "Juchhe!", "plays_left": {"other": "{count}!"}}
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 4}, ui={"texts": texts})
    async with visiting(browser, shop, **STILL, locale="de-DE") as visit:
        await visit.open(game_id)
        assert await says(visit) == "Am Rad drehen"
        player = {"locale": "pl", "display_name": "Ann", "contacts": []}
        login = {"token": shop.token("ann"), "refresh_token": "", "expires_at": "4102444800", "player": player}
        name = f"tombola.login:{shop.process.consumer_url}:{shop.tenant_id}"
        await visit.page.evaluate("([name, login]) => localStorage.setItem(name, login)", [name, json.dumps(login)])
        await visit.open(game_id)
        assert await says(visit) == "Zakręć kołem"
        await visit.page.evaluate("document.querySelector('tombola-game').setAttribute('locale', 'fr-CA')")
        await visit.page.wait_for_selector(".frame[lang=fr-CA][data-state=ready]")
        assert await says(visit) == "Tourner la roue"
        await visit.press()
        assert "Juchhe!" in await visit.result(), "an operator's own words are said in every language"
        assert await visit.page.inner_text(".left") == "3!"


async def test_when_plays_come_back_is_told_in_the_players_language_and_time(
    fair: World, browser: Browser, shop: Stack
) -> None:
    game_id = await fair.wheel(await fair.prize(), access="public", rules={"max_plays_per_day": 1})
    told = []
    for zone in ("Asia/Tokyo", "America/New_York"):
        async with visiting(browser, shop, **STILL, locale="de-DE", timezone_id=zone) as visit:
            await visit.open(game_id)
            await visit.press()
            await visit.result()
            await visit.page.wait_for_selector(".left:text('Weiter geht es')")
            told.append(await visit.page.inner_text(".left"))
    tokyo, new_york = (re.search(r"(heute|morgen), (\d\d?):00 \(in \d+ (?:Stunde|Minute)n?\)", line) for line in told)
    assert tokyo and new_york, told
    assert (int(tokyo[2]) - int(new_york[2])) % 24 in (13, 14)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 11, 100])
async def test_arabic_counts_by_its_six_plurals(fair: World, browser: Browser, shop: Stack, count: int) -> None:
    async with visiting(browser, shop, **STILL, locale="ar") as visit:
        await visit.open(await fair.wheel(await fair.prize(), access="public"))
        said = await visit.page.evaluate(
            """async (count) => {
                const { Words } = await import(document.querySelector("script").src);
                return (await Words.load("ar-AE")).t("plays_left", { count });
            }""",
            count,
        )
    begins = {0: "لم تبقَ", 1: "بقيت لك لعبة واحدة", 2: "بقيت لك لعبتان", 3: "بقيت لك 3 ألعاب", 11: "بقيت لك 11 لعبة"}
    assert said.startswith(begins.get(count, "بقيت لك 100 لعبة"))


async def test_a_name_in_a_sentence_leaves_the_rest_of_it_in_its_place(fair: World, visit: Visit) -> None:
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    said = await visit.page.evaluate(
        """async (cases) => {
            const { Words } = await import(document.querySelector("script").src);
            return Promise.all(cases.map(async ([locale, name]) =>
                (await Words.load(locale)).t("credited", { count: 2, name })));
        }""",
        [["ar", "Mug (large)"], ["ar", "+49 151"], ["ar", "اليوم، 2:38 م"], ["en", "قهوة"], ["en", "Mug"]],
    )
    apart = [one.partition("× ")[2] for one in said]
    assert apart == ["\u2068Mug (large)\u2069", "\u2068+49 151\u2069", "اليوم، 2:38 م", "\u2068قهوة\u2069", "Mug"]


@pytest.mark.parametrize("width", [320, 768, 1440])
async def test_from_right_to_left_all_is_mirrored_but_the_wheel_and_codes(
    fair: World, browser: Browser, shop: Stack, width: int
) -> None:
    prize_id = await fair.prize(name="Mug (large), 2 pieces!")
    segments = [
        {"label": "قهوة", "emoji": "☕", "prize_id": prize_id},
        {"label": "شاي", "emoji": "🍵"},
        {"label": "Tea"},
    ]
    ui = {"wheel": {"segments": segments}, "description": "أدر العجلة واربح Mug (large), 2 pieces!"}
    game_id = await fair.wheel(prize_id, access="public", name="عجلة الخريف", ui=ui, rules={"max_plays_per_day": 3})
    size = {"width": width, "height": 800}
    async with visiting(browser, shop, **STILL, locale="ar", viewport=size) as visit:
        await visit.open(game_id)
        assert await visit.page.get_attribute("html", "dir") == "rtl" == await visit.page.get_attribute(".frame", "dir")
        back = await visit.page.locator(".back").bounding_box()
        assert back is not None and back["x"] + back["width"] > width - 20, "the way back is where reading begins"
        await visit.shot(f"arabic-ready-{width}")
        await visit.press()
        assert "Mug (large), 2 pieces!" in await visit.result()
        assert await visit.page.evaluate(OVERFLOW) <= 0
        await visit.shot(f"arabic-won-{width}")
        for panel in ("prizes", "rewards", "fair"):
            await visit.page.click(f"[data-panel={panel}]")
            await visit.page.wait_for_selector("dialog .panel > :not(.busy)")
            if panel == "rewards":
                await visit.page.wait_for_selector(".facts strong")
            if panel == "fair":
                code = await visit.page.evaluate(
                    "getComputedStyle(document.querySelector('tombola-game').shadowRoot.querySelector('dd')).direction"
                )
                assert code == "ltr"
                await visit.page.click("dialog .row button")
                await visit.page.wait_for_selector(".steps li")
            title = await visit.page.locator("dialog h2").bounding_box()
            shut = await visit.page.locator("dialog header button:visible").bounding_box()
            assert title is not None and shut is not None and shut["x"] < title["x"]
            await visit.shot(f"arabic-{panel}-{width}")
            if panel == "rewards":
                name = "document.querySelector('tombola-game').shadowRoot.querySelector('.facts strong')"
                side = await visit.page.evaluate(f"getComputedStyle({name}).textAlign")
                assert side == "right", "a name in other letters stands where the others do"
            await visit.page.keyboard.press("Escape")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("locale", NAMES)
async def test_every_game_fits_in_long_words_in_other_letters_and_from_right_to_left(
    fair: World, browser: Browser, shop: Stack, locale: str, width: int
) -> None:
    name, prize, told = NAMES[locale]
    size = {"width": width, "height": SIZES[width]}
    async with visiting(browser, shop, **STILL, viewport=size, locale=locale) as visit:
        for shape in SHAPES:
            ui = {"description": told, "theme": {"preset": "carnival"}}
            await visit.open(await made(fair, shape, name=name, prize=prize, ui=ui, rules={"max_plays_per_day": 1}))
            seen = f"{locale}-{shape}"
            await whole(visit, f"{seen}-ready-{width}")
            await visit.press()
            if shape in UNDER_WAY:
                await visit.page.wait_for_selector(UNDER_WAY[shape], timeout=PATIENCE_MS)
                await whole(visit, f"{seen}-played-{width}")
            if shape == "eggs":
                continue  # What comes of it looks as it does of gifts.
            assert await finish(visit, "won") == "won"
            await whole(visit, f"{seen}-won-{width}")
        await visit.page.reload()
        await visit.result()
        await whole(visit, f"{locale}-refused-{width}")


async def whole(visit: Visit, name: str) -> None:
    """Takes the picture; nothing of the game is wider than its place."""
    assert await visit.page.evaluate(CUT) == [], name
    await look(visit, name)
