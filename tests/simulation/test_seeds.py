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
from tests.simulation.damaged import DAMAGES
from tests.simulation.damaged import SEEDS as DAMAGED_SEEDS
from tests.simulation.reverted import REVERTED, SEEDS

FIRST = {"neighbours_look": 75, "callbacks_are_awaited_for_ever": 45, "retry_takes_no_stock": 15}
"""Where to begin, since none before finds it: so these take less of everybody's time."""

ROOT = Path(__file__).parents[2]
SEEDS_OF_THE_SUITE = 200
AT_A_TIME = 25
SECONDS_MAX = 1_500
"""A hang's, not a promise: each of these takes some seconds of a processor."""

FOUND_BY = {
    "counters_lost": ("a player's counter counts the player's plays", "(('game_"),
    "neighbours_look": ("no error is logged", "operation_failed: KeyError('player_"),
    "zone_moved_west": ("no error is logged", "guard_contradicted: {'guard': 'plays'"),
    "late_for_a_merged_guest": ("a guest that has become a player has nothing but its surplus", "("),
}
"""What each is found by: how its name begins, and what is told of it."""


def python(*arguments: str, expected: int = 0) -> str:
    """What `python arguments` prints. Its sets have a fixed order."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == expected, done.stdout[-8_000:] + done.stderr[-4_000:]
    return done.stdout


@pytest.fixture(scope="module")
def met() -> set[str]:
    """The kinds of faults that the seeds before have met."""
    return set()


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("first", range(0, SEEDS_OF_THE_SUITE, AT_A_TIME))
def test_no_seed_violates_anything(first: int, tmp_path: Path, module_database_url: str, met: set[str]) -> None:
    summary = tmp_path / "summary.json"
    told = ("--database", module_database_url, "--json", str(summary))
    python("-m", "ops.simulation", "--first", str(first), "--seeds", str(AT_A_TIME), *told)
    found = json.loads(summary.read_text())
    assert found["seeds"] == AT_A_TIME and found["failed"] == []
    assert found["simulated_seconds_a_second"] > 1_000
    met.update(found["faults"])
    if first + AT_A_TIME == SEEDS_OF_THE_SUITE:
        assert met == set(KINDS), "every kind of fault is met"


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
    found: dict[str, Any] = json.loads(
        python("-m", "tests.simulation.reverted", name, str(FIRST.get(name, 0)), str(SEEDS))
    )
    assert found["seed"] is not None, f"not within {SEEDS} seeds"
    name_begins, told_begins = FOUND_BY[name]
    assert found["violation"].startswith(name_begins) and found["found"].startswith(told_begins), found


@pytest.mark.timeout(SECONDS_MAX + 10)
@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_on_purpose_is_found(name: str) -> None:
    found: dict[str, Any] = json.loads(
        python("-m", "tests.simulation.reverted", name, str(FIRST.get(name, 0)), str(SEEDS))
    )
    assert found["seed"] is not None, f"not within {SEEDS} seeds"
    assert found["violation"] == BROKEN[name][1], found


@pytest.mark.timeout(SECONDS_MAX + 10)
def test_the_judge_finds_what_is_damaged_in_a_history_that_holds() -> None:
    found = json.loads(python("-m", "tests.simulation.damaged", "0", str(DAMAGED_SEEDS)))
    assert found.keys() == DAMAGES.keys(), "each could be done"
    wrong = {name: told for name, told in found.items() if not told["violation"].startswith(DAMAGES[name][1])}
    assert wrong == {}


def test_the_auditors_checks_look_at_the_rows(module_database_url: str) -> None:
    source = """
import json, sys
from ops.simulation.judging.auditing import Auditor
from ops.simulation.run import plan_of, run
auditor, looked = Auditor(sys.argv[1]), []
whole = auditor.look
def damaged(rows):
    looked.append(whole(rows))
    for table in ("ledger_entries", "leaderboard_standings", "stock"):
        found = whole({**rows, table: rows[table][1:]}) if rows[table] else None
        looked.append(found and found.name)
    return looked[0]
auditor.look = damaged
for seed in (3, 4):
    run(plan_of(seed), auditor=auditor)
print(json.dumps(looked))
"""
    sound, *damaged = json.loads(python("-c", source, module_database_url))
    assert sound is None
    assert "audit, player_ledger_sum: The sum of a ledger is its balance." in damaged


def test_every_mend_that_can_be_undone_is_tried() -> None:
    assert FOUND_BY.keys() == REVERTED.keys()
