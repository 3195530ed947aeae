"""What came of a run: the table, JSON for machines, JUnit for what runs the tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ops.certification.row import Result, Row


def table(results: Sequence[Result]) -> str:
    """Row by row with its figures, for people."""
    lines = []
    for result in results:
        lines.append(
            f"{result.said:7} {result.row.name:24} {result.size} {result.row.unit}, "
            f"{result.seconds:.0f} s, machine x {result.slowness:.2g}"
        )
        lines += [f"{'':8}{'' if figure.ok else 'FAILED: '}{figure.told()}" for figure in result.figures]
        if result.error or result.not_run:
            lines.append(f"{'':8}{result.error or result.not_run}")
        if result.kept:
            lines.append(f"{'':8}its history and all logs: {result.kept}")
    said = [result.said for result in results]
    left_out = f", {said.count('not run')} not run" if "not run" in said else ""
    seconds = sum(one.seconds for one in results)
    lines.append(f"{said.count('ok')} of {len(said)} rows hold{left_out}, {seconds:.0f} s")
    return "\n".join(lines)


def write_json(results: Sequence[Result], path: Path) -> None:
    """Everything that the table has."""
    path.write_text(
        json.dumps({"ok": all(one.ok for one in results), "rows": [_plain(one) for one in results]}, indent=2)
    )


def _plain(result: Result) -> dict[str, Any]:
    return {
        "name": result.row.name,
        "fault": result.row.fault,
        "size": result.size,
        "unit": result.row.unit,
        "ok": result.ok,
        "said": result.said,
        "not_run": result.not_run,
        "seconds": round(result.seconds, 1),
        "slowness": round(result.slowness, 2),
        "error": result.error,
        "kept": result.kept,
        "figures": [
            {name: getattr(figure, name) for name in ("name", "value", "unit", "bound", "ok", "slowness", "scaled")}
            for figure in result.figures
        ],
    }


def write_junit(results: Sequence[Result], path: Path) -> None:
    """A test case a row."""
    failed = sum(not one.ok for one in results)
    suite = ElementTree.Element("testsuite", name="certify", tests=str(len(results)), failures=str(failed))
    for result in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname="certify", name=result.row.name, time=f"{result.seconds:.1f}"
        )
        figures = "\n".join(figure.told() for figure in result.figures)
        if result.not_run:
            ElementTree.SubElement(case, "skipped", message=result.not_run)
        if not result.ok:
            missed = "; ".join(figure.told() for figure in result.figures if not figure.ok)
            ElementTree.SubElement(case, "failure", message=result.error or missed).text = f"{figures}\n{result.kept}"
        ElementTree.SubElement(case, "system-out").text = figures
    ElementTree.ElementTree(suite).write(path, encoding="unicode", xml_declaration=True)


def listed(rows: Sequence[Row]) -> str:
    """The rows as the table of docs/certify.md."""
    lines = ["| Row | Fault | What it does | Quick | Full |", "|---|---|---|---|---|"]
    lines += [f"| `{one.name}` | {one.fault} | {one.about} | {one.quick:,} | {one.full:,} {one.unit} |" for one in rows]
    return "\n".join(lines)
