"""How long each page of the dashboard takes until it is usable, in Chromium, over a tenant with a crowd.

    python -m ops.benchmarks.pages

Prints the table of docs/bench.md. A page is usable once it shows what it has fetched, and nothing loads any more: the
time is counted from the navigation, with the page's modules in the browser's cache, as whoever works with it has them.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from redis import Redis

from ops.benchmarks.crowd import Crowd, fill
from ops.benchmarks.fixture import Fixture
from ops.benchmarks.stack import BenchStack, StackError, served, staff_token
from ops.chromium import chromium
from ops.servers.base import wait_for

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext

USABLE_MS: Final = 1_000
"""Each page's target."""

HANG_SECONDS: Final = 30.0
QUIET_SECONDS: Final = 0.4
"""A page that was usable for so long is: nothing follows."""

COUNT_SECONDS: Final = 180.0
RANK_SECONDS: Final = 600.0
"""A worker scores the boards one after the other, each once: pages are not to be asked for one before."""

_COUNTED: Final = """SELECT (SELECT count(*) FROM campaign_marks AS m JOIN games AS g USING (tenant_id, campaign_id)
    WHERE g.status = 'active' AND m.counted_until > now() - interval '5 minutes') > 0
    AND (SELECT max(counted_until) FROM figure_marks) > now() - interval '5 minutes'"""
"""Plays are counted as they come, in the background: pages are not to be asked for a month of them at once."""

_BOARDS: Final = "SELECT count(*) FROM leaderboards WHERE status = 'active'"

WATCH: Final = """(() => {
    const look = () => {
        const is = document.querySelector("#content h1, #content .empty")
            && !document.querySelector(".loading, [aria-busy=true], .problem");
        if (!is) delete window.usable_at;
        else window.usable_at ??= performance.now();
    };
    new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true });
})()"""


@dataclass(frozen=True, slots=True)
class Visited:
    """A page: its path as the table has it, and the milliseconds of each visit."""

    path: str
    visits: list[float]

    @property
    def ms(self) -> float:
        return median(self.visits)


def paths(crowd: Crowd) -> dict[str, str]:
    """Every page, and lists as they are filtered: {as the table has it: path}."""
    ids = {"campaign": crowd.campaign, "game": crowd.game, "prize": crowd.prize, "board": crowd.board}
    ids |= {"player": crowd.player, "codes": crowd.code_prize}
    shown = (
        "/",
        "/campaigns",
        "/campaigns?q=none+such",
        "/campaigns/gallery",
        "/campaigns/{campaign}",
        "/campaigns/{campaign}/games/new",
        "/games",
        "/games/{game}",
        "/prizes",
        "/prizes?campaign_id={campaign}",
        "/prizes/new",
        "/prizes/{prize}",
        "/prizes/{codes}",
        "/leaderboards",
        "/leaderboards/{board}",
        "/quests",
        "/players",
        "/players?q=00000042",
        "/players?q=player_00000042@example.com",
        "/players?q=none+such",
        "/players/{player}",
        "/rewards",
        "/rewards?status=failed",
        "/rewards?prize_id={prize}",
        "/rewards?contact=player_00000042@example.com",
        "/deliveries",
        "/deliveries?status=dead",
        "/deliveries?status=retry",
        "/integrations",
        "/analytics",
        "/analytics?campaign={campaign}",
        "/approvals",
        "/audit",
        "/audit?actor=staff_7",
        "/audit?subject_type=campaign",
        "/audit?subject_id={player}",
        "/people",
        "/merchants",
    )
    return {path: path.format(**ids) for path in shown}


async def visit(context: BrowserContext, url: str) -> float:
    """Milliseconds from the navigation until the page is usable."""
    page = await context.new_page()
    try:
        await page.goto(url, wait_until="commit")
        until = time.monotonic() + HANG_SECONDS
        last, since = None, 0.0
        while time.monotonic() < until:
            now = await page.evaluate("window.usable_at ?? null")
            if now is None or now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > QUIET_SECONDS:
                return float(now)
            await asyncio.sleep(0.05)
        busy = page.locator("#content .problem, #content .loading, #content [aria-busy=true]")
        told = [one[:200] for one in await busy.evaluate_all("(all) => all.map((one) => one.outerHTML)")]
        raise StackError(f"{url} was not usable within {HANG_SECONDS:g} s: {told or await page.inner_text('body')}")
    finally:
        await page.close()


@asynccontextmanager
async def signed_in(token: str) -> AsyncIterator[BrowserContext]:
    """A browser in which staff is signed in."""
    from playwright.async_api import async_playwright

    path = chromium()
    if path is None:
        raise StackError("there is no Chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        await context.add_init_script(f"sessionStorage.setItem('tombola.token', '{token}')")
        await context.add_init_script(WATCH)
        yield context
        await browser.close()


async def measure(home: str, token: str, crowd: Crowd, visits: int, only: str) -> list[Visited]:
    """Visits every page so often, one after the other."""
    found: list[Visited] = []
    async with signed_in(token) as context:
        for shown, path in paths(crowd).items():
            if only not in shown:
                continue
            try:
                found.append(Visited(shown, [await visit(context, home + path.rstrip("/")) for _ in range(visits)]))
            except StackError as error:
                found.append(Visited(shown, [math.inf]))
                print(error, file=sys.stderr)
            else:
                print(f"{found[-1].ms:7.0f} ms  {shown}  {[round(one) for one in found[-1].visits]}", file=sys.stderr)
    return found


def table(found: list[Visited], players: int, plays: int, load: float) -> str:
    """As docs/bench.md has it."""
    visits = max(len(one.visits) for one in found)
    lines = [
        f"{players:,} players, {plays:,} plays; medians of {visits} visits; {os.cpu_count()} cores, with a load of"
        f" {load:.1f} by others when it began.",
        "",
        "| page | usable after | of the visits |",
        "| --- | --- | --- |",
    ]
    for one in found:
        missed = " MISSED" if one.ms > USABLE_MS else ""
        took = f"{one.ms:,.0f} ms" if math.isfinite(one.ms) else f"more than {HANG_SECONDS:g} s"
        lines.append(f"| `{one.path}` | {took}{missed} | {', '.join(f'{ms:,.0f}' for ms in one.visits)} |")
    return "\n".join(lines) + "\n"


def _ranked(stack: BenchStack) -> int:
    """How many boards have their ranking."""
    assert stack.servers.redis_url is not None
    with Redis.from_url(stack.servers.redis_url) as client:
        return sum(1 for _ in client.scan_iter("tombola:board:*:meta"))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ops.benchmarks.pages", description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=100_000, metavar="N")
    parser.add_argument("--plays", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--visits", type=int, default=3, metavar="N")
    parser.add_argument("--only", default="", metavar="TEXT", help="pages whose path holds it")
    parser.add_argument("--hold", action="store_true", help="wait for Enter at the end, to look into the database")
    return parser.parse_args()


def main() -> None:
    """Fills, visits and prints."""
    options = parse()
    load = os.getloadavg()[0]
    with served("pages-") as (stack, server, admin_url):
        began = time.perf_counter()
        crowd = fill(stack, Fixture(stack.core(server)), options.players, options.plays)
        wait_for(lambda: stack.sql(_COUNTED) == "t", COUNT_SECONDS, server.failure)
        worker = stack.serve("worker leaderboards", "worker")
        wait_for(lambda: _ranked(stack) == int(stack.sql(_BOARDS)), RANK_SECONDS, worker.failure)
        print(
            f"filled and counted in {time.perf_counter() - began:.0f} s: {stack.postgres.url('bench')}", file=sys.stderr
        )
        token = staff_token(stack, crowd.tenant_id)
        found = asyncio.run(measure(f"{admin_url}/dashboard", token, crowd, options.visits, options.only))
        print(table(found, options.players, options.plays, load), end="")
        if options.hold:
            input("Enter ends it.")


if __name__ == "__main__":
    main()
