"""One Chromium and one service for all tests of pages, on one event loop; a context and a tenant for each test.

browser   session   the system's Chromium (tests.support.browsing)
issuer    session   an OIDC provider, where staff sign in (tests.support.issuer)
service   session   a process of every role: the strict role matrix, that issuer, deliveries to loopback
tenant    function  the service as a fresh tenant sees it
fair      function  a fresh campaign of that tenant; the invariants are checked at the end (tests.support.world.World)
visit     function  a fresh visitor with reduced motion; nothing may go wrong on the page
moving    function  the same without reduced motion
desk      function  a member of the tenant's staff in a fresh tab (tests.support.staff)
"""

import secrets
from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from ops.servers.base import free_port
from tests.support.browsing import STILL, Visit, browsing, visiting
from tests.support.chromium import Browser
from tests.support.issuer import Issuer, issuing
from tests.support.stack import TENANT, TO_LOOPBACK, Stack, make_tenant, new_stack, settings_of
from tests.support.staff import Desk, at_desk
from tests.support.world import World, new_world


@pytest_asyncio.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session")
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as issuer:
        yield issuer


@pytest_asyncio.fixture(scope="session")
async def service(
    browser: Browser, issuer: Issuer, make_database: Callable[[], str], valkey_url: str
) -> AsyncIterator[Stack]:
    port = free_port()
    players = {"consumer_port": port, "consumer_base_url": f"http://127.0.0.1:{port}"}
    own = {"default_tenant": TENANT, "role_matrix": "strict", "show_odds": True, **players}
    settings = settings_of(make_database(), valkey_url, **own, **issuer.settings, **TO_LOOPBACK)
    async with new_stack(settings) as stack:
        yield stack


@pytest.fixture
async def tenant(service: Stack) -> Stack:
    return await make_tenant(service, f"tenant_{secrets.token_hex(4)}")


@pytest.fixture
async def fair(tenant: Stack) -> AsyncIterator[World]:
    async with new_world(tenant, name="Autumn Fair") as world:
        yield world


@pytest.fixture
async def visit(browser: Browser, tenant: Stack) -> AsyncIterator[Visit]:
    async with visiting(browser, tenant, **STILL) as visit:
        yield visit


@pytest.fixture
async def moving(browser: Browser, tenant: Stack) -> AsyncIterator[Visit]:
    async with visiting(browser, tenant) as visit:
        yield visit


@pytest.fixture
async def desk(browser: Browser, tenant: Stack) -> AsyncIterator[Desk]:
    async with at_desk(browser, tenant, **STILL) as desk:
        yield desk
