"""The bench: its cases, ratios and report, and (nightly) a tiny run on its own stack."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ops.benchmarks.__main__ import chosen
from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Result, Run, ratio
from ops.benchmarks.cases import CASES
from ops.benchmarks.generator import read_requests, write_requests
from ops.benchmarks.report import rows

ROOT = Path(__file__).parents[2]


class Listed(Case):
    """A case whose runs are given."""

    def run(self, bench: Bench) -> Run:
        raise AssertionError("its runs are given")


def bench(tmp_path: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """(what it printed, its JSON) of a run that ended well."""
    path = tmp_path / "bench.json"
    command = [sys.executable, "-m", "ops.benchmarks", "--quick", "--seconds", "0.05", "--json", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(path.read_text())
    return done.stdout, said


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_plays_are_measured_beside_a_bare_handler_and_pgbench(tmp_path: Path) -> None:
    printed, said = bench(tmp_path, "--only", "hot")
    assert said["machine"]["fsync"] == "on"
    assert {"bare-get", "hot", "pgbench"} <= said["cases"].keys()
    hot = said["cases"]["hot"]
    assert [run["failed"] for run in hot["runs"]] == [0]
    assert hot["per_second"] > 0 and hot["cpu_seconds_per_1000"]["server"] > 0
    assert {one["to"] for one in hot["ratios"]} >= {"pgbench", "bare-get"}
    assert "NOT EXACT" not in printed


def test_case_brings_the_cases_it_is_compared_with() -> None:
    assert {case.name for case in chosen(["games-50"])} == {"games-50", "hot"}


def test_bench_page_names_every_case() -> None:
    page = (ROOT / "docs/reference/bench.md").read_text()
    assert [case.name for case in CASES if f"`{case.name}`" not in page] == []


def test_ratio_names_a_case() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
    assert {ratio.to for case in CASES for ratio in case.ratios} <= set(names)


def test_ratio_compares_runs_of_the_same_time() -> None:
    slow, fast = Listed(), Listed()
    slow.name, slow.title, slow.ratios = "slow", "slow", (Ratio("fast", least=0.4), Ratio("fast", most=1.5, cost=True))
    fast.name, fast.title = "fast", "fast"
    results = {
        # The machine was twice as fast later on: no ratio changes.
        "slow": Result(slow, [Run(50, 1.0, at=11), Run(100, 1.0, at=21)]),
        "fast": Result(fast, [Run(100, 1.0, at=10), Run(200, 1.0, at=20)]),
    }
    assert ratio(results["slow"], slow.ratios[0], results) == 0.5
    assert ratio(results["slow"], slow.ratios[1], results) == 2.0
    assert "0.50 x fast (>= 0.4 ok)" in rows(results)[0][-1]
    assert "2.00 x the cost of fast (<= 1.5 MISSED)" in rows(results)[0][-1]


def test_ratio_of_latencies_compares_the_99th_percentile() -> None:
    idle, hung = Listed(), Listed()
    hung.name, hung.title, hung.ratios = "hung", "hung", (Ratio("idle", most=1.1, p99=True),)
    idle.name, idle.title = "idle", "idle"
    results = {
        # By turns; the machine was busier later on, for both.
        "idle": Result(idle, [Run(50, 1.0, p99_ms=20.0, at=10), Run(50, 1.0, p99_ms=40.0, at=20)]),
        "hung": Result(hung, [Run(50, 1.0, p99_ms=24.0, at=11), Run(50, 1.0, p99_ms=48.0, at=21)]),
    }
    assert "1.20 x the p99 of idle (<= 1.1 MISSED)" in rows(results)[1][-1]
    assert hung.ratios[0].of(Run(50, 1.0), Run(50, 1.0, p99_ms=1.0)) is None


def test_requests_survive_the_file_that_the_generators_read(tmp_path: Path) -> None:
    requests = [b"GET / HTTP/1.1\r\n\r\n", b"", bytes(range(256)) * 300]
    write_requests(tmp_path / "requests", requests)
    assert read_requests(tmp_path / "requests") == requests
