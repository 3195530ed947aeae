import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter

import pytest
from redis.asyncio import Redis

from ops.certification.judge import until
from ops.certification.load import Begin, Load
from ops.certification.process import Process
from ops.certification.proxy import Proxy
from ops.certification.site import SECRET, STAFF, Site
from runtime.groups import event_stream
from runtime.operations import API
from runtime.streams.backoff import LAST_SECONDS
from runtime.streams.servers import BLOCK_MS, SOCKET_SECONDS
from tests.support.receiver import Receiver
from tests.support.scenario import Scenario

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

FAULT_SECONDS = 3.0
BACK_SECONDS = 5.0
STREAM_SECONDS = 1.0
GIVEN_UP_SECONDS = 60.0
WORKER_BACK_SECONDS = LAST_SECONDS + BLOCK_MS / 1000 + SOCKET_SECONDS
"""The longest pause between two tries of a worker, and its longest read on a half-open connection."""


def slow(proxy: Proxy) -> None:
    proxy.delay_seconds = 0.15


def refuse(proxy: Proxy) -> None:
    proxy.accepting = False
    proxy.cut()


FAULTS: dict[str, tuple[Callable[[Proxy], None], Callable[[Proxy], int]]] = {
    "slow": (slow, attrgetter("delayed_bytes")),
    "cut": (Proxy.cut, attrgetter("cuts")),
    "held back": (Proxy.partition, attrgetter("held_bytes")),
    "half open": (Proxy.half_open, attrgetter("forgotten")),
    "refused": (refuse, attrgetter("refused")),
}

Crossing = Callable[[Site, Load, Process, Receiver, str], Awaitable[None]]


async def play_crosses(_site: Site, load: Load, _process: Process, _hook: Receiver, _who: str) -> None:
    await load.more(1)


async def staff_crosses(site: Site, load: Load, _process: Process, _hook: Receiver, _who: str) -> None:
    path = f"/admin/campaigns/{site.campaign}"
    await load.manage("UpdateCampaign", "PUT", path, {"settings": {"changed": time.monotonic()}})
    await site.client.ask("GetCampaign", STAFF, "GET", path, surface="admin")


async def commit_crosses(site: Site, _load: Load, process: Process, _hook: Receiver, who: str) -> None:
    await replace(site, client=replace(site.client, processes=lambda _: [process])).round("crossing", who)


async def event_crosses(site: Site, _load: Load, process: Process, _hook: Receiver, who: str) -> None:
    """An event of a play by this Core is in its stream. Several plays are tried: without Valkey a Core drops events."""
    alone = replace(site, client=replace(site.client, processes=lambda _: [process]))
    streams = [event_stream(shard) for shard in range(site.deployment.settings.stream_shards)]
    # With a timeout of its own, its wait_for would drop the cancellation by `until` (Python 3.11).
    async with Redis.from_url(site.deployment.valkey.url, socket_timeout=None) as valkey:

        async def published() -> bool:
            entries = [entry for stream in streams for entry in await valkey.xrevrange(stream, count=200)]
            return any(player.encode() in value for _, fields in entries for value in fields.values())

        for nth in itertools.count():
            player = f"{who}-{nth}"
            await alone.round("crossing", player)
            with suppress(TimeoutError):
                await until(published, STREAM_SECONDS)
                return


async def connected(proxies: Sequence[Proxy]) -> bool:
    return all(proxy.connections for proxy in proxies)


async def received(receiver: Receiver, kind: str, who: str) -> bool:
    bodies = [got.json for got in receiver.all]
    return any(body["type"] == kind and body["data"].get("player_id") == who for body in bodies)


async def rate_crosses(site: Site, _load: Load, process: Process, _hook: Receiver, who: str) -> None:
    """A start is counted in the rate that edges share. Without Valkey an edge lets it pass uncounted."""
    url = f"{process.url('consumer')}{API}/games/{site.ids['wheel']}/start"
    headers = {"Authorization": f"Bearer {site.client.tokens('consumer', who)}"}

    async def counted() -> bool:
        async with site.deployment.http.post(url, json={}, headers=headers) as answer:
            return answer.status == 200 and '"player"' in answer.headers.get("RateLimit", "")

    await until(counted)


def message_crosses(kind: str) -> Crossing:
    async def cross(site: Site, _load: Load, _process: Process, receiver: Receiver, who: str) -> None:
        await site.round("crossing", who)
        await until(partial(received, receiver, kind, who))

    return cross


async def rank_crosses(site: Site, _load: Load, _process: Process, _hook: Receiver, who: str) -> None:
    await site.round("crossing", who)
    path = f"/leaderboards/{site.ids['board']}/rankings"

    async def ranked() -> bool:
        request = await site.client.ask("ListRankings", who, "GET", path, of=site.ids["board"])
        return request.ok and bool((request.data.get("me") or {}).get("score"))

    await until(ranked)


LINKS: dict[str, tuple[str, str, Crossing]] = {
    "edge to Core": ("consumer-1", "core", play_crosses),
    "edge to Valkey": ("consumer-1", "valkey", rate_crosses),
    "admin to Core": ("admin-1", "core", staff_crosses),
    "admin to Valkey": ("admin-1", "valkey", staff_crosses),
    "Core to Postgres": ("core-1", "postgres", commit_crosses),
    "Core to Valkey": ("core-1", "valkey", event_crosses),
    "deliveries to Valkey": ("deliveries", "valkey", message_crosses("fulfillment.requested")),
    "deliveries to Postgres": ("deliveries", "postgres", message_crosses("fulfillment.requested")),
    "integrations to Valkey": ("integrations", "valkey", message_crosses("play_completed")),
    "integrations to Postgres": ("integrations", "postgres", message_crosses("play_completed")),
    "leaderboards to Valkey": ("leaderboards", "valkey", rank_crosses),
    "leaderboards to Postgres": ("leaderboards", "postgres", rank_crosses),
}


@pytest.fixture
def workers() -> tuple[str, ...]:
    return ("deliveries", "integrations", "leaderboards")


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.fault(
    "Network between processes",
    small=1,
    full=5,
    unit="rounds of 5 faults",
    figure="traffic crosses again within 5 s, a worker's within 11 s; no process ends",
)
async def test_broken_link_heals(scenario: Scenario, site: Site, load: Begin, receiver: Receiver, link: str) -> None:
    name, to, crosses = LINKS[link]
    process = site.deployment.processes[name]
    await site.prize("crossed", channel="webhook", config={"url": receiver.url, "secret": SECRET})
    await site.wheel("crossing", "crossed")
    back: dict[str, list[float]] = defaultdict(list)
    async with site.deployment.linked(process, to) as proxies, load() as running:
        for nth in range(scenario.size):
            for fault, (begin, met) in FAULTS.items():
                # Players' requests reach both Cores, staff's few may not.
                chosen = proxies if process.role == "admin" else [scenario.dice.choice(proxies)]
                await running.more(5)
                await until(partial(connected, chosen))  # A process connects anew as soon as it needs to.
                before = sum(map(met, chosen))
                for proxy in chosen:
                    begin(proxy)
                await asyncio.sleep(FAULT_SECONDS)  # sleeps: the fault lasts so long
                assert sum(map(met, chosen)) > before, f"no traffic met {fault}"
                for proxy in proxies:
                    proxy.heal()
                healed = time.monotonic()
                try:
                    async with asyncio.timeout(GIVEN_UP_SECONDS):
                        await crosses(site, running, process, receiver, f"crossing-{fault}-{nth}".replace(" ", "-"))
                except TimeoutError:
                    pytest.fail(f"nothing crossed after {fault}: {process.tail()}")
                back[fault].append(time.monotonic() - healed)
                assert process.running, process.tail()
        await running.more(10)
    bound = BACK_SECONDS if process.role in ("core", "consumer", "admin") else WORKER_BACK_SECONDS
    for fault, seconds in back.items():
        scenario.seconds(f"{fault}: crossed again, at worst", max(seconds), bound)
    if to == "valkey":
        site.forget_starts()
