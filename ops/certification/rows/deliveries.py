"""Workers killed in the middle of what they carry out, and receivers that are slow."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from ops.certification.catalogue import SECRET, World
from ops.certification.client import percentile
from ops.certification.node import Node
from ops.certification.row import row
from ops.certification.run import Run
from ops.history.tables import connected

DELIVERED_SECONDS: Final = 240.0
"""A lease, and the time that an unacknowledged message is left to its reader, are a minute each."""

ATTEMPT_SECONDS: Final = 15.0
HANG_SECONDS: Final = 60.0

_HASTEN: Final = """
UPDATE tasks SET lease_until = least(lease_until, now()), next_attempt_at = least(next_attempt_at, now())
WHERE tenant_id = '{tenant}' AND status IN ('delivering', 'retry')
"""


async def parcels(world: World, url: str) -> None:
    """A wheel on which each play wins something that is delivered to `url`."""
    await world.prize("parcel", channel="webhook", config={"url": url, "secret": SECRET})
    await world.game("parcels", handler_config={"prizes": world.chances(parcel=1.0)})


async def hook(run: Run) -> None:
    """An integration that is told of each play."""
    hook = {"url": run.receiver.url, "secret": SECRET}
    await run.world.make("integration", "", type="INTEGRATION_TYPE_WEBHOOK", events=["play_completed"], config=hook)


async def play(world: World, who: str, game: str) -> None:
    ask, path = world.client.ask, f"/games/{world.ids[game]}"
    started = await ask("Start", who, "POST", f"{path}/start", {}, of=game, key=f"start {who}")
    body = {"session_id": started.data["session_id"], "payload": {}}
    await ask("Play", who, "POST", f"{path}/play", body, of=game, key=f"play {who}")


async def _kill_at_posts(run: Run, node: Node, kind: str, cause: Callable[[int], Awaitable[None]]) -> Counter[str]:
    """Kills the worker each time that a POST of this type has arrived and is not answered; how often each id came."""
    posted: asyncio.Queue[str] = asyncio.Queue()
    armed = True

    async def reply(request: web.Request, message_id: str) -> web.StreamResponse:
        if armed and (await request.json())["type"] == kind:
            posted.put_nowait(message_id)
            await asyncio.sleep(HANG_SECONDS)  # It is killed meanwhile.
        return web.Response(status=204)

    run.receiver.reply = reply
    for nth in range(run.size):
        await cause(nth)
        async with asyncio.timeout(DELIVERED_SECONDS):
            message_id = await posted.get()
        node.kill()
        run.note(f"{node.name} killed after the POST of {message_id}")
        while not posted.empty():
            posted.get_nowait()
        await node.start(run.stack.http)
    armed = False
    return run.receiver.got


@row(
    "delivery-worker-killed",
    fault="Delivery worker killed after the POST",
    quick=4,
    full=20,
    unit="kills",
    furnished=False,
)
async def delivery_worker_killed(run: Run) -> None:
    """The delivery worker is killed after a POST has arrived, before it has heard the answer."""
    world = run.world
    await parcels(world, run.receiver.url)
    run.receiver.calling_back = False  # A callback too would say that it is delivered.
    got = await _kill_at_posts(
        run, run.stack.worker("deliveries"), "fulfillment.requested", lambda nth: play(world, f"p{nth}", "parcels")
    )
    if not run.full:  # What waiting for the leases would do.
        await run.stack.blocking(run.stack.postgres.psql, _HASTEN.format(tenant=world.tenant_id), "certify")
    async with connected(run.stack.settings) as database:

        async def delivered() -> bool:
            count = await database.fetchval(
                "SELECT count(*) FROM tasks WHERE tenant_id = $1 AND status = 'delivered'", world.tenant_id
            )
            return bool(count == run.size)

        seconds = await run.until(delivered, DELIVERED_SECONDS)
        tasks = await database.fetch("SELECT task_id FROM tasks WHERE tenant_id = $1", world.tenant_id)
    run.figure("tasks", len(tasks), exactly=run.size)
    run.figure("delivered after", seconds, "s")
    unknown = got.keys() - {task["task_id"] for task in tasks}
    run.figure("messages under another id than their task's", len(unknown), exactly=0)
    run.figure("tasks sent again under their id", sum(count > 1 for count in got.values()), least=1)


@row(
    "integrations-killed",
    fault="Consumer killed before XACK",
    quick=2,
    full=20,
    unit="kills",
    furnished=False,
)
async def integrations_killed(run: Run) -> None:
    """The integrations' worker is killed after a POST has arrived, before it has heard the answer."""
    world = run.world
    await parcels(world, run.receiver.url)
    await hook(run)
    await _kill_at_posts(
        run, run.stack.worker("integrations"), "play_completed", lambda nth: play(world, f"p{nth}", "parcels")
    )
    async with connected(run.stack.settings) as database:

        async def all_told() -> bool:
            count = await database.fetchval(
                "SELECT count(*) FROM integration_deliveries WHERE tenant_id = $1 AND status = 'delivered'",
                world.tenant_id,
            )
            return bool(count >= run.size)

        seconds = await run.until(all_told, DELIVERED_SECONDS)
        rows = await database.fetch("SELECT event_id FROM integration_deliveries WHERE tenant_id = $1", world.tenant_id)
    told = _plays_told(run)
    run.figure("all told after", seconds, "s")
    run.figure("plays that were told of", len(told), exactly=run.size)
    run.figure("plays told of under more than one id", sum(len(ids) > 1 for ids in told.values()), exactly=0)
    run.figure("rows of deliveries", len(rows), exactly=run.size)


def _plays_told(run: Run) -> dict[str, set[str]]:
    """The ids of the messages that told of each play."""
    told: dict[str, set[str]] = {}
    for _, message_id, body in run.receiver.posted:
        if body["type"] == "play_completed":
            told.setdefault(str(body["data"]["play_id"]), set()).add(message_id)
    return told


@row("slow-webhook", fault="Slow or dripping webhook", quick=2, full=8, unit="pairs of windows")
async def slow_webhook(run: Run) -> None:
    """Receivers answer not at all, or byte by byte; plays are timed with and without them in turn."""
    held: list[float] = []
    under_way = 0

    async def reply(request: web.Request, message_id: str) -> web.StreamResponse:
        nonlocal under_way
        began = time.monotonic()
        under_way += 1
        response = web.StreamResponse(headers={"Content-Length": "100000"})
        dripping = bool(sum(message_id.encode()) % 2)
        try:
            if dripping:
                await response.prepare(request)
            while request.transport is not None and not request.transport.is_closing():
                if time.monotonic() > began + HANG_SECONDS:
                    break
                if dripping:
                    await response.write(b".")
                await asyncio.sleep(0.1)
        finally:
            under_way -= 1
            held.append(time.monotonic() - began)
        return response

    async def let_go() -> bool:
        return under_way == 0

    seconds = 30.0 if run.full else 8.0
    took: dict[bool, list[float]] = {True: [], False: []}
    slow: dict[bool, list[float]] = {True: [], False: []}
    async with run.loaded() as load:
        await load.for_seconds(2)
        for nth in range(run.size):
            # There and back: a machine that grows slower all the while is then told of both alike.
            for slowly in (False, True) if nth % 2 else (True, False):
                run.receiver.reply = reply if slowly else None
                if not slowly:
                    await run.until(let_go, 2 * ATTEMPT_SECONDS)
                run.note(f"receivers are {'slow' if slowly else 'as ever'}")
                began = time.monotonic()
                await load.for_seconds(seconds)
                took[slowly] += [one[2] for one in run.world.client.seconds if one[0] == "Play" and one[1] >= began]
                slow[slowly].append(await run.slowness.read())
        run.receiver.reply = None
        await run.until(let_go, 2 * ATTEMPT_SECONDS)
    await run.stack.blocking(run.stack.postgres.psql, _HASTEN.format(tenant=run.world.tenant_id), "certify")
    beside, alone = percentile(took[True], 0.99), percentile(took[False], 0.99)
    run.figure("p99 of plays without", alone, "s", slowness=percentile(slow[False], 0.5))
    run.figure("p99 of plays with them", beside, "s", slowness=percentile(slow[True], 0.5))
    # The small size has too few plays to tell a tenth.
    run.figure("growth of the p99", beside / alone if alone else 1.0, most=1.1 if run.full else 1.5)
    run.figure("attempts at slow receivers", len(held), least=1)
    run.figure("longest attempt", max(held, default=0.0), "s", most=ATTEMPT_SECONDS + 1)
