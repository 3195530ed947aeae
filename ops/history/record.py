"""The history of a row: every request that somebody made, each time that it was sent, and what came back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

UNKNOWN: Final = "unknown"
"""The outcome of what nobody answered, or was answered by nothing that says whether it was done."""

NOT_YET: Final = float("inf")


@dataclass(slots=True)
class Attempt:
    """A request as it was sent once. Times are seconds of the run's monotonic clock; `ended` is infinite where nothing
    came back. to: the process that it was sent to. http: 0 where no answer came.
    """

    to: str
    began: float
    ended: float = NOT_YET
    http: int = 0
    code: str = ""
    reason: str = ""
    retry_after: str = ""
    data: Any = None

    @property
    def ok(self) -> bool:
        return self.http == 200

    @property
    def outcome(self) -> str:
        """ "ok", the reason of a refusal, or UNKNOWN."""
        if self.ok:
            return "ok"
        return UNKNOWN if self.http in (0, 503) or self.http >= 500 else self.reason or self.code


@dataclass(slots=True)
class Asked:
    """A request, and all its attempts under one key, in the order in which they were sent.

    operation: its name in the table of operations. of: the game, reward, quest or prize that it names. facts: what the
    judge needs of who asked.
    """

    number: int
    operation: str
    who: str
    of: str = ""
    key: str = ""
    body: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def answered(self) -> Attempt | None:
        """The first attempt that was done."""
        return next((one for one in self.attempts if one.ok), None)

    @property
    def data(self) -> Any:
        """What it was answered. None where it was not done, or nobody knows."""
        found = self.answered
        return None if found is None else found.data

    @property
    def ok(self) -> bool:
        return self.answered is not None

    @property
    def unknown(self) -> bool:
        """Whether it may have been done without anybody having been told."""
        return not self.ok and any(one.outcome == UNKNOWN for one in self.attempts)

    @property
    def outcome(self) -> str:
        """ "ok", the reason that it was refused with, or UNKNOWN where the last attempt has none."""
        return "ok" if self.ok else self.attempts[-1].outcome if self.attempts else UNKNOWN

    @property
    def began(self) -> float:
        return self.attempts[0].began

    @property
    def ended(self) -> float:
        """When it was known to be done; infinite where it never was."""
        found = self.answered
        return NOT_YET if found is None else found.ended

    def told(self) -> str:
        """In a line, for people."""
        last = self.attempts[-1] if self.attempts else None
        return f"#{self.number} {self.who} {self.operation} {self.of} {self.key}: {last and (last.http, last.outcome)}"


@dataclass(slots=True)
class Note:
    """Something that happened beside the requests: a kill, a return."""

    at: float
    text: str


@dataclass(slots=True)
class History:
    """All that was asked, in the order of asking, and what happened meanwhile."""

    asked: list[Asked] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def new(self, operation: str, who: str, **more: Any) -> Asked:
        """A further request, kept."""
        asked = Asked(len(self.asked), operation, who, **more)
        self.asked.append(asked)
        return asked

    def of(self, *operations: str) -> list[Asked]:
        return [one for one in self.asked if one.operation in operations]

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for one in self.asked for attempt in one.attempts]

    def write(self, path: Path) -> None:
        """A JSON object a line: the notes, then what was asked."""
        with path.open("w") as file:
            told = [asdict(note) for note in self.notes] + [asdict(asked) for asked in self.asked]
            file.writelines(json.dumps(one, default=str) + "\n" for one in told)
