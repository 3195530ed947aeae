"""Runs rows: each in a tenant of its own on one stack, judged when it is quiet again."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ops.certification.catalogue import World, found, furnish
from ops.certification.judge import judge
from ops.certification.load import Load, loaded
from ops.certification.node import Node, with_port
from ops.certification.proxy import Proxy, between
from ops.certification.receiver import Receiver, receiving
from ops.certification.row import Figure, NotRun, Result, Row
from ops.certification.slowness import Slowness
from ops.certification.stack import Stack, standing
from ops.history.record import History, Note

ROW_SECONDS_MAX: Final = 3600.0
QUICK_SECONDS_MAX: Final = 240.0
"""How long one row may take at either size: what hangs fails."""
QUIET_SECONDS: Final = 90.0
"""How long deliveries and rankings may take to settle once the load has ended."""

Say = Callable[[str], None]


@dataclass
class Run:
    """What a row is given.

    size: how much of it, in the row's unit. dice: seeded. world: its tenant; run.world.client asks for people of it.
    """

    stack: Stack
    world: World
    receiver: Receiver
    slowness: Slowness
    size: int
    full: bool
    dice: random.Random
    say: Say
    figures: list[Figure] = field(default_factory=list)

    @property
    def history(self) -> History:
        return self.world.history

    def loaded(self, **more: Any) -> AbstractAsyncContextManager[Load]:
        """The load, for the length of the block (`ops/certification/load.py` has what may be said)."""
        return loaded(self.world, self.dice, **more)

    @asynccontextmanager
    async def linked(self, node: Node, to: str) -> AsyncIterator[list[Proxy]]:
        """Starts a process anew with a proxy before what it asks, for the length of the block.

        to: "core" (a proxy before each Core, of an edge), "postgres" or "valkey".
        """
        stack = self.stack
        ports = {
            "core": [core.ports["RPC_PORT"] for core in stack.cores],
            "postgres": [stack.postgres.port],
            "valkey": [stack.valkey.port],
        }[to]
        async with between(*ports) as proxies:
            environment = {
                "core": {"CORE_RPC_ADDRESSES": ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies)},
                "postgres": {"DATABASE_URL": with_port(stack.database_url, proxies[0].port)},
                "valkey": {"REDIS_URL": with_port(stack.valkey.url, proxies[0].port)},
            }[to]
            await stack.restart(node, **environment)
            try:
                yield list(proxies)
            finally:
                for proxy in proxies:
                    proxy.heal()
                await stack.restart(node)

    def note(self, text: str) -> None:
        """Keeps in the history what happened, and when."""
        self.history.notes.append(Note(time.monotonic(), text))

    def figure(
        self,
        name: str,
        value: float,
        unit: str = "",
        *,
        most: float | None = None,
        least: float | None = None,
        exactly: float | None = None,
        slowness: float | None = None,
        scaled: bool = False,
    ) -> None:
        """Notes a figure, and what it is held to; without a bound it is only told.

        slowness: of the machine while it was measured, shown beside it. scaled: `most` is stretched by that, and
        `least` shrunk, visibly.
        """
        factor = slowness if scaled and slowness is not None else 1.0
        words, ok = [], True
        if most is not None:
            words.append(f"at most {most:g}")
            ok = ok and value <= most * factor
        if least is not None:
            words.append(f"at least {least:g}")
            ok = ok and value >= least / factor
        if exactly is not None:
            words.append(f"exactly {exactly:g}")
            ok = ok and value == exactly
        figure = Figure(name, value, unit, ", ".join(words), ok, slowness, scaled)
        self.figures.append(figure)
        self.say(f"    {'' if ok else 'FAILED '}{figure.told()}")

    async def until(self, fact: Callable[[], Awaitable[bool]], seconds: float = QUIET_SECONDS) -> float:
        """Waits for a fact; how many seconds it took. TimeoutError where it does not come about."""
        began = time.monotonic()
        async with asyncio.timeout(seconds):
            while not await fact():  # noqa: ASYNC110  no event tells of it
                await asyncio.sleep(0.02)
        return time.monotonic() - began


@dataclass
class Options:
    """full: at the sizes that the page of faults names. keep: where what failed is kept. size: in place of a row's."""

    full: bool
    keep: Path
    seed: int = 1
    size: int | None = None


async def certify(rows: Sequence[Row], options: Options, directory: Path, say: Say) -> list[Result]:
    """Runs the rows one after the other on a stack in this directory."""
    slowness, results = Slowness(), []
    await slowness.read()
    say(f"starting two Cores, edges, workers and their stores in {directory} ...")
    began = time.monotonic()
    async with receiving() as receiver, standing(directory) as stack:
        say(f"all of it is ready after {time.monotonic() - began:.0f} s; machine x {await slowness.read():.2g}")
        for row in rows:
            results.append(await run_row(row, options, stack, receiver, slowness, say))
    return results


async def run_row(row: Row, options: Options, stack: Stack, receiver: Receiver, slowness: Slowness, say: Say) -> Result:
    """Runs one row in a tenant of its own, and has it judged; what it raises is in the result."""
    result = Result(row, options.size or (row.full if options.full else row.quick))
    say(f"{row.name}: {row.about} ({result.size} {row.unit})")
    began = time.monotonic()
    history = History()
    run: Run | None = None
    try:
        async with asyncio.timeout(ROW_SECONDS_MAX if options.full else QUICK_SECONDS_MAX):
            await stack.mend()
            receiver.reset()
            world = await found(stack, history)
            if row.furnished:
                await furnish(world, receiver.url)
            dice = random.Random(f"{row.name} {options.seed}")
            run = Run(stack, world, receiver, slowness, result.size, options.full, dice, say)
            await row.work(run)
            await stack.mend()
            await judge(run)
    except NotRun as error:
        result.not_run = str(error)
    except Exception as error:
        result.error = f"{type(error).__name__}: {error}"
        history.notes.append(Note(time.monotonic(), traceback.format_exc()))
    result.figures = run.figures if run is not None else []
    result.seconds, result.slowness = time.monotonic() - began, await slowness.read()
    if not result.ok:
        result.kept = str(_keep(row, history, stack, options.keep))
    why = result.not_run or result.error
    say(
        f"  {result.said}{why and f' {why}'} in {result.seconds:.0f} s"
        + (f": see {result.kept}" if result.kept else "")
    )
    return result


def _keep(row: Row, history: History, stack: Stack, keep: Path) -> Path:
    """Puts the history and every log where they outlive the run."""
    place = keep / row.name
    place.mkdir(parents=True, exist_ok=True)
    history.write(place / "history.jsonl")
    for log in [*stack.directory.glob("*.log"), stack.postgres.log_path, stack.valkey.log_path]:
        if log.exists():
            shutil.copy(log, place / log.name)
    return place


@asynccontextmanager
async def paused(*nodes: Any) -> AsyncIterator[None]:
    """SIGSTOP to these processes or stores for the length of the block."""
    for node in nodes:
        node.pause() if hasattr(node, "pause") else node.freeze()
    try:
        yield
    finally:
        for node in nodes:
            node.resume() if hasattr(node, "resume") else node.thaw()
