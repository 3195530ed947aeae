"""The checker of histories knows which local days a campaign's zones gave, and holds each player to what they allow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ops.history import turns
from ops.history.checker import FOREVER, check
from ops.history.reading import Days, Reading, days_between
from ops.history.record import Attempt, History
from ops.history.tables import Tables
from ops.history.terms import Bounds, Terms

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
HERE = (-FOREVER, -FOREVER, "UTC")
EAST, WEST = "Pacific/Kiritimati", "Pacific/Pago_Pago"
"""Of noon in UTC, the one is in the next day, the other in the same."""

CAP, DAILY, TURNS = 4, 3, 2
STAFF = "staff"
OUTCOME: dict[str, Any] = {"rewards": [], "balances": [], "milestones_granted": []}
BOUNDS = {"capped": Bounds(ever=CAP), "daily": Bounds(daily=DAILY), "paid": Bounds(paid=True)}
NAMES = {name: name for name in ("wheel", "capped", "daily", "paid", "once", "daily quest")}


class Told:
    """What one player and staff did, a second each from noon on, and the rows of it."""

    def __init__(self, starts: datetime = NOON) -> None:
        self.history = History()
        self.rows: dict[str, list[Any]] = {
            name: [] for name in ("plays", "turn_balances", "game_players", "quest_completions")
        }
        self.rows["players"] = [{"player_id": "ann", "merged_into": None}]
        self._starts, self._seconds = starts, 0

    def _ask(
        self, operation: str, who: str = "ann", data: Any = None, http: int = 200, reason: str = "", **more: Any
    ) -> None:
        self._seconds += 1
        attempt = Attempt("consumer-1", float(self._seconds), self._seconds + 0.5, http, reason=reason, data=data)
        self.history.new(operation, who, **more).attempts.append(attempt)

    def moves(self, zone: str) -> None:
        self._ask("UpdateCampaign", STAFF, {}, of="campaign", body={"timezone": zone})

    def plays(self, game: str, count: int) -> None:
        for _ in range(count):
            session = f"{game}-{self._seconds}"
            data = {"play_id": session, "rewards": [], "balances": []}
            self._ask("Play", data=data, of=game, key=session, body={"session_id": session})
            at = self._starts + timedelta(seconds=self._seconds + 0.25)
            row = {"play_id": session, "game_id": game, "player_id": "ann", "session_id": session}
            self.rows["plays"].append({**row, "idempotency_key": session, "outcome": OUTCOME, "played_at": at})

    def refused(self, game: str, reason: str) -> None:
        self._ask("Start", http=400, reason=reason, of=game, key=f"refused-{self._seconds}")

    def completes(self, quest: str, period: str, balance: int) -> None:
        key = f"{quest}-{self._seconds}"
        self._ask("CompleteQuest", data={"balance": balance}, of=quest, key=key)
        row = {"quest_id": quest, "player_id": "ann", "period": period, "idempotency_key": key}
        self.rows["quest_completions"].append(row)

    def explained(self, turns_left: int = 0) -> bool:
        self.rows["turn_balances"] = [{"player_id": "ann", "balance": turns_left}]
        games = [row["game_id"] for row in self.rows["plays"]]
        self.rows["game_players"] = [
            {"player_id": "ann", "game_id": game, "plays": games.count(game)} for game in set(games)
        ]
        return all(check(ops, initial).explained for _, ops, initial in turns.things(self.reading))

    @property
    def reading(self) -> Reading:
        return Reading(self.history, Tables(self.rows), Terms("campaign", NAMES, bounds=BOUNDS, quest_turns=TURNS))


@pytest.mark.parametrize(
    ("moves", "begun", "names"),
    [
        ((), 1, {"2026-11-22"}),
        (((10, "Europe/Berlin"), (20, "America/New_York")), 1, {"2026-11-22"}),
        (((10, EAST),), 2, {"2026-11-22", "2026-11-23"}),
        (((10, WEST),), 1, {"2026-11-22"}),
        # What counted on the day in the east counts on the one in the west, which can begin anew in the east.
        (((10, EAST), (20, WEST), (30, EAST)), 3, {"2026-11-22", "2026-11-23"}),
        (((200, EAST),), 1, {"2026-11-22"}),
    ],
)
def test_zone_move_to_a_later_day_begins_a_day(
    moves: tuple[tuple[float, str], ...], begun: int, names: set[str]
) -> None:
    zones = [HERE, *((at, at + 1, zone) for at, zone in moves)]
    assert days_between(zones, NOON.timestamp(), 0, 100) == Days(begun, frozenset(names))


def test_zone_moves_outside_the_plays_begin_no_day() -> None:
    zones = [HERE, (10.0, 11.0, EAST), (20.0, 21.0, "UTC"), (30.0, 31.0, EAST)]
    assert days_between(zones, NOON.timestamp(), 40, 50).begun == 1
    assert days_between(zones, NOON.timestamp(), 25, 50).begun == 2


def test_midnight_begins_a_day() -> None:
    late = datetime(2026, 11, 22, 23, 59, 30, tzinfo=UTC).timestamp()
    assert days_between([HERE], late, 0, 20).begun == 1
    assert days_between([HERE], late, 0, 60).begun == 2


def test_turns_hold_though_the_zone_moves() -> None:
    told = Told()
    told.completes("once", "once", TURNS)
    told.moves(EAST)
    told.plays("paid", TURNS)
    told.refused("paid", "NO_TURNS")
    assert told.explained(turns_left=0)
    assert not told.explained(turns_left=1)
    told.plays("paid", 1)
    assert not told.explained()


def test_further_day_gives_its_free_plays_once() -> None:
    told = Told()
    told.plays("daily", DAILY)
    told.moves(EAST)
    told.plays("daily", DAILY)
    assert told.explained()
    told.plays("daily", 1)
    assert not told.explained()


def test_free_plays_beyond_two_days_are_found_at_midnight() -> None:
    told = Told(datetime(2026, 11, 22, 23, 59, 50, tzinfo=UTC))
    told.plays("daily", 2 * DAILY)
    told.plays("capped", 10)
    assert not told.explained()


def test_daily_quest_is_completed_once_a_day() -> None:
    told = Told()
    told.plays("daily", 1)
    told.completes("daily quest", "2026-11-22", TURNS)
    told.moves(EAST)
    told.completes("daily quest", "2026-11-23", 2 * TURNS)
    assert told.explained(2 * TURNS)
    told.completes("daily quest", "2026-11-24", 3 * TURNS)
    assert not told.explained(3 * TURNS)
