"""Standings for staff: ranks and their prizes, before and after a board is finalized."""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import reading
from runtime.operations.leaderboards.finalize import prize_of
from runtime.operations.leaderboards.rankings import finalized_page, finalized_rows, position_of
from runtime.stores import paging
from runtime.stores.scores import Score
from runtime.wire.contacts import masked
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("leaderboards")


async def list_standings(engine: Engine, request: m.ListStandingsRequest) -> m.ListStandingsReply:
    """A board's ranks, each with its prize: the stored standings if it was finalized, else the live ones.

    Postgres counts the board of a draft campaign, which has no public ranking.
    """
    tenant_id = tenant_of(request)
    board = await reading.one(engine, _SQL["get"], request, "leaderboard")
    query = ("board_standings", tenant_id, request.id)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    rows = await finalized_rows(engine, tenant_id, request.id, page)
    if not rows and board["status"] != "finalized":
        reply = await _live(engine, request, board, page, query)
    else:
        shown, pagination = finalized_page(engine, rows, page, query)
        reply = m.ListStandingsReply(items=[m.Standing(**row) for row in shown], pagination=pagination)
    await _add_contacts(engine, request, reply.items)
    return reply


async def _add_contacts(engine: Engine, request: m.ListStandingsRequest, items: list[m.Standing]) -> None:
    """Adds masked contacts of players without a display name, for staff who may write the board.

    A merchant's staff may read the tenant's boards, but not identify their players.
    """
    nameless = {one.player_id: one for one in items if not one.display_name}
    about = (tenant_of(request), request.id, merchant_of(request), True)
    if nameless and await engine.database.fetchrow(_SQL["get"], *about):
        for row in await engine.database.fetch(_SQL["contacts"], tenant_of(request), list(nameless)):
            nameless[row["player_id"]].contact = masked(row["value"])


async def _live(
    engine: Engine, request: m.ListStandingsRequest, board: Any, page: paging.Page, query: tuple[str, ...]
) -> m.ListStandingsReply:
    tenant_id, after = tenant_of(request), position_of(page)
    after = None if isinstance(after, int) else after
    top = await engine.rankings.top(tenant_id, request.id, after, page.fetch, "")
    if top is None and (counted := await engine.rankings.counted(tenant_id, request.id)) is not None:
        top = await counted.top(after, page.fetch, "")
    if top is None:
        return m.ListStandingsReply(pagination=m.Pagination())
    shown, pagination = engine.cursors.write(top.scores, page.limit, key=lambda one: one.position, query=query)
    items = [_standing(top.first_rank + i, one, board["prizes"]) for i, one in enumerate(shown)]
    return m.ListStandingsReply(items=items, pagination=pagination)


def _standing(rank: int, score: Score, prizes: list[dict[str, Any]]) -> m.Standing:
    return m.Standing(
        rank=rank,
        player_id=score.player_id,
        display_name=score.display_name,
        score=score.score,
        achieved_at=score.achieved_us // 1_000_000,
        prize_id=prize_of(rank, score, prizes),
    )
