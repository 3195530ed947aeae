import asyncio

import pytest

from runtime.streams.expiry import expire
from tests.support import invariants
from tests.support.deliveries import delivering, state, sweep
from tests.support.receiver import Receiver, status
from tests.support.stack import TO_LOOPBACK, refused
from tests.support.world import World

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


async def make_prize(world: World, url: str, total: int) -> str:
    return await world.prize(total=total, fulfillment={"channel": "webhook", "config": {"url": url}})


async def give_up(world: World, receiver: Receiver) -> tuple[str, str, str]:
    """A prize of one unit whose delivery was given up: (its game, the reward, the task)."""
    receiver.replies = [status(410)]
    game_id = await world.wheel(await make_prize(world, receiver.url, 1))
    (won,) = (await world.round(game_id, "ann")).data["rewards"]
    await sweep(world.stack.engine)
    task_id = await world.database.fetchval("SELECT task_id FROM tasks WHERE reward_id = $1", won["reward_id"])
    assert await state(world.stack.engine, task_id) == ("dead", "failed")
    return game_id, won["reward_id"], task_id


async def test_unit_of_a_failed_delivery_can_be_won_again(own_world: World, receiver: Receiver) -> None:
    game_id, reward_id, task_id = await give_up(own_world, receiver)
    assert len((await own_world.round(game_id, "bob")).data["rewards"]) == 1
    admin = own_world.stack.admin
    for path in (f"/admin/fulfillment/tasks/{task_id}/retry", f"/admin/rewards/{reward_id}/fulfill"):
        assert refused(await admin("POST", path, {})) == (400, "FAILED_PRECONDITION", "OUT_OF_STOCK")
    late = await own_world.stack.core("POST", f"/fulfillment/tasks/{task_id}/callback", {"status": "delivered"})
    assert late.reason == "OUT_OF_STOCK"
    assert await state(own_world.stack.engine, task_id) == ("dead", "failed")


@pytest.mark.parametrize("how", ["callback", "fulfill", "retry", "revoke"])
async def test_unit_of_a_failed_delivery_is_taken_by_a_late_one(own_world: World, receiver: Receiver, how: str) -> None:
    _, reward_id, task_id = await give_up(own_world, receiver)
    stack = own_world.stack
    if how == "callback":
        answer = await stack.core("POST", f"/fulfillment/tasks/{task_id}/callback", {"status": "delivered"})
    else:
        of = f"fulfillment/tasks/{task_id}" if how == "retry" else f"rewards/{reward_id}"
        answer = await stack.admin("POST", f"/admin/{of}/{how}", {})
    assert answer.http == 200
    assert await own_world.database.fetchval("SELECT remaining FROM stock") == (1 if how == "revoke" else 0)
    told = "SELECT count(*) FROM audit_entries WHERE action = 'reward.retake' AND subject_id = $1"
    assert await own_world.database.fetchval(told, reward_id) == (how != "revoke"), "for the readers of a dossier"
    if how == "retry":
        await sweep(stack.engine)
    ended = ("cancelled", "revoked") if how == "revoke" else ("delivered", "fulfilled")
    assert await state(stack.engine, task_id) == ended


async def test_revokes_expiries_deliveries_and_plays_at_once_lose_no_unit(own_world: World, receiver: Receiver) -> None:
    world = own_world
    receiver.replies = [status(410), status(200)] * 100
    hook = await make_prize(world, receiver.url, 8)
    fulfillment = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    game_id = await world.wheel(hook, await world.prize(total=8, fulfillment=fulfillment, expires_after_days=1))

    async def revoke_some() -> None:
        for row in await world.database.fetch("SELECT reward_id FROM rewards ORDER BY random() LIMIT 4"):
            await world.stack.admin("POST", f"/admin/rewards/{row['reward_id']}/revoke", {})

    async def expire_some() -> None:
        late = "SELECT reward_id FROM rewards WHERE status = 'won' AND expires_at IS NOT NULL LIMIT 3"
        await world.database.execute(f"UPDATE rewards SET expires_at = now() WHERE reward_id IN ({late})")
        await expire(world.stack.engine)

    async with delivering(world.stack.engine) as worker:
        for turn in range(5):
            await asyncio.gather(
                *(world.round(game_id, f"{turn}_{nth}") for nth in range(10)),
                *(revoke_some(), expire_some(), worker.sweep()),
            )
    ends = {row["status"] for row in await world.database.fetch("SELECT DISTINCT status FROM rewards")}
    assert ends >= {"revoked", "expired", "failed", "fulfilled"}, "else there was nothing at once"
    await invariants.check(world.database)
