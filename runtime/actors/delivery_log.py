"""The delivery log of integrations: what became of each event at each of them.

Written behind the attempts, many notes in one statement: the log keeps nobody waiting.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial
from typing import Any, Final, NamedTuple

import asyncpg
import msgspec
import structlog

import sql
from runtime import ids
from runtime.errors import Fault
from runtime.events import Event, forget, said_of_players
from runtime.outgoing.providers import ERROR_CHARACTERS_MAX, Delivered, Failed, Outcome
from runtime.outgoing.schedule import SCHEDULE_SECONDS, delays_seconds
from runtime.stores.database import Database

_SQL: Final = sql.load("integrations")

LOG_KEPT: Final = 1_000
"""Deliveries that an integration's log keeps, beside those that are to be tried again and those that an event may
still be looked for among: the last ten minutes', and all since the tenant's mark (runtime/streams/backfill.py).
"""

TRIED_SECONDS: Final = sum(SCHEDULE_SECONDS)
"""How long an event is tried at most: also at a receiver that is left alone, so that hardly a try is made, its waiting
events end. So the log of one that is dead holds the events of little more than a day.
"""

NOTES_MAX: Final = 500

PRUNE_EVERY: Final = 100
"""Notes of one integration between two prunings of its log."""

NOT_FAILED: Final = Failed("")

log = structlog.get_logger(__name__)


class Note(NamedTuple):
    """What became of an event at an integration, as the log has it."""

    integration_id: str
    delivery_id: str
    event_id: str
    event_type: str
    status: str
    attempts: int
    event: dict[str, Any] | None
    http_status: int
    error: str
    duration_ms: int
    pause_seconds: float
    answer: str


class _Notes(NamedTuple):
    """What is to be written of a tenant. written: done once it was, or was lost."""

    list: list[Note]
    written: asyncio.Future[None]


class DeliveryLog:
    """The log of every tenant's integrations, as this process adds to it.

    lost: notes that could not be written; what became of those events is not known.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._notes: dict[str, _Notes] = {}
        self._noting: asyncio.Task[None] | None = None
        self._written: asyncio.Future[None] | None = None  # of the notes that are just being written
        self._counted: Counter[tuple[str, str]] = Counter()
        self.lost = 0

    def note(
        self,
        row: Any,
        event: Event,
        status: str,
        attempts: int,
        outcome: Outcome,
        duration_ms: int = 0,
    ) -> Note:
        """Notes what became of an attempt."""
        failed = outcome if isinstance(outcome, Failed) else NOT_FAILED
        answered = outcome if isinstance(outcome, Delivered) else failed
        error = str(failed.error).replace("\0", "").encode("utf-8", "replace").decode()[:ERROR_CHARACTERS_MAX]
        kept = msgspec.to_builtins(event) if event.occurred_at else None  # Else it is one that could not be read.
        note = Note(
            integration_id=row["integration_id"],
            delivery_id=ids.make("delivery"),
            event_id=event.id,
            event_type=event.type,
            status=status,
            attempts=attempts,
            event=kept,
            http_status=answered.http_status,
            error=error,
            duration_ms=duration_ms,
            pause_seconds=failed.retry_after_seconds,
            answer=answered.answer,
        )
        if (notes := self._notes.get(event.tenant_id)) is None:
            notes = self._notes[event.tenant_id] = _Notes([], asyncio.get_running_loop().create_future())
        if len(notes.list) >= NOTES_MAX * 10:
            self.lost += 1  # the database is away: not worth the memory, since the rows tell it again
            return note
        notes.list.append(note)
        self._write_soon()
        return note

    def _write_soon(self) -> None:
        if self._notes and (self._noting is None or self._noting.done()):
            self._noting = asyncio.create_task(self._write_notes())

    async def _write_notes(self) -> None:
        """Writes what was noted, together with what is noted meanwhile."""
        while self._notes:
            tenant_id = next(iter(self._notes))
            notes, self._written = self._notes.pop(tenant_id)
            try:
                for first in range(0, len(notes), NOTES_MAX):
                    await self._write_part(tenant_id, notes[first : first + NOTES_MAX])
            except Exception as error:  # one tenant's trouble is no other's
                self.lost += len(notes)
                log.error("delivery_log_lost", notes=len(notes), exc_info=error)
            finally:
                self._written.set_result(None)
                self._written = None

    async def _write_part(self, tenant_id: str, part: list[Note]) -> None:
        latest = {(note.integration_id, note.event_id): note for note in part}  # a row each
        plain, telling = list[Note](), list[Note]()
        for note in sorted(latest.values(), key=_row):
            (telling if any(said_of_players(note.event)) else plain).append(note)
        # By themselves and last those that wait for players, whom an erasure may hold for long.
        for some in (plain, telling):
            try:
                if some is telling and some:
                    await self._database.transaction(partial(_write_telling, tenant_id, some))
                elif some:
                    await _write(self._database, tenant_id, some)
                await self._prune(tenant_id, some)
            except (Fault, asyncpg.PostgresError) as error:
                self.lost += len(some)
                log.warning("delivery_log_lost", notes=len(some), error=str(error))

    async def _prune(self, tenant_id: str, part: list[Note]) -> None:
        for integration_id, count in Counter(note.integration_id for note in part).items():
            before = self._counted[tenant_id, integration_id]
            self._counted[tenant_id, integration_id] = before + count
            if before // PRUNE_EVERY != (before + count) // PRUNE_EVERY:
                await self._database.execute(_SQL["prune_deliveries"], tenant_id, integration_id, LOG_KEPT)

    async def written(self) -> None:
        """Returns when the log has all that has ended by now, or it was lost."""
        waiting = [notes.written for notes in self._notes.values()]
        if self._written is not None:
            waiting.append(self._written)
        if waiting:
            await asyncio.wait(waiting)


async def _write(database: Database | asyncpg.Connection, tenant_id: str, notes: list[Note]) -> None:
    columns = [list(column) for column in zip(*notes, strict=True)]
    await database.execute(_SQL["note_deliveries"], tenant_id, *columns, delays_seconds(), TRIED_SECONDS)


async def _write_telling(tenant_id: str, notes: list[Note], connection: asyncpg.Connection) -> None:
    """Writes notes that say something of players, but not what they say of those who were erased since it happened."""
    parts = [(nth, part) for nth, note in enumerate(notes) for part in said_of_players(note.event)]
    named = sorted({part["player_id"] for _, part in parts})
    rows = await connection.fetch(_SQL["erased"], tenant_id, named)
    erased_at = {row["player_id"]: row["erased_at"] for row in rows}
    for nth, part in parts:
        event = notes[nth].event
        if event is not None and erased_at.get(part["player_id"], 0) >= event["occurred_at"]:
            forget(part)
            notes[nth] = notes[nth]._replace(answer="")
    await _write(connection, tenant_id, notes)


def _row(note: Note) -> tuple[str, str]:
    """The order in which rows of the log are locked."""
    return note.integration_id, note.event_id
