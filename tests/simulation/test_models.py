"""The models of the play path's statements answer as PostgreSQL does: what runs have asked is asked again, of both."""

import asyncio
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import asyncpg

from ops.simulation.auditing import put
from ops.simulation.postgres import MODELS, TABLES, WRITE, Ran, Row
from ops.simulation.run import Result, plan_of, run
from runtime.stores.database import Database
from sql.guards import guard_of

SEEDS = range(12)
LONG_AGO = 1_700_000_000

CHANGED = ("tenants", "campaigns", "stock")
"""Tables whose rows staff change; to others they add."""

CLOCKS = """
CREATE SCHEMA simulated;
CREATE FUNCTION simulated.now() RETURNS timestamptz LANGUAGE sql
    AS $$ SELECT to_timestamp(current_setting('simulated.now')::float8 / 1000000) $$;
CREATE FUNCTION simulated.clock_timestamp() RETURNS timestamptz LANGUAGE sql
    AS $$ SELECT to_timestamp(current_setting('simulated.clock')::float8 / 1000000) $$;
"""
TIMES = "SELECT set_config('simulated.now', $1, false), set_config('simulated.clock', $2, false)"


def test_models_answer_as_postgres(database_url: str) -> None:
    runs = [run(plan_of(seed)) for seed in SEEDS]
    assert {result.violation for result in runs} == {None}
    asyncio.run(_compare_all(database_url, runs))
    assert {_name(one.text) for result in runs for one in result.ran} == {*MODELS, WRITE, "COMMIT"}, "each is tried"


async def _compare_all(url: str, runs: list[Result]) -> None:
    database = Database(url, size=1, acquire_seconds=5, statement_seconds=20)
    await database.start()
    async with database.connection() as connection:
        await connection.execute(CLOCKS)
        await connection.execute("SET search_path = simulated, pg_catalog, public")
        for result in runs:
            await (outside := connection.transaction()).start()
            for group in _transactions(result.ran):
                await _compare(connection, group)
            await outside.rollback()
    await database.close()


async def _write(connection: asyncpg.Connection, changes: dict[str, dict[Any, Row]]) -> None:
    for table, rows in changes.items():
        for row in rows.values():
            key = " AND ".join(f"{name} = ${nth}" for nth, name in enumerate(TABLES[table].key, 1))
            if table in CHANGED:
                await connection.execute(f"DELETE FROM {table} WHERE {key}", *(row[name] for name in TABLES[table].key))
            await put(connection, table, [row])


def _transactions(ran: list[Ran]) -> Iterator[list[Ran]]:
    """The statements of each transaction, in the order in which these ended: nobody else wrote meanwhile."""
    last = {one.tx: nth for nth, one in enumerate(ran)}
    for _, group in groupby(sorted(ran, key=lambda one: last[one.tx]), key=lambda one: one.tx):
        yield list(group)


async def _compare(connection: asyncpg.Connection, group: list[Ran]) -> None:
    transaction = connection.transaction()
    await transaction.start()
    for one in (one for one in group if one.text != "COMMIT"):
        await connection.execute(TIMES, str(one.began), str(one.at))
        if one.text == WRITE:
            await _write(connection, *one.args)
            continue
        try:
            if isinstance(one.result, int):
                found: Any = int((await connection.execute(one.text, *one.args)).rpartition(" ")[2])
            else:
                found = [dict(row) for row in await connection.fetch(one.text, *one.args)]
        except asyncpg.PostgresError as error:
            assert f"guard {guard_of(error)}" == one.result, one
            break
        assert _plain(found) == _plain(one.result), (_name(one.text), one.args)
    if group[-1].text == "COMMIT":
        await transaction.commit()
    else:
        await transaction.rollback()


def _name(text: str) -> str:
    return text[3 : text.index("\n")] if text.startswith("-- ") else text


def _plain(value: Any) -> Any:
    """An answer without the times that tables stamp, and in one order."""
    if isinstance(value, dict):
        return {name: _plain(own) for name, own in sorted(value.items()) if not name.endswith("_at")}
    if isinstance(value, list):
        return sorted((_plain(one) for one in value), key=repr)
    return "a time" if isinstance(value, int) and value > LONG_AGO else value
