"""Core's own process killed, stopped, and told a wrong time."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from tests.support import invariants
from tests.support.load import load
from tests.support.processes import CoreProcess, make_wheel
from tests.support.seed import SEED
from tests.support.stack import TENANT, Answer, Stack, new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import new_world

KILLS = int(os.environ.get("TOMBOLA_TEST_KILLS", "6"))
"""How often Core is killed at a random moment; faults.md asks for 50."""


@pytest.fixture
async def core(database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path) -> AsyncIterator[CoreProcess]:
    core = CoreProcess(database_url, valkey_url, tmp_path / "core.log")
    await core.start()
    yield core
    await core.end(signal.SIGKILL)


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.mark.timeout(60 + 10 * KILLS)
@pytest.mark.fault(
    "Core killed (SIGKILL)",
    size="6 kills, a process of its own",
    figure="1 play a key",
    smaller="6 kills of 50 (TOMBOLA_TEST_KILLS=50)",
)
async def test_killed_at_random_moments_each_key_is_one_play(core: CoreProcess, connection: asyncpg.Connection) -> None:
    dice = random.Random(SEED)
    game_id = await make_wheel(core, connection, total=100)
    async with load(core.url, TENANT, game_id) as playing:
        for _ in range(KILLS):
            await playing.plays(dice.randrange(1, 60))
            await core.end(signal.SIGKILL)
            await core.start()
        await playing.plays(20)
    await playing.check(connection)
    assert {status for status, _ in playing.refusals} <= {0, 503}, f"seed {SEED}"
    await invariants.check(connection)


@pytest.mark.fault("Core stopped (SIGTERM)", size="2 stops under load", figure="0 plays without an answer, exit code 0")
async def test_a_term_under_load_leaves_no_play_unanswered(core: CoreProcess, connection: asyncpg.Connection) -> None:
    """What was taken on is answered: a committed play whose player has no answer would be one that was dropped."""
    game_id = await make_wheel(core, connection, total=0)
    async with load(core.url, TENANT, game_id) as playing:

        async def all_are_answered() -> bool:
            rows = await connection.fetch("SELECT idempotency_key FROM plays")
            return {row["idempotency_key"] for row in rows} == playing.played.keys()

        for _ in range(2):
            await playing.plays(100)
            assert await core.end(signal.SIGTERM) == 0
            # Nothing answers now, so what was left without an answer would stay so.
            await until(all_are_answered)
            await core.start()
        await playing.plays(20)
    await playing.check(connection)
    await invariants.check(connection)


# -------------------------------------------------------------------- a wrong clock


@contextmanager
def skewed(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Iterator[None]:
    """This process' wall clock is off, from before it starts."""
    right = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: right() + seconds)
        yield


@pytest.mark.parametrize("seconds", [600.0, -600.0])
@pytest.mark.fault(
    "Clock skew of a Core process", size="600 s either way, 2 Cores in one process", figure="caps, day and expiry equal"
)
async def test_a_clock_that_is_ten_minutes_off_changes_nothing(
    database_url: str, valkey_url: str, valkey_flush: None, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    settings = settings_of(database_url, valkey_url, session_ttl_seconds=60)
    async with new_stack(settings) as right, new_world(right) as world:
        prize_id = await world.prize(constraints={"max_per_day": 2}, expires_after_days=1)
        game_id = await world.wheel(prize_id, rules={"max_plays_per_day": 2})

        async def start(stack: Stack, player: str) -> dict[str, object]:
            return dict((await stack.core("POST", f"/games/{game_id}/start", {"player_id": player})).data)

        async def play(stack: Stack, player: str, session: object) -> Answer:
            body = {"player_id": player, "session_id": session, "payload": {}}
            return await stack.core("POST", f"/games/{game_id}/play", body)

        async with AsyncExitStack() as both:
            both.enter_context(skewed(monkeypatch, seconds))
            wrong = await both.enter_async_context(new_stack(settings))
            now = await world.database.fetchval("SELECT extract(epoch FROM now())::float8")
            for here, there in ((right, wrong), (wrong, right)):
                started = await start(here, "ann")
                assert abs(int(str(started["expires_at"])) - (now + 60)) < 15
                # A session of one process is neither too old nor from the future in the other.
                answer = await play(there, "ann", started["session_id"])
                assert answer.data["rewards"]
            midnight = (int(now) // 86400 + 1) * 86400
            path = f"/games/{game_id}/eligibility"
            for stack in (right, wrong):
                told = (await stack.core("GET", path, player_id="ann")).data
                assert (told["reason"], told["resets_at"]) == ("CAP_DAY", str(midnight))
                # The day's units of the prize are out, in either process.
                session = (await start(stack, f"bob_of_{stack.process.core_url}"))["session_id"]
                answer = await play(stack, f"bob_of_{stack.process.core_url}", session)
                assert answer.data["rewards"] == []
        days = await world.database.fetch("SELECT DISTINCT day FROM game_players UNION SELECT day FROM prize_days")
        assert [row["day"] for row in days] == [datetime.fromtimestamp(now, UTC).date()]


@pytest.mark.parametrize("seconds", [-86_400.0, -600.0, 600.0, 86_400.0])
@pytest.mark.fault("Zone moved west, clock stepped", size="the machine stood still", figure="times and days right")
async def test_after_the_machine_stood_still_plays_have_their_time_and_day(
    database_url: str, valkey_url: str, valkey_flush: None, seconds: float
) -> None:
    """What the process knows of the time was exact, and is wrong now."""
    settings = settings_of(database_url, valkey_url, session_ttl_seconds=60)
    async with new_stack(settings) as stack, new_world(stack) as world:
        game_id = await world.wheel(await world.prize(), rules={"max_plays_per_day": 2})
        sessions = [await world.session(game_id) for _ in range(3)]
        now = await world.database.fetchval("SELECT extract(epoch FROM now())::float8")
        clock = stack.engine.clock

        def jump() -> None:
            moment = time.monotonic()
            clock.sync(clock.now() + seconds, moment, moment)

        for session in sessions[:2]:
            jump()
            assert (await world.play(game_id, session)).http == 200
        jump()
        started = (await world.start(game_id, "bob")).data
        assert abs(started["expires_at"] - (now + 60)) < 30
        jump()
        refused = await world.play(game_id, sessions[2])
        midnight = (int(now) // 86400 + 1) * 86400
        assert (refused.reason, refused.envelope["data"]["resets_at"]) == ("CAP_DAY", midnight)
        rows = await world.database.fetch("SELECT day, day_plays FROM game_players WHERE player_id = 'ann'")
        assert [tuple(row) for row in rows] == [(datetime.fromtimestamp(now, UTC).date(), 2)]
        assert await world.database.fetchval("SELECT bool_and(played_at > now() - interval '1 minute') FROM plays")
        assert abs(clock.now() - time.time()) < 30


async def test_a_session_expires_by_the_databases_time(database_url: str, valkey_url: str, valkey_flush: None) -> None:
    async with new_stack(settings_of(database_url, valkey_url, session_ttl_seconds=1)) as stack:
        async with new_world(stack) as world:
            game_id = await world.wheel()
            started = (await world.start(game_id)).data

            async def over() -> bool:
                return bool(world.database.clock.now() > started["expires_at"] + 1)

            await until(over)
            answer = await world.play(game_id, started["session_id"])
            assert (answer.http, answer.code, answer.reason) == (400, "FAILED_PRECONDITION", "SESSION_EXPIRED")
            assert await world.plays() == []
            assert (await world.round(game_id)).http == 200
