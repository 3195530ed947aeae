"""Whether the live rankings say what the plays' rows say."""

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
