"""Leaderboard scores in ranking order, whichever store they were read from."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from runtime import messages as m

AT_ONCE: Final = 5_000
"""Rows handled before other requests get a turn: a board may have a million."""


class Place(NamedTuple):
    """A position in a ranking: by score, then by the time it was reached (unix microseconds), then by player."""

    score: int
    achieved_us: int
    player_id: str


class Score(NamedTuple):
    """A player's score on a board, and when it was reached (unix microseconds)."""

    player_id: str
    display_name: str
    score: int
    achieved_us: int

    @property
    def position(self) -> Place:
        """The position stored in a cursor."""
        return Place(self.score, self.achieved_us, self.player_id)


class Top(NamedTuple):
    """Part of a ranking. `first_rank`: of the first row. `me`: the requesting player's place, if on the board."""

    first_rank: int
    scores: list[Score]
    me: m.Ranking | None


@dataclass(frozen=True, slots=True)
class Counted:
    """A board computed by Postgres, in ranking order. `version`, `as_of`: the snapshot and its time."""

    board_id: str
    status: str
    config: str
    version: str
    as_of: float
    scores: list[Score]

    async def top(self, after: Place | None, limit: int, player_id: str) -> Top:
        """Up to `limit` places after a position."""
        start = bisect_right(self.scores, _order(after), key=lambda one: _order(one.position)) if after else 0
        return Top(
            start + 1, self.scores[start : start + limit], await self._place_of(player_id) if player_id else None
        )

    async def _place_of(self, player_id: str) -> m.Ranking | None:
        for index, one in enumerate(self.scores):
            if one.player_id == player_id:
                return ranking(index + 1, one)
            if index % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        return None


def ranking(rank: int, score: Score) -> m.Ranking:
    """A place as a message."""
    return m.Ranking(
        rank=rank,
        player_id=score.player_id,
        display_name=score.display_name,
        score=score.score,
        achieved_at=score.achieved_us // 1_000_000,
    )


async def counted_of(rows: Sequence[Any]) -> Counted | None:
    """A board from the rows of `scores`; None if there is no such board."""
    if not rows:
        return None
    head = rows[0]
    scores: list[Score] = []
    for start in range(0, len(rows), AT_ONCE):
        await asyncio.sleep(0)
        scores += [
            Score(row["player_id"], row["display_name"], row["score"], row["achieved_us"])
            for row in rows[start : start + AT_ONCE]
            if row["score"] is not None
        ]
    known = {name: head[name] for name in ("board_id", "status", "config", "version", "as_of")}
    return Counted(**known, scores=scores)


def _order(place: Place) -> tuple[int, int, str]:
    return -place.score, place.achieved_us, place.player_id
