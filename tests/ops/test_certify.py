"""`./ops/certify`: it chooses scenarios by their fault, and reports each in a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ops.certification.table import Table

ROOT = Path(__file__).parents[2]


def certify(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ops.certification", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=110)


def test_certify_runs_the_scenarios_of_a_fault(tmp_path: Path) -> None:
    done = certify("--quick", "--row", "ssrf", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = (tmp_path / "table.md").read_text().splitlines()[2:]
    assert rows and all(row.startswith("| SSRF | ") and row.endswith(" | yes |") for row in rows)
    assert (tmp_path / "junit.xml").exists()


def test_certify_of_an_unknown_fault_fails(tmp_path: Path) -> None:
    assert certify("--row", "nothing", "--out", str(tmp_path)).returncode == 5


def test_table_reports_a_failed_scenario_with_its_figures(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table([], tmp_path / "table.md")
    item = request.node
    item.add_marker(pytest.mark.fault("Core killed", small=1, full=50, unit="kills", figure=""))
    table.pytest_collection_modifyitems([item])
    properties = [("figure", "ready again 7 s (at most 5)")]
    for when, outcome in (("call", "failed"), ("teardown", "passed")):
        table.pytest_runtest_logreport(
            pytest.TestReport(item.nodeid, item.location, {}, outcome, "too late", when, user_properties=properties)
        )
    table.close()
    row = "| Core killed | 50 kills | ready again 7 s (at most 5) | 0 s | **no** |"
    assert (tmp_path / "table.md").read_text().splitlines()[2:] == [row]
    told = capsys.readouterr()
    assert "0 of 1 hold" in told.out and "too late" in told.err
