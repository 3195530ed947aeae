"""Whether what stands beside the rows agrees with them: live rankings, what receivers were told, deliveries."""

from __future__ import annotations

from ops.certification.judging.tables import connected
from ops.certification.run import Run

SHOWN = 100


async def rankings_agree(run: Run) -> None:
    """Waits until the board says what the plays' rows say; notes how long that took."""
    missing: dict[str, int] = {}

    async def agree() -> bool:
        nonlocal missing
        wanted, shown = await _of_rows(run), await _shown(run)
        missing = {who: count for who, count in shown.items() if wanted.get(who) != count}
        best = sorted(wanted.values(), reverse=True)[:SHOWN]
        return not missing and sorted(shown.values(), reverse=True) == best

    try:
        seconds = await run.until(agree)
    except TimeoutError:
        run.figure("places in the ranking unlike the plays' rows", max(1, len(missing)), exactly=0)
        return
    run.figure("places in the ranking unlike the plays' rows", 0, exactly=0)
    run.figure("rankings agreed after", seconds, "s")


async def _of_rows(run: Run) -> dict[str, int]:
    async with connected(run.stack.settings) as database:
        rows = await database.fetch(
            "SELECT player_id, count(*) AS plays FROM plays WHERE tenant_id = $1 GROUP BY player_id",
            run.world.tenant_id,
        )
    return {row["player_id"]: row["plays"] for row in rows}


async def _shown(run: Run) -> dict[str, int]:
    board = run.world.ids["board"]
    path = f"/leaderboards/{board}/rankings?limit={SHOWN}"
    asked = await run.world.client.ask("ListRankings", "onlooker", "GET", path, of="board")
    return {item["player_id"]: int(item["score"]) for item in asked.data["items"]}


async def all_told(run: Run) -> bool:
    """Whether the integration has heard of every play that there is."""
    async with connected(run.stack.settings) as database:
        rows = await database.fetch("SELECT play_id FROM plays WHERE tenant_id = $1", run.world.tenant_id)
    heard = {body["data"].get("play_id") for _, _, body in run.receiver.posted if "data" in body}
    return {row["play_id"] for row in rows} <= heard


async def delivered(run: Run) -> bool:
    """Whether no delivery is under way."""
    under_way = ["pending", "delivering", "retry"]
    found = "SELECT EXISTS (SELECT FROM tasks WHERE tenant_id = $1 AND status = ANY($2::text[]))"
    async with connected(run.stack.settings) as database:
        return not await database.fetchval(found, run.world.tenant_id, under_way)


def forget_starts(run: Run) -> None:
    """The key of a start, which does nothing that lasts, is kept by Valkey alone: asked again it may be another."""
    for asked in run.history.of("Start"):
        asked.key = ""
