"""What is between two processes is slow, cut, held back, or forgets a connection: by a proxy of ours.

Each fault must have met something on its way, or the proxy is not on it; and what then tells that the way is healed is
something that crosses it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from redis.asyncio import Redis

from ops.certification.catalogue import SECRET, STAFF
from ops.certification.client import Client
from ops.certification.load import Load
from ops.certification.node import Node
from ops.certification.proxy import Proxy
from ops.certification.row import row
from ops.certification.run import Run
from runtime.groups import DELIVERIES, INTEGRATIONS, LEADERBOARDS, ConsumerGroup
from runtime.operations import API
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.ranking_sets import RankingSets
from runtime.streams.backoff import LAST_SECONDS
from runtime.streams.servers import BLOCK_MS, SOCKET_SECONDS

FAULT_SECONDS: Final = 3.0
BACK_SECONDS: Final = 5.0
"""Within how long of a healed network what crosses it must be done again, by an edge or a Core."""

WORKER_BACK_SECONDS: Final = LAST_SECONDS + BLOCK_MS / 1000 + SOCKET_SECONDS
"""The same for a worker: the longest pause between two tries, and the longest that a try takes, which is a read on a
connection that the other end has forgotten.
"""
GIVEN_UP_SECONDS: Final = 60.0
BY_STREAM_SECONDS: Final = 1.0
"""What comes by its stream comes sooner; what is found in the rows does not."""

CROSSING: Final = "crossing"
"""A game of which each play wins something that goes out by webhook, and the start of its players' names."""


# -- faults -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What is done to a proxy, until it is healed. met: how much of `unit` has met it since the proxy was started."""

    begin: Callable[[Proxy], object]
    unit: str
    met: Callable[[Proxy], int]


def _slow(proxy: Proxy) -> None:
    proxy.delay_seconds = 0.15


def _refuse(proxy: Proxy) -> None:
    """Those that are there are cut, and who comes again is refused."""
    proxy.accepting = False
    proxy.cut()


FAULTS: Final[dict[str, Fault]] = {
    "slow": Fault(_slow, "bytes", attrgetter("delayed_bytes")),
    "cut": Fault(Proxy.cut, "connections", attrgetter("cuts")),
    "held back": Fault(Proxy.partition, "bytes", attrgetter("held_bytes")),
    "half open": Fault(Proxy.half_open, "connections", attrgetter("forgotten")),
    "refused": Fault(_refuse, "connections", attrgetter("refused")),
}

Crossing = Callable[[Run, Load, Node, str], Awaitable[None]]
"""Returns once something has crossed the way to the process. The text is the name of a player whom nobody knows."""


async def _break_in_turn(
    run: Run,
    node: Node,
    to: str,
    what: str,
    crossing: Crossing,
    *,
    every: bool = True,
    group: ConsumerGroup | None = None,
) -> None:
    """Each fault on one way, under load. what: of `crossing`, said of it. every: on all proxies of the way, else on one
    of them. group: the process is its worker, and reads its streams.
    """
    back: list[float] = []
    ended = 0
    met: dict[str, list[int]] = defaultdict(list)
    run.history.forgetful = to == "valkey"
    await make_crossing(run)
    async with run.linked(node, to) as proxies, run.loaded() as load:
        for _ in range(run.size):
            for name, fault in FAULTS.items():
                chosen: Sequence[Proxy] = proxies if every else [run.dice.choice(proxies)]
                await load.more(5)
                run.note(f"{node.name} to {to}: {name}")
                plays, before = load.plays, sum(map(fault.met, chosen))
                for proxy in chosen:
                    fault.begin(proxy)
                await asyncio.sleep(FAULT_SECONDS)
                met[name].append(sum(map(fault.met, chosen)) - before)
                for proxy in proxies:
                    proxy.heal()
                run.note(f"{node.name} to {to}: healed, {load.plays - plays} plays meanwhile, {met[name][-1]} met it")
                back.append(await _seconds(_crossed(run, load, node, to, f"{CROSSING}{len(back)}", crossing, group)))
                if not node.running:
                    ended += 1
                    run.note(f"{node.name} had ended by itself: {node.tail()}")
                    await node.start(run.stack.http)
        await load.more(10)
    slowness = await run.slowness.read()
    run.figure("plays", load.plays)
    for name, fault in FAULTS.items():
        run.figure(f"{fault.unit} that were {name}, at least", min(met[name]), least=1)
    most = BACK_SECONDS if group is None else WORKER_BACK_SECONDS
    run.figure(f"{what} again after healing, at worst", max(back), "s", most=most, slowness=slowness)
    run.figure("times that it ended by itself", ended, exactly=0)
    run.figure("told to come again", sum(one.http == 503 for one in run.history.attempts))


async def make_crossing(run: Run) -> None:
    world = run.world
    config = {"url": run.receiver.url, "secret": SECRET}
    await world.prize(f"{CROSSING} prize", channel="webhook", config=config)
    await world.game(CROSSING, handler_config={"prizes": world.chances(**{f"{CROSSING} prize": 1.0})})


async def _crossed(
    run: Run, load: Load, node: Node, to: str, who: str, crossing: Crossing, group: ConsumerGroup | None
) -> None:
    await crossing(run, load, node, who)
    if group is not None and to == "valkey":
        await _all_read(run, group)


async def _seconds(waited: Awaitable[None]) -> float:
    """How long it took, GIVEN_UP_SECONDS where it did not come about in them."""
    began = time.monotonic()
    try:
        async with asyncio.timeout(GIVEN_UP_SECONDS):
            await waited
    except TimeoutError:
        return GIVEN_UP_SECONDS
    return time.monotonic() - began


# -- what crosses a way -------------------------------------------------------------------------


async def _next_play(_run: Run, load: Load, _node: Node, _who: str) -> None:
    await load.more(1)


async def _next_of_staff(run: Run, load: Load, _node: Node, _who: str) -> None:
    """What was changed is read back: both cross the way."""
    path = f"/admin/campaigns/{load.world.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": time.monotonic()}})
    await run.world.client.ask("GetCampaign", STAFF, "GET", path, surface="admin")


async def _by_that_core(run: Run, _load: Load, node: Node, who: str) -> None:
    """That Core, and no other, has committed a play."""
    await play_crossing(run, who, replace(run.world.client, processes=lambda _: [node]), "core")


async def _told_by_that_core(run: Run, load: Load, node: Node, who: str) -> None:
    """An event of a play by that Core has gone from it into a stream, and from there to the receiver.

    Of one after the other: while it has no Valkey a Core lets the stream be, and what it did is found in the rows, by
    and by, which says nothing of the way.
    """
    for nth in itertools.count():
        player = f"{who}-{nth}"
        await _by_that_core(run, load, node, player)
        with suppress(TimeoutError):
            await run.until(partial(_heard, run, "play_completed", player), BY_STREAM_SECONDS)
            return


async def _counted_by_rate(run: Run, _load: Load, node: Node, who: str) -> None:
    """A start is counted in its player's bucket, which the edges have in common: a header says what is left there.

    While it has no Valkey an edge lets everybody in, and says nothing of the sort.
    """
    url = f"{node.url('consumer')}{API}/games/{run.world.ids['wheel']}/start"
    headers = {"Authorization": f"Bearer {run.world.client.tokens('consumer', who)}"}

    async def counted() -> bool:
        async with run.stack.http.post(url, json={}, headers=headers) as answer:
            return answer.status == 200 and '"player"' in answer.headers.get("RateLimit", "")

    await run.until(counted)


async def _carried_out(run: Run, _load: Load, _node: Node, who: str) -> None:
    """What was won after healing is at its receiver."""
    await play_crossing(run, who, run.world.client)
    await run.until(lambda: _heard(run, "fulfillment.requested", who))


async def _told(run: Run, _load: Load, _node: Node, who: str) -> None:
    """What was played after healing is known to the integration."""
    await play_crossing(run, who, run.world.client)
    await run.until(lambda: _heard(run, "play_completed", who))


async def _ranked(run: Run, _load: Load, _node: Node, who: str) -> None:
    """Who has played after healing is on the board, as Valkey has it."""
    await play_crossing(run, who, run.world.client)
    valkey = Ephemeral(run.stack.valkey.url, timeout_seconds=5)
    await valkey.start()

    async def there() -> bool:
        found = await RankingSets(valkey).read(run.world.tenant_id, run.world.ids["board"], None, 1, who)
        return found is not None and found[1].me is not None

    try:
        await run.until(there)
    finally:
        await valkey.close()


async def play_crossing(run: Run, who: str, client: Client, surface: str = "consumer") -> None:
    """A play that wins something to be delivered, and that integrations and boards hear of."""
    path = f"/games/{run.world.ids[CROSSING]}"
    started = await client.ask(
        "Start", who, "POST", f"{path}/start", {}, surface=surface, of=CROSSING, key=f"start {who}"
    )
    body = {"session_id": started.data["session_id"], "payload": {}}
    await client.ask("Play", who, "POST", f"{path}/play", body, surface=surface, of=CROSSING, key=f"play {who}")


async def _heard(run: Run, kind: str, who: str) -> bool:
    return any(body["type"] == kind and body["data"].get("player_id") == who for _, _, body in run.receiver.posted)


async def _all_read(run: Run, group: ConsumerGroup) -> None:
    """The group has read what there is in its streams now. Some of what it does is found in the rows too, in time."""
    async with Redis.from_url(run.stack.valkey.url) as valkey:
        streams = group.streams(run.stack.settings.stream_shards)
        ends = {stream: _place((await valkey.xinfo_stream(stream))["last-generated-id"]) for stream in streams}

        async def read() -> bool:
            return all([await _read_up_to(valkey, stream, group) >= end for stream, end in ends.items()])

        await run.until(read)


async def _read_up_to(valkey: Any, stream: str, group: ConsumerGroup) -> tuple[int, ...]:
    groups = await valkey.xinfo_groups(stream)
    return max(_place(one["last-delivered-id"]) for one in groups if one["name"].decode() == group.name)


def _place(message_id: bytes) -> tuple[int, ...]:
    """A message's place in its stream."""
    return tuple(map(int, message_id.split(b"-")))


# -- the ways -----------------------------------------------------------------------------------


@row("edge-to-core", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def edge_to_core(run: Run) -> None:
    """The way from the consumer edge to one of its two Cores is slow, cut, held back, forgotten, refused."""
    await _break_in_turn(run, run.stack.consumers[0], "core", "plays", _next_play, every=False)


@row("admin-to-core", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def admin_to_core(run: Run) -> None:
    """The way from the admin edge to one of the two Cores likewise: staff's writes are done once, as they were told."""
    await _break_in_turn(run, run.stack.admins[0], "core", "staff answered", _next_of_staff, every=False)


@row("admin-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def admin_to_valkey(run: Run) -> None:
    """The way from the admin edge to Valkey likewise."""
    await _break_in_turn(run, run.stack.admins[0], "valkey", "staff answered", _next_of_staff)


@row("core-to-postgres", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def core_to_postgres(run: Run) -> None:
    """The way from one Core to PostgreSQL likewise; that Core plays again after it."""
    await _break_in_turn(run, run.stack.cores[0], "postgres", "plays by that Core", _by_that_core)


@row("core-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def core_to_valkey(run: Run) -> None:
    """The way from one Core to Valkey likewise; events of its plays reach the receiver again after it."""
    await _break_in_turn(run, run.stack.cores[0], "valkey", "that Core's plays told of", _told_by_that_core)


@row("edge-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def edge_to_valkey(run: Run) -> None:
    """The way from the consumer edge to Valkey likewise; starts count in the edges' common rate again after it."""
    await _break_in_turn(run, run.stack.consumers[0], "valkey", "starts counted in the common rate", _counted_by_rate)


async def _break_for_worker(run: Run, group: ConsumerGroup, to: str, what: str, crossing: Crossing) -> None:
    await _break_in_turn(run, run.stack.worker(group.name), to, what, crossing, group=group)


@row("worker-to-valkey", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def worker_to_valkey(run: Run) -> None:
    """The way from the delivery worker to Valkey likewise; what is won goes out, by its stream, again after it."""
    await _break_for_worker(run, DELIVERIES, "valkey", "prizes delivered", _carried_out)


@row("worker-to-postgres", fault="", quick=1, full=10, unit="rounds of 5 faults")
async def worker_to_postgres(run: Run) -> None:
    """The way from the delivery worker to PostgreSQL likewise."""
    await _break_for_worker(run, DELIVERIES, "postgres", "prizes delivered", _carried_out)


@row("integrations-to-valkey", fault="", quick=1, full=2, unit="rounds of 5 faults")
async def integrations_to_valkey(run: Run) -> None:
    """The way from the integrations' worker to Valkey likewise; plays are told of again after it."""
    await _break_for_worker(run, INTEGRATIONS, "valkey", "plays told of", _told)


@row("integrations-to-postgres", fault="", quick=1, full=2, unit="rounds of 5 faults")
async def integrations_to_postgres(run: Run) -> None:
    """The way from the integrations' worker to PostgreSQL likewise."""
    await _break_for_worker(run, INTEGRATIONS, "postgres", "plays told of", _told)


@row("leaderboards-to-valkey", fault="", quick=1, full=2, unit="rounds of 5 faults")
async def leaderboards_to_valkey(run: Run) -> None:
    """The way from the leaderboards' worker to Valkey likewise; who plays is ranked again after it."""
    await _break_for_worker(run, LEADERBOARDS, "valkey", "plays ranked", _ranked)


@row("leaderboards-to-postgres", fault="", quick=1, full=2, unit="rounds of 5 faults")
async def leaderboards_to_postgres(run: Run) -> None:
    """The way from the leaderboards' worker to PostgreSQL likewise."""
    await _break_for_worker(run, LEADERBOARDS, "postgres", "plays ranked", _ranked)
