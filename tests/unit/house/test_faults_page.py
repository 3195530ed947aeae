"""Each fault of docs/reference/faults.md has a test."""

from __future__ import annotations

from ops.proof import faults


def test_fault_has_a_test() -> None:
    assert faults.problems(faults.rows(), faults.proofs()) == []
