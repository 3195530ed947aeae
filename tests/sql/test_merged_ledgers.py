"""Two ledgers become one: each entry says what both had by then, and that costs what the two ledgers are long."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

import asyncpg
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

import sql
from runtime.stores.database import Database
from tests.support.commits import TENANT, filled
from tests.support.invariants import CHAIN, LEDGERS, check_sums
from tests.support.statements import undone

MERGING = sql.load("merging")
WHO = (TENANT, "gus", "ann")
"""The guest and the player, who has five coins from before."""


class Entry(NamedTuple):
    """A movement at a moment. Two may be of one: then their ids say which was first."""

    player_id: str
    currency: str
    amount: int
    seq: int


@pytest_asyncio.fixture(scope="module")
async def shared(module_database_url: str) -> AsyncIterator[Database]:
    async with filled(module_database_url) as database:
        await database.execute(
            "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount,"
            " balance_after, reason, reference_id)"
            " VALUES ($1, 'entry', 0, 'camp', 'coin', 'ann', 5, 5, 'adjustment', '')",
            TENANT,
        )
        yield database


async def write(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    held = {("ann", "coin"): (5, 0)}
    rows = []
    for nth, entry in enumerate(entries):
        wallet = (entry.player_id, entry.currency)
        balance = held.get(wallet, (0, 0))[0] + entry.amount
        held[wallet] = (balance, entry.seq)
        rows.append((TENANT, f"entry_{nth:06}", entry.seq, entry.currency, entry.player_id, entry.amount, balance))
    await connection.executemany(
        "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,"
        " reason, reference_id) VALUES ($1, $2, $3, 'camp', $4, $5, $6, $7, 'adjustment', '')",
        rows,
    )
    await connection.executemany(
        "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance, seq)"
        " VALUES ($1, $2, 'camp', $3, $4, $5)"
        " ON CONFLICT (tenant_id, player_id, scope_key, currency) DO UPDATE SET"
        " balance = excluded.balance, seq = excluded.seq",
        [(TENANT, *wallet, *now) for wallet, now in held.items()],
    )


@st.composite
def some_entries(draw: st.DrawFn) -> list[Entry]:
    """What guest and player have moved, by turns; some of it at one moment."""
    kinds = st.tuples(st.sampled_from(["gus", "ann"]), st.sampled_from(["coin", "leaf", "star"]), st.integers(1, 9))
    moments = draw(st.lists(st.tuples(kinds, st.booleans()), max_size=14))
    seq, entries = 1, []
    for (player, currency, amount), later in moments:
        seq += later
        entries.append(Entry(player, currency, amount, seq))
    return entries


@tried(max_examples=60)
@given(entries=some_entries())
async def test_merged_ledger_entries_hold_the_running_sum_of_both(shared: Database, entries: list[Entry]) -> None:
    async with shared.connection() as connection, undone(connection):
        await write(connection, entries)
        for step in ("lock_balances", "move_balances", "move_ledger"):
            await connection.execute(MERGING[step], *WHO)
        await check_sums(connection, LEDGERS, CHAIN)
        assert not await connection.fetch("SELECT FROM ledger_entries WHERE player_id = 'gus'")


LONG, SHORT, CURRENCIES = 3_000, 60, 20


@pytest.mark.parametrize("player_first", [True, False], ids=["before the guest's", "after the guest's"])
async def test_merged_ledger_is_read_once_whatever_the_guest_has(shared: Database, player_first: bool) -> None:
    own = [Entry("ann", "coin", 1, seq) for seq in range(1, LONG + 1)]
    start = LONG + 1 if player_first else -SHORT
    guests = [Entry("gus", f"item {nth % CURRENCIES}", 1, start + nth) for nth in range(SHORT)]
    async with shared.connection() as connection, undone(connection):
        await write(connection, own + guests if player_first else guests + own)
        await connection.execute("ANALYZE ledger_entries, balances")
        await connection.execute(MERGING["move_balances"], *WHO)
        plan = await connection.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) " + MERGING["move_ledger"], *WHO)
        # Reading it again for each currency would add 20 times, for each entry of the guest 60 times.
        assert rows_seen(plan[0]["Plan"]) < 15 * (LONG + SHORT), plan
        await check_sums(connection, LEDGERS, CHAIN)


def rows_seen(node: dict[str, Any]) -> float:
    removed = [node.get(f"Rows Removed by {what}", 0) for what in ("Filter", "Join Filter", "Index Recheck")]
    own = node["Actual Loops"] * (node["Actual Rows"] + sum(removed))
    return float(own + sum(rows_seen(child) for child in node.get("Plans", ())))
