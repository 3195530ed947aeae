"""`tombola leaderboards`: lists and shows boards and standings, finalizes boards, and rebuilds live rankings.

Missing rankings are rebuilt automatically. `rebuild` is for operators who need it now, or who restored the database to
an earlier time.
"""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg
from redis.exceptions import RedisError

import sql
from runtime.commands.builder import app_of
from runtime.commands.environment import settings_for
from runtime.commands.stores import fail_store
from runtime.errors import Fault
from runtime.settings import Settings
from runtime.stores.database import Database, chosen
from runtime.stores.databases import opened
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.rankings import Rankings

_SQL: Final = sql.load("leaderboards")

app = app_of("leaderboards")


@app.command
def rebuild(*, tenant: str = "", board: str = "") -> None:
    """Rebuild the live rankings from the database. Safe at any time, including during plays.

    Parameters
    ----------
    tenant
        Only this tenant's boards.
    board
        Only the board with this id.
    """
    settings = settings_for("worker:leaderboards")
    try:
        count = asyncio.run(rebuild_all(settings, tenant, board))
    except (Fault, RedisError, OSError, asyncpg.PostgresError) as error:
        fail_store("leaderboards rebuild", error)
    print(f"rebuilt {count}" if count else "nothing to rebuild")


async def rebuild_all(settings: Settings, tenant: str = "", board: str = "") -> int:
    """Rebuilds the live boards, optionally of one tenant or one board, and returns their number."""
    ephemeral = Ephemeral(
        settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
    )
    async with opened(settings, size=2) as database:
        await ephemeral.start()
        try:
            rankings, count = Rankings(database, ephemeral), 0
            for part in database.parts:
                with chosen(part):
                    for tenant_id in await database.tenants(_SQL["tenants"], tenant, board):
                        count += await _rebuild_boards(database, rankings, tenant_id, board)
            return count
        finally:
            await ephemeral.close()


async def _rebuild_boards(database: Database, rankings: Rankings, tenant_id: str, board: str) -> int:
    count = 0
    for row in await database.fetch(_SQL["active"], tenant_id):
        if board in ("", row["board_id"]):
            players = await rankings.rebuild(tenant_id, row["board_id"])
            print(f"{row['board_id']} of {tenant_id}: {players} players", flush=True)
            count += 1
    return count
