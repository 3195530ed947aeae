"""`tombola leaderboards`: lists and shows boards, shows their standings, finalizes them; and builds live rankings anew.

These are built by themselves wherever they are gone; this is for an operator who wants it now, or who put
the database back to an earlier time.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import asyncpg
from cyclopts import App
from redis.exceptions import RedisError

import sql
from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    print_one,
    refusals_told,
    table,
)
from runtime.commands.environment import settings_for
from runtime.errors import Fault
from runtime.settings import Settings
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.rankings import Rankings

_SQL: Final = sql.load("leaderboards")

app = App(name="leaderboards", help="List and show leaderboards and their standings; finalize them; rebuild rankings.")


@app.command(name="list")
async def list_boards(*, status: str = "", campaign: str = "", q: str = "", connection: Connection = DEFAULTS) -> None:
    """List leaderboards, the newest first.

    Parameters
    ----------
    status
        Only those of this status: active, finalized, archived. All but archived where it is left out.
    campaign
        Only those of this campaign.
    q
        Only those whose name holds this.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = [item async for item in edge.each("/leaderboards", status=status, campaign_id=campaign, q=q)]
    if connection.json:
        print_json(items)
        return
    shown = table("id", "leaderboard", "status", "counts", "how")
    for item in items:
        names = [
            item[name].removeprefix(f"LEADERBOARD_{name.upper()}_").lower() for name in ("status", "metric", "mode")
        ]
        shown.add_row(item["id"], item["name"], *names)
    people().print(shown)


@app.command(name="show")
async def show_board(board: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a leaderboard."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            found = await edge.get(f"/leaderboards/{board}")
    print_one(connection, found)


@app.command
async def standings(board: str, /, *, most: int = 50, connection: Connection = DEFAULTS) -> None:
    """Show who stands where, each with the prize of that rank.

    Parameters
    ----------
    board
        Its id.
    most
        How many places.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = await edge.first(f"/leaderboards/{board}/standings", most)
    if connection.json:
        print_json(items)
        return
    shown = table("rank", "player", "name", "score", "prize", "reward")
    for item in items:
        player = (item["player_id"], item["display_name"])
        shown.add_row(str(item["rank"]), *player, str(item["score"]), item["prize_id"], item["reward_id"])
    people().print(shown)


@app.command
async def finalize(board: str, /, *, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """End a leaderboard, and give its prizes to who stands there. It cannot be undone.

    Parameters
    ----------
    board
        Its id.
    """
    confirmed(connection, yes, f"Finalize {board}? Its prizes are given to who stands there now.")
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(f"/leaderboards/{board}/finalize", {})
    if connection.json:
        print_json(done)
    else:
        people().print(f"{board} is finalized")


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
    database = Database(
        settings.database_url,
        size=2,
        acquire_seconds=settings.database_acquire_timeout_seconds,
        statement_seconds=settings.database_statement_timeout_seconds,
    )
    ephemeral = Ephemeral(
        settings.redis_url, cluster=settings.redis_cluster, timeout_seconds=settings.redis_timeout_seconds
    )
    await database.start()
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
        await database.close()
