"""`tombola tenants show`."""

from __future__ import annotations

from runtime.commands.connection import DEFAULTS, Connection
from runtime.commands.groups.merchants import show_listed
from runtime.commands.loop import app_of

app = app_of("tenants")


@app.command(name="show")
async def show_tenant(tenant: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a tenant."""
    await show_listed(connection, "tenant", tenant)
