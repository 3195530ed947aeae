"""The command line of `ops/bench`."""

import argparse
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from rich.console import Console

from ops.benchmarks import report
from ops.benchmarks.bench import Bench, Scale, run
from ops.benchmarks.case import Case
from ops.benchmarks.cases import CASES
from ops.servers.base import ServerError

ROOT: Final = Path(__file__).parents[2]
QUICK: Final = Scale(
    seconds=1.0,
    rounds=1,
    players=500,
    full_plays=100_000,
    idle_games=1_000,
    pool_codes=20_000,
    import_codes=20_000,
    draw_holders=5_000,
)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="ops/bench",
        description="Measures Tombola on a separate stack (embedded PostgreSQL with fsync on, Valkey, server and"
        " load in separate processes), and prints a table with ratios to a bare aiohttp handler and to pgbench.",
        epilog="Cases: " + ", ".join(case.name for case in CASES) + ".",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="CASE",
        help="this case and those it is compared with; repeatable",
    )
    parser.add_argument("--seconds", type=float, metavar="N", help="length of one run (default: 4; with --quick 1)")
    parser.add_argument(
        "--full-plays", type=int, metavar="N", help="past plays of `full` and `archived` (default: 3,000,000)"
    )
    parser.add_argument("--rounds", type=int, metavar="N", help="runs of each case (default: 3; with --quick 1)")
    parser.add_argument(
        "--quick", action="store_true", help="one short round over small data: a smoke test, not a measurement"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to FILE")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="directory for the data, on a real disk since fsync matters (default: below .tombola)",
    )
    options = parser.parse_args(arguments)
    unknown = set(options.only) - {case.name for case in CASES}
    if unknown:
        parser.error(f"unknown case: {', '.join(sorted(unknown))}; see --help")
    return options


def chosen(names: list[str]) -> list[Case]:
    """The cases with these names and those in their ratios; all if no name is given."""
    if not names:
        return list(CASES)
    wanted = set(names) | {ratio.to for case in CASES if case.name in names for ratio in case.ratios}
    return [case for case in CASES if case.name in wanted]


def scale_of(options: argparse.Namespace) -> Scale:
    """The scale of the measurement."""
    given = {name: getattr(options, name) for name in ("seconds", "rounds", "full_plays")}
    scale = QUICK if options.quick else Scale()
    return replace(scale, **{name: value for name, value in given.items() if value is not None})


def main() -> None:
    """Runs the bench. Exit status 1 if a case could not be measured."""
    options = parse()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    (ROOT / ".tombola").mkdir(exist_ok=True)
    directory = options.data or Path(tempfile.mkdtemp(prefix="bench-", dir=ROOT / ".tombola"))
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(directory.stat().st_mode | 0o011)  # as root, PostgreSQL runs as another account and must pass here
    console = Console(stderr=True)
    bench = Bench(directory.resolve(), scale_of(options))
    try:
        with console.status("starting PostgreSQL and Valkey") as status:

            def say(text: str) -> None:
                status.update(text)
                if not console.is_terminal:
                    console.print(text, highlight=False)

            bench.stack.start()
            facts = report.machine(bench)
            results = run(bench, chosen(options.only), say)
    except ServerError as error:
        sys.exit(f"ops/bench: {error}")
    except KeyboardInterrupt:
        sys.exit("ops/bench: stopped")
    finally:
        bench.stack.stop()
        if options.data is None:
            shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        options.json.write_text(report.as_json(facts, results))
    report.show(Console(width=None if sys.stdout.isatty() else 200), facts, results)
    if any(result.error for result in results.values()):
        sys.exit(1)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
