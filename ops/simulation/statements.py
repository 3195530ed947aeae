"""Models of the play path's statements for the simulation's Postgres: sql/play.sql, commit.sql, and more.

Each is reimplemented in Python, for a tenant as in catalogue.py. Other SQL is not modelled.
"""

import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any, Final, get_args, get_type_hints

from msgspec import json
from msgspec.structs import asdict

from ops.simulation.postgres import MODELS, Result, Row, Transaction
from runtime.actors.changes import NAMES, Changes
from runtime.actors.statement import PARAMETERS

_DAY: Final = 86_400 * 1_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def statement(name: str) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Registers the model of a statement."""

    def register(model: Callable[..., Result]) -> Callable[..., Result]:
        MODELS[name] = model
        return model

    return register


def unix(at: int | None) -> int:
    """unix(): seconds of a time, 0 if NULL."""
    return 0 if at is None else at // 1_000_000


def datetime_of(at: int | None) -> datetime | None:
    """A timestamptz as asyncpg returns it."""
    return None if at is None else _EPOCH + timedelta(microseconds=at)


def copied(value: Any) -> Any:
    """JSON as stored: bytes are JSON already."""
    return None if value is None else json.decode(value if isinstance(value, bytes) else json.encode(value))


def of(row: Row | None, names: str, **more: Any) -> Row:
    """A row's columns by name, NULL if there is no row, plus others."""
    return {name: row.get(name) if row else None for name in names.split()} | more


# -- reads of the actor ------------------------------------------------------------------------


@statement("SELECT extract(epoch FROM clock_timestamp())::float8")
def clock(tx: Transaction) -> Result:
    return [{"extract": tx.server.clock() / 1_000_000}]


@statement("play.snapshot")
def snapshot(tx: Transaction, tenant_id: str, game_id: str) -> Result:
    game, tenant = tx.get("games", game_id), tx.get("tenants", tenant_id)
    if game is None or tenant is None:
        return []
    campaign = tx.get("campaigns", game["campaign_id"])
    revision = tx.get("game_revisions", game_id, game["revision"])
    assert campaign is not None and revision is not None
    promised = sorted(tx.find("promised_terms", game_id=game_id), key=lambda row: row["created_at"], reverse=True)
    return [
        {
            "catalog_version": tenant["catalog_version"],
            **of(game, "status revision campaign_id"),
            "definition": copied(revision["definition"]),
            **of(campaign, "timezone", merchant_id="", campaign_status=campaign["status"]),
            "suspended": "",
            "start_date": 0,
            "end_date": 0,
            "redeem_until": 0,
            "entry_needs": None,
            "entry_countries": None,
            "kept": [row["revision_hash"] for row in promised[:20]],
            "played": bool(tx.find("game_players", game_id=game_id)),
        }
    ]


@statement("play.insert_terms")
def insert_terms(
    tx: Transaction, tenant_id: str, revision_hash: str, game_id: str, terms: bytes, version: int
) -> Result:
    tenant = tx.get("tenants", tenant_id)
    if tenant is None or tenant["catalog_version"] != version:
        return 0
    own = {"tenant_id": tenant_id, "revision_hash": revision_hash, "game_id": game_id, "terms": terms}
    return int(tx.insert_unless("promised_terms", **own) is not None)


CONTENT: Final = {**dict.fromkeys(("description", "image_url", "terms", "currency"), ""), "claim_fields": []}
"""prize_content() of every prize."""


@statement("play.prizes")
def prizes(tx: Transaction, tenant_id: str, prize_ids: list[str], redeemed: list[str]) -> Result:
    names = "prize_id name type value max_per_user max_per_day redemption_mode channel expires_after_days status"
    found = [row for prize_id in dict.fromkeys(prize_ids) if (row := tx.get("prizes", prize_id))]
    return [of(row, names, release=None, content=CONTENT if row["prize_id"] in redeemed else None) for row in found]


@statement("play.refresh")
def refresh(
    tx: Transaction,
    tenant_id: str,
    game_id: str,
    player_ids: list[str],
    prize_ids: list[str],
    new_ids: list[str],
    campaign_id: str,
    scope_key: str,
    day: date,
    needs_entry: bool,
) -> Result:
    assert not needs_entry, "no simulated campaign has an entry form"
    tenant = tx.get("tenants", tenant_id)
    players = [_player(tx, game_id, one, prize_ids, campaign_id, scope_key, day) for one in player_ids]
    stocks = [_prize(tx, prize_id, day) for prize_id in prize_ids]
    # Created last, since nothing here reads the new rows.
    for player_id in new_ids:
        method = "guest" if player_id.startswith("guest_") and len(player_id) == 32 else "external"
        tx.insert_unless("players", tenant_id=tenant_id, player_id=player_id, auth_method=method)
    return [
        {
            "now": tx.server.clock() / 1_000_000,
            "catalog_version": tenant["catalog_version"] if tenant else None,
            "players": players or None,
            "prizes": stocks or None,
        }
    ]


def _player(
    tx: Transaction, game_id: str, player_id: str, prize_ids: list[str], campaign_id: str, scope_key: str, day: date
) -> list[Any]:
    player, count = tx.get("players", player_id), tx.get("game_players", game_id, player_id)
    turns = tx.get("turn_balances", player_id, campaign_id)
    had = [row for one in dict.fromkeys(prize_ids) if (row := tx.get("prize_players", one, player_id))]
    balances = tx.find("balances", player_id=player_id, scope_key=scope_key)
    grants = tx.find("milestone_grants", player_id=player_id, game_id=game_id)
    return [
        player_id,
        count["plays"] if count else 0,
        count["day_plays"] if count and count["day"] >= day else 0,
        count["day"] > day if count else None,
        turns["balance"] if turns else 0,
        False,
        {row["prize_id"]: row["awarded"] for row in had} or None,
        {row["currency"]: row["balance"] for row in balances} or None,
        {row["milestone_id"]: unix(row["granted_at"]) for row in grants} or None,
        player["auth_method"] == "guest" if player else None,
        None,
        count["busy_until"] if count else 0,
        None,
    ]


def _prize(tx: Transaction, prize_id: str, day: date) -> list[Any]:
    stock, counted = tx.get("stock", prize_id), tx.get("prize_days", prize_id, day)
    free = len(free_codes(tx, prize_id))
    return [
        prize_id,
        stock["remaining"] if stock and stock["total"] > 0 else None,
        counted["awarded"] if counted else 0,
        free,
    ]


def free_codes(tx: Transaction, prize_id: str) -> list[Row]:
    """The free codes of a pool, in the order of assignment."""
    return sorted(tx.find("codes", prize_id=prize_id, reward_id=None), key=lambda row: str(row["code_id"]))


@statement("play.rewind_days")
def set_back(
    tx: Transaction, tenant_id: str, game_id: str, player_ids: list[str], day: date, day_ends: int, version: int
) -> Result:
    tenant = tx.get("tenants", tenant_id)
    if tenant is None or tenant["catalog_version"] != version:
        return 0
    rows = [row for one in dict.fromkeys(player_ids) if (row := tx.get("game_players", game_id, one))]
    ahead = [row for row in rows if row["day"] > day and tx.server.clock() < day_ends * 1_000_000]
    return len([tx.update("game_players", row, day=day) for row in ahead])


@statement("play.find")
def find(
    tx: Transaction, tenant_id: str, play_ids: list[str], player_ids: list[str], keys: list[str], game_id: str
) -> Result:
    rows = [row for one in dict.fromkeys(play_ids) if (row := tx.get("plays", one))]
    for player_id, key in zip(player_ids, keys, strict=True):
        rows += tx.find("plays", player_id=player_id, game_id=game_id, idempotency_key=key) if key else []
    names = "play_id game_id player_id seed idempotency_key request_hash"
    return [of(row, names, outcome=copied(row["outcome"])) for row in rows]


@statement("play.find_redeems")
def find_redeems(tx: Transaction, tenant_id: str, player_ids: list[str], keys: list[str], game_id: str) -> Result:
    found: list[Row] = []
    for player_id, key in zip(player_ids, keys, strict=True):
        own = {"player_id": player_id, "game_id": game_id, "idempotency_key": key}
        found += tx.find("milestone_grants", **own) if key else []
    return [of(row, "player_id idempotency_key request_hash", reply=copied(row["reply"])) for row in found]


# -- the commit statement: its parts in the order of its guards --------------------------------

_TYPED: Final = re.compile(r"\$(\d+)::(\w+)\[\]")


@cache
def parameters(text: str) -> tuple[str, ...]:
    """The parameters after $2 for the parts that the text contains."""
    names = {parameter.type: parameter.name for parameter in PARAMETERS}
    found = {int(number): names[kind] for number, kind in _TYPED.findall(text) if kind in names}
    return tuple(found[number] for number in sorted(found))


_ROWS: Final = {name: get_args(hint)[-1] for name, hint in get_type_hints(Changes).items() if name in NAMES}
"""The row type of each parameter."""


@statement("commit.commit")
def commit(tx: Transaction, text: str, seen: list[Any], lock_timeout_ms: int, *arrays: list[Any]) -> Result:
    ((tenant_id, catalog_version),) = seen  # The simulation has one tenant.
    changes: Any = Changes()
    for name, rows in zip(parameters(text), arrays, strict=True):
        setattr(changes, name, [_ROWS[name](*values) for _, *values in rows])
    tenant = tx.get("tenants", tenant_id)
    if catalog_version and (tenant is None or tenant["catalog_version"] != catalog_version):
        tx.refuse("catalog")
    own = {"tenant_id": tenant_id}
    _insert_plays(tx, own, changes)
    balances = _update_balances(tx, own, changes)
    _count_prizes(tx, own, "prize_players", "prize_player", changes.prize_players)
    _insert_new(tx, own, changes, balances)
    stock_rows = _take_stock(tx, own, changes)
    for n in changes.grants:
        if tx.insert_unless("milestone_grants", **own, **asdict(n) | {"reply": copied(n.reply)}) is None:
            tx.refuse("grant")
    now = {"now": tx.server.clock() / 1_000_000}
    if "stock" not in parameters(text):
        return [now]
    remaining = [None if row["total"] == 0 else row["remaining"] for row in stock_rows]
    prize_ids = [row["prize_id"] for row in stock_rows] or None
    tenants = [tenant_id for _ in stock_rows] or None
    return [now | {"stock_tenants": tenants, "prize_ids": prize_ids, "remaining": remaining or None}]


def _insert_plays(tx: Transaction, own: Row, changes: Any) -> None:
    for n in changes.plays:
        values = asdict(n) | {"payload": copied(n.payload), "outcome": copied(n.outcome)}
        if tx.insert_unless("plays", **own, **values) is None:
            tx.refuse("session")
    guards = set()
    for n in changes.play_counts:
        row = tx.get("game_players", n.game_id, n.player_id)
        if row is None:
            start = {"plays": 0, "day": n.day, "day_plays": 0, "busy_until": 0}
            row = tx.insert("game_players", **own, game_id=n.game_id, player_id=n.player_id, **start)
        row = tx.update(
            "game_players",
            row,
            plays=row["plays"] + n.plays,
            day=n.day,
            day_plays=(row["day_plays"] if row["day"] >= n.day else 0) + n.plays,
            busy_until=max(row["busy_until"], n.busy_until),
        )
        if 0 < n.day_ends <= tx.server.clock() / 1_000_000:
            guards.add("day")
        if 0 < n.cap < row["plays"] or 0 < n.day_cap < row["day_plays"] or (n.exact and row["plays"] < n.cap):
            guards.add("plays")
    if guards:
        tx.refuse(min(guards))


def _update_balances(tx: Transaction, own: Row, changes: Any) -> dict[tuple[str, str, str], Row]:
    """Moves turns and balances; returns the moved balances."""
    for n in changes.turns:
        row = tx.get("turn_balances", n.player_id, n.campaign_id)
        if n.before != (row["balance"] if row else 0):
            tx.refuse("turns")
        if row is None:
            tx.insert("turn_balances", **own, player_id=n.player_id, campaign_id=n.campaign_id, balance=n.after)
        else:
            tx.update("turn_balances", row, balance=n.after, updated_at=tx.began)
    balances = {}
    entries = len(changes.ledger)
    for b in changes.balances:
        key = (b.player_id, b.scope_key, b.currency)
        row, at = tx.get("balances", *key), tx.server.clock()
        if b.before != (row["balance"] if row else None):
            tx.refuse("balance")
        if row is None:
            named = dict(zip(("player_id", "scope_key", "currency"), key, strict=True))
            balances[key] = tx.insert("balances", **own, **named, balance=b.after, seq=at + entries)
        else:
            seq = max(row["seq"], at) + entries
            balances[key] = tx.update("balances", row, balance=b.after, seq=seq, updated_at=tx.began)
    return balances


def _take_stock(tx: Transaction, own: Row, changes: Any) -> list[Row]:
    """Takes stock, counts it against the cap of the day, and takes codes; returns the stock rows."""
    stock_rows = []
    for n in changes.stock:
        row = tx.get("stock", n.prize_id)
        if row is None or (row["total"] > 0 and row["remaining"] - n.quantity < n.held_back):
            tx.refuse("stock")
        left = row["remaining"] - n.quantity if row["total"] else 0
        stock_rows.append(tx.update("stock", row, remaining=left, awarded=row["awarded"] + n.quantity))
    _count_prizes(tx, own, "prize_days", "prize_day", changes.prize_days)
    pools: Counter[str] = Counter(take.prize_id for take in changes.codes)
    picked = {prize_id: free_codes(tx, prize_id)[:wanted] for prize_id, wanted in pools.items()}
    for take in changes.codes:
        if len(picked[take.prize_id]) < take.nth:
            tx.refuse("codes")
        tx.update("codes", picked[take.prize_id][take.nth - 1], reward_id=take.reward_id, assigned_at=tx.began)
    return stock_rows


def _count_prizes(tx: Transaction, own: Row, table: str, guard: str, counts: list[Any]) -> None:
    """Counts units of a prize against a cap: the first two fields are the key."""
    for c in counts:
        key = dict([*asdict(c).items()][:2])
        row = tx.get(table, *key.values()) or tx.insert(table, **own, **key, awarded=0)
        row = tx.update(table, row, awarded=row["awarded"] + c.quantity)
        if 0 < c.cap < row["awarded"]:
            tx.refuse(guard)


def _insert_new(tx: Transaction, own: Row, changes: Any, balances: dict[tuple[str, str, str], Row]) -> None:
    """The parts whose rows are new."""
    for entry in changes.turn_entries:
        tx.insert("turn_entries", **own, **asdict(entry))
    for nth, line in enumerate(changes.ledger, 1):
        balance = balances[line.player_id, line.scope_key, line.currency]
        tx.insert("ledger_entries", **own, seq=balance["seq"] - len(changes.ledger) + nth, **asdict(line))
    for reward in changes.rewards:
        values = asdict(reward)
        days = values.pop("expires_after_days")
        values["fulfilled_at"] = tx.began if reward.status == "fulfilled" else None
        values |= {"claim_key": None, "claimed_at": None, "expires_at": tx.began + days * _DAY if days > 0 else None}
        tx.insert("rewards", **own, **values)
    for task in changes.tasks:
        due = tx.began if task.status == "pending" else None
        tx.insert("tasks", **own, next_attempt_at=due, attempts=int(task.status == "delivered"), **asdict(task))
