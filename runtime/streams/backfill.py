"""What the streams missed: integrations are told of everything that happened, from the rows that say so.

An event is published after its commit, and is lost where Valkey is away, is emptied, or where the process ends in
between. So a mark is kept of each tenant, up to which its integrations have been told of everything: every few
seconds what happened since then is read, and whoever has no delivery of it, neither told nor waiting for its next
try, is told. An event made of rows has the id that the published one had (runtime/events.py), and no trace.

The streams get GRACE_SECONDS first. Any number of processes may do this: one at a time has a tenant's mark. What is
not found here: events of emit, which nothing tells of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import asyncpg
import structlog

import sql
from runtime import events
from runtime import messages as m
from runtime.actors.deliveries import failed_event
from runtime.actors.dispatcher import WAIT_SECONDS, Happened
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations.budget_alerts.thresholds import noticed_event
from runtime.operations.leaderboards.finalize import finalized_event
from runtime.outgoing.connector import ATTEMPT_SECONDS
from runtime.stores.database import Database
from runtime.streams.backoff import stopped_within

EVERY_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
GRACE_SECONDS: Final = WAIT_SECONDS + ATTEMPT_SECONDS + 5.0
"""How long the streams get: what waits for a place, and then for the receiver, has its row in the log by then."""

PASS_SECONDS: Final = 10.0
"""The most that one pass goes forward: what it reads of a time is read again for each CHUNK."""

LEASE_SECONDS: Final = 60.0
"""More than telling of a chunk takes."""

CHUNK: Final = 500
READINGS: Final = 4
"""Tenants whose rows are read at once. Who only waits for receivers keeps nobody from being read."""

LATE_SECONDS: Final = 2.0
"""How far back a pass begins, for transactions that were just beginning when settled_at() looked."""

_SQL: Final = sql.load("gaps")

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Fills gaps, and makes the tries that are due, until `stop`. A database that is away is waited for."""
    filling = Filling(engine, stop)
    try:
        await asyncio.gather(
            _repeat(stop, EVERY_SECONDS, filling.begin),
            _repeat(stop, RETRY_SECONDS, engine.dispatcher.retry_due),
        )
    finally:
        await filling.ended()


async def _repeat(stop: asyncio.Event, seconds: float, work: Callable[[], Any]) -> None:
    while not await stopped_within(stop, seconds):
        try:
            await work()
        except (Fault, asyncpg.PostgresError) as error:
            log.warning("integrations_wait", error=str(error))


class _LeaseLost(Exception):
    """The pass took longer than its lease: another process is at it."""


class Filling:
    """The tenants that are told of what was missed: side by side, so that none waits for another's slow receiver."""

    def __init__(self, engine: Engine, stop: asyncio.Event) -> None:
        self._engine = engine
        self._stop = stop
        self._reading = asyncio.Semaphore(READINGS)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> None:
        """Begins with every tenant that is not under way."""
        for row in await self._engine.database.fetch(_SQL["tenants"]):
            tenant_id = row["tenant_id"]
            if tenant_id not in self._tasks:
                task = self._tasks[tenant_id] = asyncio.create_task(self._catch_up(tenant_id))
                task.add_done_callback(partial(self._over, tenant_id))

    async def ended(self) -> None:
        """Returns when nothing is under way, which stops at the next chunk; at once where nobody asked it to stop."""
        tasks = list(self._tasks.values())
        for task in tasks:
            if not self._stop.is_set():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _over(self, tenant_id: str, _: asyncio.Task[None]) -> None:
        del self._tasks[tenant_id]

    async def _catch_up(self, tenant_id: str) -> None:
        """Tells of what was missed, as far as it can be known by now."""
        try:
            while not self._stop.is_set() and await self._fill(tenant_id):
                pass
        except _LeaseLost:
            log.warning("gap_lease_lost", tenant_id=tenant_id)
        except Exception as error:  # one tenant's trouble is no other's, nor the whole hub's
            if isinstance(error, Fault) and error.status is Status.UNAVAILABLE:
                log.warning("integrations_wait", error=str(error))
            else:
                log.error("gap_not_filled", tenant_id=tenant_id, exc_info=error)

    async def _fill(self, tenant_id: str) -> bool:
        """One pass; whether it went as far as a pass goes, so that more may be left."""
        database = self._engine.database
        async with self._reading:
            mark = await database.fetchrow(_SQL["lease"], tenant_id, GRACE_SECONDS, PASS_SECONDS, LEASE_SECONDS)
        if mark is None:
            return False
        told_until, until = mark["told_until"], mark["until"]
        behind: bool = (until - told_until).total_seconds() >= PASS_SECONDS
        lease = _Lease(database, tenant_id, mark["leased_until"])
        try:
            if until > told_until:
                lost = self._engine.dispatcher.log.lost
                for source, make in _SOURCES.items():
                    await self._tell(lease, source, make, told_until, until)
                await self._engine.dispatcher.log.written()
                if self._engine.dispatcher.log.lost == lost:  # else it is not known of some: it is asked again
                    told_until = until
        finally:
            again_in = 0.0 if behind and told_until == until else EVERY_SECONDS / 2
            await lease.keep(told_until, again_in)
        return behind and told_until == until

    async def _tell(self, lease: _Lease, source: str, make: Make, told_until: datetime, until: datetime) -> None:
        """Tells of all that a source has of the pass, CHUNK rows at a time."""
        since = told_until - timedelta(seconds=LATE_SECONDS)
        after, last_id = since, ""
        while True:
            async with self._reading:
                rows = await self._engine.database.fetch(
                    _SQL[source], lease.tenant_id, since, until, after, last_id, CHUNK
                )
                happened = await make(self._engine, lease.tenant_id, rows) if rows else []
            if happened:
                await self._engine.dispatcher.tell_missing(lease.tenant_id, happened)
            if len(rows) < CHUNK:
                return
            after, last_id = rows[-1]["at"], rows[-1]["id"]
            await lease.keep(told_until, LEASE_SECONDS)


class _Lease:
    """A tenant's mark, for as long as it is this process's."""

    def __init__(self, database: Database, tenant_id: str, until: datetime) -> None:
        self.tenant_id = tenant_id
        self._database = database
        self._until = until

    async def keep(self, told_until: datetime, seconds: float) -> None:
        """Everything up to told_until has been told; the lease ends in so many seconds. _LeaseLost: it was over."""
        until = await self._database.fetchval(_SQL["keep"], self.tenant_id, told_until, seconds, self._until)
        if until is None:
            raise _LeaseLost
        self._until = until


# -- from rows to events ---------------------------------------------------------------------

Make: TypeAlias = Callable[[Engine, str, Sequence[Any]], Awaitable[list[Happened]]]
"""What rows of a source's statement tell of, in their order."""


def _happened(tenant_id: str, row: Any, data: events.EventData, *, nth: int = 0, id: str = "") -> Happened:
    event = events.event_of(
        data,
        occurred_at=row["at"].timestamp(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id="",
        nth=nth,
        id=id,
    )
    return Happened(event, row["at"].timestamp())


_OF_PRIZE: Final = ("name", "type", "value")
_WON: Final = ("prize_id", "reward_id", "quantity", *_OF_PRIZE)


async def _plays(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    """As runtime/actors/game/decide.py tells of a play: itself, then each prize, then each rung."""
    names = sorted({rung["prize_id"] for row in rows for rung in row["granted"] or ()})
    found = await engine.database.fetch(_SQL["prizes"], tenant_id, names) if names else []
    prizes = {row["prize_id"]: row for row in found}
    told = []
    for row in rows:
        completed = events.PlayCompleted(
            play_id=row["id"],
            game_id=row["game_id"],
            player_id=row["player_id"],
            score=row["score"],
            wins=row["wins"],
            points=row["points"],
        )
        told.append(_happened(tenant_id, row, completed))
        won: list[dict[str, Any]] = [
            {name: one[name] for name in _WON} for one in row["rewards"] or () if one["prize_id"]
        ]
        for rung in row["granted"] or ():
            own = {"prize_id": rung["prize_id"], "reward_id": rung["reward_id"], "milestone_id": rung["id"]}
            won.append({**own, "quantity": 1, **{name: prizes[rung["prize_id"]][name] for name in _OF_PRIZE}})
        about = {"player_id": row["player_id"], "game_id": row["game_id"], "play_id": row["id"]}
        told += [_happened(tenant_id, row, events.PrizeWon(**about, **one), nth=nth) for nth, one in enumerate(won)]
    return told


async def _rewards(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    own = ("player_id", "prize_id", "name", "type", "quantity", "value", "game_id", "milestone_id")
    names = (*own, "leaderboard_id", "rank")
    return [
        _happened(tenant_id, row, events.PrizeWon(reward_id=row["id"], **{name: row[name] for name in names}))
        for row in rows
    ]


async def _claims(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    names = ("player_id", "prize_id", "name", "type", "value", "quantity", "game_id", "play_id", "milestone_id")
    told = []
    for row in rows:
        status = m.RewardStatus.FULFILLED if row["fulfilled"] else m.RewardStatus.CLAIMED
        fields = {name: row[name] for name in names}
        data = events.PrizeClaimed(reward_id=row["id"], status=status.proto_name or "", **fields)
        told.append(_happened(tenant_id, row, data))
    return told


async def _quests(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    return [
        _happened(
            tenant_id,
            row,
            events.QuestCompleted(
                quest_id=row["quest_id"],
                player_id=row["player_id"],
                turns_granted=row["turns"],
                balance=row["balance_after"],
                period=row["period"],
            ),
            id=row["id"],
        )
        for row in rows
    ]


async def _boards(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    return [Happened(await finalized_event(engine, tenant_id, row["id"]), row["at"].timestamp()) for row in rows]


async def _failures(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    return [Happened(failed_event(tenant_id, row, trace_id=""), row["at"].timestamp()) for row in rows]


async def _notices(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[Happened]:
    return [Happened(noticed_event(tenant_id, row), row["at"].timestamp()) for row in rows]


_SOURCES: Final[dict[str, Make]] = {
    "plays": _plays,
    "rewards": _rewards,
    "claims": _claims,
    "quests": _quests,
    "boards": _boards,
    "failures": _failures,
    "notices": _notices,
}
"""Each source's statement, and what its rows tell of."""
