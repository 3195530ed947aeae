"""Hours of load with a fault now and then, and ceilings for what may grow (`growth`).

In chapters, each in a tenant of its own and judged like a row, so that no history grows without end.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ops.certification.growth import Growth
from ops.certification.node import Node
from ops.certification.receiver import receiving
from ops.certification.row import Figure, Result, Row
from ops.certification.run import Options, Run, Say, paused, run_row
from ops.certification.slowness import Slowness
from ops.certification.stack import Stack, standing

CHAPTER_SECONDS: Final = 300.0
EVERY_SECONDS: Final = (15.0, 45.0)
"""Between two faults."""

CHAPTERS_MIN: Final = 6
"""A short soak has shorter chapters."""

TWIN: Final = "-twin"
"""What ends a process strikes only the twins that a soak adds: the others live through it, so that they can grow."""


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


class Fault(NamedTuple):
    """What may happen to a process or store, and how often beside the others. ends: whether the process ends by it."""

    happen: Callable[[Run, Node], Awaitable[None]]
    weight: int
    ends: bool = False


FAULTS: Final[Mapping[str, Fault]] = {
    "killed": Fault(_kill, 4, ends=True),
    "paused": Fault(_pause, 4),
    "stopped": Fault(_stop, 2, ends=True),
    "postgres restarted": Fault(_restart_postgres, 1),
    "valkey killed": Fault(_kill_valkey, 1),
    "valkey emptied": Fault(_empty_valkey, 1),
}


async def _add_twins(stack: Stack) -> None:
    """A twin of each process."""
    for node in list(stack.nodes.values()):
        await stack.add(node.name + TWIN, node.role).start(stack.http)


async def soak(hours: float, options: Options, directory: Path, say: Say) -> list[Result]:
    """Chapters for so long; those that failed, and one result of all."""
    slowness, growth, done, faults = Slowness(), Growth(), 0, Counter[str]()
    plays = 0
    seconds = min(CHAPTER_SECONDS, hours * 3600 / CHAPTERS_MIN)

    async def chapter(run: Run) -> None:
        """The load, and a fault now and then."""
        nonlocal plays
        ends = time.monotonic() + seconds
        async with run.loaded() as load:
            while time.monotonic() < ends:
                await load.for_seconds(min(run.dice.uniform(*EVERY_SECONDS), max(1.0, ends - time.monotonic())))
                (name,) = run.dice.choices(list(FAULTS), [fault.weight for fault in FAULTS.values()])
                nodes = run.stack.nodes.values()
                node = run.dice.choice([one for one in nodes if TWIN in one.name or not FAULTS[name].ends])
                run.note(f"{name} {node.name}")
                faults[name] += 1
                await FAULTS[name].happen(run, node)
            await load.more(20)
        plays += load.plays
        growth.asked(run.history)

    failed: list[Result] = []
    began = time.monotonic()
    async with receiving() as receiver, standing(directory) as stack:
        await _add_twins(stack)
        while time.monotonic() < began + hours * 3600:
            done += 1
            row = Row(f"chapter-{done}", "", 1, 1, "chapter", True, chapter)
            result = await run_row(row, options, stack, receiver, slowness, say)
            if not result.ok:
                failed.append(result)
            await growth.read(stack)
            for figure in growth.figures():
                say(f"    {figure.told()}")
    whole = Result(Row("soak", "", done, done, "chapters", True, chapter), done, seconds=time.monotonic() - began)
    whole.figures = [
        Figure("plays", plays, "", "", True),
        *(Figure(name, count, "times", "", True) for name, count in faults.items()),
        Figure("chapters that failed", len(failed), "", "exactly 0", not failed),
        *growth.figures(),
    ]
    whole.slowness = slowness.readings[-1]
    return [*failed, whole]
