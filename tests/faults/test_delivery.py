"""Deliveries under faults: workers killed before and after the POST, Postgres and Valkey gone, slow receivers."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ops.devstack import Postgres, Valkey
from runtime.settings import Settings
from tests import rewarding
from tests.outgoing import delivering, make_due, make_receiver_prize, make_task, state, until, working
from tests.receiver import Receiver, hang, receiving, status

TENANT = "tenant_test"
LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def settings(database_url: str, valkey_url: str, valkey_flush: None) -> Settings:
    return rewarding.settings_of(database_url, valkey_url, outbound_allow_cidrs=LOOPBACK, stream_shards=1)


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Any]:
    async with rewarding.core(settings) as core:
        yield core.engine


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


WORKER = """
import asyncio, sys
from runtime.settings import Settings
from runtime.actors.engine import Engine
from runtime.database import Database
from runtime.ephemeral import Ephemeral
from runtime.events import Publisher
from tests.outgoing import delivering

async def main():
    settings = Settings.from_env({**__import__("os").environ})
    ephemeral = Ephemeral(settings.redis_url)
    await ephemeral.start()
    database = Database(settings.database_url, size=4, acquire_seconds=5, statement_seconds=5)
    await database.start()
    engine = Engine(settings, database, ephemeral, Publisher(ephemeral, shards=1, length_max=1000))
    async with delivering(engine) as worker:
        print("leased", await worker.sweep(), flush=True)
        if sys.argv[1] == "before":
            await asyncio.Event().wait()
        await worker.finish()
asyncio.run(main())
"""


async def worker_process(settings: Settings, how: str) -> Any:
    key = settings.code_keys[0]
    environ = {
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "CODE_KEYS": f"{key.id}:{key.secret.hex()}",
        "OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8",
        "PYTHONPATH": ".",
    }
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, how, env=environ, stdout=subprocess.DEVNULL
    )


async def test_a_worker_killed_after_the_post_is_succeeded_under_the_same_id(
    settings: Settings, engine: Any, receiver: Receiver
) -> None:
    """The receiver has it, nobody recorded it: it is sent again, and the id says that it is the same."""
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    task_id = await make_task(engine, TENANT, prize_id)
    for _ in range(3):
        receiver.replies = [hang]
        worker = await worker_process(settings, "after")
        got = await receiver.next()
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        assert got.headers["webhook-id"] == task_id
        assert await state(engine, task_id) == ("delivering", "fulfilling")
        async with delivering(engine) as other:
            assert await other.sweep() == 0, "the lease holds until its time"
        await make_due(engine, task_id)
    async with delivering(engine) as other:
        assert await other.sweep() == 1
    assert await state(engine, task_id) == ("delivered", "fulfilled")
    assert {got.json["id"] for got in receiver.all} == {task_id}
    effects = {got.headers["webhook-id"]: got.body for got in receiver.all}
    assert len(effects) == 1 and len({got.body for got in receiver.all}) == 1, "the same body at each resend"


async def test_a_slow_worker_whose_lease_ran_out_does_not_record(engine: Any, receiver: Receiver) -> None:
    answer = asyncio.Event()

    async def late(got: Any) -> Any:
        await answer.wait()
        return await status(500)(got)

    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    task_id = await make_task(engine, TENANT, prize_id)
    receiver.replies = [late]
    async with delivering(engine) as slow:
        await slow.sweep()
        await receiver.next()
        await make_due(engine, task_id)
        async with delivering(engine) as quick:
            assert await quick.sweep() == 1
        assert await state(engine, task_id) == ("delivered", "fulfilled")
        answer.set()
    assert await state(engine, task_id) == ("delivered", "fulfilled"), "delivered is final"


async def test_a_receiver_that_hangs_leaves_room_for_others(engine: Any, receiver: Receiver) -> None:
    async with receiving() as slow:
        slow.replies = [hang] * 1000
        slow_prize = await make_receiver_prize(engine, TENANT, slow.url)
        prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
        slow_tasks = [await make_task(engine, TENANT, slow_prize) for _ in range(80)]
        tasks = [await make_task(engine, TENANT, prize_id) for _ in range(20)]
        async with delivering(engine, attempt_seconds=3) as worker:
            stop = asyncio.Event()
            sweeping = asyncio.create_task(worker.keep_sweeping(stop, 0.05))
            for task_id in tasks:
                assert await until(engine, task_id, "delivered") == ("delivered", "fulfilled")
            stop.set()
            await sweeping
        ended = {(await state(engine, task_id))[0] for task_id in slow_tasks}
        assert ended == {"retry"}


async def test_valkey_killed_loses_no_delivery(engine: Any, receiver: Receiver, valkey_server: Valkey) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    async with working(engine, "deliveries"):
        valkey_server.kill()
        try:
            task_id = await make_task(engine, TENANT, prize_id)
            engine.publisher.tasks(TENANT, [task_id])  # counted as lost, and no matter
            assert await until(engine, task_id, "delivered") == ("delivered", "fulfilled")
        finally:
            valkey_server.start()
        task_id = await make_task(engine, TENANT, prize_id)
        assert await until(engine, task_id, "delivered") == ("delivered", "fulfilled")


async def test_postgres_restarted_loses_no_delivery(engine: Any, receiver: Receiver, postgres: Postgres) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    held = asyncio.Event()

    async def during(got: Any) -> Any:
        await held.wait()
        return await status(204)(got)

    receiver.replies = [during]
    async with working(engine, "deliveries"):
        task_id = await make_task(engine, TENANT, prize_id)
        await receiver.next()
        postgres.restart_immediately()
        held.set()  # the outcome waits for the database, and is recorded under the lease
        assert await until(engine, task_id, "delivered") == ("delivered", "fulfilled")
    # This server does not sync its commits, so the lease itself may be lost with it: then it is sent once more.
    assert {got.headers["webhook-id"] for got in receiver.all} == {task_id}


async def test_garbage_in_the_stream_harms_no_task(engine: Any, receiver: Receiver) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    stream = "tombola:tasks:{0}"
    async with working(engine, "deliveries"):
        for garbage in (b"", b"\xff", b"a b c", b"tenant_test task_\x00", b" "):
            await engine.ephemeral.run("XADD", stream, "*", "t", garbage)
        await engine.ephemeral.run("XADD", stream, "*", "other", "x")
        task_id = await make_task(engine, TENANT, prize_id)
        engine.publisher.tasks(TENANT, [task_id, "task_unknown"])
        assert await until(engine, task_id, "delivered") == ("delivered", "fulfilled")
        async with asyncio.timeout(30):
            while await engine.ephemeral.run("XLEN", "tombola:dead:{0}") < 6:
                await asyncio.sleep(0.05)
