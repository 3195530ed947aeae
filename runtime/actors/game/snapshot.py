"""Loads a game's snapshot: its rules, prizes and campaign at one version of the catalogue."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import sql
from runtime.actors.game.releases import load_schedule
from runtime.actors.game.state import GameSnapshot, PrizeTerms, RungTerms
from runtime.actors.game.terms import hash_terms, write_terms
from runtime.actors.rewards import content
from runtime.errors import unknown
from runtime.outgoing.channels import CHANNELS
from runtime.rules import GameRule, Rules, compose
from runtime.rules.entry import EntryTerms
from runtime.settings import Key
from runtime.stores.clock import Days
from runtime.stores.database import Database

QUERIES: Final = sql.load("play")


async def load_game(database: Database, tenant_id: str, game_id: str, keys: Sequence[Key]) -> GameSnapshot:
    """Loads the game. If it can be started, stores its terms as well. NOT_FOUND UNKNOWN_GAME. keys: SERVER_KEYS."""
    row = await database.fetchrow(QUERIES["snapshot"], tenant_id, game_id)
    if row is None:
        raise unknown("game", game_id)
    definition: dict[str, Any] = row["definition"]
    rules, game = read_rules(definition)
    milestones = definition.get("milestones") or {}
    rungs = tuple(
        RungTerms(rung["id"], rung.get("name", ""), rung["currency"], int(rung["threshold"]), rung["prize_id"])
        for rung in milestones.get("rungs", ())
    )
    drawn = {prize_id for _, prize_id in rules.reward_handler.prizes(rules.config)}
    if game.fallback_prize_id:
        drawn.add(game.fallback_prize_id)
    redeemed = {rung.prize_id for rung in rungs}
    prizes = await load_prizes(database, tenant_id, drawn | redeemed, redeemed, keys)
    limits = definition.get("rules") or {}
    terms = write_terms(game_id, definition, [prizes[prize_id] for prize_id in sorted(drawn & prizes.keys())])
    revision_hash, version = hash_terms(terms), row["catalog_version"]
    if revision_hash not in row["kept"] and row["status"] == row["campaign_status"] == "active":
        # Store the terms before any start names their hash: a hash without a readable document promises nothing.
        await database.execute(QUERIES["insert_terms"], tenant_id, revision_hash, game_id, terms, version)
    return GameSnapshot(
        tenant_id=tenant_id,
        game_id=game_id,
        version=version,
        revision=row["revision"],
        revision_hash=revision_hash,
        shows_plan=definition["seed_generator"] != "none",
        status=row["status"],
        access=definition.get("access") or "player",
        campaign_id=row["campaign_id"],
        merchant_id=row["merchant_id"],
        suspended=row["suspended"],
        campaign_status=row["campaign_status"],
        start_date=row["start_date"],
        end_date=row["end_date"],
        redeem_until=row["redeem_until"],
        days=Days(row["timezone"]),
        rules=rules,
        game=game,
        max_plays_per_user=limits.get("max_plays_per_user", 0),
        max_plays_per_day=limits.get("max_plays_per_day", 0),
        requires_turn=limits.get("requires_turn", False),
        admits_guests=limits.get("admits_guests", False),
        verify_timing=limits.get("verify_timing", False),
        scope_key=scope_key_of(definition, tenant_id, row["merchant_id"], row["campaign_id"]),
        spends=milestones.get("mode") == "spend_exchange",
        auto_grant=bool(milestones.get("auto_grant")) and milestones.get("mode") != "spend_exchange",
        rungs=rungs,
        prizes=prizes,
        played=row["played"],
        entry=EntryTerms.of(row["entry_needs"], row["entry_countries"]),
        opens_at=definition.get("start_date", 0),
        closes_at=definition.get("end_date", 0),
    )


async def load_prizes(
    database: Database,
    tenant_id: str,
    prize_ids: set[str],
    redeemed: Collection[str] = (),
    keys: Sequence[Key] = (),
) -> dict[str, PrizeTerms]:
    """The prizes by id; missing ones are left out.

    redeemed: prizes that include their content. keys: SERVER_KEYS; without them no prize has its release schedule.
    """
    if not prize_ids:
        return {}
    rows = await database.fetch(QUERIES["prizes"], tenant_id, sorted(prize_ids), list(redeemed))
    prizes = {row["prize_id"]: _prize_terms(row) for row in rows}
    for row in rows if keys else ():
        if (release := row["release"]) is not None:
            await asyncio.sleep(0)  # Other requests get a turn: many schedules take a second.
            prize = prizes[row["prize_id"]]
            prize.release = load_schedule(keys, tenant_id, prize.prize_id, release)
            prize.release_hash = release["commitment"]
    return prizes


def read_rules(definition: Mapping[str, Any]) -> tuple[Rules, GameRule]:
    """The rules of a stored definition, and the settings that a decision needs alongside them."""
    rules = compose(
        definition["seed_generator"],
        definition["reward_handler"],
        definition["validator"],
        definition.get("handler_config") or {},
    )
    return rules, GameRule(
        definition.get("on_unavailable") or "lose", definition.get("fallback_prize_id") or "", segments_of(definition)
    )


def segments_of(definition: Mapping[str, Any]) -> tuple[str | None, ...] | None:
    """The prize_id of each entry of ui.wheel.segments; None if the opaque ui has no such list."""
    wheel = (definition.get("ui") or {}).get("wheel")
    segments = wheel.get("segments") if isinstance(wheel, dict) else None
    if not isinstance(segments, list) or not segments:
        return None
    named = (segment.get("prize_id") if isinstance(segment, dict) else None for segment in segments)
    return tuple(prize_id if prize_id and isinstance(prize_id, str) else None for prize_id in named)


def scope_key_of(definition: Mapping[str, Any], tenant_id: str, merchant_id: str, campaign_id: str) -> str:
    """The wallet scope's key. With merchant scope, a campaign without a merchant has a scope of its own."""
    match definition.get("wallet_scope"):
        case "tenant":
            return tenant_id
        case "merchant":
            return merchant_id or campaign_id
        case _:
            return campaign_id


def _prize_terms(row: Any) -> PrizeTerms:
    channel = CHANNELS.get(row["channel"])
    return PrizeTerms(
        prize_id=row["prize_id"],
        name=row["name"],
        type=row["type"],
        value=row["value"],
        max_per_user=row["max_per_user"],
        max_per_day=row["max_per_day"],
        redemption_mode=row["redemption_mode"],
        channel=row["channel"],
        instant=channel is not None and channel.instant,
        expires_after_days=row["expires_after_days"],
        active=row["status"] == "active",
        content=None if row["content"] is None else content(row["content"]),
    )
