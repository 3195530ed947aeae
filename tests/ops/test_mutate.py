"""`./ops/mutate` kills mutants of a guard with the tests of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def mutate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops.proof.mutants", "--processes", "1", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


@pytest.mark.nightly
def test_mutants_of_a_statement_and_a_function_are_killed() -> None:
    names = ("codes.available ", "runtime.rules.draw.pick_certain: negate")
    done = mutate(*names, "--tests", "tests/sql/rewards/test_code_rows.py", "tests/unit/rules/test_draw.py")
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0 and last.startswith("mutants: ") and "(100.0 %), 0 invalid" in last, done.stdout
    verdicts = json.loads((ROOT / ".tombola" / "mutants.json").read_text())
    assert {kind for kind, _ in verdicts.values()} == {"killed"}


def test_name_without_mutants_fails() -> None:
    done = mutate("no_such.statement")
    assert (done.returncode, done.stdout) == (1, "no mutant to try\n")
