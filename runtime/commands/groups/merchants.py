"""`tombola merchants show`."""

from __future__ import annotations

from runtime.commands.connection import DEFAULTS, EXIT_REFUSED, Connection, connected, fail, refusals_told
from runtime.commands.loop import app_of, show

app = app_of("merchants")


@app.command(name="show")
async def show_merchant(merchant: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a merchant."""
    await show_listed(connection, "merchant", merchant)


async def show_listed(connection: Connection, kind: str, identifier: str) -> None:
    """Shows the tenant or merchant of this id, which is only found in the list. Ends with 1 where there is none."""
    with refusals_told(connection):
        async with connected(connection) as edge:
            found = [item async for item in edge.each(f"/{kind}s") if item["id"] == identifier]
    if not found:
        fail(connection, EXIT_REFUSED, f"there is no {kind} {identifier!r}")
    show(connection, f"{kind}s update", {}, found[0])
