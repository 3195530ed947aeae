"""The purge: deletes rows whose time is over, tenant by tenant."""

from __future__ import annotations

from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.engine import Engine
from runtime.operations.budget_alerts import thresholds
from runtime.operations.games import trials
from runtime.operations.players import challenges
from runtime.stores.database import StoreUnavailable

_SQL: Final = sql.load("logins")

log = structlog.get_logger(__name__)

PURGE_SECONDS: Final = 600.0
"""How often each process purges."""

PURGE_BATCH: Final = 1_000
"""Rows that one statement deletes: it takes a few milliseconds."""

_PURGES: Final = {
    **challenges.PURGES,
    **{name: _SQL[name] for name in ("purge_logins", "purge_revocations")},
    "purge_tokens": sql.load("tokens")["purge_tokens"],
    **trials.PURGES,
    **thresholds.PURGES,
}


async def purge(engine: Engine) -> None:
    """Purges challenges, rates, guesses, logins, revocations, API tokens, test plays and notices of every tenant.

    A failure is logged and does not block the other statements; the last one is raised at the end.
    """
    failed: Exception | None = None
    for tenant in await engine.database.fetch(_SQL["tenants"]):
        for name, statement in _PURGES.items():
            try:
                # In batches: with a backlog one statement for all would hit the statement timeout every time.
                while await engine.database.execute(statement, tenant["tenant_id"], PURGE_BATCH) == PURGE_BATCH:
                    pass
            except StoreUnavailable as error:
                if not error.sent:
                    raise  # No connection is free: every other statement would wait for one in vain.
                failed = _not_purged(tenant["tenant_id"], name, error)
            except asyncpg.PostgresError as error:
                failed = _not_purged(tenant["tenant_id"], name, error)
    if failed is not None:
        raise failed


def _not_purged(tenant_id: str, name: str, error: Exception) -> Exception:
    log.warning("login_purge_failed", tenant=tenant_id, statement=name, error=str(error))
    return error
