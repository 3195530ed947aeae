"""Judges a row once it is quiet: rankings, conservation, later reads, and whether the history can be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ops.certification.rankings import rankings_agree
from ops.history.judge import problems
from ops.history.record import Note
from ops.history.tables import Tables, broken, connected, read
from runtime.stores.database import Database

if TYPE_CHECKING:
    from ops.certification.run import Run

SHOWN: Final = 5
LOOKS: Final = 30
"""Players who look at what they have once all is quiet."""


class Violated(RuntimeError):
    """The history cannot be explained; the message has what is wrong."""


async def judge(run: Run) -> None:
    """Notes what the row's tenant is held to as figures. Violated where something is wrong."""
    async with connected(run.stack.settings) as database:
        await run.until(lambda: _quiet(database, run.world.tenant_id))
        await rankings_agree(run, database)
        await _look(run, await read(database, run.world.tenant_id))
        found = await broken(database, run.world.tenant_id)
        tables = await read(database, run.world.tenant_id)
    wrong = [f"{holds} {row}" for holds, rows in found.items() for row in rows]
    run.figure("conservation", len(wrong), "rows", exactly=0)
    told = problems(run.history, tables, run.world.terms)
    run.figure("unexplained", len(told), f"of {len(run.history.asked)} requests", exactly=0)
    wrong += told
    if wrong:
        run.history.notes += [Note(0.0, line) for line in wrong]
        raise Violated("; ".join(wrong[:SHOWN]) + (f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""))


async def _look(run: Run, tables: Tables) -> None:
    """Players look at what they have: what they see is held to the tables like all that was seen before."""
    if "paid" not in run.world.ids:
        return
    played = {asked.who for asked in run.history.of("Play")}
    players = sorted(played & {row["player_id"] for row in tables["plays"]})
    for player in run.dice.sample(players, min(LOOKS, len(players))):
        ask, ids = run.world.client.ask, run.world.ids
        await ask("ListBalances", player, "GET", f"/wallet?scope_key={run.world.campaign}")
        await ask("ListRewards", player, "GET", f"/rewards/me?campaign_id={run.world.campaign}&limit=100")
        await ask("GetEligibility", player, "GET", f"/games/{ids['paid']}/eligibility", of="paid")
        for game in ("unlock", "exchange"):
            await ask("ListMilestones", player, "GET", f"/games/{ids[game]}/milestones", of=game)


async def _quiet(database: Database, tenant_id: str) -> bool:
    """Whether no delivery of the tenant is under way."""
    return not await database.fetchval(
        "SELECT EXISTS (SELECT FROM tasks WHERE tenant_id = $1"
        " AND status IN ('pending', 'delivering', 'retry', 'awaiting'))",
        tenant_id,
    )
