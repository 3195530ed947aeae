"""The history of a run: every request, its attempts and their responses."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

UNKNOWN: Final = "unknown"
"""The outcome without a response, or with one that does not say whether the request was done."""

NOT_YET: Final = float("inf")


@dataclass(slots=True)
class Attempt:
    """One attempt of a request. Times are seconds of the run's monotonic clock; `ended` is infinite without a response.
    to: the process it was sent to. http: 0 without a response.
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
class Request:
    """A request with all its attempts under one key, in order.

    operation: its name in the table of operations. of: the game, reward, quest or prize that it names. facts: context
    for the judge.
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
        """The first successful attempt."""
        return next((one for one in self.attempts if one.ok), None)

    @property
    def data(self) -> Any:
        """The data of the response. None: not done, or unknown."""
        found = self.answered
        return None if found is None else found.data

    @property
    def ok(self) -> bool:
        return self.answered is not None

    @property
    def unknown(self) -> bool:
        """Whether it may have been done without a response that says so."""
        return not self.ok and any(one.outcome == UNKNOWN for one in self.attempts)

    @property
    def outcome(self) -> str:
        """ "ok", the reason of the refusal, or UNKNOWN if the last attempt has none."""
        return "ok" if self.ok else self.attempts[-1].outcome if self.attempts else UNKNOWN

    @property
    def began(self) -> float:
        return self.attempts[0].began

    @property
    def ended(self) -> float:
        """When it was known to be done; infinite if never."""
        found = self.answered
        return NOT_YET if found is None else found.ended

    def describe(self) -> str:
        """One line for reports."""
        last = self.attempts[-1] if self.attempts else None
        return f"#{self.number} {self.who} {self.operation} {self.of} {self.key}: {last and (last.http, last.outcome)}"


@dataclass(slots=True)
class Note:
    """An event besides the requests: a kill, a restart."""

    at: float
    text: str


@dataclass(slots=True)
class History:
    """All requests in order, and the other events."""

    requests: list[Request] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def new(self, operation: str, who: str, **more: Any) -> Request:
        """Adds a request."""
        request = Request(len(self.requests), operation, who, **more)
        self.requests.append(request)
        return request

    def of(self, *operations: str) -> list[Request]:
        return [one for one in self.requests if one.operation in operations]

    @property
    def attempts(self) -> list[Attempt]:
        return [attempt for one in self.requests for attempt in one.attempts]

    def write(self, path: Path) -> None:
        """Writes JSON lines: the notes, then the requests."""
        with path.open("w") as file:
            lines = [asdict(note) for note in self.notes] + [asdict(request) for request in self.requests]
            file.writelines(json.dumps(one, default=str) + "\n" for one in lines)
