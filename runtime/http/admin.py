"""The admin edge: the API for staff and their dashboards.

The operation rows define the permitted roles. By default every management role may use every route of its own tenant.
With ROLE_MATRIX=strict, `Admin.writers` restricts writes: a designer edits campaigns, games, prizes, quests and
leaderboards; a reward_manager changes codes, rewards, tasks, balances and standings; an admin does both. All three may
read everything. `markdown` renders the matrix. Changes are logged under the token's subject (`trace.actor`), and so are
sign-ins and refusals for a missing role (runtime/http/login/staff.py).

Responses with a game or campaign carry its revision as ETag. `If-Match` on an update is equivalent to `revision` in the
body (RFC 9110, 13.1.1): a stale one is ABORTED STALE_REVISION.
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
from runtime.http.admission.idempotency import REPLAYED, KeyedRequest, Replay, idempotency_key, replay_headers
from runtime.http.admission.local_rates import LocalRate
from runtime.http.admission.rates import Policy
from runtime.http.auth.identity import OF_STAFF, Identity, require_roles, token_missing
from runtime.http.edge import INTERNAL, Edge, body_of, reader
from runtime.http.envelope import Handler, extra_headers, ok
from runtime.http.feeds import exports, live, log_tiles
from runtime.http.login.api_tokens import Marks, check_creation
from runtime.http.login.staff import IDENTITY, OF_ROLES, StaffSessions
from runtime.http.views import edge_view
from runtime.operations import API, BY_NAME, OPERATIONS, Operation
from runtime.operations.approvals import review as approvals
from runtime.operations.row import MANAGEMENT, PLATFORM, REWARD_MANAGERS, STAFF, STAFF_OR_PLATFORM, Admin, TokenUse
from runtime.wire.codec import View
from runtime.wire.schema import Kind, fields_of

PREFIX: Final = f"{API}/admin"
ME: Final = f"{PREFIX}/me"
LOG_OUT: Final = f"{PREFIX}/auth/logout"
EXPORT: Final = f"{PREFIX}/exports/{{name}}"

LIVE: Final = f"{PREFIX}/live"

LOG: Final = f"{PREFIX}/log"

OWN: Final = {"ExportRows": STAFF, "WatchLive": STAFF}
"""The edge's own operations that GET /admin/me lists, with their roles."""

CODE_SEARCHES: Final = Policy("code-search", per_second=0.2, burst=20)
"""The rate limit per staff member: a search by code would let staff guess winners' codes."""

_encode: Final = msgspec.json.Encoder().encode


def mount(app: web.Application, edge: Edge) -> None:
    """Adds every route for staff roles. `runtime.http.callback` serves the signed ones."""
    staff = StaffSessions(edge)

    def add(verb: str, path: str, admin: Admin, handler: Handler) -> None:
        app.router.add_route(verb, path, _guarded(edge, staff, f"{verb} {path.removeprefix(API)}", admin, handler))

    for operation, admin in served():
        if operation.streamed:
            handler = codes.import_handler(operation, edge.caller, partial(_scope, edge), INTERNAL)
        else:
            handler = _handler(edge, operation)
        add(operation.verb, PREFIX + operation.path, admin, handler)
    add("GET", EXPORT, OWN["ExportRows"], exports.handler(edge, partial(_scope, edge)))
    live_feed = live.Live(edge, partial(_scope, edge))
    app.on_shutdown.append(live_feed.close)
    add("GET", LIVE, OWN["WatchLive"], live_feed.answer)
    log_scope = _log_scope(edge)
    add("GET", LOG + log_tiles.CHECKPOINT, STAFF, log_tiles.checkpoint_handler(edge, log_scope, staff=True))
    add("GET", LOG + log_tiles.STAMP, STAFF, log_tiles.stamp_handler(edge, log_scope, staff=True))
    add("GET", LOG + log_tiles.TILE, STAFF, log_tiles.tile_handler(edge, log_scope, staff=True))
    add("GET", ME, STAFF_OR_PLATFORM, _me_handler(edge))
    add("POST", LOG_OUT, STAFF_OR_PLATFORM, staff.log_out)


def served() -> list[tuple[Operation, Admin]]:
    """The operations that the edge serves to staff roles, in the table's order."""
    rows = ((operation, operation.admin) for operation in OPERATIONS)
    return [(operation, admin) for operation, admin in rows if admin is not None and not admin.signed]


def _guarded(edge: Edge, staff: StaffSessions, route: str, admin: Admin, handler: Handler) -> Handler:
    """Wraps `handler` with the role check. TOKEN_MISSING without a token, ROLE_REQUIRED without a permitted role."""
    roles, headers = admin.roles(edge.settings.role_matrix), edge.auth.header_fallback

    async def answer(request: web.Request) -> web.StreamResponse:
        identity = await edge.auth.identify(request)
        if identity is None:
            raise token_missing(OF_STAFF, headers=headers)
        trace.actor.set(identity.subject)
        await staff.signed_in(request, identity)
        try:
            request[IDENTITY] = require_roles(identity, roles, headers=headers)
            await edge.checked_scope(request, identity)
            return await handler(request)
        except Fault as fault:
            if fault.reason in OF_ROLES:
                await staff.refused(request, identity, route, fault)
            raise

    return answer


def _handler(edge: Edge, operation: Operation) -> Handler:
    read, show = reader(operation), edge_view(operation)
    matched = revised(operation.request) if operation.verb == "PUT" else ""
    tagged = revised(operation.reply)
    keyed = operation.keyed
    decides = "may_decide" in fields_of(operation.request)
    reveals = "reveal" in fields_of(operation.request)
    revealing = REWARD_MANAGERS.roles(edge.settings.role_matrix)
    marks = Marks(edge.settings.jwt_staff_secrets)
    searches = LocalRate(CODE_SEARCHES.divided(edge.settings.processes)) if operation.searches_codes else None

    async def answer(request: web.Request) -> web.Response:
        identity = request[IDENTITY]
        message = read(request, await body_of(request, operation))
        if matched:
            require_match(getattr(message, matched), request.headers.getall("If-Match", ()))
        if operation.tokens is TokenUse.MAKES:
            check_creation(identity, message)
        # The platform role sees every tenant: without a scope a list of tenants is not limited to one.
        everywhere = operation.verb == "GET" and not operation.scoped and PLATFORM in identity.roles
        message.scope = None if everywhere else _scope(edge, request)
        if decides:
            message.may_decide = [name for name in _may(identity, edge.settings.role_matrix) if name in approvals.KINDS]
        if reveals:
            message.reveal = bool(identity.roles & revealing)
        if searches is not None and message.code and edge.settings.rate_limits:
            limited = searches.take(f"{identity.tenant_id} {identity.subject}")
            if limited is not None:
                extra_headers(request).update(limited.headers)
                raise limited.fault()
        if keyed and (key := idempotency_key(request)):
            message.idempotency_key = key
            if not operation.confidential:
                return await _once(edge, operation, show, message, request, tagged)
        reply = await edge.caller.call(operation, message)
        if operation.tokens is TokenUse.MAKES:
            reply.token.secret = marks.marked(reply.token.secret)
        if operation.tokens is TokenUse.ENDS:
            # Applies the revocation on this edge at once. It is committed, so a failed read is not an error.
            with suppress(Fault):
                await edge.revocations.read()
        return ok(show(reply), headers={**_tag(reply, tagged), **replay_headers()})

    return answer


def _me_handler(edge: Edge) -> Handler:
    """The caller's identity and permitted operations, by which a dashboard shows and hides controls."""
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
    """The tenant's name; "" if Core does not respond: the caller's identity is still useful."""
    message = m.ListTenantsRequest(scope=m.Scope(tenant_id=tenant_id), limit=1)
    with suppress(Fault):
        if tenant_id:
            return next((one.name for one in (await edge.caller.call(BY_NAME["ListTenants"], message)).items), "")
    return ""


def _may(identity: Identity, role_matrix: str) -> list[str]:
    """The names of the operations that the caller's roles permit. Merchant staff get no tenant-wide operations."""
    known = [
        (operation.name, admin) for operation, admin in served() if not (identity.merchant_id and operation.tenant_wide)
    ]
    known += OWN.items()
    return [name for name, admin in known if identity.roles & admin.roles(role_matrix)]


_PERSONAL: Final = (m.RankingReply, m.TaskReply, m.PlayerEntryReply)
"""Replies that may contain personal data: a player's name, a delivery's error, and an entry."""


async def _once(
    edge: Edge, operation: Operation, show: View, message: Any, request: web.Request, tagged: str
) -> web.Response:
    """Core's reply to a request with an Idempotency-Key. Core stores the key durably; the ephemeral store is a cache.

    A bulk reply with failures is not cached: a retry goes to Core, which retries the failed ones and reports the rest
    as done. For a reply that may contain personal data, which an erasure must reach, or that has an ETag, the cache
    only records that there is a reply. Operations with secrets never get here: a hash of the request could be guessed.
    """
    keyed = KeyedRequest(f"{request.method} {request.path}", message.idempotency_key, staff_request_hash(message))
    # A merchant's id contains no space, so the owner names of two merchants cannot collide.
    owner = f"staff {message.scope.merchant_id} {request[IDENTITY].subject}"
    admission = await edge.admission.admit(message.scope.tenant_id, holder=owner, owner=owner, keyed=keyed)
    not_cached = bool(tagged) or operation.reply in _PERSONAL
    if isinstance(admission, Replay) and not not_cached:
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
        edge.admission.settle(admission, None if undone else b"" if not_cached else data)
    return ok(data, headers=headers)


def _tag(reply: Any, tagged: str) -> dict[str, str]:
    """The ETag of a reply; empty if it has no revision."""
    return {"ETag": f'"{getattr(reply, tagged).revision}"'} if tagged else {}


def _scope(edge: Edge, request: web.Request) -> m.Scope:
    return edge.scope(request, request[IDENTITY])


def _log_scope(edge: Edge) -> log_tiles.Scoped:
    async def scope(request: web.Request) -> m.Scope:
        return _scope(edge, request)

    return scope


_EXTRA: Final = frozenset({"scope", "id", "update_mask", "warnings", "shift_days"})


def revised(message: Any) -> str:
    """The field of a request or reply that wraps a resource with revisions; "" if there is none."""
    rows = [row for row in fields_of(message).values() if row.name not in _EXTRA]
    wraps = len(rows) == 1 and rows[0].kind is Kind.MESSAGE and not rows[0].repeated
    return rows[0].name if wraps and "revision" in fields_of(rows[0].type) else ""


def require_match(resource: m.Game | m.Campaign, sent: Sequence[str]) -> None:
    """Sets the expected revision of an update from If-Match; `*` matches any. `sent`: the header's values.

    INVALID_ARGUMENT for an unsupported ETag (a list, or a weak one, which never matches) and for a different
    `revision` in the body: ignoring either could overwrite changes that the client has not seen.
    """
    if not sent or sent == ["*"]:
        return
    tag = _ETAG.fullmatch(sent[0].strip()) if len(sent) == 1 else None
    if tag is None:
        raise invalid("If-Match", 'must be the single ETag of the read revision, such as "3"')
    revision = int(tag[1])
    if resource.revision and resource.revision != revision:
        raise invalid("revision", f"must equal {revision}, the revision in If-Match")
    resource.revision = revision


ETAG_CHARACTERS_MAX: Final = 11
_ETAG: Final = re.compile(r'"([1-9]\d{0,8})"', re.ASCII)


def markdown() -> str:
    """The strict matrix, as the table in docs/reference/roles.md: the writes of each set of roles, and the reads."""
    own = [("POST", LOG_OUT, STAFF_OR_PLATFORM), ("GET", ME, STAFF_OR_PLATFORM)]
    own += [("GET", EXPORT, OWN["ExportRows"]), ("GET", LIVE, OWN["WatchLive"])]
    routes = [(operation.verb, operation.path, admin) for operation, admin in served()]
    routes += [(verb, path.removeprefix(PREFIX), admin) for verb, path, admin in own]
    written: dict[frozenset[str], list[str]] = {}
    reads: list[str] = []
    for verb, path, admin in routes:
        if admin.writers == MANAGEMENT and verb == "GET":
            reads.append(f"`{path}`")
        else:
            written.setdefault(admin.writers, []).append(f"`{verb} {path}`")
    lines = [f"| {', '.join(sorted(roles))} | {', '.join(paths)} |" for roles, paths in written.items()]
    lines.append(f"| {', '.join(sorted(MANAGEMENT))} | reading: {', '.join(reads)} |")
    return "\n".join(["| Roles | Routes under /admin |", "|---|---|", *lines]) + "\n"
