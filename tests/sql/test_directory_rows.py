import asyncio

import asyncpg
import pytest

import sql
from ops.servers.base import free_port
from runtime.stores.database import Database
from sql.hosts import Hosts, hosts_of
from tests.support.locks import blocked
from tests.support.waiting import until

SQL = sql.load("directory")


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("postgresql://a/d", [("a", None)]),
        ("postgresql://u:p@a:1,[::1]:2,c/d?target_session_attrs=primary", [("a", 1), ("::1", 2), ("c", None)]),
        ("postgresql:///d?host=a,b&port=1,2", [("a", 1), ("b", 2)]),
        ("postgresql:///d?host=/run/a,b&port=3", [("/run/a", 3), ("b", 3)]),
    ],
)
def test_hosts_are_read_as_libpq_reads_them(url: str, hosts: list[tuple[str, int | None]]) -> None:
    assert hosts_of(url) == hosts


async def test_host_that_refuses_or_stays_silent_leaves_time_for_the_next(postgres_url: str) -> None:
    async def stay_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)

    connected: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(stay_silent, "127.0.0.1", 0)
    async with silent:
        first = f"127.0.0.1:{silent.sockets[0].getsockname()[1]},127.0.0.1:{free_port()},127.0.0.1"
        url = postgres_url.replace("@127.0.0.1", f"@{first}") + "?target_session_attrs=read-write"
        hosts = Hosts(url)
        for _ in range(2):
            connection = await hosts.connect(6.0)
            assert await connection.fetchval("SELECT 1") == 1
            await connection.close()
        assert len(connected) == 1, "the host that answered is tried first"
        for writer in connected:
            writer.close()


async def test_switch_is_refused_once_a_process_has_ended_the_pause(pool: asyncpg.Pool) -> None:
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu") == "tenant_1"
    assert await pool.fetchval(SQL["switch"], "tenant_1") is None, "it is not paused"
    for seconds, ended in ((0.0, "UPDATE 1"), (60.0, "UPDATE 0")):
        await pool.fetchval(SQL["pause"], "tenant_1", seconds)
        [row] = await pool.fetch(SQL["changes"], await pool.fetchval("SELECT now() - interval '1 hour'"), 0.0)
        assert (row["database"], row["paused"], row["expired"]) == ("home", True, seconds == 0)
        assert await pool.execute(SQL["end_pause"], "tenant_1") == ended
        assert (await pool.fetchval(SQL["switch"], "tenant_1") is None) is (seconds == 0)
    now = dict(await pool.fetchrow(SQL["get"], "tenant_1"))
    assert now == {"database": "eu", "moving_to": "", "moved_from": "home"}


async def test_source_is_not_quiet_while_a_first_lock_is_waited_for(empty: Database, pool: asyncpg.Pool) -> None:
    async with pool.acquire() as holder, holder.transaction():
        await holder.execute("LOCK TABLE tenants")
        waiting = await blocked(pool, empty.execute("SELECT FROM tenants FOR UPDATE"))
        old = "SELECT bool_or(xact_start < now() - interval '2 s' AND wait_event_type = 'Lock') FROM pg_stat_activity"
        await until(lambda: pool.fetchval(old))
        assert not await pool.fetchval(sql.load("moving")["is_quiet"], await pool.fetchval("SELECT now()"))
    await waiting


async def test_move_that_was_given_up_is_not_switched(pool: asyncpg.Pool) -> None:
    await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu")
    await pool.fetchval(SQL["pause"], "tenant_1", 60.0)
    assert await pool.fetchval(SQL["give_up"], "tenant_1") == "tenant_1"
    assert await pool.fetchval(SQL["switch"], "tenant_1") is None
    assert await pool.fetchval(SQL["pause"], "tenant_1", 60.0) is None
    assert await pool.fetchval(SQL["give_up"], "tenant_1") is None


async def test_move_does_not_begin_before_the_old_rows_are_removed(pool: asyncpg.Pool) -> None:
    await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu")
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "us") is None, "it is being moved to eu"
    await pool.fetchval(SQL["pause"], "tenant_1", 60.0)
    await pool.fetchval(SQL["switch"], "tenant_1")
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "us") is None, "it lives in eu"
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "eu", "us") is None, "home has old rows"
    await pool.execute(SQL["finish"], "tenant_1")
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "eu", "us") == "tenant_1"
