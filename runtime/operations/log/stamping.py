"""Has the checkpoints of the logs stamped by a time-stamping authority (LOG_TIMESTAMP_URL).

A separate job: a slow or unreachable authority delays only stamps. A stamp covers all entries before it, so not every
checkpoint needs one.
"""

from __future__ import annotations

from typing import Final

import structlog

import sql
from runtime.actors.engine import Engine
from runtime.background import FAILURES, attempt
from runtime.outgoing.connector import Connector, Unreachable
from runtime.rules.log.stamps import CONTENT_TYPE, BadStamp, ask, read_answer
from runtime.stores.database import at

_SQL: Final = sql.load("log")
_ANALYTICS: Final = sql.load("analytics")

JOB: Final = "log stamps"
EVERY_SECONDS: Final = 60.0
"""The interval of passes, and of retries while the authority is unreachable."""

REFUSALS_MAX: Final = 5
"""Refusals in a row after which a pass stops: the authority refuses everything, or limits the rate."""

log = structlog.get_logger(__name__)


async def stamp_all(engine: Engine) -> None:
    """Stamps the newest checkpoint of every tenant whose last stamp is old enough.

    A refusal of one tenant's checkpoint does not block the others. Stops if the authority is unreachable.
    """
    if not (engine.settings.merkle_log and engine.settings.log_timestamp_url):
        return
    connector = Connector(engine.settings.outbound_allow_cidrs)
    stamper = Stamper(engine, connector)
    try:
        for tenant_id in await engine.database.tenants(_ANALYTICS["tenants"]):
            await attempt(JOB, at(tenant_id, stamper.stamp(tenant_id)), tenant_id=tenant_id)
            if stamper.is_away or stamper.refusals >= REFUSALS_MAX:
                return  # Each of the other tenants would wait for the same timeout, or be refused too.
    finally:
        await connector.close()


class Stamper:
    """Asks the authority during one pass. is_away: it did not respond. refusals: responses in a row without a stamp."""

    def __init__(self, engine: Engine, connector: Connector) -> None:
        self.is_away = False
        self.refusals = 0
        self._engine = engine
        self._connector = connector

    async def stamp(self, tenant_id: str) -> None:
        """Has the tenant's newest checkpoint stamped, if a stamp is due."""
        database, settings = self._engine.database, self._engine.settings
        row = await database.fetchrow(_SQL["unstamped"], tenant_id, settings.log_timestamp_seconds)
        if row is None:
            return
        question = ask(row["note"])
        try:
            headers = {"Content-Type": CONTENT_TYPE}
            answer = await self._connector.post(settings.log_timestamp_url, question.body, headers)
            stamped_at = read_answer(answer.body, row["note"], question)
        except (Unreachable, BadStamp) as error:
            self.is_away = isinstance(error, Unreachable)
            self.refusals += 1
            FAILURES.labels(JOB).inc()
            log.warning("checkpoint_not_stamped", tenant_id=tenant_id, error=str(error))
            return
        self.refusals = 0
        await database.execute(_SQL["add_stamp"], tenant_id, row["size"], answer.body, stamped_at)
