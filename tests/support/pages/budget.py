"""What a page costs: Chromium's trace of its tasks, in the processor's time relative to a fixed piece of work."""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.chromium import Browser, Page

WORK_MS: Final = 12
"""The processor's time of `WORK` on one four times as fast as the phone's."""

READY: Final = """
    performance.mark("begins");
    addEventListener("tombola:ready", () => { performance.mark("ready"); window.playable = performance.now(); });
"""
WORK: Final = """() => {
    const begins = performance.now();
    let sum = 0;
    for (let i = 0; i < 3e6; i++) sum = (sum * 31 + i) % 1000003;
    return performance.now() - begins;
}"""
WORKS: Final = f"""() => new Promise((done) => setTimeout(() => {{
    performance.mark("works");
    setTimeout(() => {{
        const spent = ({WORK})();
        setTimeout(() => done(spent));
    }});
}}))"""
"""`WORK` as a task of the page's own, which has ended, and so is in the trace, when the promise is kept."""


@dataclass
class Trace:
    """Chromium's trace events; times of the processor in milliseconds."""

    events: list[dict[str, Any]] = field(default_factory=list)

    def mark(self, name: str) -> dict[str, Any]:
        marks = [one for one in self.events if one["name"] == name and "blink.user_timing" in one["cat"]]
        return marks[-1]

    def pace(self) -> float:
        """The factor from this processor to one that does `WORK` in `WORK_MS`."""
        return WORK_MS / self.longest(self.mark("works"))

    def longest(self, after: dict[str, Any], before: dict[str, Any] | None = None) -> float:
        own = [one for one in self.events if (one["pid"], one["tid"]) == (after["pid"], after["tid"])]
        end = before["ts"] if before else math.inf
        return max(
            one["tdur"] / 1_000
            for one in own
            if one["name"].endswith("RunTask") and after["ts"] <= one["ts"] < end and "tdur" in one
        )


@asynccontextmanager
async def traced(browser: Browser, page: Page) -> AsyncIterator[Trace]:
    trace = Trace()
    await page.add_init_script(READY)
    await browser.start_tracing(page=page, categories=["toplevel", "blink.user_timing"])
    try:
        yield trace
    finally:
        trace.events = json.loads(await browser.stop_tracing())["traceEvents"]
