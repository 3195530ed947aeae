"""A history read for the models: which requests made one play, what it gave, and whose it is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property
from typing import Any

from ops.certification.history import Asked, Attempt, History
from ops.certification.judging.tables import Row, Tables
from ops.simulation.judging.checker import FOREVER, Op


@dataclass(frozen=True, slots=True)
class Done:
    """A play that is in the tables. It took effect after `began` and before `ended`. asked: by which requests."""

    row: Row
    began: float
    ended: float
    asked: tuple[Asked, ...]
    outcome: dict[str, Any]


class Reading:
    """What the models ask. names: of what was made in the tenant, by id."""

    def __init__(self, history: History, tables: Tables, names: dict[str, str], campaign: str) -> None:
        self.history, self.tables, self.names, self.campaign = history, tables, names, campaign

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
    def one_day(self) -> bool:
        """Whether all of it was on one local day: else what counts by the day is left out."""
        zones = any("timezone" in (asked.body or {}) for asked in self.history.of("UpdateCampaign"))
        return not zones and len({row["played_at"].astimezone(UTC).date() for row in self.tables["plays"]}) <= 1


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
