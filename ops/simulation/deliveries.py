"""What leaves the service in a run: the delivery workers as they are, and the receivers that they deliver to.

A worker goes by the sweep alone (the stream is only its fast path). A receiver answers, or refuses, or takes its time,
or has done what it was asked and its answer is lost; a workflow's calls back, now and then twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, Final, cast

import msgspec

from ops.simulation.catalogue import AWAITED_SECONDS
from ops.simulation.history import UNKNOWN
from ops.simulation.node import Work
from ops.simulation.plan import Step
from ops.simulation.world import Violation, World
from runtime.actors.engine import Engine
from runtime.outgoing.connector import Answer, Connector, Unreachable
from runtime.streams import expiry
from runtime.streams.delivery import SWEEP_SECONDS, Deliveries
from runtime.streams.outbox import Outbox

CALLBACKS: Final = 2_000_000
"""Steps from this number on are callbacks, of no plan."""

OVERDUE_SECONDS: Final = 60.0
"""What has been due for longer in the end, with every process up and at work, is forgotten."""


class Receivers:
    """Whoever stands at the addresses. accepted: how often each task was taken in."""

    def __init__(self, world: World, seed: str) -> None:
        self.accepted: Counter[str] = Counter()
        self._world = world
        self._dice = Random(f"{seed}/receivers")
        self._context = copy_context()
        self._calls = 0

    def jobs(self, engine: Engine) -> list[tuple[Work, float]]:
        """What a process with a delivery worker does."""
        worker = Deliveries(engine, cast(Connector, self), Outbox(engine))
        ends = [partial(end, engine) for end in (expiry.expire, expiry.give_up_awaited)]
        return [(worker.sweep, SWEEP_SECONDS), *((end, expiry.EVERY_SECONDS) for end in ends)]

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """As Connector.post: a receiver's answer. Unreachable."""
        task_id = str(msgspec.json.decode(body)["id"])
        fate = self._dice.choices(("takes", "lost", "slow", "refuses", "gone"), (70, 8, 8, 12, 2))[0]
        if self._world.over:
            fate = "takes"
        await asyncio.sleep(self._dice.uniform(2.0, 9.0) if fate == "slow" else self._dice.uniform(0.001, 0.1))
        if fate == "gone":
            return Answer(410, 0.0, b"")
        if fate == "refuses":
            return Answer(503, 0.0, b"")
        self.accepted[task_id] += 1
        if "errand" in url:
            self._begin_calls(task_id)
        if fate == "lost":
            raise Unreachable("the connection was reset")
        return Answer(200, 0.0, b"")

    def _begin_calls(self, task_id: str) -> None:
        """Mostly one call back, soon; or the same twice, or none; or one that is too late, or says that it failed."""
        if self._dice.random() < 0.08:
            return
        late = self._dice.random() < 0.15 and not self._world.over
        after_seconds = self._dice.uniform(1.0, 1.2) * AWAITED_SECONDS if late else self._dice.uniform(0.05, 30.0)
        status = "failed" if self._dice.random() < 0.15 and not self._world.over else "delivered"
        self._calls += 1
        said = {"status": status, "callback_id": f"callback-{self._calls}"}
        for _ in range(self._dice.choice((1, 1, 2))):
            call = self._call_back(task_id, said, after_seconds + self._dice.uniform(0.0, 0.01))
            self._world.loop.create_task(call, context=self._context.copy())

    async def _call_back(self, task_id: str, said: Mapping[str, str], after_seconds: float) -> None:
        """Says how it ended, until somebody hears it."""
        await asyncio.sleep(after_seconds)
        step = Step(CALLBACKS + self._calls, 0.0, "receiver", self._dice.randrange(8), "callback")
        request = {"id": task_id, **said}
        for nth in range(20):
            attempt = await self._world.send(step, step.core + nth, "CompleteTask", request)
            if attempt.outcome not in (UNKNOWN, "UNREACHABLE"):
                return
            await asyncio.sleep(min(60.0, 0.5 * 2**nth))

    def next_due(self) -> float | None:
        """When the next attempt is due, in virtual seconds; None: nothing waits."""
        due = [at for row in self._world.tables().tasks if (at := _due(row)) is not None]
        return self._world.stores.virtual(min(due)) if due else None

    def judge(self) -> None:
        """Violation where a delivery that is done was never made, or one that is due is forgotten."""
        world = self._world
        tables, now = world.tables(), world.stores.microseconds()
        by_hand = {one.request["id"] for one in world.history.of("FulfillReward")}
        ahead = sum(
            abs(fault.seconds) for fault in world.plan.faults if fault.kind == "clock" and fault.where == "database"
        )
        late = now - int((OVERDUE_SECONDS + ahead) * 1_000_000)
        for row in tables.tasks:
            if row.channel not in ("webhook", "workflow"):
                continue
            if row.status == "delivered" and row.reward_id not in by_hand and not self.accepted[row.task_id]:
                raise Violation(
                    "what is delivered was taken in", "a request", f"task {row.task_id}: none", at=world.loop.now
                )
            due = _due(row)
            if due is not None and due < late:
                raise Violation(
                    "what is due is delivered",
                    "an attempt",
                    f"task {row.task_id} is {row.status}, due for {(now - due) / 1e6:.0f} s",
                    at=world.loop.now,
                )


def _due(row: Any) -> int | None:
    """When something is to be done about a task; None: never."""
    if row.status in ("pending", "retry"):
        return int(row.next_attempt_at)
    return row.lease_until if row.status in ("delivering", "awaiting") else None
