"""`tombola rewards`: finds and shows rewards; fulfills, revokes or retries several, each independently."""

from __future__ import annotations

import sys
from functools import partial
from typing import Annotated, Any, Final

from cyclopts import Parameter

from runtime.commands import documents
from runtime.commands.builder import app_of
from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    print_json,
    print_result,
)

app = app_of("rewards")

AT_ONCE: Final = 100
"""The maximum number of rewards per request."""

Id = Annotated[str, Parameter(help="The rewards' ids.")]


@app.command
async def show(reward: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a reward, the winner's answers at the claim and the last delivery attempt.

    Parameters
    ----------
    reward
        The reward's id.
    """
    async with connected(connection) as edge:
        found = await edge.get(f"/rewards/{reward}")
    if connection.json:
        print_json(found)
        return
    shown = {**found["reward"], "answers": {one["label"]: one["value"] for one in found["answers"]}}
    if delivery := found["delivery"]:
        task = {name: delivery["task"][name] for name in ("id", "channel", "status", "attempts", "last_error")}
        shown["delivery"] = _filled({**task, **{name: delivery[name] for name in delivery if name != "task"}})
    print(documents.write(_filled(shown)), end="")


@app.command
async def fulfill(*rewards: Id, reason: str = "", connection: Connection = DEFAULTS) -> None:
    """Mark rewards as delivered. Exits with 1 if one could not be."""
    await _move(connection, "FULFILL", rewards, reason)


@app.command
async def revoke(*rewards: Id, reason: str, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Revoke rewards. Exits with 1 if one could not be."""
    confirmed(connection, yes, f"Revoke {len(rewards)} rewards?")
    await _move(connection, "REVOKE", rewards, reason)


@app.command
async def retry(*rewards: Id, connection: Connection = DEFAULTS) -> None:
    """Retry the deliveries of rewards. Exits with 1 if one could not be."""
    await _move(connection, "RETRY", rewards, "")


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value or value is False}


async def _move(connection: Connection, act: str, rewards: tuple[str, ...], reason: str) -> None:
    from runtime import messages as m  # a slow import that the group's other commands do not need

    results: list[dict[str, Any]] = []
    async with connected(connection) as edge:
        for first in range(0, max(1, len(rewards)), AT_ONCE):
            body = {"act": m.BulkAct[act].proto_name, "ids": list(rewards[first : first + AT_ONCE]), "reason": reason}
            results += (await edge.post("/rewards/bulk", body))["results"]
    refused = [one for one in map(partial(m.BulkResult.from_dict, ignore_unknown_fields=True), results) if not one.ok]
    print_result(connection, results, f"{len(results) - len(refused)} done")
    for one in refused if not connection.json else ():
        print(f"tombola: {one.id}: {one.reason}: {one.message}", file=sys.stderr)
    if refused:
        sys.exit(EXIT_REFUSED)
