"""No transaction touches rows that are told from its own by the tenant or the player alone, or minds them."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.furnished import Scene, new_scene
from tests.support.neighbours import PLAYER, TENANT, Neighbours, shape, surround
from tests.support.stack import Stack
from tests.support.transactions import TRANSACTIONS

SWEEPS: Final = frozenset({"expire_rewards", "give_up_awaited"})
"""What is done for every tenant, and so for the neighbour's as well."""

OF_ALL_PLAYERS: Final = frozenset({"finalize", "move_campaign_to_another_zone"})
"""What another player's rows are part of."""


@pytest.fixture
async def scenes(module_stack: Stack) -> list[Scene]:
    """Two that are alike."""
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


async def test_changed_neighbour_is_reported(scenes: list[Scene]) -> None:
    database, tenant_id = scenes[0].stack.database, scenes[0].tenant_id
    neighbours = await surround(database, tenant_id)
    assert await neighbours.changed(database) == {}
    assert {"tenants", "players", "balances", "rewards", "tasks", "stock", "codes"} <= _of(neighbours)
    await database.execute("UPDATE balances SET balance = balance + 1 WHERE player_id = 'player_a'")
    assert list(await neighbours.changed(database)) == ["balances"]


def _of(neighbours: Neighbours) -> set[str]:
    return {table for table, rows in neighbours.rows.items() if rows}
