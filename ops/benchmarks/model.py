"""Predicts the machines for a rate of plays, from the CPU and WAL of one play as the bench measured them.

    ./ops/bench --only split-1 --json bench.json
    .venv/bin/python -m ops.benchmarks.model bench.json 10000 100000 1000000

A play costs each process the same at every rate, so cores are rate x cost. That holds while batches stay as large as in
the measurement; they grow with the load, so the prediction is on the safe side. It predicts averages: not a single hot
game, whose limits it prints first.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

ROLES: Final = ("edge", "core", "postgres", "valkey")
RATES: Final = (10_000, 100_000, 1_000_000)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one play: CPU seconds by role, and bytes of WAL."""

    cpu_seconds: Mapping[str, float]
    wal_bytes: float

    @classmethod
    def of_case(cls, measured: Mapping[str, Any]) -> "Cost":
        """The cost in a case with one process per role (split-1)."""
        thousand = measured["cpu_seconds_per_1000"]
        return cls({role: thousand[role] / 1000 for role in ROLES}, measured["wal_bytes_each"])


@dataclass(frozen=True, slots=True)
class Prediction:
    """The machines for a rate. cores: by role; databases: primaries with a share of the tenants each."""

    per_second: int
    cores: Mapping[str, int]
    wal_mb_per_second: float
    databases: int


def predict(cost: Cost, per_second: int, *, utilisation: float, wal_mb: float, postgres_cores: int) -> Prediction:
    """Cores such that none is busier than `utilisation`, and primaries that stay below both of their limits."""
    cores = {role: _round_up(per_second * seconds / utilisation) for role, seconds in cost.cpu_seconds.items()}
    wal = per_second * cost.wal_bytes / 1e6
    databases = max(_round_up(wal / wal_mb), _round_up(cores["postgres"] / postgres_cores))
    return Prediction(per_second, cores, wal, databases)


def _round_up(number: float) -> int:
    return math.ceil(round(number, 6))  # 1.0000000001 is one.


def limits(cost: Cost, wal_mb: float) -> Iterator[str]:
    """The limits that more machines do not raise, lowest first."""
    stock, core = 1 / cost.cpu_seconds["postgres"], 1 / cost.cpu_seconds["core"]
    yield f"one limited stock, won by every play: {stock:,.0f} plays/s (one backend at a time)"
    yield f"one Core process: {core:,.0f} plays/s (one core)"
    yield f"one primary: {wal_mb * 1e6 / cost.wal_bytes:,.0f} plays/s ({cost.wal_bytes:,.0f} bytes of WAL a play)"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m ops.benchmarks.model", description=__doc__.partition("\n")[0])
    parser.add_argument("bench", type=Path, help="the file of ./ops/bench --json")
    parser.add_argument("rates", type=int, nargs="*", default=RATES, help="plays per second")
    parser.add_argument("--case", default="split-1", help="one with an edge and a Core process (default: %(default)s)")
    parser.add_argument("--utilisation", type=float, default=0.7, help="of a core, at most (default: %(default)s)")
    parser.add_argument("--wal-mb", type=float, default=200, help="WAL of a primary per second (default: %(default)s)")
    parser.add_argument("--postgres-cores", type=int, default=32, help="cores of a primary (default: %(default)s)")
    return parser.parse_args(arguments)


def main() -> None:
    """Prints the limits and the table."""
    options = parse()
    cost = Cost.of_case(json.loads(options.bench.read_text())["cases"][options.case])
    console = Console(width=None if sys.stdout.isatty() else 120)
    for line in limits(cost, options.wal_mb):
        console.print(line, highlight=False)
    table = Table("plays/s", *(f"{role} cores" for role in ROLES), "WAL MB/s", "databases")
    for rate in options.rates:
        found = predict(
            cost,
            rate,
            utilisation=options.utilisation,
            wal_mb=options.wal_mb,
            postgres_cores=options.postgres_cores,
        )
        cells = [*(f"{found.cores[role]:,}" for role in ROLES), f"{found.wal_mb_per_second:,.0f}", str(found.databases)]
        table.add_row(f"{rate:,}", *cells)
    console.print(table)


if __name__ == "__main__":
    main()
