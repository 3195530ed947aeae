"""docs/faults.md names a test for each fault, and the rows of certify, as they themselves say it."""

from __future__ import annotations

import pytest

from ops.certification import rows as certification
from ops.certification.row import Row as Certified
from ops.certification.run import Run
from ops.proof import faults
from ops.proof.faults import Proof, Row

ROW = Row("Stock race", "200 players", "10 wins", "")


def test_each_fault_has_a_test_and_certify_makes_those_that_it_says() -> None:
    assert faults.problems(faults.rows(), faults.proofs(), certification.load()) == []


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
    assert faults.problems([ROW], [Proof(marked, "a::b", "1", "1", "")], {}) == found


@pytest.mark.parametrize(
    ("said", "of", "found"),
    [
        ({"race": "10 wins"}, "Stock race", []),
        ({}, "", []),
        ({}, "Stock race", ["certify's race is of 'Stock race', where it does not stand"]),
        ({}, "Stock raze", ["certify's race is of 'Stock raze', where it does not stand"]),
        ({"race": "10 wins"}, "", ["'Stock race' names certify's race, which is not of it"]),
    ],
)
def test_a_row_of_certify_that_its_fault_does_not_name_is_found(
    said: dict[str, str], of: str, found: list[str]
) -> None:
    async def race(run: Run) -> None: ...

    certified = {"race": Certified("race", of, 1, 1, "races", True, race)}
    proofs = [Proof("Stock race", "a::b", "1", "1", "")]
    assert faults.problems([ROW._replace(certified=said)], proofs, certified) == found
