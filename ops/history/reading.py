"""A history prepared for the models: the requests of a play, its results, and its player."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from ops.history.checker import FOREVER, Op
from ops.history.record import Attempt, History, Request
from ops.history.tables import Row, Tables
from ops.history.terms import Terms


@dataclass(frozen=True, slots=True)
class Done:
    """A play in the tables. It took effect between `began` and `ended`. requests: those for it."""

    row: Row
    began: float
    ended: float
    requests: tuple[Request, ...]
    outcome: dict[str, Any]


class Reading:
    """A history with the lookups that the models need."""

    def __init__(self, history: History, tables: Tables, terms: Terms) -> None:
        self.history, self.tables, self.terms = history, tables, terms

    def name_of(self, identifier: str) -> str:
        """The history's name for an id. '': none."""
        return self.terms.names.get(identifier, "")

    @cached_property
    def players(self) -> list[str]:
        """Players with requests, except those in a merge: the conservation checks and the scenario that merges cover
        these.
        """
        merged = {row["player_id"] for row in self.tables["players"] if row["merged_into"]}
        merged |= {row["merged_into"] for row in self.tables["players"] if row["merged_into"]}
        there = {row["player_id"] for row in self.tables["players"]}
        return sorted(there - merged)

    @cached_property
    def by_player(self) -> dict[str, list[Request]]:
        """Each player's requests, and those of staff about the player."""
        found: dict[str, list[Request]] = defaultdict(list)
        for request in self.history.requests:
            of_staff = request.operation == "AdjustBalance"
            found[request.of if of_staff else request.who].append(request)
        return found

    def of(self, player: str, *operations: str) -> Iterator[Request]:
        return (request for request in self.by_player.get(player, ()) if request.operation in operations)

    def refused(self, player: str, *operations: str) -> Iterator[tuple[Request, Attempt]]:
        """Each attempt of these operations that was refused with a reason."""
        for request in self.of(player, *operations):
            for attempt in request.attempts:
                if 400 <= attempt.http < 500:
                    yield request, attempt

    @cached_property
    def plays(self) -> dict[str, list[Done]]:
        """The plays in the tables, by player."""
        requests: dict[str, list[Request]] = defaultdict(list)
        for play in self.history.of("Play"):
            requests[str((play.body or {})["session_id"])].append(play)
        found: dict[str, list[Done]] = defaultdict(list)
        for row in self.tables["plays"]:
            own = requests.get(row["session_id"], [])
            if not own:
                continue  # answers.py reports it.
            ends = [each.ended for each in own]
            # A SESSION_PLAYED response proves that the play was done before.
            ends += [last.ended for each in own for last in each.attempts if last.reason == "SESSION_PLAYED"]
            began, outcome = min(each.began for each in own), decoded(row["outcome"])
            found[row["player_id"]].append(Done(row, began, min(ends), tuple(own), outcome))
        return found

    @cached_property
    def births(self) -> dict[str, tuple[float, float]]:
        """For each reward of a play or of an answered redeem: the times between which it was won."""
        found = {}
        for done in (done for plays in self.plays.values() for done in plays):
            for one in (*done.outcome["rewards"], *done.outcome["milestones_granted"]):
                found[one.get("reward_id", "")] = (done.began, done.ended)
        for request in self.history.of("Redeem"):
            if request.ok:
                found[request.data["reward"]["id"]] = (request.began, request.ended)
        return found

    def days(self, since: float, until: float) -> "Days":
        """The campaign's local days between these two times of the run's clock."""
        near = self.terms.slack_seconds
        return days_between(self._zones, self._ahead, since, min(until, self._last), near)

    @cached_property
    def _last(self) -> float:
        """The time of the last response, or of the last attempt without one."""
        attempts = self.history.attempts
        return max([one.began for one in attempts] + [one.ended for one in attempts if one.ended != FOREVER], default=0)

    @cached_property
    def _zones(self) -> list[tuple[float, float, str]]:
        """The campaign's time zones in order of change: the earliest time each may have applied, the time from which it
        certainly did, and its name.
        """
        moves = [
            (request.began, request.ended, str(request.body["timezone"]))
            for request in self.history.of("UpdateCampaign")
            if request.body
            and "timezone" in request.body
            and request.of == "campaign"
            and (request.ok or request.unknown)
        ]
        return [(-FOREVER, -FOREVER, self.terms.zone), *moves]

    @cached_property
    def _ahead(self) -> float:
        """Offset from the run's clock to the database's unix time. Derived from plays: each was done after its request
        and before its response. Without plays, from this machine's clock, which is also the database's.
        """
        done = [one for plays in self.plays.values() for one in plays if one.ended != FOREVER]
        after = [one.row["played_at"].timestamp() - one.ended for one in done]
        before = [one.row["played_at"].timestamp() - one.began for one in done]
        return (max(after) + min(before)) / 2 if done else time.time() - time.monotonic()


@dataclass(frozen=True, slots=True)
class Days:
    """begun: the maximum number of days, each with its free plays. names: their ISO 8601 dates.

    A day that returns counts again: after a move west, the previous day's plays count for this one, and the next move
    east starts it anew.
    """

    begun: int
    names: frozenset[str]


def days_between(
    zones: Sequence[tuple[float, float, str]], ahead: float, since: float, until: float, near: float = 2.0
) -> Days:
    """The local days between two times of a clock that is `ahead` behind unix time.

    zones: the earliest time in each, the time from which it certainly applied, and its name; in order.
    near: seconds from midnight within which a play may count on either day: clocks are compared through responses.
    """
    seen: list[date] = []
    for nth, (began, _, name) in enumerate(zones):
        ended = zones[nth + 1][1] if nth + 1 < len(zones) else FOREVER
        if ended < since or began > until:
            continue
        for at in (max(began, since) - near, min(ended, until) + near):
            seen.append(datetime.fromtimestamp(at + ahead, ZoneInfo(name)).date())
    passed = [max(0, (later - earlier).days) for earlier, later in pairwise(seen)]
    names = {earlier + timedelta(days=nth) for earlier, days in zip(seen, passed, strict=False) for nth in range(days)}
    return Days(1 + sum(passed), frozenset(day.isoformat() for day in (*names, *seen)))


def decoded(value: Any) -> dict[str, Any]:
    """A decoded JSON column."""
    plain: dict[str, Any] = json.loads(value) if isinstance(value, str | bytes) else value
    return plain


def closed(ops: list[Op[Any]], step: Callable[[Any], Iterable[Any]], label: str) -> list[Op[Any]]:
    """These operations, followed by the final state in the tables.

    Operations without a response ended by then, since the tables have them, except optional ones.
    """
    last = max([op.ended for op in ops if op.ended != FOREVER] + [op.began for op in ops])
    before = [op if op.optional or op.ended != FOREVER else replace(op, ended=last) for op in ops]
    return [*before, Op(last + 1, FOREVER, step, f"the final rows have {label}")]
