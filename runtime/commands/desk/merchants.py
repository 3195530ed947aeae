"""`tombola merchants list|show|create|update`: a tenant's merchants."""

from __future__ import annotations

from cyclopts import App

from runtime.commands.connection import DEFAULTS, Connection
from runtime.commands.desk import owners

app = App(name="merchants", help="List and show merchants; create, rename and suspend them.")


@app.command(name="list")
async def list_merchants(search: str = "", /, *, connection: Connection = DEFAULTS) -> None:
    """List merchants, the newest first, or those with this in their name."""
    await owners.show_all(connection, "merchant", search)


@app.command(name="show")
async def show_merchant(merchant: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a merchant."""
    await owners.show_one(connection, "merchant", merchant)


@app.command(name="create")
async def create_merchant(name: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Make a merchant, and print its id."""
    await owners.create(connection, "merchant", {"name": name})


@app.command(name="update")
async def update_merchant(
    merchant: str,
    /,
    *,
    name: str | None = None,
    status: owners.Status | None = None,
    connection: Connection = DEFAULTS,
) -> None:
    """Rename, suspend or restore a merchant: what is not said stays.

    Parameters
    ----------
    merchant
        Its id.
    name
        Its new name.
    status
        Suspended, a merchant does nothing until it is active again.
    """
    await owners.update(connection, "merchant", merchant, {"name": name, "status": status})
