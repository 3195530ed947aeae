"""`tombola all --processes 2`: processes that share ports are killed and replaced under load."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import pytest
import pytest_asyncio

from ops.certification.deployment import Deployment, deployed
from ops.certification.load import Begin
from ops.certification.process import Process
from ops.certification.site import Site
from tests.support.directories import server_directory
from tests.support.scenario import FULL, Scenario
from tests.support.waiting import until

PROCESSES = 2
READY_SECONDS = 5.0
VISITORS = 16 if FULL else 4
KILLS_MAX = 2
"""The supervisor stops at the third death within a minute."""


@pytest_asyncio.fixture(scope="module")
async def deployment() -> AsyncIterator[Deployment]:
    with server_directory() as directory:
        async with deployed(directory, together=PROCESSES) as running:
            yield running


@pytest.fixture
def workers() -> tuple[str, ...]:
    return ()


async def all_serve(process: Process, *gone: int) -> bool:
    """Whether each of the processes answers on its own port, and those that are `gone` have been replaced."""
    children = process.children
    if len(children) != PROCESSES or not set(children).isdisjoint(gone):
        return False
    first = process.ports["METRICS_PORT"]
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=1)) as http:
        for port in range(first, first + PROCESSES):
            try:
                async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.status != 200:
                        return False
            except (aiohttp.ClientError, OSError, TimeoutError):
                return False
    return True


@asynccontextmanager
async def visited(process: Process) -> AsyncIterator[Counter[int]]:
    """Visitors with a new connection for each request, for the length of the block; counts the responses by status."""
    visits: Counter[int] = Counter()
    stop = asyncio.Event()

    async def visit() -> None:
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=10)) as http:
            while not stop.is_set():
                try:
                    async with http.get(f"{process.url('consumer')}/healthz") as answer:
                        visits[answer.status] += 1
                except (aiohttp.ClientError, OSError, TimeoutError):
                    visits[0] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(VISITORS):
            group.create_task(visit())
        yield visits
        stop.set()


@pytest.mark.fault(
    "One of N processes killed, rolled", small=2, full=50, unit="kills", figure="1 play a key, ready again within 5 s"
)
async def test_killed_process_loses_or_doubles_no_play(scenario: Scenario, site: Site, load: Begin) -> None:
    (process,) = site.deployment.of("core")
    ready = []
    async with load() as running:
        for nth in range(scenario.size):
            if nth and nth % KILLS_MAX == 0:
                await process.stop()
                await process.start()
            await until(partial(all_serve, process))
            await running.more(scenario.dice.randrange(1, 40))
            victim = scenario.dice.choice(process.children)
            before = time.monotonic()
            os.kill(victim, signal.SIGKILL)
            await until(partial(all_serve, process, victim))
            ready.append(time.monotonic() - before)
        await running.more(20)
    scenario.figure("plays", running.plays)
    scenario.seconds("ready again, at worst", max(ready), READY_SECONDS)


@pytest.mark.fault(
    "One of N processes killed, rolled",
    small=1,
    full=20,
    unit="rolling restarts",
    figure="every request answered, at the first attempt",
)
async def test_rolling_restart_loses_no_request(scenario: Scenario, site: Site, load: Begin) -> None:
    (process,) = site.deployment.of("core")
    async with load() as running, visited(process) as visits:
        for _ in range(scenario.size):
            await until(partial(all_serve, process))
            await running.more(10)
            before = process.children
            os.kill(process.pid, signal.SIGHUP)
            await until(partial(all_serve, process, *before))
        await running.more(20)
    lost = [one for one in site.history.attempts if one.http == 0 or one.http >= 500]
    scenario.figure("plays", running.plays)
    assert not lost, [(one.http, one.reason, round(one.ended - one.began, 3)) for one in lost]
    scenario.figure("new connections", visits.total())
    scenario.figure("new connections without an answer", visits.total() - visits[200], most=0)
