import asyncio
import math
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg
import psutil
import pytest

from ops.certification.deployment import Deployment, paused
from ops.certification.load import Begin
from ops.certification.process import Process
from ops.certification.site import Site
from ops.history.record import Attempt
from tests.support.scenario import Scenario
from tests.support.waiting import until

RECOVERY_SECONDS = 2.0
FROZEN_SECONDS = 1.5
EXHAUSTED_SECONDS = 1.0
SLOW_SECONDS = 0.25
SLOWER_MAX = 3
NOTICED_SECONDS = 2.0


def failed(attempts: list[Attempt]) -> list[Attempt]:
    return [one for one in attempts if one.http == 0 or one.http >= 500]


def within(attempts: list[Attempt], times: list[tuple[float, float]]) -> list[Attempt]:
    return [one for one in attempts if any(begin <= one.began < end for begin, end in times)]


def slowest(attempts: list[Attempt]) -> float:
    return max((one.ended - one.began for one in attempts if one.http), default=0.0)


def last_error(site: Site, since: float, until: float) -> float:
    times = [one.ended if one.http else one.began for one in failed(site.history.attempts)]
    return max((at - since for at in times if since < at < until), default=0.0)


@pytest.mark.fault(
    "Postgres restarted (immediate)",
    small=2,
    full=20,
    unit="restarts",
    figure="no 200 without its row; errors end within 2 s of its return",
)
async def test_postgres_restart_loses_no_answered_play(scenario: Scenario, site: Site, load: Begin) -> None:
    deployment, away = site.deployment, []
    async with load() as running:
        for _ in range(scenario.size):
            await running.more(scenario.dice.randrange(5, 30))
            began = time.monotonic()
            await deployment.blocking(deployment.postgres.restart_immediately)
            away.append((began, time.monotonic()))
            await running.for_seconds(RECOVERY_SECONDS)
            await running.more(10)
    attempts = site.history.attempts
    nexts = [began for began, _ in away[1:]] + [math.inf]
    scenario.figure("plays", running.plays)
    scenario.figure("refused meanwhile", len(failed(within(attempts, away))), least=1)
    scenario.figure("without an answer", sum(one.http == 0 for one in attempts), most=0)
    worst = max(last_error(site, back, until) for (_, back), until in zip(away, nexts, strict=True))
    scenario.seconds("errors ended after its return, at worst", worst, RECOVERY_SECONDS)


@pytest.mark.fault(
    "Postgres backend frozen",
    small=1,
    full=20,
    unit="freezes of a Core's backends",
    figure="503 within 1.5 s, every request answered, that Core plays on while they are frozen",
)
async def test_core_abandons_its_frozen_backends(scenario: Scenario, site: Site, load: Begin) -> None:
    times, back = [], []
    async with load() as running:
        for _ in range(scenario.size):
            await running.more(20)
            core = scenario.dice.choice(site.deployment.cores)
            async with frozen_backends(site.deployment, core) as began:
                await running.for_seconds(FROZEN_SECONDS)
                back.append(await plays_again(site, core) - began)
            times.append((began, time.monotonic()))
        await running.more(20)
    refused = failed(within(site.history.attempts, times))
    scenario.figure("refused meanwhile", len(refused), least=1)
    scenario.figure("without an answer", sum(one.http == 0 for one in site.history.attempts), most=0)
    scenario.seconds("slowest refusal", slowest(refused), FROZEN_SECONDS)
    scenario.figure("that Core played again after", max(back), "s")


async def plays_again(site: Site, core: Process) -> float:
    url = f"{core.url('core')}/api/v1/games/{site.ids['wheel']}/start"
    body = {"scope": {"tenant_id": site.tenant_id}, "player_id": "frozen"}

    async def answered() -> bool:
        async with site.deployment.http.post(url, json=body) as answer:
            return answer.status == 200

    await until(answered)
    return time.monotonic()


_SERVING = "SELECT pid FROM pg_stat_activity WHERE client_port = ANY($1::int[])"
_HELD_UP = """
SELECT EXISTS (
    SELECT FROM pg_stat_activity WHERE state = 'active' AND NOT pid = ANY($1::int[])
    AND (wait_event_type = 'LWLock' OR pg_blocking_pids(pid) && $1::int[]))
"""


@asynccontextmanager
async def frozen_backends(deployment: Deployment, core: Process) -> AsyncIterator[float]:
    """SIGSTOP to a Core's backends; since when. If one holds a lock that stops Postgres, they are frozen anew."""
    connections = psutil.Process(core.pid).net_connections(kind="tcp")
    ports = [one.laddr.port for one in connections if one.raddr and one.raddr.port == deployment.postgres.port]
    observer = await asyncpg.connect(deployment.database_url)
    pids = [row["pid"] for row in await observer.fetch(_SERVING, ports)]
    try:
        held_up = True
        while held_up:
            signal_all(pids, signal.SIGCONT)
            await asyncio.sleep(0.2)  # sleeps: what was held up goes on
            signal_all(pids, signal.SIGSTOP)
            began = time.monotonic()
            await asyncio.sleep(0.2)  # sleeps: others come to wait for a lock
            held_up = await observer.fetchval(_HELD_UP, pids)
        yield began
    finally:
        signal_all(pids, signal.SIGCONT)
        observer.terminate()


def signal_all(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@pytest.mark.nightly
@pytest.mark.fault(
    "Pool exhausted",
    small=1,
    full=20,
    unit="times every connection taken",
    figure="503 within 1 s, every request answered, errors end within 1 s of the release",
)
async def test_postgres_without_free_connections_is_503_at_once(scenario: Scenario, site: Site, load: Begin) -> None:
    times = []
    async with load(players=16) as running:
        for _ in range(scenario.size):
            await running.more(20)
            async with every_connection_taken(site.deployment):
                began = time.monotonic()
                await running.for_seconds(3)
            times.append((began, time.monotonic()))
            await running.more(20)
    refused = failed(within(site.history.attempts, times))
    nexts = [began for began, _ in times[1:]] + [math.inf]
    scenario.figure("refused meanwhile", len(refused), least=1)
    scenario.figure("without an answer", sum(one.http == 0 for one in refused), most=0)
    scenario.seconds("slowest refusal", slowest(refused), EXHAUSTED_SECONDS)
    worst = max(last_error(site, back, until) for (_, back), until in zip(times, nexts, strict=True))
    scenario.seconds("last refusal after the release", worst, EXHAUSTED_SECONDS)


@asynccontextmanager
async def every_connection_taken(deployment: Deployment) -> AsyncIterator[None]:
    """Postgres has no connection left for the length of the block: Tombola's were ended, and others hold all."""
    held: list[asyncpg.Connection] = []
    clients = [one for one in deployment.processes.values() if one.role == "core" or one.role.startswith("worker")]
    try:
        with paused(*clients):  # Else they would reconnect first.
            held.append(await asyncpg.connect(deployment.database_url))
            query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tombola'"
            await held[0].execute(query)
            with suppress(asyncpg.TooManyConnectionsError):
                while True:
                    held.append(await asyncpg.connect(deployment.database_url, timeout=10))
        yield
    finally:
        for connection in held:
            connection.terminate()


@pytest.mark.parametrize("how", ["killed", "frozen"])
@pytest.mark.fault(
    "Valkey killed, or frozen 30 s",
    small=2,
    full=30,
    unit="seconds",
    figure="every play, claim and redeem succeeds, 3 slower than 0.25 s at most; readyz 503 within 2 s, healthz 200",
)
async def test_plays_continue_without_valkey(scenario: Scenario, site: Site, load: Begin, how: str) -> None:
    deployment, valkey = site.deployment, site.deployment.valkey
    async with load() as running:
        await running.more(20)
        began = time.monotonic()
        await deployment.blocking(valkey.kill if how == "killed" else valkey.freeze)
        try:
            noticed = await becomes(deployment, 503, "redis") - began
            await running.for_seconds(scenario.size)
            async with deployment.http.get(f"{deployment.cores[0].url('core')}/healthz") as alive:
                assert alive.status == 200
        finally:
            await deployment.blocking(valkey.start if how == "killed" else valkey.thaw)
        back = time.monotonic()
        await becomes(deployment, 200, "")
        await running.more(20)
    change = []
    for name in ("Play", "ClaimReward", "Redeem"):
        attempts = [one for request in site.history.of(name) for one in request.attempts]
        change += (own := [one for one in attempts if began <= one.began < back])
        scenario.figure(f"{name} meanwhile", len(own), least=1 if scenario.full or name == "Play" else 0)
    slow = sum(one.ended - one.began > SLOW_SECONDS for one in change)
    scenario.figure("of them failed", len(failed(change)), most=0)
    scenario.seconds("readyz 503 after", noticed, NOTICED_SECONDS)
    scenario.figure("slower than 0.25 s", slow, most=SLOWER_MAX if scenario.full else None)
    site.forget_starts()


async def becomes(deployment: Deployment, status: int, failed_check: str) -> float:
    async def says() -> bool:
        async with deployment.http.get(f"{deployment.cores[0].url('core')}/readyz") as ready:
            return (ready.status, ready.headers.get("X-Failed-Check", "")) == (status, failed_check)

    await until(says)
    return time.monotonic()


@pytest.mark.fault("FLUSHALL", small=2, full=60, unit="seconds of it", figure="no double play, rankings equal")
async def test_flushes_under_load_double_no_play(scenario: Scenario, site: Site, load: Begin) -> None:
    deployment, flushes = site.deployment, 0
    async with load() as running:
        ends = time.monotonic() + scenario.size
        while time.monotonic() < ends:
            await deployment.blocking(deployment.valkey.command, "FLUSHALL")
            flushes += 1
            await asyncio.sleep(0.02)  # sleeps: the pace of the fault
        await running.more(20)
    scenario.figure("plays", running.plays)
    scenario.figure("times emptied", flushes, least=scenario.size)
    site.forget_starts()
