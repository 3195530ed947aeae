"""The steps of a move in the directory: each only follows the one before it."""

import asyncpg

import sql

SQL = sql.load("directory")


async def test_switch_is_refused_close_to_the_end_of_the_pause(pool: asyncpg.Pool) -> None:
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu") == "tenant_1"
    assert await pool.fetchval(SQL["switch"], "tenant_1", 1.0) is None, "it is not paused"
    await pool.fetchval(SQL["pause"], "tenant_1", 0.9)
    assert await pool.fetchval(SQL["switch"], "tenant_1", 1.0) is None
    await pool.fetchval(SQL["pause"], "tenant_1", 60.0)
    [row] = await pool.fetch(SQL["changes"], await pool.fetchval("SELECT now() - interval '1 hour'"), 0.0)
    assert (row["database"], row["paused"]) == ("home", True)
    assert await pool.fetchval(SQL["switch"], "tenant_1", 1.0) is not None
    assert dict(await pool.fetchrow(SQL["get"], "tenant_1")) == {
        "database": "eu",
        "moving_to": "",
        "moved_from": "home",
    }


async def test_move_that_was_given_up_is_not_switched(pool: asyncpg.Pool) -> None:
    await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu")
    await pool.fetchval(SQL["pause"], "tenant_1", 60.0)
    assert await pool.fetchval(SQL["give_up"], "tenant_1") == "tenant_1"
    assert await pool.fetchval(SQL["switch"], "tenant_1", 1.0) is None
    assert await pool.fetchval(SQL["pause"], "tenant_1", 60.0) is None
    assert await pool.fetchval(SQL["give_up"], "tenant_1") is None


async def test_move_does_not_begin_before_the_old_rows_are_removed(pool: asyncpg.Pool) -> None:
    await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "eu")
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "us") is None, "it is being moved to eu"
    await pool.fetchval(SQL["pause"], "tenant_1", 60.0)
    await pool.fetchval(SQL["switch"], "tenant_1", 1.0)
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "home", "us") is None, "it lives in eu"
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "eu", "us") is None, "home has old rows"
    await pool.execute(SQL["finish"], "tenant_1")
    assert await pool.fetchval(SQL["begin_move"], "tenant_1", "eu", "us") == "tenant_1"
