from typing import Final

import asyncpg
import pytest

import sql
from runtime.stores.database import Database
from tests.support.commits import TENANT
from tests.support.neighbours import PLAYER, surround

SQL: Final = sql.load("wallet")
MOVE: Final = SQL["move"]


async def move(
    database: Database, amount: int, *, player: str = "ann", currency: str = "coin"
) -> asyncpg.Record | None:
    return await database.fetchrow(
        MOVE, TENANT, player, "camp", currency, amount, f"entry_{player}_{currency}_{amount}", "adjustment", "", ""
    )


@pytest.mark.parametrize(
    ("amount", "player", "currency", "left"),
    [
        *((3, "ann", "coin", 8), (-5, "ann", "coin", 0), (-6, "ann", "coin", None), (0, "ann", "coin", None)),
        *((2, "bob", "coin", 2), (2, "ann", "leaf", 2), (-1, "bob", "coin", None), (0, "bob", "coin", None)),
    ],
)
async def test_balance_never_falls_below_zero_and_moves_alone(
    database: Database, amount: int, player: str, currency: str, left: int | None
) -> None:
    beside = await surround(database, TENANT, by=(PLAYER, "tenant_id", "scope_key", "currency"))
    entry = await move(database, amount, player=player, currency=currency)
    assert (None if entry is None else (entry["amount"], entry["balance_after"])) == (
        None if left is None else (amount, left)
    )
    balances = await database.fetch("SELECT * FROM balances WHERE tenant_id = $1 AND scope_key = 'camp'", TENANT)
    held = {(row["player_id"], row["currency"]): row["balance"] for row in balances}
    if left is not None:
        assert held[player, currency] == left
    else:
        assert (player, currency) not in held or held[player, currency] == 5
    query = "SELECT count(*) FROM ledger_entries WHERE tenant_id = $1 AND entry_id LIKE 'entry%'"
    assert await database.fetchval(query, TENANT) == (left is not None)
    assert await beside.changed(database) == {}


async def test_balance_is_read_of_the_one_wallet(database: Database) -> None:
    await surround(database, TENANT, by=(PLAYER, "scope_key", "currency"), spare=("ledger_entries",))
    await database.execute("UPDATE balances SET balance = 7 WHERE player_id <> 'ann' OR scope_key <> 'camp'")
    await database.execute("UPDATE balances SET balance = 8 WHERE currency <> 'coin'")
    rows = await database.fetch(SQL["balance"], TENANT, "ann", "camp", "coin")
    assert [row["balance"] for row in rows] == [5]


TARGETS: Final = [
    # Player, wallet and merchant; whether there is the player and the wallet, and whether who asks may move it.
    *(("gus", TENANT, "", (True, True, True)), ("nobody", TENANT, "", (False, True, True))),
    *(("gus", TENANT, "shop", (True, True, False)), ("gus", "ours", "", (True, True, True))),
    *(("gus", "ours", "shop", (True, True, True)), ("gus", "theirs", "shop", (True, False, False))),
    *(("gus", "of_none", "shop", (True, True, False)), ("gus", "shop", "", (True, True, True))),
    *(("gus", "shop", "shop", (True, True, True)), ("gus", "other", "shop", (True, False, False))),
    *(("gus", "unknown", "", (True, False, True)), ("gus", "", "", (True, False, True))),
    ("gus", "", "shop", (True, False, False)),
]


async def test_wallet_is_known_to_its_scope_and_moved_by_its_owner(database: Database) -> None:
    change = "INSERT INTO merchants (tenant_id, merchant_id, name) VALUES ($1, 'shop', 'S'), ($1, 'other', 'O')"
    await database.execute(change, TENANT)
    await database.execute(
        "INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name)"
        " VALUES ($1, 'ours', 'shop', 'C'), ($1, 'theirs', 'other', 'C'), ($1, 'of_none', '', 'C')",
        TENANT,
    )
    found = []
    for *arguments, _ in TARGETS:
        row = await database.fetchrow(SQL["target"], TENANT, *arguments)
        assert row is not None
        found.append((*arguments, (row["player"], row["scope"], row["own"])))
    assert found == TARGETS
