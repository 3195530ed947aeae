"""Hours of load with a fault now and then, and ceilings for what may grow.

In chapters, each in a tenant of its own and judged like a row, so that no history grows without end. What is held
between chapters is compared with what was held after the first ones.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ops.certification.node import Node
from ops.certification.receiver import receiving
from ops.certification.row import Figure, Result, Row
from ops.certification.run import Options, Run, Say, paused, run_row
from ops.certification.slowness import Slowness
from ops.certification.stack import DATABASE, Stack, standing

CHAPTER_SECONDS: Final = 300.0
EVERY_SECONDS: Final = (15.0, 45.0)
"""Between two faults."""

WARM: Final = 0.2
"""Part of the chapters after which things have the size that they keep."""

MEBIBYTE: Final = 1 << 20
CEILINGS: Final = {"rss": 60.0, "files": 50.0, "wal": 2560.0, "valkey": 256.0}
"""MiB that a process may grow by, files that it may open beyond, MiB of WAL and of Valkey's memory at most."""


async def _kill(run: Run, node: Node) -> None:
    node.kill()
    await node.start(run.stack.http)


async def _pause(run: Run, node: Node) -> None:
    async with paused(node):
        await asyncio.sleep(run.dice.uniform(0.5, 5))


async def _stop(run: Run, node: Node) -> None:
    await node.stop()
    await node.start(run.stack.http)


async def _restart_postgres(run: Run, node: Node) -> None:
    await run.stack.blocking(run.stack.postgres.restart_immediately)


async def _kill_valkey(run: Run, node: Node) -> None:
    run.history.forgetful = True
    run.stack.valkey.kill()
    await asyncio.sleep(run.dice.uniform(0.5, 5))
    await run.stack.blocking(run.stack.valkey.start)


async def _empty_valkey(run: Run, node: Node) -> None:
    run.history.forgetful = True
    run.stack.valkey.command("FLUSHALL")


FAULTS: Final[Mapping[str, tuple[Callable[[Run, Node], Awaitable[None]], int]]] = {
    "killed": (_kill, 4),
    "paused": (_pause, 4),
    "stopped": (_stop, 2),
    "postgres restarted": (_restart_postgres, 1),
    "valkey killed": (_kill_valkey, 1),
    "valkey emptied": (_empty_valkey, 1),
}
"""What may happen to a process or a store, and how often beside the others."""


@dataclass
class Growth:
    """What each process and store held after each chapter. lives: by process and its pid, in the order of time."""

    lives: dict[tuple[str, int], list[dict[str, int]]] = field(default_factory=dict)
    wal_mebibytes: list[float] = field(default_factory=list)
    valkey_mebibytes: list[float] = field(default_factory=list)
    valkey_keys: list[int] = field(default_factory=list)

    async def read(self, stack: Stack) -> None:
        for node in stack.nodes.values():
            self.lives.setdefault((node.name, node.pid), []).append(node.resources())
        wal = await stack.blocking(stack.postgres.psql, "SELECT coalesce(sum(size), 0) FROM pg_ls_waldir()", DATABASE)
        self.wal_mebibytes.append(int(wal) / MEBIBYTE)
        self.valkey_keys.append(int(stack.valkey.command("DBSIZE").split(b":")[-1]))
        memory = stack.valkey.command("INFO", "memory").partition(b"used_memory:")[2].split(b"\r\n")[0]
        self.valkey_mebibytes.append(int(memory) / MEBIBYTE)

    def grown(self, what: str) -> tuple[float, str]:
        """By how much the process grew that grew most, after its own warm-up, and which it was."""
        most, who = 0.0, "none"
        for (name, _), readings in self.lives.items():
            values = [reading[what] for reading in readings[max(1, int(len(readings) * WARM)) :]]
            if len(values) > 1 and values[-1] - values[0] > most:
                most, who = float(values[-1] - values[0]), name
        return most, who

    def figures(self) -> list[Figure]:
        """Held to their ceilings."""
        (rss, fattest), (files, hoarder) = self.grown("rss_bytes"), self.grown("files")
        warm = int(len(self.valkey_keys) * WARM)
        told = [
            (f"growth of memory ({fattest})", rss / MEBIBYTE, "MiB", CEILINGS["rss"]),
            (f"growth of open files ({hoarder})", files, "", CEILINGS["files"]),
            ("WAL", max(self.wal_mebibytes), "MiB", CEILINGS["wal"]),
            ("Valkey's memory", max(self.valkey_mebibytes), "MiB", CEILINGS["valkey"]),
        ]
        figures = [Figure(name, value, unit, f"at most {most:g}", value <= most) for name, value, unit, most in told]
        keys = float(max(self.valkey_keys) - self.valkey_keys[warm])
        return [*figures, Figure("growth of Valkey's keys", keys, "", "", True)]


async def soak(hours: float, options: Options, directory: Path, say: Say) -> list[Result]:
    """Chapters for so long; those that failed, and one result of all."""
    slowness, growth, done, faults = Slowness(), Growth(), 0, Counter[str]()
    plays = 0
    seconds = min(CHAPTER_SECONDS, hours * 3600 / 3)

    async def chapter(run: Run) -> None:
        """The load, and a fault now and then."""
        nonlocal plays
        ends = time.monotonic() + seconds
        async with run.loaded() as load:
            while time.monotonic() < ends:
                await load.for_seconds(min(run.dice.uniform(*EVERY_SECONDS), max(1.0, ends - time.monotonic())))
                name = run.dice.choices(list(FAULTS), [weight for _, weight in FAULTS.values()])[0]
                node = run.dice.choice(list(run.stack.nodes.values()))
                run.note(f"{name} {node.name}")
                faults[name] += 1
                await FAULTS[name][0](run, node)
            await load.more(20)
        plays += load.plays

    failed: list[Result] = []
    began = time.monotonic()
    async with receiving() as receiver, standing(directory) as stack:
        while time.monotonic() < began + hours * 3600:
            done += 1
            row = Row(f"chapter-{done}", "", 1, 1, "chapter", True, chapter)
            result = await run_row(row, options, stack, receiver, slowness, say)
            if not result.ok:
                failed.append(result)
            await growth.read(stack)
    whole = Result(Row("soak", "", done, done, "chapters", True, chapter), done, seconds=time.monotonic() - began)
    whole.figures = [
        Figure("plays", plays, "", "", True),
        *(Figure(name, count, "times", "", True) for name, count in faults.items()),
        Figure("chapters that failed", len(failed), "", "exactly 0", not failed),
        *growth.figures(),
    ]
    whole.slowness = slowness.readings[-1]
    return [*failed, whole]
