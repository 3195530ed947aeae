import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog

from ops.servers.postgres import DISPOSABLE, Postgres
from runtime.app.process import CannotStart
from runtime.operations.reporting import counting
from runtime.settings import Settings
from runtime.stores import replica
from runtime.stores.databases import database_of
from runtime.stores.history import History
from runtime.stores.replica import FALLBACKS
from sql.pooler import SETTINGS
from tests.support.load import load
from tests.support.operator import tombola
from tests.support.pgbouncer import pooled
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import Answer, Stack, new_stack, settings_of
from tests.support.standby import replicated, replication_is
from tests.support.waiting import until
from tests.support.world import new_world

READS = {
    *("play.history", "wallet.ledger", "exports.plays", "exports.ledger", "audit.list", "desk.plays", "desk.ledger"),
    *("analytics.days", "analytics.rewards", "analytics.prizes", "history.history", "replica.position"),
    *("views.entries", "views.totals", "figures.sources", "figures.claims"),
    *(f"figures.{it}" for it in ("campaign", "games", "hours", "prizes", "draws", "day_players", "players", "names")),
}
"""What the replica is asked here, with the history and the lag that a process reads of each database."""


@pytest.fixture
async def servers() -> AsyncIterator[tuple[Postgres, Postgres]]:
    async with replicated(DISPOSABLE, {"log_statement": "all"}) as (primary, standby):
        await replication_is(primary, "async")
        yield primary, standby


def asked(standby: Postgres) -> set[str]:
    return set(re.findall(r"-- (\w+\.\w+)\b", standby.log_path.read_text()))


@pytest.mark.fault(
    "Read replica stopped, behind, promoted",
    size="a streaming standby",
    figure="its statements are those of reports alone; nothing missing while the primary stands in",
)
async def test_replica_serves_reports_and_no_decision_and_the_primary_stands_in(
    servers: tuple[Postgres, Postgres], valkey_url: str, valkey_flush: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(counting, "FRESH_SECONDS", 3600.0)
    primary, standby = servers
    settings = settings_of(primary.url("tombola"), valkey_url, database_read_url=standby.url("tombola"))
    async with new_stack(settings) as stack:
        measured: Any = stack.database.replica

        async def says(reason: str) -> None:
            await until(lambda: measured.reason == reason)

        async def replayed() -> None:
            written = primary.psql("select pg_current_wal_lsn()")
            await until(lambda: standby.psql(f"select pg_last_wal_replay_lsn() >= '{written}'") == "t")

        await says("")
        campaign_id = (await make_campaign(stack))["id"]
        news = {"mode": "ENTRY_MODE_BEFORE_PLAY", "consents": [{"id": "news", "text": {"en": "Send me news."}}]}
        asking = (await make_campaign(stack, entry=news))["id"]
        by_claim = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"}
        prize = await make_prize(stack, campaign_id=campaign_id, stock={"total": 9}, fulfillment=by_claim)
        game_id = (await make_game(stack, campaign_id, prize))["id"]
        (reward,) = (await play_once(stack, game_id))["rewards"]
        path = f"/rewards/{reward['reward_id']}/claim"
        assert (await stack.consumer("POST", path, {}, player="player_a")).http == 200
        assert (await stack.consumer("GET", f"/games/{game_id}/eligibility", player="player_a")).http == 200
        await replayed()

        # The first count reads from the primary, as all do while a busy replica is behind.
        async def all_read() -> bool:
            for answer in await reports(stack, campaign_id, game_id, asking):
                assert answer.http == 200, answer.envelope
            await replayed()
            return asked(standby) >= READS

        await until(all_read)
        assert asked(standby) == READS
        before = dict(FALLBACKS.values)
        # Replay stops: the primary shows what the replica lacks.
        monkeypatch.setattr(replica, "LAG_SECONDS", 0.2)
        standby.psql("select pg_wal_replay_pause()")
        with structlog.testing.capture_logs() as lines:
            await play_once(stack, game_id)
            await says("behind")
            assert await plays_listed(stack, game_id) == 2
            assert standby.psql("select count(*) from plays", "tombola") == "1"
            assert FALLBACKS.values["home", "behind"] > before.get(("home", "behind"), 0)
            standby.psql("select pg_wal_replay_resume()")
            await says("")
            await asyncio.to_thread(standby.stop)
            assert await plays_listed(stack, game_id) == 2
            await says("away")
        found = [line["reason"] for line in lines if line["event"] == "replica_not_used"]
        assert found[0] == "behind" and found[-1] == "away"
        await asyncio.to_thread(standby.start)
        await says("")
        standby.psql("select pg_promote()")
        await says("no_standby")
        assert await plays_listed(stack, game_id) == 2


def test_each_database_has_the_replica_of_its_name() -> None:
    others = (("eu", "postgresql://eu/d"), ("us", "postgresql://us/d"))
    reads = {"database_read_url": "postgresql://b/d", "databases_read": (("eu", "postgresql://eu-2/d"),)}
    database = database_of(Settings(database_url="postgresql://a/d", databases=others, **reads))
    assert {part.name: part.replica is not None for part in database.parts} == {"home": True, "eu": True, "us": False}


async def plays_listed(stack: Stack, game_id: str) -> int:
    return len((await stack.consumer("GET", f"/games/{game_id}/history/me", player="player_a")).data["items"])


async def reports(stack: Stack, campaign_id: str, game_id: str, asking: str) -> list[Answer]:
    staff = [f"/campaigns/{campaign_id}/analytics", f"/campaigns/{campaign_id}/figures", "/audit"]
    staff += [f"/players/player_a/{name}" for name in ("plays", "ledger")]
    return [
        *[await stack.core("GET", path) for path in staff],
        *[await stack.core("GET", "/exports", name=name) for name in ("plays", "ledger")],
        # From the primary: not in READS.
        await stack.core("GET", "/exports", name="winners", consent="news", campaign_id=asking),
        *[await stack.core("GET", "/exports", name=it, json="true") for it in ("views", "rewards")],
        await stack.consumer("GET", f"/games/{game_id}/history/me", player="player_a"),
        await stack.consumer("GET", "/wallet/ledger", player="player_a"),
    ]


IGNORED = ",".join(SETTINGS)
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
    name = make_database().rpartition("/")[2]
    for setting, value in zip(SETTINGS, ("off", "force_generic_plan", "'300ms'", "'20s'"), strict=False):
        postgres.psql(f"alter database {name} set {setting} = {value}")
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
            await until(lambda: forgotten)
        moved = await tombola(
            *("tenants", "move", "tenant_test", "--to", "eu"),
            DATABASE_URL=url,
            DATABASES=f"eu={make_database()}",
            REDIS_URL=valkey_url,
        )
        assert moved[0] == 1 and "URLs that lead to PostgreSQL itself" in moved[2]
