"""Each fault of docs/reference/faults.md has a test."""

from __future__ import annotations

from ops.proof import faults
from ops.proof.faults import Proof, Row


def test_fault_has_a_test() -> None:
    assert faults.problems(faults.rows(), faults.proofs()) == []


def test_unknown_and_untested_faults_are_reported() -> None:
    assert faults.problems([Row("Stock race", "", "")], [Proof("Stock raze", "a::b", "1", "1")]) == [
        "no test is marked with 'Stock race'",
        "a::b is marked with 'Stock raze', an unknown fault",
    ]
