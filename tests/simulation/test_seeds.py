"""The simulation over fixed seeds: nothing is violated, a seed replays to the byte, and what was mended is found again.

Seeds are tried some at a time, so that a runner with several processes shares them out. Each test runs in an
interpreter of its own, whose sets have a fixed order: a seed that fails here fails everywhere.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.simulation.faults import KINDS
from tests.simulation.broken import BROKEN
from tests.simulation.reverted import REVERTED, SEEDS

ROOT = Path(__file__).parents[2]
SEEDS_OF_THE_SUITE = 200
AT_A_TIME = 25
SECONDS_MAX = 1_500
"""A hang's, not a promise: each of these takes some seconds of a processor."""

FOUND_BY = {
    "counters_lost": "a player's counter counts the player's plays",
    "neighbours_look": "no error is logged",
    "zone_moved_west": "no error is logged",
    "late_for_a_merged_guest": "a guest that has become a player has nothing but its surplus",
}
"""What each is found by: how its name begins."""


def python(*arguments: str, expected: int = 0) -> str:
    """What `python arguments` prints. Its sets have a fixed order."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == expected, done.stdout[-8_000:] + done.stderr[-4_000:]
    return done.stdout


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("first", range(0, SEEDS_OF_THE_SUITE, AT_A_TIME))
def test_no_seed_violates_anything(first: int, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    python("-m", "ops.simulation", "--first", str(first), "--seeds", str(AT_A_TIME), "--json", str(summary))
    told = json.loads(summary.read_text())
    assert told["seeds"] == AT_A_TIME and told["failed"] == []
    assert told["simulated_seconds_a_second"] > 1_000


@pytest.mark.timeout(SECONDS_MAX + 10)
def test_every_kind_of_fault_is_met() -> None:
    source = f"""
from ops.simulation.run import plan_of, run
met = set()
for seed in range({SEEDS_OF_THE_SUITE}):
    if {{fault.kind for fault in plan_of(seed).faults}} - met:
        met.update(run(plan_of(seed)).faults)
print(*met)
"""
    assert set(python("-c", source).split()) == set(KINDS)


@pytest.mark.timeout(SECONDS_MAX + 10)
def test_a_seed_replays_to_the_byte() -> None:
    source = """
import hashlib
from ops.simulation.run import plan_of, run
for seed in (3, 5, 17):
    for _ in range(2):
        print(seed, hashlib.sha256(run(plan_of(seed)).history.encode()).hexdigest())
"""
    first, again = (python("-c", source).splitlines() for _ in range(2))
    assert first == again
    assert first[0] == first[1] and first[2] == first[3] and first[4] == first[5]
    assert len(set(first)) == 3


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("name", FOUND_BY)
def test_what_was_mended_is_found_where_it_comes_back(name: str) -> None:
    found: dict[str, Any] = json.loads(python("-m", "tests.simulation.reverted", name, "0", str(SEEDS)))
    assert found["seed"] is not None, f"not within {SEEDS} seeds"
    assert found["violation"].startswith(FOUND_BY[name]), found


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_on_purpose_is_found(name: str) -> None:
    found: dict[str, Any] = json.loads(python("-m", "tests.simulation.reverted", name, "0", str(SEEDS)))
    assert found["seed"] is not None, f"not within {SEEDS} seeds"
    assert found["violation"] == BROKEN[name][1], found


def test_every_mend_that_can_be_undone_is_tried() -> None:
    assert FOUND_BY.keys() == REVERTED.keys()
