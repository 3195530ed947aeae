"""Past plays: a player's own, and the replay that proves one (design.md, section 3, Draws)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.snapshot import read_rules
from runtime.errors import invalid, unknown
from runtime.rules import ReplayMismatch, replay, seed_hash
from runtime.stores import paging

QUERIES: Final = sql.load("play")


async def list_history(engine: Engine, request: m.ListHistoryRequest) -> m.ListHistoryReply:
    """The player's plays of a game, newest first. NOT_FOUND UNKNOWN_GAME."""
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = request.scope.tenant_id if request.scope else ""
    query = ("history", tenant_id, request.id, request.player_id)
    page = paging.read(request.cursor, request.limit, query=query)
    rows = await engine.database.fetch(
        QUERIES["history"], tenant_id, request.id, request.player_id, page.after_id, page.fetch
    )
    if not rows and await engine.database.fetchval(QUERIES["known_game"], tenant_id, request.id) is None:
        raise unknown("game", request.id)
    rows, pagination = paging.write(rows, page.limit, key=lambda row: row["play_id"], query=query)
    return m.ListHistoryReply(items=[_record(row) for row in rows], pagination=pagination)


async def replay_play(engine: Engine, request: m.ReplayPlayRequest) -> m.ReplayPlayReply:
    """Decides a play again from its own revision, seed and payload, and says whether the outcome is the same."""
    tenant_id = request.scope.tenant_id if request.scope else ""
    row = await engine.database.fetchrow(QUERIES["play"], tenant_id, request.id)
    if row is None:
        raise unknown("play", request.id)
    definition = await engine.database.fetchval(QUERIES["revision"], tenant_id, row["game_id"], row["revision"])
    rules, game = read_rules(definition)
    plan = rules.seed_generator.plan(rules.config, row["seed"])
    decided = row["outcome"]["decided"]
    try:
        again = replay(
            rules.reward_handler,
            rules.config,
            game,
            row["seed"],
            row["client_seed"],
            row["payload"],
            plan,
            decided["path"],
        )
    except ReplayMismatch as mismatch:
        replayed: dict[str, Any] = {"mismatch": str(mismatch)}
        matches = False
    else:
        encoded = msgspec.json.encode(again)
        replayed, matches = msgspec.json.decode(encoded), encoded == msgspec.json.encode(decided)
    return m.ReplayPlayReply(
        play=_record(row), player_id=row["player_id"], payload=row["payload"], replayed=replayed, matches=matches
    )


def _record(row: Any) -> m.PlayRecord:
    outcome, seed = row["outcome"], row["seed"]
    return m.PlayRecord(
        id=row["play_id"],
        game_id=row["game_id"],
        session_id=row["session_id"],
        rewards=[m.WonReward(**reward) for reward in outcome["rewards"]],
        metadata=outcome["decided"]["metadata"],
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        client_seed=row["client_seed"],
        revision=row["revision"],
        played_at=row["played_at"],
    )
