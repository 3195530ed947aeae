"""Judges a row once it is quiet: conservation, and whether the history can be explained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ops.certification.judging import answers
from ops.certification.judging.tables import broken, connected, read
from runtime.stores.database import Database

if TYPE_CHECKING:
    from ops.certification.run import Run

SHOWN: Final = 5


class Violated(RuntimeError):
    """The history cannot be explained; the message has what is wrong."""


async def judge(run: Run) -> None:
    """Notes what the row's tenant is held to as figures. Violated where something is wrong."""
    async with connected(run.stack.settings) as database:
        await run.until(lambda: _quiet(database, run.world.tenant_id))
        found = await broken(database, run.world.tenant_id)
        tables = await read(database, run.world.tenant_id)
    wrong = [f"{check} {row}" for check, rows in found.items() for row in rows]
    run.figure("conservation", len(wrong), "rows", exactly=0)
    told = answers.problems(run.history, tables)
    run.figure("unexplained", len(told), f"of {len(run.history.asked)} requests", exactly=0)
    wrong += told
    if wrong:
        raise Violated("; ".join(wrong[:SHOWN]) + (f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""))


async def _quiet(database: Database, tenant_id: str) -> bool:
    """Whether no delivery of the tenant is under way."""
    return not await database.fetchval(
        "SELECT EXISTS (SELECT FROM tasks WHERE tenant_id = $1"
        " AND status IN ('pending', 'delivering', 'retry', 'awaiting'))",
        tenant_id,
    )
