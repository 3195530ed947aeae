"""sql/leaderboards.sql: leaderboards, their corrections, and the standings that finalize keeps."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.values import at_unix, dumps, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import UPDATE, Result, Statement, statement


def _shown(row: Any) -> dict[str, Any]:
    return (
        {"id": row.board_id}
        | of(row, "campaign_id game_id name metric mode status")
        | {"start_date": unix(row.start_date), "end_date": unix(row.end_date), "prizes": loads(row.prizes)}
        | {"created_at": unix(row.created_at), "updated_at": unix(row.updated_at)}
    )


def _values(
    st: Statement,
    tenant_id: str,
    campaign_id: str,
    game_id: str,
    name: str,
    metric: str,
    mode: str,
    start_date: int,
    end_date: int,
    prizes: Any,
    merchant_id: str,
) -> dict[str, Any] | None:
    """A board's fields; None where its campaign is none to write in, or its game none of the campaign's."""
    game = st.get("games", tenant_id, game_id)
    if st.get("campaigns", tenant_id, campaign_id) is None or not st.theirs(tenant_id, merchant_id, True)(campaign_id):
        return None
    if game_id != "" and (game is None or game.campaign_id != campaign_id):
        return None
    return {
        "campaign_id": campaign_id,
        "game_id": game_id,
        "name": name,
        "metric": metric,
        "mode": mode,
        "start_date": at_unix(start_date),
        "end_date": at_unix(end_date),
        "prizes": dumps(prizes),
    }


@statement("leaderboards.of_campaign")
def of_campaign(st: Statement, tenant_id: str, campaign_id: str, limit: int) -> Result:
    rows = [
        row
        for row in st.find("leaderboards", tenant_id=tenant_id, campaign_id=campaign_id)
        if row.status != "archived"
        and ((game := st.get("games", tenant_id, row.game_id)) is None or game.status != "draft")
    ]
    return [_shown(row) for row in newest(rows, "board_id", None, limit)]


@statement("leaderboards.insert")
async def insert(st: Statement, tenant_id: str, board_id: str, *args: Any) -> Result:
    values = _values(st, tenant_id, *args)
    if values is None:
        return []
    return [_shown(await st.insert("leaderboards", tenant_id=tenant_id, board_id=board_id, **values))]


@statement("leaderboards.update")
async def update(st: Statement, tenant_id: str, board_id: str, *args: Any) -> Result:
    values = _values(st, tenant_id, *args)
    row = st.get("leaderboards", tenant_id, board_id)
    if values is None or row is None:
        return []
    return [_shown(row) for row in await st.update([row], values | {"updated_at": st.now})]


@statement("leaderboards.game_campaign")
def game_campaign(st: Statement, tenant_id: str, game_id: str, merchant_id: str) -> Result:
    row = st.get("games", tenant_id, game_id)
    return [of(row, "campaign_id")] if row and st.theirs(tenant_id, merchant_id, False)(row.campaign_id) else []


@statement("leaderboards.get")
def get(st: Statement, tenant_id: str, board_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    return [_shown(row)] if row and st.theirs(tenant_id, merchant_id, writing)(row.campaign_id) else []


@statement("leaderboards.on_show")
def on_show(st: Statement, tenant_id: str, board_id: str) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    campaign = st.get("campaigns", tenant_id, row.campaign_id) if row else None
    if row is None or campaign is None or row.status == "archived" or campaign.status == "draft":
        return []
    return [{"finalized": row.finalized_at is not None}]


@statement("leaderboards.lock")
async def lock(st: Statement, tenant_id: str, board_id: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    may = st.theirs(tenant_id, merchant_id, writing)
    rows = [row] if row is not None and may(row.campaign_id) else []
    return [_shown(row) for row in await st.lock(rows, UPDATE, lambda row: may(row.campaign_id))]


def _over(row: Any, at: int) -> bool:
    return row.status == "active" and row.end_date is not None and row.end_date <= at


@statement("leaderboards.ending")
def ending(st: Statement, tenant_id: str) -> Result:
    settled = st.settled_at()
    found = {row.board_id for row in st.find("leaderboards", tenant_id=tenant_id) if _over(row, settled)}
    found |= {row.board_id for row in st.find("leaderboard_standings", tenant_id=tenant_id, reason="PENDING")}
    return [{"board_id": board_id} for board_id in sorted(found)]


@statement("leaderboards.tenants_with_ending")
def tenants_with_ending(st: Statement) -> Result:
    found = {row.tenant_id for row in st.find("leaderboards", status="active") if _over(row, st.now)}
    found |= {row.tenant_id for row in st.find("leaderboard_standings", reason="PENDING")}
    return [{"tenant_id": tenant_id} for tenant_id in sorted(found)]


@statement("leaderboards.list")
def list_(
    st: Statement,
    tenant_id: str,
    campaign_id: str,
    status: str,
    pattern: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    rows = listed(st, "leaderboards", tenant_id, merchant_id, standing=status, pattern=pattern, campaign_id=campaign_id)
    return [_shown(row) for row in newest(rows, "board_id", after, limit)]


@statement("leaderboards.remove")
async def remove(st: Statement, tenant_id: str, board_id: str) -> Result:
    board = st.get("leaderboards", tenant_id, board_id)
    if board is None or board.status != "active":
        return []
    own: dict[str, Any] = {"tenant_id": tenant_id, "board_id": board_id}
    if st.exists("leaderboard_adjustments", **own) or st.exists("leaderboard_disqualifications", **own):
        return []
    if any(st.exists("game_players", tenant_id=tenant_id, game_id=game_id) for game_id in games_of(st, board)):
        return []
    return [of(row, "board_id") for row in await st.delete([board], lambda row: row.status == "active")]


def games_of(st: Statement, board: Any) -> list[str]:
    """The games that a board counts, sorted: its own, or all of its campaign."""
    if board.game_id != "":
        return [board.game_id] if st.get("games", board.tenant_id, board.game_id) else []
    rows = st.find("games", tenant_id=board.tenant_id, campaign_id=board.campaign_id)
    return sorted(row.game_id for row in rows)


@statement("leaderboards.archive")
async def archive(st: Statement, tenant_id: str, board_id: str) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    rows = await st.update([row] if row else [], {"status": "archived", "updated_at": st.now})
    return [of(row, "board_id") for row in rows]


@statement("leaderboards.knows_player")
def knows_player(st: Statement, tenant_id: str, player_id: str) -> Result:
    known = st.get("players", tenant_id, player_id) is not None
    return [{"?column?": known or st.exists("plays", tenant_id=tenant_id, player_id=player_id)}]


@statement("leaderboards.is_disqualified")
def is_disqualified(st: Statement, tenant_id: str, board_id: str, player_id: str) -> Result:
    return [{"exists": st.get("leaderboard_disqualifications", tenant_id, board_id, player_id) is not None}]


@statement("leaderboards.adjust")
async def adjust(
    st: Statement, tenant_id: str, board_id: str, player_id: str, entry_id: str, delta: int, reason: str
) -> Result:
    own: dict[str, Any] = {"tenant_id": tenant_id, "board_id": board_id, "player_id": player_id}
    row = await st.insert("leaderboard_adjustments", **own, entry_id=entry_id, delta=delta, reason=reason)
    return [of(row, "entry_id")]


@statement("leaderboards.disqualify")
async def disqualify(st: Statement, tenant_id: str, board_id: str, player_id: str, reason: str) -> Result:
    own: dict[str, Any] = {"tenant_id": tenant_id, "board_id": board_id, "player_id": player_id}
    row = await st.insert_unless("leaderboard_disqualifications", **own, reason=reason)
    return [of(row, "player_id")] if row else []


@statement("leaderboards.disqualification")
def disqualification(st: Statement, tenant_id: str, board_id: str, player_id: str) -> Result:
    row = st.get("leaderboard_disqualifications", tenant_id, board_id, player_id)
    if row is None:
        return []
    return [{"leaderboard_id": board_id} | of(row, "player_id reason", disqualified_at=unix(row.disqualified_at))]


@statement("leaderboards.finalize")
async def finalize(st: Statement, tenant_id: str, board_id: str) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    rows = [row] if row is not None and row.status == "active" else []
    change = {"status": "finalized", "finalized_at": st.now, "updated_at": st.now}
    return [of(row, "board_id") for row in await st.update(rows, change, lambda row: row.status == "active")]


@statement("leaderboards.has_standings")
def has_standings(st: Statement, tenant_id: str, board_id: str) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    return [{"?column?": row.finalized_at is not None}] if row else []


@statement("leaderboards.keep_standings")
async def keep_standings(
    st: Statement,
    tenant_id: str,
    board_id: str,
    players: list[str],
    names: list[str],
    scores: list[int],
    achieved: list[int],
    prizes: list[str],
) -> Result:
    places = zip(players, names, scores, achieved, prizes, strict=True)
    for rank, (player_id, name, score, achieved_us, prize_id) in enumerate(places, 1):
        await st.insert(
            "leaderboard_standings",
            tenant_id=tenant_id,
            board_id=board_id,
            rank=rank,
            player_id=player_id,
            display_name=name,
            score=score,
            achieved_at=achieved_us,
            prize_id=prize_id,
            reason="PENDING" if prize_id else "",
        )
    return len(players)


def _place(row: Any) -> dict[str, Any]:
    return of(row, "rank player_id display_name score", achieved_at=unix(row.achieved_at))


@statement("leaderboards.standings")
def standings(st: Statement, tenant_id: str, board_id: str, after: int, limit: int) -> Result:
    rows = [row for row in st.find("leaderboard_standings", tenant_id=tenant_id, board_id=board_id) if row.rank > after]
    rows.sort(key=lambda row: row.rank)
    return [_place(row) | of(row, "prize_id reward_id reason") for row in rows[:limit]]


@statement("leaderboards.standing_of")
def standing_of(st: Statement, tenant_id: str, board_id: str, player_id: str) -> Result:
    own: dict[str, Any] = {"tenant_id": tenant_id, "board_id": board_id, "player_id": player_id}
    return [_place(row) for row in st.find("leaderboard_standings", **own)]


@statement("leaderboards.owed")
def owed(st: Statement, tenant_id: str, board_id: str, limit: int) -> Result:
    rows = st.find("leaderboard_standings", tenant_id=tenant_id, board_id=board_id, reason="PENDING")
    rows.sort(key=lambda row: row.rank)
    found = []
    for row in rows[:limit]:
        player = st.get("players", tenant_id, row.player_id)
        merged_into = player.merged_into if player else None
        guest = player.auth_method == "guest" if player else None
        found.append(
            {
                "rank": row.rank,
                "player_id": row.player_id if merged_into is None else merged_into,
                "prize_id": row.prize_id,
                "guest": guest if merged_into is None else False,
            }
        )
    return found


@statement("leaderboards.turns_of")
def turns_of(st: Statement, tenant_id: str, player_id: str, campaign_id: str) -> Result:
    row = st.get("turn_balances", tenant_id, player_id, campaign_id)
    return [of(row, "balance")] if row else []


@statement("leaderboards.withhold")
async def withhold(st: Statement, tenant_id: str, board_id: str, rank: int, reason: str) -> Result:
    row = st.get("leaderboard_standings", tenant_id, board_id, rank)
    rows = [row] if row is not None and row.reason == "PENDING" else []
    return [of(row, "rank") for row in await st.update(rows, {"reason": reason}, lambda row: row.reason == "PENDING")]


@statement("leaderboards.closed_board")
def closed_board(st: Statement, tenant_id: str, board_id: str) -> Result:
    row = st.get("leaderboards", tenant_id, board_id)
    campaign = st.get("campaigns", tenant_id, row.campaign_id) if row else None
    if row is None or campaign is None:
        return []
    players = len(st.find("leaderboard_standings", tenant_id=tenant_id, board_id=board_id))
    return [
        of(row, "campaign_id game_id name")
        | of(campaign, "merchant_id timezone", finalized_at=unix(row.finalized_at), players=players)
    ]
