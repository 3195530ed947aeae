"""`tombola deliveries`: list what is delivered, with the cause of what failed; try one again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from cyclopts import App

from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    refusals_told,
    table,
)
from runtime.commands.times import unix

app = App(name="deliveries", help="List deliveries of rewards, with the cause of what failed; try one again.")


@app.command(name="list")
async def list_deliveries(
    *,
    status: str = "",
    campaign: str = "",
    prize: str = "",
    contact: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
    most: int = 100,
    connection: Connection = DEFAULTS,
) -> None:
    """List deliveries, the newest first; `tombola rewards show` has what was sent and how it was answered.

    Parameters
    ----------
    status
        Only those of this status: pending, delivering, awaiting, retry, delivered, dead, cancelled.
    campaign
        Only those of this campaign.
    prize
        Only those of this prize.
    contact
        Only those to whom this e-mail address or phone number belongs, whole.
    since
        Only those made from this time on, such as 2026-03-01T09:00:00+01:00 (UTC where it says no offset).
    until
        Only those made before this time.
    most
        How many at most.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            query: dict[str, Any] = {"status": status, "campaign_id": campaign, "prize_id": prize, "contact": contact}
            query |= {"since": unix(since), "until": unix(until)}
            items = await edge.first("/fulfillment/tasks", most, **query)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "reward", "way", "status", "attempts", "what went wrong last")
    for item in items:
        status_name = item["status"].removeprefix("TASK_STATUS_").lower()
        shown.add_row(
            *(item["id"], item["reward_id"], item["channel"], status_name),
            *(str(item["attempts"]), item["last_error"]),
        )
    people().print(shown)


@app.command
async def retry(delivery: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Try a delivery again that failed, now."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post(f"/fulfillment/tasks/{delivery}/retry", {})
    if connection.json:
        print_json(done)
    else:
        people().print(f"{delivery} is tried again")
