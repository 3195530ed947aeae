import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from prometheus_client import REGISTRY
from redis.asyncio import Redis, RedisCluster

from ops.servers.cluster import cluster
from ops.servers.valkey import Valkey
from runtime.errors import Fault, Status
from runtime.settings import Settings
from runtime.stores.pipeline import CLIENT_ERRORS
from runtime.stores.publisher import OUTSIDE
from runtime.streams import backoff, consumer, dead_letters
from runtime.streams.consumer import TRIES, Consumer, Message
from runtime.streams.dead_letters import Letter, dead_stream
from runtime.streams.servers import Servers
from tests.support.scenario import Scenario
from tests.support.waiting import HANG_SECONDS, until

STREAM = "tombola:test:{0}"
GROUP = "readers"
FAST = {"block_ms": 50, "claim_idle_ms": 300, "claim_seconds": 0.1, "backoff_seconds": 0.01}


class Effects:
    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self._changed = asyncio.Condition()

    async def handle(self, messages: list[Message]) -> set[str]:
        async with self._changed:
            self.counts.update(message.fields[b"n"] for message in messages)
            self._changed.notify_all()
        return set()

    async def reach(self, wanted: set[bytes], client: Any = None) -> None:
        """With a client, until they are acknowledged too."""
        async with asyncio.timeout(HANG_SECONDS), self._changed:
            await self._changed.wait_for(lambda: wanted <= self.counts.keys())
        if client:
            await until_acknowledged(client)


@asynccontextmanager
async def consuming(
    servers: Servers, handle: Any, *, streams: tuple[str, ...] = (STREAM,), **options: Any
) -> AsyncIterator[Consumer]:
    consumer = Consumer(servers, GROUP, streams, handle, **{**FAST, **options})
    stop = asyncio.Event()
    task = asyncio.create_task(consumer.run(stop))
    try:
        yield consumer
    finally:
        stop.set()
        async with asyncio.timeout(HANG_SECONDS):
            await task


@pytest.fixture
async def client(valkey_url: str, valkey_flush: None) -> AsyncIterator[Any]:
    client = Redis.from_url(valkey_url)
    yield client
    await client.aclose()


@pytest.fixture
def servers(valkey_url: str) -> Servers:
    return Servers(Settings(redis_url=valkey_url))


async def append(client: Any, numbers: range, stream: str = STREAM) -> set[bytes]:
    names = {b"%d" % number for number in numbers}
    for name in sorted(names):
        await client.xadd(stream, {b"n": name})
    return names


async def pending(client: Any, stream: str = STREAM) -> int:
    return int((await client.xpending(stream, GROUP))["pending"])


async def until_acknowledged(client: Any, stream: str = STREAM) -> None:
    await until(lambda: pending(client, stream), lambda it: not it)


async def test_unfinished_message_ages_from_its_reading(
    client: Any, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MEASURE_SECONDS", 0.02)
    opened = asyncio.Event()

    async def handle(messages: list[Message]) -> set[str]:
        await opened.wait()
        return set()

    def age() -> float:
        return REGISTRY.get_sample_value("tombola_stream_oldest_seconds", {"group": GROUP, "stream": STREAM}) or 0.0

    await client.xadd(STREAM, {b"n": b"of a backlog"}, id="1-0")
    async with consuming(servers, handle):
        await until(lambda: age() > 1.0)
        assert age() < 60.0
        opened.set()
        await until(lambda: age() == 0.0)


async def test_member_that_leaves_removes_its_name(client: Any, servers: Servers) -> None:
    effects = Effects()
    async with consuming(servers, effects.handle):
        await effects.reach(await append(client, range(3)), client)
    assert await client.xinfo_consumers(STREAM, GROUP) == []


@pytest.mark.fault("Poison message", small=2, full=20, unit="among 10", figure="5 tries alone, 10 handled once")
async def test_poison_message_is_a_dead_letter_alone(scenario: Scenario, client: Any, servers: Servers) -> None:
    effects = Effects()
    tries: Counter[str] = Counter()

    async def handle(messages: list[Message]) -> set[str]:
        poison = [message for message in messages if b"n" not in message.fields]
        tries.update(message.id for message in messages if len(messages) == 1)
        if poison:
            raise KeyError("n")
        return await effects.handle(messages)

    garbage = [{b"garbage": b"\xff\x00"}, {b"garbage": b"{"}] * (scenario.size // 2)
    poisons = [(await client.xadd(STREAM, fields)).decode() for fields in garbage[::2]]
    good = await append(client, range(10))
    poisons += [(await client.xadd(STREAM, fields)).decode() for fields in garbage[1::2]]
    async with consuming(servers, handle):
        await effects.reach(good, client)
    dead = [fields for _, fields in await client.xrange(dead_stream(STREAM))]
    assert sorted(letter[b"id"].decode() for letter in dead) == sorted(poisons)
    assert dead[0][b"field:garbage"] in (b"\xff\x00", b"{")
    assert dead[0][b"stream"] == STREAM.encode()
    assert set(effects.counts.values()) == {1}
    assert {tries[poison] for poison in poisons} == {TRIES}, "alone"


async def test_failed_message_is_retried_without_its_neighbours(client: Any, servers: Servers) -> None:
    effects = Effects()
    failures = Counter({b"3": 4})

    async def handle(messages: list[Message]) -> set[str]:
        failed = {message.id for message in messages if failures[message.fields[b"n"]] > 0}
        failures.subtract(message.fields[b"n"] for message in messages if message.id in failed)
        await effects.handle([message for message in messages if message.id not in failed])
        return failed

    sent = await append(client, range(10))
    async with consuming(servers, handle):
        await effects.reach(sent, client)
    assert set(effects.counts.values()) == {1}
    assert await client.xlen(dead_stream(STREAM)) == 0


@pytest.mark.parametrize("waits", [b"0123456789", b"3"])
async def test_messages_wait_for_the_database(
    client: Any, servers: Servers, monkeypatch: pytest.MonkeyPatch, waits: bytes
) -> None:
    monkeypatch.setattr(backoff, "LAST_SECONDS", 0.05)
    effects = Effects()
    away = asyncio.Event()
    requests = 0

    async def handle(messages: list[Message]) -> set[str]:
        nonlocal requests
        waiting = {message.id for message in messages if message.fields[b"n"] in waits and not away.is_set()}
        await effects.handle([message for message in messages if message.id not in waiting])
        if waiting:
            requests += 1
            if requests == 20:
                away.set()
            everything = Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")
            raise everything if len(waiting) == len(messages) else consumer.Waiting(waiting)
        return set()

    sent = await append(client, range(10))
    # Two members: neither may take what the other holds for a dead member's.
    async with consuming(servers, handle), consuming(servers, handle):
        await effects.reach(sent, client)
    assert await client.xlen(dead_stream(STREAM)) == 0
    assert set(effects.counts.values()) == {1}


async def test_message_for_external_readers_is_skipped(client: Any, servers: Servers) -> None:
    effects = Effects()
    await client.xadd(STREAM, {b"n": b"injected", OUTSIDE: b"1"})
    async with consuming(servers, effects.handle):
        await effects.reach(await append(client, range(3)), client)
    assert b"injected" not in effects.counts


async def test_group_lost_by_flushall_is_created_again(client: Any, servers: Servers, valkey_server: Valkey) -> None:
    effects = Effects()
    async with consuming(servers, effects.handle):
        await effects.reach(await append(client, range(10)))
        valkey_server.command("FLUSHALL")
        await effects.reach(await append(client, range(10, 20)), client)


async def test_frozen_server_loses_nothing(valkey_url: str, valkey_flush: None, valkey_server: Valkey) -> None:
    servers, writer = Servers(Settings(redis_url=valkey_url), timeout_seconds=0.3), Redis.from_url(valkey_url)
    effects = Effects()
    sent: set[bytes] = set()
    try:
        async with consuming(servers, effects.handle):
            for freeze in range(5):
                sent |= await append(writer, range(freeze * 10, freeze * 10 + 10))
                valkey_server.freeze()
                await asyncio.sleep(0.5)  # sleeps: longer than the reader's patience, which is what is tested
                valkey_server.thaw()
            await effects.reach(sent, writer)
    finally:
        valkey_server.thaw()
        await writer.aclose()


WORKER = """
import asyncio, sys
from runtime.settings import Settings
from runtime.streams.consumer import Consumer
from runtime.streams.servers import Servers

async def handle(messages):
    for message in messages:
        print("effect", message.fields[b"n"].decode(), flush=True)
    if sys.argv[3] == "hang":
        await asyncio.Event().wait()  # killed before XACK
    return set()

asyncio.run(Consumer(Servers(Settings(redis_url=sys.argv[1])), sys.argv[2], [sys.argv[4]], handle, block_ms=50,
    claim_idle_ms=300, claim_seconds=0.1).run(asyncio.Event()))
"""


@pytest.mark.fault(
    "Consumer killed before XACK",
    small=1,
    full=5,
    unit="rounds of 4 kills",
    figure="10 effects a round, no dead letter",
)
async def test_message_of_a_member_killed_before_its_acknowledgement_is_claimed(
    scenario: Scenario, client: Any, servers: Servers, valkey_url: str
) -> None:
    """The message is handled after four kills; a fifth makes it a dead letter (TRIES)."""
    effects, sent = Effects(), set[bytes]()
    for first in range(0, 10 * scenario.size, 10):
        sent |= await append(client, range(first, first + 10))
        assert await killed_at_work(valkey_url, times=TRIES - 1) <= sent and await pending(client) > 0
        async with consuming(servers, effects.handle):
            await effects.reach(sent, client)
    assert await client.xlen(dead_stream(STREAM)) == 0


async def killed_at_work(valkey_url: str, *, times: int) -> set[bytes]:
    killed: set[bytes] = set()
    for _ in range(times):
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, valkey_url, GROUP, "hang", STREAM, stdout=subprocess.PIPE
        )
        async with asyncio.timeout(HANG_SECONDS):
            while not (line := await worker.stdout.readline()).startswith(b"effect "):
                assert line, "the worker ended by itself"
            killed.add(line.split()[1])
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
    return killed


async def test_message_that_kills_its_consumers_becomes_a_dead_letter_untried(client: Any, servers: Servers) -> None:
    effects = Effects()
    await client.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
    await append(client, range(1))
    for number in range(TRIES):
        await client.xautoclaim(STREAM, GROUP, f"killed-{number}", 0) if number else await client.xreadgroup(
            GROUP, "killed-0", {STREAM: ">"}
        )
    async with consuming(servers, effects.handle):
        await effects.reach(await append(client, range(1, 3)), client)
    assert b"0" not in effects.counts
    assert await client.xlen(dead_stream(STREAM)) == 1


async def test_dead_letters_are_listed_replayed_and_dropped(client: Any, servers: Servers, valkey_url: str) -> None:
    settings = Settings(redis_url=valkey_url, stream_shards=2)
    healed = False
    effects = Effects()

    async def handle(messages: list[Message]) -> set[str]:
        if not healed:
            return {message.id for message in messages}
        return await effects.handle(messages)

    seen: list[Letter] = []

    async def see(client: Any, dead: str, letter: Letter) -> None:
        seen.append(letter)

    sent = await append(client, range(150))
    async with consuming(servers, handle):
        await until(lambda: client.xlen(dead_stream(STREAM)), lambda it: it >= 150)
        assert await dead_letters.each_letter(settings, see, GROUP) == 150
        assert await dead_letters.each_letter(settings, see, "other") == 0
        assert {letter.fields[b"n"] for letter in seen} == sent
        healed = True
        assert await dead_letters.each_letter(settings, dead_letters.discard, id=seen[0].id) == 1
        assert await dead_letters.each_letter(settings, dead_letters.replay) == 149
        await effects.reach(sent - {seen[0].fields[b"n"]})
    assert seen[0].fields[b"n"] not in effects.counts
    assert await client.xlen(dead_stream(STREAM)) == 0


async def test_group_works_on_a_cluster_of_three_nodes(tmp_path: Path) -> None:
    streams = tuple(f"tombola:test:{{{shard}}}" for shard in range(8))
    effects = Effects()

    async def handle(messages: list[Message]) -> set[str]:
        poison = {message.id for message in messages if b"n" not in message.fields}
        await effects.handle([message for message in messages if message.id not in poison])
        return poison

    with cluster(tmp_path) as nodes:
        servers = Servers(Settings(redis_url=nodes[0].url, redis_cluster=True))
        writer = RedisCluster.from_url(nodes[0].url)
        try:
            async with consuming(servers, handle, streams=streams):
                sent: set[bytes] = set()
                for shard, stream in enumerate(streams):
                    await writer.xadd(stream, {b"garbage": b"x"})
                    sent |= await append(writer, range(shard * 10, shard * 10 + 10), stream)
                await effects.reach(sent)
                for stream in streams:
                    await until_acknowledged(writer, stream)
            assert set(effects.counts.values()) == {1}
            assert [await writer.xlen(dead_stream(stream)) for stream in streams] == [1] * 8
            sizes = [int(node.command("DBSIZE").strip(b":\r\n")) for node in nodes]
            assert min(sizes) > 0, "every node has its share of the streams"
        finally:
            await writer.aclose()


def test_command_on_a_connection_just_lost_fails_as_unavailable(valkey_url: str) -> None:
    async def lost() -> BaseException | None:
        client = await Servers(Settings(redis_url=valkey_url)).client("a stream")
        await client.ping()
        connection = client.connection_pool._available_connections[0]
        connection._writer.transport.abort()
        try:
            await connection.send_command("PING", check_health=False)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            await client.aclose()
        return None

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        error = runner.run(lost())
    assert isinstance(error, RuntimeError), "else CLIENT_ERRORS need not name it"
    assert isinstance(error, CLIENT_ERRORS)
