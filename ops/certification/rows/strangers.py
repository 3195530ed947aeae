"""Who asks too much, for what is not there, or by a body that costs more than it should."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final

import psutil

from ops.certification.node import Node
from ops.certification.row import row
from ops.certification.run import Run
from runtime.http.serving import BODY_BYTES_MAX
from runtime.operations import API

MEBIBYTE: Final = 1 << 20
GROWTH_MEBIBYTES: Final = 60.0
WARM: Final = 3_000
AT_ONCE: Final = 32
BURST: Final = 20
PER_SECOND: Final = 0.5
TIMES_MAX: Final = 50.0
TRIES: Final = 5


@row("unknown-ids", fault="Unknown ids", quick=10_000, full=240_000, unit="requests", furnished=False)
async def unknown_ids(run: Run) -> None:
    """Strangers ask for games that nobody knows; the memory of the edge and of both Cores is held to a bound."""
    nodes = [*run.stack.consumers, *run.stack.cores]
    # Each comes from an address of its own: one alone would soon be told that it asks too much.
    await run.stack.restart(run.stack.consumers[0], TRUSTED_PROXIES="127.0.0.0/8")
    await _ask_for_unknown(run, WARM)
    before = _rss(nodes)
    began = time.monotonic()
    await _ask_for_unknown(run, run.size)
    seconds = time.monotonic() - began
    after = _rss(nodes)
    run.figure("requests a second", run.size / seconds)
    for node in nodes:
        grown = (after[node.name] - before[node.name]) / MEBIBYTE
        run.figure(f"growth of {node.name}", grown, "MiB", most=GROWTH_MEBIBYTES)
    await _ask_for_unknown(run, min(run.size, WARM))
    again = sum(_rss(nodes).values()) - sum(after.values())
    run.figure("growth of all by a further round", again / MEBIBYTE, "MiB", most=GROWTH_MEBIBYTES / 4)


async def _ask_for_unknown(run: Run, count: int) -> None:
    url = run.stack.consumers[0].url("consumer") + API

    async def some(each: int) -> None:
        for _ in range(each):
            address = ".".join(str(run.dice.randrange(1, 255)) for _ in range(3))
            headers = {"X-Tenant-Id": run.world.tenant_id, "X-Forwarded-For": f"9.{address}"}
            about = f"{url}/games/game_{run.dice.getrandbits(64):x}"
            if run.dice.random() < 0.5:
                request = run.stack.http.get(f"{about}/eligibility", headers=headers)
            else:
                request = run.stack.http.post(f"{about}/start", headers=headers, json={})
            async with request as answer:
                await answer.read()
                if answer.status != 404:
                    raise AssertionError(f"an unknown game was answered {answer.status} {await answer.text()}")

    await asyncio.gather(*(some(count // AT_ONCE) for _ in range(AT_ONCE)))


def _rss(nodes: list[Node]) -> dict[str, int]:
    return {node.name: node.resources()["rss_bytes"] for node in nodes}


@row("rate-limit", fault="Rate limit", quick=2, full=20, unit="bursts of 100", furnished=False)
async def rate_limit(run: Run) -> None:
    """A burst of one player over two edge processes."""
    world = run.world
    await world.prize("mug")
    await world.game("wheel", handler_config={"prizes": world.chances(mug=1.0)})
    limits = {"RATE_PLAYER_BURST": str(BURST), "RATE_PLAYER_PER_SECOND": str(PER_SECOND), "REDIS_TIMEOUT_SECONDS": "2"}
    await run.stack.restart(run.stack.consumers[0], **limits)
    second = run.stack.add("consumer-2", "consumer", **limits)
    try:
        await second.start(run.stack.http)
        over, mute = 0.0, 0
        once, path = world.client.once, f"/games/{world.ids['wheel']}/start"
        for nth in range(run.size):
            began = time.monotonic()
            burst = [
                once("Start", f"p{nth}", "POST", path, {}, of="wheel", key=f"{nth} {each}", refusals=("RATE_LIMITED",))
                for each in range(100)
            ]
            asked = await asyncio.gather(*burst)
            refilled = (time.monotonic() - began) * PER_SECOND
            over = max(over, sum(one.ok for one in asked) - BURST - refilled)
            mute += sum(one.attempts[-1].http == 429 and not one.attempts[-1].retry_after for one in asked)
            mute += sum(one.attempts[-1].http not in (200, 429) for one in asked)
    finally:
        await run.stack.remove(second)
    run.figure("allowed beyond the limit and what came back since, at most", over, most=1)
    run.figure("answers that are neither 200 nor 429 with Retry-After", mute, exactly=0)


@row("expensive-body", fault="One expensive body", quick=5, full=20, unit="posts of each", furnished=False)
async def expensive_body(run: Run) -> None:
    """Bodies of 256 KiB that are made to be dear, against a plain one of the size, by the processors' time."""
    world = run.world
    await world.prize("mug")
    await world.game("wheel", handler_config={"prizes": world.chances(mug=1.0)})
    nodes = [*run.stack.consumers, *run.stack.cores]
    costs = {name: await _cost(run, nodes, body) for name, body in _bodies().items()}
    plain = max(costs.pop("plain"), 0.001)
    dearest = max(costs, key=costs.__getitem__)
    run.figure("a plain one", plain * 1000, "ms of CPU")
    run.figure(f"the dearest ({dearest})", costs[dearest] * 1000, "ms of CPU")
    run.figure("times as dear", costs[dearest] / plain, most=TIMES_MAX)


async def _cost(run: Run, nodes: list[Node], body: bytes) -> float:
    """The CPU seconds of one post of it, of the best of a few."""
    url = f"{run.stack.consumers[0].url('consumer')}{API}/games/{run.world.ids['wheel']}/play"
    token = run.world.client.tokens("consumer", "p0")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    best = float("inf")
    for _ in range(TRIES):
        before = _cpu(nodes)
        for _ in range(run.size):
            async with run.stack.http.post(url, data=body, headers=headers) as answer:
                await answer.read()
                if answer.status >= 500:
                    raise AssertionError(f"a body was answered {answer.status}")
        best = min(best, (_cpu(nodes) - before) / run.size)
    return best


def _cpu(nodes: list[Node]) -> float:
    times = [psutil.Process(node.pid).cpu_times() for node in nodes]
    return float(sum(one.user + one.system for one in times))


def _bodies() -> dict[str, bytes]:
    def filled(head: str, unit: str, tail: str) -> bytes:
        return (head + unit * ((BODY_BYTES_MAX - len(head) - len(tail)) // len(unit)) + tail).encode()

    deep: Any = [0] * 30_000
    for _ in range(20):
        deep = {"n" * 9_000: deep}
    items = [{"id": f"item_{nth:06}", "x": 1.5, "as": "caught " * 9} for nth in range(2_400)]
    return {
        "plain": json.dumps({"session_id": "s", "payload": {"items": items}}).encode(),
        "many keys": ('{"payload":{' + ",".join(f'"k{nth}":{nth}' for nth in range(9_900)) + "}}").encode(),
        "deep paths": json.dumps({"payload": deep}, separators=(",", ":")).encode()[:BODY_BYTES_MAX],
        "deep lists": filled('{"payload":{"a":[', "[" * 60 + "]" * 60 + ",", "0]}}"),
        "long numbers": filled('{"payload":{"a":[', "1" * 4_000 + ",", "1]}}"),
        "a number without end": filled('{"payload":{"a":', "1", "}}"),
        "long fractions": filled('{"payload":{"a":[', "1" * 400 + "." + "1" * 400 + "e-200,", "1]}}"),
        "every field twice": filled('{"payload":{', '"a":1,', '"a":1}}'),
    }
