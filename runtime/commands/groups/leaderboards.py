"""`tombola leaderboards`: lists and shows boards, shows their standings, finalizes them; and builds live rankings anew.

These are built by themselves wherever they are gone; this is for an operator who wants it now, or who put
the database back to an earlier time.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import asyncpg
from redis.exceptions import RedisError

import sql
from runtime.commands.environment import settings_for
from runtime.commands.loop import app_of
from runtime.errors import Fault
from runtime.settings import Settings
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.rankings import Rankings

_SQL: Final = sql.load("leaderboards")

app = app_of("leaderboards")


@app.command
def rebuild(*, tenant: str = "", board: str = "") -> None:
    """Build the live rankings anew from the database. Safe at any time, and while plays go on.

    Parameters
    ----------
    tenant
        Only this tenant's boards.
    board
        Only this board.
    """
    settings = settings_for("worker:leaderboards")
    try:
        count = asyncio.run(rebuild_all(settings, tenant, board))
    except (Fault, RedisError, OSError, asyncpg.PostgresError) as error:
        sys.exit(f"tombola leaderboards rebuild: {error}")
    print(f"rebuilt {count}" if count else "nothing to rebuild")


async def rebuild_all(settings: Settings, tenant: str = "", board: str = "") -> int:
    """Rebuilds the live boards, of one tenant or one id where given; how many there were."""
    ephemeral = Ephemeral(
        settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
    )
    async with Database.opened(settings, size=2) as database:
        await ephemeral.start()
        try:
            rankings, count = Rankings(database, ephemeral), 0
            for tenant_row in await database.fetch(_SQL["tenants"], tenant, board):
                for board_row in await database.fetch(_SQL["active"], tenant_row["tenant_id"]):
                    if board in ("", board_row["board_id"]):
                        players = await rankings.rebuild(tenant_row["tenant_id"], board_row["board_id"])
                        print(f"{board_row['board_id']} of {tenant_row['tenant_id']}: {players} players", flush=True)
                        count += 1
            return count
        finally:
            await ephemeral.close()
