"""Valkey killed, frozen, emptied, and a replica that had fallen behind promoted, under load."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ops.certification.agreement import forget_starts
from ops.certification.measuring import Readiness
from ops.certification.row import row
from ops.certification.run import Run, paused
from ops.history.record import NOT_YET, Attempt
from ops.servers.base import write_private
from ops.servers.valkey import Valkey

SLOW_SECONDS = 0.25
SLOWER_MAX = 3
NOTICED_SECONDS = 2.0
PROMISED = ("Play", "ClaimReward", "Redeem")


@row("valkey-killed", fault="Valkey killed, or frozen 30 s", quick=8, full=30, unit="seconds away")
async def valkey_killed(run: Run) -> None:
    """Valkey is killed and stays away; plays, claims and redeems go on as if nothing were."""
    async with run.loaded() as load:
        await load.more(30)
        async with _away(run) as away:
            await run.stack.blocking(run.stack.valkey.kill)
            await load.for_seconds(run.size)
            await run.stack.blocking(run.stack.valkey.start)
        await load.more(20)
    _promised(run, away)
    forget_starts(run)


@row("valkey-frozen", fault="Valkey killed, or frozen 30 s", quick=8, full=30, unit="seconds frozen")
async def valkey_frozen(run: Run) -> None:
    """Valkey stands still (SIGSTOP), its connections open; plays, claims and redeems go on as if nothing were."""
    async with run.loaded() as load:
        await load.more(30)
        async with _away(run) as away, paused(run.stack.valkey):
            await load.for_seconds(run.size)
        await load.more(20)
    _promised(run, away)
    forget_starts(run)


@dataclass
class _Away:
    """While Valkey was away (monotonic seconds), and how slow the machine was then."""

    began: float
    back: float = NOT_YET
    slowness: float = 1.0


@asynccontextmanager
async def _away(run: Run) -> AsyncIterator[_Away]:
    """Valkey is away for the length of the block, once the block has taken it; how Core says so is noted."""
    core = run.stack.cores[0]
    async with Readiness(core, run.stack.http) as readiness:
        slow = [await run.slowness.read()]
        away = _Away(time.monotonic())
        run.note("valkey goes away")
        reading = asyncio.ensure_future(_read(run, slow))
        yield away
        away.back = time.monotonic()
        run.note("valkey is back")
        await reading

        async def ready() -> bool:
            return readiness.seen[-1][1] == 200

        again = await run.until(ready)
    away.slowness = factor = max(1.0, max(slow))
    noticed = readiness.first(away.began, 503, "redis")
    run.figure("readyz 503 with X-Failed-Check after", noticed, "s", most=NOTICED_SECONDS, slowness=factor)
    run.figure("healthz other than 200", 0 if readiness.alive else 1, exactly=0)
    run.figure("readyz 200 after its return", again, "s", slowness=factor)


def _promised(run: Run, away: _Away) -> None:
    """What came of the plays, claims and redeems begun meanwhile; once the load is over, when none is under way."""
    begun = [
        one for asked in run.history.of(*PROMISED) for one in asked.attempts if away.began <= one.began < away.back
    ]
    answered = [one for one in begun if one.http]
    run.figure("plays, claims and redeems meanwhile", len(begun), least=1)
    run.figure("of them failed", sum(one.http >= 500 for one in answered), exactly=0)
    run.figure("of them without an answer", len(begun) - len(answered), exactly=0)
    factor = away.slowness
    run.figure(f"slower than {SLOW_SECONDS} s", _slower(answered, SLOW_SECONDS), slowness=factor)
    scaled = f"slower than {SLOW_SECONDS} s x {factor:.2g}, as slow as the machine was"
    run.figure(scaled, _slower(answered, SLOW_SECONDS * factor), most=SLOWER_MAX)


async def _read(run: Run, slow: list[float]) -> None:
    slow.append(await run.slowness.read())


def _slower(attempts: list[Attempt], seconds: float) -> int:
    return sum(one.ended - one.began > seconds for one in attempts)


@row("flushall", fault="FLUSHALL", quick=5, full=60, unit="seconds of it in a loop")
async def flushall(run: Run) -> None:
    """Valkey is emptied again and again; nothing is done twice, and rankings are made anew as they were."""
    flushes = 0
    async with run.loaded() as load:
        await load.more(20)
        ends = time.monotonic() + run.size
        while time.monotonic() < ends:
            await run.stack.blocking(run.stack.valkey.command, "FLUSHALL")
            flushes += 1
            await asyncio.sleep(0.02)
        await load.more(20)
    run.figure("plays", load.plays)
    run.figure("times emptied", flushes, least=run.size)
    forget_starts(run)


@row("flushall-and-kill", fault="FLUSHALL", quick=3, full=20, unit="times")
async def flushall_and_kill(run: Run) -> None:
    """Valkey is emptied, and a Core killed in the same moment: what either knew by heart is in the database."""
    async with run.loaded() as load:
        for _ in range(run.size):
            await load.more(run.dice.randrange(5, 30))
            core = run.dice.choice(run.stack.cores)
            await run.stack.blocking(run.stack.valkey.command, "FLUSHALL")
            core.kill()
            run.note(f"valkey emptied, {core.name} killed")
            await core.start(run.stack.http)
        await load.more(20)
    run.figure("plays", load.plays)
    forget_starts(run)


@row(
    "valkey-replica-promoted", fault="Stale Valkey replica promoted, cluster slot moved", quick=1, full=5, unit="times"
)
async def valkey_replica_promoted(run: Run) -> None:
    """A replica that has missed the last plays takes the primary's place, at its address; nothing is done twice."""
    async with run.loaded() as load:
        for nth in range(run.size):
            await load.more(20)
            replica = await run.stack.blocking(_replica, run, nth)

            async def follows(replica: Valkey = replica) -> bool:
                return b"master_link_status:up" in replica.command("INFO", "replication")

            await run.until(follows)
            await run.stack.blocking(replica.command, "REPLICAOF", "NO", "ONE")
            run.note("the replica falls behind")
            await load.more(40)
            await run.stack.blocking(_promote, run, replica)
            run.note("the replica stands in the primary's place")
        await load.more(40)
    run.figure("plays", load.plays)
    forget_starts(run)


def _replica(run: Run, nth: int) -> Valkey:
    """A replica that follows the stack's Valkey."""
    primary = run.stack.valkey
    replica = Valkey(run.stack.directory / f"replica-{nth}" / "valkey")
    replica.data_dir.parent.mkdir()
    write_private(replica.data_dir.parent / "valkey.password", primary.password)
    replica.start()
    replica.command("CONFIG", "SET", "masterauth", primary.password)
    replica.command("REPLICAOF", "127.0.0.1", str(primary.port))
    return replica


def _promote(run: Run, replica: Valkey) -> None:
    """The primary is gone, and the replica at its address."""
    primary = run.stack.valkey
    primary.kill()
    answer = replica.command("CONFIG", "SET", "port", str(primary.port))
    assert b"-ERR" not in answer, answer
    replica.port = primary.port
    run.stack.servers.valkey = replica
