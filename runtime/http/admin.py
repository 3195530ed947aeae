"""The admin edge: what staff and their dashboards ask (spec.md, "Admin edge").

A table of operations and who may ask for them. Every management role opens every route of its own tenant;
with ROLE_MATRIX=strict the writes are narrowed to the roles that `Row.writers` names: a designer makes what
is played (campaigns, games, prizes, quests, boards), a reward_manager moves what is won (codes, rewards,
tasks, balances, standings), an admin does all; what only reads is open to all three. `markdown` shows it.
What is changed is logged under the subject of the token (`trace.actor`).

A game's answers carry its revision as their ETag, and `If-Match` on its update is the body's `revision`
by another name (RFC 9110, 13.1.1): a stale one is ABORTED STALE_REVISION.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from runtime import messages as m
from runtime import trace
from runtime.errors import invalid
from runtime.http.auth import MANAGEMENT, PLATFORM, Identity, require_roles
from runtime.http.edge import Edge, body_of, reader
from runtime.http.envelope import Handler, ok
from runtime.http.views import edge_view
from runtime.operations import API, BY_NAME, Operation

ADMIN: Final = frozenset({"admin"})
DESIGN: Final = frozenset({"admin", "designer"})
REWARDS: Final = frozenset({"admin", "reward_manager"})
TENANTS: Final = MANAGEMENT | {PLATFORM}
"""Sees its own tenant, or every one with the role `platform`."""

PREFIX: Final = f"{API}/admin"


@dataclass(frozen=True, slots=True)
class Row:
    """One route: an operation under /admin. `writers`: the roles that open it where the matrix is strict."""

    operation: str
    writers: frozenset[str] = MANAGEMENT


ROWS: Final = (
    Row("CreateCampaign", DESIGN),
    Row("GetCampaign"),
    Row("ListCampaigns"),
    Row("UpdateCampaign", DESIGN),
    Row("DuplicateCampaign", DESIGN),
    Row("GetCampaignAnalytics"),
    Row("CreateGame", DESIGN),
    Row("GetGame"),
    Row("ListGames"),
    Row("UpdateGame", DESIGN),
    Row("DeleteGame", DESIGN),
    Row("CreatePrize", DESIGN),
    Row("GetPrize"),
    Row("ListPrizes"),
    Row("UpdatePrize", DESIGN),
    Row("DeletePrize", DESIGN),
    Row("ListPrizeSummary"),
    Row("ImportCodes", REWARDS),
    Row("SearchRewards"),
    Row("FulfillReward", REWARDS),
    Row("RevokeReward", REWARDS),
    Row("AdjustBalance", REWARDS),
    Row("ReplayPlay"),
    Row("CreateQuest", DESIGN),
    Row("GetQuest"),
    Row("ListQuests"),
    Row("UpdateQuest", DESIGN),
    Row("DeleteQuest", DESIGN),
    Row("CreateLeaderboard", DESIGN),
    Row("GetLeaderboard"),
    Row("ListLeaderboards"),
    Row("UpdateLeaderboard", DESIGN),
    Row("DeleteLeaderboard", DESIGN),
    Row("FinalizeLeaderboard", REWARDS),
    Row("DisqualifyPlayer", REWARDS),
    Row("AdjustScore", REWARDS),
    Row("CreateIntegration", ADMIN),
    Row("ListIntegrations"),
    Row("DeleteIntegration", ADMIN),
    Row("EmitEvent", ADMIN),
    Row("ListIntegrationDeliveries"),
    Row("ListTasks"),
    Row("RetryTask", REWARDS),
    Row("CreateTenant", frozenset({PLATFORM})),
    Row("ListTenants", TENANTS),
    Row("CreateMerchant", ADMIN),
    Row("ListMerchants"),
    Row("ListAuditEntries"),
)


def mount(app: web.Application, edge: Edge, handlers: Mapping[str, Handler] | None = None) -> None:
    """Adds every route of the table. `handlers` (by operation name) take the place of the table's own.

    The callback of workflows is outside the role gate: `runtime.http.callback`'s.
    """
    for row in ROWS:
        operation = BY_NAME[row.operation]
        handler = (handlers or {}).get(row.operation) or _handler(edge, operation)
        app.router.add_route(operation.verb, PREFIX + operation.path, guarded(edge, row, handler))


def allowed(row: Row, role_matrix: str) -> frozenset[str]:
    """The roles that open a route. Tenants are the platform's whatever the matrix."""
    if row.operation in ("CreateTenant", "ListTenants") or role_matrix == "strict":
        return row.writers
    return MANAGEMENT


IDENTITY: Final = web.RequestKey("identity", Identity)
"""Whose request it is, once `guarded` has let it in."""


def guarded(edge: Edge, row: Row, handler: Handler) -> Handler:
    """`handler` for those alone who may. TOKEN_MISSING for nobody, ROLE_REQUIRED for the others."""
    roles = allowed(row, edge.settings.role_matrix)

    async def answer(request: web.Request) -> web.StreamResponse:
        identity = require_roles(await edge.auth.identify(request), roles)
        request[IDENTITY] = identity
        trace.actor.set(identity.subject)
        return await handler(request)

    return answer


def _handler(edge: Edge, operation: Operation) -> Handler:
    read, show = reader(operation), edge_view(operation)
    versioned = operation.reply is m.GameReply

    async def answer(request: web.Request) -> web.Response:
        identity = request[IDENTITY]
        message = read(request, await body_of(request, operation))
        if operation.name == "UpdateGame":
            hold_to_match(message.game, request.headers.getall("If-Match", ()))
        # The platform sees every tenant; without a scope ListTenants is not narrowed to one.
        everywhere = operation.name == "ListTenants" and PLATFORM in identity.roles
        message.scope = None if everywhere else edge.scope(request, identity)
        reply = await edge.caller.call(operation, message)
        return ok(show(reply), headers={"ETag": f'"{reply.game.revision}"'} if versioned else None)

    return answer


def hold_to_match(game: m.Game, sent: Sequence[str]) -> None:
    """Sets the revision that the update must find from If-Match; `*` is any. `sent`: the header's values.

    INVALID_ARGUMENT for what is no ETag of a game (a list, or a weak one, which never matches), and
    where the body's `revision` is another: passing either by would overwrite what its sender has not seen.
    """
    if not sent or sent == ["*"]:
        return
    tag = _ETAG.fullmatch(sent[0].strip()) if len(sent) == 1 else None
    if tag is None:
        raise invalid("If-Match", 'must be the one ETag that the game was read with, such as "3"')
    revision = int(tag[1])
    if game.revision and game.revision != revision:
        raise invalid("revision", f"differs from {revision}, which If-Match names")
    game.revision = revision


_ETAG: Final = re.compile(r'"([1-9]\d{0,8})"', re.ASCII)


def markdown() -> str:
    """The strict matrix as a table of the README: what each set of roles may write, and what all may read."""
    written: dict[frozenset[str], list[str]] = {}
    for row in ROWS:
        if row.writers != MANAGEMENT:
            operation = BY_NAME[row.operation]
            written.setdefault(row.writers, []).append(f"`{operation.verb} {operation.path}`")
    lines = [f"| {', '.join(sorted(roles))} | {', '.join(paths)} |" for roles, paths in written.items()]
    reads = [f"`{BY_NAME[row.operation].path}`" for row in ROWS if row.writers == MANAGEMENT]
    lines.append(f"| {', '.join(sorted(MANAGEMENT))} | reading: {', '.join(reads)} |")
    return "\n".join(["| Roles | Routes under /admin |", "|---|---|", *lines]) + "\n"
