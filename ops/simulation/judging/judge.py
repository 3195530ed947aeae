"""Judges a run: every answer is held against what can be, thing by thing (checker.py), and against the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ops.simulation.history import Attempt
from ops.simulation.judging import prizes, turns, wallets
from ops.simulation.judging.checker import Op, check
from ops.simulation.judging.reading import Reading
from ops.simulation.world import Violation, World

Thing = tuple[str, list[Op[Any]], Any]
"""What is checked by itself: its name, the operations on it, and how it began."""

THINGS: Final[tuple[Callable[[Reading], Iterator[Thing]], ...]] = (
    turns.things,
    wallets.wallets,
    wallets.rungs,
    prizes.stocks,
    prizes.rewards,
)

NEVER: Final = frozenset(
    [
        "SESSION_INVALID",
        "LOGIN_REQUIRED",
        "TOKEN_MISSING",
        "UNKNOWN_GAME",
        "UNKNOWN_QUEST",
        "UNKNOWN_MILESTONE",
        "VALIDATION",
        "IDEMPOTENCY_MISMATCH",
    ]
)
"""Reasons that nobody here gives cause for."""


UNDER_WAY_MICROSECONDS: Final = 5_000_000
"""A play that was under way while the board was finalized may be counted, or not."""


def judge(world: World) -> None:
    """Violation where some answer cannot be explained."""
    reading = Reading(world)
    if world.restored_at:
        # What was answered before is lost, as a restore means it: what is answered after it holds.
        reading.attempts = [attempt for attempt in reading.attempts if attempt.began > world.restored_at]
        _answered_once(reading)
        _kept(reading)
        return
    _answered_once(reading)
    _kept(reading)
    for attempt in reading.attempts:
        # A guest that has become a player is nobody any more: only the sessions that it had play on.
        ended = attempt.outcome == "SESSION_INVALID" and attempt.request["player_id"] in reading.became
        if attempt.outcome in NEVER and not ended:
            raise Violation(
                "nobody is refused without cause", "another answer", _line(world, attempt), about=(attempt.number,)
            )
    _board(reading)
    for things in THINGS:
        for name, ops, initial in things(reading):
            verdict = check(ops, initial)
            if not verdict.explained:
                raise Violation(
                    f"the history of {name} can be explained",
                    "some order of what was done in which every answer is right",
                    "after "
                    + (" -> ".join(verdict.longest) or "nothing")
                    + f" (state {verdict.state}) none of these fits: "
                    + "; ".join(verdict.blocked),
                    about=verdict.about,
                    at=world.loop.now,
                )


def _answered_once(reading: Reading) -> None:
    """The same request under the same key has the same answer, and a session is played once."""
    answers: dict[tuple[str, str, str, str], Attempt] = {}
    for attempt in reading.attempts:
        key = attempt.request.get("idempotency_key")
        if not attempt.ok or not key:
            continue
        who = reading.person(reading.player_of(attempt))
        first = answers.setdefault((who, attempt.operation, attempt.request.get("id", ""), key), attempt)
        if first.answer != attempt.answer:
            raise Violation(
                "a repeat under one key has the first answer",
                _line(reading.world, first),
                _line(reading.world, attempt),
                about=(first.number, attempt.number),
            )
    for attempts in reading.sessions.values():
        keys = {attempt.request.get("idempotency_key", f"none {attempt.number}") for attempt in attempts if attempt.ok}
        if len(keys) > 1:
            raise Violation(
                "a session is played once",
                "one play",
                "; ".join(_line(reading.world, attempt) for attempt in attempts if attempt.ok),
                about=tuple(attempt.number for attempt in attempts if attempt.ok),
            )


def _kept(reading: Reading) -> None:
    """What was answered as done is in the tables."""
    grants = {row.reward_id for row in reading.tables.milestone_grants}
    entries = {row.entry_id for row in reading.tables.ledger_entries}
    for attempt in reading.attempts:
        if not attempt.ok:
            continue
        match attempt.operation:
            case "Play":
                there = attempt.request["session_id"] in reading.plays
            case "Redeem":
                there = attempt.answer["reward"]["id"] in grants
            case "AdjustBalance":
                there = attempt.answer["entry"]["id"] in entries
            case _:
                there = True
        if not there:
            raise Violation(
                "nothing is answered that is not kept",
                "its row",
                _line(reading.world, attempt),
                about=(attempt.number,),
            )


def _board(reading: Reading) -> None:
    """What the board kept as final is what was played and corrected before, by whoever was not taken off it."""
    tables = reading.tables
    board = next(row for row in tables.leaderboards if row.board_id == reading.world.ids["board"])
    if board.finalized_at is None or reading.step_seconds:
        return
    off = {row.player_id for row in tables.leaderboard_disqualifications}
    for row in tables.leaderboard_standings:
        ids = reading.ids_of(reading.person(row.player_id))
        if len(ids) > 1:
            continue  # Which of the person's plays were whose by then is not to be told.
        times = [play.played_at for play in tables.plays if play.player_id == row.player_id]
        added = [one for one in tables.leaderboard_adjustments if one.player_id == row.player_id]
        sure, perhaps = (
            sum(at <= board.finalized_at + slack for at in times)
            for slack in (-UNDER_WAY_MICROSECONDS, UNDER_WAY_MICROSECONDS)
        )
        corrected = sum(one.delta for one in added)
        if row.player_id in off or not sure <= row.score - corrected <= perhaps:
            raise Violation(
                "a final score is what was played and corrected",
                f"{sure} to {perhaps} plays and {corrected}, on the board",
                f"{reading.world.name_of(row.player_id)}: {row.score}, off it: {row.player_id in off}",
                at=reading.world.loop.now,
            )


def _line(world: World, attempt: Attempt) -> str:
    return f"{attempt.who} {attempt.operation} ({attempt.outcome}) {attempt.answer}"
