"""Fixtures that every test may use: real servers, nothing mocked. Each of a test process' own servers (`postgres`,
`valkey_server`) starts with the first test that asks for it. A test may stop or freeze it, and puts it back at its end.

    template_database  the name of a migrated database to copy; do not connect to it
    database_url       a migrated database without rows, emptied before the test; `module_...`: a module shares it
    bare_service       the databases of a test that starts `own_stack` of other settings; `module_service`: a module's
    make_database      a function that makes further migrated databases, and returns their URLs
    pool               an asyncpg pool on database_url (4 connections)
    valkey             a redis.asyncio client on a flushed server; use it, or `valkey_flush`, wherever keys matter
    receiver           a receiver of webhooks (tests.support.receiver)
    extra_settings     what the marks `settings(field=value)` of a test, its class and its module say; of
                       `module_stack`, those of its module
    stack              a process of every role, as a new tenant sees it (tests.support.stack.Stack); tests with
                       equal settings share it, unless marked `own_service`; `module_stack`: shared by a module's tests
    engine, shelf, phone  its engine; prizes and rewards written by hand; the codes that the log sender printed
    own_world, world   a fresh campaign on `stack`, or on `module_stack`, checked at the end (tests.support.world.World)
    furnished          `module_stack` with one thing of every kind (tests.support.bodies.Furnished); `known`: its ids
    data_dir           a directory that `ops/up` and embedded servers may use
"""

import asyncio
import gc
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest
import pytest_asyncio
import redis.asyncio

from ops.servers.postgres import DISPOSABLE, Postgres
from ops.servers.valkey import Valkey
from runtime.actors.engine import Engine
from runtime.settings import Settings
from runtime.stores.database import chosen
from sql.migrate import migrate
from tests.support import order
from tests.support.bodies import Furnished
from tests.support.browsing import NO_BROWSER
from tests.support.directories import server_directory, serving_postgres, serving_valkey
from tests.support.login import Phone
from tests.support.mailbox import mailbox as mailbox
from tests.support.operations import Ids, furnish
from tests.support.receiver import Receiver, receiving
from tests.support.rewards import Shelf
from tests.support.scenario import FULL
from tests.support.scenario import scenario as scenario
from tests.support.seed import seed_hypothesis
from tests.support.shared import KEPT, KEPT_FOR_SERVICES, SharedDatabase, SharedService
from tests.support.stack import TENANT, Stack, new_stack, settings_of
from tests.support.world import World, new_world

_TEMPLATE = "tombola_template"

DATABASES: Final = int(os.environ.get("TOMBOLA_TEST_DATABASES", "1"))
"""With 2, services have two databases, and the tests' tenants live in the two in turn (tests/support/shared.py)."""

seed_hypothesis()
gc.disable()  # until the tests are collected, of which nothing is dropped


def pytest_collection_finish() -> None:
    """What thousands of tests are made of stays to the end: looked through each time, it took a second."""
    gc.freeze()
    gc.set_threshold(20_000)  # As shipped, 700: it took a twentieth of the processor.
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if FULL and "full" in getattr(item.get_closest_marker("fault"), "kwargs", {}):
            item.add_marker(pytest.mark.timeout(3600), append=False)
    if not os.environ.get("TOMBOLA_NIGHTLY"):
        left = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=left)
    order.begin_with_the_longest(items)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report for found in terminalreporter.stats.values() for report in found if isinstance(report, pytest.TestReport)
    ]
    for line in order.to_name(reports):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with serving_postgres(DISPOSABLE) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: Postgres) -> str:
    return postgres.url()


@pytest.fixture(scope="session")
def template_database(postgres: Postgres) -> str:
    postgres.psql(f"create database {_TEMPLATE}")
    # A loop factory of its own leaves the test loop's registration alone, as asyncio.run would not.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(migrate(postgres.url(_TEMPLATE)))
    return _TEMPLATE


@pytest.fixture(scope="session")
def make_database(postgres: Postgres, template_database: str) -> Callable[[], str]:
    numbers = itertools.count(1)

    def make() -> str:
        name = f"test_{next(numbers)}"
        # Half the time of the other strategy, which writes a log of every page.
        postgres.psql(f"create database {name} template {template_database} strategy file_copy")
        return postgres.url(name)

    return make


@pytest_asyncio.fixture(scope="session")
async def services(
    postgres: Postgres, make_database: Callable[[], str], valkey_server: Valkey
) -> AsyncIterator[Callable[[str], SharedService]]:
    shared: dict[str, SharedService] = {}

    def named(name: str) -> SharedService:
        if name not in shared:
            stored = KEPT if name == "none" else KEPT_FOR_SERVICES
            make = partial(SharedDatabase, make_database, partial(_drop, postgres), kept=stored)
            shared[name] = SharedService([make() for _ in range(DATABASES)], valkey_server.url)
        return shared[name]

    yield named
    for service in shared.values():
        await service.stop()


@pytest.fixture
def service(
    request: pytest.FixtureRequest, services: Callable[[str], SharedService], extra_settings: dict[str, Any]
) -> SharedService:
    if "stack" not in request.fixturenames:
        return services("none")
    return services("other settings" if extra_settings else "usual settings")


@pytest.fixture
async def database_url(service: SharedService) -> str:
    return await service.empty_database()


@pytest.fixture
def bare_service(service: SharedService, database_url: str, valkey_flush: None) -> SharedService:
    return service


@pytest_asyncio.fixture(scope="module")
async def module_database_url(services: Callable[[str], SharedService]) -> str:
    return await services("module").empty_database()


@pytest.fixture(scope="module")
def module_service(services: Callable[[str], SharedService], module_database_url: str) -> SharedService:
    return services("module")


@pytest.fixture
def empty_database_url(postgres: Postgres) -> Iterator[str]:
    postgres.psql("create database empty")
    yield postgres.url("empty")
    _drop(postgres, postgres.url("empty"))


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(database_url, min_size=1, max_size=4) as pool:
        yield pool


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[Valkey]:
    with serving_valkey() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_url(valkey_server: Valkey) -> str:
    return valkey_server.url


@pytest.fixture
def valkey_flush(valkey_server: Valkey) -> None:
    valkey_server.command("FLUSHALL")


@pytest.fixture
async def valkey(valkey_url: str, valkey_flush: None) -> AsyncIterator[redis.asyncio.Redis]:
    client = redis.asyncio.Redis.from_url(valkey_url)
    yield client
    await client.aclose()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def _marked(request: pytest.FixtureRequest) -> dict[str, Any]:
    marks = list(request.node.iter_markers("settings"))
    return {name: value for mark in reversed(marks) for name, value in mark.kwargs.items()}


extra_settings = pytest.fixture(_marked, name="extra_settings")
module_extra_settings = pytest.fixture(_marked, name="module_extra_settings", scope="module")


@pytest.fixture
def settings(
    request: pytest.FixtureRequest,
    database_url: str,
    valkey_url: str,
    valkey_flush: None,
    extra_settings: dict[str, Any],
) -> Settings:
    if "stack" in request.fixturenames:
        stack: Stack = request.getfixturevalue("stack")
        return stack.process.settings
    return settings_of(database_url, valkey_url, **extra_settings)


@pytest.fixture
async def stack(
    request: pytest.FixtureRequest,
    service: SharedService,
    database_url: str,
    valkey_flush: None,
    extra_settings: dict[str, Any],
) -> AsyncIterator[Stack]:
    # A process counts rates in its own memory, for all its tenants.
    counts = any(name.startswith("rate_") for name in extra_settings)
    alone = counts or request.node.get_closest_marker("own_service") is not None or TENANT in repr(extra_settings)
    if alone:
        await service.stop()
    stack = await service.with_settings(extra_settings, tenant_id=TENANT if alone else "")
    with chosen(stack.database):  # What a test runs by itself, such as a background job.
        yield stack
    if alone:
        await service.stop()


@pytest.fixture
def engine(stack: Stack) -> Engine:
    return stack.engine


@pytest.fixture
async def shelf(stack: Stack) -> Shelf:
    return await Shelf(stack.engine, stack.tenant_id).open()


@pytest.fixture
async def own_world(stack: Stack) -> AsyncIterator[World]:
    async with new_world(stack) as world:
        yield world


@pytest.fixture
def phone(capsys: pytest.CaptureFixture[str]) -> Phone:
    return Phone(capsys)


@pytest_asyncio.fixture(scope="module")
async def module_stack(
    module_service: SharedService,
    module_database_url: str,
    valkey_server: Valkey,
    valkey_url: str,
    module_extra_settings: dict[str, Any],
) -> AsyncIterator[Stack]:
    if (module_database_url, valkey_url) == (module_service.database_url, valkey_server.url):
        named = TENANT if TENANT in repr(module_extra_settings) else ""
        stack = await module_service.with_settings(module_extra_settings, tenant_id=named)
        with chosen(stack.database):
            yield stack
    else:  # The module has a store of its own.
        async with new_stack(settings_of(module_database_url, valkey_url, **module_extra_settings)) as stack:
            yield stack


@pytest_asyncio.fixture
async def world(module_stack: Stack) -> AsyncIterator[World]:
    async with new_world(module_stack) as world:
        yield world


@pytest_asyncio.fixture(scope="module")
async def furnished(module_stack: Stack) -> Furnished:
    return Furnished(module_stack, await furnish(module_stack))


@pytest.fixture(scope="module")
def known(furnished: Furnished) -> Ids:
    return furnished.known


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with server_directory() as directory:
        yield directory / "data"


def _drop(postgres: Postgres, url: str) -> None:
    postgres.psql(f"drop database {url.rsplit('/', 1)[1]} with (force)")


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line says what was left out for want of a browser."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    count = sum(NO_BROWSER in str(report.longrepr) for report in skipped)
    if count:
        print(f"{count} tests of the pages were left out: {NO_BROWSER}")
