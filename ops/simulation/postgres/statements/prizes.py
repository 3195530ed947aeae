"""sql/prizes.sql: prizes and their stock."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.listing import listed
from ops.simulation.postgres.statements.games import definition_of
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
)


def _values(args: tuple[Any, ...]) -> dict[str, Any]:
    values = dict(zip(_GIVEN, args, strict=True))
    return values | {"channel_config": dumps(values["channel_config"])}


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
        | of(prize, "expires_after_days status")
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


@statement("prizes.set_total_stock")
async def set_total_stock(st: Statement, tenant_id: str, prize_id: str, total: int) -> Result:
    def fits(s: Any) -> bool:
        return bool(total == 0 or s.awarded <= total)

    row = st.get("stock", tenant_id, prize_id)
    rows = await st.update(
        [row] if row is not None and fits(row) else [],
        lambda s: {"total": total, "remaining": 0 if total == 0 else total - s.awarded},
        fits,
    )
    return [of(row, "total") for row in rows]


@statement("prizes.awarded")
def awarded(st: Statement, tenant_id: str, prize_id: str) -> Result:
    row = st.get("stock", tenant_id, prize_id)
    return [of(row, "awarded")] if row else []


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
            of(prize, "prize_id name")
            | of(stock, "total remaining awarded")
            | {
                "claimed": sum(row.quantity for row in rewards if row.claimed_at is not None),
                "fulfilled": sum(row.quantity for row in rewards if row.status == "fulfilled"),
                "codes_available": len(st.find("codes", **own, reward_id=None)),
            }
        )
    return found
