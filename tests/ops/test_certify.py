"""`./ops/certify`: it chooses scenarios by their fault, and reports each in a table."""

import subprocess
import sys
from pathlib import Path

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
