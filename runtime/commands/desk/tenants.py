"""`tombola tenants list|show|create|update`: tenants, for who runs the service (role platform)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from runtime.commands.connection import DEFAULTS, Connection
from runtime.commands.desk import owners

app = App(name="tenants", help="List and show tenants; create, rename and suspend them (role platform).")

Origins = Annotated[
    tuple[str, ...] | None,
    Parameter(name="--origin", negative="--no-origins", help="Origins of pages that may show it; several times."),
]


@app.command(name="list")
async def list_tenants(search: str = "", /, *, connection: Connection = DEFAULTS) -> None:
    """List tenants, the newest first, or those with this in their name; without the role platform your own."""
    await owners.show_all(connection, "tenant", search)


@app.command(name="show")
async def show_tenant(tenant: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a tenant."""
    await owners.show_one(connection, "tenant", tenant)


@app.command(name="create")
async def create_tenant(name: str, /, *, origin: Origins = None, connection: Connection = DEFAULTS) -> None:
    """Make a tenant, and print its id."""
    await owners.create(connection, "tenant", {"name": name, "origins": list(origin or ())})


@app.command(name="update")
async def update_tenant(
    tenant: str,
    /,
    *,
    name: str | None = None,
    status: owners.Status | None = None,
    origin: Origins = None,
    connection: Connection = DEFAULTS,
) -> None:
    """Rename, suspend or restore a tenant, or say whose pages may show it: what is not said stays.

    Parameters
    ----------
    tenant
        Its id.
    name
        Its new name.
    status
        Suspended, a tenant does nothing until it is active again.
    """
    origins = None if origin is None else list(origin)
    await owners.update(connection, "tenant", tenant, {"name": name, "status": status, "origins": origins})
