"""Answers against the tables, and against each other: what was told is there, as it was told, and nobody else's."""

from __future__ import annotations

from typing import Any

import msgspec

from ops.simulation.history import Attempt
from ops.simulation.judging.reading import Reading
from ops.simulation.world import Violation
from runtime import messages as m


def line(reading: Reading, attempt: Attempt) -> str:
    """An attempt, for who reads what was found."""
    return f"{attempt.who} {attempt.operation} ({attempt.outcome} {attempt.status}) {attempt.answer}"


def kept(reading: Reading) -> None:
    """What was answered as done is in the tables; of a play, all that its player was told."""
    grants = {row.reward_id for row in reading.tables.milestone_grants}
    entries = {row.entry_id for row in reading.tables.ledger_entries}
    for attempt in reading.held:
        if not attempt.ok:
            continue
        match attempt.operation:
            case "Play":
                row = reading.plays.get(attempt.request["session_id"])
                there = row is not None and _told(reading.world.answers[attempt.number]) == _outcome(row)
            case "Redeem":
                there = attempt.answer["reward"]["id"] in grants
            case "AdjustBalance":
                there = attempt.answer["entry"]["id"] in entries
            case _:
                there = True
        if not there:
            raise Violation(
                "nothing is answered that is not kept", "its row", line(reading, attempt), about=(attempt.number,)
            )


def _told(reply: m.PlayReply) -> tuple[Any, ...]:
    return reply.play_id, reply.seed, list(reply.rewards), list(reply.balances), list(reply.milestones_granted)


def _outcome(row: Any) -> tuple[Any, ...]:
    """What the row says that was told."""
    outcome = msgspec.json.decode(row.outcome)
    return (
        row.play_id,
        row.seed.hex(),
        [m.WonReward(**one) for one in outcome["rewards"]],
        [m.CurrencyBalance(**one) for one in outcome["balances"]],
        [m.GrantedMilestone(**one) for one in outcome["milestones_granted"]],
    )


def codes(reading: Reading) -> None:
    """A reward's code is always the same, is one that was imported, and is told of no other reward."""
    imported = {code for attempt in reading.of("ImportCodes") for code in attempt.request["codes"]}
    told: dict[str, Attempt] = {}
    whose: dict[str, Attempt] = {}
    for attempt in reading.held:
        reward = attempt.answer.get("reward") if attempt.ok and isinstance(attempt.answer, dict) else None
        if not reward or not reward["code"]:
            continue
        first, owner = told.setdefault(reward["id"], attempt), whose.setdefault(reward["code"], attempt)
        for other in (first, owner):
            both = [(one.answer["reward"]["id"], one.answer["reward"]["code"]) for one in (other, attempt)]
            if both[0] != both[1]:
                raise Violation(
                    "a code is one reward's, and a reward has one code",
                    line(reading, other),
                    line(reading, attempt),
                    about=(other.number, attempt.number),
                )
        if reward["code"] not in imported:
            raise Violation("a code is one that was imported", ", ".join(sorted(imported)), line(reading, attempt))
