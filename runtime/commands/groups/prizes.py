"""`tombola prizes`: lists, shows, creates and updates prizes, and changes their stock."""

from __future__ import annotations

from runtime.commands.builder import app_of
from runtime.commands.connection import (
    DEFAULTS,
    Connection,
    connected,
    print_json,
    print_one,
)

app = app_of("prizes")


@app.command
async def show(prize: str, /, *, moves: int = 10, connection: Connection = DEFAULTS) -> None:
    """Show a prize and its latest stock moves.

    Parameters
    ----------
    prize
        The prize's id.
    moves
        The number of latest stock moves.
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
