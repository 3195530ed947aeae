"""Plays: the rows of the play path (runtime/actors/game), a player's past plays, and the replay that proves one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.batch import GameActors
from runtime.actors.game.sessions import commitment_of
from runtime.actors.game.snapshot import read_rules
from runtime.actors.game.terms import promises
from runtime.errors import Fault, invalid, unknown
from runtime.operations import reading, samples
from runtime.operations.row import STAFF, Access, Consumer, Operation, RoutePolicy, SessionUse
from runtime.rules import Outcome, ReplayMismatch, replay, seed_hash
from runtime.wire.scope import merchant_of, tenant_of
from runtime.wire.shape import Shape

QUERIES: Final = sql.load("play")
ERASED: Final = sql.load("erasure")["is_erased"]


async def list_history(engine: Engine, request: m.ListHistoryRequest) -> m.ListHistoryReply:
    """The player's plays of a game, newest first. NOT_FOUND UNKNOWN_GAME."""
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (tenant_id, request.id, request.player_id)
    rows, pagination = await reading.page(engine, QUERIES["history"], request, *filters, key="play_id")
    if not rows and await engine.database.fetchval(QUERIES["known_game"], tenant_id, request.id) is None:
        raise unknown("game", request.id)
    return m.ListHistoryReply(items=[play_record(row) for row in rows], pagination=pagination)


async def get_revision(engine: Engine, request: m.GetRevisionRequest) -> m.RevisionReply:
    """All that decides the plays of a game, as a start promised it by its `revision_hash`, which the path names.

    `terms` is a text whose SHA-256 (of its UTF-8 bytes, as they stand) is that hash. It is kept for good. The consumer
    edge shows it where SHOW_ODDS is on; else it is unknown there. NOT_FOUND UNKNOWN_REVISION.
    """
    row = await reading.one(engine, QUERIES["terms"], request, "revision")
    return m.RevisionReply(revision=m.Revision(**{**row, "terms": row["terms"].decode()}))


async def replay_play(engine: Engine, request: m.ReplayPlayRequest) -> m.ReplayPlayReply:
    """Decides a play again from its seed, its payload and the terms that its start promised.

    `matches` where the outcome is the same and what was won is what those terms say; whatever the game is by now.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(QUERIES["play"], tenant_id, request.id, merchant_of(request))
    if row is None:
        raise unknown("play", request.id)
    play, terms = play_record(row), row["terms"]
    reply = m.ReplayPlayReply(play=play, player_id=row["player_id"], payload=row["payload"])
    if terms is None:
        reply.replayed = {"mismatch": "no terms are kept that its session could have been promised by"}
        return reply
    ui = await engine.database.fetchval(QUERIES["looks"], tenant_id, play.game_id, play.revision)
    reply.terms, reply.commitment = terms.decode(), commitment_of(play.seed_hash, play.revision_hash, play.session_id)
    try:
        again = _decided_again(row, {**msgspec.json.decode(terms), "ui": ui})
    except (ReplayMismatch, Fault) as mismatch:  # A Fault: a plugin's rule is gone, or reads these terms no more.
        erased = await engine.database.fetchval(ERASED, tenant_id, row["player_id"], play.played_at)
        reply.replayed = {"mismatch": "what it was played with is erased" if erased else str(mismatch)}
        return reply
    encoded = msgspec.json.encode(again)
    reply.replayed = msgspec.json.decode(encoded)
    reply.matches = (
        encoded == msgspec.json.encode(row["outcome"]["decided"])
        and _counted(again) == _told(play.rewards)
        and promises(msgspec.json.decode(terms), play.rewards)
    )
    return reply


def _decided_again(row: Any, terms: dict[str, Any]) -> Outcome:
    rules, game = read_rules(terms)
    plan = rules.seed_generator.plan(rules.config, row["seed"])
    path = row["outcome"]["decided"]["path"]
    return replay(
        rules.reward_handler,
        rules.config,
        game,
        seed=row["seed"],
        client_seed=row["client_seed"],
        payload=row["payload"],
        plan=plan,
        path=path,
    )


def _counted(outcome: Outcome) -> Counter[tuple[str, str]]:
    """How many of each (prize, item) were decided."""
    counted: Counter[tuple[str, str]] = Counter()
    for award in outcome.awards:
        counted[award.prize_id, ""] += award.quantity
    for credit in outcome.credits:
        counted["", credit.item] += credit.quantity
    return counted


def _told(rewards: Iterable[m.WonReward]) -> Counter[tuple[str, str]]:
    """How many of each (prize, item) the player was told of."""
    told: Counter[tuple[str, str]] = Counter()
    for reward in rewards:
        told[reward.prize_id, "" if reward.prize_id else reward.name] += reward.quantity
    return told


def play_record(row: Any) -> m.PlayRecord:
    """The message of a row of `history`."""
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
        revision_hash=row["revision_hash"],
        unavailable=_unavailable(outcome["decided"]["path"]),
    )


def _unavailable(path: list[Any]) -> list[str]:
    """The prizes that a decision could not have, in the order in which it asked."""
    refused: dict[str, None] = {}
    for step in path:
        match step:
            case ["available", prize_id, _, False]:
                refused[prize_id] = None
    return list(refused)


# -- rows ------------------------------------------------------------------------------------

PLAYING: Final = ("GAME_INACTIVE", "CAMPAIGN_CLOSED", "CAP_USER", "CAP_DAY", "NO_TURNS", "LOGIN_REQUIRED")
"""Why nobody, or not this player, may play now."""


ROWS: Final = (
    Operation(
        "Start",
        "POST /games/{id}/start",
        actor=GameActors,
        about=(
            "Opens a session of the game. On a public game nobody needs a token: a guest is made, and "
            "`guest_token` makes the guest known later on. `drop_plan` is there for games that drop things; starting "
            "again shows the same one until it is played. `commitment` binds the draw's seed, what decides "
            "(`revision_hash`; GET /revisions/{id} has it) and this session: it is the SHA-256 of "
            "`seed_hash:revision_hash:session_id`."
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
        actor=GameActors,
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
            "BALANCE_FULL",
            "UNKNOWN_TENANT",
        ),
        example={"session_id": samples.SESSION, "payload": {}, "client_seed": "clover"},
        shape=Shape(optional=frozenset({"next"}), inner={"next": Shape(optional=frozenset({"drop_plan"}))}),
    ),
    Operation(
        "GetEligibility",
        "GET /games/{id}/eligibility",
        actor=GameActors,
        about=(
            "Whether the player may play now, and how often: -1 is without limit. `reason` says why not: of a closed "
            "game NOT_STARTED (with `starts_at`), PAUSED or ENDED. SOLD_OUT says that nothing is left to be won; it "
            "may be played all the same."
        ),
        consumer=Consumer(Access.EITHER),
        refusals=("UNKNOWN_TENANT",),
    ),
    Operation("ListHistory", "GET /games/{id}/history/me", run=list_history, consumer=Consumer(Access.PLAYER)),
    Operation("ReplayPlay", "POST /plays/{id}/replay", run=replay_play, admin=STAFF, unsuspended=True, example={}),
    Operation(
        "GetRevision",
        "GET /revisions/{id}",
        run=get_revision,
        consumer=Consumer(Access.EITHER, RoutePolicy.CACHED, setting="show_odds"),
        admin=STAFF,
    ),
    Operation(
        "ListMilestones",
        "GET /games/{id}/milestones",
        actor=GameActors,
        about="The game's rungs, and how far the player is.",
        consumer=Consumer(Access.PLAYER),
    ),
    Operation(
        "Redeem",
        "POST /games/{id}/redeem",
        actor=GameActors,
        about=(
            "Claims a rung that is reached, or exchanges balance for it. Once per player and rung, until the campaign "
            "ends, or its `redeem_until` after that."
        ),
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=(
            "ALREADY_GRANTED",
            "THRESHOLD_NOT_REACHED",
            "OUT_OF_STOCK",
            "BALANCE_FULL",
            "CAP_USER",
            "CAP_DAY",
            "GAME_INACTIVE",
            "CAMPAIGN_CLOSED",
            "LOGIN_REQUIRED",
            "UNKNOWN_MILESTONE",
            "UNKNOWN_TENANT",
        ),
        example={"milestone_id": samples.MILESTONE},
    ),
)
