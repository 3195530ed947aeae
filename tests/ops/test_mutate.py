"""`./ops/mutate`: what is broken is noticed, by the tests that are known for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ops.proof.mutants import survivors
from ops.proof.mutants.statements import mutants

ROOT = Path(__file__).parents[2]


def mutate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops.proof.mutants", "--processes", "1", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_a_quick_run_kills_what_was_killed_and_leaves_the_score_alone() -> None:
    score = ROOT / "ops/proof/mutants/score.json"
    before = score.read_bytes()
    done = mutate("--quick", "codes.available", "runtime.outgoing.connector.check_url")
    of = [one for one in mutants("codes.available") if not one.of_tenant]
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("mutants: ") and "(100.0 %)" in last and "0 left" in last and "(100% of " in last, (
        done.stdout
    )
    assert len(of) < int(last.split()[1]) == int(last.split()[3])
    assert score.read_bytes() == before


def test_what_is_explained_is_tried_again_in_a_quick_run() -> None:
    explained = [one for one in mutants("claims.claim") if one.name in survivors.explained()]
    done = mutate("--quick", explained[0].name)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (
        0,
        "mutants: 0 of 0 killed, 1 explained, 0 left for want of time (100% of 1 tried)",
    ), done.stdout + done.stderr


def test_a_run_without_a_mutant_to_try_fails() -> None:
    done = mutate("--quick", "no_such.statement")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "no mutant was tried: this says nothing")
