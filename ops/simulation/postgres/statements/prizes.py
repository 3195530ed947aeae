"""sql/prizes.sql: prizes and their stock."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.statements.codes import free_codes
from ops.simulation.postgres.statements.games import CONTENT, definition_of
from ops.simulation.postgres.values import dumps, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import NO_KEY_UPDATE, Result, Statement, statement

_GIVEN = (
    "name",
    "type",
    "value",
    "campaign_id",
    "max_per_user",
    "max_per_day",
    "redemption_mode",
    "channel",
    "channel_config",
    "expires_after_days",
    "status",
    "description",
    "image_url",
    "terms",
    "currency",
    "low_stock_at",
    "claim_fields",
)


def _values(args: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(_GIVEN, args, strict=True))
    return values | {name: dumps(values[name]) for name in ("channel_config", "claim_fields")}


@statement("prizes.insert")
async def insert(st: Statement, tenant_id: str, prize_id: str, *args: Any) -> Result:
    *fields, total = args
    values = _values(tuple(fields))
    await st.insert("stock", tenant_id=tenant_id, prize_id=prize_id, total=total, remaining=total, awarded=0)
    await st.hold_keys_of_config(values["channel_config"])
    await st.insert("prizes", tenant_id=tenant_id, prize_id=prize_id, **values)
    return 1


def _shown(prize: Any, stock: Any) -> dict[str, Any]:
    return (
        {"id": prize.prize_id}
        | of(prize, "name type value campaign_id max_per_user max_per_day redemption_mode channel")
        | {"channel_config": loads(prize.channel_config)}
        | of(prize, f"expires_after_days status {CONTENT} low_stock_at", claim_fields=loads(prize.claim_fields))
        | of(stock, "total remaining awarded")
        | {"created_at": unix(prize.created_at), "updated_at": unix(prize.updated_at)}
    )


@statement("prizes.get")
def get(st: Statement, tenant_id: str, prize_id: str, merchant_id: str, writing: bool) -> Result:
    prize, stock = st.get("prizes", tenant_id, prize_id), st.get("stock", tenant_id, prize_id)
    if prize is None or stock is None or not st.theirs(tenant_id, merchant_id, writing)(prize.campaign_id):
        return []
    return [_shown(prize, stock)]


def _listed(
    st: Statement,
    tenant_id: str,
    status: str,
    campaign_id: str,
    type_name: str,
    pattern: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> list[tuple[Any, Any]]:
    about = {"campaign_id": campaign_id, "type": type_name}
    found = listed(st, "prizes", tenant_id, merchant_id, standing=status, pattern=pattern, **about)
    rows = [row for row in found if st.get("stock", tenant_id, row.prize_id) is not None]
    return [(row, st.get("stock", tenant_id, row.prize_id)) for row in newest(rows, "prize_id", after, limit)]


@statement("prizes.list")
def list_(st: Statement, *args: Any) -> Result:
    return [_shown(prize, stock) for prize, stock in _listed(st, *args)]


@statement("prizes.update")
async def update(st: Statement, tenant_id: str, prize_id: str, *args: Any) -> Result:
    row = st.get("prizes", tenant_id, prize_id)
    values = _values(args)
    for held in await st.lock([row] if row else [], NO_KEY_UPDATE):
        await st.hold_keys_of_config(values["channel_config"], held.channel_config)
    return len(await st.update([row] if row else [], values | {"updated_at": st.now}))


def _move(row: Any) -> dict[str, Any]:
    names = "prize_id actor reason total_before total_after remaining_before remaining_after"
    return {"id": str(row.seq)} | of(row, names) | {"created_at": unix(row.created_at)}


@statement("prizes.set_total_stock")
async def set_total_stock(
    st: Statement, tenant_id: str, prize_id: str, total: int | None, change: int | None, actor: str, reason: str
) -> Result:
    row = st.get("stock", tenant_id, prize_id)
    for held in await st.lock([row] if row else [], NO_KEY_UPDATE):
        wanted = held.total + change if total is None and change is not None else total
        if wanted is None or not (wanted == 0 or held.awarded <= wanted) or wanted > 2**31 - 1:
            return []
        if total is None and not (held.total > 0 and wanted > 0):
            return []
        await st.update([held], {"total": wanted, "remaining": 0 if wanted == 0 else wanted - held.awarded})
        known = [move.seq for move in st.find("stock_moves", tenant_id=tenant_id, prize_id=prize_id)]
        own = {"tenant_id": tenant_id, "prize_id": prize_id, "seq": 1 + max(known, default=0)}
        before = {"total_before": held.total, "remaining_before": held.remaining}
        after = {"total_after": wanted, "remaining_after": 0 if wanted == 0 else wanted - held.awarded}
        await st.insert("stock_moves", **own, actor=actor, reason=reason, **before, **after)
        made = {"prize_id": prize_id, "actor": actor, "reason": reason}
        order = ("total_before", "total_after", "remaining_before", "remaining_after")
        moved = {name: (before | after)[name] for name in order}
        return [{"id": str(own["seq"])} | made | moved | {"created_at": unix(st.now)}]
    return []


@statement("prizes.stock_moves")
def stock_moves(st: Statement, tenant_id: str, prize_id: str, after: str | None, limit: int) -> Result:
    rows = st.find("stock_moves", tenant_id=tenant_id, prize_id=prize_id)
    rows = sorted((row for row in rows if after is None or row.seq < int(after)), key=lambda row: -row.seq)
    return [_move(row) for row in rows[:limit]]


@statement("prizes.awarded")
def awarded(st: Statement, tenant_id: str, prize_id: str) -> Result:
    row = st.get("stock", tenant_id, prize_id)
    return [of(row, "awarded total")] if row else []


@statement("prizes.usable")
def usable(st: Statement, tenant_id: str, prize_ids: list[str], merchant_id: str) -> Result:
    may = st.theirs(tenant_id, merchant_id, False)
    rows = [st.get("prizes", tenant_id, prize_id) for prize_id in dict.fromkeys(prize_ids)]
    return st.unordered(
        [of(row, "prize_id") for row in rows if row and row.status == "active" and may(row.campaign_id)]
    )


@statement("prizes.games_that_may_name")
def games_that_may_name(st: Statement, tenant_id: str, prize_id: str) -> Result:
    found = []
    for game in st.find("games", tenant_id=tenant_id, status="active"):
        revision = definition_of(st, game)
        if revision is not None and prize_id.encode() in revision.definition:
            found.append({"game_id": game.game_id, "definition": loads(revision.definition)})
    return sorted(found, key=lambda row: str(row["game_id"]))


@statement("prizes.boards_that_name")
def boards_that_name(st: Statement, tenant_id: str, prize_id: str) -> Result:
    rows = st.find("leaderboards", tenant_id=tenant_id, status="active")
    named = [row.board_id for row in rows if any(one.get("prize_id") == prize_id for one in loads(row.prizes))]
    return [{"board_id": board_id} for board_id in sorted(named)]


@statement("prizes.has_history")
def has_history(st: Statement, tenant_id: str, prize_id: str) -> Result:
    own = {"tenant_id": tenant_id, "prize_id": prize_id}
    stock = st.get("stock", tenant_id, prize_id)
    found = (
        st.exists("rewards", **own)
        or (stock is not None and stock.awarded > 0)
        or st.exists("prize_players", **own)
        or any(row.reward_id is not None for row in st.find("codes", **own))
        or any(
            prize_id.encode() in row.definition and st.exists("game_players", tenant_id=tenant_id, game_id=row.game_id)
            for row in st.find("game_revisions", tenant_id=tenant_id)
        )
    )
    return [{"?column?": found}]


@statement("prizes.remove")
async def remove(st: Statement, tenant_id: str, prize_id: str) -> Result:
    prize, stock = st.get("prizes", tenant_id, prize_id), st.get("stock", tenant_id, prize_id)
    gone = await st.delete([prize] if prize else [])
    await st.delete([stock] if stock else [])
    await st.delete(st.find("stock_moves", tenant_id=tenant_id, prize_id=prize_id))
    await st.delete(st.find("codes", tenant_id=tenant_id, prize_id=prize_id))
    return len(gone)


@statement("prizes.archive")
async def archive(st: Statement, tenant_id: str, prize_id: str) -> Result:
    row = st.get("prizes", tenant_id, prize_id)
    return len(await st.update([row] if row else [], {"status": "archived", "updated_at": st.now}))


@statement("prizes.summary")
def summary(st: Statement, tenant_id: str, *args: Any) -> Result:
    found = []
    for prize, stock in _listed(st, tenant_id, *args):
        own = {"tenant_id": tenant_id, "prize_id": prize.prize_id}
        rewards = [row for row in st.find("rewards", **own) if row.status != "revoked"]
        found.append(
            of(prize, "prize_id name type channel status")
            | of(stock, "total remaining awarded")
            | {
                "claimed": sum(row.quantity for row in rewards if row.claimed_at is not None),
                "fulfilled": sum(row.quantity for row in rewards if row.status == "fulfilled"),
                "codes_available": len(free_codes(st, tenant_id, prize.prize_id)),
            }
        )
    return found
