"""Postgres restarted, its backends frozen, its connections taken, under load."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import asyncpg
import psutil

from ops.certification.catalogue import World, found
from ops.certification.load import Load
from ops.certification.measuring import errors_ended, failing, slowest, unanswered
from ops.certification.node import Node
from ops.certification.row import row
from ops.certification.run import Run, paused
from ops.certification.stack import CONNECTIONS
from ops.history.record import History
from runtime.stores.tenant_quota import PART

RECOVERY_SECONDS = 2.0
FROZEN_SECONDS = 1.5
EXHAUSTED_SECONDS = 1.0
STUCK_SECONDS = 15.0
HELD_SECONDS = 3.0
PLACES_TRIES = 5
"""How often a pool is looked at until all of it is seen to work: a tenant that was late has a part of it for a while.
"""


@row("postgres-restarted", fault="Postgres restarted (immediate)", quick=3, full=20, unit="restarts")
async def postgres_restarted(run: Run) -> None:
    """Postgres is restarted as after a power cut; errors end within 2 s of its return."""
    away, slow = [], []
    async with run.loaded() as load:
        for _ in range(run.size):
            await load.more(run.dice.randrange(5, 30))
            began = time.monotonic()
            await run.stack.blocking(run.stack.postgres.restart_immediately)
            away.append((began, time.monotonic()))
            run.note("postgres is back")
            slow.append(await run.slowness.read())
            await load.for_seconds(RECOVERY_SECONDS)
            await load.more(10)
    next_one = [began for began, _ in away[1:]] + [math.inf]
    ended = [errors_ended(run.history, back, until) for (_, back), until in zip(away, next_one, strict=True)]
    worst = max(range(len(ended)), key=ended.__getitem__)
    refused = sum(len(failing(run.history, began, back)) for began, back in away)
    run.figure("plays", load.plays)
    run.figure("attempts that failed meanwhile", refused, least=1)
    run.figure("without an answer", unanswered(run.history.attempts), exactly=0)
    run.figure(
        "errors ended after its return, at worst", ended[worst], "s", most=RECOVERY_SECONDS, slowness=slow[worst]
    )


@row("postgres-frozen", fault="Postgres backend frozen", quick=3, full=20, unit="times all of a Core's")
async def postgres_frozen(run: Run) -> None:
    """All backends of a Core stop (SIGSTOP); refusals take 1.5 s at most, and their places in the pool come back."""
    came_back, after_thaw, slow, times, stuck = 0.0, 0.0, 1.0, [], 0
    worlds = (run.world, await _another_tenant(run))
    places = {core.name: await _places(run, core, worlds) for core in run.stack.cores}
    async with run.loaded() as load:
        for _ in range(run.size):
            await load.more(20)
            core = run.dice.choice(run.stack.cores)
            pids = await backends(run, core)
            began = time.monotonic()
            with frozen(pids):
                run.note(f"the backends of {core.name} are frozen")
                await load.for_seconds(FROZEN_SECONDS)
                # Nobody waits for the thaw: the frozen ones are left behind.
                seconds = await _started(load, core, began)
                if seconds >= STUCK_SECONDS and await _held_up(run, pids):
                    stuck += 1
                    run.note("a backend froze in its commit, with a lock that every other waits for")
                else:
                    came_back = max(came_back, seconds)
                thawed = time.monotonic()
            times.append((began, thawed))
            after_thaw = max(after_thaw, await _started(load, core, thawed))
            slow = max(slow, await run.slowness.read())
        await load.more(20)
    lost = sum([before - await _places(run, run.stack.nodes[name], worlds) for name, before in places.items()])
    refused = [one for began, thawed in times for one in failing(run.history, began, thawed)]
    settings = run.stack.settings
    acquire, statement = settings.database_acquire_timeout_seconds, settings.database_statement_timeout_seconds
    # Who was late is given a part of the pool at once: so many frozen ones at a time are found out and given up, each
    # once a statement is late on it. At worst all of them, before a connection is made anew.
    left_behind = math.ceil(CONNECTIONS / max(1, CONNECTIONS // PART)) * statement + acquire
    # What waits is answered or late, a connection is made, and a statement is done.
    thawed_again = acquire + 2 * statement
    run.figure("plays", load.plays)
    run.figure("refused meanwhile", len(refused), least=1)
    run.figure("slowest refusal", slowest(refused), "s", most=FROZEN_SECONDS, slowness=slow)
    run.figure("without an answer", unanswered(run.history.attempts), exactly=0)
    run.figure(
        "that Core answered from the database again, frozen still, after",
        came_back,
        "s",
        most=left_behind,
        slowness=slow,
    )
    run.figure("times that a frozen backend held up all of Postgres", stuck)
    run.figure("that Core answered after the thaw, at worst", after_thaw, "s", most=thawed_again, slowness=slow)
    run.figure("places in a pool that work at once", min(places.values()), exactly=CONNECTIONS)
    run.figure("of all of them lost in the end", lost, exactly=0)


async def _started(load: Load, core: Node, began: float) -> float:
    """Seconds since `began` until that Core has a connection that answers; STUCK_SECONDS where it has none by then."""
    client = load.world.client
    url = f"{core.core_url}/api/v1/games/{load.world.ids['wheel']}/start"
    try:
        async with asyncio.timeout_at(asyncio.get_running_loop().time() + STUCK_SECONDS):
            for number in itertools.count():
                body = {"scope": {"tenant_id": load.world.tenant_id}, "player_id": f"frozen{began}-{number}"}
                async with client.http.post(url, json=body) as answer:
                    if answer.status == 200:
                        break
                await asyncio.sleep(0.05)
    except TimeoutError:
        return STUCK_SECONDS
    return time.monotonic() - began


_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE state = 'active' AND pid <> pg_backend_pid() AND NOT pid = ANY($1::int[])
  AND (wait_event_type = 'LWLock' OR pg_blocking_pids(pid) && $1::int[])
"""


async def _held_up(run: Run, pids: list[int]) -> bool:
    """Whether others wait for what these backends hold. Who cannot even be asked does."""
    try:
        async with asyncio.timeout(FROZEN_SECONDS):
            connection = await asyncpg.connect(run.stack.database_url)
            try:
                return bool(await connection.fetchval(_WAITING, pids))
            finally:
                connection.terminate()
    except TimeoutError:
        return True


_LOCKED = "SELECT count(*) FROM pg_stat_activity WHERE client_port = ANY($1::int[]) AND wait_event_type = 'Lock'"


async def _another_tenant(run: Run) -> World:
    """One that has a game. No tenant is given all of a pool alone."""
    world = await found(run.stack, History())
    await world.prize("mug")
    await world.game("wheel", handler_config={"prizes": world.chances(mug=1.0)})
    return world


async def _places(run: Run, core: Node, worlds: Sequence[World]) -> int:
    """How many of its pool's places a Core uses at once, asked for more: each waits for a lock that is held here."""
    most = 0
    locking, looking = [await asyncpg.connect(run.stack.database_url) for _ in range(2)]
    try:
        for _ in range(PLACES_TRIES):
            async with locking.transaction():
                await locking.execute("LOCK TABLE plays IN ACCESS EXCLUSIVE MODE")
                asked = [
                    asyncio.ensure_future(_read_plays(core, world, nth))
                    for world in worlds
                    for nth in range(CONNECTIONS)
                ]
                gives_up = time.monotonic() + run.stack.settings.database_statement_timeout_seconds / 2
                while time.monotonic() < gives_up and most < CONNECTIONS:
                    most = max(most, int(await looking.fetchval(_LOCKED, _ports(run, core))))
            await asyncio.gather(*asked)
            if most >= CONNECTIONS:
                break
            await asyncio.sleep(1)
    finally:
        locking.terminate()
        looking.terminate()
    return most


async def _read_plays(core: Node, world: World, nth: int) -> None:
    query = f"scope.tenant_id={world.tenant_id}&player_id=reader{nth}"
    url = f"{core.core_url}/api/v1/games/{world.ids['wheel']}/history/me?{query}"
    async with world.stack.http.get(url) as answer:
        await answer.read()
        assert answer.status in (200, 503), await answer.text()


async def backends(run: Run, core: Node) -> list[int]:
    """The pids of the backends that serve a Core."""
    ports = _ports(run, core)
    connection = await asyncpg.connect(run.stack.database_url)
    try:
        rows = await connection.fetch("SELECT pid FROM pg_stat_activity WHERE client_port = ANY($1::int[])", ports)
    finally:
        await connection.close()
    return [row["pid"] for row in rows]


def _ports(run: Run, core: Node) -> list[int]:
    """The ports of a Core's connections to Postgres."""
    port = run.stack.postgres.port
    connections = psutil.Process(core.pid).net_connections(kind="tcp")
    return [one.laddr.port for one in connections if one.raddr and one.raddr.port == port]


@contextmanager
def frozen(pids: list[int]) -> Iterator[None]:
    """SIGSTOP for the length of the block."""
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@row("pool-exhausted", fault="Pool exhausted", quick=3, full=20, unit="times all of it taken")
async def pool_exhausted(run: Run) -> None:
    """Others hold every connection that Postgres has; who asks is refused within 1 s, and nothing waits on after."""
    slow, times, taking = 1.0, [], []
    async with run.loaded(players=16) as load:
        for _ in range(run.size):
            await load.more(20)
            taking.append(time.monotonic())
            async with _all_taken(run):
                began = time.monotonic()
                run.note("every connection is taken")
                await load.for_seconds(HELD_SECONDS)
            times.append((began, time.monotonic()))
            run.note("released")
            slow = max(slow, await run.slowness.read())
            await load.more(20)
    waited = [one for began, released in times for one in run.history.attempts if began <= one.began < released]
    refused = [one for one in waited if one.http != 200 and not 400 <= one.http < 500]
    ended = [
        errors_ended(run.history, back, again) for (_, back), again in zip(times, [*taking[1:], math.inf], strict=True)
    ]
    run.figure("refused meanwhile", len(refused), f"of {len(waited)}", least=1)
    run.figure("slowest refusal", slowest(refused), "s", most=EXHAUSTED_SECONDS, slowness=slow)
    run.figure("slowest answer", slowest(waited), "s", slowness=slow)
    run.figure("without an answer", unanswered(refused), exactly=0)
    run.figure("last refusal after the release", max(ended), "s", most=EXHAUSTED_SECONDS, slowness=slow)


@asynccontextmanager
async def _all_taken(run: Run) -> AsyncIterator[None]:
    """Postgres has no connection left for the length of the block: others hold all, and Tombola's were ended."""
    url, held = run.stack.database_url, []
    others = [*run.stack.cores, *run.stack.workers]
    try:
        async with paused(*others):  # Else they would be quicker than whoever comes for what is left.
            held.append(await asyncpg.connect(url))
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tombola'"
            await held[0].execute(ended)
            refused = False
            while not refused:
                came = await asyncio.gather(
                    *(asyncpg.connect(url, timeout=10) for _ in range(20)), return_exceptions=True
                )
                held += [one for one in came if isinstance(one, asyncpg.Connection)]
                refused = any(isinstance(one, asyncpg.TooManyConnectionsError) for one in came)
        yield
    finally:
        for connection in held:
            connection.terminate()
