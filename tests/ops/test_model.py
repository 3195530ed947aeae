import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ops.benchmarks import __main__ as bench
from ops.benchmarks import model
from ops.benchmarks.cases import CASES
from ops.benchmarks.model import Cost, predict

ROOT = Path(__file__).parents[2]
PAGES = ("explanation/scaling.md", "how-to/size-and-scale.md")


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_the_page_have_known_options_and_cases(name: str) -> None:
    page = (ROOT / "docs" / name).read_text()
    measured = re.findall(r"^ *\./ops/bench (.+)$", page, re.MULTILINE)
    predicted = re.findall(r"^ *\.venv/bin/python -m ops\.benchmarks\.model (.+)$", page, re.MULTILINE)
    assert measured and predicted
    for arguments in measured:
        bench.parse(shlex.split(arguments))
    for arguments in predicted:
        model.parse(shlex.split(arguments))


def test_tables_of_the_page_are_what_the_model_predicts() -> None:
    """From the costs in the page's first table to the cores in its second one."""
    page = (ROOT / "docs" / PAGES[0]).read_text()
    row = re.search(r"^\| [^|]*\(`split-1`\) \|(.+)\|$", page, re.MULTILINE)
    *cpu, wal, _ = [float(cell.replace(",", "")) for cell in row[1].split("|")]
    cost = Cost(dict(zip(model.ROLES, (one / 1e6 for one in cpu), strict=True)), wal)
    for rate in model.RATES:
        found = predict(cost, rate, utilisation=0.7, wal_mb=200, postgres_cores=32)
        cores = [f"{found.cores[role]:,}" for role in model.ROLES]
        cells = [f"{rate:,}", *cores, f"{found.wal_mb_per_second:,.0f}", str(found.databases)]
        assert "| " + " | ".join(cells) + " |" in page


def test_bench_page_names_every_case() -> None:
    assert [case.name for case in CASES if f"`{case.name}`" not in (ROOT / "docs/reference/bench.md").read_text()] == []


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_prediction_follows_from_a_run_of_the_bench(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    command = [sys.executable, "-m", "ops.benchmarks", "--quick", "--seconds", "0.5", "--only", "split-1"]
    subprocess.run([*command, "--json", file], cwd=ROOT, check=True, timeout=250)
    command = [sys.executable, "-m", "ops.benchmarks.model", file]
    assert "1,000,000" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
