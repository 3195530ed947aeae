"""Routes authenticated by a signature instead of a role: the callbacks of workflows, quest events and
receipts.

POST /fulfillment/tasks/{id}/callback is signed over its raw body (Standard Webhooks) with the secret in the prize's
fulfillment config. The signature does not cover the URL, so the callback URL carries a token for this task alone, and
each message id completes at most one task of the tenant. Core keeps the secret and verifies both (VerifyCallback). Any
failure, an unknown task included, gives the same response: SIGNATURE_INVALID.

POST /quests/{id}/events uses the quest's secret, and POST /packs/{id}/receipts the pack's. No other quest or pack has
it, so their URLs need no token.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.http.bodies import decode_json, read_body
from runtime.http.envelope import Handler, ok
from runtime.http.views import edge_view
from runtime.operations import API, Operation
from runtime.operations.fulfillment import COMPLETE_TASK, VERIFY_CALLBACK
from runtime.operations.packs import REPORT_RECEIPT, VERIFY_RECEIPT
from runtime.operations.quests.events import TELL_EVENT, VERIFY_EVENT
from runtime.operations.signed import not_signed
from runtime.outgoing.signing import ID, SERVICE_SIGNATURE, SIGNATURE, TIMESTAMP
from runtime.wire.codec import view
from runtime.wire.schema import check, is_storable

BODY_BYTES_MAX: Final = 8 * 1024
HEADER_CHARACTERS_MAX: Final = 2_000


class _CallbackBody(msgspec.Struct, forbid_unknown_fields=True):
    """The callback's body."""

    status: str
    external_id: str = ""
    error: str = ""


class _EventBody(msgspec.Struct, forbid_unknown_fields=True):
    """An event's body; one of the last three fields names the player."""

    event_id: str
    player_id: str = ""
    email: str = ""
    phone: str = ""


class _ReceiptBody(msgspec.Struct, forbid_unknown_fields=True):
    """A receipt's body; one of the last three fields names the player."""

    receipt_id: str
    player_id: str = ""
    email: str = ""
    phone: str = ""


def mount(app: web.Application, caller: Caller, *, default_tenant: str = "") -> None:
    """Adds the signed routes to the admin edge."""
    app.router.add_post(API + COMPLETE_TASK.path, callback_handler(caller, default_tenant=default_tenant))
    for verify, report, body in (
        (VERIFY_EVENT, TELL_EVENT, _EventBody),
        (VERIFY_RECEIPT, REPORT_RECEIPT, _ReceiptBody),
    ):
        handler = report_handler(caller, verify, report, body, default_tenant=default_tenant)
        app.router.add_post(API + report.path, handler)


def callback_handler(caller: Caller, *, default_tenant: str = "") -> Handler:
    """The handler of callbacks. The callback URL carries the tenant and the token in its query."""
    decoder = msgspec.json.Decoder(_CallbackBody)
    show = view(m.TaskReply, "number")

    async def answer(request: web.Request) -> web.StreamResponse:
        signed = await _read(caller, VERIFY_CALLBACK, request, default_tenant)
        body_fields = decode_json(decoder, signed.body)
        message = m.CompleteTaskRequest(
            scope=signed.scope,
            id=signed.subject_id,
            status=body_fields.status,
            external_id=body_fields.external_id,
            error=body_fields.error,
            callback_id=signed.message_id,
        )
        check(message)
        reply = await caller.call(COMPLETE_TASK, message)
        return ok(show(reply)["task"])

    return answer


def report_handler(
    caller: Caller, verify: Operation, report: Operation, body: type[msgspec.Struct], *, default_tenant: str = ""
) -> Handler:
    """The handler of a quest's events or a pack's receipts. The tenant is the query's."""
    decoder = msgspec.json.Decoder(body)
    show = edge_view(report)

    async def answer(request: web.Request) -> web.StreamResponse:
        signed = await _read(caller, verify, request, default_tenant)
        body_fields = msgspec.structs.asdict(decode_json(decoder, signed.body))
        message = report.request(scope=signed.scope, id=signed.subject_id, **body_fields)
        check(message)
        return ok(show(await caller.call(report, message)))

    return answer


class _Signed(NamedTuple):
    """A verified message about the resource in the path."""

    scope: m.Scope
    subject_id: str
    message_id: str
    body: bytes


async def _read(caller: Caller, verify: Operation, request: web.Request, default_tenant: str) -> _Signed:
    """Reads the request and verifies its signature. UNAUTHENTICATED SIGNATURE_INVALID."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise not_signed()  # The same response as an invalid signature, without reading the body.
    # text/plain is accepted: some libraries send a string body with that type. The signature authenticates it.
    body = await read_body(request, BODY_BYTES_MAX, "text/plain")
    tenant_id = request.query.get("tenant_id") or request.headers.get("X-Tenant-Id") or default_tenant
    scope, subject_id = m.Scope(tenant_id=tenant_id), request.match_info["id"]
    return _Signed(scope, subject_id, await _verified(caller, verify, request, scope, subject_id, body), body)


async def _verified(
    caller: Caller, verify: Operation, request: web.Request, scope: m.Scope, subject_id: str, body: bytes
) -> str:
    """Verifies the signature and returns the message id. UNAUTHENTICATED SIGNATURE_INVALID."""
    webhook_id, timestamp = request.headers.get(ID, ""), request.headers.get(TIMESTAMP, "")
    signature = request.headers.get(SIGNATURE) or request.headers.get(SERVICE_SIGNATURE) or ""
    token = request.query.get("token", "")
    headers = (webhook_id, timestamp, signature, token)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise not_signed() from None
    if not scope.tenant_id or any(len(one) > HEADER_CHARACTERS_MAX for one in headers):
        raise not_signed()
    if not all(map(is_storable, (text, scope.tenant_id, subject_id, *headers))):
        raise not_signed()
    reply = await caller.call(
        verify,
        m.VerifyCallbackRequest(
            scope=scope,
            id=subject_id,
            webhook_id=webhook_id,
            webhook_timestamp=timestamp,
            webhook_signature=signature,
            body=text,
            token=token,
        ),
    )
    if not reply.verified:
        raise not_signed()
    return webhook_id
