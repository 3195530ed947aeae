"""Judges a run: every answer is held against what can be, thing by thing (checker.py), and against the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from ops.history.checker import Op, check
from ops.simulation.history import Attempt
from ops.simulation.judging import answers, boards, prizes, turns, wallets
from ops.simulation.judging.answers import line
from ops.simulation.judging.reading import Reading
from ops.simulation.judging.refusals import unanswered, uncalled
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


def judge(world: World) -> None:
    """Violation where some answer cannot be explained."""
    reading = Reading(world)
    _answered_once(reading)
    answers.kept(reading)
    answers.codes(reading)
    _caused(reading)
    boards.final(reading)
    if world.restored_at:
        return  # What was answered before is lost, as a restore means it: no order explains both.
    boards.rankings(reading)
    for things in THINGS:
        for name, ops, initial in things(reading):
            verdict = check(ops, initial)
            if verdict.gave_up:
                raise Violation(
                    f"the history of {name} can be searched", "a verdict", f"{len(ops)} operations", at=world.loop.now
                )
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


def _caused(reading: Reading) -> None:
    """Nobody is refused without cause, nor left without an answer while nothing is wrong."""
    for name, attempt in (
        ("nobody is refused without cause", uncalled(reading)),
        ("whoever asks while nothing is wrong is answered", unanswered(reading)),
    ):
        if attempt is not None:
            raise Violation(name, "another answer", line(reading, attempt), about=(attempt.number,))


def _answered_once(reading: Reading) -> None:
    """The same request under the same key has the same answer, and a session is played once."""
    answers: dict[tuple[str, str, str, str], Attempt] = {}
    for attempt in reading.held:
        key = attempt.request.get("idempotency_key")
        if not attempt.ok or not key:
            continue
        who = reading.person(reading.player_of(attempt))
        first = answers.setdefault((who, attempt.operation, attempt.request.get("id", ""), key), attempt)
        if first.answer != attempt.answer:
            raise Violation(
                "a repeat under one key has the first answer",
                line(reading, first),
                line(reading, attempt),
                about=(first.number, attempt.number),
            )
    for session in reading.sessions.values():
        attempts = [attempt for attempt in session if reading.is_held(attempt)]
        keys = {attempt.request.get("idempotency_key", f"none {attempt.number}") for attempt in attempts if attempt.ok}
        if len(keys) > 1:
            raise Violation(
                "a session is played once",
                "one play",
                "; ".join(line(reading, attempt) for attempt in attempts if attempt.ok),
                about=tuple(attempt.number for attempt in attempts if attempt.ok),
            )
