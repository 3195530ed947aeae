"""Whether the live rankings say what the plays' rows say: counted here by a plain statement of its own, and compared
with the sorted sets as Valkey has them, and with what an onlooker is shown.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import RedisError

from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.pipeline import EphemeralDown
from runtime.stores.ranking_sets import RankingSets
from runtime.stores.scores import Score

if TYPE_CHECKING:
    from ops.certification.run import Run

SHOWN: Final = 100
PAGE: Final = 1_000
PATIENCE_SECONDS: Final = 5.0

Board = list[Score]
"""Its places, best first."""

_COUNTED: Final = """
SELECT b.board_id, p.player_id, count(*) AS score, (extract(epoch FROM max(p.played_at)) * 1000000)::bigint AS reached
FROM leaderboards AS b
JOIN games AS g ON g.tenant_id = b.tenant_id AND g.campaign_id = b.campaign_id AND b.game_id IN ('', g.game_id)
JOIN plays AS p ON p.tenant_id = b.tenant_id AND p.game_id = g.game_id
WHERE b.tenant_id = $1 AND b.status = 'active' AND b.metric = 'plays' AND b.mode = 'sum'
GROUP BY b.board_id, p.player_id
"""
"""Of the live boards that count plays: who has how many, and the last one's time in microseconds."""


async def rankings_agree(run: Run, database: Database) -> None:
    """Waits until each live board is what the plays' rows say; notes how many places are not, and how long it took."""
    wanted = await counted(database, run.world.tenant_id)
    if not wanted:
        return
    settings = run.stack.settings
    valkey = Ephemeral(settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=PATIENCE_SECONDS)
    await valkey.start()
    unlike: list[str] = []

    async def agree() -> bool:
        nonlocal unlike
        unlike = []
        for board_id, places in wanted.items():
            # What is shown first: where there is no set, asking has it made.
            unlike += await _shown_unlike(run, board_id, places)
            unlike += await kept_unlike(valkey, run.world.tenant_id, board_id, places)
        return not unlike

    try:
        seconds = await run.until(agree)
        run.figure("rankings agreed after", seconds, "s")
    except TimeoutError:
        run.note("; ".join(unlike[:SHOWN]))
    finally:
        await valkey.close()
    places = sum(map(len, wanted.values()))
    run.figure("places in rankings unlike the plays' rows", len(unlike), f"of {places}", exactly=0)


async def counted(database: Database, tenant_id: str) -> dict[str, Board]:
    """What the plays' rows say of each live board that counts plays, by its id."""
    boards: dict[str, Board] = defaultdict(list)
    for row in await database.fetch(_COUNTED, tenant_id):
        boards[row["board_id"]].append(Score(row["player_id"], "", row["score"], row["reached"]))
    for places in boards.values():
        places.sort(key=lambda one: (-one.score, one.achieved_us, one.player_id))
    return boards


async def kept_unlike(valkey: Ephemeral, tenant_id: str, board_id: str, wanted: Board) -> list[str]:
    """The places of the sorted set that are not as wanted, a line each."""
    try:
        found = await _kept(RankingSets(valkey), tenant_id, board_id)
    except (EphemeralDown, RedisError) as error:
        return [f"{board_id}: {error}"]
    if found is None:
        return [f"{board_id}: there is no whole set"]
    kept, places = ([(one.player_id, one.score, one.achieved_us) for one in board] for board in (found, wanted))
    return _differences(f"{board_id} in Valkey", kept, places)


async def _shown_unlike(run: Run, board_id: str, wanted: Board) -> list[str]:
    """The places that an onlooker is shown and are not as wanted, a line each."""
    path = f"/leaderboards/{board_id}/rankings?limit={SHOWN}"
    asked = await run.world.client.ask("ListRankings", "onlooker", "GET", path, of=board_id)
    shown = [(one["player_id"], int(one["score"])) for one in asked.data["items"]] if asked.ok else []
    return _differences(f"{board_id} as shown", shown, [(one.player_id, one.score) for one in wanted[:SHOWN]])


async def _kept(sets: RankingSets, tenant_id: str, board_id: str) -> Board | None:
    """The board's set, page by page. None: there is no whole one."""
    found: Board = []
    while True:
        page = await sets.read(tenant_id, board_id, found[-1].position if found else None, PAGE, "")
        if page is None:
            return None
        found += page[1].scores
        if len(page[1].scores) < PAGE:
            return found


def _differences(where: str, found: list[Any], wanted: list[Any]) -> list[str]:
    longest = max(len(found), len(wanted))
    pairs = [(rank, found[rank : rank + 1], wanted[rank : rank + 1]) for rank in range(longest)]
    return [f"{where}, rank {rank + 1}: {one} for {other}" for rank, one, other in pairs if one != other]
