"""What machines call, outside the role gate, since it is signed: the callback of workflows, and events of quests.

POST /fulfillment/tasks/{id}/callback is signed over its raw body, as Standard Webhooks has it, with the secret of
the prize's fulfillment config. A signature says nothing of the URL, so the URL that the workflow was sent carries a
token of its task alone, and a signed message's id moves one task of the tenant. The secret stays in Core, which is
asked whether both are right (VerifyCallback). Whatever does not verify, an unknown task included, is one answer:
SIGNATURE_INVALID.

POST /quests/{id}/events is the same, with the quest's secret: no other quest has it, so the URL needs no token.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.http.bodies import decode_json, read_body
from runtime.http.envelope import Handler, ok
from runtime.operations import API, Operation
from runtime.operations.fulfillment import COMPLETE_TASK, VERIFY_CALLBACK
from runtime.operations.quests.events import TELL_EVENT, VERIFY_EVENT
from runtime.operations.signed import not_signed
from runtime.outgoing.signing import ID, SERVICE_SIGNATURE, SIGNATURE, TIMESTAMP
from runtime.wire.codec import view
from runtime.wire.schema import check, is_storable

BODY_BYTES_MAX: Final = 8 * 1024
HEADER_CHARACTERS_MAX: Final = 2_000


class _Told(msgspec.Struct, forbid_unknown_fields=True):
    """The callback's body (contract.md, "Admin edge")."""

    status: str
    external_id: str = ""
    error: str = ""


class _Happened(msgspec.Struct, forbid_unknown_fields=True):
    """An event's body; one of the last three says whose it is."""

    event_id: str
    player_id: str = ""
    email: str = ""
    phone: str = ""


def mount(app: web.Application, caller: Caller, *, default_tenant: str = "") -> None:
    """Adds the signed routes to the admin edge."""
    app.router.add_post(API + COMPLETE_TASK.path, callback_handler(caller, default_tenant=default_tenant))
    app.router.add_post(API + TELL_EVENT.path, event_handler(caller, default_tenant=default_tenant))


def callback_handler(caller: Caller, *, default_tenant: str = "") -> Handler:
    """The handler. The tenant and the token are the query's, which the callback URL carries."""
    decoder = msgspec.json.Decoder(_Told)
    show = view(m.TaskReply, "number")

    async def answer(request: web.Request) -> web.StreamResponse:
        signed = await _read(caller, VERIFY_CALLBACK, request, default_tenant)
        told = decode_json(decoder, signed.body)
        message = m.CompleteTaskRequest(
            scope=signed.scope,
            id=signed.subject_id,
            status=told.status,
            external_id=told.external_id,
            error=told.error,
            callback_id=signed.message_id,
        )
        check(message)
        reply = await caller.call(COMPLETE_TASK, message)
        return ok(show(reply)["task"])

    return answer


def event_handler(caller: Caller, *, default_tenant: str = "") -> Handler:
    """The handler of a quest's events. The tenant is the query's."""
    decoder = msgspec.json.Decoder(_Happened)
    show = view(m.QuestEventReply, "number")

    async def answer(request: web.Request) -> web.StreamResponse:
        signed = await _read(caller, VERIFY_EVENT, request, default_tenant)
        told = msgspec.structs.asdict(decode_json(decoder, signed.body))
        message = m.TellQuestEventRequest(scope=signed.scope, id=signed.subject_id, **told)
        check(message)
        return ok(show(await caller.call(TELL_EVENT, message)))

    return answer


class _Signed(NamedTuple):
    """A message whose signature verifies, about what its path names."""

    scope: m.Scope
    subject_id: str
    message_id: str
    body: bytes


async def _read(caller: Caller, verify: Operation, request: web.Request, default_tenant: str) -> _Signed:
    """The request, as far as `verify` believes it. UNAUTHENTICATED SIGNATURE_INVALID."""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise not_signed()  # As whatever does not verify: it is not read for that.
    # A signature says whose it is: libraries name a text so, whatever is in it.
    body = await read_body(request, BODY_BYTES_MAX, "text/plain")
    tenant_id = request.query.get("tenant_id") or request.headers.get("X-Tenant-Id") or default_tenant
    scope, subject_id = m.Scope(tenant_id=tenant_id), request.match_info["id"]
    return _Signed(scope, subject_id, await _verified(caller, verify, request, scope, subject_id, body), body)


async def _verified(
    caller: Caller, verify: Operation, request: web.Request, scope: m.Scope, subject_id: str, body: bytes
) -> str:
    """The message's id. UNAUTHENTICATED SIGNATURE_INVALID."""
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
