"""The world of a run: stores, Cores, a tenant with games of every shape, and whoever asks.

`World.run` boots the Cores, makes the catalogue through them, carries out a plan's steps and faults, looks at the
invariants whenever nothing is under way, and ends with a probe: every fault is over then, and whoever plays must be
answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ops.simulation.faults import Weather
from ops.simulation.history import UNKNOWN, Attempt, History
from ops.simulation.judging.invariants import Tables, broken
from ops.simulation.loop import SimulatedLoop
from ops.simulation.node import Gone, Node
from ops.simulation.plan import Fault, Plan, Step
from runtime.errors import Fault as Refusal
from runtime.errors import Status
from runtime.streams.backfill import GRACE_SECONDS

TENANT: Final = "tenant_sim"

PATIENCE_SECONDS: Final = 3.0
"""How long whoever asks waits for an answer; Core itself gives up at 1.35 s."""

BUSY_SECONDS: Final = 6.0
"""After the last request: by then a process has done what it does beside requests."""

RESTORE_SECONDS: Final = 2.0

TRIES_MAX: Final = 40
"""Times that what waits may become due in the end."""

QUIET_SECONDS: Final = 20.0
"""After a scene: by then nothing is under way any more."""


@dataclass
class Person:
    """What a player knows, and may send: as a client's app would."""

    name: str
    player_id: str = ""
    sessions: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    played: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    rewards: list[str] = field(default_factory=list)


class Violation(Exception):
    """Something that must never be was found. name: of the invariant or the thing checked."""

    def __init__(self, name: str, expected: str, found: str, *, about: tuple[int, ...] = (), at: float = 0.0) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name
        self.expected = expected
        self.found = found
        self.about = about
        self.at = at


class World:
    """One run's world. stores: what the Cores stand on (stores.py)."""

    def __init__(self, loop: SimulatedLoop, plan: Plan, stores: Any) -> None:
        self.loop = loop
        self.plan = plan
        self.stores = stores
        self.weather: Weather = stores.weather
        self.history = History()
        self.nodes = [Node(loop, stores, number) for number in range(plan.cores)]
        self.ids: dict[str, str] = {}
        """The ids of the catalogue's things, by the names that the plan calls them by."""
        self.names: dict[str, str] = {}
        self.people: dict[str, Person] = {}
        self.logged: list[dict[str, Any]] = []
        self._attempts: dict[int, list[asyncio.Task[Any]]] = {}
        self._hang_ups: dict[int, Fault] = {}
        self._unheard: dict[int, Fault] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self.weather.on_met = lambda fault: self.history.note(loop.now, fault.told(), fault.number)
        self.answers: dict[int, Any] = {}
        self.over = False
        """Nothing goes wrong any more: faults are over, and whoever is sent something takes it."""
        self.found: list[Violation] = []
        """What was found where nobody could raise it."""
        self.waits: list[Callable[[], float | None]] = []
        """Each says when the next thing is due that waits for its time; None: nothing."""
        self.restored_at = 0.0
        """When the database went on from an earlier time; 0: never. What was answered before is not to be held to."""
        self._kept: dict[int, Callable[[], None]] = {}
        self._asked_at = 0.0

    # -- the run ---------------------------------------------------------------------------------

    async def run(
        self,
        perform: Callable[[World, Step], Any],
        furnish: Callable[[World], Any],
        probes: Callable[[World], list[Step]],
    ) -> None:
        """All of the plan. Raises Violation."""
        for node in self.nodes:
            node.jobs.extend(self.stores.jobs)
            node.busy = lambda: self.busy
            await node.boot()
        await furnish(self)
        begun = self.loop.now
        for fault in self.plan.faults:
            if fault.kind == "hang_up":
                self._hang_ups[int(fault.where.partition("-")[2])] = fault
            elif fault.kind == "unheard":
                self._unheard[int(fault.where.partition("-")[2])] = fault
            else:
                if fault.kind in ("restored", "stale"):
                    self.loop.call_at(max(begun, begun + fault.at - fault.seconds), self._keep, fault)
                self.loop.call_at(begun + fault.at, self._begin_fault, fault)
        last = 0.0
        for step in self.plan.steps:
            if step.at - last > QUIET_SECONDS * 2:
                await self._until(begun + last + QUIET_SECONDS)
                await self.settle()
                self.look()
            await self._until(begun + step.at)
            last = step.at
            task = self.loop.create_task(self._perform(perform, step))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await self._until(max([begun + last, *(begun + fault.at for fault in self.plan.faults)]) + QUIET_SECONDS)
        await self.settle()
        self.look()
        await self._probe(perform, probes(self))
        await self._end()

    async def _probe(self, perform: Callable[[World, Step], Any], steps: list[Step]) -> None:
        """Every fault is over: whoever asks now is answered, whatever with."""
        self._hang_ups.clear()
        self._unheard.clear()
        self.weather.calm()
        self.over = True
        await asyncio.sleep(QUIET_SECONDS)
        self.history.note(self.loop.now, "every fault is over")
        for step in steps:
            first = len(self.history.attempts)
            await self._perform(perform, step)
            made = self.history.attempts[first:]
            for attempt in made:
                again = [one for one in made if one.operation == attempt.operation]
                if all(one.outcome == UNKNOWN for one in again):
                    self.look()  # which may know why
                    raise Violation(
                        "whoever asks is answered once every fault is over",
                        "an answer",
                        f"{attempt.who} {attempt.operation}: {attempt.status} {attempt.answer}",
                        about=tuple(one.number for one in again),
                        at=self.loop.now,
                    )
        await self.settle()
        self.look()

    async def _end(self) -> None:
        """Until nothing waits for its time any more: what is due is tried then, and succeeds."""
        for _ in range(TRIES_MAX):
            for wait_seconds in (0.0, GRACE_SECONDS):  # what is done the first time is told of the second
                await asyncio.sleep(wait_seconds)
                self._stir()
                await asyncio.sleep(BUSY_SECONDS + 2.0)
            due = [at for waits in self.waits if (at := waits()) is not None]
            if not due:
                break
            await self._until(min(due))
        await self.settle()
        self.look()

    async def _perform(self, perform: Callable[[World, Step], Any], step: Step) -> None:
        self.history.steps[step.number] = step
        if await perform(self, step) is False:
            self.history.passed.append(step.number)

    async def _until(self, when: float) -> None:
        if when > self.loop.now:
            await asyncio.sleep(when - self.loop.now)

    async def settle(self) -> None:
        """Returns when nobody waits for anything, every process is up, and no transaction is open."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        for _ in range(600):
            if all(node.up for node in self.nodes) and not self.stores.busy():
                return
            await asyncio.sleep(0.1)
        raise Violation("the world comes to rest", "no open transaction and every process up", self.stores.busy_with())

    def look(self) -> None:
        """Violation where an invariant does not hold, or something was logged that says that there is a bug."""
        for name, rows in broken(self.tables()).items():
            shown = "; ".join(str(row) for row in rows[:3])
            raise Violation(name, "no such row", shown, at=self.loop.now)
        for violation in self.found:
            raise violation
        for event in self.logged:
            if event["level"] in ("error", "exception", "critical"):
                raise Violation(
                    "no error is logged", "nothing", f"{event.get('event')}: {_plainly(event)}", at=self.loop.now
                )
        for context in self.loop.errors:
            raise Violation("no error goes unseen", "nothing", _plainly(context), at=self.loop.now)
        self.history.note(self.loop.now, "the invariants hold")

    def _stir(self) -> None:
        """Something goes on: processes do what they do beside requests as often as they say."""
        self._asked_at = self.loop.now
        for node in self.nodes:
            node.stirred.set()

    @property
    def busy(self) -> bool:
        """Whether somebody has asked something of late."""
        return bool(self._under_way) or self.loop.now - self._asked_at < BUSY_SECONDS

    def tables(self) -> Tables:
        return Tables(self.stores.rows)

    # -- faults ----------------------------------------------------------------------------------

    def _begin_fault(self, fault: Fault) -> None:
        node = next((node for node in self.nodes if node.host == fault.where), None)
        match fault.kind:
            case "still" if node is not None:
                if node.incarnation is not None:
                    self.loop.stand_still(node.incarnation, fault.seconds)
                    self.weather.note(fault)
            case "crash" if node is not None:
                if node.incarnation is not None and node.up:
                    node.die()
                    self.weather.note(fault)
                    self.loop.call_later(0.05 + fault.seconds, self._boot_again, node)
            case "restored" | "stale":
                self.stores.set_back(fault.where, self._kept.pop(fault.number), RESTORE_SECONDS)
                self.weather.note(fault)
                if fault.kind == "restored":
                    self.restored_at = self.loop.now
            case "flush":
                self.stores.flush()
                self.weather.note(fault)
            case "away":
                self.stores.away(fault.where, fault.seconds)
                self.weather.note(fault)
            case "clock":
                if node is not None:
                    node.step_clock(fault.seconds)
                else:
                    self.stores.step_clock(fault.seconds)
                self.weather.note(fault)
            case _:
                self.weather.begin(fault)

    def _keep(self, fault: Fault) -> None:
        self._kept[fault.number] = self.stores.keep(fault.where)

    def _boot_again(self, node: Node) -> None:
        if node.incarnation is None:
            self.history.note(self.loop.now, f"{node.host} starts again")
            node.boot()

    # -- asking ----------------------------------------------------------------------------------

    async def send(
        self, step: Step, core: int, operation: str, request: Mapping[str, Any], *, twin: int = 0
    ) -> Attempt:
        """One request to one Core, and its answer, in the history."""
        body = msgspec.json.encode({"scope": {"tenant_id": TENANT}, **request})
        node = self.nodes[core % len(self.nodes)]
        loop = self.loop
        self._stir()
        attempt = self.history.begin(step, core, operation, request, loop.now, self.stores.database_now(), twin)
        await asyncio.sleep(self.stores.way())
        try:
            answer, task = node.ask(operation, body)
        except Gone:
            attempt.outcome, attempt.ended = "UNREACHABLE", loop.now
            return attempt
        hang_up = self._hang_ups.pop(step.number, None)
        if hang_up is not None:
            self.weather.note(hang_up)
            loop.call_later(hang_up.seconds, task.cancel)
        unheard = self._unheard.pop(step.number, None)
        await asyncio.wait([answer], timeout=PATIENCE_SECONDS)
        await asyncio.sleep(self.stores.way())
        if unheard is not None:
            self.weather.note(unheard)
            attempt.status = "UNHEARD"
            return attempt
        self._note_answer(attempt, answer)
        return attempt

    def _note_answer(self, attempt: Attempt, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            attempt.status = "NO_ANSWER"
            return
        ended, database_ended = self.loop.now, self.stores.database_now()
        error = answer.exception()
        if error is None:
            reply = answer.result()
            self.answers[attempt.number] = reply
            attempt.answer = msgspec.json.decode(msgspec.json.encode(reply))
            attempt.outcome, attempt.status = "ok", "OK"
        elif isinstance(error, Gone):
            attempt.status = "GONE"
            return
        elif isinstance(error, Refusal):
            attempt.status = error.status.name
            if error.status is Status.INTERNAL:
                attempt.outcome = UNKNOWN
                attempt.answer = error.reason
            elif error.status is Status.UNAVAILABLE:
                attempt.answer = error.reason
                return
            else:
                attempt.outcome = error.reason
                attempt.answer = {"facts": _facts(error.facts)}
        else:
            raise error
        attempt.ended, attempt.database_ended = ended, database_ended

    async def ask(
        self,
        step: Step,
        operation: str,
        request: Mapping[str, Any],
        *,
        tries: int = 3,
        twins: int = 1,
    ) -> list[Attempt]:
        """Asks until there is an answer, as a client does: the same request again, at the next Core. All attempts."""
        made: list[Attempt] = []
        for nth in range(tries):
            sent = [
                self.loop.create_task(self.send(step, step.core + nth + twin, operation, request, twin=twin))
                for twin in range(twins if nth == 0 else 1)
            ]
            made += [await one for one in sent]
            if any(attempt.outcome not in (UNKNOWN, "UNREACHABLE") for attempt in made[-len(sent) :]):
                break
            await asyncio.sleep(0.05 * 4**nth)
        return made

    def name_of(self, identifier: str) -> str:
        """What the story calls it."""
        return self.names.get(identifier, identifier)


def _facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool)}


def _plainly(context: Mapping[str, Any]) -> str:
    """What is known of an error: of one that was logged its text, of a task's the error itself."""
    return str(
        context.get("exc_info")
        or context.get("exception")
        or {name: value for name, value in context.items() if name not in ("task", "future", "handle", "level")}
    )
