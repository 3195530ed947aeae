"""`tombola prizes`: list, show, make and change prizes; move their stock, for a reason."""

from __future__ import annotations

from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    print_json,
    print_one,
)
from runtime.commands.loop import app_of

app = app_of("prizes")


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
    async with connected(connection) as edge:
        found = await edge.get(f"/prizes/{prize}")
        moved = await edge.first(f"/prizes/{prize}/stock/moves", moves) if moves > 0 else []
    if connection.json:
        print_json({**found, "moves": moved})
        return
    print_one(connection, found)
    for move in moved:
        print(f"# {move['total_before']} -> {move['total_after']} by {move['actor']}: {move['reason'] or 'edited'}")
