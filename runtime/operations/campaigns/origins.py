"""Origins: whose pages may show and play what is a tenant's (contract.md, "Origins").

A tenant's hold for all that is the tenant's. A campaign's are added to them, for the campaign and its games: they
widen, and narrow nothing. What is of no campaign (logins, wallets, rewards) may be asked from the pages of all of
them, since a page that shows a game needs them too. A draft's do not count yet. How they are written is
runtime/wire/origins.py's matter; who asks, and how long it is remembered, runtime/http/admission/origins.py's.
"""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import unknown
from runtime.operations.row import Operation
from runtime.wire.origins import candidates
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("origins")


async def list_origins(engine: Engine, request: m.ListOriginsRequest) -> m.ListOriginsReply:
    """The tenant's origins, and what a campaign, or all of them, add: for the edges. NOT_FOUND UNKNOWN_TENANT."""
    tenant_id = tenant_of(request)
    if request.game_id or request.campaign_id:
        of_one = (tenant_id, request.campaign_id, request.game_id)
        row = await engine.database.fetchrow(_SQL["of_campaign"], *of_one)
    else:
        row = await engine.database.fetchrow(_SQL["of_tenant"], tenant_id)
    if row is None:
        raise unknown("tenant", tenant_id)
    return m.ListOriginsReply(**row)


async def find_origin(engine: Engine, request: m.FindOriginRequest) -> m.FindOriginReply:
    """Whether any tenant or campaign has the origin: for the edges, whose preflights name no tenant."""
    names = list(candidates(request.origin))
    return m.FindOriginReply(known=bool(names) and await engine.database.fetchval(_SQL["known"], names))


# -- rows ------------------------------------------------------------------------------------


LIST_ORIGINS: Final = Operation("ListOrigins", "GET /origins", run=list_origins, refusals=("UNKNOWN_TENANT",))
FIND_ORIGIN: Final = Operation("FindOrigin", "GET /origins/known", run=find_origin, bounded=True)

ROWS: Final = (LIST_ORIGINS, FIND_ORIGIN)
