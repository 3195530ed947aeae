"""The page's budget of bytes, requests and processor time on a phone with a slow line.

The phone has Chromium's "Fast 3G" (562.5 ms a request, 1.44 Mbit/s down) and a processor four times slower. Bytes,
requests and processor time are always asserted; processor time relative to a fixed piece of work, so that a busy
machine lengthens both. Times by the clock are printed, and asserted where the file runs alone on a quiet machine
(`TOMBOLA_NIGHTLY=1 ./ops/test -n0 tests/browser/test_budget.py`).
"""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support.browsing import visiting
from tests.support.pages.games import CARD, HAND, collection, eggs, gifts
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

pytestmark = pytest.mark.asyncio(loop_scope="session")

LATENCY_MS: Final = 562.5
BYTES_PER_SECOND: Final = 180_000
FAST_3G: Final = {
    "offline": False,
    "latency": LATENCY_MS,
    "downloadThroughput": BYTES_PER_SECOND,
    "uploadThroughput": 84_375,
}
SLOWER: Final = 4
PHONE: Final = {"viewport": {"width": 412, "height": 823}}
LOADS: Final = 3
PAINT_MS: Final = 1_000
PLAYABLE_MS: Final = 1_500
LONG_TASK_MS: Final = 50
TRIES: Final = 5
WHOLE_BYTES: Final = 25_000
PATIENCE_MS: Final = 120_000
CALM_MS: Final = 25
"""The clock's time of `WORK` on a quiet machine."""

WORK_MS: Final = 12
"""The processor's time of `WORK` on one four times as fast as the phone's."""

READY: Final = """
    performance.mark("begins");
    addEventListener("tombola:ready", () => { performance.mark("ready"); window.playable = performance.now(); });
"""
PAINTED: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
WORK: Final = """() => {
    const begins = performance.now();
    let sum = 0;
    for (let i = 0; i < 3e6; i++) sum = (sum * 31 + i) % 1000003;
    return performance.now() - begins;
}"""

SPIN: Final = """() => new Promise((seen) => setTimeout(async () => {
    performance.mark("spins");
    seen(await document.querySelector("tombola-game").play());
}))"""
WORKS: Final = f"""() => new Promise((done) => setTimeout(() => {{
    performance.mark("works");
    setTimeout(() => done(({WORK})()));
}}))"""
"""`WORK` as a task of the page's own."""


async def wheel(fair: World) -> str:
    labels = ("Toffee apple", "Fair mug", "Golden pumpkin", "Cider", "Lantern", "Next time")
    segments = [{"label": label, "emoji": "🍏"} for label in labels]
    return await fair.wheel(await fair.prize(), access="public", ui={"wheel": {"segments": segments}})


async def as_on_a_phone(page: Page) -> None:
    """A slow line, nothing kept of before, a slow processor."""
    session = await page.context.new_cdp_session(page)
    await session.send("Network.enable")
    await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
    await session.send("Network.emulateNetworkConditions", FAST_3G)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})


async def first_visit(browser: Browser, stack: Stack, game_id: str) -> dict[str, float]:
    """{paint, playable, work} in milliseconds by the clock."""
    async with visiting(browser, stack, **PHONE) as visit:
        before = await visit.page.evaluate(WORK)
        visit.page.set_default_timeout(PATIENCE_MS)
        await visit.page.add_init_script(READY)
        await as_on_a_phone(visit.page)
        await visit.open(game_id)
        await visit.page.wait_for_function("window.playable")
        times = {"paint": PAINTED, "playable": "window.playable"}
        found = {name: await visit.page.evaluate(script) for name, script in times.items()}
        after = await visit.page.evaluate(WORK)
        return {**found, "work": max(before, after / SLOWER)}


@pytest.mark.nightly
async def test_page_on_a_slow_phone_is_painted_and_playable_soon(fair: World, browser: Browser) -> None:
    game_id = await wheel(fair)
    visits = [await first_visit(browser, fair.stack, game_id) for _ in range(LOADS)]
    medians = {name: statistics.median(one[name] for one in visits) for name in visits[0]}
    calm = "PYTEST_XDIST_WORKER" not in os.environ and all(one["work"] <= CALM_MS for one in visits)
    print(f"\nFast 3G, processor / {SLOWER}, median of {LOADS}{'' if calm else ' (busy machine: not held)'}")
    for name, most in {"paint": PAINT_MS, "playable": PLAYABLE_MS, "work": CALM_MS}.items():
        print(f"  {name:10}{medians[name]:8.0f} of {most:5} ms   {[round(one[name]) for one in visits]}")
    assert medians["paint"] < medians["playable"]
    if calm:
        assert (medians["paint"] <= PAINT_MS, medians["playable"] <= PLAYABLE_MS) == (True, True)


@dataclass
class Trace:
    """What Chromium tells of what it did; times of the processor, in milliseconds."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def mark(self, name: str) -> dict[str, Any]:
        """A mark of the page's."""
        marks = [one for one in self.events if one["name"] == name and "blink.user_timing" in one["cat"]]
        return marks[-1]

    def pace(self) -> float:
        """By what to multiply what the page took of this processor, for one that does `WORK` in time."""
        return WORK_MS / self.longest(self.mark("works"))

    def longest(self, after: dict[str, Any], before: dict[str, Any] | None = None) -> float:
        """What the longest task of the page's own thread took of the processor, since that mark (and before that)."""
        own = [one for one in self.events if (one["pid"], one["tid"]) == (after["pid"], after["tid"])]
        end = before["ts"] if before else math.inf
        return max(
            one["tdur"] / 1_000
            for one in own
            if one["name"].endswith("RunTask") and after["ts"] <= one["ts"] < end and "tdur" in one
        )


@asynccontextmanager
async def traced(browser: Browser, page: Page) -> AsyncIterator[Trace]:
    """Traces the page; the trace is there at the end of the block."""
    trace = Trace()
    await page.add_init_script(READY)
    await browser.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
    try:
        yield trace
    finally:
        trace.events = json.loads(await browser.stop_tracing())["traceEvents"]


async def asked_and_spent(browser: Browser, stack: Stack, game_id: str) -> tuple[dict[str, int], set[str], float]:
    """({what was loaded: bytes}, what the page named to be loaded, the processor's ms until it is playable).

    The processor's as of one that does `WORK` in time: the page does it right after.
    """
    async with visiting(browser, stack, **PHONE, locale="de-DE") as visit:
        async with traced(browser, visit.page) as trace:
            await visit.open(game_id)
            await visit.page.wait_for_function("window.playable")
            await visit.page.evaluate(WORKS)
        entries = "performance.getEntries().filter((one) => one.encodedBodySize)"
        sizes = await visit.page.evaluate(
            f"Object.fromEntries({entries}.map((one) => [one.name, one.encodedBodySize]))"
        )
        named = "[...document.querySelectorAll('[rel=modulepreload]')].map((one) => one.href)"
        preloaded = set(await visit.page.evaluate(named))
    spent = (trace.mark("ready")["tts"] - trace.mark("begins")["tts"]) / 1_000
    return sizes, preloaded, spent * trace.pace()


async def test_page_is_playable_after_two_round_trips_within_its_bytes_and_processor_time(
    fair: World, browser: Browser
) -> None:
    """One for the page, then one for the widget, the game and the words together."""
    game_id = await wheel(fair)
    visits = [await asked_and_spent(browser, fair.stack, game_id) for _ in range(LOADS)]
    sizes, preloaded, _ = visits[0]
    files = {path for path in list(sizes)[1:] if not path.endswith("icon.svg")}
    assert len(files) == 3 and files == preloaded, "no file is discovered by loading another"
    whole = sum(sizes.values())
    # The least of them: other load makes it slower, nothing makes it faster.
    spent = min(one for _, _, one in visits)
    needed = 2 * LATENCY_MS + whole / BYTES_PER_SECOND * 1_000 + SLOWER * spent
    print(
        f"\nplayable: 2 x {LATENCY_MS} ms, {whole} bytes, {SLOWER} x {spent:.0f} ms: {needed:.0f} of {PLAYABLE_MS} ms"
    )
    assert whole <= WHOLE_BYTES
    assert needed <= PLAYABLE_MS


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
"""A finger that rubs from edge to edge, once a frame, once the prize lies under the foil."""


async def games(fair: World) -> dict[str, str]:
    """A game of each shape that is over within seconds when everything is caught."""
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
