"""Rankings for players: the leaders, and the player's own rank."""

from __future__ import annotations

from typing import Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, invalid, unknown
from runtime.stores import paging
from runtime.stores.scores import Place, Top, ranking
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("leaderboards")
_SHOWN: Final = ("rank", "player_id", "display_name", "score", "achieved_at")


async def list_rankings(engine: Engine, request: m.ListRankingsRequest) -> m.ListRankingsReply:
    """The leaders, and the player's own rank as `me`. A live board takes one call to the ephemeral store.

    If the store is down or lost the board's set, Postgres serves the ranking and the set is rebuilt. A finalized
    board shows its standings. An archived board, or one of a draft campaign, has no set and is unknown.
    """
    tenant_id = tenant_of(request)
    query = ("rankings", tenant_id, request.id)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    after, top = position_of(page), None
    if not isinstance(after, int):  # Else the board is finalized.
        top = await engine.rankings.top(tenant_id, request.id, after, page.fetch, request.player_id)
    if top is None:
        board = await engine.database.fetchrow(_SQL["on_show"], tenant_id, request.id)
        if board is None:
            raise unknown("leaderboard", request.id)
        if board["finalized"]:
            return await _finalized(engine, request, page, query)
        if isinstance(after, int):
            raise foreign_cursor()
        top = await _by_rows(engine, request, after, page)
    shown, pagination = engine.cursors.write(top.scores, page.limit, key=lambda one: one.position, query=query)
    items = [ranking(top.first_rank + i, one) for i, one in enumerate(shown)]
    return m.ListRankingsReply(items=items, pagination=pagination, me=top.me)


async def _by_rows(engine: Engine, request: m.ListRankingsRequest, after: Place | None, page: paging.Page) -> Top:
    tenant_id = tenant_of(request)
    counted = await engine.rankings.counted(tenant_id, request.id)
    if counted is None:
        raise unknown("leaderboard", request.id)
    engine.rankings.rebuild_soon(tenant_id, request.id)
    return await counted.top(after, page.fetch, request.player_id)


async def _finalized(
    engine: Engine, request: m.ListRankingsRequest, page: paging.Page, query: tuple[str, ...]
) -> m.ListRankingsReply:
    tenant_id = tenant_of(request)
    rows, pagination = finalized_page(engine, await finalized_rows(engine, tenant_id, request.id, page), page, query)
    me = None
    if request.player_id:
        mine = await engine.database.fetchrow(_SQL["standing_of"], tenant_id, request.id, request.player_id)
        me = None if mine is None else m.Ranking(**mine)
    items = [m.Ranking(**{name: row[name] for name in _SHOWN}) for row in rows]
    return m.ListRankingsReply(items=items, pagination=pagination, me=me)


# -- pages -----------------------------------------------------------------------------------


def position_of(page: paging.Page) -> Place | int | None:
    """The start of the page: after a place on a live board, or after a rank on a finalized one. None: at the top."""
    match page.after:
        case (score, achieved_us, player_id):
            return Place(int(score), int(achieved_us), str(player_id))
        case (rank,):
            return int(rank)
    return None


async def finalized_rows(engine: Engine, tenant_id: str, board_id: str, page: paging.Page) -> list[asyncpg.Record]:
    """The stored standings from the start of the page; empty if the board has none."""
    after = position_of(page)
    last_rank = after if isinstance(after, int) else 0
    return await engine.database.fetch(_SQL["standings"], tenant_id, board_id, last_rank, page.fetch)


def finalized_page(
    engine: Engine, rows: list[asyncpg.Record], page: paging.Page, query: tuple[str, ...]
) -> tuple[list[asyncpg.Record], m.Pagination]:
    """The page of `finalized_rows`. INVALID_ARGUMENT for a cursor from before the board was finalized."""
    if isinstance(position_of(page), Place):
        raise foreign_cursor()
    return engine.cursors.write(rows, page.limit, key=lambda row: (row["rank"],), query=query)


def foreign_cursor() -> Fault:
    return invalid("cursor", "is from before the board was finalized. Start again without a cursor")
