"""A game's first play, and a change of whose wallet the game moves, at the same moment: one of them comes first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import asyncpg
import pytest

from runtime.actors.changes import Changes
from runtime.actors.committer import LOCK_TIMEOUT_MS
from tests.support.operations import make_merchant
from tests.support.rivals import waits
from tests.support.stack import Answer, Stack, refused
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World, new_world

CAMPAIGNS, MERCHANTS, TENANTS = (f"WALLET_SCOPE_{name}" for name in ("CAMPAIGN", "MERCHANT", "TENANT"))
KEPT = (400, "FAILED_PRECONDITION", "HAS_HISTORY")


@asynccontextmanager
async def held(stack: Stack, rows: str) -> AsyncIterator[None]:
    """Rows that somebody else holds for the length of the block: `FROM ... WHERE ...`."""
    holder = await asyncpg.connect(stack.process.settings.database_url)
    try:
        async with holder.transaction():
            assert await holder.fetch(f"SELECT 1 {rows} FOR UPDATE")
            yield
    finally:
        await holder.close()


async def wait_for_locks(stack: Stack, count: int, *asked: asyncio.Task[Any]) -> None:
    async def has_come_about() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return bool(await stack.database.fetchval(query) >= count) or any(task.done() for task in asked)

    await until(has_come_about)


async def scopes_of_ledger(world: World) -> set[str]:
    rows = await world.database.fetch("SELECT scope_key FROM ledger_entries WHERE reason = 'play_reward'")
    return {row["scope_key"] for row in rows}


CHANGES: Final = {
    "scope": ("games", {"wallet_scope": TENANTS}),
    "currency": ("games", {"handler_config": {"items": [{**COINS["items"][0], "item": "star"}]}}),
    "merchant": ("campaigns", {}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_first_play_locks_the_keys_that_it_moves(stack: Stack, change: str) -> None:
    merchants = [await make_merchant(stack) for _ in range(2)]
    async with new_world(stack, merchant_id=merchants[0]) as world:
        game_id = await world.game(COLLECTION, COINS, wallet_scope=MERCHANTS)
        session = await world.session(game_id)
        moved = {"player_id": "ann", "scope_key": merchants[0], "currency": "coin", "amount": 1}
        assert (await stack.admin("POST", "/admin/wallet/adjustments", moved)).data
        kind, body = CHANGES[change]
        path = f"{kind}/{game_id if kind == 'games' else world.campaign_id}"
        async with held(stack, "FROM balances"):
            play = asyncio.create_task(world.play(game_id, session))
            await wait_for_locks(stack, 1, play)
            update = asyncio.create_task(stack.admin("PUT", f"/admin/{path}", body or {"merchant_id": merchants[1]}))
            await wait_for_locks(stack, 2, play, update)
        assert (await play).data["balances"] == [{"currency": "coin", "balance": 3}]
        assert refused(await update) == KEPT
        assert await scopes_of_ledger(world) == {merchants[0]}


async def test_game_is_not_deleted_during_its_first_play(stack: Stack, own_world: World) -> None:
    prize_id = await own_world.prize(total=5)
    game_id = await own_world.wheel(prize_id)
    session = await own_world.session(game_id)
    async with held(stack, f"FROM stock WHERE prize_id = '{prize_id}'"):
        play = asyncio.create_task(own_world.play(game_id, session))
        await until(partial(waits, stack, "commit.commit", seconds=2 * LOCK_TIMEOUT_MS / 1000))  # No shared statement.
        delete = asyncio.create_task(stack.admin("DELETE", f"/admin/games/{game_id}"))
        await wait_for_locks(stack, 2, play, delete)
    assert len((await play).data["rewards"]) == 1
    assert (await delete).data["archived"] is True
    assert len(await own_world.plays()) == 1


async def test_first_play_during_a_change_is_decided_after_it(stack: Stack, own_world: World) -> None:
    game_id = await own_world.game(COLLECTION, COINS)
    session = await own_world.session(game_id)
    async with held(stack, "FROM games"):
        update = asyncio.create_task(stack.admin("PUT", f"/admin/games/{game_id}", {"wallet_scope": TENANTS}))
        await wait_for_locks(stack, 1, update)
        play = asyncio.create_task(own_world.play(game_id, session))
        await wait_for_locks(stack, 2, play, update)
    answers: list[Answer] = [await update, await play]
    assert [answer.code for answer in answers] == ["OK", "OK"]
    assert await scopes_of_ledger(own_world) == {stack.tenant_id}


async def test_only_first_play_locks_catalogue(stack: Stack, own_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    committer = stack.engine.committer
    commit, holds = committer.commit, list[bool]()

    def watched(tenant_id: str, changes: Changes) -> asyncio.Future[dict[str, int | None]]:
        holds.append(bool(changes.debuts))
        return commit(tenant_id, changes)

    monkeypatch.setattr(committer, "commit", watched)
    game_id = await own_world.game(COLLECTION, COINS)
    for _ in range(2):
        assert (await own_world.round(game_id)).code == "OK"
    assert (await stack.admin("PUT", f"/admin/games/{game_id}", {"name": "Another"})).data
    assert (await own_world.round(game_id)).code == "OK"
    assert holds == [True, False, False]
