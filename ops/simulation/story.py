"""A failing run, printed so that a person can read it: when, who, what, the answer, what went wrong meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.history.record import NOT_YET, UNKNOWN, Asked
from ops.simulation.run import Result

WIDTH: Final = 150

DULL: Final = frozenset(("client_seed", "payload", "seed", "seed_hash", "commitment", "access_token", "expires_at"))
"""What nobody needs to follow the story."""


def tell(result: Result) -> str:
    """The story, line by line; ends with what was violated."""
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
    for at, number, text in sorted(_events(result), key=lambda event: event[0]):
        mark = "*" if number in violation.about else " "
        lines.append(f"{_time(at)} {mark} {_renamed(text, result.names)[:WIDTH]}")
    lines += ["", f"Violated: {violation.name}", f"  {_renamed(violation.found, result.names)}"]
    return "\n".join(lines)


def _events(result: Result) -> Iterator[tuple[float, int, str]]:
    """(when, of which request (-1: none), what)"""
    for asked in result.history.asked:
        about = f"#{asked.number} {asked.who}"
        for attempt in asked.attempts:
            yield attempt.began, asked.number, f"{about} asks {attempt.to}: {_asked(asked)}"
            if attempt.outcome == UNKNOWN and attempt.ended == NOT_YET:
                yield attempt.began + 1e-9, asked.number, f"{about} hears nothing that counts {attempt.code}"
            else:
                said = _short(attempt.data) if attempt.ok else attempt.reason
                yield attempt.ended, asked.number, f"{about} hears: {attempt.code} {said}"
    for note in result.history.notes:
        yield note.at, -1, f"-- {note.text}"


def _asked(asked: Asked) -> str:
    key = f" under {asked.key}" if asked.key else ""
    return f"{asked.operation} {asked.of} {_short(asked.body)}{key}"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        kept = {name: own for name, own in value.items() if name not in DULL and own not in ("", [], {}, None, 0)}
        return "{" + ", ".join(f"{name} {_short(own)}" for name, own in kept.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short(own) for own in value) + "]"
    return str(value)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for identifier, name in names.items():
        text = text.replace(identifier, name)
    return text


def _time(at: float) -> str:
    hours, rest = divmod(at, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{int(hours):3d}:{int(minutes):02d}:{seconds:09.6f}"
