"""Plays: the operations of the play path (runtime/actors/game), a player's history, and the replay of a play."""

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
from runtime.operations.prizes import release
from runtime.operations.rewards.reward_queries import add_code
from runtime.operations.row import STAFF, Access, Consumer, Operation, RoutePolicy, SessionUse
from runtime.rules import Outcome, ReplayMismatch, replay, seed_hash
from runtime.wire.scope import merchant_of, tenant_of
from runtime.wire.shape import Shape

QUERIES: Final = sql.load("play")
ERASED: Final = sql.load("erasure")["is_erased"]


async def list_history(engine: Engine, request: m.ListHistoryRequest) -> m.ListHistoryReply:
    """The player's plays of a game, by the start of their session, newest first. NOT_FOUND UNKNOWN_GAME."""
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (tenant_id, request.id, request.player_id)
    rows, pagination = await reading.page(engine, QUERIES["history"], request, *filters, key="play_id", replica=True)
    if not rows and await engine.database.fetchval(QUERIES["game_exists"], tenant_id, request.id) is None:
        raise unknown("game", request.id)
    return m.ListHistoryReply(items=[play_record(row) for row in rows], pagination=pagination)


async def get_revision(engine: Engine, request: m.GetRevisionRequest) -> m.RevisionReply:
    """The terms that decide a game's plays, by the `revision_hash` that a start promised.

    `terms` is a text; the SHA-256 of its exact UTF-8 bytes is that hash. Terms are never deleted. The consumer edge
    serves them only if SHOW_ODDS is on. NOT_FOUND UNKNOWN_REVISION.
    """
    row = await reading.one(engine, QUERIES["terms"], request, "revision")
    promised = msgspec.json.decode(row["terms"]).get("releases") or {}
    openings = await release.openings(engine, tenant_of(request), promised.values())
    return m.RevisionReply(revision=m.Revision(**{**row, "terms": row["terms"].decode()}, openings=openings))


async def replay_play(engine: Engine, request: m.ReplayPlayRequest) -> m.ReplayPlayReply:
    """Replays a play from its seed, its payload and the terms that its start promised.

    `matches` is true if the outcome is the same and the rewards are those of the terms. Later changes of the game do
    not matter.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(QUERIES["play"], tenant_id, request.id, merchant_of(request))
    if row is None:
        raise unknown("play", request.id)
    play, terms = play_record(row), row["terms"]
    reply = m.ReplayPlayReply(play=play, player_id=row["player_id"], payload=row["payload"])
    if terms is None:
        reply.replayed = {"mismatch": "the terms of its session are not stored"}
        return reply
    ui = await engine.database.fetchval(QUERIES["ui"], tenant_id, play.game_id, play.revision)
    reply.terms, reply.commitment = terms.decode(), commitment_of(play.seed_hash, play.revision_hash, play.session_id)
    try:
        replayed = _replayed(row, {**msgspec.json.decode(terms), "ui": ui})
    except (ReplayMismatch, Fault) as mismatch:  # A Fault: a plugin's rule was removed, or rejects these terms.
        erased = await engine.database.fetchval(ERASED, tenant_id, row["player_id"], play.played_at)
        reply.replayed = {"mismatch": "the data of the play was erased" if erased else str(mismatch)}
        return reply
    encoded = msgspec.json.encode(replayed)
    reply.replayed = msgspec.json.decode(encoded)
    reply.matches = (
        encoded == msgspec.json.encode(row["outcome"]["decided"])
        and _decided_units(replayed) == _rewarded_units(play.rewards)
        and promises(msgspec.json.decode(terms), play.rewards)
    )
    return reply


def _replayed(row: Any, terms: dict[str, Any]) -> Outcome:
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


def _decided_units(outcome: Outcome) -> Counter[tuple[str, str]]:
    """The quantity of each (prize, item) in the decision."""
    counted: Counter[tuple[str, str]] = Counter()
    for award in outcome.awards:
        counted[award.prize_id, ""] += award.quantity
    for credit in outcome.credits:
        counted["", credit.item] += credit.quantity
    return counted


def _rewarded_units(rewards: Iterable[m.WonReward]) -> Counter[tuple[str, str]]:
    """The quantity of each (prize, item) in the reply to the player."""
    counted: Counter[tuple[str, str]] = Counter()
    for reward in rewards:
        counted[reward.prize_id, "" if reward.prize_id else reward.name] += reward.quantity
    return counted


def play_record(row: Any) -> m.PlayRecord:
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
    """The prizes that were unavailable to the decision, in the order of its checks."""
    refused: dict[str, None] = {}
    for step in path:
        match step:
            case ["available", prize_id, _, False]:
                refused[prize_id] = None
    return list(refused)


# -- rows ------------------------------------------------------------------------------------

PLAYING: Final = ("GAME_INACTIVE", "CAMPAIGN_CLOSED", "CAP_USER", "CAP_DAY", "NO_TURNS", "LOGIN_REQUIRED")
ENTERING: Final = ("ENTRY_REQUIRED", "NOT_ELIGIBLE")
"""Reasons why the game, or this player, cannot play now."""


ROWS: Final = (
    Operation(
        "Start",
        "POST /games/{id}/start",
        actor=GameActors,
        about=(
            "Opens a session of the game. A public game needs no token: a guest is created, and `guest_token` "
            "identifies the guest later. Games that drop items return a `drop_plan`; another start returns the same "
            "plan until it is played. `commitment` binds the seed, the game's terms (`revision_hash`; see "
            "GET /revisions/{id}) and this session: it is the SHA-256 of `seed_hash:revision_hash:session_id`."
        ),
        consumer=Consumer(Access.EITHER, RoutePolicy.RATED),
        session=SessionUse.OPENS,
        refusals=(*PLAYING, *ENTERING, "PLAYER_MERGED", "UNKNOWN_TENANT"),
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
            "Plays a session, once, and returns the rewards. `payload` is `{}` for a wheel or a scratch card, "
            "`{score, duration_ms}` for an egg catcher, `{caught_items}` for a gift catcher. With `seed` and "
            "`client_seed` anyone can verify the draw against the `seed_hash` of the start. With `next` the reply "
            "also has a session for the next play, unless a start would be refused."
        ),
        consumer=Consumer(Access.EITHER, RoutePolicy.RATED),
        session=SessionUse.PLAYS,
        refusals=(
            *PLAYING,
            *ENTERING,
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
            "Whether the player may play now, and how often; -1 is unlimited. `reason` says why not. A closed game is "
            "NOT_STARTED (with `starts_at`), PAUSED or ENDED. SOLD_OUT means that nothing can be won, but the game "
            "can still be played. ENTRY_REQUIRED and NOT_ELIGIBLE are about the campaign's entry form."
        ),
        consumer=Consumer(Access.EITHER),
        refusals=("UNKNOWN_TENANT",),
    ),
    Operation("ListHistory", "GET /games/{id}/history/me", run=list_history, consumer=Consumer(Access.PLAYER)),
    Operation("ReplayPlay", "POST /plays/{id}/replay", run=replay_play, admin=STAFF, while_suspended=True, example={}),
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
        about="The game's rungs, and the player's progress.",
        consumer=Consumer(Access.PLAYER),
    ),
    Operation(
        "Redeem",
        "POST /games/{id}/redeem",
        actor=GameActors,
        about=(
            "Claims a rung that the player has reached, or exchanges balance for it. Once per player and rung, until "
            "the campaign's end or its `redeem_until`, if that is later. A voucher that is delivered at once comes "
            "with its code."
        ),
        rest=add_code,
        confidential=True,
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        refusals=(
            *ENTERING,
            "ALREADY_GRANTED",
            "THRESHOLD_NOT_REACHED",
            "OUT_OF_STOCK",
            "NOT_RELEASED",
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
