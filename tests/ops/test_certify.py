"""./ops/certify runs: a row in a tiny size, on its own stack. Times are the machine's business here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ops.certification import record, report
from ops.certification.row import Figure, Result
from ops.certification.rows import CHECK, load

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
def test_a_row_is_run_judged_and_told(tmp_path: Path) -> None:
    told, junit = tmp_path / "told.json", tmp_path / "told.xml"
    command = [sys.executable, "-m", "ops.certification", "--row", "core-killed", "--size", "1"]
    command += ["--json", str(told), "--junit", str(junit), "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=280)
    (row,) = json.loads(told.read_text())["rows"]
    figures = {figure["name"]: figure for figure in row["figures"]}
    assert row["error"] == "", done.stdout + done.stderr
    assert figures["plays"]["value"] >= 20
    assert figures["conservation"]["ok"] and figures["unexplained"]["ok"]
    assert "ready again, at worst" in done.stdout
    assert done.returncode == (0 if row["ok"] else 1)
    assert [case.get("name") for case in ElementTree.parse(junit).iter("testcase")] == ["core-killed"]


def test_every_row_is_listed_and_an_unknown_one_refused() -> None:
    command = [sys.executable, "-m", "ops.certification"]
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert listed.returncode == 0 and "| `core-killed` |" in listed.stdout
    refused = subprocess.run([*command, "--row", "nothing"], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert refused.returncode == 1 and "no row is called nothing" in refused.stderr


def test_what_every_change_has_to_pass_are_rows() -> None:
    assert set(CHECK) <= load().keys() and len(set(CHECK)) == len(CHECK)


def test_a_row_that_cannot_be_run_is_neither_held_nor_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    full, killed = load()["postgres-disk-full"], load()["core-killed"]
    results = [Result(full, full.full, not_run="no file system may be mounted"), Result(killed, 1)]
    record.keep(results, "2026-01-02", "abc1234")
    assert record.read() == {}
    lines = report.table(results).splitlines()
    assert lines[0].startswith("not run postgres-disk-full ") and lines[1].endswith("no file system may be mounted")
    assert lines[-1] == "1 of 2 rows hold, 1 not run, 0 s"
    report.write_junit(results, tmp_path / "junit.xml")
    skipped = [one.find("skipped") is not None for one in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")]
    assert skipped == [True, False]


def test_what_rows_came_to_at_their_whole_size_is_kept_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "FILE", tmp_path / "record.json")
    rows = load()
    killed, paused = rows["core-killed"], rows["process-paused"]
    late = Figure("ready again, at worst", 7.25, "s", "at most 5", ok=False, slowness=1.5)
    record.keep([Result(killed, killed.full, [late], 200.4), Result(paused, 1, [], 20.0)], "2026-01-02", "abc1234")
    record.keep([Result(paused, paused.full, [], 90.0, error="TimeoutError: ")], "2026-01-03", "abc1235")
    lines = record.table(["core-killed", "process-paused", "poison"], record.read()).splitlines()[2:]
    assert lines == [
        "| `core-killed` | 50 kills | 200 s, machine x 1 | 2026-01-02, abc1234 | **no** "
        "| FAILED: ready again, at worst 7.25 s (at most 5) [machine x 1.5] |",
        "| `process-paused` | 5 pauses of each | 90 s, machine x 1 | 2026-01-03, abc1235 | **no** | TimeoutError:  |",
        "| `poison` | | | never | | |",
    ]
