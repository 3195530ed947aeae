"""A read replica serves reports and nothing else; without it, or while it is behind, the primary does."""

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import structlog

from ops.servers.postgres import DISPOSABLE, Postgres
from runtime.operations.reporting import counting
from runtime.settings import Settings
from runtime.stores import replica
from runtime.stores.databases import database_of
from runtime.stores.replica import FALLBACKS
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import Answer, Stack, new_stack, settings_of
from tests.support.standby import replicated, replication_is
from tests.support.waiting import until

READS = {
    *("play.history", "wallet.ledger", "exports.plays", "exports.ledger", "audit.list", "desk.plays", "desk.ledger"),
    *("analytics.days", "analytics.rewards", "analytics.prizes", "history.history", "replica.position"),
    *(
        f"figures.{name}"
        for name in ("campaign", "games", "hours", "prizes", "draws", "day_players", "players", "names")
    ),
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
            async def is_so() -> bool:
                return bool(measured.reason == reason)

            await until(is_so)

        async def replayed() -> None:
            written = primary.psql("select pg_current_wal_lsn()")

            async def is_so() -> bool:
                return standby.psql(f"select pg_last_wal_replay_lsn() >= '{written}'") == "t"

            await until(is_so)

        await says("")
        campaign_id = (await make_campaign(stack))["id"]
        by_claim = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "none"}
        prize = await make_prize(stack, campaign_id=campaign_id, stock={"total": 9}, fulfillment=by_claim)
        game_id = (await make_game(stack, campaign_id, prize))["id"]
        (reward,) = (await play_once(stack, game_id))["rewards"]
        path = f"/rewards/{reward['reward_id']}/claim"
        assert (await stack.consumer("POST", path, {}, player="player_a")).http == 200
        assert (await stack.consumer("GET", f"/games/{game_id}/eligibility", player="player_a")).http == 200
        await replayed()
        before = dict(FALLBACKS.values)
        for _ in range(2):  # The first counts, so it reads from the primary.
            for answer in await reports(stack, campaign_id, game_id):
                assert answer.http == 200, answer.envelope
            await replayed()
        assert asked(standby) == READS
        assert FALLBACKS.values == before

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
    answer = await stack.consumer("GET", f"/games/{game_id}/history/me", player="player_a")
    return len(answer.data["items"])


async def reports(stack: Stack, campaign_id: str, game_id: str) -> list[Answer]:
    staff = [f"/campaigns/{campaign_id}/analytics", f"/campaigns/{campaign_id}/figures", "/audit"]
    staff += [f"/players/player_a/{name}" for name in ("plays", "ledger")]
    return [
        *[await stack.core("GET", path) for path in staff],
        *[await stack.core("GET", "/exports", name=name) for name in ("plays", "ledger")],
        await stack.core("GET", "/exports", name="winners", consent="news"),  # From the primary: not in READS.
        await stack.consumer("GET", f"/games/{game_id}/history/me", player="player_a"),
        await stack.consumer("GET", "/wallet/ledger", player="player_a"),
    ]
