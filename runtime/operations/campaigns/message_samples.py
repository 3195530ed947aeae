"""Previews of a campaign's messages, sample mails, and the messages that players got."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.mailing import address_of, composed, stop_hashes, unsubscribe_tokens
from runtime.actors.tenant_sender import sender_of
from runtime.errors import Fault, Status, unknown
from runtime.operations import audit, reading, samples
from runtime.operations.campaigns import messages
from runtime.operations.checks import Checks, provided
from runtime.operations.players.challenges import Rate, charge_all
from runtime.operations.row import ADMINS, DESIGNERS, STAFF, Command, Operation
from runtime.operations.signed import not_signed
from runtime.outgoing.senders import SendFailed
from runtime.outgoing.vault import VaultError
from runtime.rules import mail
from runtime.wire.contacts import masked, normalized
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("messages")
_GET: Final = sql.load("campaigns")["get"]
_SENDER: Final = sql.load("tenancy")["sender"]
_KNOWN: Final = sql.load("desk")["is_known"]

SAMPLES: Final = Rate("message-sample", 30, 10)
"""Sample mails of one tenant: ten at once, then two a minute."""

EXPIRES_SECONDS: Final = 3 * 86_400


async def preview_message(engine: Engine, request: m.PreviewMessageRequest) -> m.PreviewMessageReply:
    """Renders a message with sample values, and sends it to `to`, if that is set. The audit log records sent ones.

    Only the tenant's own staff can send one: the text is free, and the mail comes from the tenant's address.

    UNAVAILABLE SENDER_UNAVAILABLE if no mail server is set up or it fails; RESOURCE_EXHAUSTED RATE_LIMITED.
    """
    tenant_id, template = tenant_of(request), provided(request.template, "template")
    campaign = await reading.for_update(engine.database, _GET, request, "campaign", request.id)
    checks = Checks()
    messages.fill_defaults(m.CampaignMessages(templates=[template]))
    messages.check_template(checks, "template", template)
    if request.to and merchant_of(request):
        checks.problem("to", "can only be set by the tenant's own staff: samples come from the tenant's address")
    checks.raise_found()
    made = mail.rendered(
        token(template.kind),
        messages.stored_template(template),
        await _sample_values(engine, tenant_id, campaign),
        language=request.language or request.default_language,
        default=request.default_language,
    )
    try:
        sender = sender_of(engine.settings, tenant_id, await engine.database.fetchval(_SENDER, tenant_id))
    except (VaultError, ValueError) as error:
        raise _unavailable("the tenant's mail server cannot be used; operators: set its smtp_url again") from error
    reply = m.PreviewMessageReply(
        language=made.language,
        subject=made.subject,
        text=made.text,
        html=made.html,
        sender=sender.address if sender is not None else "",
    )
    if not request.to:
        return reply
    address = normalized(m.ContactType.EMAIL, request.to, field="to")
    if sender is None:
        raise _unavailable("no mail server is set up; operators: set SMTP_URL and SMTP_FROM, for Core too")

    async def record(connection: asyncpg.Connection) -> None:
        await charge_all(connection, [(SAMPLES, tenant_id)])
        digest = hashlib.sha256(f"{made.subject}\n{made.text}".encode()).hexdigest()
        after = {"kind": token(template.kind), "to": masked(address), "text_sha256": digest}
        await audit.record(connection, tenant_id, "campaign.send_sample", request.id, after=after)

    await engine.database.transaction(record)
    try:
        await sender.send_mail(composed(sender, ids.make("sample"), address, made))
    except SendFailed as error:
        raise _unavailable(f"the mail could not be sent: {error}") from error
    reply.sent_to = masked(address)
    return reply


async def _sample_values(engine: Engine, tenant_id: str, campaign: Any) -> dict[str, str]:
    prize = await engine.database.fetchval(_SQL["sample_prize"], tenant_id, campaign["id"])
    address = address_of(engine.settings, next(iter(campaign["hosts"]), ""))
    expires_at = int(engine.clock.now()) + EXPIRES_SECONDS
    return {
        "player_name": "Ada",
        "campaign": campaign["name"],
        "claim_url": f"{address}/c/{campaign['id']}?tenant_id={tenant_id}",
        "prize": prize or "Mug",
        "expires_at": mail.local_time(expires_at, campaign["timezone"]),
        "code": "SAMPLE-1234",
        "draw": "Prize draw",
    }


def _unavailable(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "SENDER_UNAVAILABLE", message, retry_after_seconds=5)


async def list_messages(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListMessagesReply:
    """Lists the e-mails to the player, newest first, with those that were not sent, and why."""
    tenant_id = tenant_of(request)
    if not await engine.database.fetchval(_KNOWN, tenant_id, request.id):
        raise unknown("player", request.id)
    filters = (tenant_id, request.id, request.campaign_id, "", merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["of_player"], request, *filters)
    return m.ListMessagesReply(items=[from_row(row) for row in rows], pagination=pagination)


def from_row(row: Any) -> m.PlayerMessage:
    status = enum(m.IntegrationDeliveryStatus, row["status"])
    return m.PlayerMessage(**{**row, "kind": enum(m.MessageKind, row["kind"]), "status": status})


async def unsubscribe(engine: Engine, request: m.UnsubscribeRequest) -> m.UnsubscribeReply:
    """Ends a kind of message to a player, for the link in such a message. UNAUTHENTICATED SIGNATURE_INVALID."""
    tenant_id, kind = tenant_of(request), token(request.kind)
    checks = Checks()
    checks.required("player_id", request.player_id)
    checks.required("token", request.token)
    if not kind:
        checks.problem("kind", "is required")
    checks.raise_found()
    valid = unsubscribe_tokens(engine.keyring.code, tenant_id, request.player_id, kind)
    if not any(hmac.compare_digest(one.encode(), request.token.encode()) for one in valid):
        raise not_signed()
    await engine.database.execute(_SQL["unsubscribe"], tenant_id, request.player_id, kind)
    return m.UnsubscribeReply()


async def unsubscribe_address(engine: Engine, request: m.UnsubscribeAddressRequest) -> m.UnsubscribeAddressReply:
    """Ends a kind of message, or all, to an address, for every player; `resume` sends them again."""
    tenant_id = tenant_of(request)
    address = normalized(m.ContactType.EMAIL, request.address, field="address")
    hashes = stop_hashes(engine.keyring.code, tenant_id, address)
    kinds = [token(request.kind)] if request.kind else sorted(mail.PLACEHOLDERS)

    async def work(connection: asyncpg.Connection) -> list[Any]:
        if request.resume:
            await connection.execute(_SQL["resume"], tenant_id, hashes, kinds)
        else:
            await connection.execute(_SQL["stop"], tenant_id, hashes[0], kinds)
        action = "message.resume" if request.resume else "message.stop"
        await audit.record(connection, tenant_id, action, masked(address), after={"kinds": kinds})
        return await connection.fetch(_SQL["stopped"], tenant_id, hashes)

    rows = await engine.database.transaction(work)
    stopped = [enum(m.MessageKind, row["kind"]) for row in rows]
    return m.UnsubscribeAddressReply(address=masked(address), kinds=stopped)


UNSUBSCRIBE: Final = Operation(
    "Unsubscribe",
    "POST /messages/unsubscribe",
    run=unsubscribe,
    while_suspended=True,
    refusals=("SIGNATURE_INVALID",),
    example={"player_id": samples.PLAYER, "kind": "MESSAGE_KIND_REMINDER", "token": "0" * 32},
)

ROWS: Final = (
    UNSUBSCRIBE,
    Operation(
        "PreviewMessage",
        "POST /campaigns/{id}/messages/preview",
        run=preview_message,
        admin=DESIGNERS,
        lengthy=True,
        refusals=("SENDER_UNAVAILABLE", "RATE_LIMITED"),
        example={"template": {"kind": "MESSAGE_KIND_WON", "subject": {"en": "You won {prize}"}}, "language": "en"},
    ),
    Operation(
        "UnsubscribeAddress",
        "POST /messages/stops",
        run=unsubscribe_address,
        admin=ADMINS,
        tenant_wide=True,
        example={"address": "ada@example.com", "kind": "MESSAGE_KIND_REMINDER"},
        command=Command(
            "players unsubscribe ADDRESS --kind --resume",
            "End the campaigns' e-mails to an address, or one kind of them.",
            help={
                "address": "An e-mail address, in any spelling of its mailbox.",
                "kind": "Only this kind: won, code_delivered, reminder, draw_result. Default: every kind.",
                "resume": "Send them again instead.",
            },
        ),
    ),
    Operation("ListPlayerMessages", "GET /players/{id}/messages", run=list_messages, admin=STAFF),
)
