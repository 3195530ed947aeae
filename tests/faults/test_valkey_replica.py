import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from ops.servers.base import wait_for, write_private
from ops.servers.cluster import ClusterNode, Slot, cluster
from ops.servers.valkey import Valkey
from runtime.groups import event_stream
from runtime.http.admission.rates import ip_tag
from runtime.stores.ephemeral import Ephemeral, tag_of
from runtime.stores.pipeline import EphemeralDown
from runtime.streams import backfill
from runtime.streams.consumer import Consumer, Message
from runtime.streams.servers import Servers
from tests.support.address import Address
from tests.support.deliveries import register, working
from tests.support.receiver import Receiver
from tests.support.scenario import Scenario
from tests.support.stack import TENANT, TO_LOOPBACK, Answer, new_stack, settings_of
from tests.support.waiting import HANG_SECONDS, until
from tests.support.world import World, new_world

PLAYERS = [f"p{nth}" for nth in range(12)]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Valkey, Valkey]]:
    primary, replica = Valkey(tmp_path / "one" / "valkey"), Valkey(tmp_path / "two" / "valkey")
    for server in (primary, replica):
        server.data_dir.parent.mkdir()
    write_private(tmp_path / "two" / "valkey.password", primary.password)
    for server in (primary, replica):
        server.start()
    replica.command("CONFIG", "SET", "masterauth", primary.password)
    replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
    yield primary, replica
    for server in (primary, replica):
        server.stop()


@pytest.mark.fault(
    "Stale Valkey replica promoted, cluster slot moved",
    size="12 players, others play on",
    figure="same answers, 2 plays each",
)
async def test_promoted_stale_replica_repeats_no_play(database_url: str, servers: tuple[Valkey, Valkey]) -> None:
    primary, replica = servers
    await until(lambda: b"master_link_status:up" in replica.command("INFO", "replication"))
    address = Address(primary.port)
    async with address.serving() as port:
        url = primary.url.replace(f":{primary.port}/", f":{port}/")
        async with new_stack(settings_of(database_url, url)) as stack, new_world(stack) as world:
            prize_id = await world.prize(total=10, fulfillment={"redemption_mode": "on_claim"})
            game_id = await world.wheel(prize_id, rules={"max_plays_per_user": 2})
            sessions = {player: await world.session(game_id, player) for player in PLAYERS}
            replica.command("REPLICAOF", "NO", "ONE")  # What happens from here on it does not know of.
            plays = {
                who: await world.play(game_id, session, who, key=f"play {who}") for who, session in sessions.items()
            }
            assert {answer.http for answer in plays.values()} == {200}
            won = {player: answer.data["rewards"][0] for player, answer in plays.items() if answer.data["rewards"]}
            assert len(won) == 10

            async def claim(player: str) -> Any:
                headers = {"Idempotency-Key": f"claim {player}"}
                path = f"/rewards/{won[player]['reward_id']}/claim"
                return (await stack.consumer("POST", path, {}, player=player, headers=headers)).data

            claims = {player: await claim(player) for player in won}
            async with new_world(stack) as beside, plays_of(beside, await beside.wheel()) as some_play:
                await asyncio.to_thread(primary.kill)
                await some_play()
                address.point_to(replica.port)
                await some_play()
            for player, session in sessions.items():
                assert (await world.play(game_id, session, player, key=f"play {player}")).data == plays[player].data
                assert (await world.play(game_id, session, player, key="another")).reason == "SESSION_PLAYED"
            for player, times in claims.items():
                assert await claim(player) == times
            rounds = await asyncio.gather(*(world.round(game_id, player) for player in PLAYERS))
            assert {answer.http for answer in rounds} == {200}
            assert {(await world.start(game_id, player)).reason for player in PLAYERS} == {"CAP_USER"}
            assert await world.stock(prize_id) == (0, 10)
            assert len(await world.plays()) == 2 * len(PLAYERS)


async def test_consumer_acknowledges_and_reads_on_at_a_promoted_replica(servers: tuple[Valkey, Valkey]) -> None:
    old, new = servers
    address, read, go, stop = Address(old.port), Counter[bytes](), asyncio.Event(), asyncio.Event()

    async def handle(messages: list[Message]) -> set[str]:
        read.update(message.fields[b"n"] for message in messages)
        await go.wait()
        return set()

    async with address.serving() as port:
        found = Servers(settings_of("", old.url.replace(f":{old.port}/", f":{port}/")))
        old.command("XADD", "stream", "*", "n", "1")
        reading = asyncio.create_task(Consumer(found, "readers", ["stream"], handle).run(stop))
        await until(lambda: read)
        await until(lambda: b"master_link_status:up" in new.command("INFO", "replication"))
        old.command("WAIT", "1", "0")
        new.command("REPLICAOF", "NO", "ONE")
        address.target = new.port  # The connections to the demoted server stay.
        old.command("REPLICAOF", "127.0.0.1", str(new.port))
        new.command("XADD", "stream", "*", "n", "2")
        go.set()
        await until(lambda: read[b"2"])
        stop.set()
        await reading
    assert read == {b"1": 1, b"2": 1}


HIGH: dict[str, Any] = {"rate_limits": True} | {
    f"rate_{kind}_{what}": number
    for kind in ("player", "ip")
    for what, number in (("per_second", 10_000.0), ("burst", 10_000))
}
"""Rates that hold and refuse nothing: each start and play asks the store for them."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ClusterNode]]:
    with cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


@pytest.fixture
async def store(nodes: list[ClusterNode]) -> AsyncIterator[Ephemeral]:
    store = Ephemeral(nodes[0].url, cluster=True, timeout_seconds=5.0)
    await store.start()
    yield store
    await store.close()


async def test_migrating_slot_is_unavailable_and_other_slots_work(nodes: list[ClusterNode], store: Ephemeral) -> None:
    slot, both = Slot(nodes, "moving"), ("{moving}a", "{moving}b")
    for key in both:
        await store.run("SET", key, 1)

    async def half_way() -> None:
        assert await store.run("MGET", *both) == [b"1", b"1"]
        with pytest.raises(EphemeralDown):
            await store.run("MGET", *both, "{moving}new")
        with pytest.raises(EphemeralDown):
            await store.run("SET", "{moving}new", 1)

    async def gone_over() -> None:
        before = store.lost
        store.post("SET", both[0], 2)
        with pytest.raises(EphemeralDown):
            await store.run("GET", both[0])
        await until(lambda: lost(before + 1))
        assert await store.run("SET", "{another}", 1) == b"OK"

    async def lost(many: int) -> bool:
        return store.lost == many

    await slot.move(half_way, gone_over)
    assert store.up
    assert await store.run("MGET", *both) == [b"1", b"1"]


@asynccontextmanager
async def plays_of(world: World, game_id: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Players who submit each play twice, at once. Yields a wait for some more; each is answered, and stored once."""
    answers: list[Answer] = []
    stopping = asyncio.Event()

    async def player(name: str) -> None:
        nth = 0
        while not stopping.is_set():
            session, nth = await world.session(game_id, name), nth + 1
            twice = await asyncio.gather(*(world.play(game_id, session, name, key=f"{nth}") for _ in range(2)))
            assert len({answer.data["play_id"] for answer in twice if answer.http == 200}) == 1
            answers.extend(twice)

    async def some_play() -> None:
        wanted = len(answers) + 20
        await until(lambda: len(answers) >= wanted or any(one.done() for one in players))

    players = [asyncio.ensure_future(player(f"player_{nth}")) for nth in range(4)]
    try:
        await some_play()
        yield some_play
    finally:
        stopping.set()
        await asyncio.gather(*players)
    refused = {(answer.http, answer.reason) for answer in answers if answer.http != 200}
    assert refused <= {(409, "IDEMPOTENCY_IN_PROGRESS")}, refused
    assert {answer.data["play_id"] for answer in answers if answer.http == 200} == set(await world.plays())


@pytest.mark.timeout(300)
@pytest.mark.fault(
    "Stale Valkey replica promoted, cluster slot moved",
    size="three slots of a cluster under plays, each submitted twice",
    figure="each play once, and told of",
)
async def test_plays_continue_and_events_arrive_while_slots_move(
    database_url: str, nodes: list[ClusterNode], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(backfill, "EVERY_SECONDS", 0.1)
    settings = settings_of(database_url, nodes[0].url, redis_cluster=True, **HIGH, **TO_LOOPBACK)
    tags = {"player": tag_of(TENANT, "player_0"), "address": ip_tag("127.0.0.1", ""), "stream": "0"}
    slots = {what: Slot(nodes, tag) for what, tag in tags.items()}
    async with new_stack(settings) as stack, new_world(stack) as world, working(stack.engine, "integrations"):
        game_id = await world.wheel(await world.prize())
        await register(stack, receiver, "play_completed")
        async with plays_of(world, game_id) as some_play:
            for slot in slots.values():
                await slot.move(some_play, some_play)
                await some_play()
        plays = await world.plays()
        await until(lambda: set(plays) <= {got.json["data"]["play_id"] for got in receiver.all})
        before, events = stack.engine.ephemeral.lost, event_stream(0)
        async with Redis.from_url(slots["stream"].owner.url) as client:
            length = await client.xlen(events)
            assert "RateLimit" in (await world.round(game_id, "player_0", key="last")).headers
            await until(lambda: client.xlen(events), lambda it: it > length)
        assert stack.engine.ephemeral.lost == before


@pytest.mark.fault(
    "Valkey cluster loses a node, replica promoted",
    small=300,
    full=3_000,
    unit="starts before it, each of another player",
    figure="each of three nodes executes 20 to 45 % of the commands",
)
async def test_players_of_a_tenant_use_every_cluster_node(
    scenario: Scenario, database_url: str, nodes: list[ClusterNode]
) -> None:
    settings = settings_of(database_url, nodes[0].url, redis_cluster=True, **HIGH)
    settings = replace(settings, trusted_proxies=TO_LOOPBACK["outbound_allow_cidrs"])
    async with new_stack(settings) as stack, new_world(stack) as world:
        game_id = await world.wheel()
        await world.start(game_id)
        for node in nodes:
            node.command("CONFIG", "RESETSTAT")
        for nth in range(scenario.size):
            await world.start(game_id, f"player_{nth}", **{"X-Forwarded-For": f"10.0.{nth // 250}.{nth % 250}"})
        said = [node.command("INFO", "commandstats") for node in nodes]
        counts = sorted(sum(map(int, re.findall(rb"calls=(\d+)", one))) for one in said)
        for name, count in zip(("smallest", "middle", "largest"), counts, strict=True):
            scenario.figure(f"{name} share of a node", 100 * count / sum(counts), "%", least=20, most=45)


NODE_TIMEOUT_MS = "2000"
"""A node that is silent for so long is lost to the others."""


@pytest.mark.timeout(300)
@pytest.mark.fault(
    "Valkey cluster loses a node, replica promoted",
    small=1,
    full=10,
    unit="promotions",
    figure="every play answered and stored once, rate limits again once the replica is promoted",
)
async def test_plays_go_on_over_a_lost_cluster_node(scenario: Scenario, database_url: str, tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, serving_replica(tmp_path, nodes, tag_of(TENANT, "limited")) as (primary, replica):
        settings = settings_of(database_url, nodes[0].url, redis_cluster=True, **HIGH)
        async with new_stack(settings) as stack, new_world(stack) as world:
            game_id = await world.wheel(await world.prize())

            async def limits_hold() -> bool:
                return "RateLimit" in (await world.start(game_id, "limited")).headers

            async with plays_of(world, game_id) as some_play:
                for _ in range(scenario.size):
                    await until(limits_hold)
                    await asyncio.to_thread(wait_for, partial(follows, replica), HANG_SECONDS)
                    await asyncio.to_thread(primary.kill)
                    await some_play()
                    info = partial(asyncio.to_thread, replica.command, "INFO", "replication")
                    await until(info, lambda it: b"role:master" in it)
                    await some_play()
                    await until(limits_hold)
                    await asyncio.to_thread(primary.start)
                    configure(primary)
                    primary, replica = replica, primary
            scenario.figure("plays", len(await world.plays()))


@contextmanager
def serving_replica(directory: Path, nodes: list[ClusterNode], tag: str) -> Iterator[tuple[ClusterNode, ClusterNode]]:
    """(the node that owns the slot of `tag`, a replica of it that follows it)."""
    primary = Slot(nodes, tag).owner
    replica = ClusterNode(directory / "replica" / "valkey")
    replica.data_dir.parent.mkdir()
    replica.start()
    try:
        identifier = primary.command("CLUSTER", "MYID").split()[1].decode()
        for node in (*nodes, replica):
            configure(node)

        def replicates() -> bool:
            replica.command("CLUSTER", "MEET", "127.0.0.1", str(primary.port), str(primary.bus_port))
            return replica.command("CLUSTER", "REPLICATE", identifier).startswith(b"+OK")

        wait_for(replicates, HANG_SECONDS)
        wait_for(partial(follows, replica), HANG_SECONDS)
        yield primary, replica
    finally:
        replica.stop()


def configure(node: ClusterNode) -> None:
    for name, value in (("masterauth", node.password), ("cluster-node-timeout", NODE_TIMEOUT_MS)):
        node.command("CONFIG", "SET", name, value)


def follows(node: ClusterNode) -> bool:
    return b"master_link_status:up" in node.command("INFO", "replication")
