"""The tables of tenants can be replicated row by row."""

import re

import asyncpg

import sql
from sql.tables import INSTALLATION, tenant_tables


async def test_tables_are_of_tenants_or_of_the_installation(pool: asyncpg.Pool) -> None:
    stored = await pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert {row["tablename"] for row in stored} == {*tenant_tables(), *INSTALLATION, "schema_migration"}


async def test_tenant_tables_accept_a_publication_with_a_row_filter(pool: asyncpg.Pool) -> None:
    tables = ", ".join(f"{name} WHERE (tenant_id = 'tenant_1')" for name in tenant_tables())
    async with pool.acquire() as connection, connection.transaction():
        # A filter on a column of a domain type is refused, as is one outside the replica identity at the first UPDATE.
        await connection.execute(f"CREATE PUBLICATION moved FOR TABLE {tables}")
        filtered = await connection.fetchval("SELECT count(*) FROM pg_publication_tables WHERE rowfilter IS NOT NULL")
        await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ('tenant_1', 'One')")
        await connection.execute("UPDATE tenants SET name = 'First' WHERE tenant_id = 'tenant_1'")
        await connection.execute("DROP PUBLICATION moved")
    assert filtered == len(tenant_tables())


async def test_rows_of_every_tenant_table_can_be_compared(pool: asyncpg.Pool) -> None:
    query = await pool.fetchval(sql.load("moving")["compare"], "tenant_1", list(tenant_tables()))
    of_no_row = re.sub(r" FROM (\w+) WHERE tenant_id = 'tenant_1'", r" FROM (SELECT (NULL::\1).*) AS t", query)
    # A column whose type has no hash fails also where it is NULL.
    assert {row["name"] for row in await pool.fetch(of_no_row)} == set(tenant_tables())
