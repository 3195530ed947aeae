"""`ops/certify`: makes every fault of docs/faults.md on a stack of real processes, and judges what came of it."""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import structlog
import uvloop

from ops.certification import record
from ops.certification.report import listed, table, write_json, write_junit
from ops.certification.row import Row
from ops.certification.rows import CHECK, load
from ops.certification.run import Options, certify
from ops.certification.soak import soak


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ops/certify", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes: at most ten minutes")
    sizes.add_argument("--full", action="store_true", help="the sizes of docs/faults.md: about two hours (the default)")
    sizes.add_argument("--soak", type=float, metavar="HOURS", help="load for so long, with a fault now and then")
    sizes.add_argument("--check", action="store_true", help="some rows at small sizes: what every change has to pass")
    parser.add_argument("--row", nargs="+", default=[], metavar="NAME", help="only these rows")
    parser.add_argument("--list", action="store_true", help="print every row, and end")
    parser.add_argument("--json", type=Path, metavar="F", help="write what came of it to F")
    parser.add_argument("--junit", type=Path, metavar="F", help="write it to F as JUnit has it")
    parser.add_argument("--record", action="store_true", help="keep what came of rows at full size for docs/certify.md")
    parser.add_argument(
        "--keep",
        type=Path,
        default=Path("certify-failed"),
        metavar="DIR",
        help="where what failed is kept (%(default)s)",
    )
    parser.add_argument("--size", type=int, metavar="N", help="of every row, in place of its own")
    parser.add_argument("--seed", type=int, default=1, help="of what is random (%(default)s)")
    parser.add_argument("--simulate", action="store_true", help="simulate instead: see ops/certify --simulate --help")
    return parser.parse_args(arguments)


def main() -> None:
    """Exit status 1 where a row fails."""
    options = parse()
    # As Ctrl-C, by which the runner cancels what runs: an exception out of nowhere may be in a callback that another
    # task waits for, for good, and what was started is to be ended.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    rows = load()
    if options.list:
        print(listed(list(rows.values())))
        return
    if unknown := [name for name in options.row if name not in rows]:
        sys.exit(f"ops/certify: no row is called {', '.join(unknown)}; there are {', '.join(rows)}")
    chosen: list[Row] = [rows[name] for name in options.row or (CHECK if options.check else rows)]
    # The stores' clients of this process say when a store comes and goes, which is what is done to it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    directory = Path(tempfile.mkdtemp(prefix="tombola-certify-"))
    try:
        given = Options(not (options.quick or options.check), options.keep.resolve(), options.seed, options.size)
        runs = soak(options.soak, given, directory, _say) if options.soak else certify(chosen, given, directory, _say)
        results = uvloop.run(runs)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(f"\n{table(results)}", flush=True)
    if options.json:
        write_json(results, options.json)
    if options.junit:
        write_junit(results, options.junit)
    if options.record:
        record.keep(results, time.strftime("%Y-%m-%d", time.gmtime()), _commit())
    sys.exit(0 if all(one.ok for one in results) else 1)


def _commit() -> str:
    """The commit that is tried, abbreviated; "" where this is no repository."""
    asked = ["git", "-C", str(Path(__file__).parents[2]), "rev-parse", "--short=7", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    main()
