"""Answers to what a prize asks of its winner (Prize.claim_fields), as a claim brings them.

What every text is held to is checked here; the statement that claims checks the rest against the fields that the
prize has at that moment (claim_problems in sql/schema.sql). Neither says an answer again: it is personal.
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

_WORDS: Final = {
    "required": "is required",
    "unknown": "is not asked",
    "option": "must be one of the options",
    "long": f"must be at most {TEXT_MAX} characters long",
    "lines": "must be a single line",
}


def fields_shown(stored: Iterable[Mapping[str, Any]]) -> list[m.ClaimField]:
    """The messages of a prize's claim_fields as its row has them."""
    return [m.ClaimField(**{**field, "kind": enum(m.ClaimFieldKind, field["kind"])}) for field in stored]


def read(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The answers without white space around them, and without empty ones. INVALID_ARGUMENT at `answers.KEY`."""
    found: list[tuple[str, str]] = []
    answers: dict[str, str] = {}
    if given and len(given) > ANSWERS_MAX:
        raise refused([("answers", f"must hold at most {ANSWERS_MAX}")])
    for key, value in (given or {}).items():
        if not isinstance(value, str):
            found.append((f"answers.{key}", "must be a text"))
        elif wrong := _ANSWER.text_problem(value):
            found.append((f"answers.{key}", wrong))
        elif said := value.strip():
            answers[key] = said
    if found:
        raise refused(found)
    return answers


def unanswered(problems: Iterable[tuple[str, str]]) -> Fault:
    """INVALID_ARGUMENT for what the statement found wrong: keys, each with a word of `claim_problems`."""
    return refused([(f"answers.{key}", _WORDS[problem]) for key, problem in problems])
