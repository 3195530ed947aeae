"""`tombola integrations`: list, make and remove them; try one, pause it, give it a new secret, read its log, resend."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cyclopts import App

from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import (
    DEFAULTS,
    EXIT_REFUSED,
    Connection,
    connected,
    people,
    print_json,
    refusals_told,
    table,
)
from runtime.commands.desk.filing import filed

app = App(
    name="integrations", help="List, make and remove integrations; try one, pause it, rotate its secret, read its log."
)


@app.command(name="list")
async def list_integrations(*, connection: Connection = DEFAULTS) -> None:
    """List integrations, the newest first."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = [item async for item in edge.each("/integrations")]
    if connection.json:
        print_json(items)
        return
    shown = table("id", "type", "status", "events", "url")
    for item in items:
        names = [item[name].rpartition("_")[2].lower() for name in ("type", "status")]
        shown.add_row(item["id"], *names, ", ".join(item["events"]), str((item["config"] or {}).get("url", "")))
    people().print(shown)


@app.command
async def create(file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Make an integration of a file of its fields, as YAML or JSON: type, events, config, campaign_id.

    Parameters
    ----------
    file
        Where they are.
    """
    made = await filed(connection, file, "/integrations", "")
    if connection.json:
        print_json(made)
    else:
        people().print(made["id"])


@app.command
async def remove(integration: str, /, *, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """Remove an integration and its log: it is told nothing more of what happens, nor of what is still to be told."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            confirmed(connection, yes, f"Remove {integration} and its log?")
            done = await edge.delete(f"/integrations/{integration}")
    if connection.json:
        print_json(done)
    else:
        people().print(f"{integration} is removed")


@app.command
async def test(integration: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Send an integration one event, now. Ends with 1 where it did not take it."""
    await _sent(connection, f"/integrations/{integration}/test", {})


@app.command
async def resend(integration: str, delivery: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Tell an integration an event of its log once more, under the same event id. Ends with 1 where it did not take it.

    Parameters
    ----------
    integration
        Its id.
    delivery
        The delivery's id, as `integrations log` shows it.
    """
    await _sent(connection, f"/integrations/{integration}/resend", {"delivery_id": delivery})


@app.command
async def pause(integration: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Tell an integration nothing until it is resumed; what happens meanwhile is not told later."""
    await _set(connection, integration, "PAUSED")


@app.command
async def resume(integration: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Tell an integration again what happens from now on."""
    await _set(connection, integration, "ACTIVE")


@app.command
async def rotate(integration: str, /, *, secret: str = "", connection: Connection = DEFAULTS) -> None:
    """Sign with a new secret, and with the one before, too; without --secret that one ends.

    Parameters
    ----------
    integration
        Its id.
    secret
        The new one.
    """
    done = await _post(connection, f"/integrations/{integration}/rotate", {"secret": secret} if secret else {})
    if connection.json:
        print_json(done)
    else:
        people().print("signs with both" if secret else "signs with the new one alone")


@app.command(name="log")
async def show_log(integration: str, /, *, most: int = 50, connection: Connection = DEFAULTS) -> None:
    """Show what became of the newest events at an integration."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = await edge.first(f"/integrations/{integration}/deliveries", most)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "event", "type", "status", "answer", "ms")
    for item in items:
        status = item["status"].removeprefix("INTEGRATION_DELIVERY_STATUS_").lower()
        answer = f"{item['http_status'] or ''} {item['error']}".strip()
        shown.add_row(item["id"], item["event_id"], item["event_type"], status, answer, str(item["duration_ms"]))
    people().print(shown)


async def _sent(connection: Connection, path: str, body: dict[str, Any]) -> None:
    done = await _post(connection, path, body)
    if connection.json:
        print_json(done)
    else:
        status = done["status"].removeprefix("INTEGRATION_DELIVERY_STATUS_").lower()
        people().print(f"{status} {done['http_status'] or ''} {done['error']}".strip())
    if not done["delivered"]:
        sys.exit(EXIT_REFUSED)


async def _set(connection: Connection, integration: str, status: str) -> None:
    with refusals_told(connection):
        async with connected(connection) as edge:
            body = {"status": f"INTEGRATION_STATUS_{status}"}
            done = await edge.put(f"/integrations/{integration}", body)
    if connection.json:
        print_json(done)
    else:
        people().print(status.lower())


async def _post(connection: Connection, path: str, body: dict[str, Any]) -> dict[str, Any]:
    with refusals_told(connection):
        async with connected(connection) as edge:
            return await edge.post(path, body)
