"""docs/faults.md names a test for each fault, as the tests themselves say it."""

from __future__ import annotations

import pytest

from ops.certification import rows as certification
from ops.proof import faults
from ops.proof.faults import Proof, Row

ROW = Row("Stock race", "200 players", "10 wins", "")


def test_each_fault_has_a_test() -> None:
    assert faults.problems(faults.rows(), faults.proofs()) == []


def test_what_is_certified_of_a_fault_is_a_row_of_it() -> None:
    said = [(name, row.name) for row in faults.rows() for name in row.certified]
    assert said
    certified = certification.load()
    assert [one for one in said if one[0] not in certified or certified[one[0]].fault != one[1]] == []


def test_the_page_is_made_of_them() -> None:
    assert (faults.ROOT / "docs/faults.md").read_text() == faults.page(), "run `python -m ops.generate`"


@pytest.mark.parametrize(
    ("marked", "found"),
    [
        ("Stock race", []),
        ("Stock raze", ["no test is marked with 'Stock race'", "a::b is marked with 'Stock raze', which is no row"]),
    ],
)
def test_a_row_without_a_test_and_a_mark_without_a_row_are_found(marked: str, found: list[str]) -> None:
    assert faults.problems([ROW], [Proof(marked, "a::b", "1", "1", "")]) == found
