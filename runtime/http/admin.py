"""The admin edge: what staff and their dashboards ask (spec.md, "Admin edge").

A table of operations and who may ask for them. Every management role opens every route of its own tenant;
with ROLE_MATRIX=strict the writes are narrowed to the roles that `Row.writers` names. What is changed is
logged under the subject of the token (`trace.actor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from runtime import trace
from runtime.http.auth import MANAGEMENT, PLATFORM, Identity, require_roles
from runtime.http.edge import Edge, body_of, reader
from runtime.http.envelope import Handler, ok
from runtime.http.views import edge_view
from runtime.operations import API, BY_NAME, Operation

ADMIN: Final = frozenset({"admin"})
DESIGN: Final = frozenset({"admin", "designer"})
REWARDS: Final = frozenset({"admin", "reward_manager"})
TENANTS: Final = MANAGEMENT | {PLATFORM}

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
    Row("CreatePrize", REWARDS),
    Row("GetPrize"),
    Row("ListPrizes"),
    Row("UpdatePrize", REWARDS),
    Row("DeletePrize", REWARDS),
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
    Row("ListAuditEntries", ADMIN),
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

    async def answer(request: web.Request) -> web.Response:
        identity = request[IDENTITY]
        message = read(request, await body_of(request, operation))
        # The platform sees every tenant; without a scope ListTenants is not narrowed to one.
        everywhere = operation.name == "ListTenants" and PLATFORM in identity.roles
        message.scope = None if everywhere else edge.scope(request, identity)
        return ok(show(await edge.caller.call(operation, message)))

    return answer
