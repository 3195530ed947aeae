"""`tombola tokens list|create|revoke`: API tokens of machines, which the admin edge makes and ends."""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from cyclopts import Parameter, validators

from runtime.commands.connection import DEFAULTS, Connection, connected, print_done
from runtime.commands.loop import app_of

app = app_of("tokens")

DAY_SECONDS: Final = 86_400

Role = Literal["admin", "designer", "reward_manager"]


@app.command(name="create")
async def create_token(
    name: str,
    /,
    *,
    role: Annotated[tuple[Role, ...], Parameter(negative=())],
    merchant: str = "",
    days: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 90,
    connection: Connection = DEFAULTS,
) -> None:
    """Make an API token, and print it: it is shown this once. Give a machine no more than it needs.

    Parameters
    ----------
    name
        Who it is, with its id, in the audit log.
    role
        What it may do, of what you may: admin, designer, reward_manager. Give it several times for several.
    merchant
        The id of the merchant that it acts for, if any.
    days
        How long it is good for.
    """
    body = {"name": name, "roles": list(role), "merchant_id": merchant}
    async with connected(connection) as edge:
        made = await edge.post("/tokens", {**body, "expires_at": int(time.time()) + days * DAY_SECONDS})
    print_done(connection, made, made["secret"])
