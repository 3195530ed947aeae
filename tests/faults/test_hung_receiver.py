import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from runtime.streams.consumer import Message
from runtime.streams.receivers import ATTEMPTS_MAX, RECEIVER_MAX
from tests.support.deliveries import delivering, make_receiver_prize, make_task, until_task
from tests.support.receiver import Receiver, hang, receiving
from tests.support.stack import TO_LOOPBACK
from tests.support.waiting import until

pytestmark = pytest.mark.settings(**TO_LOOPBACK)

TENANT = "tenant_test"
TASKS = 3_000

COUNT_UPDATES = """
CREATE SEQUENCE updates;
CREATE FUNCTION count_update() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('updates'); RETURN NULL; END $$;
CREATE TRIGGER counted AFTER UPDATE ON tasks FOR EACH ROW EXECUTE FUNCTION count_update();
CREATE TRIGGER counted AFTER UPDATE ON rewards FOR EACH ROW EXECUTE FUNCTION count_update();
"""

MANY_TASKS = """
WITH made AS (
    INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity)
    SELECT $1, 'reward_' || lpad(n::text, 6, '0'), 'player_a', $2, 'camp_x', 'Mug', 'goods', 5, 1
    FROM generate_series(1, $3::integer) AS n RETURNING reward_id
)
INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, next_attempt_at)
SELECT $1, replace(reward_id, 'reward', 'task'), reward_id, $2, 'camp_x', 'player_a', 'webhook', 'pending', now()
FROM made
"""


@pytest.fixture
async def hung(engine: Any) -> AsyncIterator[Receiver]:
    async with receiving() as slow:
        slow.replies = [hang] * (TASKS * 8)
        prize_id = await make_receiver_prize(engine, TENANT, slow.url)
        await engine.database.execute(MANY_TASKS, TENANT, prize_id, TASKS)
        async with engine.database.connection() as connection:
            await connection.execute(COUNT_UPDATES)
        yield slow


async def updates(engine: Any) -> int:
    return int(await engine.database.fetchval("SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM updates"))


@pytest.mark.parametrize("streamed", [False, True])
async def test_hung_receivers_updates_are_proportional_to_attempts(engine: Any, hung: Receiver, streamed: bool) -> None:
    """A lease, the reward's and the outcome's for each attempt, and once what was leased ahead before it was known."""
    async with delivering(engine, attempt_seconds=2) as worker:
        stop = asyncio.Event()
        if streamed:
            task_ids = [f"task_{nth:06}" for nth in range(1, TASKS + 1)]
            messages = [Message("s", task_id, {b"t": f"{TENANT} {task_id}".encode()}) for task_id in task_ids]
            for first in range(0, TASKS, 128):
                assert not await worker.handle(messages[first : first + 128])
        sweeping = asyncio.create_task(worker.keep_sweeping(stop))
        await until(lambda: len(hung.all) >= RECEIVER_MAX * 4)
        stop.set()
        await sweeping
    assert len(hung.all) < TASKS, "an attempt for each would prove nothing"
    assert len(hung.all) <= await updates(engine) <= 3 * len(hung.all) + 3 * ATTEMPTS_MAX


async def test_recovered_receiver_gets_all_waiting_deliveries(engine: Any, hung: Receiver) -> None:
    async with delivering(engine, attempt_seconds=1) as worker:
        stop = asyncio.Event()
        sweeping = asyncio.create_task(worker.keep_sweeping(stop, 0.05))
        await until(lambda: len(hung.all) >= RECEIVER_MAX * 2)
        hung.replies = []
        await until(lambda: delivered(engine, TASKS - RECEIVER_MAX * 4))
        stop.set()
        await sweeping


@pytest.mark.fault(
    "Slow or dripping webhook", size="3,000 tasks of one that hangs", figure="5 of 5 of another delivered"
)
async def test_hung_receiver_delays_no_other_of_its_tenant(engine: Any, hung: Receiver, receiver: Receiver) -> None:
    async with delivering(engine, attempt_seconds=2) as worker:
        stop = asyncio.Event()
        sweeping = asyncio.create_task(worker.keep_sweeping(stop, 0.05))
        await until(lambda: len(hung.all) > RECEIVER_MAX)
        prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
        for _ in range(5):
            await until_task(engine, await make_task(engine, TENANT, prize_id), "delivered")
        stop.set()
        await sweeping
    assert len(receiver.all) == 5


async def delivered(engine: Any, count: int) -> bool:
    return int(await engine.database.fetchval("SELECT count(*) FROM tasks WHERE status = 'delivered'")) >= count
