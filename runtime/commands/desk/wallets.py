"""`tombola wallets`: a player's balances and what moved them, and a movement by hand."""

from __future__ import annotations

from typing import Any

from cyclopts import App

from runtime.commands.connection import DEFAULTS, Connection, connected, people, print_json, refusals_told, table

app = App(name="wallets", help="See a player's balances and what moved them; adjust one.")


@app.command(name="show")
async def show_wallet(player: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show a player's balances."""
    items = await _all(connection, f"/players/{player}/wallet")
    if connection.json:
        print_json(items)
        return
    shown = table("of", "currency", "balance")
    for item in items:
        shown.add_row(item["scope_key"], item["currency"], str(item["balance"]))
    people().print(shown)


@app.command(name="ledger")
async def show_ledger(player: str, /, *, connection: Connection = DEFAULTS) -> None:
    """Show what moved a player's balances, newest first."""
    items = await _all(connection, f"/players/{player}/ledger")
    if connection.json:
        print_json(items)
        return
    shown = table("id", "currency", "amount", "left", "reason", "for")
    for item in items:
        reason = item["reason"].removeprefix("LEDGER_REASON_").lower()
        row = (item["currency"], f"{item['amount']:+}", str(item["balance_after"]), reason, item["reference_id"])
        shown.add_row(item["id"], *row)
    people().print(shown)


@app.command(name="adjust")
async def adjust(
    player: str,
    scope: str,
    currency: str,
    amount: int,
    /,
    *,
    reference: str,
    key: str = "",
    connection: Connection = DEFAULTS,
) -> None:
    """Add to a balance, or take from it: `-- -5` takes five.

    Parameters
    ----------
    player
        Its id.
    scope
        Whose wallet: the id of a campaign, of a merchant, or of the tenant.
    currency
        Which: points, or an item of a game.
    amount
        By how much.
    reference
        Why: it stays in the ledger.
    key
        An Idempotency-Key: under one the balance is moved once, however often this is run.
    """
    body = {"player_id": player, "scope_key": scope, "currency": currency, "amount": amount, "reference_id": reference}
    with refusals_told(connection):
        async with connected(connection) as edge:
            done = await edge.post("/wallet/adjustments", body, key=key)
    if connection.json:
        print_json(done)
    else:
        people().print(f"{done['balance_after']} {currency} left")


async def _all(connection: Connection, path: str) -> list[dict[str, Any]]:
    with refusals_told(connection):
        async with connected(connection) as edge:
            return [item async for item in edge.each(path)]
