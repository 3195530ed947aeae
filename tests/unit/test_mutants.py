"""Mutants of statements and functions, the choice among them, and the report."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from pglast import parse_sql

from ops.proof.mutants import __main__ as command
from ops.proof.mutants import code, statements
from ops.proof.mutants.worker import Noted, Verdict
from runtime.actors.committer import statement

COMMIT = {one.name: one for one in statements.mutants() if one.target == "commit.commit"}


def test_statement_mutants_differ_from_the_original_and_parse() -> None:
    texts = statements.texts()
    for mutant in statements.mutants()[::15]:
        broken = mutant.apply(texts[mutant.target])
        assert parse_sql(broken) != parse_sql(texts[mutant.target]), mutant
        assert statements.name_of(broken) == mutant.target


def test_mutant_names_are_unique() -> None:
    names = [mutant.name for mutant in command.every()]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert len(names) > 1_000


@pytest.mark.parametrize(
    "place",
    [
        "refuse plays: widen c.plays > n.cap",
        "refuse plays: boundary c.plays > n.cap",
        "refuse plays: narrow n.exact AND c.plays < n.cap",
        "refuse stock: narrow (SELECT count(*) FROM taken) <> cardinality(CAST($9 AS stock_take[]))",
        "stock_held: narrow s.remaining >= n.quantity",
        "played: collide ON CONFLICT NOTHING",
        "guests_held: unlock FORSHARE",
        "guests_held: unsort ORDER BY p.player_id",
        "code_picks: unlock SKIP LOCKED",
        "code_picks: unlimit LIMIT w.wanted",
    ],
)
def test_each_guard_of_the_commit_has_mutants(place: str) -> None:
    assert f"commit.commit {place}" in COMMIT


def test_tenant_conditions_are_not_mutated() -> None:
    assert [name for name in COMMIT if name.endswith("tenant_id = $1")] == []


def test_mutant_of_a_part_leaves_a_commit_without_it_unchanged() -> None:
    mutant = COMMIT["commit.commit refuse plays: widen c.plays > n.cap"]
    with_plays, _ = statement(frozenset({"plays", "play_counts"}))
    without, _ = statement(frozenset({"grants"}))
    assert "c.plays > n.cap OR TRUE" in mutant.apply(with_plays)
    assert mutant.apply(without) == without


def test_function_mutant_replaces_the_code_in_the_running_process() -> None:
    """In a subprocess, because the mutation lasts."""
    (mutant,) = [one for one in code.mutants() if one.name == "runtime.rules.draw.pick_certain: negate index is None"]
    source = f"""
from ops.proof.mutants.code import Mutant
from runtime.rules.draw import pick_certain
before = pick_certain.__code__
Mutant{tuple(mutant)}.install(None)
print("mutated" if pick_certain.__code__ != before else "unchanged")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, cwd=code.ROOT)
    assert done.stdout == "mutated\n", done.stderr


def test_changed_selects_only_targets_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_old(path: str) -> str:
        text = statements.read_file(path)
        if path == "sql/wallet.sql":
            return text.replace("-- name: move\n", "-- name: move\nSELECT 1;\n", 1)
        return text.replace("def pick_certain(", "def pick_certain(changed, ") if path.endswith("draw.py") else text

    monkeypatch.setattr(command, "_reader_of_main", lambda: read_old)
    found = {mutant.target for mutant in command.chosen(command.parse(["--changed"]))}
    assert found == {"wallet.move", "runtime.rules.draw.pick_certain"}


def test_tests_that_killed_a_neighbour_run_first_then_short_and_narrow_ones() -> None:
    mutant, neighbour = [one for one in statements.mutants() if one.target == "wallet.move"][:2]
    narrow = frozenset({"wallet.move"})
    noted = {
        "tests/a.py::broad": Noted(0.1, narrow | {str(nth) for nth in range(400)}),
        "tests/a.py::long": Noted(9.0, narrow),
        "tests/b.py::short": Noted(0.1, narrow),
        "tests/b.py::of_another": Noted(0.1, frozenset({"wallet.list"})),
        "tests/c.py::killer": Noted(0.5, narrow),
    }
    tests = command.Tests(noted, budget_seconds=5.0)
    tests.learn(neighbour, "tests/c.py::killer")
    job = tests.job(mutant)
    assert job.tests == ("tests/c.py::killer", "tests/b.py::short", "tests/a.py::broad", "tests/a.py::long")


@pytest.mark.parametrize(
    ("second", "at_least", "status"),
    [("killed", 100, 0), ("hung", 100, 0), ("survived", 100, 1), ("untested", 100, 1), ("survived", 50, 0)],
)
def test_report_fails_below_the_wanted_share(
    second: str, at_least: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = list(COMMIT.values())[:2]
    verdicts = {one.name: Verdict("killed", "tests/a.py::test"), two.name: Verdict(second, "why")}
    assert command.report([one, two], verdicts, at_least) == status
    assert (f"{second}: {two.name} (why)" in capsys.readouterr().out) == (second in ("survived", "untested"))


def test_report_fails_if_nothing_was_tried() -> None:
    assert command.report(list(COMMIT.values())[:2], {}, at_least=0) == 1
