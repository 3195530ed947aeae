"""`tombola tenants move`: moves a tenant to another database while it is in use.

The other commands of the group are generated from the operations.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg

from runtime.commands.builder import app_of
from runtime.commands.environment import settings_for
from runtime.commands.stores import fail_store
from runtime.errors import Fault
from runtime.stores.moving import Move, NotMoved

app = app_of("tenants")


@app.command
def move(tenant: str, /, *, to: str) -> None:
    """Move a tenant to another database while it is in use; its requests wait at most two seconds.

    It replicates the tenant's rows, so DATABASE_URL and DATABASES must be of a superuser, or of a role that may
    replicate, create subscriptions and set session_replication_role. Run it again if it was interrupted.

    Parameters
    ----------
    tenant
        The tenant's id.
    to
        The database: a name in DATABASES, or home.
    """
    work = Move(settings_for("migrate"), tenant, to, lambda step: print(step, flush=True))
    try:
        rows = asyncio.run(work.run())
    except NotMoved as error:
        sys.exit(f"tombola tenants move: {error}")
    except (Fault, OSError, asyncpg.PostgresError, TimeoutError) as error:
        fail_store("tenants move", error, ". Run it again to resume")
    print(f"{tenant} lives in {to}; rows moved: {rows}" if rows else f"{tenant} lives in {to} already")
