"""The backfill: reads the durable rows, and delivers to integrations the events that the streams lost.

Events are published after their commit, so they are lost if Valkey is down, is flushed, or the process ends in between.
So each tenant has a watermark, up to which its integrations have received everything. Every few seconds the rows since
then are read, and each integration without a delivery of an event, done or pending, gets it. Events made from rows have
the same deterministic id as the published ones (runtime/events.py), and no trace.

The streams have a head start of GRACE_SECONDS. Any number of processes may run this: one at a time has a tenant's
lease. Not covered: events of emit, which have no rows.

The events of _MESSAGES exist here alone: the e-mails of campaigns are sent for them (runtime/actors/mailing.py).
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
from runtime.actors.dispatcher import WAIT_SECONDS, PastEvent
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status
from runtime.operations.budget_alerts.thresholds import noticed_event
from runtime.operations.conservation.checks import opened_event
from runtime.operations.draws.announcements import event as draw_event
from runtime.operations.leaderboards.finalize import finalized_event
from runtime.operations.log.appending import checkpoint_event
from runtime.operations.packs.redemption import redeemed
from runtime.outgoing.connector import ATTEMPT_SECONDS
from runtime.stores.database import Database, at
from runtime.streams.backoff import stopped_within

EVERY_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
GRACE_SECONDS: Final = WAIT_SECONDS + ATTEMPT_SECONDS + 5.0
"""The streams' head start: an event that waits for a slot and then for its receiver is in the log by then."""

PASS_SECONDS: Final = 10.0
"""The longest time span of one pass; each CHUNK reads the span again."""

LEASE_SECONDS: Final = 60.0
"""Longer than delivering a chunk takes."""

CHUNK: Final = 500
READ_SECONDS: Final = 10.0
"""The timeout of reading a chunk, which is on no request's path."""

READINGS: Final = 4
"""Concurrent reads of tenants' rows. Waiting for receivers does not occupy one."""

LATE_SECONDS: Final = 2.0
"""Overlap of each pass, for transactions that were just starting when settled_at() ran."""

_SQL: Final = sql.load("backfill")

log = structlog.get_logger(__name__)


async def run(engine: Engine, stop: asyncio.Event) -> None:
    """Backfills and starts due retries until `stop`. Waits while the database is down."""
    backfill = Backfill(engine, stop)
    try:
        await asyncio.gather(
            *(at(part, _repeat(stop, EVERY_SECONDS, backfill.begin)) for part in engine.database.parts),
            *(at(part, _repeat(stop, RETRY_SECONDS, engine.dispatcher.retry_due)) for part in engine.database.parts),
        )
    finally:
        await backfill.wait_until_ended()


async def _repeat(stop: asyncio.Event, seconds: float, work: Callable[[], Any]) -> None:
    while not await stopped_within(stop, seconds):
        try:
            await work()
        except (Fault, asyncpg.PostgresError) as error:
            log.warning("integrations_wait", error=str(error))


class _LeaseLost(Exception):
    """The pass took longer than its lease: another process has taken over."""


class Backfill:
    """Backfills tenants concurrently, so that no tenant waits for another's slow receiver."""

    def __init__(self, engine: Engine, stop: asyncio.Event) -> None:
        self._engine = engine
        self._stop = stop
        self._reading = asyncio.Semaphore(READINGS)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def begin(self) -> None:
        """Starts the backfill of each tenant with an active integration, unless it runs here or in another process."""
        for tenant_id in await self._engine.database.tenants(_SQL["tenants"], LEASE_SECONDS):
            if tenant_id not in self._tasks:
                task = self._tasks[tenant_id] = asyncio.create_task(at(tenant_id, self._catch_up(tenant_id)))
                task.add_done_callback(partial(self._over, tenant_id))

    async def wait_until_ended(self) -> None:
        """Waits for the running backfills: each ends after its chunk when stopping, otherwise it is cancelled."""
        tasks = list(self._tasks.values())
        for task in tasks:
            if not self._stop.is_set():
                task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _over(self, tenant_id: str, _: asyncio.Task[None]) -> None:
        del self._tasks[tenant_id]

    async def _catch_up(self, tenant_id: str) -> None:
        """Backfills a tenant up to the current limit."""
        try:
            while not self._stop.is_set() and await self._fill(tenant_id):
                pass
        except _LeaseLost:
            log.warning("gap_lease_lost", tenant_id=tenant_id)
        except Exception as error:  # One tenant's failure must not stop the others or the hub.
            if isinstance(error, Fault) and error.status is Status.UNAVAILABLE:
                log.warning("integrations_wait", error=str(error))
            else:
                log.error("gap_not_filled", tenant_id=tenant_id, exc_info=error)

    async def _fill(self, tenant_id: str) -> bool:
        """Runs one pass. Returns whether it covered a whole PASS_SECONDS, so that more may remain."""
        database = self._engine.database
        async with self._reading:
            row = await database.fetchrow(_SQL["lease"], tenant_id, GRACE_SECONDS, PASS_SECONDS, LEASE_SECONDS)
        if row is None:
            return False
        watermark, until = row["backfilled_until"], row["until"]
        behind: bool = (until - watermark).total_seconds() >= PASS_SECONDS
        lease = _Lease(database, tenant_id, row["leased_until"])
        try:
            if until > watermark:
                log_lost = self._engine.dispatcher.log.lost
                lost = log_lost[tenant_id]
                for source, make in (_SOURCES | (_MESSAGES if row["has_messages"] else {})).items():
                    # A stop ends the later sources too, so the last one tells whether all are finished.
                    finished = await self._deliver(lease, source, make, watermark, until)
                await self._engine.dispatcher.log.wait_until_written(tenant_id)
                if finished and log_lost[tenant_id] == lost:  # Otherwise some outcomes are unknown: repeat the pass.
                    watermark = until
        finally:
            again_in = 0.0 if behind and watermark == until else EVERY_SECONDS / 2
            await lease.store(watermark, again_in)
        return behind and watermark == until

    async def _deliver(self, lease: _Lease, source: str, make: Make, watermark: datetime, until: datetime) -> bool:
        """Delivers a source's events of the pass, CHUNK rows at a time. False if it was stopped before the end."""
        since = watermark - timedelta(seconds=LATE_SECONDS)
        after, last_id = since, ""
        while not self._stop.is_set():
            async with self._reading:
                arguments = (lease.tenant_id, since, until, after, last_id, CHUNK)
                async with self._engine.database.connection() as connection:
                    rows = await connection.fetch(_SQL[source], *arguments, timeout=READ_SECONDS)
                past_events = await make(self._engine, lease.tenant_id, rows) if rows else []
            if past_events:
                await self._engine.dispatcher.dispatch_missing(lease.tenant_id, past_events)
            if len(rows) < CHUNK:
                return True
            # The next chunk may have the same event, of a guest of the same player: the log must show it by then.
            await self._engine.dispatcher.log.wait_until_written(lease.tenant_id)
            after, last_id = rows[-1]["at"], rows[-1]["id"]
            await lease.store(watermark, LEASE_SECONDS)
        return False


class _Lease:
    """A tenant's watermark, under this process's lease."""

    def __init__(self, database: Database, tenant_id: str, until: datetime) -> None:
        self.tenant_id = tenant_id
        self._database = database
        self._until = until

    async def store(self, watermark: datetime, seconds: float) -> None:
        """Stores the watermark; the lease ends in `seconds`. _LeaseLost: it had expired."""
        until = await self._database.fetchval(_SQL["advance"], self.tenant_id, watermark, seconds, self._until)
        if until is None:
            raise _LeaseLost
        self._until = until


# -- from rows to events ---------------------------------------------------------------------

Make: TypeAlias = Callable[[Engine, str, Sequence[Any]], Awaitable[list[PastEvent]]]
"""Turns the rows of a source's statement into events, in order."""


def _past_event(tenant_id: str, row: Any, data: events.EventData, *, nth: int = 0, id: str = "") -> PastEvent:
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
    return PastEvent(event, row["at"].timestamp())


_OF_PRIZE: Final = ("name", "type", "value")
_WON: Final = ("prize_id", "reward_id", "quantity", *_OF_PRIZE)


async def _plays(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    """The same events as runtime/actors/game/decide.py: the play, then each prize, then each rung."""
    names = sorted({rung["prize_id"] for row in rows for rung in row["granted"] or ()})
    found = await engine.database.fetch(_SQL["prizes"], tenant_id, names) if names else []
    prizes = {row["prize_id"]: row for row in found}
    past_events = []
    for row in rows:
        completed = events.PlayCompleted(
            play_id=row["id"],
            game_id=row["game_id"],
            player_id=row["player_id"],
            score=row["score"],
            wins=row["wins"],
            points=row["points"],
        )
        past_events.append(_past_event(tenant_id, row, completed))
        won: list[dict[str, Any]] = [
            {name: one[name] for name in _WON} for one in row["rewards"] or () if one["prize_id"]
        ]
        for rung in row["granted"] or ():
            own = {"prize_id": rung["prize_id"], "reward_id": rung["reward_id"], "milestone_id": rung["id"]}
            won.append({**own, "quantity": 1, **{name: prizes[rung["prize_id"]][name] for name in _OF_PRIZE}})
        about = {"player_id": row["player_id"], "game_id": row["game_id"], "play_id": row["id"]}
        past_events += [
            _past_event(tenant_id, row, events.PrizeWon(**about, **one), nth=nth) for nth, one in enumerate(won)
        ]
    return past_events


async def _rewards(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    own = ("player_id", "prize_id", "name", "type", "quantity", "value", "game_id", "milestone_id")
    names = (*own, "leaderboard_id", "draw_id", "rank")
    return [
        _past_event(tenant_id, row, events.PrizeWon(reward_id=row["id"], **{name: row[name] for name in names}))
        for row in rows
    ]


async def _claims(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    names = ("player_id", "prize_id", "name", "type", "value", "quantity", "game_id", "play_id", "milestone_id")
    past_events = []
    for row in rows:
        status = m.RewardStatus.FULFILLED if row["fulfilled"] else m.RewardStatus.CLAIMED
        fields = {name: row[name] for name in names}
        data = events.PrizeClaimed(reward_id=row["id"], status=status.proto_name or "", **fields)
        past_events.append(_past_event(tenant_id, row, data))
    return past_events


async def _quests(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [
        _past_event(
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


async def _boards(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(await finalized_event(engine, tenant_id, row["id"]), row["at"].timestamp()) for row in rows]


async def _redemptions(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [_past_event(tenant_id, row, redeemed(row)) for row in rows]


async def _draws(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(draw_event(tenant_id, row, row["step"], trace_id=""), row["at"].timestamp()) for row in rows]


async def _failures(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(failed_event(tenant_id, row, trace_id=""), row["at"].timestamp()) for row in rows]


async def _notices(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(noticed_event(tenant_id, row), row["at"].timestamp()) for row in rows]


def _message(kind: str, about: str, named: str = "id") -> Make:
    """Makes events that a kind of message is sent for. about: the column of the message's subject. named: of its id."""

    async def make(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
        return [
            PastEvent(
                events.Event(
                    id=f"evt_{row[named].partition('_')[2]}_{kind}",
                    type=f"message.{kind}",
                    occurred_at=int(row["at"].timestamp()),
                    tenant_id=tenant_id,
                    merchant_id=row["merchant_id"],
                    campaign_id=row["campaign_id"],
                    data={"player_id": row["player_id"], about: row[about]},
                ),
                row["at"].timestamp(),
            )
            for row in rows
        ]

    return make


async def _checkpoints(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(checkpoint_event(tenant_id, row), row["at"].timestamp()) for row in rows]


async def _violations(engine: Engine, tenant_id: str, rows: Sequence[Any]) -> list[PastEvent]:
    return [PastEvent(opened_event(tenant_id, row), row["at"].timestamp()) for row in rows]


_SOURCES: Final[dict[str, Make]] = {
    "plays": _plays,
    "rewards": _rewards,
    "claims": _claims,
    "quests": _quests,
    "boards": _boards,
    "redemptions": _redemptions,
    "draws": _draws,
    "failures": _failures,
    "notices": _notices,
    "checkpoints": _checkpoints,
    "violations": _violations,
}
"""Each source's statement, and the function that makes events of its rows."""

_MESSAGES: Final[dict[str, Make]] = {
    "codes": _message("code_delivered", "reward_id"),
    "reminders": _message("reminder", "reward_id"),
    "results": _message("draw_result", "draw_id", "holder"),
}
"""The same for tenants with messages."""
