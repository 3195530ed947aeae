"""The outbox beside rivals and in batches: what its statements lock, what they find when they have waited, and tell."""

import asyncio

import asyncpg
import pytest

from tests.support.locks import blocked
from tests.support.outbox import SQL, Outbox
from tests.support.waiting import HANG_SECONDS


@pytest.mark.parametrize(
    ("locked", "rewards_free", "tasks_free"),
    [("rewards WHERE reward_id = 'a'", 1, 2), ("tasks WHERE task_id = 'x'", 0, 1)],
)
async def test_ends_are_recorded_under_locks_of_rewards_then_tasks_by_their_ids(
    outbox: Outbox, pool: asyncpg.Pool, locked: str, rewards_free: int, tasks_free: int
) -> None:
    for name in ("a", "b", "another"):
        await outbox.task(name, "delivering", owner="me", lease=60)
    await outbox.database.execute("UPDATE tasks SET task_id = 'y' WHERE task_id = 'a'")
    await outbox.database.execute("UPDATE tasks SET task_id = 'x' WHERE task_id = 'b'")
    async with pool.acquire() as rival, pool.acquire() as another, pool.acquire() as onlooker, another.transaction():
        await another.execute("SELECT FROM rewards WHERE reward_id = 'another' FOR UPDATE")
        await another.execute("SELECT FROM tasks WHERE task_id = 'another' FOR UPDATE")
        async with rival.transaction():
            await rival.execute(f"SELECT FROM {locked} FOR UPDATE")
            recording = await blocked(onlooker, outbox.record_all("x", "y"))
            for free, of in ((rewards_free, "reward"), (tasks_free, "task")):
                rows = await onlooker.fetch(f"SELECT FROM {of}s WHERE {of}_id <> 'another' FOR UPDATE SKIP LOCKED")
                assert len(rows) == free, of
        async with asyncio.timeout(HANG_SECONDS):
            assert await recording == ["x", "y"]


async def test_lease_taken_over_meanwhile_is_waited_for_and_lost(outbox: Outbox, pool: asyncpg.Pool) -> None:
    await outbox.task("a", "delivering", owner="me", lease=60)
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("UPDATE tasks SET lease_owner = 'another'")
            recording = await blocked(onlooker, outbox.record_all("a"))
    assert await recording == []
    assert (await outbox.state("a"))["status"] == "delivering"


async def test_callback_that_waits_for_its_task_reserves_no_id(outbox: Outbox, pool: asyncpg.Pool) -> None:
    for name in ("a", "b"):
        await outbox.task(name, "awaiting", lease=60)
    async with pool.acquire() as rival, pool.acquire() as onlooker:
        async with rival.transaction():
            await rival.execute("SELECT FROM tasks WHERE task_id = 'a' FOR UPDATE")
            waiting = await blocked(onlooker, outbox.complete("a", "delivered"))
            async with asyncio.timeout(HANG_SECONDS):
                assert (await outbox.complete("b", "delivered"))["outcome"] == "delivered"
    outcome = await waiting
    assert (outcome["outcome"], outcome["misused"]) == (None, True)


async def test_callback_that_changes_nothing_answers_the_task_as_it_is(outbox: Outbox) -> None:
    await outbox.task("a", "retry", due=300)
    task = await outbox.state("a")
    outcome = await outbox.complete("a", "failed")
    assert outcome["outcome"] is None
    assert outcome["next_attempt_at"] == int(task["next_attempt_at"].timestamp()) > 0


async def test_callback_without_an_external_id_keeps_the_one_there(outbox: Outbox) -> None:
    await outbox.task("a", "awaiting", lease=60)
    await outbox.complete("a", "failed", external_id="")
    assert (await outbox.state("a"))["external_id"] == "ext"


@pytest.mark.parametrize("reward", ["expired", "revoked"])
async def test_callback_never_revives_an_ended_reward(outbox: Outbox, reward: str) -> None:
    await outbox.task("a", "awaiting", reward=reward, lease=60)
    assert (await outbox.complete("a", "delivered"))["outcome"] == "delivered"
    task = await outbox.state("a")
    assert (task["reward"], task["fulfilled_at"]) == (reward, None)


async def test_batch_names_each_task_that_was_given_up(outbox: Outbox) -> None:
    for name in ("a", "b"):
        await outbox.task(name, "delivering", owner="me", lease=60)
    ends = (["a", "b"], ["me"] * 2, ["dead", "delivered"], [""] * 2, [""] * 2, [0.0] * 2, [""] * 2, [0] * 2)
    rows = await outbox.database.fetch(SQL["record"], "t", *ends)
    assert {row["task_id"]: row["failed_reward_id"] for row in rows} == {"a": "a", "b": None}
