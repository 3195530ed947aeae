"""sql/play.sql: what the play actor reads."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from ops.simulation.postgres.statements.codes import free_codes
from ops.simulation.postgres.statements.games import is_shown
from ops.simulation.postgres.values import loads, newest, of, unix
from ops.simulation.postgres.vocabulary import Result, Statement, statement


@statement("SELECT extract(epoch FROM clock_timestamp())::float8")
def clock(st: Statement) -> Result:
    return [{"extract": st.seconds()}]


@statement("play.snapshot")
def snapshot(st: Statement, tenant_id: str, game_id: str) -> Result:
    game = st.get("games", tenant_id, game_id)
    tenant = st.get("tenants", tenant_id)
    if game is None or tenant is None:
        return []
    campaign = st.get("campaigns", tenant_id, game.campaign_id)
    revision = st.get("game_revisions", tenant_id, game_id, game.revision)
    if campaign is None or revision is None:
        return []
    merchant = st.get("merchants", tenant_id, campaign.merchant_id)
    suspended = "merchant" if merchant is not None and merchant.status == "suspended" else ""
    kept = st.find("promised_terms", tenant_id=tenant_id, game_id=game_id)
    kept.sort(key=lambda row: row.created_at, reverse=True)
    return [
        {
            "catalog_version": tenant.catalog_version,
            "status": game.status,
            "revision": game.revision,
            "definition": loads(revision.definition),
            "campaign_id": game.campaign_id,
            "merchant_id": campaign.merchant_id,
            "campaign_status": campaign.status,
            "suspended": "tenant" if tenant.status == "suspended" else suspended,
            "start_date": unix(campaign.start_date),
            "end_date": unix(campaign.end_date),
            "redeem_until": unix(campaign.redeem_until),
            "timezone": campaign.timezone,
            "kept": [row.revision_hash for row in kept[:20]],
            "played": st.exists("game_players", tenant_id=tenant_id, game_id=game_id),
        }
    ]


@statement("play.keep_terms")
async def keep_terms(
    st: Statement, tenant_id: str, revision_hash: str, game_id: str, terms: bytes, version: int
) -> Result:
    tenant = st.get("tenants", tenant_id)
    if tenant is None or tenant.catalog_version != version:
        return 0
    values: dict[str, Any] = {"revision_hash": revision_hash, "game_id": game_id, "terms": terms}
    return int(await st.insert_unless("promised_terms", tenant_id=tenant_id, **values) is not None)


@statement("play.terms")
def terms(st: Statement, tenant_id: str, revision_hash: str, merchant_id: str, writing: bool) -> Result:
    row = st.get("promised_terms", tenant_id, revision_hash)
    if row is None or not _may(st, tenant_id, merchant_id, row.game_id, writing):
        return []
    return [of(row, "revision_hash game_id terms", promised_at=unix(row.created_at))]


def _may(st: Statement, tenant_id: str, merchant_id: str, game_id: str, writing: bool) -> bool:
    """Whether staff of a merchant may read, or write, what is of a game."""
    if merchant_id == "":
        return True
    game = st.get("games", tenant_id, game_id)
    return game is not None and st.campaigns_of(tenant_id, merchant_id, writing)(game.campaign_id)


@statement("play.looks")
def looks(st: Statement, tenant_id: str, game_id: str, revision: int) -> Result:
    row = st.get("game_revisions", tenant_id, game_id, revision)
    return [] if row is None else [{"ui": loads(row.definition).get("ui")}]


@statement("play.prizes")
def prizes(st: Statement, tenant_id: str, prize_ids: list[str]) -> Result:
    rows = [st.get("prizes", tenant_id, prize_id) for prize_id in dict.fromkeys(prize_ids)]
    names = "prize_id name type value max_per_user max_per_day redemption_mode channel expires_after_days status"
    return st.unordered([of(row, names) for row in rows if row is not None])


@statement("play.refresh")
async def refresh(
    st: Statement,
    tenant_id: str,
    game_id: str,
    player_ids: list[str],
    prize_ids: list[str],
    new_ids: list[str],
    campaign_id: str,
    scope_key: str,
    day: date,
) -> Result:
    tenant = st.get("tenants", tenant_id)
    row = {
        "now": st.seconds(),
        "catalog_version": tenant.catalog_version if tenant is not None else None,
        "players": st.unordered(
            [
                _player(st, tenant_id, game_id, player_id, prize_ids, campaign_id, scope_key, day)
                for player_id in player_ids
            ]
        )
        or None,
        "prizes": st.unordered([_prize(st, tenant_id, prize_id, day) for prize_id in prize_ids]) or None,
    }
    # Nothing reads from `made`: it is done when the rest has been read.
    for player_id in new_ids:
        await st.insert_unless(
            "players", tenant_id=tenant_id, player_id=player_id, auth_method=first_known_as(player_id)
        )
    return [row]


def first_known_as(player_id: str) -> str:
    return "guest" if player_id.startswith("guest_") and len(player_id) == 32 else "external"


def _player(
    st: Statement,
    tenant_id: str,
    game_id: str,
    player_id: str,
    prize_ids: list[str],
    campaign_id: str,
    scope_key: str,
    day: date,
) -> list[Any]:
    player = st.get("players", tenant_id, player_id)
    count = st.get("game_players", tenant_id, game_id, player_id)
    turns = st.get("turn_balances", tenant_id, player_id, campaign_id)
    had = [st.get("prize_players", tenant_id, prize_id, player_id) for prize_id in dict.fromkeys(prize_ids)]
    balances = st.find("balances", tenant_id=tenant_id, player_id=player_id, scope_key=scope_key)
    grants = st.find("milestone_grants", tenant_id=tenant_id, player_id=player_id, game_id=game_id)
    return [
        player_id,
        count.plays if count else 0,
        count.day_plays if count and count.day >= day else 0,
        count.day > day if count else None,
        turns.balance if turns else 0,
        player is not None and player.status == "suspended",
        {row.prize_id: row.awarded for row in had if row is not None} or None,
        {row.currency: row.balance for row in balances} or None,
        {row.milestone_id: unix(row.granted_at) for row in grants} or None,
        player.auth_method == "guest" if player else None,
        player.merged_into if player else None,
        count.busy_until if count else 0,
    ]


def _prize(st: Statement, tenant_id: str, prize_id: str, day: date) -> list[Any]:
    stock = st.get("stock", tenant_id, prize_id)
    counted = st.get("prize_days", tenant_id, prize_id, day)
    free = len(free_codes(st, tenant_id, prize_id))
    return [
        prize_id,
        stock.remaining if stock and stock.total > 0 else None,
        counted.awarded if counted else 0,
        min(free, 1000),
    ]


@statement("play.set_back")
async def set_back(
    st: Statement, tenant_id: str, game_id: str, player_ids: list[str], day: date, day_ends: int
) -> Result:
    tenant = st.get("tenants", tenant_id)
    if tenant is not None:
        changed = st.writer(tenant)
        others = [other.xmin for other in st.store.running if other is not st.tx]
        if any(0 < xmin <= changed for xmin in others):
            return 0
    rows = [st.get("game_players", tenant_id, game_id, player_id) for player_id in dict.fromkeys(player_ids)]

    def ahead(row: Any) -> bool:
        return row is not None and row.day > day and st.seconds() < day_ends

    ahead_rows = st.unordered([row for row in rows if ahead(row)])
    return len(await st.update(ahead_rows, {"day": day}, ahead))


_FOUND = "play_id game_id player_id seed"


@statement("play.find")
def find(
    st: Statement, tenant_id: str, play_ids: list[str], player_ids: list[str], keys: list[str], game_id: str
) -> Result:
    rows = [st.get("plays", tenant_id, play_id) for play_id in dict.fromkeys(play_ids)]
    for player_id, key in zip(player_ids, keys, strict=True):
        own = {"tenant_id": tenant_id, "player_id": player_id, "game_id": game_id}
        rows += st.find("plays", **own, idempotency_key=key) if key is not None else []
    found = [
        of(row, _FOUND, outcome=loads(row.outcome), idempotency_key=row.idempotency_key, request_hash=row.request_hash)
        for row in rows
        if row is not None
    ]
    return st.unordered(found)


@statement("play.find_redeems")
def find_redeems(st: Statement, tenant_id: str, player_ids: list[str], keys: list[str], game_id: str) -> Result:
    found = []
    for player_id, key in zip(player_ids, keys, strict=True):
        own = {"tenant_id": tenant_id, "player_id": player_id, "game_id": game_id}
        rows = st.find("milestone_grants", **own, idempotency_key=key) if key is not None else []
        found += [of(row, "player_id idempotency_key request_hash", reply=loads(row.reply)) for row in rows]
    return st.unordered(found)


def _promised(st: Statement, tenant_id: str, play: Any) -> list[Any]:
    """The terms that a play was promised by: by the first half of their hash, as the session's token says it."""
    parts = play.session_id.split(".")
    found = re.match("[0-9a-f]{32}", parts[2]) if len(parts) > 2 else None
    if found is None:
        return [None]
    kept = st.find("promised_terms", tenant_id=tenant_id, game_id=play.game_id)
    return [row for row in kept if found[0] <= row.revision_hash <= found[0] + "g"] or [None]


@statement("play.history")
def history(st: Statement, tenant_id: str, game_id: str, player_id: str, before: str | None, limit: int) -> Result:
    plays = st.find("plays", tenant_id=tenant_id, game_id=game_id, player_id=player_id)
    found = [
        of(
            play,
            "play_id game_id session_id revision seed client_seed",
            outcome=loads(play.outcome),
            played_at=unix(play.played_at),
            revision_hash=kept.revision_hash if kept else "",
        )
        for play in newest(plays, "play_id", before, limit)
        for kept in _promised(st, tenant_id, play)
    ]
    return found[:limit]


@statement("play.known_game")
def known_game(st: Statement, tenant_id: str, game_id: str) -> Result:
    return [{"?column?": 1}] if is_shown(st, st.get("games", tenant_id, game_id)) else []


@statement("play.play")
def play(st: Statement, tenant_id: str, play_id: str, merchant_id: str) -> Result:
    row = st.get("plays", tenant_id, play_id)
    if row is None or not _may(st, tenant_id, merchant_id, row.game_id, False):
        return []
    return [
        of(
            row,
            "play_id game_id player_id session_id revision seed client_seed",
            payload=loads(row.payload),
            outcome=loads(row.outcome),
            played_at=unix(row.played_at),
            revision_hash=kept.revision_hash if kept else "",
            terms=kept.terms if kept else None,
        )
        for kept in _promised(st, tenant_id, row)
    ]
