"""What tenants and merchants have in common at the command line: they are listed, shown, made and changed alike."""

from __future__ import annotations

from typing import Any, Literal

from runtime.commands.connection import (
    EXIT_REFUSED,
    Connection,
    connected,
    fail,
    people,
    print_json,
    refusals_told,
    table,
)
from runtime.commands.environment import EXIT_USE

Status = Literal["active", "suspended"]


async def show_all(connection: Connection, kind: str, search: str) -> None:
    """Lists those of a kind ("tenant"), the newest first."""
    items = await _found(connection, kind, search)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "name", "status")
    for item in items:
        shown.add_row(item["id"], item["name"], _status(item))
    people().print(shown)


async def show_one(connection: Connection, kind: str, identifier: str) -> None:
    """Shows the one of this id. Ends the process with 1 where there is none."""
    found = [item for item in await _found(connection, kind, "") if item["id"] == identifier]
    if not found:
        fail(connection, EXIT_REFUSED, f"there is no {kind} {identifier!r}")
    _tell(connection, found[0])


async def create(connection: Connection, kind: str, body: dict[str, Any]) -> None:
    """Makes one."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            made = await edge.post(f"/{kind}s", body)
    if connection.json:
        print_json(made)
    else:
        print(made["id"])


async def update(connection: Connection, kind: str, identifier: str, changes: dict[str, Any]) -> None:
    """Changes what is given of one; what is None stays."""
    body = {name: value for name, value in changes.items() if value is not None}
    if body.get("status"):
        body["status"] = f"{kind.upper()}_STATUS_{body['status'].upper()}"
    if not body:
        fail(connection, EXIT_USE, "what is to change?")
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.put(f"/{kind}s/{identifier}", body)
    _tell(connection, done)


async def _found(connection: Connection, kind: str, search: str) -> list[dict[str, Any]]:
    with refusals_told(connection):
        async with connected(connection) as edge:
            return [item async for item in edge.each(f"/{kind}s", q=search)]


def _tell(connection: Connection, item: dict[str, Any]) -> None:
    if connection.json:
        print_json(item)
        return
    for name in ("id", "name"):
        print(f"{name:12} {item[name]}")
    print(f"{'status':12} {_status(item)}")
    if "origins" in item:
        print(f"{'origins':12} {', '.join(item['origins'])}")


def _status(item: dict[str, Any]) -> str:
    return str(item["status"].rpartition("_")[2].lower())
