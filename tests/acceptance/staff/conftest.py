from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.approvals import HELD
from tests.support.resources import make_campaign
from tests.support.shared import SharedService
from tests.support.stack import Stack
from tests.support.world import Launched, World


@pytest_asyncio.fixture(scope="module")
async def office(module_service: SharedService) -> AsyncIterator[Stack]:
    async with module_service.own_stack(role_matrix="strict", **HELD) as stack:
        yield stack


@pytest.fixture
async def fair(office: Stack) -> World:
    return Launched(office, (await make_campaign(office))["id"])
