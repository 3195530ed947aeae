"""`tombola tokens list|create|revoke`: API tokens for machines."""

from __future__ import annotations

import time
from typing import Annotated, Final, Literal

from cyclopts import Parameter, validators

from runtime.commands.builder import app_of
from runtime.commands.connection import DEFAULTS, Connection, connected, print_result

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
    """Create an API token and print it. It is shown only once. Give a machine only the roles it needs.

    Parameters
    ----------
    name
        The name in the audit log, next to the id.
    role
        A role of the token, from your own: admin, designer, reward_manager. Repeat for several.
    merchant
        The id of the merchant it acts for, if any.
    days
        The life of the token in days.
    """
    body = {"name": name, "roles": list(role), "merchant_id": merchant}
    async with connected(connection) as edge:
        made = await edge.post("/tokens", {**body, "expires_at": int(time.time()) + days * DAY_SECONDS})
    print_result(connection, made, made["secret"])
