"""The table of a certification, with one row per finished scenario."""

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

HEAD = "| Fault | Size | Figures | Took | Holds |\n|---|---|---|---:|---|\n"


class Table:
    """A pytest plugin: selects the scenarios of the named faults, prints their rows, and writes them to a file."""

    def __init__(self, names: Sequence[str], file: Path, *, full: bool = True, listing: bool = False) -> None:
        self._names, self._file, self._full, self._listing = names, file, full, listing
        self._rows: list[str] = []
        self._failed = 0
        self._sizes: dict[str, tuple[str, str]] = {}
        self._phases: dict[str, list[Any]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [item for item in items if self._is_chosen(item)]
        items[:] = chosen
        for item in chosen:
            mark = _mark(item)
            assert mark is not None
            size = size_of(mark.kwargs)
            if "small" in mark.kwargs and not self._listing:
                size = f"{mark.kwargs['full' if self._full else 'small']:,} {mark.kwargs['unit']}"
            self._sizes[item.nodeid] = str(mark.args[0]), size
        if self._listing:
            print("\n".join(dict.fromkeys(f"{fault}: {size}" for fault, size in self._sizes.values())))

    def _is_chosen(self, item: pytest.Item) -> bool:
        mark = _mark(item)
        fault = mark.args[0].lower() if mark is not None else ""
        return bool(fault) and (not self._names or any(name.lower() in fault for name in self._names))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Prints the row when a test's last phase ends."""
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report)
        if report.when != "teardown":
            return
        fault, size = self._sizes[report.nodeid]
        outcomes = {phase.outcome for phase in phases}
        figures = "; ".join(str(value) for name, value in report.user_properties if name == "figure")
        holds = "**no**" if "failed" in outcomes else "not run" if "skipped" in outcomes else "yes"
        for phase in phases:
            if phase.outcome == "failed":
                print(phase.longreprtext, file=sys.stderr, flush=True)
        self._failed += "failed" in outcomes
        self._rows.append(f"| {fault} | {size} | {figures} | {sum(one.duration for one in phases):.0f} s | {holds} |")
        print(f"{time.strftime('%H:%M:%S')} {self._rows[-1]}", flush=True)
        self._file.write_text(HEAD + "\n".join(self._rows) + "\n")

    def close(self) -> None:
        """Prints how many scenarios hold."""
        if not self._listing:
            print(f"{len(self._rows) - self._failed} of {len(self._rows)} hold; see {self._file}")


def size_of(mark: Mapping[str, Any]) -> str:
    """The size of a scenario from its mark: "3 kills; full: 50"."""
    if "small" not in mark:
        return str(mark["size"])
    return f"{mark['small']:,} {mark['unit']}; full: {mark['full']:,}"


def _mark(item: pytest.Item) -> pytest.Mark | None:
    return item.get_closest_marker("fault")
