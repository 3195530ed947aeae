"""sql/leaderboards.sql, the scores: what players have on boards, and who may have changed."""

from __future__ import annotations

from hashlib import md5
from typing import Any

from ops.simulation.postgres.statements.leaderboards import games_of
from ops.simulation.postgres.values import epoch, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement

_INT64 = 2**63


@statement("leaderboards.scores")
def scores(
    st: Statement,
    tenant_id: str,
    board_ids: list[str] | None,
    game_ids: list[str] | None,
    player_ids: list[str] | None,
) -> Result:
    if board_ids is None:
        boards = st.find("leaderboards", tenant_id=tenant_id, status="active")
    else:
        found = [st.get("leaderboards", tenant_id, board_id) for board_id in dict.fromkeys(board_ids)]
        boards = [board for board in found if board]
    version = f"{st.xmax:020d}{st.xmin:020d}{9_999_999_999 - len(st.in_progress):010d}"
    as_of = epoch(st.settled_at() if player_ids is None else st.now)
    rows = []
    for board in sorted(boards, key=lambda row: row.board_id):
        games = games_of(st, board)
        if game_ids is not None and not set(games) & set(game_ids):
            continue
        parts = (board.metric, board.mode, unix(board.start_date), unix(board.end_date), ",".join(games))
        config = md5("|".join(map(str, parts)).encode(), usedforsecurity=False).hexdigest()
        campaign = st.get("campaigns", tenant_id, board.campaign_id)
        status = "draft" if campaign and campaign.status == "draft" else board.status
        shared = {"board_id": board.board_id, "status": status, "config": config}
        shared |= {"version": version, "as_of": as_of}
        scored: list[tuple[int | None, int | None, str | None]] = [
            (score, achieved_at, player_id)
            for player_id in _seats(st, board, games, player_ids)
            for score, achieved_at in [_score(st, board, games, player_id)]
            if score is not None or player_ids is not None
        ]
        # DESC: NULLs first; ASC: last.
        scored.sort(key=lambda one: (one[0] is not None, -(one[0] or 0), one[1] is None, one[1] or 0, one[2]))
        for score, achieved_at, player_id in scored or [(None, None, None)]:
            player = st.get("players", tenant_id, player_id) if player_id is not None else None
            rows.append(
                shared
                | {
                    "player_id": player_id,
                    "display_name": player.display_name if player else "",
                    "score": None if score is None else max(-_INT64, min(score, _INT64 - 1)),
                    "achieved_us": achieved_at,
                }
            )
    return rows


def _seats(st: Statement, board: Any, games: list[str], player_ids: list[str] | None) -> set[str]:
    if player_ids is not None:
        return set(player_ids)
    seats = {row.player_id for one in games for row in st.find("game_players", tenant_id=board.tenant_id, game_id=one)}
    return seats | {row.player_id for row in _adjustments(st, board)}


def _adjustments(st: Statement, board: Any) -> list[Any]:
    return st.find("leaderboard_adjustments", tenant_id=board.tenant_id, board_id=board.board_id)


def _score(st: Statement, board: Any, games: list[str], player_id: str) -> tuple[int | None, int | None]:
    """(score, when it was reached)."""
    plays = [
        (1 if board.metric == "plays" else getattr(row, board.metric), row.played_at, row.play_id)
        for row in st.find("plays", tenant_id=board.tenant_id, player_id=player_id)
        if row.game_id in games
        and (board.start_date is None or row.played_at >= board.start_date)
        and (board.end_date is None or row.played_at < board.end_date)
    ]
    value = reached = None
    if plays:
        times = [at for _, at, _ in plays]
        match board.mode:
            case "sum":
                value = sum(one for one, _, _ in plays)
                reached = max((at for one, at, _ in plays if one != 0), default=min(times))
            case "best":
                value = max(one for one, _, _ in plays)
                reached = min(at for one, at, _ in plays if one == value)
            case _:
                value = max(plays, key=lambda play: (play[1], play[2]))[0]
                reached = max(times)
    adjusted = [row for row in _adjustments(st, board) if row.player_id == player_id]
    moments = [*([reached] if reached is not None else []), *(row.created_at for row in adjusted)]
    out = st.get("leaderboard_disqualifications", board.tenant_id, board.board_id, player_id) is not None
    score = None
    if not out and (value is not None or adjusted):
        score = (value or 0) + sum(row.delta for row in adjusted)
    return score, max(moments, default=None)


@statement("leaderboards.active")
def active(st: Statement, tenant_id: str) -> Result:
    rows = st.find("leaderboards", tenant_id=tenant_id, status="active")
    return [{"board_id": board_id} for board_id in sorted(row.board_id for row in rows)]


@statement("leaderboards.tenants")
def tenants(st: Statement, tenant_id: str, board_id: str) -> Result:
    found = {
        row.tenant_id
        for row in st.find("leaderboards", status="active")
        if tenant_id in ("", row.tenant_id) and board_id in ("", row.board_id)
    }
    return [{"tenant_id": one} for one in sorted(found)]


@statement("leaderboards.touched")
def touched(st: Statement, tenant_id: str, since_seconds: float) -> Result:
    since = round(since_seconds * 1_000_000)
    found: set[str] = set()
    for table, column in (
        ("plays", "played_at"),
        ("leaderboard_adjustments", "created_at"),
        ("leaderboard_disqualifications", "disqualified_at"),
        ("players", "updated_at"),
    ):
        for row in st.find(table, tenant_id=tenant_id):
            if getattr(row, column) >= since:
                found.add(row.player_id)
                if table == "players" and row.merged_into is not None:
                    found.add(row.merged_into)
    return [{"as_of": epoch(st.settled_at()), "players": st.unordered(sorted(found))}]
