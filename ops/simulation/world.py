"""The world of a run: the database, Cores, a tenant with games of every shape, and the people who ask.

`World.run` boots the Cores, carries out a plan's steps and faults, and ends with a probe: every fault is over then, and
each player must be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Final

import msgspec

from ops.history.record import UNKNOWN, Asked, Attempt, History, Note
from ops.history.tables import READ, Tables
from ops.simulation import catalogue
from ops.simulation.faults import Weather
from ops.simulation.loop import SimulatedLoop
from ops.simulation.machine import EPOCH
from ops.simulation.node import Gone, Node
from ops.simulation.plan import Fault, Plan, Step
from ops.simulation.postgres import TABLES, Row, Server
from ops.simulation.statements import datetime_of
from runtime.errors import Fault as Refusal
from runtime.http.views import edge_view
from runtime.operations import BY_NAME

PACES: Final = (0.000_3, 0.001, 0.004)
"""Seconds that a way to the database and back takes, about: of a run one of these."""

PATIENCE_SECONDS: Final = 3.0
"""How long a client waits for an answer; Core itself gives up at 1.35 s."""

TRIES: Final = 3
"""How often a client sends a request that is not answered."""

QUIET_SECONDS: Final = 20.0
"""After a scene: by then nothing is under way any more."""

Perform = Callable[["World", Step], Any]


@dataclass
class Person:
    """What a player knows, and may send: as a client's app would. sessions, played: by game, with the plan's items."""

    name: str
    player_id: str = ""
    sessions: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    played: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    rewards: list[str] = field(default_factory=list)


class Violation(Exception):
    """Something that must never be was found. name: of what was violated; about: the requests concerned."""

    def __init__(self, name: str, found: str, *, about: tuple[int, ...] = ()) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name
        self.found = found
        self.about = about


class World:
    """One run's world. logged: what the Cores have logged."""

    def __init__(self, loop: SimulatedLoop, plan: Plan, logged: list[dict[str, Any]]) -> None:
        dice = Random(f"{plan.name}/world")
        self.loop = loop
        self.plan = plan
        self.logged = logged
        self.history = History()
        self.weather = Weather(loop, plan.name, dice.choice(PACES))
        self.weather.on_met = lambda fault: self.note(fault.told())
        self.server = Server(self.microseconds, Random(f"{plan.name}/postgres"))
        self.nodes = [Node(loop, self.server, self.weather, number) for number in range(plan.cores)]
        self.people: dict[str, Person] = {}
        self.names: dict[str, str] = {}
        """What the story calls players, by their ids."""
        self.steps: dict[int, int] = {}
        """The step that each request is of."""
        self._ahead_seconds = 0.0
        self._ways = Random(f"{plan.name}/ways")
        self._of_steps: dict[str, Fault] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    # -- the run ---------------------------------------------------------------------------------

    async def run(self, perform: Perform, probes: Callable[[World], list[Step]]) -> None:
        """All of the plan. Raises Violation."""
        for node in self.nodes:
            await node.boot()
        for fault in self.plan.faults:
            if fault.kind in ("hang_up", "unheard"):
                self._of_steps[fault.where] = fault
            else:
                self.loop.call_at(fault.at, self._begin_fault, fault)
        last = 0.0
        for step in self.plan.steps:
            if step.at - last > QUIET_SECONDS * 2:
                await self._until(last + QUIET_SECONDS)
                await self._settle()
            await self._until(step.at)
            last = step.at
            task = self.loop.create_task(perform(self, step))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        await self._until(max([last, *(fault.at for fault in self.plan.faults)]) + QUIET_SECONDS)
        await self._settle()
        await self._probe(perform, probes(self))

    async def _probe(self, perform: Perform, steps: list[Step]) -> None:
        """Every fault is over: each request is answered."""
        self._of_steps.clear()
        self.weather.calm()
        await asyncio.sleep(QUIET_SECONDS)
        self.note("every fault is over")
        first = len(self.history.asked)
        for step in steps:
            await perform(self, step)
        await self._settle()
        for asked in self.history.asked[first:]:
            if asked.outcome == UNKNOWN:
                raise Violation("a request is not answered after every fault", asked.told(), about=(asked.number,))

    async def _until(self, when: float) -> None:
        if when > self.loop.now:
            await asyncio.sleep(when - self.loop.now)

    async def _settle(self) -> None:
        """Returns when nobody waits for anything, every process is up, and no transaction is open."""
        while self._under_way:
            for task in (await asyncio.wait(self._under_way))[0]:
                task.result()
        for _ in range(600):
            if all(node.up for node in self.nodes) and not self.server.busy:
                return self._look()
            await asyncio.sleep(0.1)
        raise Violation("the world does not come to rest", "a transaction stays open, or a process away")

    def _look(self) -> None:
        """Violation where something was logged that says that there is a bug."""
        for event in self.logged:
            if event["level"] in ("error", "exception", "critical"):
                raise Violation("an error is logged", f"{event.get('event')}: {_plainly(event)}")
        for context in self.loop.errors:
            raise Violation("an error goes unseen", _plainly(context))

    def note(self, text: str) -> None:
        self.history.notes.append(Note(self.loop.now, text))

    # -- the database ----------------------------------------------------------------------------

    def microseconds(self) -> int:
        """The database's clock."""
        return int((EPOCH + self.loop.now + self._ahead_seconds) * 1_000_000)

    def rows(self) -> dict[str, list[Row]]:
        """The committed rows of each table."""
        return {name: list(self.server.tables[name].values()) for name in TABLES}

    def tables(self) -> Tables:
        """The same as the checker reads them: what it knows and the run does not have is empty."""
        found = {name: [dict(row) for row in rows] for name, rows in self.rows().items()}
        for row in found["players"]:
            row["merged_into"] = None
        for row in found["plays"]:
            row["played_at"] = datetime_of(row["played_at"])
        return Tables({name: found.get(name, []) for name in READ})

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
            case "away":
                if self.server.up:
                    self.server.stop()
                    self.loop.call_later(fault.seconds, self.server.start)
                    self.weather.note(fault)
            case "clock":
                if node is not None:
                    node.step_clock(fault.seconds)
                else:
                    self._ahead_seconds += fault.seconds
                self.weather.note(fault)
            case _:
                self.weather.begin(fault)

    def _boot_again(self, node: Node) -> None:
        if node.incarnation is None:
            self.note(f"{node.host} starts again")
            node.boot()

    # -- asking ----------------------------------------------------------------------------------

    async def ask(
        self, step: Step, operation: str, request: Mapping[str, Any], *, who: str, of: str, twins: int = 1
    ) -> Asked:
        """Asks until there is an answer, as a client does: the same request again, at the next Core.

        who: the player, or staff. of: what the history says that it is about. twins: how often it is sent at first.
        """
        body = {name: value for name, value in request.items() if name not in ("id", "player_id", "idempotency_key")}
        asked = self.history.new(operation, who, of=of, key=request.get("idempotency_key", ""), body=body)
        self.steps[asked.number] = step.number
        for nth in range(TRIES):
            cores = [step.core + nth + twin for twin in range(twins if nth == 0 else 1)]
            sent = [self.loop.create_task(self._send(asked, step, core, operation, request)) for core in cores]
            made = [await one for one in sent]
            if any(attempt.outcome != UNKNOWN for attempt in made):
                break
            await asyncio.sleep(0.05 * 4**nth)
        return asked

    async def _send(self, asked: Asked, step: Step, core: int, operation: str, request: Mapping[str, Any]) -> Attempt:
        """One request to one Core."""
        node = self.nodes[core % len(self.nodes)]
        for one in self.nodes:
            one.stir()
        attempt = Attempt(node.host, self.loop.now)
        asked.attempts.append(attempt)
        await asyncio.sleep(self._way())
        try:
            answer, task = node.ask(operation, msgspec.json.encode({"scope": _SCOPE, **request}))
        except Gone:
            return attempt
        fault = self._of_steps.pop(f"step-{step.number}", None)
        if fault is not None:
            self.weather.note(fault)
            if fault.kind == "hang_up":
                self.loop.call_later(fault.seconds, task.cancel)
        await asyncio.wait([answer], timeout=PATIENCE_SECONDS)
        await asyncio.sleep(self._way())
        if answer.done() and not (fault is not None and fault.kind == "unheard"):
            _note_answer(attempt, operation, answer, self.loop.now)
        return attempt

    def _way(self) -> float:
        """Seconds from a client to a Core, or back."""
        return self.weather.pace * (0.1 + self._ways.random())


_SCOPE: Final = {"tenant_id": catalogue.TENANT}
_view = cache(edge_view)


def _note_answer(attempt: Attempt, operation: str, answer: asyncio.Future[Any], at: float) -> None:
    """As an edge would have told it."""
    error = answer.exception()
    if error is None:
        attempt.http, attempt.code = 200, "OK"
        reply = answer.result()
        attempt.data = msgspec.json.decode(msgspec.json.encode(_view(BY_NAME[operation])(reply)))
        if operation == "Start":
            attempt.data["guest_player_id"] = reply.guest_player_id  # An edge mints a token of it.
    elif isinstance(error, Gone):
        return
    elif isinstance(error, Refusal):
        attempt.http, attempt.code, attempt.reason = error.http, error.status.name, error.reason
        attempt.retry_after = str(error.retry_after_seconds or "")
        attempt.data = msgspec.json.decode(msgspec.json.encode(error.data))
    else:
        raise error
    attempt.ended = at


def _plainly(context: Mapping[str, Any]) -> str:
    """What is known of an error: of one that was logged its text, of a task's the error itself."""
    return str(
        context.get("exc_info")
        or context.get("exception")
        or {name: value for name, value in context.items() if name not in ("task", "future", "handle", "level")}
    )
