"""Whether what stands beside the rows agrees with them: what receivers were told, deliveries."""

from __future__ import annotations

from ops.certification.run import Run
from ops.history.tables import connected


async def all_told(run: Run) -> bool:
    """Whether the integration has heard of every play that there is."""
    async with connected(run.stack.settings) as database:
        rows = await database.fetch("SELECT play_id FROM plays WHERE tenant_id = $1", run.world.tenant_id)
    heard = {body["data"].get("play_id") for _, _, body in run.receiver.posted if "data" in body}
    return {row["play_id"] for row in rows} <= heard


async def delivered(run: Run) -> bool:
    """Whether no delivery is under way."""
    under_way = ["pending", "delivering", "retry"]
    found = "SELECT EXISTS (SELECT FROM tasks WHERE tenant_id = $1 AND status = ANY($2::text[]))"
    async with connected(run.stack.settings) as database:
        return not await database.fetchval(found, run.world.tenant_id, under_way)


def forget_starts(run: Run) -> None:
    """The key of a start, which does nothing that lasts, is kept by Valkey alone: asked again it may be another."""
    for asked in run.history.of("Start"):
        asked.key = ""
