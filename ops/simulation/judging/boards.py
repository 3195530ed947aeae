"""What a board shows, and what it keeps as final, against what was played and corrected."""

from __future__ import annotations

from typing import Any, Final

from ops.simulation.history import UNKNOWN, Attempt
from ops.simulation.judging.answers import line
from ops.simulation.judging.reading import Reading
from ops.simulation.world import Violation

UNDER_WAY_MICROSECONDS: Final = 5_000_000
"""A play that was under way while the board was finalized may be counted, or not."""


def _board(reading: Reading) -> Any:
    return next(row for row in reading.tables.leaderboards if row.board_id == reading.world.ids["board"])


def final(reading: Reading) -> None:
    """Of each player who is nobody else's guest the board keeps what was played and corrected before its end.

    Nobody who played is left out, but for who was taken off it. Where the database's clock was stepped, its times say
    nothing.
    """
    tables, board = reading.tables, _board(reading)
    if board.finalized_at is None or reading.step_seconds:
        return
    off = {row.player_id for row in tables.leaderboard_disqualifications}
    standings = {row.player_id: row for row in tables.leaderboard_standings}
    for player in tables.players:
        if len(reading.ids_of(reading.person(player.player_id))) > 1:
            continue  # Which of the person's plays were whose by then is not to be told.
        times = [play.played_at for play in tables.plays if play.player_id == player.player_id]
        added = [one for one in tables.leaderboard_adjustments if one.player_id == player.player_id]
        sure, perhaps = (
            sum(at <= board.finalized_at + slack for at in times)
            for slack in (-UNDER_WAY_MICROSECONDS, UNDER_WAY_MICROSECONDS)
        )
        corrected, row = sum(one.delta for one in added), standings.get(player.player_id)
        if row is None:
            wrong = bool(sure or added) and player.player_id not in off
        else:
            wrong = player.player_id in off or not sure <= row.score - corrected <= perhaps
        if wrong:
            raise Violation(
                "a final score is what was played and corrected",
                f"{sure} to {perhaps} plays and {corrected}, on the board unless taken off it",
                f"{reading.world.name_of(player.player_id)}: {row.score if row else 'not on it'},"
                f" taken off: {player.player_id in off}",
                at=reading.world.loop.now,
            )


def rankings(reading: Reading) -> None:
    """What a board shows is in order, names each player once, and scores nobody beyond what was done by then."""
    for attempt in reading.of("ListRankings"):
        if not attempt.ok:
            continue
        items = attempt.answer["items"]
        scores = [one["score"] for one in items]
        in_order = [one["rank"] for one in items] == list(range(1, len(items) + 1)) and scores == sorted(scores)[::-1]
        once = len({one["player_id"] for one in items}) == len(items)
        beyond = [one for one in items if one["score"] > _most(reading, attempt, one["player_id"])]
        own = [one for one in items if one["player_id"] == attempt.request["player_id"]]
        mine = attempt.answer["me"] or None
        if not in_order or not once or beyond or (own and own[0] != mine):
            raise Violation(
                "a board shows what was done, in order",
                "ranks from 1, scores that fall, nobody twice, nothing beyond what was played and corrected",
                line(reading, attempt),
                about=(attempt.number,),
            )


def _most(reading: Reading, attempt: Attempt, player_id: str) -> int:
    """The most that a player may have by then."""
    whose = reading.person(player_id)
    plays: int = sum(
        reading.person(reading.player_of(done.attempts[0])) == whose and done.began <= attempt.ended
        for _, done in reading.played
    )
    added = [
        one.request["delta"]
        for one in reading.of("AdjustScore")
        if (one.ok or one.outcome == UNKNOWN)
        and one.began <= attempt.ended
        and reading.person(one.request["player_id"]) == whose
    ]
    return plays + sum(int(delta) for delta in added if delta > 0)
