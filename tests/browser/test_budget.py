"""The page's budget of bytes, requests and processor time on a phone with a slow line.

The phone has Chromium's "Fast 3G" (562.5 ms a request, 1.44 Mbit/s down) and a processor four times slower.
Only nightly runs measure processor time, relative to a fixed piece of work: beside other load it varies by half.
"""

from dataclasses import dataclass
from typing import Final

import pytest

from tests.support.browsing import visiting
from tests.support.chromium import Browser
from tests.support.pages.budget import WORKS, traced
from tests.support.pages.games import CARD, HAND, collection, eggs, gifts
from tests.support.scenario import FULL
from tests.support.stack import Stack
from tests.support.world import World

PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
LATENCY_MS: Final = 562.5
BYTES_PER_SECOND: Final = 180_000
SLOWER: Final = 4
PHONE: Final = {"viewport": {"width": 412, "height": 823}}
LOADS: Final = 10
PLAYABLE_MS: Final = 1_500
SPENT_MS: Final = 55  # By day: an allowance for the processor's time.
LONG_TASK_MS: Final = 50
TRIES: Final = 5
WHOLE_BYTES: Final = 25_000


SPIN: Final = """() => new Promise((seen) => setTimeout(async () => {
    performance.mark("spins");
    seen(await document.querySelector("tombola-game").play());
}))"""


async def wheel(fair: World) -> str:
    labels = ("Toffee apple", "Fair mug", "Golden pumpkin", "Cider", "Lantern", "Next time")
    segments = [{"label": label, "emoji": "🍏"} for label in labels]
    return await fair.wheel(await fair.prize(), access="public", ui={"wheel": {"segments": segments}})


@dataclass(frozen=True)
class Load:
    """spent: the processor's milliseconds until the page is playable; by day SPENT_MS."""

    sizes: dict[str, int]
    preloaded: set[str]
    painted_first: bool
    spent: float

    @property
    def needed(self) -> float:
        """Milliseconds until the page is playable on the phone."""
        return 2 * LATENCY_MS + sum(self.sizes.values()) / BYTES_PER_SECOND * 1_000 + SLOWER * self.spent

    @property
    def within(self) -> bool:
        return self.painted_first and self.needed <= PLAYABLE_MS


async def load_once(browser: Browser, stack: Stack, game_id: str) -> Load:
    async with visiting(browser, stack, **PHONE, locale="de-DE") as visit:
        async with traced(browser, visit.page) as trace:
            await visit.open(game_id)
            await visit.page.wait_for_function("() => window.playable")
            painted_first = bool(await visit.page.evaluate(f"{PAINTED} < window.playable"))
            await visit.page.evaluate(WORKS)
        entries = "performance.getEntries().filter((one) => one.encodedBodySize)"
        sizes = await visit.page.evaluate(f"Object.fromEntries({entries}.map((it) => [it.name, it.encodedBodySize]))")
        named = "[...document.querySelectorAll('[rel=modulepreload]')].map((one) => one.href)"
        preloaded = set(await visit.page.evaluate(named))
    spent = (trace.mark("ready")["tts"] - trace.mark("begins")["tts"]) / 1_000
    return Load(sizes, preloaded, painted_first, spent * trace.pace() if FULL else SPENT_MS)


async def test_page_is_playable_after_two_round_trips_within_its_budget(fair: World, browser: Browser) -> None:
    """One for the page, then one for the widget, the game and the words together."""
    game_id = await wheel(fair)
    # Other load makes it slower, nothing makes it faster: one of them is enough.
    for _ in range(LOADS):
        load = await load_once(browser, fair.stack, game_id)
        if load.within:
            break
    files = {path for path in list(load.sizes)[1:] if not path.endswith(("icon.svg", "source.js", "/views"))}
    assert len(files) == 3 and files == load.preloaded, "no file is discovered by loading another"
    print(f"\nplayable after {load.needed:.0f} of {PLAYABLE_MS} ms, {load.spent:.0f} x {SLOWER} of the processor's")
    assert sum(load.sizes.values()) <= WHOLE_BYTES
    assert load.within


RUBBING: Final = """() => {
    // Of made-up pointers there is nothing to capture.
    HTMLCanvasElement.prototype.setPointerCapture = () => {};
    const foil = document.querySelector("tombola-game").shadowRoot.querySelector(".scratch canvas");
    let step = 0;
    const rub = () => {
        const { left, top, width, height } = foil.getBoundingClientRect();
        const place = { clientX: left + width * (step % 2), clientY: top + (height * (step % 40)) / 40, pointerId: 7 };
        foil.dispatchEvent(new PointerEvent(step++ ? "pointermove" : "pointerdown", place));
        if (!foil.classList.contains("off")) requestAnimationFrame(rub);
    };
    document.querySelector("tombola-game").addEventListener("tombola:played", rub);
}"""


async def games(fair: World) -> dict[str, str]:
    chances = {"prizes": [{"prize_id": await fair.prize(), "probability": 1}]}
    return {
        "wheel": await wheel(fair),
        "scratch": await fair.game(CARD, chances, access="public", ui={"items": [{"emoji": "⭐"}]}),
        "eggs": await eggs(fair, most=2),
        "gifts": await gifts(fair, count=3),
        "collection": await collection(fair),
    }


async def longest_task(browser: Browser, stack: Stack, name: str, game_id: str) -> float:
    """Of one play, in milliseconds of a processor that does `WORK` in time: the page does it right after."""
    async with visiting(browser, stack, **PHONE) as visit:
        await visit.open(game_id)
        await visit.page.evaluate(RUBBING if name == "scratch" else HAND, [True, 0])
        async with traced(browser, visit.page) as trace:
            # By its method: pressing a button through the debugger has longer tasks than the page.
            assert (await visit.page.evaluate(SPIN))["rewards"], name
            await visit.page.evaluate(WORKS)
        return trace.longest(trace.mark("spins"), trace.mark("works")) * trace.pace()


@pytest.mark.nightly
async def test_play_of_any_game_has_no_long_task(fair: World, browser: Browser) -> None:
    """From the press to the result, on the phone's processor."""
    over = {}
    for name, game_id in (await games(fair)).items():
        tries: list[float] = []
        # The least of them: other load makes it slower, nothing makes it faster.
        while len(tries) < TRIES and (not tries or min(tries) * SLOWER > LONG_TASK_MS):
            tries.append(await longest_task(browser, fair.stack, name, game_id))
        print(f"\nlongest task of a play, {name}: {min(tries):.1f} ms, times {SLOWER} of {LONG_TASK_MS} ms", end="")
        if min(tries) * SLOWER > LONG_TASK_MS:
            over[name] = tries
    assert over == {}
