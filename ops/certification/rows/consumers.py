"""Each kind of worker that reads a stream, killed with messages that it has handled and not acknowledged."""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from redis.asyncio import Redis

from ops.certification.node import Node
from ops.certification.proxy import Proxy
from ops.certification.row import row
from ops.certification.rows.deliveries import hook, parcels, play
from ops.certification.run import Run
from ops.history.tables import connected
from runtime.groups import DELIVERIES, GROUPS, INTEGRATIONS, LEADERBOARDS, ConsumerGroup, event_stream
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.ranking_sets import RankingSets
from runtime.streams.dead_letters import dead_stream

TAKEN_OVER_SECONDS: Final = 240.0
"""What is unacknowledged is left to its reader for a minute."""

TOLD: Final = "play_completed"

READING: Final = [group for group in GROUPS.values() if group.stream is not None]

_DELIVERED: Final = "SELECT count(*) FROM tasks WHERE tenant_id = $1 AND status = 'delivered'"
_TOLD: Final = "SELECT count(*) FROM integration_deliveries WHERE tenant_id = $1 AND status = 'delivered'"


@row(
    "consumer-killed", fault="Consumer killed before XACK", quick=2, full=20, unit="kills of each kind", furnished=False
)
async def consumer_killed(run: Run) -> None:
    """Each worker that reads a stream is killed when what a message asks is done, and before it is acknowledged."""
    world, stack = run.world, run.stack
    await parcels(world, run.receiver.url)
    await hook(run)
    board = {"metric": "LEADERBOARD_METRIC_PLAYS", "mode": "LEADERBOARD_MODE_SUM"}
    await world.make("leaderboard", "board", campaign_id=world.campaign, **board)
    plays = 0
    killed: Counter[str] = Counter()
    async with AsyncExitStack() as parts:
        valkey = _Valkey(run, await parts.enter_async_context(Redis.from_url(stack.valkey.url)))
        buried = await valkey.buried()
        held = []
        for group in READING:
            node = stack.worker(group.name)
            (proxy,) = await parts.enter_async_context(run.linked(node, "valkey"))
            held.append((group, node, proxy))
        for _ in range(run.size):
            for group, node, proxy in held:
                plays += 1
                killed[group.name] += await _kill(run, valkey, plays, group, node, proxy)
                await node.start(stack.http)
        seconds = await run.until(partial(_acknowledged, valkey), TAKEN_OVER_SECONDS)
        buried = await valkey.buried() - buried
    for group in READING:
        run.figure(f"kills of {group.name} with a message handled", killed[group.name], exactly=run.size)
    sent = Counter(message_id for _, message_id, _ in run.receiver.posted)
    told = Counter(str(body["data"]["play_id"]) for _, _, body in run.receiver.posted if body["type"] == TOLD)
    run.figure("all acknowledged after", seconds, "s")
    run.figure("plays that were told of", len(told), exactly=plays)
    run.figure("parcels that were sent", len(sent) - len(told), exactly=plays)
    run.figure("messages that were sent twice", sum(count > 1 for count in sent.values()), exactly=0)
    run.figure("dead letters", buried, exactly=0)


async def _kill(run: Run, valkey: _Valkey, plays: int, group: ConsumerGroup, node: Node, proxy: Proxy) -> bool:
    """Kills the worker once another play's message is read, its effect there, and its acknowledgement withheld; whether
    the message is left unacknowledged by that. plays: how many there are with it.
    """
    before = await valkey.pending(group)
    proxy.withheld = b"XACK"
    await play(run.world, f"p{plays}", "parcels")

    async def handled() -> bool:
        # The effect alone may be another's: a ranking that is read anew from the rows has plays whose message waits.
        return bool(await valkey.pending(group) - before) and await _has_effect(run, group, plays)

    await run.until(handled)
    node.kill()
    proxy.withheld = b""
    left = await valkey.pending(group) - before
    run.note(f"{node.name} killed, {len(left)} unacknowledged")
    return bool(left)


async def _has_effect(run: Run, group: ConsumerGroup, plays: int) -> bool:
    """Whether the group has done what so many plays ask of it."""
    if group is LEADERBOARDS:
        return await _on_board(run, f"p{plays}")
    async with connected(run.stack.settings) as database:
        done = await database.fetchval({DELIVERIES: _DELIVERED, INTEGRATIONS: _TOLD}[group], run.world.tenant_id)
    return bool(done == plays)


async def _on_board(run: Run, who: str) -> bool:
    valkey = Ephemeral(run.stack.valkey.url, timeout_seconds=5)
    await valkey.start()
    try:
        found = await RankingSets(valkey).read(run.world.tenant_id, run.world.ids["board"], None, 1, who)
        return found is not None and found[1].me is not None
    finally:
        await valkey.close()


async def _acknowledged(valkey: _Valkey) -> bool:
    return not any([await valkey.pending(group) for group in READING])


@dataclass
class _Valkey:
    """What the streams say of themselves."""

    run: Run
    client: Any

    async def pending(self, group: ConsumerGroup) -> set[bytes]:
        """The group's messages that were read and not acknowledged."""
        found = set()
        for stream in group.streams(self.run.stack.settings.stream_shards):
            rows = await self.client.xpending_range(stream, group.name, "-", "+", 10_000)
            found |= {row["message_id"] for row in rows}
        return found

    async def buried(self) -> int:
        """How many dead letters there are."""
        shards = range(self.run.stack.settings.stream_shards)
        return sum([await self.client.xlen(dead_stream(event_stream(shard))) for shard in shards])
