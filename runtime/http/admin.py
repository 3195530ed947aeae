"""The admin edge: what staff and their dashboards ask (spec.md, "Admin edge").

The rows say who may ask. Every management role opens every route of its own tenant; with
ROLE_MATRIX=strict the writes are narrowed to the roles that `Admin.writers` names: a designer makes what
is played (campaigns, games, prizes, quests, boards), a reward_manager moves what is won (codes, rewards,
tasks, balances, standings), an admin does all; what only reads is open to all three. `markdown` shows it.
What is changed is logged under the subject of the token (`trace.actor`), and so are sign-ins, and refusals for want
of a role (runtime/http/login/staff.py).

A game's and a campaign's answers carry its revision as their ETag, and `If-Match` on its update is the body's
`revision` by another name (RFC 9110, 13.1.1): a stale one is ABORTED STALE_REVISION.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec
from aiohttp import web

from runtime import messages as m
from runtime import trace
from runtime.actors.idempotency import staff_request_hash
from runtime.errors import Fault, invalid
from runtime.http import codes
from runtime.http.admission.control import Allowed
from runtime.http.admission.idempotency import REPLAYED, Asked, Replay, idempotency_key, replay_headers
from runtime.http.admission.local_rates import LocalRate
from runtime.http.admission.rates import Policy
from runtime.http.auth.identity import OF_STAFF, Identity, require_roles, token_missing
from runtime.http.edge import Edge, body_of, reader
from runtime.http.envelope import Handler, extra_headers, ok
from runtime.http.feeds import exports, live
from runtime.http.login.api_tokens import Marks, check_made
from runtime.http.login.staff import IDENTITY, OF_ROLES, Desk
from runtime.http.views import edge_view
from runtime.operations import API, BY_NAME, OPERATIONS, Operation
from runtime.operations.approvals import review as approvals
from runtime.operations.reporting.exports import EXPORTS
from runtime.operations.row import MANAGEMENT, PLATFORM, REWARD_MANAGERS, STAFF, STAFF_OR_PLATFORM, Admin, TokenUse
from runtime.wire.codec import View
from runtime.wire.schema import Kind, fields_of

PREFIX: Final = f"{API}/admin"
ME: Final = f"{PREFIX}/me"
LOG_OUT: Final = f"{PREFIX}/auth/logout"
EXPORT: Final = f"{PREFIX}/exports/{{name}}"

LIVE: Final = f"{PREFIX}/live"

OWN: Final = {"ExportRows": STAFF, "WatchLive": STAFF}
"""What the edge serves beside the table that GET /admin/me names too, and to whom."""

CODE_SEARCHES: Final = Policy("code-search", per_second=0.2, burst=20)
"""Of one of staff, at an edge process: each tells whether a code that somebody won was guessed."""

_encode: Final = msgspec.json.Encoder().encode


def mount(app: web.Application, edge: Edge) -> None:
    """Adds every route that a row gives to the roles. What is signed instead is `runtime.http.callback`'s."""
    desk = Desk(edge)

    def add(verb: str, path: str, admin: Admin, handler: Handler) -> None:
        app.router.add_route(verb, path, _guarded(edge, desk, f"{verb} {path.removeprefix(API)}", admin, handler))

    for operation, admin in served():
        handler = codes.import_handler(operation, edge.caller, partial(_scope, edge)) if operation.streamed else None
        handler = handler or _handler(edge, operation)
        add(operation.verb, PREFIX + operation.path, admin, handler)
    # A name that is none is no route.
    named = EXPORT.replace("{name}", f"{{name:{'|'.join(EXPORTS)}}}")
    add("GET", named, OWN["ExportRows"], exports.handler(edge, partial(_scope, edge)))
    watched = live.Live(edge, partial(_scope, edge))
    app.on_shutdown.append(watched.close)
    add("GET", LIVE, OWN["WatchLive"], watched.answer)
    add("GET", ME, STAFF_OR_PLATFORM, _me_handler(edge))
    add("POST", LOG_OUT, STAFF_OR_PLATFORM, desk.log_out)


def served() -> list[tuple[Operation, Admin]]:
    """The operations that the edge serves to roles, in the table's order."""
    rows = ((operation, operation.admin) for operation in OPERATIONS)
    return [(operation, admin) for operation, admin in rows if admin is not None and not admin.signed]


def _guarded(edge: Edge, desk: Desk, route: str, admin: Admin, handler: Handler) -> Handler:
    """`handler` for those alone who may. TOKEN_MISSING for nobody, ROLE_REQUIRED for the others."""
    roles, headers = admin.roles(edge.settings.role_matrix), edge.auth.header_fallback

    async def answer(request: web.Request) -> web.StreamResponse:
        identity = await edge.auth.identify(request)
        if identity is None:
            raise token_missing(OF_STAFF, headers=headers)
        trace.actor.set(identity.subject)
        await desk.signed_in(request, identity)
        try:
            request[IDENTITY] = require_roles(identity, roles, headers=headers)
            await edge.checked_scope(request, identity)
            return await handler(request)
        except Fault as fault:
            if fault.reason in OF_ROLES:
                await desk.refused(request, identity, route, fault)
            raise

    return answer


def _handler(edge: Edge, operation: Operation) -> Handler:
    read, show = reader(operation), edge_view(operation)
    matched = revised(operation.request) if operation.verb == "PUT" else ""
    tagged = revised(operation.reply)
    keyed = operation.keyed
    decides = "may_decide" in fields_of(operation.request)
    reveals = "reveal" in fields_of(operation.request)
    whole = REWARD_MANAGERS.roles(edge.settings.role_matrix)
    marks = Marks(edge.settings.jwt_staff_secrets)
    searches = LocalRate(CODE_SEARCHES) if operation.finds_codes else None

    async def answer(request: web.Request) -> web.Response:
        identity = request[IDENTITY]
        message = read(request, await body_of(request, operation))
        if matched:
            hold_to_match(getattr(message, matched), request.headers.getall("If-Match", ()))
        if operation.tokens is TokenUse.MAKES:
            check_made(identity, message)
        # The platform sees every tenant: without a scope a list of tenants is not narrowed to one.
        everywhere = operation.verb == "GET" and not operation.scoped and PLATFORM in identity.roles
        message.scope = None if everywhere else _scope(edge, request)
        if decides:
            message.may_decide = [name for name in _may(identity, edge.settings.role_matrix) if name in approvals.KINDS]
        if reveals:
            message.reveal = bool(identity.roles & whole)
        if searches is not None and message.code and edge.settings.rate_limits:
            limited = searches.take(f"{identity.tenant_id} {identity.subject}")
            if limited is not None:
                extra_headers(request).update(limited.headers)
                raise limited.fault()
        if keyed and (key := idempotency_key(request)):
            message.idempotency_key = key
            if not operation.confides:
                return await _once(edge, operation, show, message, request, tagged)
        reply = await edge.caller.call(operation, message)
        if operation.tokens is TokenUse.MAKES:
            reply.token.secret = marks.marked(reply.token.secret)
        if operation.tokens is TokenUse.ENDS:
            # On this edge it holds at once; what was done is done, if Core cannot say so now.
            with suppress(Fault):
                await edge.revocations.read()
        return ok(show(reply), headers={**_tag(reply, tagged), **replay_headers()})

    return answer


def _me_handler(edge: Edge) -> Handler:
    """Who asks, and what they may do: what a dashboard shows and hides by. The edge's own; Core knows nobody."""
    matrix = edge.settings.role_matrix

    async def answer(request: web.Request) -> web.Response:
        identity = request[IDENTITY]
        data = {
            "subject": identity.subject,
            "tenant_id": identity.tenant_id,
            "tenant_name": await _tenant_name(edge, identity.tenant_id),
            "merchant_id": identity.merchant_id,
            "roles": sorted(identity.roles),
            "expires_at": identity.expires_at,
            "operations": _may(identity, matrix),
            "consumer_url": edge.settings.consumer_base_url.rstrip("/"),
            "default_tenant": edge.settings.default_tenant,
        }
        return ok(data, headers={"Cache-Control": "no-store"})

    return answer


async def _tenant_name(edge: Edge, tenant_id: str) -> str:
    """What the tenant is called; "" where Core cannot say now: who asks is known all the same."""
    asked = m.ListTenantsRequest(scope=m.Scope(tenant_id=tenant_id), limit=1)
    with suppress(Fault):
        if tenant_id:
            return next((one.name for one in (await edge.caller.call(BY_NAME["ListTenants"], asked)).items), "")
    return ""


def _may(identity: Identity, role_matrix: str) -> list[str]:
    """What somebody's roles open, by the operations' names; to a merchant's staff not what is the tenant's alone."""
    known = [
        (operation.name, admin) for operation, admin in served() if not (identity.merchant_id and operation.tenant_wide)
    ]
    known += OWN.items()
    return [name for name, admin in known if identity.roles & admin.roles(role_matrix)]


_PERSONAL: Final = (m.RankingReply, m.TaskReply)
"""Answers with a player's name, and with what a delivery failed by."""


async def _once(
    edge: Edge, operation: Operation, show: View, message: Any, request: web.Request, tagged: str
) -> web.Response:
    """Core's answer to who asks, under an Idempotency-Key. Core keeps the key; the store only answers faster.

    But for a bulk's that was not all done: a retry asks Core again, which tries the rest, and answers what was done
    as done. Of what may be about a person, which an erasure must reach, or has an ETag, the store keeps only that there
    is an answer; of what confides nothing, not even what was asked: a secret could be guessed from its hash.
    """
    asked = Asked(f"{request.method} {request.path}", message.idempotency_key, staff_request_hash(message))
    # A merchant's id has no space: nobody's subject reads like another merchant's.
    owner = f"staff {message.scope.merchant_id} {request[IDENTITY].subject}"
    admission = await edge.admission.admit(message.scope.tenant_id, owner=owner, asked=asked)
    kept_by_core = bool(tagged) or operation.reply in _PERSONAL
    if isinstance(admission, Replay) and not kept_by_core:
        return ok(admission.answer, headers=REPLAYED)
    if not isinstance(admission, Allowed | Replay):
        raise admission.fault()
    try:
        reply = await edge.caller.call(operation, message)
        headers = {**_tag(reply, tagged), **replay_headers()}
        data = _encode(show(reply))
    except BaseException:
        if isinstance(admission, Allowed):
            edge.admission.settle(admission, None)
        raise
    if isinstance(admission, Allowed):
        undone = isinstance(reply, m.BulkRewardsReply) and not all(one.ok for one in reply.results)
        edge.admission.settle(admission, None if undone else b"" if kept_by_core else data)
    return ok(data, headers=headers)


def _tag(reply: Any, tagged: str) -> dict[str, str]:
    """The ETag of a reply; nothing where it has no revision."""
    return {"ETag": f'"{getattr(reply, tagged).revision}"'} if tagged else {}


def _scope(edge: Edge, request: web.Request) -> m.Scope:
    return edge.scope(request, request[IDENTITY])


_BESIDE: Final = frozenset({"scope", "id", "update_mask", "warnings", "shift_days"})


def revised(message: Any) -> str:
    """The one field of a request or reply that wraps a resource with revisions; "" where it wraps none."""
    rows = [row for row in fields_of(message).values() if row.name not in _BESIDE]
    wraps = len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated
    return rows[0].name if wraps and "revision" in fields_of(rows[0].type) else ""


def hold_to_match(resource: m.Game | m.Campaign, sent: Sequence[str]) -> None:
    """Sets the revision that the update must find from If-Match; `*` is any. `sent`: the header's values.

    INVALID_ARGUMENT for what is no ETag of ours (a list, or a weak one, which never matches), and
    where the body's `revision` is another: passing either by would overwrite what its sender has not seen.
    """
    if not sent or sent == ["*"]:
        return
    tag = _ETAG.fullmatch(sent[0].strip()) if len(sent) == 1 else None
    if tag is None:
        raise invalid("If-Match", 'must be the one ETag that it was read with, such as "3"')
    revision = int(tag[1])
    if resource.revision and resource.revision != revision:
        raise invalid("revision", f"differs from {revision}, which If-Match names")
    resource.revision = revision


ETAG_CHARACTERS_MAX: Final = 11
_ETAG: Final = re.compile(r'"([1-9]\d{0,8})"', re.ASCII)


def markdown() -> str:
    """The strict matrix as the table of docs/reference/roles.md: what each set of roles may write, and all read."""
    written: dict[frozenset[str], list[str]] = {}
    reads: list[str] = []
    for operation, admin in served():
        if admin.writers == MANAGEMENT:
            reads.append(f"`{operation.path}`")
        else:
            written.setdefault(admin.writers, []).append(f"`{operation.verb} {operation.path}`")
    lines = [f"| {', '.join(sorted(roles))} | {', '.join(paths)} |" for roles, paths in written.items()]
    lines.append(f"| {', '.join(sorted(MANAGEMENT))} | reading: {', '.join(reads)} |")
    return "\n".join(["| Roles | Routes under /admin |", "|---|---|", *lines]) + "\n"
