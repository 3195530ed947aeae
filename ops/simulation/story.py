"""A failing run, told so that a person can read it: when, who, what, what Core answered, what went wrong meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.simulation.history import Attempt
from ops.simulation.run import Result

WIDTH: Final = 150


def tell(result: Result) -> str:
    """The story, line by line; ends with what must be, and what was found instead."""
    violation = result.violation
    assert violation is not None
    plan = result.plan
    faults = ", ".join(fault.told() for fault in plan.faults) or "nothing"
    lines = [
        f"Seed {plan.seed}, salt {plan.salt}: {len(plan.steps)} steps, {plan.cores} Core(s).",
        f"Faults: {faults}.",
        f"World: {', '.join(f'{name} {value}' for name, value in plan.world.items())}.",
        "",
    ]
    concerned = set(violation.about)
    for at, number, text in sorted(_events(result), key=lambda event: event[0]):
        mark = "*" if number in concerned else " "
        lines.append(f"{_time(at)} {mark} {_renamed(text, result.names)[:WIDTH]}")
    lines += [
        "",
        f"Violated: {violation.name}",
        f"  expected: {_renamed(violation.expected, result.names)}",
        f"  found:    {_renamed(violation.found, result.names)}",
    ]
    return "\n".join(lines)


def _events(result: Result) -> Iterator[tuple[float, int, str]]:
    """(when, of which attempt (-1: none), what)"""
    for attempt in result.history.attempts:
        if attempt.step < 0:
            continue
        number, who = attempt.number, f"#{attempt.number} {attempt.who}"
        core = f"Core {attempt.core % result.plan.cores}"
        yield attempt.began, number, f"{who} asks {core}: {attempt.operation} {_asked(attempt)}"
        if attempt.ended != float("inf"):
            yield attempt.ended, number, f"{who} hears: {_answered(attempt)}"
        else:
            yield attempt.began + 1e-9, number, f"{who} hears nothing that counts ({attempt.status})"
    for note in result.history.notes:
        yield note.at, -1, f"-- {note.text}"


def _asked(attempt: Attempt) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in attempt.request.items() if value not in ("", {}, None))


def _answered(attempt: Attempt) -> str:
    if not attempt.ok:
        return f"{attempt.status} {attempt.outcome}"
    return "OK " + _short(attempt.answer)


_TELLING: Final = frozenset(
    [
        "rewards",
        "balances",
        "milestones_granted",
        "balance",
        "balance_after",
        "status",
        "turns_granted",
        "reward",
        "entry",
        "milestone",
        "prize_id",
        "currency",
        "amount",
        "name",
        "id",
        "reward_id",
        "session_id",
        "can_play",
        "reason",
        "remaining_turns",
        "items",
        "player",
        "guest_player_id",
        "standings",
        "rank",
        "player_id",
    ]
)


def _short(value: Any) -> str:
    """A value without what nobody needs to follow the story."""
    if isinstance(value, Mapping):
        kept = {name: own for name, own in value.items() if name in _TELLING and own not in ("", [], {}, None)}
        if not kept and value:
            kept = dict(value)
        return "{" + ", ".join(f"{name} {_short(own)}" for name, own in kept.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short(own) for own in value) + "]"
    return str(value)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for identifier, name in names.items():
        text = text.replace(identifier, name.replace(" ", "-"))
    return text


def _time(at: float) -> str:
    hours, rest = divmod(at, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{int(hours):3d}:{int(minutes):02d}:{seconds:09.6f}"
