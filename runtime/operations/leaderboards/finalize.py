"""Finalizes a board: closes it once, stores its standings, and awards prizes by rank.

1. One transaction closes the board (a conditional update), counts it and stores the standings. Ranks
   with a prize are PENDING. A concurrent call finds the board closed, and continues with 2.
2. The prizes are awarded rank by rank (rank_prizes.py).
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import events
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations import audit
from runtime.operations.leaderboards.board_admin import get_leaderboard, lock
from runtime.operations.leaderboards.rank_prizes import RankPrizes
from runtime.stores.rankings import COUNT_SECONDS
from runtime.stores.scores import AT_ONCE, Score, counted_of

_SQL: Final = sql.load("leaderboards")

STANDINGS_MAX: Final = 1_000
"""Standings of one reply; rankings return all of them page by page."""

Reply = m.FinalizeLeaderboardReply


async def finalize_leaderboard(engine: Engine, request: m.GetLeaderboardRequest, *, due_only: bool = False) -> Reply:
    """Closes the board and awards its prizes. Repeating it returns the same standings; a guest that has logged in since
    is replaced by the player that it became.

    NOT_FOUND UNKNOWN_LEADERBOARD; FAILED_PRECONDITION ILLEGAL_TRANSITION (archived unfinalized). After UNAVAILABLE some
    prizes may have been awarded; call again to award the rest. due_only: leaves a board that is not past its end.
    """
    assert request.scope is not None
    tenant_id = request.scope.tenant_id
    reply: Reply = await engine.rankings.single_flight.share(
        ("finalize", tenant_id, request.scope.merchant_id, request.id, due_only),
        lambda: _finalize(engine, tenant_id, request, due_only=due_only),
    )
    return reply


async def _finalize(engine: Engine, tenant_id: str, request: m.GetLeaderboardRequest, *, due_only: bool) -> Reply:
    closed = await _close(engine, tenant_id, request, due_only=due_only)
    if closed is None:
        return Reply(leaderboard=(await get_leaderboard(engine, request)).leaderboard)
    board = await engine.database.fetchrow(_SQL["closed_board"], tenant_id, request.id)
    assert board is not None
    awarded = await RankPrizes(engine, tenant_id, request.id, board, "leaderboard_id").award()
    if closed:
        await engine.rankings.forget(tenant_id, request.id)
    rows = await engine.database.fetch(_SQL["standings"], tenant_id, request.id, 0, STANDINGS_MAX)
    if closed or awarded:
        engine.publisher.events([_event(tenant_id, request.id, board, rows)])
    shown = await get_leaderboard(engine, request)
    return Reply(leaderboard=shown.leaderboard, standings=[m.Standing(**row) for row in rows])


async def _close(
    engine: Engine, tenant_id: str, request: m.GetLeaderboardRequest, *, due_only: bool = False
) -> bool | None:
    """Closes the board and stores its standings. False if it was already closed; None if `due_only` and it is not past
    its end, which staff may have moved since the job read it.
    """
    board_id = request.id

    async def work(connection: asyncpg.Connection) -> bool | None:
        before = await lock(connection, request)
        if await connection.fetchval(_SQL["has_standings"], tenant_id, board_id):
            return False
        if due_only and not 0 < before["end_date"] <= engine.clock.now():
            return None
        if before["status"] == "archived":
            raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"leaderboard {board_id} is archived")
        closed = await connection.fetchval(_SQL["finalize"], tenant_id, board_id)
        assert closed is not None, "the board is locked, and neither finalized nor archived"
        await connection.execute(_SQL["allow_computing"])
        rows = await connection.fetch(_SQL["scores"], tenant_id, [board_id], None, None, timeout=COUNT_SECONDS)
        counted = await counted_of(rows)
        assert counted is not None
        for start in range(0, len(counted.scores), AT_ONCE):
            columns = _standings(counted.scores[start : start + AT_ONCE], start, before["prizes"])
            await connection.execute(_SQL["insert_standings"], tenant_id, board_id, *columns, timeout=COUNT_SECONDS)
        after = {"status": "finalized", "players": len(counted.scores)}
        await audit.record(connection, tenant_id, "leaderboard.finalize", board_id, after=after)
        return True

    return await engine.database.transaction(work)


def _standings(scores: list[Score], ahead: int, prizes: list[dict[str, Any]]) -> tuple[Any, ...]:
    """$3 and the following of `insert_standings`, for players behind so many others."""
    last = max((one["to_rank"] for one in prizes), default=0)
    return (
        [one.player_id for one in scores],
        [one.display_name for one in scores],
        [one.score for one in scores],
        [one.achieved_us for one in scores],
        [_prize_at(rank, prizes) if rank <= last else "" for rank in range(ahead + 1, ahead + len(scores) + 1)],
        ahead,
    )


def prize_of(rank: int, score: Score, prizes: list[dict[str, Any]]) -> str:
    """The prize that a rank's player gets; "" for none. A score of 0 or less wins nothing: NO_SCORE once finalized."""
    return _prize_at(rank, prizes) if score.score > 0 else ""


def _prize_at(rank: int, prizes: list[dict[str, Any]]) -> str:
    return next((one["prize_id"] for one in prizes if one["from_rank"] <= rank <= one["to_rank"]), "")


def _event(tenant_id: str, board_id: str, board: asyncpg.Record, rows: list[asyncpg.Record]) -> events.Event:
    return events.event_of(
        events.LeaderboardFinalized(
            leaderboard_id=board_id,
            name=board["name"],
            game_id=board["game_id"],
            players=board["players"],
            standings=[events.Standing(**row) for row in rows[: events.STANDINGS_MAX]],
        ),
        occurred_at=board["finalized_at"],
        tenant_id=tenant_id,
        merchant_id=board["merchant_id"],
        campaign_id=board["campaign_id"],
    )


async def finalized_event(engine: Engine, tenant_id: str, board_id: str) -> events.Event:
    """leaderboard_finalized of a finalized board, the same event as at the time."""
    board = await engine.database.fetchrow(_SQL["closed_board"], tenant_id, board_id)
    assert board is not None, "a finalized board stays one"
    rows = await engine.database.fetch(_SQL["standings"], tenant_id, board_id, 0, events.STANDINGS_MAX)
    return _event(tenant_id, board_id, board, rows)
