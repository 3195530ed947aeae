"""What goes wrong: the faults that a seed draws, and the network between a Core and its stores that carries them out.

    lost_request   the next request to a store does not arrive           cut
    lost_answer    the next is carried out, and its answer is lost       cut
    silence        the next is carried out, and nobody ever answers      the store's own time limit ends it
    slow           everything to the store takes so long                 for some seconds
    locked         the next transaction stops between two of its steps   for some seconds, holding its locks
    still          a process does nothing                                as in a long collection, a paused machine
    crash          a process is gone, and another comes after a while
    away           a store ends, and comes back                          connections are cut; Valkey comes back empty
    restored       the database comes back from a backup        as it was so long ago: what came after is gone
    stale          a replica of the ephemeral store is promoted  that has not heard of anything for so long
    flush          the ephemeral store forgets everything
    clock          a clock steps, of a Core's host or of the database
    hang_up        who asked goes away, and its request is cancelled
    unheard        Core's answer to who asked is lost

Requests that arrive twice are the workload's: its twins, and what is asked again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from ops.simulation.loop import Incarnation, SimulatedLoop
from ops.simulation.plan import Fault

AT_STORES: Final = ("lost_request", "lost_answer", "silence", "slow", "locked")
KINDS: Final = (*AT_STORES, "still", "crash", "away", "restored", "stale", "flush", "clock", "hang_up", "unheard")

WEIGHTS: Final = {
    "lost_request": 3,
    "lost_answer": 6,
    "silence": 3,
    "slow": 3,
    "locked": 4,
    "still": 3,
    "crash": 3,
    "away": 2,
    "restored": 1,
    "stale": 1,
    "flush": 1,
    "clock": 3,
    "hang_up": 3,
    "unheard": 4,
}


class Lost(OSError):
    """The connection was cut."""


def draw(dice: Random, moments: list[float], cores: int, steps: int) -> tuple[Fault, ...]:
    """Faults at some of these moments, the times at which something is under way."""
    count = dice.choice((0, 1, 2, 3, 5, 8))
    found = []
    for number in range(count):
        kind = dice.choices(KINDS, [WEIGHTS[kind] for kind in KINDS])[0]
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
                where, seconds = dice.choice(("database", "valkey")), dice.choice((0.1, 1.0, 10.0))
            case "restored" | "stale":
                where = "database" if kind == "restored" else "valkey"
                seconds = dice.choice((0.01, 1.0, 600.0, 20_000.0))
            case "flush":
                where = "valkey"
            case "clock":
                where = dice.choice((core, "database"))
                seconds = dice.choice((-600.0, -3.0, 2.0, 45.0, 600.0))
            case "hang_up":
                where = f"step-{dice.randrange(steps)}"
                seconds = dice.uniform(0.0, 0.01)
            case "unheard":
                where = f"step-{dice.randrange(steps)}"
        found.append(Fault(number, at, kind, where, seconds))
    return tuple(sorted(found, key=lambda fault: (fault.at, fault.number)))


class Weather:
    """What the networks go by: which faults lie in wait, for whom. `met` counts those that happened to somebody."""

    def __init__(self, loop: SimulatedLoop, seed: str, pace: float) -> None:
        self.loop = loop
        self.pace = pace
        """The usual way to a store and back, in seconds, is about this."""
        self.met: Counter[str] = Counter()
        self.on_met: Callable[[Fault], None] = lambda fault: None
        self._seed = seed
        self._waiting: dict[str, list[Fault]] = {}
        self._slow: dict[str, tuple[float, float]] = {}

    def network(self, incarnation: Incarnation, store: str) -> Way:
        """Between a process and a store ("database" or "valkey")."""
        return Way(self, incarnation, store, Random(f"{self._seed}/{incarnation.name}/{store}"))

    def begin(self, fault: Fault) -> None:
        """From now on it lies in wait (a `crash`, `still`, `clock`, `flush` or `hang_up` is the world's)."""
        match fault.kind:
            case "slow":
                self._slow[fault.where] = (self.loop.now + 2.0, fault.seconds)
                self.note(fault)
            case _:
                self._waiting.setdefault(fault.where, []).append(fault)

    def calm(self) -> None:
        """Nothing lies in wait any more."""
        self._waiting.clear()
        self._slow.clear()

    def note(self, fault: Fault) -> None:
        """It has happened to somebody."""
        self.met[fault.kind] += 1
        self.on_met(fault)

    def take(self, host: str, *kinds: str) -> Fault | None:
        """The fault of one of these kinds that lies in wait for the host, if any; it is spent."""
        waiting = self._waiting.get(host)
        if waiting:
            for fault in waiting:
                if fault.kind in kinds:
                    waiting.remove(fault)
                    self.note(fault)
                    return fault
        return None

    def slowness(self, host: str) -> float:
        until, seconds = self._slow.get(host, (0.0, 0.0))
        return seconds if until > self.loop.now else 0.0


class Way:
    """What the models of the stores ask around each statement (`before`, `after`) and inside the server (`point`).

    `before` raises Lost where nothing arrives, `after` where the answer is lost: the statement is done by then.
    """

    def __init__(self, weather: Weather, incarnation: Incarnation, store: str, dice: Random) -> None:
        self._weather = weather
        self._host = incarnation.host
        self._store = store
        self._random = dice.random

    def _way(self) -> float:
        """Seconds of one way: mostly short, now and then much longer."""
        drawn = self._random()
        pace = self._weather.pace
        if drawn < 0.85:
            return pace * (0.2 + drawn)
        return pace * (1.0 + 60.0 * (drawn - 0.85))

    async def before(self, kind: str, what: str) -> None:
        await asyncio.sleep(self._way())
        weather = self._weather
        if self._store == "database" and weather.take(self._host, "lost_request") is not None:
            raise Lost("the connection was cut before anything was sent")
        if seconds := weather.slowness(self._host):
            await asyncio.sleep(seconds * self._random())

    async def after(self, kind: str, what: str) -> None:
        weather = self._weather
        if self._store == "database":
            fault = weather.take(self._host, "lost_answer", "silence")
            if fault is not None:
                if fault.kind == "silence":
                    await asyncio.get_running_loop().create_future()
                raise Lost("the connection was cut before the answer came")
        await asyncio.sleep(self._way())

    async def point(self, what: str) -> None:
        fault = self._weather.take(self._host, "locked")
        if fault is not None:
            await asyncio.sleep(fault.seconds)
        elif self._random() < 0.3:
            await asyncio.sleep(self._weather.pace * self._random() * 0.2)
