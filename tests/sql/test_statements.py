import re
from typing import Final

import asyncpg
import pytest

import sql
from sql.tables import INSTALLATION, tenant_tables
from tests.support.furnished import Scene, new_scene
from tests.support.neighbours import PLAYER, TENANT, shape, surround
from tests.support.stack import Stack
from tests.support.transactions import TRANSACTIONS

UNSCOPED = {
    "tenancy.insert_tenant": "makes a tenant: its values are the row",
    "tenancy.list_tenants": "above any tenant; the caller asks for one of them unless it is the platform's",
    "directory.changes": "the places of every tenant, which each process remembers",
    "directory.counts": "numbers of tenants by database",
    "logins.settled": "a time, of no table",
    "logins.revocations": "the edges remember those of every tenant",
    "origins.known": "a browser's preflight names no tenant",
    "hosts.find": "a host names no tenant",
    "hosts.taken": "a host belongs to one tenant",
    **dict.fromkeys(
        (
            *("analytics.tenants", "fulfillment.tenants_with_due", "fulfillment.tenants_with_overdue"),
            *("rewards.tenants_with_expired", "erasure.tenants", "leaderboards.tenants_with_ending", "logins.tenants"),
            *("draws.tenants_with_due", "rotation.tenants", "backfill.tenants", "limits.tenants", "violations.tenants"),
            *("integrations.tenants_with_retries", "referrals.tenants", "assets.removing_tenants"),
        ),
        "names the tenants that a sweep then goes through one by one",
    ),
    "fulfillment.due": "a number for the operator's metrics, of every tenant together",
    "violations.open_counts": "numbers for the operator's metrics, of every tenant together",
}
"""Statements without one tenant, and why."""

STATEMENTS = [query for file in sql.files() for query in sql.load(file).described.values()]


TABLES = set(re.findall(r"^CREATE TABLE (\w+)", sql.SCHEMA.read_text(), re.MULTILINE))


def test_tables_lead_their_key_with_the_tenant() -> None:
    text = sql.SCHEMA.read_text()
    faults = []
    for table in TABLES:
        block = text[text.index(f"CREATE TABLE {table} (") :]
        block = block[: block.index("\n);") if "\n);" in block else None].split("\nCREATE ")[0]
        first = re.search(r'tenant_id\s+text COLLATE "C" NOT NULL( PRIMARY KEY|,)', block)
        if not first or not ("PRIMARY KEY (tenant_id" in block or "NOT NULL PRIMARY KEY" in block):
            faults.append(table)
    assert faults == []


async def test_statements_can_be_prepared(pool: asyncpg.Pool) -> None:
    refused = {}
    async with pool.acquire() as connection:
        for query in STATEMENTS:
            try:
                await connection.prepare(query.text)
            except asyncpg.PostgresError as error:
                refused[query.name] = str(error)
    assert refused == {}


def test_statements_reach_one_tenant() -> None:
    scoped = [query for query in STATEMENTS if query.name not in UNSCOPED]
    assert [fault for query in scoped for fault in unscoped_reads(query)] == []
    assert UNSCOPED.keys() <= {query.name for query in STATEMENTS}


def unscoped_reads(query: sql.Query) -> list[str]:
    text = re.sub(r"--[^\n]*|'[^']*'", " ", query.text)
    tables = set(re.findall(r"\b(?:FROM|JOIN|UPDATE|INTO)\s+(\w+)", text)) & TABLES
    faults = []
    # An INSERT of one row (or of unnested ones) whose first value is the tenant, $1.
    inserts = re.search(r"INSERT INTO \w+( AS \w+)?\s*\(\s*tenant_id\b[^)]*\)\s*(VALUES \(|SELECT )\$1\b", text)
    if tables and not re.search(r"tenant_id\s*=\s*(\$\d|n\.tenant_id)", text) and not inserts:
        faults.append(f"{query.name} reads {sorted(tables)} of every tenant")
    for table, where in reads(text):
        if not re.search(r"\btenant_id\b", where):
            faults.append(f"{query.name} reaches {table} without naming a tenant")
    return faults


def reads(text: str) -> list[tuple[str, str]]:
    """(table, the query that it stands in, from its FROM on) of each table that a query reads or changes."""
    found = []
    for part in parenthesised(text):
        for match in re.finditer(r"\b(?:FROM|JOIN|UPDATE)\s+(\w+)", part):
            if match[1] in TABLES:
                found.append((match[1], part))
    return found


def parenthesised(text: str) -> list[str]:
    """The text of each pair of parentheses that holds a query, its inner ones kept; and the whole."""
    found, opened = [text], []
    for index, character in enumerate(text):
        if character == "(":
            opened.append(index)
        elif character == ")" and opened:
            inner = text[opened.pop() + 1 : index]
            if re.match(r"\s*(SELECT|UPDATE|DELETE|INSERT|WITH)\b", inner):
                found.append(inner)
    return found


SWEEPS: Final = frozenset({"expire_rewards", "give_up_awaited"})


@pytest.fixture
async def scenes(module_stack: Stack) -> list[Scene]:
    return [await new_scene(module_stack) for _ in range(2)]


@pytest.mark.parametrize("name", [name for name in TRANSACTIONS if name not in SWEEPS])
async def test_transaction_changes_no_rows_of_its_neighbours(name: str, scenes: list[Scene]) -> None:
    _, prepare = TRANSACTIONS[name]
    alone, among = scenes
    await (await prepare(alone))
    work = await prepare(among)
    by = (TENANT,) if name in {"finalize", "move_campaign_to_another_zone"} else (TENANT, PLAYER)
    neighbours = await surround(among.stack.database, among.tenant_id, by=by)
    await work
    assert await neighbours.changed(among.stack.database) == {}
    database = among.stack.database
    assert await shape(database, among.tenant_id) == await shape(database, alone.tenant_id)


async def test_tables_are_of_tenants_or_of_the_installation(pool: asyncpg.Pool) -> None:
    stored = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert {row["tablename"] for row in stored} == {*tenant_tables(), *INSTALLATION, "schema_migration"}


async def test_rows_of_every_tenant_table_can_be_compared(pool: asyncpg.Pool) -> None:
    query = await pool.fetchval(sql.load("moving")["compare"], "tenant_1", list(tenant_tables()))
    of_no_row = re.sub(r" FROM (\w+) WHERE tenant_id = 'tenant_1'", r" FROM (SELECT (NULL::\1).*) AS t", query)
    # A column whose type has no hash fails also where it is NULL.
    assert {row["name"] for row in await pool.fetch(of_no_row)} == set(tenant_tables())
