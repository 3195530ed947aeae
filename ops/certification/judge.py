"""Judges a site after the load: rankings, conservation, and whether the recorded history can be explained."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ops.certification.site import Site
from ops.history.judge import problems
from ops.history.tables import broken, connected, read
from runtime.stores.database import Database

QUIET_SECONDS: Final = 240.0
"""How long deliveries and rankings may take to settle after the load. A lease lasts a minute."""
PLAYERS: Final = 30
"""Players whose reads are checked against the rows at the end."""
SHOWN: Final = 100

_BUSY: Final = """
SELECT EXISTS (
    SELECT FROM tasks WHERE tenant_id = $1 AND status IN ('pending', 'delivering', 'retry', 'awaiting'))
"""
_COUNTED: Final = """
SELECT p.player_id, count(*) AS score FROM plays AS p WHERE p.tenant_id = $1
GROUP BY p.player_id ORDER BY count(*) DESC, max(p.played_at), p.player_id LIMIT 100
"""


async def judge(site: Site) -> list[str]:
    """What is wrong with the site, one line each."""
    async with connected(site.deployment.settings) as database:

        async def quiet() -> bool:
            return not await database.fetchval(_BUSY, site.tenant_id)

        await until(quiet)
        ranked = "board" in site.ids and "leaderboards" in site.deployment.processes
        wrong = await _rankings(site, database) if ranked else []
        if "paid" in site.ids:
            await _read_back(site)
        found = await broken(database, site.tenant_id)
        tables = await read(database, site.tenant_id)
    wrong += [f"{holds} {row}" for holds, rows in found.items() for row in rows]
    return wrong + problems(site.history, tables, site.terms)


async def until(fact: Callable[[], Awaitable[bool]], seconds: float = QUIET_SECONDS) -> float:
    """Waits for a fact; returns the seconds it took. TimeoutError if it never holds."""
    began = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await fact():  # noqa: ASYNC110  no event reports it
            await asyncio.sleep(0.02)
    return time.monotonic() - began


async def _rankings(site: Site, database: Database) -> list[str]:
    """Waits until the board matches the rows of the plays; returns the difference if it never does."""
    wanted = [(row["player_id"], row["score"]) for row in await database.fetch(_COUNTED, site.tenant_id)]
    path = f"/leaderboards/{site.ids['board']}/rankings?limit={SHOWN}"
    shown: list[Any] = []

    async def agree() -> bool:
        nonlocal shown
        request = await site.client.ask("ListRankings", "onlooker", "GET", path, of=site.ids["board"])
        shown = [(one["player_id"], int(one["score"])) for one in request.data["items"]] if request.ok else []
        return shown == wanted

    try:
        await until(agree)
    except TimeoutError:
        return [f"rankings: {shown} for {wanted}"]
    return []


async def _read_back(site: Site) -> None:
    """Players read their state, which the checker compares with the rows."""
    players = sorted({request.who for request in site.history.of("Play") if request.ok})[:PLAYERS]
    for player in players:
        ask, ids = site.client.ask, site.ids
        await ask("ListBalances", player, "GET", f"/wallet?scope_key={site.campaign}")
        await ask("ListRewards", player, "GET", f"/rewards/me?campaign_id={site.campaign}&limit=100")
        await ask("GetEligibility", player, "GET", f"/games/{ids['paid']}/eligibility", of="paid")
        for game in ("unlock", "exchange"):
            await ask("ListMilestones", player, "GET", f"/games/{ids[game]}/milestones", of=game)
