"""A history read for the models: which requests made one play, what it gave, and whose it is."""

from __future__ import annotations

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
from ops.history.record import Asked, Attempt, History
from ops.history.tables import Row, Tables
from ops.history.terms import Terms


@dataclass(frozen=True, slots=True)
class Done:
    """A play that is in the tables. It took effect after `began` and before `ended`. asked: by which requests."""

    row: Row
    began: float
    ended: float
    asked: tuple[Asked, ...]
    outcome: dict[str, Any]


class Reading:
    """What the models ask."""

    def __init__(self, history: History, tables: Tables, terms: Terms) -> None:
        self.history, self.tables, self.terms = history, tables, terms

    def name_of(self, identifier: str) -> str:
        """What the history calls a thing by. '': it has no name."""
        return self.terms.names.get(identifier, "")

    @cached_property
    def players(self) -> list[str]:
        """Everybody who did something, but for who became another, or whom another became: what a merge moves is for
        the checks of conservation and for the row that merges.
        """
        merged = {row["player_id"] for row in self.tables["players"] if row["merged_into"]}
        merged |= {row["merged_into"] for row in self.tables["players"] if row["merged_into"]}
        there = {row["player_id"] for row in self.tables["players"]}
        return sorted(there - merged)

    @cached_property
    def by_player(self) -> dict[str, list[Asked]]:
        """What each player asked, and what staff asked of it."""
        found: dict[str, list[Asked]] = defaultdict(list)
        for asked in self.history.asked:
            of_staff = asked.operation == "AdjustBalance"
            found[asked.of if of_staff else asked.who].append(asked)
        return found

    def of(self, player: str, *operations: str) -> Iterator[Asked]:
        return (asked for asked in self.by_player.get(player, ()) if asked.operation in operations)

    def refused(self, player: str, *operations: str) -> Iterator[tuple[Asked, Attempt]]:
        """Each attempt of these that was refused with a reason."""
        for asked in self.of(player, *operations):
            for attempt in asked.attempts:
                if 400 <= attempt.http < 500:
                    yield asked, attempt

    @cached_property
    def plays(self) -> dict[str, list[Done]]:
        """The plays that are in the tables, by player."""
        asked_for: dict[str, list[Asked]] = defaultdict(list)
        for play in self.history.of("Play"):
            asked_for[str((play.body or {})["session_id"])].append(play)
        found: dict[str, list[Done]] = defaultdict(list)
        for row in self.tables["plays"]:
            asked = asked_for.get(row["session_id"], [])
            if not asked:
                continue  # answers.py has told of it.
            ends = [each.ended for each in asked]
            # Whoever hears that a session was played knows that it was before.
            ends += [last.ended for each in asked for last in each.attempts if last.reason == "SESSION_PLAYED"]
            began, outcome = min(each.began for each in asked), decoded(row["outcome"])
            found[row["player_id"]].append(Done(row, began, min(ends), tuple(asked), outcome))
        return found

    @cached_property
    def births(self) -> dict[str, tuple[float, float]]:
        """Of each reward that a play or an answered redeem gave: after when, and before when."""
        found = {}
        for done in (done for plays in self.plays.values() for done in plays):
            for one in (*done.outcome["rewards"], *done.outcome["milestones_granted"]):
                found[one.get("reward_id", "")] = (done.began, done.ended)
        for asked in self.history.of("Redeem"):
            if asked.ok:
                found[asked.data["reward"]["id"]] = (asked.began, asked.ended)
        return found

    def days(self, since: float, until: float) -> Days:
        """The campaign's local days between these two times of the run's clock."""
        near = self.terms.slack_seconds
        return days_between(self._zones, self._ahead, since, min(until, self._last), near)

    @cached_property
    def _last(self) -> float:
        """When the last answer came, or was waited for."""
        attempts = self.history.attempts
        return max([one.began for one in attempts] + [one.ended for one in attempts if one.ended != FOREVER], default=0)

    @cached_property
    def _zones(self) -> list[tuple[float, float, str]]:
        """The campaign's zones, in the order in which it was moved: from when it may have been there, from when on it
        certainly was, and its name.
        """
        moves = [
            (asked.began, asked.ended, str(asked.body["timezone"]))
            for asked in self.history.of("UpdateCampaign")
            if asked.body and "timezone" in asked.body and asked.of == "campaign" and (asked.ok or asked.unknown)
        ]
        return [(-FOREVER, -FOREVER, self.terms.zone), *moves]

    @cached_property
    def _ahead(self) -> float:
        """What the run's clock lacks to the time of the database, unix seconds, by the plays: as each was done after it
        was asked for, and before it was answered. Where nothing was played, by this machine's, which is the database's.
        """
        done = [one for plays in self.plays.values() for one in plays if one.ended != FOREVER]
        after = [one.row["played_at"].timestamp() - one.ended for one in done]
        before = [one.row["played_at"].timestamp() - one.began for one in done]
        return (max(after) + min(before)) / 2 if done else time.time() - time.monotonic()


@dataclass(frozen=True, slots=True)
class Days:
    """begun: how many there were, at most, of which each has its free plays. names: each one's date, in ISO 8601.

    One that is come back to is counted again: the zone moved west, what had counted on the day there counts on the one
    here, and begins anew with the next move east.
    """

    begun: int
    names: frozenset[str]


def days_between(
    zones: Sequence[tuple[float, float, str]], ahead: float, since: float, until: float, near: float = 2.0
) -> Days:
    """The local days between two times of a clock that lacks `ahead` to unix seconds.

    zones: from when it may have been in each, from when on it certainly was, and its name; in their order.
    near: so many seconds from a midnight a play may count on either day, since clocks are compared by answers.
    """
    seen: list[date] = []
    for nth, (began, _, name) in enumerate(zones):
        left = zones[nth + 1][1] if nth + 1 < len(zones) else FOREVER
        if left < since or began > until:
            continue
        for at in (max(began, since) - near, min(left, until) + near):
            seen.append(datetime.fromtimestamp(at + ahead, ZoneInfo(name)).date())
    passed = [max(0, (later - earlier).days) for earlier, later in pairwise(seen)]
    names = {earlier + timedelta(days=nth) for earlier, days in zip(seen, passed, strict=False) for nth in range(days)}
    return Days(1 + sum(passed), frozenset(day.isoformat() for day in (*names, *seen)))


def decoded(value: Any) -> dict[str, Any]:
    """A JSON column."""
    plain: dict[str, Any] = json.loads(value) if isinstance(value, str | bytes) else value
    return plain


def closed(ops: list[Op[Any]], step: Callable[[Any], Iterable[Any]], told: str) -> list[Op[Any]]:
    """These operations, and then what the tables say in the end.

    What nobody was told of was over by then too, since the tables have it; but for what may never have been.
    """
    last = max([op.ended for op in ops if op.ended != FOREVER] + [op.began for op in ops])
    before = [op if op.optional or op.ended != FOREVER else replace(op, ended=last) for op in ops]
    return [*before, Op(last + 1, FOREVER, step, f"the tables say in the end {told}")]
