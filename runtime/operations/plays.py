"""Plays: the rows of the play path (runtime/actors/game), a player's past plays, and the replay that proves one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.committer import OVERLAP
from runtime.actors.engine import Engine
from runtime.actors.game import batch
from runtime.actors.game.actor import GameActor
from runtime.actors.game.snapshot import read_rules
from runtime.errors import invalid, unknown
from runtime.operations import reading, samples
from runtime.operations.row import STAFF, Access, ActorKind, Consumer, Operation, RoutePolicy, SessionUse
from runtime.rules import ReplayMismatch, replay, seed_hash
from runtime.wire.scope import merchant_of, tenant_of
from runtime.wire.shape import Shape

QUERIES: Final = sql.load("play")


async def list_history(engine: Engine, request: m.ListHistoryRequest) -> m.ListHistoryReply:
    """The player's plays of a game, newest first. NOT_FOUND UNKNOWN_GAME."""
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (tenant_id, request.id, request.player_id)
    rows, pagination = await reading.page(engine, QUERIES["history"], request, *filters, key="play_id")
    if not rows and await engine.database.fetchval(QUERIES["known_game"], tenant_id, request.id) is None:
        raise unknown("game", request.id)
    return m.ListHistoryReply(items=[_record(row) for row in rows], pagination=pagination)


async def replay_play(engine: Engine, request: m.ReplayPlayRequest) -> m.ReplayPlayReply:
    """Decides a play again from its own revision, seed and payload, and says whether the outcome is the same."""
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(QUERIES["play"], tenant_id, request.id, merchant_of(request))
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


# -- rows ------------------------------------------------------------------------------------

GAMES: Final = ActorKind(
    "games",
    key=lambda request: (request.scope.tenant_id, request.id),
    new=GameActor,
    process_batch=batch.process_batch,
    overlap=OVERLAP,
    futile=lambda actor: actor.snapshot is None,
)
"""A game's actor: its starts, plays and redeems, and what is asked of them."""

PLAYING: Final = ("GAME_INACTIVE", "CAMPAIGN_CLOSED", "CAP_USER", "CAP_DAY", "NO_TURNS", "LOGIN_REQUIRED")
"""Why nobody, or not this player, may play now."""


ROWS: Final = (
    Operation(
        "Start",
        "POST /games/{id}/start",
        actor=GAMES,
        about=(
            "Opens a session of the game. On a public game nobody needs a token: a guest is made, and "
            "`guest_token` makes the guest known later on. `drop_plan` is there for games that drop things; starting "
            "again shows the same one until it is played. `commitment` binds the draw's seed, what decides "
            "(`revision_hash`) and this session: it is the SHA-256 of `seed_hash:revision_hash:session_id`."
        ),
        consumer=Consumer(Access.EITHER, RoutePolicy.RATED),
        session=SessionUse.OPENS,
        refusals=(*PLAYING, "PLAYER_MERGED", "UNKNOWN_TENANT"),
        example={},
        shape=Shape(
            without=frozenset({"guest_player_id"}), optional=frozenset({"drop_plan"}), added=frozenset({"guest_token"})
        ),
    ),
    Operation(
        "Play",
        "POST /games/{id}/play",
        actor=GAMES,
        about=(
            "Plays a session, once, and answers what was won. `payload` is `{}` for a wheel or a scratch "
            "card, `{score, duration_ms}` for an egg catcher, `{caught_items}` for a gift catcher. `seed` "
            "with `client_seed` lets anyone check the draw against the `seed_hash` of the start. With `next` the "
            "answer has the session of a next play, where a start would not be refused."
        ),
        consumer=Consumer(Access.EITHER, RoutePolicy.RATED),
        session=SessionUse.PLAYS,
        refusals=(
            *PLAYING,
            "SESSION_INVALID",
            "SESSION_EXPIRED",
            "SESSION_PLAYED",
            "GAME_CHANGED",
            "NOT_IN_PLAN",
            "IMPLAUSIBLE_SCORE",
            "UNKNOWN_TENANT",
        ),
        example={"session_id": samples.SESSION, "payload": {}, "client_seed": "clover"},
        shape=Shape(optional=frozenset({"next"}), inner={"next": Shape(optional=frozenset({"drop_plan"}))}),
    ),
    Operation(
        "GetEligibility",
        "GET /games/{id}/eligibility",
        actor=GAMES,
        about="Whether the player may play now, and how often: -1 is without limit.",
        consumer=Consumer(Access.EITHER),
        refusals=("UNKNOWN_TENANT",),
    ),
    Operation("ListHistory", "GET /games/{id}/history/me", run=list_history, consumer=Consumer(Access.PLAYER)),
    Operation("ReplayPlay", "POST /plays/{id}/replay", run=replay_play, admin=STAFF, unsuspended=True, example={}),
    Operation(
        "ListMilestones",
        "GET /games/{id}/milestones",
        actor=GAMES,
        about="The game's rungs, and how far the player is.",
        consumer=Consumer(Access.PLAYER),
    ),
    Operation(
        "Redeem",
        "POST /games/{id}/redeem",
        actor=GAMES,
        about="Claims a rung that is reached, or exchanges balance for it. Once per player and rung.",
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=(
            "ALREADY_GRANTED",
            "THRESHOLD_NOT_REACHED",
            "OUT_OF_STOCK",
            "GAME_INACTIVE",
            "CAMPAIGN_CLOSED",
            "LOGIN_REQUIRED",
            "UNKNOWN_MILESTONE",
            "UNKNOWN_TENANT",
        ),
        example={"milestone_id": samples.MILESTONE},
    ),
)
