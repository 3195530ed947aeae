"""Quest events: player actions outside the service, reported by the tenant's systems in signed calls.

A quest with a condition of kind `event` has a secret. It is generated when the quest starts to accept events, and shown
only in that reply. Calls are authenticated by signature (Standard Webhooks, over the raw body). The admin edge asks
Core to verify it first (VerifyQuestEvent), so that the secret stays in Core. Each quest has a different secret, so a
call cannot be replayed to another quest.

An event counts once, by its id (a unique row), from the time of its first report. A guest's events move to the player
that it becomes; an erased player's events are deleted.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, suspended, unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.players.lookup import MEET, PLAYER, named_player
from runtime.operations.quests.completion import ATTEMPTS
from runtime.operations.quests.periods import check_open
from runtime.operations.quests.quest_admin import GET, quest_from_row
from runtime.operations.row import DESIGNERS, SIGNED, Command, Operation
from runtime.operations.signed import signers
from runtime.outgoing.signing import SignatureRefused, make_secret
from runtime.outgoing.vault import quest_context, vault_of
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("quest_events")


async def rotate_quest_secret(engine: Engine, request: m.RotateQuestSecretRequest) -> m.QuestReply:
    """Creates a new secret for the quest's events, shown only in this reply. The previous secret stays valid until
    `end_previous` ends it, or until the next rotation.

    FAILED_PRECONDITION ILLEGAL_TRANSITION if the quest does not accept events.
    """
    tenant_id, secret = tenant_of(request), "" if request.end_previous else make_secret()

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        locked = await connection.fetchrow(_SQL["lock"], tenant_id, request.id)
        before = await reading.for_update(connection, GET, request, "quest", request.id)
        assert locked is not None, "the quest exists"
        context = quest_context(tenant_id, request.id)
        signing = vault_of(engine.keyring.code).rotated(locked["signing"], secret, context)
        row = await connection.fetchrow(_SQL["rotate"], tenant_id, request.id, signing)
        if row is None:
            message = f"quest {request.id} does not accept events: its condition has another kind"
            raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", message)
        after = {**dict(row), "overlap": "previous_secret" in signing}
        await audit.record(connection, tenant_id, "quest.rotate", request.id, before=dict(before), after=after)
        return row

    return m.QuestReply(quest=quest_from_row(await engine.database.transaction(work), secret))


async def verify_quest_event(engine: Engine, request: m.VerifyCallbackRequest) -> m.VerifyCallbackReply:
    """Whether a secret of the quest signed this call, within the tolerance of the database's time.

    An unknown quest, and one without events, get the same answer as a wrong signature.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(_SQL["receiver"], tenant_id, request.id)
    try:
        signers(engine, request, row["signing"] if row else {}, quest_context(tenant_id, request.id))
    except SignatureRefused:
        return m.VerifyCallbackReply(verified=False)
    return m.VerifyCallbackReply(verified=True)


async def report_quest_event(engine: Engine, request: m.ReportQuestEventRequest) -> m.QuestEventReply:
    """Counts an external event of a player, once. Reporting the same event again returns the first reply.

    The player is given by `player_id`, or by the e-mail address or phone number of the login. NOT_FOUND UNKNOWN_PLAYER
    for an unknown contact, in a merchant's campaign also for a player who has not taken part in this merchant's
    campaigns, or for an unknown id in this service's format; any other unknown id creates the player.
    INVALID_ARGUMENT IDEMPOTENCY_MISMATCH if the event was reported for another player. FAILED_PRECONDITION QUEST_CLOSED
    (not active, outside its dates, campaign not open).
    """
    checks = Checks()
    checks.required("event_id", request.event_id)
    checks.raise_found()
    tenant_id = tenant_of(request)
    player_id = await named_player(engine, tenant_id, request)
    for _ in range(ATTEMPTS):
        row = await engine.database.fetchrow(_SQL["for_event"], tenant_id, request.id, player_id, request.event_id)
        if row is None:
            raise unknown("quest", request.id)
        if row["merged_into"] is not None:
            # The guest has logged in: count the event for the player.
            player_id = row["merged_into"]
            continue
        if row["reported_at"]:
            return _first_reply(request, row, player_id)
        if row["player_status"] is None and player_id.startswith(PLAYER):
            raise unknown("player", player_id)
        if row["merchant_suspended"] or row["player_status"] == "suspended":
            raise suspended("merchant" if row["merchant_suspended"] else "player")
        _check_takes(engine, request.id, row)
        if row["player_status"] is None:
            # Create the player of an external identity, as any other first action does.
            await engine.database.fetchval(MEET, tenant_id, player_id)
            continue
        reported_at = await engine.database.fetchval(_SQL["record"], tenant_id, request.id, player_id, request.event_id)
        if reported_at is not None:
            return _reply(request, reported_at)
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the quest is changing; try again", retry_after_seconds=1)


def _first_reply(request: m.ReportQuestEventRequest, row: Any, player_id: str) -> m.QuestEventReply:
    """The first reply to the event. IDEMPOTENCY_MISMATCH if it was reported for another player."""
    if row["reported_for"] != player_id:
        message = f"event {request.event_id!r} was already reported for another player"
        raise Fault(Status.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH", message, http_status=422)
    return _reply(request, row["reported_at"])


def _check_takes(engine: Engine, quest_id: str, row: asyncpg.Record) -> None:
    if row["status"] != "active":
        raise Fault(Status.FAILED_PRECONDITION, "QUEST_CLOSED", f"quest {quest_id} is closed: it is {row['status']}")
    check_open(quest_id, row, engine.clock.now())


def _reply(request: m.ReportQuestEventRequest, reported_at: int) -> m.QuestEventReply:
    return m.QuestEventReply(quest_id=request.id, event_id=request.event_id, reported_at=reported_at)


# -- rows ------------------------------------------------------------------------------------

TELL_EVENT: Final = Operation(
    "ReportQuestEvent",
    "POST /quests/{id}/events",
    run=report_quest_event,
    admin=SIGNED,
    refusals=("IDEMPOTENCY_MISMATCH", "QUEST_CLOSED", "UNKNOWN_PLAYER", "UNKNOWN_QUEST"),
    example={"event_id": "newsletter-4711", "player_id": "customer-81"},
)
VERIFY_EVENT: Final = Operation(
    "VerifyQuestEvent",
    "POST /quests/{id}/events/verify",
    run=verify_quest_event,
    while_suspended=True,
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
            "Create a new secret for a quest's events and print it once; the previous one stays valid.",
            help={
                "quest": "The quest's id.",
                "end_previous": "Create no secret; instead, end the previous one.",
            },
            outcome="{id} {name}\n{secret}",
        ),
    ),
    TELL_EVENT,
    VERIFY_EVENT,
)
