"""The world of a run: the database, Cores, a tenant with games of every type, and the clients.

`World.run` boots the Cores, executes a plan's steps and faults, and ends with a probe: all faults are over then, and
every player must get a response.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any, Final

import msgspec

from ops.history.record import UNKNOWN, Attempt, History, Note, Request
from ops.history.tables import READ, Tables
from ops.simulation import catalogue
from ops.simulation.faults import Weather
from ops.simulation.loop import SimulatedLoop
from ops.simulation.machine import EPOCH
from ops.simulation.node import Node, ProcessDown
from ops.simulation.plan import Fault, Plan, Step
from ops.simulation.postgres import TABLES, Row, Server
from ops.simulation.statements import datetime_of
from runtime.errors import Fault as Refusal
from runtime.http.views import edge_view
from runtime.operations import BY_NAME

PACES: Final = (0.000_3, 0.001, 0.004)
"""Approximate round-trip times to the database in seconds; a run uses one."""

PATIENCE_SECONDS: Final = 3.0
"""Response timeout of a client; Core itself gives up after 1.35 s."""

TRIES: Final = 3
"""Attempts of a client without a response."""

QUIET_SECONDS: Final = 20.0
"""Pause after a scene, by whose end nothing is in flight."""

Perform = Callable[["World", Step], Any]


@dataclass
class Person:
    """The state of a player's client app. sessions, played: by game, with the plan's items."""

    name: str
    player_id: str = ""
    sessions: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    played: dict[str, list[tuple[str, list[str]]]] = field(default_factory=dict)
    rewards: list[str] = field(default_factory=list)


class Violation(Exception):
    """A violated invariant. name: the invariant; about: the requests concerned."""

    def __init__(self, name: str, found: str, *, about: tuple[int, ...] = ()) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name
        self.found = found
        self.about = about


class World:
    """The world of one run. log_events: the caller adds the Cores' log events to it; an error is a violation."""

    def __init__(self, loop: SimulatedLoop, plan: Plan, log_events: list[dict[str, Any]]) -> None:
        dice = Random(f"{plan.name}/world")
        self.loop = loop
        self.plan = plan
        self.log_events = log_events
        self.history = History()
        self.weather = Weather(loop, plan.name, dice.choice(PACES))
        self.weather.on_met = lambda fault: self.record(fault.describe())
        self.server = Server(self.microseconds, Random(f"{plan.name}/postgres"))
        self.nodes = [Node(loop, self.server, self.weather, number) for number in range(plan.cores)]
        self.people: dict[str, Person] = {}
        self.names: dict[str, str] = {}
        """Players' names in the story, by id."""
        self.steps: dict[int, int] = {}
        """The step of each request."""
        self._ahead_seconds = 0.0
        self._delays = Random(f"{plan.name}/ways")
        self._client_faults: dict[str, Fault] = {}
        """Clients that hang up or miss the response, by step."""
        self._under_way: set[asyncio.Task[None]] = set()

    # -- the run ---------------------------------------------------------------------------------

    async def run(self, perform: Perform, probes: "Callable[[World], list[Step]]") -> None:
        """Runs the whole plan. Raises Violation."""
        for node in self.nodes:
            await node.boot()
        for fault in self.plan.faults:
            if fault.kind in ("hang_up", "unheard"):
                self._client_faults[fault.where] = fault
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
        """All faults are over: each request must get a response."""
        self._client_faults.clear()
        self.weather.heal()
        await asyncio.sleep(QUIET_SECONDS)
        self.record("every fault is over")
        first = len(self.history.requests)
        for step in steps:
            await perform(self, step)
        await self._settle()
        for request in self.history.requests[first:]:
            if request.outcome == UNKNOWN:
                raise Violation(
                    "a request is not answered after every fault", request.describe(), about=(request.number,)
                )

    async def _until(self, when: float) -> None:
        if when > self.loop.now:
            await asyncio.sleep(when - self.loop.now)

    async def _settle(self) -> None:
        """Waits until no request is in flight, every process is up, and no transaction is open."""
        while self._under_way:
            for task in (await asyncio.wait(self._under_way))[0]:
                task.result()
        for _ in range(600):
            if all(node.up for node in self.nodes) and not self.server.busy:
                return self._check_log()
            await asyncio.sleep(0.1)
        raise Violation("the simulation does not settle", "a transaction stays open, or a process stays down")

    def _check_log(self) -> None:
        """Raises Violation if an error was logged."""
        for event in self.log_events:
            if event["level"] in ("error", "exception", "critical"):
                raise Violation("an error is logged", f"{event.get('event')}: {_described(event)}")
        for context in self.loop.errors:
            raise Violation("an unhandled error", _described(context))

    def record(self, text: str) -> None:
        self.history.notes.append(Note(self.loop.now, text))

    # -- the database ----------------------------------------------------------------------------

    def microseconds(self) -> int:
        """The database's clock."""
        return int((EPOCH + self.loop.now + self._ahead_seconds) * 1_000_000)

    def rows(self) -> dict[str, list[Row]]:
        """The committed rows of each table."""
        return {name: list(self.server.tables[name].values()) for name in TABLES}

    def tables(self) -> Tables:
        """The tables for the checker; columns and tables that the run lacks are empty."""
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
                    self.weather.record(fault)
            case "crash" if node is not None:
                if node.incarnation is not None and node.up:
                    node.crash_process()
                    self.weather.record(fault)
                    self.loop.call_later(0.05 + fault.seconds, self._reboot, node)
            case "away":
                if self.server.up:
                    self.server.stop()
                    self.loop.call_later(fault.seconds, self.server.start)
                    self.weather.record(fault)
            case "clock":
                if node is not None:
                    node.step_clock(fault.seconds)
                else:
                    self._ahead_seconds += fault.seconds
                self.weather.record(fault)
            case _:
                self.weather.begin(fault)

    def _reboot(self, node: Node) -> None:
        if node.incarnation is None:
            self.record(f"{node.host} starts again")
            node.boot()

    # -- requests --------------------------------------------------------------------------------

    async def ask(
        self, step: Step, operation: str, request: Mapping[str, Any], *, who: str, of: str, duplicates: int = 1
    ) -> Request:
        """Sends a request until there is a response, as a client does: each retry to the next Core.

        who: the player, or staff. of: the subject for the history. duplicates: number of concurrent first attempts.
        """
        body = {name: value for name, value in request.items() if name not in ("id", "player_id", "idempotency_key")}
        recorded = self.history.new(operation, who, of=of, key=request.get("idempotency_key", ""), body=body)
        self.steps[recorded.number] = step.number
        for nth in range(TRIES):
            cores = [step.core + nth + duplicate for duplicate in range(duplicates if nth == 0 else 1)]
            sent = [self.loop.create_task(self._send(recorded, step, core, operation, request)) for core in cores]
            made = [await one for one in sent]
            if any(attempt.outcome != UNKNOWN for attempt in made):
                break
            await asyncio.sleep(0.05 * 4**nth)
        return recorded

    async def _send(
        self, recorded: Request, step: Step, core: int, operation: str, request: Mapping[str, Any]
    ) -> Attempt:
        """One attempt at one Core."""
        node = self.nodes[core % len(self.nodes)]
        for one in self.nodes:
            one.wake()
        attempt = Attempt(node.host, self.loop.now)
        recorded.attempts.append(attempt)
        await asyncio.sleep(self._delay_seconds())
        try:
            answer, task = node.ask(operation, msgspec.json.encode({"scope": _SCOPE, **request}))
        except ProcessDown:
            return attempt
        fault = self._client_faults.pop(f"step-{step.number}", None)
        if fault is not None:
            self.weather.record(fault)
            if fault.kind == "hang_up":
                self.loop.call_later(fault.seconds, task.cancel)
        await asyncio.wait([answer], timeout=PATIENCE_SECONDS)
        await asyncio.sleep(self._delay_seconds())
        if answer.done() and not (fault is not None and fault.kind == "unheard"):
            _record_response(attempt, operation, answer, self.loop.now)
        return attempt

    def _delay_seconds(self) -> float:
        """Delay between a client and a Core, in one direction."""
        return self.weather.pace * (0.1 + self._delays.random())


_SCOPE: Final = {"tenant_id": catalogue.TENANT}
_view = cache(edge_view)


def _record_response(attempt: Attempt, operation: str, answer: asyncio.Future[Any], at: float) -> None:
    """Records the response as an edge would send it."""
    error = answer.exception()
    if error is None:
        attempt.http, attempt.code = 200, "OK"
        reply = answer.result()
        attempt.data = msgspec.json.decode(msgspec.json.encode(_view(BY_NAME[operation])(reply)))
        if operation == "Start":
            attempt.data["guest_player_id"] = reply.guest_player_id  # An edge mints a token for it.
    elif isinstance(error, ProcessDown):
        return
    elif isinstance(error, Refusal):
        attempt.http, attempt.code, attempt.reason = error.http, error.status.name, error.reason
        attempt.retry_after = str(error.retry_after_seconds or "")
        attempt.data = msgspec.json.decode(msgspec.json.encode(error.data))
    else:
        raise error
    attempt.ended = at


def _described(context: Mapping[str, Any]) -> str:
    """Describes an error: the text of a logged one, or the exception of a task."""
    return str(
        context.get("exc_info")
        or context.get("exception")
        or {name: value for name, value in context.items() if name not in ("task", "future", "handle", "level")}
    )
