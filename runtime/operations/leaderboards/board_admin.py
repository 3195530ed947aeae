"""Leaderboard management and score corrections, for staff.

A score is computed from rows (sql/leaderboards.sql, `scores`). runtime/stores/rankings.py keeps the live order, and
finalize.py closes a board. A correction is a row with a reason; scores are never overwritten.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, Final, NamedTuple

import asyncpg
import structlog
from redis.exceptions import RedisError

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown, violations
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import campaign_admin as campaigns
from runtime.operations.campaigns.archives import refuse_archived
from runtime.operations.checks import Checks, provided, refuse_read_only, search_pattern, set_fields
from runtime.operations.idempotent_writes import once, store_reply
from runtime.operations.players import merging
from runtime.stores.pipeline import EphemeralDown
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_SQL: Final = sql.load("leaderboards")
_PLAYER: Final = sql.load("players")["find"]

SETTABLE: Final = frozenset({"campaign_id", "game_id", "name", "metric", "mode", "start_date", "end_date", "prizes"})
COUNTED_BY: Final = frozenset({"campaign_id", "game_id", "metric", "mode", "start_date", "end_date"})
"""The fields that scores depend on: a change of these recounts the whole board."""

RANK_MAX: Final = 10_000

Correction = m.AdjustScoreRequest | m.DisqualifyPlayerRequest

log = structlog.get_logger(__name__)


# -- management ------------------------------------------------------------------------------


async def create_leaderboard(engine: Engine, request: m.CreateLeaderboardRequest) -> m.LeaderboardReply:
    """Creates a board, live at once. It covers one game if `game_id` is set, else the whole campaign."""

    async def work(connection: asyncpg.Connection) -> m.LeaderboardReply:
        return m.LeaderboardReply(leaderboard=board_from_row(await make(connection, request)))

    reply = await catalog.create_dependent(engine, request, m.LeaderboardReply, work)
    assert reply.leaderboard is not None
    engine.rankings.rebuild_soon(tenant_of(request), reply.leaderboard.id)
    return reply


async def make(connection: asyncpg.Connection, request: m.CreateLeaderboardRequest) -> asyncpg.Record:
    """Creates a board in the caller's transaction, which holds the catalogue lock. Returns the board's row.

    The caller builds the ranking after the commit.
    """
    tenant_id, board = tenant_of(request), provided(request.leaderboard, "leaderboard")
    refuse_read_only(board, m.Leaderboard(status=m.LeaderboardStatus.ACTIVE))
    _check(board)
    await _settle_scope(connection, request, board)
    await _check_prizes(connection, request, board)
    stored = (*_stored(board), merchant_of(request))
    row = await connection.fetchrow(_SQL["insert"], tenant_id, ids.make("board"), *stored)
    if row is None:
        raise await _out_of_scope(connection, request, board)
    await audit.record(connection, tenant_id, "leaderboard.create", row["id"], after=dict(row))
    return row


async def get_leaderboard(engine: Engine, request: m.GetLeaderboardRequest) -> m.LeaderboardReply:
    """One board, archived or not."""
    return m.LeaderboardReply(
        leaderboard=board_from_row(await reading.one(engine, _SQL["get"], request, "leaderboard"))
    )


async def list_leaderboards(engine: Engine, request: m.ListLeaderboardsRequest) -> m.ListLeaderboardsReply:
    """The tenant's boards, newest first. Archived boards only if `status` asks for them."""
    narrowed = (request.campaign_id, token(request.status), search_pattern(request.q))
    filters = (tenant_of(request), *narrowed, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, *filters)
    return m.ListLeaderboardsReply(items=[board_from_row(row) for row in rows], pagination=pagination)


async def update_leaderboard(engine: Engine, request: m.UpdateLeaderboardRequest) -> m.LeaderboardReply:
    """Sets the fields of the request, on a live board. Only finalize and delete change `status`.

    A change of a field that scores depend on recounts the whole board. Until then, Postgres serves the rankings.
    """

    async def work(connection: asyncpg.Connection) -> Altered:
        return await alter(connection, request)

    row, recount = await catalog.change_dependent(engine, tenant_of(request), work)
    if recount:
        await engine.rankings.forget(tenant_of(request), request.id)
        engine.rankings.rebuild_soon(tenant_of(request), request.id)
    return m.LeaderboardReply(leaderboard=board_from_row(row))


class Altered(NamedTuple):
    """A board after an update, and whether its scores must be recounted."""

    row: asyncpg.Record
    recount: bool


async def alter(connection: asyncpg.Connection, request: m.UpdateLeaderboardRequest) -> Altered:
    """Updates a board in the caller's transaction, which holds the catalogue lock."""
    tenant_id, update = tenant_of(request), provided(request.leaderboard, "leaderboard")
    before = await _lock_live(connection, request)
    board = board_from_row(before)
    names = set_fields(board, update, request.update_mask, SETTABLE)
    if "game_id" in names and "campaign_id" not in names and board.game_id:
        board.campaign_id = ""  # Set to the new game's campaign below.
    _check(board)
    await _settle_scope(connection, request, board)
    if "prizes" in names:
        await _check_prizes(connection, request, board)
    row = await connection.fetchrow(_SQL["update"], tenant_id, request.id, *_stored(board), merchant_of(request))
    if row is None:
        raise await _out_of_scope(connection, request, board)
    await audit.record(connection, tenant_id, "leaderboard.update", request.id, before=dict(before), after=dict(row))
    return Altered(row, recount=any(row[name] != before[name] for name in COUNTED_BY))


async def delete_leaderboard(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes a board without history; archives any other.

    FAILED_PRECONDITION IN_USE while it determines the tickets of an open draw.
    """
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> bool:
        before = await lock(connection, request)
        draws = await connection.fetch(_SQL["draws_that_name"], tenant_id, request.id)
        if used_by := [{"type": "draw", "id": draw["draw_id"], "name": draw["name"]} for draw in draws]:
            raise catalog.in_use("leaderboard", before["name"], used_by)
        archived = await connection.fetchval(_SQL["remove"], tenant_id, request.id) is None
        if archived:
            await connection.execute(_SQL["archive"], tenant_id, request.id)
        action = "leaderboard.archive" if archived else "leaderboard.delete"
        await audit.record(connection, tenant_id, action, request.id, before=dict(before))
        return archived

    archived = await catalog.change_dependent(engine, tenant_id, work)
    await engine.rankings.forget(tenant_id, request.id)
    return m.DeleteReply(id=request.id, archived=archived)


# -- corrections -----------------------------------------------------------------------------


async def adjust_score(engine: Engine, request: m.AdjustScoreRequest) -> m.RankingReply:
    """Adds `delta` to a player's score, with a reason. Returns the player's new rank; 0 if it was disqualified since.

    NOT_FOUND UNKNOWN_LEADERBOARD, UNKNOWN_PLAYER; FAILED_PRECONDITION BOARD_FINALIZED, DISQUALIFIED.
    """
    tenant_id = tenant_of(request)
    _check_correction(request.player_id, request.reason, request.delta)

    async def work(connection: asyncpg.Connection) -> m.RankingReply:
        player_id = await _lock_for_player(connection, request)
        if await connection.fetchval(_SQL["is_disqualified"], tenant_id, request.id, player_id):
            message = f"player {player_id} is disqualified from this board"
            raise Fault(Status.FAILED_PRECONDITION, "DISQUALIFIED", message)
        correction = (player_id, ids.make("entry"), request.delta, request.reason)
        await connection.execute(_SQL["adjust"], tenant_id, request.id, *correction)
        after = {"player_id": player_id, "delta": request.delta, "reason": request.reason}
        await audit.record(connection, tenant_id, "leaderboard.adjust", request.id, after=after)
        return m.RankingReply(ranking=m.Ranking(player_id=player_id))

    done = await once(engine, request, m.RankingReply, work)
    player_id: str = done.reply.ranking.player_id
    if done.repeated and done.reply.ranking.rank:
        first: m.RankingReply = done.reply
        player = await engine.database.fetchrow(_PLAYER, tenant_id, player_id)
        assert first.ranking is not None and player is not None, "a player's row stays"
        first.ranking.display_name = player["display_name"]
        return first
    await show(engine, tenant_id, request.id, player_id)
    top = await engine.rankings.top(tenant_id, request.id, None, 1, player_id)
    if top is None or top.me is None:
        counted = await engine.rankings.count(tenant_id, request.id)
        top = await counted.top(None, 1, player_id) if counted is not None else None
    if top is None or top.me is None:
        return m.RankingReply(ranking=m.Ranking(player_id=player_id))  # Disqualified since the commit.
    # Stored without the name, which the player may change or have erased. A retry gets the current name.
    await store_reply(engine, request, m.RankingReply(ranking=replace(top.me, display_name="")))
    return m.RankingReply(ranking=top.me)


async def disqualify_player(engine: Engine, request: m.DisqualifyPlayerRequest) -> m.DisqualifyPlayerReply:
    """Removes a player from the board for good. Repeating it returns the same reply, with the first reason.

    NOT_FOUND UNKNOWN_LEADERBOARD, UNKNOWN_PLAYER; FAILED_PRECONDITION BOARD_FINALIZED.
    """
    tenant_id = tenant_of(request)
    _check_correction(request.player_id, request.reason)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        player_id = await _lock_for_player(connection, request)
        about = (tenant_id, request.id, player_id)
        if await connection.fetchval(_SQL["disqualify"], *about, request.reason) is not None:
            after = {"player_id": player_id, "reason": request.reason}
            await audit.record(connection, tenant_id, "leaderboard.disqualify", request.id, after=after)
        row = await connection.fetchrow(_SQL["disqualification"], *about)
        assert row is not None
        return row

    row = await engine.database.transaction(work)
    await show(engine, tenant_id, request.id, row["player_id"])
    return m.DisqualifyPlayerReply(**row)


async def show(engine: Engine, tenant_id: str, board_id: str, player_id: str) -> None:
    """Refreshes a player in the live ranking. If the ephemeral store is down, the catch-up job does it later."""
    try:
        await engine.rankings.refresh(tenant_id, [player_id], boards=[board_id])
    except (EphemeralDown, RedisError) as error:
        log.info("ranking_not_refreshed", board_id=board_id, why=str(error))


# -- checks ----------------------------------------------------------------------------------


def problems(board: m.Leaderboard) -> list[tuple[str, str]]:
    """(field, description) of each problem of a board. References are not checked."""
    checks = Checks()
    checks.required("name", board.name)
    for field, value in (("metric", board.metric), ("mode", board.mode)):
        if not value:
            checks.problem(field, "is required")
    if not board.campaign_id and not board.game_id:
        checks.problem("campaign_id", "is required, unless game_id is set")
    checks.times(board.start_date, board.end_date)
    _check_ranks(checks, board.prizes)
    return checks.found


def _check(board: m.Leaderboard) -> None:
    if found := problems(board):
        raise violations(found)


def _check_ranks(checks: Checks, prizes: list[m.RankPrize]) -> None:
    taken: list[tuple[int, int, int]] = []
    for i, prize in enumerate(prizes):
        field = f"prizes[{i}]"
        if not prize.prize_id:
            checks.problem(f"{field}.prize_id", "is required")
        if not 1 <= prize.from_rank <= RANK_MAX:
            checks.problem(f"{field}.from_rank", f"must be from 1 to {RANK_MAX}")
        elif not prize.from_rank <= prize.to_rank <= RANK_MAX:
            checks.problem(f"{field}.to_rank", f"must be between from_rank ({prize.from_rank}) and {RANK_MAX}")
        else:
            taken.append((prize.from_rank, prize.to_rank, i))
    taken.sort()
    for (_, last, one), (first, _, other) in pairwise(taken):
        if first <= last:
            checks.problem(f"prizes[{other}].from_rank", f"must be above {last}, the to_rank of prizes[{one}]")


async def _check_prizes(connection: asyncpg.Connection, request: Scoped, board: m.Leaderboard) -> None:
    """Checks that the caller may use each prize and none is archived."""
    unusable = await catalog.unusable_prizes(connection, request, (prize.prize_id for prize in board.prizes))
    checks = Checks()
    for i, prize in enumerate(board.prizes):
        if why := unusable.get(prize.prize_id):
            checks.problem(f"prizes[{i}].prize_id", why)
    checks.raise_found()


async def _settle_scope(connection: asyncpg.Connection, request: Scoped, board: m.Leaderboard) -> None:
    """A board of a game without a campaign gets the game's campaign. CAMPAIGN_ARCHIVED: its plays were deleted."""
    if board.game_id and not board.campaign_id:
        about = (tenant_of(request), board.game_id, merchant_of(request))
        board.campaign_id = await connection.fetchval(_SQL["game_campaign"], *about) or ""
        if not board.campaign_id:
            raise unknown("game", board.game_id)
    await refuse_archived(connection, tenant_of(request), board.campaign_id)


async def _out_of_scope(connection: asyncpg.Connection, request: Scoped, board: m.Leaderboard) -> Fault:
    refusal = await campaigns.write_refusal(connection, request, board.campaign_id)
    if board.game_id and refusal.status is Status.NOT_FOUND:
        return invalid("game_id", f"there is no game {board.game_id!r} in campaign {board.campaign_id!r}")
    return refusal


def _check_correction(player_id: str, reason: str, delta: int = 1) -> None:
    checks = Checks()
    checks.required("player_id", player_id)
    checks.required("reason", reason)
    if delta == 0:
        checks.problem("delta", "must not be 0")
    checks.raise_found()


async def lock(connection: asyncpg.Connection, request: reading.IdRequest) -> asyncpg.Record:
    """The board that the request changes, with a row lock. NOT_FOUND; PERMISSION_DENIED FORBIDDEN."""
    return await reading.for_update(connection, _SQL["lock"], request, "leaderboard", request.id)


async def _lock_live(connection: asyncpg.Connection, request: reading.IdRequest) -> asyncpg.Record:
    """As `lock`, for a live board. FAILED_PRECONDITION BOARD_FINALIZED, ILLEGAL_TRANSITION (archived)."""
    row = await lock(connection, request)
    if row["status"] == "finalized":
        raise Fault(Status.FAILED_PRECONDITION, "BOARD_FINALIZED", f"leaderboard {request.id} is finalized")
    if row["status"] == "archived":
        raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"leaderboard {request.id} is archived")
    return row


async def _lock_for_player(connection: asyncpg.Connection, request: Correction) -> str:
    """Locks the board, so that finalize's snapshot misses no correction.

    Returns the player to correct: for a guest that has logged in, the player that it became.
    """
    tenant_id = tenant_of(request)
    player_id = await merging.lock_owner(connection, tenant_id, request.player_id)
    await _lock_live(connection, request)
    if not await connection.fetchval(_SQL["knows_player"], tenant_id, player_id):
        raise unknown("player", player_id)
    return player_id


# -- messages --------------------------------------------------------------------------------


def _stored(board: m.Leaderboard) -> tuple[Any, ...]:
    """$3.. of `insert` and `update`."""
    prizes = [{"from_rank": p.from_rank, "to_rank": p.to_rank, "prize_id": p.prize_id} for p in board.prizes]
    return (
        board.campaign_id,
        board.game_id,
        board.name,
        token(board.metric),
        token(board.mode),
        board.start_date,
        board.end_date,
        prizes,
    )


def board_from_row(row: asyncpg.Record) -> m.Leaderboard:
    return m.Leaderboard(
        **{
            **row,
            "metric": enum(m.LeaderboardMetric, row["metric"]),
            "mode": enum(m.LeaderboardMode, row["mode"]),
            "status": enum(m.LeaderboardStatus, row["status"]),
            "prizes": [m.RankPrize(**prize) for prize in row["prizes"]],
        }
    )
