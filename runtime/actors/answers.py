"""Answers to a prize's claim form (Prize.claim_fields), as submitted with a claim.

General text rules are checked here; the claim statement checks the answers against the prize's current fields
(claim_problems in sql/schema.sql). Neither repeats an answer in an error: answers are personal data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from runtime import messages as m
from runtime.errors import Fault
from runtime.wire.enums import enum
from runtime.wire.schema import Field, Kind, fields_of, refused

ANSWERS_MAX: Final = fields_of(m.Prize)["claim_fields"].items_most
TEXT_MAX: Final = 200
LONG_TEXT_MAX: Final = 2_000
_ANSWER: Final = Field("", Kind.TEXT, None, False, most=LONG_TEXT_MAX, lines=True)

_PROBLEMS: Final = {
    "required": "is required",
    "unknown": "is not a field of this claim form",
    "option": "must be one of the options",
    "long": f"must be at most {TEXT_MAX} characters long",
    "lines": "must be a single line",
}


def claim_fields_of(stored: Iterable[Mapping[str, Any]]) -> list[m.ClaimField]:
    """A prize's stored claim_fields as messages."""
    return [m.ClaimField(**{**field, "kind": enum(m.ClaimFieldKind, field["kind"])}) for field in stored]


def read(provided: Mapping[str, Any] | None) -> dict[str, str]:
    """The answers, stripped, without empty ones. INVALID_ARGUMENT at `answers.KEY`."""
    found: list[tuple[str, str]] = []
    answers: dict[str, str] = {}
    if provided and len(provided) > ANSWERS_MAX:
        raise refused([("answers", f"must contain at most {ANSWERS_MAX} answers")])
    for key, value in (provided or {}).items():
        if not isinstance(value, str):
            found.append((f"answers.{key}", "must be a string"))
        elif wrong := _ANSWER.text_problem(value):
            found.append((f"answers.{key}", wrong))
        elif stripped := value.strip():
            answers[key] = stripped
    if found:
        raise refused(found)
    return answers


def unanswered(problems: Iterable[tuple[str, str]]) -> Fault:
    """INVALID_ARGUMENT for the statement's findings: keys, each with a problem of `claim_problems`."""
    return refused([(f"answers.{key}", _PROBLEMS[problem]) for key, problem in problems])
