"""`tombola approvals`: what waits for a second person, and deciding it."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import App, Parameter

from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    refusals_told,
    table,
)

app = App(name="approvals", help="See what waits for a second person; approve or reject it.")

Id = Annotated[str, Parameter(help="The approval's id.")]


@app.command(name="list")
async def list_approvals(
    *,
    status: str = "",
    most: int = 100,
    connection: Connection = DEFAULTS,
) -> None:
    """List what waits, or did, the newest first.

    Parameters
    ----------
    status
        Only those of this status: waiting, approved, done, rejected, withdrawn, expired, failed.
    most
        How many at most.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = await edge.first("/approvals", most, status=status)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "operation", "about", "asked by", "status")
    for item in items:
        shown.add_row(item["id"], item["operation"], item["subject_id"], item["asked_by"], _status(item))
    people().print(shown)


@app.command
async def show(approval: Id, /, *, connection: Connection = DEFAULTS) -> None:
    """Show one, with what it is about before and after."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            print_json(await edge.get(f"/approvals/{approval}"))


@app.command
async def approve(approval: Id, /, *, reason: str = "", yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Approve what another person asked for: it is done now."""
    confirmed(connection, yes, f"Approve {approval}, so that it is done?")
    await _decide(connection, approval, "approve", reason)


@app.command
async def reject(approval: Id, /, *, reason: str, connection: Connection = DEFAULTS) -> None:
    """Reject what another person asked for: it is not done."""
    await _decide(connection, approval, "reject", reason)


@app.command
async def withdraw(approval: Id, /, *, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Take back what you asked for yourself."""
    await _decide(connection, approval, "withdraw", reason)


async def _decide(connection: Connection, approval: str, what: str, reason: str) -> None:
    with refusals_told(connection):
        async with connected(connection) as edge:
            item = await edge.post(f"/approvals/{approval}/{what}", {"reason": reason})
    if connection.json:
        print_json(item)
    else:
        people().print(f"{approval} is {_status(item)}")


def _status(item: dict[str, Any]) -> str:
    return str(item["status"]).removeprefix("APPROVAL_STATUS_").lower()
