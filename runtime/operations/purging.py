"""Deletes expired rows, tenant by tenant."""

from __future__ import annotations

from typing import Final

import asyncpg
import structlog

import sql
from runtime.actors.engine import Engine
from runtime.operations.budget_alerts import thresholds
from runtime.operations.entries import captcha
from runtime.operations.games import trials
from runtime.operations.packs import guesses
from runtime.operations.players import challenges
from runtime.operations.reporting import views
from runtime.stores.database import StoreUnavailable, at

_SQL: Final = sql.load("logins")

log = structlog.get_logger(__name__)

PURGE_SECONDS: Final = 600.0

PURGE_BATCH: Final = 1_000
"""Rows per statement, which then takes a few milliseconds."""

_PURGES: Final = {
    **challenges.PURGES,
    **{name: _SQL[name] for name in ("purge_logins", "purge_revocations")},
    "purge_tokens": sql.load("tokens")["purge_tokens"],
    "purge_keys": sql.load("entries")["purge_keys"],
    **trials.PURGES,
    **guesses.PURGES,
    **captcha.PURGES,
    **thresholds.PURGES,
    **views.PURGES,
}


async def purge(engine: Engine) -> None:
    """Purges expired rows: challenges, rates, guesses, logins, tokens, test plays, notices, captchas, folds, keys.

    A failure is logged and does not block the other statements; the last one is raised at the end.
    """
    failed: Exception | None = None
    for tenant_id in await engine.database.tenants(_SQL["tenants"]):
        for name, statement in _PURGES.items():
            try:
                await at(tenant_id or engine.database.here(), _purge_all(engine, statement, tenant_id))
            except StoreUnavailable as error:
                if not error.sent:
                    raise  # No connection is free: the other statements would time out too.
                failed = _not_purged(tenant_id, name, error)
            except asyncpg.PostgresError as error:
                failed = _not_purged(tenant_id, name, error)
    if failed is not None:
        raise failed


async def _purge_all(engine: Engine, statement: str, tenant_id: str) -> None:
    # In batches: with a backlog one statement for all would hit the statement timeout every time.
    while await engine.database.execute(statement, tenant_id, PURGE_BATCH) == PURGE_BATCH:
        pass


def _not_purged(tenant_id: str, name: str, error: Exception) -> Exception:
    log.warning("login_purge_failed", tenant=tenant_id, statement=name, error=str(error))
    return error
