"""What row-level security would cost the play path: `python -m ops.benchmarks.rls`.

A policy compares each row's tenant_id with a setting of the session. On a pool that serves every tenant the
setting has to be right for each statement, so it is not the policy alone that costs:

    none         as the tables' owner, for whom the policies do not hold: how Tombola runs
    policy       policies, the setting made once for the connection: what the check itself costs, and no more
    two trips    set_config before each statement
    transaction  BEGIN, set_config for the transaction, the statement, COMMIT

Inside the statement it cannot be: its parts are planned and begun before any of them would have set it
(shown at the end: such a statement is refused).

Without fsync, which would hide it all, the ways take turns over many rounds on one database; medians are
printed, since the machine has other things to do.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any, Final, NamedTuple

import asyncpg
import psutil

import sql
from ops.devstack import DISPOSABLE, Postgres
from runtime import ids
from runtime.actors.committer import PARTS, Changes, statement
from sql.migrate import migrate

TENANT: Final = "tenant_bench"
SETTING: Final = "tombola.tenant_id"
SET: Final = "SELECT set_config($1, $2, $3)"
DAY: Final = date(2026, 11, 21)
ROUNDS: Final = 60
BATCHES: Final = {1: 60, 16: 20, 256: 4}
"""Plays of a statement -> statements of a round."""

Way = Callable[[asyncpg.Connection, tuple[Any, ...]], Awaitable[Any]]


def changes(plays: int) -> Changes:
    """What so many plays change, each by a player of its own, each with a prize that is delivered at once."""
    made = Changes()
    for _ in range(plays):
        player, play, reward = ids.make("player"), ids.make("play"), ids.make("reward")
        outcome = b'{"rewards":[{"prize_id":"p1","name":"Mug","quantity":1,"value":5}],"metadata":{"slot_index":1}}'
        made.plays.append(
            (play, "game_1", player, "sess_" + play * 4, 1, b"s" * 32, "", b"{}", outcome, 0, 1, 0, None, None)
        )
        made.count_play("game_1", player, DAY, cap=0, day_cap=0)
        made.take_prize("p1", player, 1, DAY, stocked=True, per_user=0, per_day=0)
        named = (reward, player, "p1", "camp_1", "game_1", play, "", "Mug", "goods", 5.0, 1, "fulfilled", 0)
        made.rewards.append(named)
        made.tasks.append((ids.make("task"), reward, "p1", "camp_1", player, "none", "delivered"))
    return made


def text_of(arguments: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The statement with the parts that are needed, and its values, as the committer sends them."""
    text, taken = statement(frozenset(part for part, rows in zip(PARTS, arguments, strict=True) if rows))
    return text, [TENANT, 0, *(arguments[index] for index in taken)]


async def bare(connection: asyncpg.Connection, arguments: tuple[Any, ...]) -> Any:
    text, values = text_of(arguments)
    return await connection.fetchrow(text, *values)


async def two_trips(connection: asyncpg.Connection, arguments: tuple[Any, ...]) -> Any:
    await connection.fetchval(SET, SETTING, TENANT, False)
    return await bare(connection, arguments)


async def transaction(connection: asyncpg.Connection, arguments: tuple[Any, ...]) -> Any:
    async with connection.transaction():
        await connection.fetchval(SET, SETTING, TENANT, True)
        return await bare(connection, arguments)


class Cost(NamedTuple):
    """Microseconds of one statement: on the clock (the median over the rounds), and of the backend's processor."""

    clock: float
    processor: float


async def measure(ways: dict[str, tuple[asyncpg.Connection, Way]], plays: int) -> dict[str, Cost]:
    """What a statement of so many plays costs, by way."""
    clock: dict[str, list[float]] = {name: [] for name in ways}
    processor = dict.fromkeys(ways, 0.0)
    for _ in range(ROUNDS):
        for name, (connection, way) in ways.items():
            batches = [changes(plays).arguments() for _ in range(BATCHES[plays])]
            backend = psutil.Process(connection.get_server_pid())
            busy, began = sum(backend.cpu_times()[:2]), time.perf_counter()
            for arguments in batches:
                await way(connection, arguments)
            clock[name].append((time.perf_counter() - began) / len(batches) * 1e6)
            processor[name] += (sum(backend.cpu_times()[:2]) - busy) / len(batches) / ROUNDS * 1e6
    return {name: Cost(statistics.median(clock[name]), processor[name]) for name in ways}


async def connect(url: str, role: str = "") -> asyncpg.Connection:
    settings = {"jit": "off", "plan_cache_mode": "force_generic_plan"}
    connection: asyncpg.Connection = await asyncpg.connect(url, server_settings=settings)
    if role:
        await connection.execute(f"SET ROLE {role}")
    await connection.set_type_codec(
        "json", schema="pg_catalog", encoder=lambda value: value, decoder=lambda data: data, format="binary"
    )
    return connection


async def guarded(owner: asyncpg.Connection) -> None:
    """Policies on every table that has a tenant, and a role that they hold for."""
    await owner.execute("CREATE ROLE app; GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    tables = await owner.fetch("SELECT table_name FROM information_schema.columns WHERE column_name = 'tenant_id'")
    for (table,) in tables:
        if table in TABLES:
            await owner.execute(
                f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
                f" CREATE POLICY own ON {table} USING (tenant_id = current_setting('{SETTING}', true))"
            )


TABLES: Final = frozenset(
    line.split()[2] for line in sql.SCHEMA.read_text().splitlines() if line.startswith("CREATE TABLE ")
)


async def prepared(postgres: Postgres, name: str) -> asyncpg.Connection:
    """The owner's connection to a migrated database with one prize."""
    postgres.psql(f"create database {name}")
    await migrate(postgres.url(name))
    owner = await connect(postgres.url(name))
    await owner.execute(f"INSERT INTO tenants (tenant_id, name) VALUES ('{TENANT}', 'Bench')")
    await owner.execute(f"INSERT INTO stock VALUES ('{TENANT}', 'p1', 1000000000, 1000000000, 0)")
    return owner


async def run(postgres: Postgres) -> None:
    owner = await prepared(postgres, "walled")
    await guarded(owner)
    apps = [await connect(postgres.url("walled"), "app") for _ in range(3)]
    try:
        await bare(apps[0], changes(1).arguments())
        raise SystemExit("the policies do not hold")
    except asyncpg.InsufficientPrivilegeError as error:
        print(f"without the setting: {error}")
    await apps[0].fetchval(SET, SETTING, TENANT, False)
    ways: dict[str, tuple[asyncpg.Connection, Way]] = {
        "none": (owner, bare),
        "policy": (apps[0], bare),
        "two trips": (apps[1], two_trips),
        "transaction": (apps[2], transaction),
    }
    for plays in BATCHES:
        costs = await measure(ways, plays)
        print(f"{plays} plays a statement, us on the clock and of the backend's processor")
        for name, cost in costs.items():
            over = [f"{mine:8.0f} ({mine / base - 1:+4.0%})" for mine, base in zip(cost, costs["none"], strict=True)]
            print(f"    {name:12}" + " ".join(over))
    await _inside(await connect(postgres.url("walled"), "app"))


async def _inside(connection: asyncpg.Connection) -> None:
    text, values = text_of(changes(1).arguments())
    setting = f"WITH scope AS MATERIALIZED (SELECT set_config('{SETTING}', $1::text, true) AS it),"
    text = text.replace("WITH", setting, 1).replace("\nSELECT\n", "\nSELECT (SELECT it FROM scope),\n", 1)
    assert "(SELECT it FROM scope)" in text
    try:
        await connection.fetchrow(text, *values)
        print("inside the statement: works")
    except asyncpg.PostgresError as error:
        print(f"inside the statement: {error}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tombola-rls-") as directory:
        Path(directory).chmod(0o711)
        postgres = Postgres(Path(directory) / "postgres", DISPOSABLE)
        postgres.start()
        try:
            asyncio.run(run(postgres))
        finally:
            postgres.stop()


if __name__ == "__main__":
    main()
