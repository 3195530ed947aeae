import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from ops.servers.postgres import Postgres
from ops.servers.valkey import Valkey
from runtime.groups import DELIVERIES, task_stream
from runtime.settings import Settings
from runtime.streams.consumer import Consumer
from runtime.streams.servers import Servers
from sql.migrate import migrate
from tests.support import rewards
from tests.support.deliveries import delivering, make_due, make_receiver_prize, make_task, state, until_task, working
from tests.support.directories import serving_postgres
from tests.support.receiver import Receiver, hang, status
from tests.support.scenario import Scenario
from tests.support.stack import TO_LOOPBACK
from tests.support.waiting import HANG_SECONDS, until

pytestmark = pytest.mark.settings(**TO_LOOPBACK)

TENANT = "tenant_test"


WORKERS = """
import asyncio, os, sys
from runtime.actors.engine import Engine
from runtime.groups import DELIVERIES, task_stream
from runtime.outgoing.connector import Connector
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from runtime.settings import Settings
from runtime.streams.consumer import Consumer
from runtime.streams.delivery import Deliveries
from runtime.streams.outbox import Outbox
from runtime.streams.servers import Servers

def say(what):
    os.write(1, f"{what} {os.getpid()}\\n".encode())

async def there():
    say("there")
    await asyncio.Event().wait()

class Unrecorded(Outbox):
    def ended(self, task, outcome, duration_ms=0):
        say("there")

async def work(point):
    settings = Settings.from_env(os.environ)
    ephemeral = Ephemeral(settings.redis_url)
    await ephemeral.start()
    database = Database(settings.database_url, size=4, acquire_seconds=5, statement_seconds=5)
    await database.start()
    engine = Engine(settings, database, ephemeral, Publisher(ephemeral, shards=1, length_max=1000))
    outbox = (Unrecorded if point == "before-record" else Outbox)(engine)
    worker = Deliveries(engine, Connector(settings.outbound_allow_cidrs), outbox)
    if point == "before-xack":
        async def handle(messages):
            assert not await worker.handle(messages)
            await worker.finish()
            await there()
        await Consumer(Servers(settings), DELIVERIES.name, [task_stream(0)], handle).run(asyncio.Event())
    await worker.sweep()
    await asyncio.Event().wait()

# A worker for each line of the input, forked, since most of a process's start is its imports.
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        say("begun")
        asyncio.run(work(line.strip()))
    os.waitpid(child, 0)
    say("gone")
"""

RESTARTS = 5


class Doomed:
    def __init__(self, parent: asyncio.subprocess.Process) -> None:
        self._parent = parent
        self._pid = 0

    async def begin(self, point: str) -> None:
        self._parent.stdin.write(f"{point}\n".encode())
        self._pid = await self.says("begun")

    async def says(self, what: str) -> int:
        """Returns when it says this; the pid that said it."""
        async with asyncio.timeout(HANG_SECONDS):
            while words := (await self._parent.stdout.readline()).decode().split():
                if words[0] == what:
                    return int(words[1])
        raise AssertionError(f"the worker ended before it said {what}")

    async def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        await self.says("gone")


@pytest.fixture
async def doomed(settings: Settings) -> AsyncIterator[Doomed]:
    key = settings.code_keys[0]
    env = {"DATABASE_URL": settings.database_url, "REDIS_URL": settings.redis_url, "PYTHONPATH": "."}
    env |= {"ADMIN_PORT": str(settings.admin_port), "CODE_KEYS": f"{key.id}:{key.secret.hex()}"}
    env |= {"OUTBOUND_ALLOW_CIDRS": "127.0.0.0/8", "STREAM_SHARDS": "1"}
    pipe, command = subprocess.PIPE, (sys.executable, "-c", WORKERS)
    parent = await asyncio.create_subprocess_exec(*command, env=env, stdin=pipe, stdout=pipe)
    yield Doomed(parent)
    parent.stdin.close()
    await parent.wait()


async def succeeded(engine: Any, task_id: str) -> None:
    """Another worker finds the lease held; once it has run out, it delivers."""
    async with delivering(engine) as other:
        assert await other.sweep() == 0, "the lease holds until its time"
        await make_due(engine, task_id)
        assert await other.sweep() == 1
    assert await state(engine, task_id) == ("delivered", "fulfilled")


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.fault(
    "Delivery worker killed after the POST",
    small=3,
    full=20,
    unit="kills, answered and not",
    figure="2 POSTs a task under one id",
)
async def test_worker_killed_after_its_post_is_replaced_under_the_same_id(
    scenario: Scenario, doomed: Doomed, engine: Any, receiver: Receiver, answered: bool
) -> None:
    """The receiver has the delivery but no outcome is recorded, so it is sent again under the same id."""
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    tasks = []
    for _ in range(scenario.size):
        tasks.append(await make_task(engine, TENANT, prize_id))
        receiver.replies = [status(204) if answered else hang]
        await doomed.begin("before-record")
        await receiver.next()
        if answered:
            await doomed.says("there")
        await doomed.kill()
        assert await state(engine, tasks[-1]) == ("delivering", "fulfilling")
        await succeeded(engine, tasks[-1])
        await receiver.next()
    assert [got.headers["webhook-id"] for got in receiver.all] == [task for task in tasks for _ in range(2)]
    effects = {got.headers["webhook-id"]: got.body for got in receiver.all}
    assert len({got.body for got in receiver.all}) == len(effects) == scenario.size, "the same body at each resend"


@pytest.mark.fault("Consumer killed before XACK", small=3, full=20, unit="kills", figure="no second POST")
async def test_worker_killed_before_it_acknowledged_posts_once(
    scenario: Scenario, doomed: Doomed, settings: Settings, engine: Any, receiver: Receiver
) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    stream, tasks = task_stream(0), []
    for _ in range(scenario.size):
        tasks.append(await make_task(engine, TENANT, prize_id))
        engine.publisher.tasks(TENANT, [tasks[-1]])
        await doomed.begin("before-xack")
        await doomed.says("there")
        await doomed.kill()
        assert await state(engine, tasks[-1]) == ("delivered", "fulfilled")
    assert (await engine.ephemeral.run("XPENDING", stream, DELIVERIES.name))[0] == scenario.size
    stop = asyncio.Event()
    async with delivering(engine) as other:
        consumer = Consumer(
            Servers(settings), DELIVERIES.name, [stream], other.handle, claim_idle_ms=1, claim_seconds=0.05
        )
        running = asyncio.create_task(consumer.run(stop))
        await until(lambda: engine.ephemeral.run("XPENDING", stream, DELIVERIES.name), lambda it: not it[0])
        stop.set()
        await running
    assert [got.headers["webhook-id"] for got in receiver.all] == tasks, "each was sent once"


async def test_valkey_killed_loses_no_delivery(engine: Any, receiver: Receiver, valkey_server: Valkey) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    async with working(engine, "deliveries"):
        valkey_server.kill()
        try:
            task_id = await make_task(engine, TENANT, prize_id)
            engine.publisher.tasks(TENANT, [task_id])  # counted as lost, and no matter
            assert await until_task(engine, task_id, "delivered") == ("delivered", "fulfilled")
        finally:
            valkey_server.start()
        task_id = await make_task(engine, TENANT, prize_id)
        assert await until_task(engine, task_id, "delivered") == ("delivered", "fulfilled")


@pytest.fixture
async def durable() -> AsyncIterator[Postgres]:
    with serving_postgres() as server:
        await migrate(server.url())
        yield server


async def test_postgres_restart_sends_a_post_once(durable: Postgres, settings: Settings, receiver: Receiver) -> None:
    """The lease was committed before the POST, so it survives the restart and the outcome is recorded under it."""
    tasks = []
    async with rewards.core(replace(settings, database_url=durable.url())) as core:
        engine = core.engine
        prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
        async with working(engine, "deliveries"):
            for _ in range(RESTARTS):
                held = asyncio.Event()

                async def during(got: Any, held: asyncio.Event = held) -> Any:
                    await held.wait()
                    return await status(204)(got)

                receiver.replies = [during]
                tasks.append(await make_task(engine, TENANT, prize_id))
                await receiver.next()
                durable.restart_immediately()
                held.set()
                assert await until_task(engine, tasks[-1], "delivered") == ("delivered", "fulfilled")
    assert [got.headers["webhook-id"] for got in receiver.all] == tasks


async def test_garbage_in_the_stream_harms_no_task(engine: Any, receiver: Receiver) -> None:
    prize_id = await make_receiver_prize(engine, TENANT, receiver.url)
    stream = "tombola:tasks:{0}"
    async with working(engine, "deliveries"):
        for garbage in (b"", b"\xff", b"a b c", b"tenant_test task_\x00", b" "):
            await engine.ephemeral.run("XADD", stream, "*", "t", garbage)
        await engine.ephemeral.run("XADD", stream, "*", "other", "x")
        task_id = await make_task(engine, TENANT, prize_id)
        engine.publisher.tasks(TENANT, [task_id, "task_unknown"])
        assert await until_task(engine, task_id, "delivered") == ("delivered", "fulfilled")
        await until(lambda: engine.ephemeral.run("XLEN", "tombola:dead:{0}"), lambda it: it >= 6)
