"""`tombola tokens list|create|revoke`: API tokens of machines, which the admin edge makes and ends."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter, validators

from runtime.commands.confirm import Yes, confirmed
from runtime.commands.connection import DEFAULTS, Connection, connected, people, print_json, refusals_told, table

app = App(name="tokens", help="List API tokens of machines; create and revoke them.")

DAY_SECONDS: Final = 86_400

Role = Literal["admin", "designer", "reward_manager"]


@app.command(name="list")
async def list_tokens(*, made_by: str = "", connection: Connection = DEFAULTS) -> None:
    """List API tokens, the newest first, those that ended too.

    Parameters
    ----------
    made_by
        Only those that this subject made, as the audit log has it.
    """
    with refusals_told(connection):
        async with connected(connection) as edge:
            items = [item async for item in edge.each("/tokens", made_by=made_by)]
    if connection.json:
        print_json(items)
        return
    shown = table("id", "name", "roles", "merchant", "made by", "ends", "last used")
    for item in items:
        used = _day(item["last_used_at"]) if item["last_used_at"] else "never"
        row = (item["name"], ", ".join(item["roles"]), item["merchant_id"], item["made_by"])
        shown.add_row(item["id"], *row, _end(item), used)
    people().print(shown)


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
    with refusals_told(connection):
        async with connected(connection) as edge:
            made = await edge.post("/tokens", {**body, "expires_at": int(time.time()) + days * DAY_SECONDS})
    if connection.json:
        print_json(made)
    else:
        print(made["secret"])


@app.command(name="revoke")
async def revoke_token(token: str, /, *, yes: Yes = False, connection: Connection = DEFAULTS) -> None:
    """End an API token: every admin edge refuses it within about a second.

    Parameters
    ----------
    token
        Its id.
    """
    confirmed(connection, yes, f"Revoke {token}? Whatever shows it is refused from then on.")
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.delete(f"/tokens/{token}")
    if connection.json:
        print_json(done)
    else:
        people().print(f"{token} is revoked")


def _end(item: dict[str, Any]) -> str:
    return f"revoked {_day(item['revoked_at'])}" if item["revoked_at"] else _day(item["expires_at"])


def _day(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
