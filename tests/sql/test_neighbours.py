"""No transaction touches rows that are told from its own by the tenant or the player alone, or minds them."""

from typing import Final

import pytest

from tests.support.furnished import Scene, new_scene
from tests.support.neighbours import PLAYER, TENANT, shape, surround
from tests.support.stack import Stack
from tests.support.transactions import TRANSACTIONS

SWEEPS: Final = frozenset({"expire_rewards", "give_up_awaited"})

OF_ALL_PLAYERS: Final = frozenset({"finalize", "move_campaign_to_another_zone"})


@pytest.fixture
async def scenes(module_stack: Stack) -> list[Scene]:
    return [await new_scene(module_stack) for _ in range(2)]


@pytest.mark.parametrize("name", [name for name in TRANSACTIONS if name not in SWEEPS])
async def test_transaction_changes_no_rows_of_its_neighbours(name: str, scenes: list[Scene]) -> None:
    _, prepare = TRANSACTIONS[name]
    alone, among = scenes
    await (await prepare(alone))
    work = await prepare(among)
    by = (TENANT,) if name in OF_ALL_PLAYERS else (TENANT, PLAYER)
    neighbours = await surround(among.stack.database, among.tenant_id, by=by)
    await work
    assert await neighbours.changed(among.stack.database) == {}
    database = among.stack.database
    assert await shape(database, among.tenant_id) == await shape(database, alone.tenant_id)
