"""`tombola prizes`: list, show, make and change prizes; move their stock, for a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cyclopts import App

from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    people,
    print_json,
    print_one,
    refusals_told,
    table,
)
from runtime.commands.desk.filing import filed

app = App(name="prizes", help="List, show, make and change prizes; move their stock.")


@app.command(name="list")
async def list_prizes(
    *,
    status: str = "",
    campaign: str = "",
    type: str = "",
    q: str = "",
    most: int = 100,
    connection: Connection = DEFAULTS,
) -> None:
    """List prizes with what is left of them, the newest first.

    Parameters
    ----------
    status
        Only those of this status: active, archived. All but archived where it is left out.
    campaign
        Only those of this campaign.
    type
        Only those of this type, such as goods.
    q
        Only those whose name holds this.
    most
        How many at most.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = await edge.first("/prizes/summary", most, status=status, campaign_id=campaign, type=type, q=q)
    if connection.json:
        print_json(items)
        return
    shown = table("id", "prize", "type", "left", "given", "codes")
    for item in items:
        codes = str(item["codes_available"]) if item["channel"] == "voucher_code" else ""
        shown.add_row(item["prize_id"], item["name"], item["type"], _left(item), str(item["awarded"]), codes)
    people().print(shown)


@app.command
async def show(prize: str, /, *, moves: int = 10, connection: Connection = DEFAULTS) -> None:
    """Show a prize, and how its stock was moved.

    Parameters
    ----------
    prize
        Its id.
    moves
        How many of the stock's newest moves.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            found = await edge.get(f"/prizes/{prize}")
            moved = await edge.first(f"/prizes/{prize}/stock/moves", moves) if moves > 0 else []
    if connection.json:
        print_json({**found, "moves": moved})
        return
    print_one(connection, found)
    for move in moved:
        print(f"# {move['total_before']} -> {move['total_after']} by {move['actor']}: {move['reason'] or 'edited'}")


@app.command
async def create(file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Make a prize of a file.

    Parameters
    ----------
    file
        The YAML (or JSON) file of one prize, with the fields that `tombola prizes show` shows.
    """
    await _write(connection, file, "")


@app.command
async def update(prize: str, file: Path, /, *, connection: Connection = DEFAULTS) -> None:
    """Set the fields of a prize that a file gives; the others stay.

    Parameters
    ----------
    prize
        Its id.
    file
        The YAML (or JSON) file.
    """
    await _write(connection, file, prize)


@app.command
async def stock(
    prize: str,
    /,
    *,
    reason: str,
    change: int = 0,
    total: int = 0,
    unlimited: bool = False,
    key: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Move a prize's stock: by `change`, or to `total`, or to unlimited.

    Parameters
    ----------
    prize
        Its id.
    reason
        Why: it stays beside the move.
    change
        How many more, or fewer, there are.
    total
        How many there are in all.
    unlimited
        There are as many as are won.
    key
        An Idempotency-Key: under one it is moved once, however often this is run.
    """
    body = {"change": change, "total": total, "unlimited": unlimited, "reason": reason}
    with refusals_told(connection):
        async with connected(connection) as edge:
            move = await edge.post(f"/prizes/{prize}/stock", body, key=key)
    if connection.json:
        print_json(move)
    else:
        people().print(f"{move['total_before'] or 'unlimited'} -> {move['total_after'] or 'unlimited'}")


async def _write(connection: Connection, file: Path, prize: str) -> None:
    made = await filed(connection, file, "/prizes", prize)
    if connection.json:
        print_json(made)
    else:
        people().print(f"{made['prize_id']} {made['name']}")


def _left(item: dict[str, Any]) -> str:
    return f"{item['remaining']} of {item['total']}" if item["total"] else "unlimited"
