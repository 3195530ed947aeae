"""Events of quests: what players did elsewhere, told by the tenant's own systems in signed calls.

A quest whose condition is of kind `event` has a secret, made when it begins to take events and told in that answer
alone. A call is believed by its signature (Standard Webhooks, over the raw body), so the admin edge asks Core first
whether it verifies (VerifyQuestEvent): the secret stays here. Each quest has a secret of its own, so a call to one is
none to another.

An event counts once, by its id: the unique row makes it so. It counts from when it was first told, and for the player
alone: a guest's are the player's that it becomes, and an erased player's are gone.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, suspended, unknown, violations
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.players.lookup import MEET, OWNER
from runtime.operations.quests.completion import ATTEMPTS
from runtime.operations.quests.periods import check_open
from runtime.operations.quests.quest_admin import GET, quest_from_row
from runtime.operations.row import DESIGNERS, SIGNED, Command, Operation
from runtime.operations.signed import signers
from runtime.outgoing.signing import SignatureRefused, make_secret
from runtime.outgoing.vault import quest_context, vault_of
from runtime.wire import contacts
from runtime.wire.enums import token
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("quest_events")

PLAYER: Final = "player_"
"""How ids begin that players get here: of others' making they are not."""


async def rotate_quest_secret(engine: Engine, request: m.RotateQuestSecretRequest) -> m.QuestReply:
    """Makes a new secret for who tells the quest's events, answered with it this once; the one before is believed, too,
    until `end_previous` ends it, or the next rotation.

    FAILED_PRECONDITION ILLEGAL_TRANSITION where the quest takes no events.
    """
    tenant_id, secret = tenant_of(request), "" if request.end_previous else make_secret()

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        held = await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.to_write(connection, GET, request, "quest", request.id)
        assert held is not None, "it was found while it is held"
        context = quest_context(tenant_id, request.id)
        signing = vault_of(engine.keyring.code).rotated(held["signing"], secret, context)
        row = await connection.fetchrow(_SQL["rotate"], tenant_id, request.id, signing)
        if row is None:
            message = f"quest {request.id} takes no events: its condition is another"
            raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message)
        after = {**dict(row), "overlap": "previous_secret" in signing}
        await audit.record(connection, tenant_id, "quest.rotate", request.id, before=dict(before), after=after)
        return row

    return m.QuestReply(quest=quest_from_row(await engine.database.transaction(work), secret))


async def verify_quest_event(engine: Engine, request: m.VerifyCallbackRequest) -> m.VerifyCallbackReply:
    """Whether a secret of the quest signed this call, within the tolerance of the database's time.

    An unknown quest, and one that takes no events, verify nothing, and answer no differently.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["receiver"], tenant_id, request.id)
    try:
        signers(engine, request, row["signing"] if row else {}, quest_context(tenant_id, request.id))
    except SignatureRefused:
        return m.VerifyCallbackReply(verified=False)
    return m.VerifyCallbackReply(verified=True)


async def tell_quest_event(engine: Engine, request: m.TellQuestEventRequest) -> m.QuestEventReply:
    """Counts what a player did elsewhere, once; the same event told again is answered as the first time.

    The player is named by `player_id`, or by the contact that the service signs the player in with. NOT_FOUND
    UNKNOWN_PLAYER for a contact that is nobody's, or an id that this service would have made and did not; any other
    id is of a player who was not here yet. INVALID_ARGUMENT IDEMPOTENCY_MISMATCH for an event that was told of another
    player; FAILED_PRECONDITION QUEST_CLOSED (not active, out of its dates, its campaign not open).
    """
    checks = Checks()
    checks.required("event_id", request.event_id)
    checks.raise_found()
    tenant_id = tenant_of(request)
    player_id = await _player(engine, tenant_id, request)
    for _ in range(ATTEMPTS):
        row = await engine.database.fetchrow(_SQL["for_event"], tenant_id, request.id, player_id, request.event_id)
        if row is None:
            raise unknown("quest", request.id)
        if row["merged_into"] is not None:
            # A guest that has logged in: what it did is the player's.
            player_id = row["merged_into"]
            continue
        if row["told_at"]:
            return _first_told(request, row, player_id)
        if row["player_status"] is None and player_id.startswith(PLAYER):
            raise unknown("player", player_id)
        if row["merchant_suspended"] or row["player_status"] == "suspended":
            raise suspended("merchant" if row["merchant_suspended"] else "player")
        _check_takes(engine, request.id, row)
        if row["player_status"] is None:
            # A player of an outside identity is made, as by whatever else such a player does first.
            await engine.database.fetchval(MEET, tenant_id, player_id)
            continue
        told_at = await engine.database.fetchval(_SQL["note"], tenant_id, request.id, player_id, request.event_id)
        if told_at is not None:
            return _reply(request, told_at)
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the quest is changing; try again", retry_after_seconds=1)


async def _player(engine: Engine, tenant_id: str, request: m.TellQuestEventRequest) -> str:
    """Who is meant."""
    named = [name for name in ("player_id", "email", "phone") if getattr(request, name)]
    if len(named) != 1:
        raise violations([("player_id", "name the player by one of player_id, email and phone")])
    if named == ["player_id"]:
        return request.player_id
    type, value = m.ContactType[named[0].upper()], getattr(request, named[0])
    owner = (token(type), contacts.normalized(type, value, field=named[0]))
    player_id: str | None = await engine.database.fetchval(OWNER, tenant_id, *owner)
    if player_id is None:
        raise Fault(Status.NOT_FOUND, "UNKNOWN_PLAYER", f"there is no player of this {named[0]}")
    return player_id


def _first_told(request: m.TellQuestEventRequest, row: Any, player_id: str) -> m.QuestEventReply:
    """What was answered when the event was first told. IDEMPOTENCY_MISMATCH where that was of another player."""
    if row["told_of"] != player_id:
        message = f"event {request.event_id!r} was told of another player"
        raise Fault(Status.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH", message, http_status=422)
    return _reply(request, row["told_at"])


def _check_takes(engine: Engine, quest_id: str, row: asyncpg.Record) -> None:
    """QUEST_CLOSED, saying why."""
    if row["status"] != "active":
        raise Fault(Status.FAILED_PRECONDITION, "QUEST_CLOSED", f"quest {quest_id} is closed: it is {row['status']}")
    check_open(quest_id, row, engine.clock.now())


def _reply(request: m.TellQuestEventRequest, told_at: int) -> m.QuestEventReply:
    return m.QuestEventReply(quest_id=request.id, event_id=request.event_id, told_at=told_at)


# -- rows ------------------------------------------------------------------------------------

TELL_EVENT: Final = Operation(
    "TellQuestEvent",
    "POST /quests/{id}/events",
    run=tell_quest_event,
    admin=SIGNED,
    refusals=("IDEMPOTENCY_MISMATCH", "QUEST_CLOSED", "UNKNOWN_PLAYER", "UNKNOWN_QUEST"),
    example={"event_id": "newsletter-4711", "player_id": "customer-81"},
)
VERIFY_EVENT: Final = Operation(
    "VerifyQuestEvent",
    "POST /quests/{id}/events/verify",
    run=verify_quest_event,
    unsuspended=True,
    example={
        "webhook_id": "msg_1",
        "webhook_timestamp": "1767225600",
        "webhook_signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
        "body": '{"event_id": "newsletter-4711", "player_id": "customer-81"}',
    },
)

ROWS: Final = (
    Operation(
        "RotateQuestSecret",
        "POST /quests/{id}/rotate-secret",
        run=rotate_quest_secret,
        admin=DESIGNERS,
        refusals=("ILLEGAL_TRANSITION",),
        example={},
        command=Command(
            "quests rotate-secret QUEST --end-previous",
            "Make a new secret for the quest's events, and print it, this once; the one before is believed, too.",
            help={
                "quest": "Its id.",
                "end_previous": "Make none, and end the one before: the newest alone is believed.",
            },
            says="{secret:believed}",
        ),
    ),
    TELL_EVENT,
    VERIFY_EVENT,
)
