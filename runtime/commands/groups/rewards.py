"""`tombola rewards`: find rewards, show one; fulfill, revoke or retry several, each by itself."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any, Final

from cyclopts import Parameter

from runtime.commands import documents
from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    print_done,
    print_json,
)
from runtime.commands.loop import app_of

app = app_of("rewards")

AT_ONCE: Final = 100
"""Rewards of one request."""

Id = Annotated[str, Parameter(help="The rewards' ids.")]


@app.command
async def show(reward: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a reward, what its winner answered when claiming it, and the last attempt to deliver it.

    Parameters
    ----------
    reward
        Its id.
    """
    async with connected(connection) as edge:
        found = await edge.get(f"/rewards/{reward}")
    if connection.json:
        print_json(found)
        return
    told = {**found["reward"], "answers": {one["label"]: one["value"] for one in found["answers"]}}
    if delivery := found["delivery"]:
        task = {name: delivery["task"][name] for name in ("id", "channel", "status", "attempts", "last_error")}
        told["delivery"] = _filled({**task, **{name: delivery[name] for name in delivery if name != "task"}})
    print(documents.write(_filled(told)), end="")


@app.command
async def fulfill(*rewards: Id, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Mark rewards as delivered. Ends with 1 where one was not."""
    await _move(connection, "FULFILL", rewards, reason)


@app.command
async def revoke(*rewards: Id, reason: str, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Take rewards back. Ends with 1 where one was not."""
    confirmed(connection, yes, f"Revoke {len(rewards)} rewards?")
    await _move(connection, "REVOKE", rewards, reason)


@app.command
async def retry(*rewards: Id, connection: Connection = DEFAULTS) -> None:
    """Have the deliveries of rewards tried again. Ends with 1 where one was not."""
    await _move(connection, "RETRY", rewards, "")


def _filled(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if value or value is False}


async def _move(connection: Connection, act: str, rewards: tuple[str, ...], reason: str) -> None:
    from runtime import messages as m  # late: the group's other commands need none of them

    results: list[dict[str, Any]] = []
    async with connected(connection) as edge:
        for first in range(0, max(1, len(rewards)), AT_ONCE):
            body = {"act": m.BulkAct[act].proto_name, "ids": list(rewards[first : first + AT_ONCE]), "reason": reason}
            results += (await edge.post("/rewards/bulk", body))["results"]
    refused = [one for one in map(partial(m.BulkResult.from_dict, ignore_unknown_fields=True), results) if not one.ok]
    print_done(connection, results, f"{len(results) - len(refused)} done")
    for one in refused if not connection.json else ():
        print(f"tombola: {one.id}: {one.reason}: {one.message}", file=sys.stderr)
    if refused:
        sys.exit(EXIT_REFUSED)
