"""The dashboard's formatting of times and amounts, run by Node."""

import json
import os
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from runtime import web
from tests.support.browsing import REQUIRED

DASHBOARD = Path(web.__file__).parent / "dashboard"

TIMES = [
    ("2026-11-28T21:00Z", "2026-11-28T23:00Z", "UTC", "in 2 hours"),
    ("2026-11-28T22:00Z", "2026-11-29T23:00Z", "UTC", "tomorrow"),  # 25 hours.
    ("2026-11-28T08:00Z", "2026-11-29T23:00Z", "UTC", "tomorrow"),  # 39 hours, nearer to two days than to one.
    ("2026-11-28T22:00Z", "2026-11-29T23:00Z", "Europe/Berlin", "in 2 days"),  # 00:00 on the 30th there.
    ("2026-11-28T22:00Z", "2026-11-30T01:00Z", "UTC", "in 2 days"),  # 27 hours.
    ("2026-10-24T21:59Z", "2026-10-26T21:00Z", "Europe/Berlin", "in 2 days"),  # Over the end of summer time.
    ("2026-11-28T08:00Z", "2026-11-26T23:00Z", "UTC", "2 days ago"),  # 33 hours.
    ("2026-11-28T22:00Z", "2026-11-28T21:00:30Z", "UTC", "59 minutes ago"),
    ("2026-11-28T22:00:00Z", "2026-11-28T22:00:59Z", "UTC", ""),
]
AMOUNTS: list[tuple[list[dict[str, Any]], str]] = [
    ([], "0"),
    ([{"amount": 6, "currency": ""}], "6"),
    ([{"amount": 6, "currency": ""}, {"amount": 5.5, "currency": "EUR"}], "5.5\u00a0EUR and 6 without a currency"),
]


def run(script: str, folder: Path) -> Any:
    """The JSON that a script prints, with the dashboard's modules beside it."""
    if shutil.which("node") is None and not os.environ.get(REQUIRED):
        pytest.skip("there is no node to run the dashboard's modules")
    for name in ("relative_time.js", "words.js", "words/en.js"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(DASHBOARD / name, folder / name)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "script.js").write_text(script)
    shown = subprocess.run(["node", "script.js"], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return json.loads(shown.stdout)


def test_relative_time_counts_calendar_days_of_the_zone(tmp_path: Path) -> None:
    cases = [[datetime.fromisoformat(one).timestamp() for one in case[:2]] + [case[2]] for case in TIMES]
    script = 'import { relative } from "./relative_time.js";\n'
    script += f"console.log(JSON.stringify({json.dumps(cases)}.map(([now, at, zone]) => relative(at, now, zone))));"
    assert run(script, tmp_path) == [case[3] for case in TIMES]


def test_amounts_are_each_shown_with_their_currency(tmp_path: Path) -> None:
    script = 'import { moneys } from "./words.js";\n'
    script += f"console.log(JSON.stringify({json.dumps([costs for costs, _ in AMOUNTS])}.map((one) => moneys(one))));"
    assert run(script, tmp_path) == [shown for _, shown in AMOUNTS]
