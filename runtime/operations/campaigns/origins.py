"""Origins: the pages that may embed a tenant's games (CORS and framing).

A tenant's origins apply to everything of the tenant. A campaign adds origins for itself and its parts; it cannot remove
any. Routes without a campaign (logins, wallets, rewards) accept all of these origins, since a page that shows a game
needs them too. A draft's origins do not count yet. Syntax: runtime/wire/origins.py. Enforcement and caching:
runtime/http/admission/origins.py.
"""

from __future__ import annotations

from typing import Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import unknown
from runtime.operations.row import Operation
from runtime.stores.database import Database, StoreUnavailable
from runtime.stores.databases import EACH_SECONDS, everywhere
from runtime.wire.origins import candidates
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("origins")


async def list_origins(engine: Engine, request: m.ListOriginsRequest) -> m.ListOriginsReply:
    """For the edges: the tenant's origins, and those that one campaign, or all, add. NOT_FOUND UNKNOWN_TENANT."""
    tenant_id = tenant_of(request)
    if request.part_id or request.campaign_id:
        of_one = (tenant_id, request.campaign_id, request.part_id)
        row = await engine.database.fetchrow(_SQL["of_campaign"], *of_one)
    else:
        row = await engine.database.fetchrow(_SQL["of_tenant"], tenant_id)
    if row is None:
        raise unknown("tenant", tenant_id)
    return m.ListOriginsReply(**row)


async def find_origin(engine: Engine, request: m.FindOriginRequest) -> m.FindOriginReply:
    """For the edges: whether any tenant or campaign has the origin. A preflight request does not name a tenant."""
    names = list(candidates(request.origin))
    if not names:
        return m.FindOriginReply()

    async def known(database: Database) -> bool:
        return bool(await database.fetchval(_SQL["known"], names))

    found = [one for _, one in await everywhere(engine.database, known, seconds=EACH_SECONDS)]
    failed = next((one for one in found if isinstance(one, StoreUnavailable)), None)
    if failed is not None and True not in found:  # Its tenant may live in the database that does not answer.
        raise failed
    return m.FindOriginReply(known=True in found)


# -- rows ------------------------------------------------------------------------------------


LIST_ORIGINS: Final = Operation("ListOrigins", "GET /origins", run=list_origins, refusals=("UNKNOWN_TENANT",))
FIND_ORIGIN: Final = Operation("FindOrigin", "GET /origins/known", run=find_origin, bounded=True)

ROWS: Final = (LIST_ORIGINS, FIND_ORIGIN)
