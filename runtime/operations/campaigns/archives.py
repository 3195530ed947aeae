"""Archives of campaigns' plays, as other operations meet them. See runtime/operations/campaigns/archiving.py."""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status

_SQL: Final = sql.load("archives")


def message_of(archive: dict[str, Any] | None) -> m.CampaignArchive | None:
    """The archive of a campaign's row."""
    return m.CampaignArchive(**archive) if archive else None


def archived(campaign_id: str, file_sha256: str) -> Fault:
    """The refusal of what needs the plays of an archived campaign."""
    message = f"the plays of campaign {campaign_id} were archived in the file with SHA-256 {file_sha256}"
    facts: dict[str, Any] = {"campaign_id": campaign_id, "file_sha256": file_sha256}
    return Fault(Status.FAILED_PRECONDITION, "CAMPAIGN_ARCHIVED", message, **facts)


async def refuse_archived(source: Any, tenant_id: str, campaign_id: str) -> None:
    """CAMPAIGN_ARCHIVED if plays of the campaign were deleted."""
    row = await source.fetchrow(_SQL["get"], tenant_id, campaign_id)
    if row is not None and row["entry_id"]:
        raise archived(campaign_id, row["file_sha256"])


async def refuse_archived_play(
    engine: Engine, tenant_id: str, play_id: str, *, merchant_id: str, player_id: str
) -> None:
    """NOT_FOUND PLAY_ARCHIVED if the play was archived. To a player only if the player has played in its campaign."""
    row = await engine.database.fetchrow(_SQL["of_play"], tenant_id, play_id, merchant_id, player_id)
    if row is not None:
        message = f"play {play_id} was archived with its campaign, in the file with SHA-256 {row['file_sha256']}"
        raise Fault(Status.NOT_FOUND, "PLAY_ARCHIVED", message, **row)
