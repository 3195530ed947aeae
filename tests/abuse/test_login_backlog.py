"""What logins leave behind is forgotten however much there is of it, and whoever's part of it cannot be."""

from __future__ import annotations

import asyncpg
import pytest

from runtime.operations import purging
from runtime.operations.players.challenges import OVER_ALL
from runtime.operations.purging import PURGE_BATCH, purge
from runtime.settings import Settings
from tests.support.stack import Stack, new_stack
from tests.support.waiting import until

ROWS = {
    "login_challenges": "(tenant_id, challenge_id, contact, contact_hash, requester, code_hash, strong, expires_at)"
    " SELECT $1, 'c' || n, 'x', 'x', 'x', 'x', false, now() - interval '1 day'",
    "login_rates": "(tenant_id, rate_key, full_at) SELECT $1, 'r' || n, now() - interval '1 day'",
    "login_guesses": "(tenant_id, contact_hash, requester, wrong, updated_at)"
    " SELECT $1, 'h' || n, '', n % 2, now() - interval '2 years'",
    "logins": "(tenant_id, login_id, player_id, expires_at, ends_at)"
    " SELECT $1, 'l' || n, 'x', now() - interval '2 days', now() - interval '2 days'",
    "revocations": "(tenant_id, kind, subject, kept_until) SELECT $1, 'player', 's' || n, now() - interval '1 day'",
}


async def leave_behind(stack: Stack, table: str, tenant_id: str, number: int) -> None:
    await stack.database.execute(
        f"INSERT INTO {table} {ROWS[table]} FROM generate_series(1, $2::integer) AS n", tenant_id, number
    )


async def left(stack: Stack, table: str) -> int:
    return int(await stack.database.fetchval(f"SELECT count(*) FROM {table}"))


@pytest.mark.parametrize("table", ROWS)
async def test_purge_statement_deletes_a_bounded_batch(stack: Stack, table: str) -> None:
    """Otherwise a backlog exceeds the statement timeout, is rolled back, and grows."""
    await stack.database.execute(f"""
        CREATE FUNCTION bounded() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF (SELECT count(*) FROM gone) > {PURGE_BATCH} THEN RAISE EXCEPTION 'too many at once'; END IF;
            RETURN NULL;
        END $$""")
    try:
        await stack.database.execute(
            f"CREATE TRIGGER bounded AFTER DELETE ON {table} REFERENCING OLD TABLE AS gone"
            " FOR EACH STATEMENT EXECUTE FUNCTION bounded()"
        )
        for tenant_id in (stack.tenant_id, OVER_ALL):
            await leave_behind(stack, table, tenant_id, 2 * PURGE_BATCH + 7)
        await purge(stack.engine)
        assert await left(stack, table) == 0
    finally:
        await stack.database.execute("DROP FUNCTION bounded CASCADE")


async def test_purge_failure_of_one_table_does_not_block_the_others(stack: Stack) -> None:
    await stack.database.execute("""
        CREATE FUNCTION clung() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'stays'; END $$""")
    try:
        await stack.database.execute(
            "CREATE TRIGGER clung BEFORE DELETE ON login_challenges FOR EACH ROW EXECUTE FUNCTION clung()"
        )
        for tenant_id in (stack.tenant_id, OVER_ALL):
            for table in ROWS:
                await leave_behind(stack, table, tenant_id, 3)
        with pytest.raises(asyncpg.RaiseError):
            await purge(stack.engine)
        assert {table: await left(stack, table) for table in ROWS} == {
            **dict.fromkeys(ROWS, 0),
            "login_challenges": 6,
        }
    finally:
        await stack.database.execute("DROP FUNCTION clung CASCADE")


async def test_purge_runs_by_itself(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purging, "PURGE_SECONDS", 0.05)
    async with new_stack(settings) as stack:
        for table in ROWS:
            await leave_behind(stack, table, stack.tenant_id, 3)

        async def nothing_is_left() -> bool:
            return not any([await left(stack, table) for table in ROWS])

        await until(nothing_is_left)
