"""The history: every request that somebody sent, and what came back, with virtual times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ops.simulation.plan import Step

UNKNOWN: Final = "unknown"
"""The outcome of what was not answered, or answered with nothing that says whether it was done."""


@dataclass(slots=True)
class Attempt:
    """One request of a step, as it was sent to one Core.

    outcome: "ok", a refusal's reason, or UNKNOWN. began, ended: virtual seconds; database_began, database_ended: what
    the database's clock said then. ended is infinite where nothing came back.
    """

    number: int
    step: int
    who: str
    core: int
    operation: str
    request: Mapping[str, Any]
    began: float
    database_began: float
    ended: float = float("inf")
    database_ended: float = float("inf")
    outcome: str = UNKNOWN
    status: str = ""
    answer: Any = None
    twin: int = 0

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def refused(self) -> bool:
        """Answered, and not done by this very request."""
        return not self.ok and self.outcome != UNKNOWN


@dataclass(slots=True)
class Note:
    """Something that happened beside the requests: a fault, a boot, an invariant's look."""

    at: float
    text: str
    fault: int | None = None


@dataclass(slots=True)
class History:
    """attempts in the order in which they were sent. steps: those that were tried; passed: those that lacked what
    they need.
    """

    attempts: list[Attempt] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    steps: dict[int, Step] = field(default_factory=dict)
    passed: list[int] = field(default_factory=list)

    def begin(
        self, step: Step, core: int, operation: str, request: Mapping[str, Any], at: float, database: float, twin: int
    ) -> Attempt:
        attempt = Attempt(len(self.attempts), step.number, step.who, core, operation, request, at, database, twin=twin)
        self.attempts.append(attempt)
        return attempt

    def note(self, at: float, text: str, fault: int | None = None) -> None:
        self.notes.append(Note(at, text, fault))

    def of(self, *operations: str) -> list[Attempt]:
        """The attempts of these operations."""
        return [attempt for attempt in self.attempts if attempt.operation in operations]

    def encode(self) -> bytes:
        """All of it, byte for byte the same for the same run."""
        return msgspec.json.encode({"attempts": self.attempts, "notes": self.notes, "passed": self.passed})
