from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.approvals import HELD
from tests.support.resources import make_campaign
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.world import Launched, World


@pytest_asyncio.fixture(scope="module")
async def office(module_database_url: str, valkey_url: str) -> AsyncIterator[Stack]:
    async with new_stack(settings_of(module_database_url, valkey_url, role_matrix="strict", **HELD)) as stack:
        yield stack


@pytest.fixture
async def fair(office: Stack) -> World:
    return Launched(office, (await make_campaign(office))["id"])
