"""The callback of workflows: POST /fulfillment/tasks/{id}/callback, outside the role gate.

It is signed over its raw body, as Standard Webhooks has it, with the secret of the prize's fulfillment
config. A signature says nothing of the URL, so the URL that the workflow was sent carries a token of its
task alone, and a signed message's id moves one task of the tenant. The secret stays in Core, which is asked
whether both are right (VerifyCallback). Whatever does not verify, an unknown task included, is one answer:
SIGNATURE_INVALID.
"""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.http.bodies import decode_json, read_body
from runtime.http.envelope import Handler, ok
from runtime.operations import API
from runtime.operations.fulfillment import COMPLETE_TASK, VERIFY_CALLBACK, not_signed
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


def mount(app: web.Application, caller: Caller, *, default_tenant: str = "") -> None:
    """Adds the callback's route to the admin edge."""
    app.router.add_post(API + COMPLETE_TASK.path, callback_handler(caller, default_tenant=default_tenant))


def callback_handler(caller: Caller, *, default_tenant: str = "") -> Handler:
    """The handler. The tenant and the token are the query's, which the callback URL carries."""
    decoder = msgspec.json.Decoder(_Told)
    show = view(m.TaskReply, "number")

    async def answer(request: web.Request) -> web.StreamResponse:
        if (request.content_length or 0) > BODY_BYTES_MAX:
            raise not_signed()  # As whatever does not verify: it is not read for that.
        body = await read_body(request, BODY_BYTES_MAX)
        tenant_id = request.query.get("tenant_id") or request.headers.get("X-Tenant-Id") or default_tenant
        scope = m.Scope(tenant_id=tenant_id)
        task_id = request.match_info["id"]
        callback_id = await _verified(caller, request, scope, task_id, body)
        told = decode_json(decoder, body)
        message = m.CompleteTaskRequest(
            scope=scope,
            id=task_id,
            status=told.status,
            external_id=told.external_id,
            error=told.error,
            callback_id=callback_id,
        )
        check(message)
        reply = await caller.call(COMPLETE_TASK, message)
        return ok(show(reply)["task"])

    return answer


async def _verified(caller: Caller, request: web.Request, scope: m.Scope, task_id: str, body: bytes) -> str:
    """The callback's id. UNAUTHENTICATED SIGNATURE_INVALID."""
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
    if not all(map(is_storable, (text, scope.tenant_id, task_id, *headers))):
        raise not_signed()
    reply = await caller.call(
        VERIFY_CALLBACK,
        m.VerifyCallbackRequest(
            scope=scope,
            id=task_id,
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
