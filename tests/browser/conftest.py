"""One Chromium and one stack for all tests of pages, on one event loop.

browser   session   the system's Chromium (tests.support.browsing)
shop      session   a running process of every role, which these tests share
fair      function  a fresh campaign on it, checked at the end (tests.support.world.World)
visit     function  a fresh visitor who wants things to stay still; nothing may go wrong on the page
issuer    session   an OIDC provider, where staff sign in (tests.support.issuer)
office    session   a running process as operators have it: the strict matrix, and that issuer
counter   module    another as they have it, of the module's own, which delivers to receivers of the test's
house     module    the one of these two that the module's staff are at: the office, where it says nothing else
stall     function  a fresh campaign there, checked at the end
desk      function  somebody of its staff's in a fresh tab (tests.support.staff)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.support.browsing import STILL, Visit, browsing, visiting
from tests.support.issuer import Issuer, issuing
from tests.support.stack import TENANT, TO_LOOPBACK, Stack, new_stack, settings_of
from tests.support.staff import Desk, at_desk
from tests.support.world import World, new_world

if TYPE_CHECKING:
    from playwright.async_api import Browser


PLAY = "https://play.example"
"""Where the office says that players are."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with browsing() as browser:
        yield browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as issuer:
        yield issuer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def service(
    browser: Browser, issuer: Issuer, make_database: Callable[[], str], valkey_url: str
) -> AsyncIterator[Stack]:
    own = {"default_tenant": TENANT, "role_matrix": "strict", "show_odds": True, "consumer_base_url": PLAY}
    settings = settings_of(make_database(), valkey_url, **own, **issuer.settings, **TO_LOOPBACK)
    async with new_stack(settings) as stack:
        yield stack


@pytest.fixture
def tenant(service: Stack) -> Stack:
    return service


@pytest_asyncio.fixture(loop_scope="session")
async def fair(tenant: Stack) -> AsyncIterator[World]:
    async with new_world(tenant, name="Autumn Fair") as world:
        yield world


@pytest_asyncio.fixture(loop_scope="session")
async def visit(browser: Browser, tenant: Stack) -> AsyncIterator[Visit]:
    async with visiting(browser, tenant, **STILL) as visit:
        yield visit


@pytest_asyncio.fixture(loop_scope="session")
async def moving(browser: Browser, tenant: Stack) -> AsyncIterator[Visit]:
    async with visiting(browser, tenant) as visit:
        yield visit


@pytest.fixture(scope="session")
def shop(service: Stack) -> Stack:
    return service


@pytest.fixture(scope="session")
def office(service: Stack) -> Stack:
    return service


@pytest.fixture(scope="module")
def counter_settings() -> dict[str, Any]:
    """What is set at the counter beside the strict matrix. A module says what else it needs."""
    return dict(TO_LOOPBACK)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def counter(
    browser: Browser, make_database: Callable[[], str], valkey_url: str, counter_settings: dict[str, Any]
) -> AsyncIterator[Stack]:
    own = {"default_tenant": TENANT, "role_matrix": "strict", **counter_settings}
    async with new_stack(settings_of(make_database(), valkey_url, **own)) as stack:
        yield stack


@pytest.fixture(scope="module")
def house(office: Stack) -> Stack:
    """Where the module's staff are. A module that wants a process of its own returns the counter."""
    return office


@pytest_asyncio.fixture(loop_scope="session")
async def stall(house: Stack) -> AsyncIterator[World]:
    async with new_world(house, name="Autumn Fair") as world:
        yield world


@pytest_asyncio.fixture(loop_scope="session")
async def desk(browser: Browser, house: Stack) -> AsyncIterator[Desk]:
    async with at_desk(browser, house, **STILL) as desk:
        yield desk
