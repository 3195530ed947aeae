"""Garbage in the streams, and the slots of a Valkey cluster moved, under load."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import Any

from redis.asyncio import Redis

from ops.certification.agreement import all_told, delivered, forget_starts
from ops.certification.rankings import rankings_agree
from ops.certification.row import row
from ops.certification.run import Run
from ops.history.tables import connected
from ops.servers.cluster import Slot, cluster
from runtime.groups import GROUPS
from runtime.http.admission.rates import ip_tag
from runtime.streams.dead_letters import Letter, dead_stream

GARBAGE = {b"garbage": b"\xff\x00", b"e": b"{"}


# -- poison ------------------------------------------------------------------------------------


@row("poison", fault="Poison message", quick=3, full=20, unit="messages a stream")
async def poison(run: Run) -> None:
    """Garbage among the messages of every stream; each is a dead letter after its tries, its neighbours are handled."""
    shards = run.stack.settings.stream_shards
    streams = sorted({stream for group in GROUPS.values() for stream in group.streams(shards)})
    sent: dict[str, set[str]] = {stream: set() for stream in streams}
    client: Any = Redis.from_url(run.stack.valkey.url)
    try:
        async with run.loaded() as load:
            for _ in range(run.size):
                for stream in streams:
                    sent[stream].add((await client.xadd(stream, GARBAGE)).decode())
                await load.more(10)
        read_by = [(group.name, stream) for group in GROUPS.values() for stream in group.streams(shards)]
        wanted = {(stream, group, one) for group, stream in read_by for one in sent[stream]}

        async def buried() -> bool:
            return {(one.stream, one.group, one.message_id) for one in await _letters(client, streams)} >= wanted

        seconds = await run.until(buried)
        letters = await _letters(client, streams)
        told = await run.until(partial(all_told, run))
        waiting = [(await client.xpending(stream, group))["pending"] for stream, group, _ in wanted]
    finally:
        await client.aclose()
    buried_as = Counter((one.stream, one.group, one.message_id) for one in letters)
    others = [one for one in letters if one.fields != GARBAGE]
    run.figure("dead letters", len(letters), f"of {len(wanted)}", exactly=len(wanted))
    run.figure("buried twice", sum(count > 1 for count in buried_as.values()), exactly=0)
    run.figure("neighbours among them", len(others), exactly=0)
    run.figure("left waiting", sum(waiting), exactly=0)
    run.figure("all buried after", seconds, "s")
    run.figure("the webhook had been told of each play after", told, "s")


async def _letters(client: Any, streams: list[str]) -> list[Letter]:
    found = []
    for dead in {dead_stream(stream) for stream in streams}:
        found += [Letter.read(id, stored) for id, stored in await client.xrange(dead)]
    return [one for one in found if one.stream in streams]


# -- a cluster ---------------------------------------------------------------------------------


@row(
    "valkey-slot-moved", fault="Stale Valkey replica promoted, cluster slot moved", quick=3, full=15, unit="slots moved"
)
async def valkey_slot_moved(run: Run) -> None:
    """Valkey is a cluster, and slots move from node to node; plays go on, nothing is done twice."""
    stack, parts = run.stack, ExitStack()
    alone = {name: stack.environment.get(name, "") for name in ("REDIS_URL", "REDIS_CLUSTER")}
    directory = stack.directory / "cluster"
    directory.mkdir()
    nodes = await stack.blocking(parts.enter_context, cluster(directory))
    try:
        stack.environment |= {"REDIS_URL": nodes[0].url, "REDIS_CLUSTER": "on"}
        for node in stack.nodes.values():
            await stack.restart(node)
        slots = [Slot(nodes, tag) for tag in (run.world.tenant_id, ip_tag("127.0.0.1", ""), "0")]
        async with run.loaded() as load:
            await load.more(20)
            for nth in range(run.size):
                some = partial(load.more, 10)
                await slots[nth % len(slots)].move(some, some)
                run.note(f"slot {slots[nth % len(slots)].number} has moved")
            await load.more(20)
        told = await run.until(partial(all_told, run))
        await run.until(partial(delivered, run))
        async with connected(stack.settings) as database:
            await rankings_agree(run, database)  # In the cluster: the judge finds the single server again.
        forget_starts(run)
    finally:
        stack.environment |= {"REDIS_URL": alone["REDIS_URL"], "REDIS_CLUSTER": alone["REDIS_CLUSTER"] or "off"}
        for node in stack.nodes.values():
            await stack.restart(node)
        await stack.blocking(parts.close)
    failed = [one for one in run.history.attempts if one.http == 0 or one.http >= 500]
    run.figure("plays", load.plays)
    run.figure("requests that failed", len(failed), exactly=0)
    run.figure("the webhook had been told of each play after", told, "s")
