"""The bench's report: a table for people, and JSON for machines."""

import json
import os
import platform
import re
import subprocess
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Result, ratio
from runtime import __version__

COLUMNS = (
    "case",
    "per second",
    "spread",
    "p50 ms",
    "p99 ms",
    "CPU s per 1,000",
    "trips pg / kv",
    "WAL bytes",
    "ratios",
)


def machine(bench: Bench) -> dict[str, Any]:
    """The machine and the software versions."""
    stack = bench.stack
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "python_build": python_build(),
        "postgres": stack.sql("SHOW server_version"),
        "fsync": stack.sql("SHOW fsync"),
        "fsync_ms": round(_fsync_ms(stack.directory), 3),
        "valkey": _valkey_version(bench),
        "tombola": __version__,
        "connections": bench.scale.connections,
        "players": bench.scale.players,
        "seconds": bench.scale.seconds,
        "rounds": bench.scale.rounds,
    }


def python_build() -> str:
    """Whether the interpreter was built with profile-guided optimization (PGO), by its recorded configure options.

    Debian's is, but does not record it.
    """
    options = str(sysconfig.get_config_var("CONFIG_ARGS"))
    return "PGO" if "--enable-optimizations" in options else "no PGO recorded"


def _fsync_ms(directory: Path) -> float:
    """The median time to write 8 KiB to the disk."""
    found = []
    with (directory / "fsync").open("wb") as file:
        for _ in range(51):
            file.write(bytes(8192))
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            found.append((time.perf_counter() - started) * 1000)
    return sorted(found)[len(found) // 2]


def _valkey_version(bench: Bench) -> str:
    assert bench.stack.servers.valkey is not None
    info = bench.stack.servers.valkey.command("INFO", "server").decode(errors="replace")
    found = re.search(r"valkey_version:(\S+)", info) or re.search(r"redis_version:(\S+)", info)
    return found[1] if found else "unknown"


def headline(facts: Mapping[str, Any]) -> str:
    """The machine in one line."""
    return (
        f"{facts['cores']} cores shared by all, {facts['memory_gib']} GiB; "
        f"Python {facts['python']} ({facts['python_build']}), PostgreSQL {facts['postgres']} "
        f"(fsync {facts['fsync']}, {facts['fsync_ms']} ms), Valkey {facts['valkey']}; "
        f"{facts['connections']} connections, {facts['players']:,} players; "
        f"medians of {facts['rounds']} runs of about {facts['seconds']:g} s"
    )


def others(results: Mapping[str, Result]) -> str:
    """The share of other processes during the measurements, which affects the figures."""
    found = [run.others for result in results.values() for run in result.runs if run.others is not None]
    if not found:
        return "not known"
    return f"{median(found):.0%} of the CPU time while it measured went to other processes (at most {max(found):.0%})"


def rows(results: Mapping[str, Result]) -> list[tuple[str, ...]]:
    """The table's rows as text, one per case with a run."""
    return [_row(result, results) for result in results.values() if result.runs]


def _row(result: Result, results: Mapping[str, Result]) -> tuple[str, ...]:
    rate = result.middle("per_second") or 0.0
    cpu = ", ".join(f"{name} {_short(value)}" for name, value in sorted(result.cpu_per_1000().items()) if value > 0)
    trips = [result.per_done("database_trips"), result.per_done("ephemeral_trips")]
    ratios = []
    for wanted in result.case.ratios:
        value = ratio(result, wanted, results)
        if value is None:
            continue
        verdict = {True: " ok", False: " MISSED", None: ""}[wanted.holds(value)]
        target = f" ({wanted.target}{verdict})" if wanted.target else ""
        ratios.append(f"{value:.2f} x {wanted.what}{wanted.to}{target}")
    failed = sum(run.failed for run in result.runs)
    note = f" [{result.runs[-1].note}]" if result.runs[-1].note else ""
    return (
        f"{result.case.title}{note}" + (f" ({failed} FAILED)" if failed else ""),
        f"{rate:,.0f} {result.case.unit}" if rate else "",
        f"{result.spread:.0%}" if len(result.runs) > 1 else "",
        *(_short(result.middle(of)) for of in ("p50_ms", "p99_ms")),
        cpu,
        " / ".join(_short(value) for value in trips) if None not in trips else "",
        _short(result.per_done("wal_bytes")),
        "; ".join(ratios),
    )


def _short(value: float | None) -> str:
    if not value:
        return "" if value is None else "0"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def notes(results: Mapping[str, Result]) -> list[str]:
    """What the table has no column for: facts and failures."""
    found = []
    for name, result in results.items():
        found += [f"{name}: {fact}" for fact in result.case.facts]
        found += [f"{name}: FAILED: {run.first_failure}" for run in result.runs if run.failed]
        if result.error:
            found.append(f"{name}: ERROR: {result.error}")
    return found


def show(console: Console, facts: Mapping[str, Any], results: Mapping[str, Result]) -> None:
    """Prints the table."""
    table = Table(*COLUMNS, title=headline(facts), title_justify="left", show_lines=True)
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    for note in notes(results):
        console.print(note, markup=False, highlight=False)
    console.print(others(results), markup=False, highlight=False)


def as_json(facts: Mapping[str, Any], results: Mapping[str, Result]) -> str:
    """All results, run by run."""
    cases = {
        name: {
            "title": result.case.title,
            "unit": result.case.unit,
            "per_second": result.middle("per_second"),
            "spread": result.spread,
            "p50_ms": result.middle("p50_ms"),
            "p99_ms": result.middle("p99_ms"),
            "cpu_seconds_per_1000": result.cpu_per_1000(),
            "database_trips_each": result.per_done("database_trips"),
            "ephemeral_trips_each": result.per_done("ephemeral_trips"),
            "wal_bytes_each": result.per_done("wal_bytes"),
            "ratios": [
                {
                    "to": wanted.to,
                    "of": wanted.what.strip(),
                    "value": value,
                    "target": wanted.target,
                    "holds": wanted.holds(value),
                }
                for wanted in result.case.ratios
                if (value := ratio(result, wanted, results)) is not None
            ],
            "runs": [asdict(run) for run in result.runs],
            "facts": result.case.facts,
            "error": result.error,
        }
        for name, result in results.items()
    }
    return json.dumps({"machine": dict(facts), "commit": _commit(), "cases": cases}, indent=2) + "\n"


def _commit() -> str:
    """The measured commit; "" outside a clone."""
    root = Path(__file__).parents[2]
    try:
        done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=root)
    except OSError:
        return ""
    return done.stdout.strip()
