"""Behind PgBouncer in transaction mode everything works; an unsuitable one is refused at start, by name."""

from collections.abc import Callable

import pytest

from ops.servers.postgres import Postgres
from runtime.app.process import CannotStart
from runtime.stores.history import History
from tests.support.load import load
from tests.support.operator import tombola
from tests.support.pgbouncer import pooled
from tests.support.stack import new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import new_world

IGNORED = "jit,plan_cache_mode,client_connection_check_interval"
SESSIONS = 3
"""Server connections, fewer than the clients'."""


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, f"set ignore_startup_parameters = {IGNORED}"),
        ({"ignore_startup_parameters": IGNORED}, "plan_cache_mode is auto.* ALTER ROLE"),
        (
            {"ignore_startup_parameters": IGNORED, "max_prepared_statements": "0"},
            "loses prepared statements.* PgBouncer 1.21 or newer with max_prepared_statements above 0",
        ),
        (
            {"ignore_startup_parameters": IGNORED, "pool_mode": "statement"},
            "allows no transactions.* pool_mode = transaction",
        ),
        ({"ignore_startup_parameters": IGNORED, "default_pool_size": "1"}, "no second server connection"),
    ],
)
async def test_unsuitable_pooler_is_refused_at_start_by_name(
    postgres: Postgres, database_url: str, valkey_url: str, options: dict[str, str], remedy: str
) -> None:
    name = database_url.rpartition("/")[2]
    with pooled(postgres, **{"pool_mode": "transaction", **options}) as pooler:
        settings = settings_of(pooler.url(name), valkey_url, database_statement_timeout_seconds=3.0)
        with pytest.raises(CannotStart, match=f"^tombola: the connection pooler .*{remedy}"):
            async with new_stack(settings):
                pass


async def test_plays_share_the_server_connections_of_a_pooler(
    postgres: Postgres, make_database: Callable[[], str], valkey_url: str, valkey_flush: None
) -> None:
    direct = make_database()
    name = direct.rpartition("/")[2]
    for setting in ("plan_cache_mode = force_generic_plan", "client_connection_check_interval = '300ms'", "jit = off"):
        postgres.psql(f"alter database {name} set {setting}")
    options = {"pool_mode": "transaction", "ignore_startup_parameters": IGNORED, "default_pool_size": str(SESSIONS)}
    with pooled(postgres, **options) as pooler:
        url = pooler.url(name)
        async with new_stack(settings_of(url, valkey_url)) as stack, new_world(stack) as world:
            game_id = await world.wheel(await world.prize(total=100_000))
            async with load(stack.process.core_url, stack.tenant_id, game_id) as playing:
                await playing.plays(100)
                for command in (("migrate",), ("audit",)):
                    code, _, err = await tombola(*command, DATABASE_URL=url, REDIS_URL=valkey_url)
                    assert code == 0, err
                sessions = "select count(*) from pg_stat_activity where datname = current_database() and state <> ''"
                assert int(postgres.psql(f"{sessions} and application_name = 'tombola'", name)) <= SESSIONS
            await playing.check(world.database)
            assert not playing.refusals

            # A restored database behind the pooler is noticed although the connections to the pooler stay.
            forgotten: list[bool] = []
            stack.database.on_other_history.append(lambda: forgotten.append(True))
            stack.database._history = History("another", 0)

            async def is_forgotten() -> bool:
                return bool(forgotten)

            await until(is_forgotten)
        moved = await tombola(
            *("tenants", "move", "tenant_test", "--to", "eu"),
            DATABASE_URL=url,
            DATABASES=f"eu={make_database()}",
            REDIS_URL=valkey_url,
        )
        assert moved[0] == 1 and "URLs that lead to PostgreSQL itself" in moved[2]
