"""What every answer to a prize's questions is held to, before the database is asked which there are."""

from typing import Any

import pytest

from runtime.actors.answers import ANSWERS_MAX, LONG_TEXT_MAX, read, unanswered
from runtime.errors import Fault
from runtime.operations.reporting.exports import escape_formula


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        (None, {}),
        ({}, {}),
        ({"name": " Ann \n", "note": " \t ", "size": ""}, {"name": "Ann"}),
        ({"note": "x" * LONG_TEXT_MAX}, {"note": "x" * LONG_TEXT_MAX}),
        ({"note": "one\ntwo"}, {"note": "one\ntwo"}),
        (dict.fromkeys(map(str, range(ANSWERS_MAX)), "x"), dict.fromkeys(map(str, range(ANSWERS_MAX)), "x")),
    ],
)
def test_answers_are_taken_without_the_space_around_them(given: Any, answers: dict[str, str]) -> None:
    assert read(given) == answers


def violations_of(fault: Fault) -> list[tuple[str, str]]:
    return [(one["field"], one["description"]) for one in fault.facts["violations"]]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"name": 7, "size": None, "note": "fine"}, ["answers.name", "answers.size"]),
        ({"note": "x" * (LONG_TEXT_MAX + 1)}, ["answers.note"]),
        ({"name": "nul\0", "note": "\u202eeman"}, ["answers.name", "answers.note"]),
        (dict.fromkeys(map(str, range(ANSWERS_MAX + 1)), "x"), ["answers"]),
    ],
)
def test_wrong_answer_is_refused_at_its_key(given: Any, fields: list[str]) -> None:
    with pytest.raises(Fault) as refused:
        read(given)
    assert [field for field, _ in violations_of(refused.value)] == fields


def test_unknown_or_missing_answer_is_refused_in_words() -> None:
    problems = ("required", "unknown", "option", "long", "lines")
    found = violations_of(unanswered((key, key) for key in problems))
    assert [field for field, _ in found] == [f"answers.{key}" for key in problems]
    assert len({words for _, words in found}) == len(problems)


@pytest.mark.parametrize("first", "=+-@\t\r\uff1d\uff0b\uff0d\uff20")
def test_cell_that_a_spreadsheet_would_work_out_is_a_text(first: str) -> None:
    assert escape_formula(f"{first}1+1") == f"'{first}1+1"
