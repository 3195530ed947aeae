"""Fixtures of faults that are made on real processes.

deployment  module    two Cores, both edges and their stores (ops.certification.deployment). Processes that lived on
                      would idle beside all later tests
bare        function  a fresh tenant of it (ops.certification.site.Site), judged at the end
site        function  the same, with all that the load plays; at full size with every worker
load        function  begins the load: `async with load() as running`
engine      function  that of a Core without edges
server      module    a PostgreSQL of its own, with the migrated database "tombola"
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ops.certification.deployment import WORKERS, Deployment, deployed
from ops.certification.judge import judge
from ops.certification.load import Begin, Load, loaded
from ops.certification.site import Site, founded, furnish
from ops.servers.postgres import DISPOSABLE, Postgres
from runtime.actors.engine import Engine
from runtime.settings import Settings
from sql.migrate import migrate
from tests.support.directories import server_directory, serving_postgres
from tests.support.receiver import Receiver
from tests.support.rewards import core
from tests.support.scenario import FULL

SHOWN = 5


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    async with core(settings) as running:
        yield running.engine


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with serving_postgres({**DISPOSABLE, "synchronous_commit": "on"}) as server:
        server.psql("create database tombola")
        asyncio.run(migrate(server.url("tombola")))
        yield server


@pytest_asyncio.fixture(scope="module")
async def deployment() -> AsyncIterator[Deployment]:
    with server_directory() as directory:
        async with deployed(directory) as running:
            yield running


@pytest.fixture
async def bare(deployment: Deployment, tmp_path: Path) -> AsyncIterator[Site]:
    await deployment.mend()
    made = await founded(deployment)
    yield made
    await deployment.mend()
    wrong = await judge(made)
    made.history.write(tmp_path / "history.jsonl")
    assert not wrong, f"{len(wrong)} problems: {'; '.join(wrong[:SHOWN])}; see {tmp_path}/history.jsonl"


@pytest.fixture
def workers() -> tuple[str, ...]:
    """The consumer groups that the site's scenario needs: none in the suite, unless a module overrides it."""
    return WORKERS if FULL else ()


@pytest.fixture
async def site(bare: Site, receiver: Receiver, workers: tuple[str, ...]) -> Site:
    for group in workers:
        await bare.deployment.worker(group)
    await furnish(bare, receiver.url if workers else "")
    return bare


@pytest.fixture
def load(site: Site, request: pytest.FixtureRequest) -> Begin:
    def begin(**more: Any) -> AbstractAsyncContextManager[Load]:
        return loaded(site, random.Random(request.node.name), **{"players": 8 if FULL else 2, **more})

    return begin
