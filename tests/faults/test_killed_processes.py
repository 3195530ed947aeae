"""Cores, edges and workers killed, stopped and paused under load, each a process of its own."""

import asyncio
from collections import Counter

import pytest

from ops.certification.deployment import WORKERS, paused
from ops.certification.judge import until
from ops.certification.load import Begin
from ops.certification.process import Process
from ops.certification.site import Site
from ops.history.tables import connected
from tests.support.receiver import Receiver
from tests.support.scenario import Scenario

READY_SECONDS = 5.0
EXIT_SECONDS = 30.0
PAUSE_SECONDS = 6.0  # An edge notices a stalled Core within 2 s.


@pytest.mark.fault(
    "Core killed (SIGKILL)", small=2, full=50, unit="kills", figure="1 play a key, ready again within 5 s"
)
async def test_killed_core_loses_or_doubles_no_play(scenario: Scenario, site: Site, load: Begin) -> None:
    ready = []
    async with load() as running:
        for _ in range(scenario.size):
            await running.more(scenario.dice.randrange(1, 40))
            core = scenario.dice.choice(site.deployment.cores)
            core.kill()
            ready.append(await core.start())
        await running.more(20)
    scenario.figure("plays", running.plays)
    scenario.seconds("ready again, at worst", max(ready), READY_SECONDS)


@pytest.mark.fault(
    "Core stopped (SIGTERM)",
    small=1,
    full=10,
    unit="rounds",
    figure="every request of an edge answered, exit code 0 within 30 s",
)
async def test_stopped_core_drops_no_accepted_request(scenario: Scenario, site: Site, load: Begin) -> None:
    took = []
    async with load() as running:
        for _ in range(scenario.size):
            for core in site.deployment.cores:
                await running.more(20)
                code, seconds = await core.stop()
                assert code == 0
                took.append(seconds)
                await running.more(10)
                await core.start()
        await running.more(20)
    # A client of Core itself finds it gone; an edge finds the other Core.
    cut = [one for one in site.history.attempts if one.http == 0 and not one.to.startswith("core")]
    scenario.figure("plays", running.plays)
    scenario.figure("requests of an edge without an answer", len(cut), most=0)
    scenario.seconds("exit, at worst", max(took), EXIT_SECONDS)


class TestWithWorkers:
    @pytest.fixture
    def workers(self) -> tuple[str, ...]:
        return WORKERS

    @pytest.mark.nightly
    @pytest.mark.timeout(600)
    @pytest.mark.fault(
        "Edge or worker killed",
        small=1,
        full=5,
        unit="kills of each",
        figure="ready again within 5 s, every play reported under one id, nothing lost",
    )
    async def test_killed_edge_or_worker_loses_nothing(
        self, scenario: Scenario, site: Site, load: Begin, hook: Receiver
    ) -> None:
        deployment = site.deployment
        ready = []
        async with load() as running:
            for _ in range(scenario.size):
                for process in [one for one in deployment.processes.values() if one.role != "core"]:
                    await running.more(5)
                    process.kill()
                    ready.append(await process.start())
            await running.more(20)
        scenario.figure("plays", running.plays)
        scenario.seconds("ready again, at worst", max(ready), READY_SECONDS)
        async with connected(deployment.settings) as database:
            rows = await database.fetch("SELECT play_id FROM plays WHERE tenant_id = $1", site.tenant_id)

        def reports() -> set[tuple[str, str]]:
            received = [(got.json, got.headers["webhook-id"]) for got in hook.all]
            return {(body["data"]["play_id"], one) for body, one in received if body["type"] == "play_completed"}

        async def reported() -> bool:
            return {play for play, _ in reports()} == {row["play_id"] for row in rows}

        scenario.figure("every play reported after", await until(reported, 240), "s")
        ids = Counter(play for play, _ in reports())
        scenario.figure("plays reported under two ids", sum(count > 1 for count in ids.values()), most=0)

    @pytest.mark.nightly
    @pytest.mark.timeout(600)
    @pytest.mark.fault(
        "Process paused", small=1, full=5, unit="pauses of each", figure="plays go on while one Core stands still"
    )
    async def test_paused_process_stops_no_play(self, scenario: Scenario, site: Site, load: Begin) -> None:
        fewest: list[int] = []

        async def pause(process: Process) -> None:
            before = running.plays
            with paused(process):
                await asyncio.sleep(PAUSE_SECONDS)  # sleeps: the pause is the fault
            if process.role == "core":
                fewest.append(running.plays - before)

        async with load() as running:
            for _ in range(scenario.size):
                for process in list(site.deployment.processes.values()):
                    await running.more(5)
                    await pause(process)
            await running.more(20)
        scenario.figure("plays while a Core stood still, at least", min(fewest), least=1)
