import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.simulation.faults import KINDS

ROOT = Path(__file__).parents[2]
SEEDS = 24
SECONDS_MAX = 1_500

FOUND = {"counters_lost": (5, "no order explains plays and turns of", "the final rows have")}
FOUND |= {"neighbours_look": (400, "an error is logged", "operation_failed: KeyError('")}
FOUND |= {"zone_moved_west": (15, "an error is logged", "guard_contradicted: {'guard': 'plays'")}
FOUND |= {"zone_moved_east": (370, "no order explains plays and turns of", "none of these fits: plays daily")}
"""Of each reverted mend: the seed to begin with, since none before finds it; how the violation begins; what it says."""


def python(*arguments: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-4_000:]
    return done.stdout


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize(("first", "count"), [(0, SEEDS), pytest.param(SEEDS, 2_000, marks=pytest.mark.nightly)])
@pytest.mark.fault("Random walks", size="24 seeds", figure="no violation")
def test_seeds_violate_nothing(first: int, count: int, tmp_path: Path, module_database_url: str) -> None:
    summary = tmp_path / "summary.json"
    options = ("--first", str(first), "--seeds", str(count), "--database", module_database_url, "--json", str(summary))
    python("-m", "ops.simulation", *options)
    found: dict[str, Any] = json.loads(summary.read_text())
    assert found["seeds"] == count and found["failed"] == []
    assert found["faults"].keys() == set(KINDS), "every kind of fault is met"
    assert found["simulated_seconds_a_second"] > 1_000


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.fault("Random walks", size="3 seeds, twice each", figure="equal histories")
def test_seed_replays_to_the_byte() -> None:
    source = """
import hashlib
from ops.simulation.run import plan_of, run
for seed in (3, 5, 17):
    for _ in range(2):
        print(seed, hashlib.sha256(repr(run(plan_of(seed)).history).encode()).hexdigest())
"""
    first, again = (python("-c", source).splitlines() for _ in range(2))
    assert first == again
    assert first[0] == first[1] and first[2] == first[3] and first[4] == first[5]
    assert len(set(first)) == 3


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("name", FOUND)
def test_reverted_mend_is_found(name: str) -> None:
    first, violation, said = FOUND[name]
    found = json.loads(python("-m", "ops.simulation.reverted", name, str(first), str(first + 500)))
    assert found["seed"] is not None, "not within 500 seeds"
    assert found["violation"].startswith(violation) and said in found["found"], found


@pytest.mark.timeout(SECONDS_MAX + 10)
def test_auditor_looks_at_the_rows_of_a_run(module_database_url: str) -> None:
    source = """
import json, sys
from ops.simulation.auditing import Auditor
from ops.simulation.run import plan_of, run
auditor, looked = Auditor(sys.argv[1]), []
whole = auditor.check
def damaged(tenant, rows):
    looked.append(whole(tenant, rows))
    for table in ("ledger_entries", "stock", "plays", "rewards"):
        looked.append((whole(tenant, {**rows, table: rows[table][1:]}) or [None])[0])
    return looked[0]
auditor.check = damaged
run(plan_of(3), auditor=auditor)
print(json.dumps(looked))
"""
    sound, *found = json.loads(python("-c", source, module_database_url))
    assert sound is None
    assert None not in found
    assert found[0] == "audit, player_ledger_sum: The sum of a ledger is its balance."
