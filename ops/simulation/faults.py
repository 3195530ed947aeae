"""The faults that a seed draws, and the link from a Core to the database that carries them out.

    lost_request   the next statement does not arrive                    the connection is cut
    lost_answer    the next is executed, but its result is lost          the connection is cut
    silence        the next is executed, but no result ever comes        the database's time limit ends it
    slow           everything is slow                                    for some seconds
    locked         the next writing transaction stops                    for some seconds, and others wait for it
    still          a process is suspended                                like a long garbage collection
    crash          a process dies, and a new one starts after a while
    away           the database stops and restarts                       connections are cut
    clock          a clock steps, of a Core's host or of the database
    hang_up        the client disconnects, and its request is cancelled
    unheard        Core's response to the client is lost

Duplicate requests are part of the workload: its concurrent duplicates and retries.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from ops.simulation.loop import Incarnation, SimulatedLoop
from ops.simulation.plan import Fault

WEIGHTS: Final = {
    "lost_request": 3,
    "lost_answer": 6,
    "silence": 3,
    "slow": 3,
    "locked": 4,
    "still": 3,
    "crash": 3,
    "away": 2,
    "clock": 3,
    "hang_up": 3,
    "unheard": 4,
}
KINDS: Final = tuple(WEIGHTS)


class ConnectionLost(OSError):
    """The connection was cut."""


def draw(dice: Random, moments: list[float], cores: int, steps: int) -> tuple[Fault, ...]:
    """Draws faults at some of these moments, at which requests are in flight."""
    count = dice.choice((0, 1, 2, 3, 5, 8))
    found = []
    for number in range(count):
        kind = dice.choices(KINDS, list(WEIGHTS.values()))[0]
        at = max(0.0, dice.choice(moments) + dice.uniform(-0.002, 0.03))
        core = f"core-{dice.randrange(cores)}"
        where, seconds = core, 0.0
        match kind:
            case "slow" | "locked":
                seconds = dice.choice((0.02, 0.2, 0.7, 1.5))
            case "still":
                seconds = dice.choice((0.05, 0.5, 3.0))
            case "crash":
                seconds = dice.choice((0.0, 0.5, 4.0))
            case "away":
                where, seconds = "database", dice.choice((0.1, 1.0, 10.0))
            case "clock":
                where = dice.choice((core, "database"))
                # The database's clock steps back by seconds only: the auditor cannot handle a day that repeats.
                seconds = dice.choice((-600.0 if where == core else -3.0, -3.0, 2.0, 45.0, 600.0))
            case "hang_up":
                where = f"step-{dice.randrange(steps)}"
                seconds = dice.uniform(0.0, 0.01)
            case "unheard":
                where = f"step-{dice.randrange(steps)}"
        found.append(Fault(number, at, kind, where, seconds))
    return tuple(sorted(found, key=lambda fault: (fault.at, fault.number)))


class Weather:
    """The pending faults of each process. met: those that took effect, and when.

    pace: approximate round-trip time to the database, in seconds.
    """

    def __init__(self, loop: SimulatedLoop, seed: str, pace: float) -> None:
        self.loop = loop
        self.pace = pace
        self.met: list[tuple[float, Fault]] = []
        self.on_met: Callable[[Fault], None] = lambda fault: None
        self._seed = seed
        self._waiting: dict[str, list[Fault]] = {}
        self._slow: dict[str, tuple[float, float]] = {}

    def link(self, incarnation: Incarnation) -> "Link":
        """The link from a process to the database."""
        return Link(self, incarnation, Random(f"{self._seed}/{incarnation.name}/database"))

    def begin(self, fault: Fault) -> None:
        """Makes a fault pending."""
        if fault.kind == "slow":
            self._slow[fault.where] = (self.loop.now + 2.0, fault.seconds)
            self.record(fault)
        else:
            self._waiting.setdefault(fault.where, []).append(fault)

    def heal(self) -> None:
        """Removes all pending faults."""
        self._waiting.clear()
        self._slow.clear()

    def record(self, fault: Fault) -> None:
        """Records that a fault took effect."""
        self.met.append((self.loop.now, fault))
        self.on_met(fault)

    def take(self, host: str, *kinds: str) -> Fault | None:
        """Consumes a pending fault of one of these kinds for the host, if any."""
        waiting = self._waiting.get(host, [])
        fault = next((fault for fault in waiting if fault.kind in kinds), None)
        if fault is not None:
            waiting.remove(fault)
            self.record(fault)
        return fault

    def slowness(self, host: str) -> float:
        until, seconds = self._slow.get(host, (0.0, 0.0))
        return seconds if until > self.loop.now else 0.0


class Link:
    """The link between a process and the database: delays and faults before, after and within each statement."""

    def __init__(self, weather: Weather, incarnation: Incarnation, dice: Random) -> None:
        self._weather = weather
        self._host = incarnation.host
        self._random = dice.random

    def _seconds(self) -> float:
        """The delay of one direction: mostly short, sometimes much longer."""
        drawn = self._random()
        pace = self._weather.pace
        return pace * (0.2 + drawn) if drawn < 0.85 else pace * (1.0 + 60.0 * (drawn - 0.85))

    async def before(self) -> None:
        """Raises ConnectionLost if the statement does not arrive."""
        await asyncio.sleep(self._seconds())
        if self._weather.take(self._host, "lost_request") is not None:
            raise ConnectionLost("the connection was cut before anything was sent")
        if seconds := self._weather.slowness(self._host):
            await asyncio.sleep(seconds * self._random())

    async def after(self) -> None:
        """Raises ConnectionLost if the result does not arrive: the statement has been executed."""
        fault = self._weather.take(self._host, "lost_answer", "silence")
        if fault is not None:
            if fault.kind == "silence":
                await asyncio.get_running_loop().create_future()
            raise ConnectionLost("the connection was cut before the answer came")
        await asyncio.sleep(self._seconds())

    async def within(self) -> None:
        """Lets other tasks run during a transaction."""
        fault = self._weather.take(self._host, "locked")
        if fault is not None:
            await asyncio.sleep(fault.seconds)
        elif self._random() < 0.3:
            await asyncio.sleep(self._weather.pace * self._random() * 0.2)
