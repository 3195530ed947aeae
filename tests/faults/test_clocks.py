import signal
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from runtime.operations.quests import referrals
from runtime.stores.leases import LEASE_SECONDS
from tests.support.processes import ROOT, CoreProcess
from tests.support.stack import Answer, Stack, new_stack, settings_of
from tests.support.waiting import until
from tests.support.world import new_world

SKEWED = """
import os, time
seconds, right, right_ns = float(os.environ["SKEW_SECONDS"]), time.time, time.time_ns
time.time = lambda: right() + seconds
time.time_ns = lambda: right_ns() + round(seconds * 1e9)
"""


@pytest.mark.parametrize("seconds", [600.0, -600.0])
@pytest.mark.fault(
    "Clock skew of a Core process", size="600 s either way, one of two", figure="caps, day, expiry and leases equal"
)
async def test_process_with_a_skewed_clock_keeps_caps_days_expiry_and_leases(
    database_url: str,
    valkey_url: str,
    valkey_flush: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    monkeypatch.setattr(referrals, "EVERY_SECONDS", 3600.0)  # So the skewed process takes this job's lease.
    settings = settings_of(database_url, valkey_url, session_ttl_seconds=60)
    keys = [f"{key.id}:{key.secret.hex()}" for key in (settings.server_keys[0], settings.code_keys[0])]
    (tmp_path / "sitecustomize.py").write_text(SKEWED)
    environment = {"SERVER_KEYS": keys[0], "CODE_KEYS": keys[1], "SESSION_TTL_SECONDS": "60"}
    environment |= {"PYTHONPATH": f"{tmp_path}:{ROOT}", "SKEW_SECONDS": f"{seconds}"}
    skewed = CoreProcess(database_url, valkey_url, tmp_path / "core.log", **environment)
    async with new_stack(settings) as right, new_world(right) as world:
        prize_id = await world.prize(constraints={"max_per_day": 2}, expires_after_days=1)
        game_id = await world.wheel(prize_id, rules={"max_plays_per_day": 2})

        async def start(stack: Stack, player: str) -> dict[str, object]:
            return dict((await stack.core("POST", f"/games/{game_id}/start", {"player_id": player})).data)

        async def play(stack: Stack, player: str, session: object) -> Answer:
            body = {"player_id": player, "session_id": session, "payload": {}}
            return await stack.core("POST", f"/games/{game_id}/play", body)

        async with AsyncExitStack() as both:
            both.push_async_callback(skewed.end, signal.SIGTERM)
            await skewed.start()
            wrong = replace(right, process=replace(right.process, core_url=skewed.url))
            now = await world.database.fetchval("SELECT extract(epoch FROM now())::float8")
            for here, there in ((right, wrong), (wrong, right)):
                started = await start(here, "ann")
                assert abs(int(str(started["expires_at"])) - (now + 60)) < 15
                assert (await play(there, "ann", started["session_id"])).data["rewards"]
            midnight = (int(now) // 86400 + 1) * 86400
            for stack in (right, wrong):
                reply = (await stack.core("GET", f"/games/{game_id}/eligibility", player_id="ann")).data
                assert (reply["reason"], reply["resets_at"]) == ("CAP_DAY", str(midnight))
                session = (await start(stack, f"bob_of_{stack.process.core_url}"))["session_id"]
                answer = await play(stack, f"bob_of_{stack.process.core_url}", session)
                assert answer.data["rewards"] == []
            leases = "SELECT extract(epoch FROM leased_until - now())::float8 AS rest FROM job_leases"
            await until(lambda: world.database.fetch(leases))
            assert all(0 < lease["rest"] <= LEASE_SECONDS for lease in await world.database.fetch(leases))
        days = await world.database.fetch("SELECT DISTINCT day FROM game_players UNION SELECT day FROM prize_days")
        assert [row["day"] for row in days] == [datetime.fromtimestamp(now, UTC).date()]


@pytest.mark.parametrize("seconds", [-86_400.0, -600.0, 600.0, 86_400.0])
@pytest.mark.fault("Zone moved west, clock stepped", size="the machine stood still", figure="times and days right")
async def test_plays_after_a_machine_suspend_have_the_right_time_and_day(
    database_url: str, valkey_url: str, valkey_flush: None, seconds: float
) -> None:
    """The suspend makes the process's cached time offset wrong."""
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
        assert abs((await world.start(game_id, "bob")).data["expires_at"] - (now + 60)) < 30
        jump()
        refused = await world.play(game_id, sessions[2])
        midnight = (int(now) // 86400 + 1) * 86400
        assert (refused.reason, refused.envelope["data"]["resets_at"]) == ("CAP_DAY", midnight)
        rows = await world.database.fetch("SELECT day, day_plays FROM game_players WHERE player_id = 'ann'")
        assert [tuple(row) for row in rows] == [(datetime.fromtimestamp(now, UTC).date(), 2)]
        assert await world.database.fetchval("SELECT bool_and(played_at > now() - interval '1 minute') FROM plays")
        assert abs(clock.now() - time.time()) < 30
