"""A history read for the checker: what belongs together, who is who, which day it was.

Attempts of one session, or of one request under its key, are one operation, however often it was asked: it takes
effect at most once. Whether what nobody answered was done at all is read from the tables; when, nobody knows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Final
from zoneinfo import ZoneInfo

from ops.history.checker import FOREVER
from ops.simulation.catalogue import GAMES
from ops.simulation.history import UNKNOWN, Attempt
from ops.simulation.judging.invariants import Tables
from ops.simulation.world import World

REFUSED: Final = frozenset({"ILLEGAL_TRANSITION", "OUT_OF_STOCK", "UNREACHABLE"})

SLACK_SECONDS: Final = 2.0
"""By how much a process may be wrong about the database's time."""


@dataclass(slots=True)
class Done:
    """Something that was done, by whichever of its attempts: after `began`, and before `ended` (FOREVER: unknown)."""

    began: float
    ended: float
    attempts: tuple[Attempt, ...]
    reply: Any = None

    @property
    def about(self) -> tuple[int, ...]:
        return tuple(attempt.number for attempt in self.attempts)


class Reading:
    """What the checker's models ask of a run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tables: Tables = world.tables()
        self.attempts = world.history.attempts
        self.step_seconds = sum(
            abs(fault.seconds) for fault in world.plan.faults if fault.kind == "clock" and fault.where == "database"
        )

    @property
    def steps_seconds(self) -> float:
        """By how much clocks were stepped in all, of whichever host."""
        return sum(abs(fault.seconds) for fault in self.world.plan.faults if fault.kind == "clock")

    def is_held(self, attempt: Attempt) -> bool:
        """Whether what it was answered is to hold: not where the database went on from an earlier time since."""
        return attempt.began > self.world.restored_at or not self.world.restored_at

    @property
    def held(self) -> list[Attempt]:
        return [attempt for attempt in self.attempts if self.is_held(attempt)]

    # -- who is who ------------------------------------------------------------------------------

    @cached_property
    def became(self) -> dict[str, str]:
        """{guest: the player it is now}"""
        return {row.player_id: row.merged_into for row in self.tables.players if row.merged_into is not None}

    def person(self, player_id: str) -> str:
        """One name for a player and all guests that became it."""
        return self.became.get(player_id, player_id)

    def ids_of(self, person: str) -> list[str]:
        """The player's id, then those of its guests."""
        return [person, *sorted(guest for guest, player in self.became.items() if player == person)]

    def merges(self, person: str) -> Iterator[tuple[str, Done]]:
        """(guest, when it became this person)"""
        for guest in self.ids_of(person)[1:]:
            about = [one for one in self.of("ResolvePlayer") if one.request.get("guest_player_id") == guest]
            yield guest, self.done(about, True)

    @cached_property
    def persons(self) -> list[str]:
        found = {self.person(row.player_id): None for row in self.tables.players}
        return sorted(found)

    # -- what belongs together -------------------------------------------------------------------

    def of(self, *operations: str) -> list[Attempt]:
        return [attempt for attempt in self.attempts if attempt.operation in operations]

    def done(self, attempts: Sequence[Attempt], happened: bool | None = None) -> Done:
        """These attempts as one thing that was done; its reply is the first that was answered."""
        answered = [attempt for attempt in attempts if attempt.ok]
        ended = min((attempt.ended for attempt in answered), default=FOREVER)
        reply = self.world.answers[answered[0].number] if answered else None
        return Done(min(attempt.began for attempt in attempts), ended, tuple(attempts), reply)

    @cached_property
    def sessions(self) -> dict[str, list[Attempt]]:
        """The attempts of each session."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for attempt in self.of("Play"):
            found[attempt.request["session_id"]].append(attempt)
        return found

    @cached_property
    def _starts(self) -> dict[str, float]:
        found = {}
        for attempt in self.of("Start", "Play"):
            if attempt.ok:
                reply = self.world.answers[attempt.number]
                begun = reply if attempt.operation == "Start" else reply.next
                if begun is not None:
                    found[begun.session_id] = attempt.began
        return found

    def begun(self, session: str) -> float:
        """When its start was asked for, in virtual seconds; everybody plays only what a start has answered."""
        return self._starts[session]

    @cached_property
    def plays(self) -> dict[str, Any]:
        """The rows of plays, by session."""
        return {row.session_id: row for row in self.tables.plays}

    @cached_property
    def played(self) -> list[tuple[Any, Done]]:
        """(row, when) of each play that is in the tables."""
        found = []
        for session, attempts in self.sessions.items():
            row = self.plays.get(session)
            if row is not None:
                done = self.done(attempts)
                # Whoever hears that it was played knows that it was before.
                for attempt in attempts:
                    if attempt.outcome == "SESSION_PLAYED":
                        done.ended = min(done.ended, attempt.ended)
                found.append((row, done))
        return found

    @cached_property
    def _failures(self) -> Counter[str]:
        rewards = {row.task_id: row.reward_id for row in self.tables.tasks}
        tried = [one for one in self.of("RetryTask", "CompleteTask") if one.outcome not in REFUSED]
        return Counter(rewards[one.request["id"]] for one in tried)

    def failures(self, reward_id: str) -> int:
        """How often a delivery may have been given up that was tried again, or done, after all."""
        return min(3, self._failures[reward_id])

    def expiry(self, row: Any) -> float:
        """When a reward may be found to have expired at the earliest, in virtual seconds."""
        at: float = self.world.stores.virtual(row.expires_at)
        return max(0.0, at - self.step_seconds * 2 - SLACK_SECONDS)

    def game_of(self, attempt: Attempt) -> str:
        """The plan's name of the game that was asked about."""
        return self.world.name_of(attempt.request["id"])

    def player_of(self, attempt: Attempt) -> str:
        """Who a request is of: of a play, whose session it is."""
        if attempt.operation == "Play":
            return str(attempt.request["session_id"].split(".", 3)[3])
        return str(attempt.request.get("player_id", ""))

    def refusals(self, *operations: str) -> Iterator[Attempt]:
        """Attempts that were answered with a reason why not."""
        return (one for one in self.of(*operations) if one.refused and one.outcome != "UNREACHABLE")

    # -- which day it was ------------------------------------------------------------------------

    def days(self, began: float, ended: float) -> list[date]:
        """The local days on which something may have counted that was done between these virtual times."""
        last = self.world.loop.now if ended == FOREVER else ended
        return self._days(self._database(began), self._database(last), self.zones(began, last))

    def days_of(self, row: Any, done: Done) -> list[date]:
        """Those on which a play may have counted, whose row says when it was."""
        at = row.played_at / 1_000_000
        last = self.world.loop.now if done.ended == FOREVER else done.ended
        return self._days(at, at, self.zones(done.began, last))

    def _days(self, first: float, last: float, zones: Iterable[str]) -> list[date]:
        first -= SLACK_SECONDS + self.step_seconds
        last += SLACK_SECONDS + self.step_seconds
        found: dict[date, None] = {}
        for zone in zones:
            own = ZoneInfo(zone)
            day = datetime.fromtimestamp(first, own).date()
            while day <= datetime.fromtimestamp(last, own).date():
                found[day] = None
                day += timedelta(days=1)
        return list(found)

    def _database(self, at: float) -> float:
        stores = self.world.stores
        return float(stores.database_now() - self.world.loop.now + at)

    def zones(self, began: float, ended: float) -> list[str]:
        """The zones that the campaign may have had then."""
        moves = [(-1.0, -1.0, str(self.world.plan.world["zone"]), True)]
        for attempt in self.of("UpdateCampaign"):
            if attempt.ok or attempt.outcome == UNKNOWN:
                zone = str(attempt.request["campaign"]["timezone"])
                moves.append((attempt.began, attempt.ended, zone, attempt.ok))
        found: dict[str, None] = {}
        for own_began, own_ended, zone, _ in moves:
            # One that surely came after it, and was over before, has moved it on.
            moved_on = any(
                done and other_began > own_ended and other_ended < began - LATE_SECONDS
                for other_began, other_ended, _, done in moves
            )
            if own_began <= ended and not moved_on:
                found[zone] = None
        return list(found)

    def periods(self, quest: str, began: float, ended: float) -> list[str]:
        """The names of the periods of a quest in which something may have happened."""
        if quest == "once":
            return ["once"]
        return [day.isoformat() for day in self.days(began, ended)]


def named(tables: Iterable[Any], key: str) -> dict[Hashable, Any]:
    """Rows by one of their columns."""
    return {getattr(row, key): row for row in tables}


LATE_SECONDS: Final = 2.0
"""A process may decide by an older catalogue for as long as a snapshot of it is trusted."""

CAPPED: Final = tuple(game for game in GAMES if game in ("wheel", "capped", "daily", "paid"))
"""Games whose plays something bounds."""
