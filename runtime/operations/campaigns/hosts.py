"""Hosts: a campaign's page under the brand's own host name.

The operator allows a tenant to use host names (`Tenant.hosts`, role `platform`); a campaign claims some of them
(`Campaign.hosts`). Both are rows of one table, so that a host belongs to one tenant and one campaign. Tenants in other
databases are checked when a host is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations.checks import Checks
from runtime.operations.row import Operation
from runtime.stores.database import HOME, Database, StoreUnavailable
from runtime.stores.databases import EACH_SECONDS, TenantMoved, everywhere
from runtime.wire.origins import host_problem

_SQL: Final = sql.load("hosts")
_DIRECTORY: Final = sql.load("directory")


def check(checks: Checks, hosts: Sequence[str]) -> None:
    """Adds a problem for each invalid host name."""
    checks.problems((f"hosts[{i}]", wrong) for i, host in enumerate(hosts) if (wrong := host_problem(host)))


async def claim(
    connection: asyncpg.Connection, checks: Checks, tenant_id: str, campaign_id: str, hosts: Sequence[str]
) -> None:
    """Gives a campaign exactly these hosts. Adds a problem for each that it cannot have."""
    rows = await connection.fetch(_SQL["claim"], tenant_id, campaign_id, hosts)
    claimed = {row["host"] for row in rows if row["campaign_id"] == campaign_id}
    refused = "is not among the tenant's hosts, or another campaign has it"
    checks.problems((f"hosts[{i}]", refused) for i, host in enumerate(hosts) if host not in claimed)


async def refuse_taken(
    engine: Engine,
    checks: Checks,
    tenant_id: str,
    hosts: Sequence[str],
    home: asyncpg.Connection | None = None,
) -> None:
    """Adds a problem for each host of another tenant, or of the service. Raises StoreUnavailable.

    home: the caller's connection to home. It must not wait for a second one.
    """
    if not hosts:
        return
    own = {urlsplit(one).hostname for one in (engine.settings.consumer_base_url, engine.settings.callback_base_url)}

    async def taken(database: Database) -> list[asyncpg.Record]:
        source = home if home is not None and database.name == HOME else database
        return await source.fetch(_SQL["taken"], tenant_id, hosts)

    found: set[str | None] = set(own)
    for database, one in await everywhere(engine.database, taken, seconds=EACH_SECONDS):
        if isinstance(one, StoreUnavailable):
            raise one
        found |= {row["host"] for row in one if not await _freed(home or engine.database.parts[0], database, row)}
    checks.problems((f"hosts[{i}]", "is taken") for i, host in enumerate(hosts) if host in found)


async def _freed(home: asyncpg.Connection | Database, database: Database, row: asyncpg.Record) -> bool:
    """Whether the creation of a host's tenant was interrupted before it was in the directory. Frees its hosts."""
    tenant_id = row["tenant_id"]
    if database.name == HOME or not await home.fetchval(_DIRECTORY["lock_creation"], tenant_id):
        return False
    # After the lock: a creation that was in progress until then has committed its row.
    if await home.fetchrow(_DIRECTORY["get"], tenant_id) is not None:
        return False
    await database.execute(_SQL["allow"], tenant_id, [])
    return True


async def allow(connection: asyncpg.Connection, checks: Checks, tenant_id: str, hosts: Sequence[str]) -> None:
    """Allows a tenant exactly these hosts. Adds a problem for each that another tenant has got meanwhile."""
    allowed = {row["host"] for row in await connection.fetch(_SQL["allow"], tenant_id, hosts)}
    checks.problems((f"hosts[{i}]", "is taken") for i, host in enumerate(hosts) if host not in allowed)


async def find_host(engine: Engine, request: m.FindHostRequest) -> m.FindHostReply:
    """For the edges: the host's tenant, and the campaign whose page it shows. Empty if no tenant has it, or two do."""
    if host_problem(request.host):
        return m.FindHostReply()

    async def known(database: Database) -> list[asyncpg.Record]:
        rows = await database.fetch(_SQL["find"], request.host)
        places = [engine.database.of(row["tenant_id"]) for row in rows]
        if not set(places) <= set(engine.database.parts):
            raise TenantMoved  # It is paused; the edge would cache an empty reply.
        # Without the copy of a tenant that is being moved.
        return [row for row, place in zip(rows, places, strict=True) if place is database]

    rows: list[asyncpg.Record] = []
    failed = None
    for _, one in await everywhere(engine.database, known, seconds=EACH_SECONDS):
        if isinstance(one, StoreUnavailable):
            failed = one
        else:
            rows += one
    if failed is not None and not rows:  # The tenant may live in the database that does not answer.
        raise failed
    return m.FindHostReply(**rows[0]) if len(rows) == 1 else m.FindHostReply()


FIND_HOST: Final = Operation("FindHost", "GET /hosts/find", run=find_host, bounded=True)

ROWS: Final = (FIND_HOST,)
