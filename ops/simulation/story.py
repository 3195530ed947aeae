"""Prints a failing run for people: time, actor, request, response, and the faults in between."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ops.history.record import NOT_YET, UNKNOWN, Request
from ops.simulation.run import Result

WIDTH: Final = 150

DULL: Final = frozenset(("client_seed", "payload", "seed", "seed_hash", "commitment", "access_token", "expires_at"))
"""Fields without relevance to the story."""


def describe(result: Result) -> str:
    """The story in lines; ends with the violation."""
    violation = result.violation
    assert violation is not None
    plan = result.plan
    faults = ", ".join(fault.describe() for fault in plan.faults) or "nothing"
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
    """(time, number of the request (-1: none), text)"""
    for request in result.history.requests:
        about = f"#{request.number} {request.who}"
        for attempt in request.attempts:
            yield attempt.began, request.number, f"{about} -> {attempt.to}: {_request(request)}"
            if attempt.outcome == UNKNOWN and attempt.ended == NOT_YET:
                yield attempt.began + 1e-9, request.number, f"{about} gets no response {attempt.code}"
            else:
                outcome = _short(attempt.data) if attempt.ok else attempt.reason
                yield attempt.ended, request.number, f"{about} <- {attempt.code} {outcome}"
    for note in result.history.notes:
        yield note.at, -1, f"-- {note.text}"


def _request(request: Request) -> str:
    key = f" key {request.key}" if request.key else ""
    return f"{request.operation} {request.of} {_short(request.body)}{key}"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        fields = {name: part for name, part in value.items() if name not in DULL and part not in ("", [], {}, None, 0)}
        return "{" + ", ".join(f"{name} {_short(part)}" for name, part in fields.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_short(part) for part in value) + "]"
    return str(value)


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for identifier, name in names.items():
        text = text.replace(identifier, name)
    return text


def _time(at: float) -> str:
    hours, rest = divmod(at, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{int(hours):3d}:{int(minutes):02d}:{seconds:09.6f}"
