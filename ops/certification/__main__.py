"""`./ops/certify`: causes every fault of docs/reference/faults.md at full size, and reports the results."""

import argparse
import os
import sys
from pathlib import Path

import pytest

from ops.certification.table import Table

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 3600
"""Time limit of one scenario at full size."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ops/certify", description=__doc__)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="small sizes, as in the suite")
    sizes.add_argument("--full", action="store_true", help="the sizes of docs/reference/faults.md (the default)")
    parser.add_argument("--row", nargs="+", default=[], metavar="NAME", help="only faults whose name contains NAME")
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".tombola" / "certify", metavar="DIR", help="directory for the results"
    )
    parser.add_argument("--simulate", action="store_true", help="simulate instead: see ops/certify --simulate --help")
    return parser.parse_args(arguments)


def main() -> None:
    """Exit status 1 if a scenario fails, 5 if none was selected."""
    options = parse()
    if not options.quick:
        os.environ["TOMBOLA_FULL"] = "1"
    os.environ["TOMBOLA_NIGHTLY"] = "1"
    os.chdir(ROOT)
    options.out.mkdir(parents=True, exist_ok=True)
    table = Table(options.row, options.out / "table.md", full=not options.quick, listing=options.list)
    marked = [str(path) for path in sorted(ROOT.glob("tests/**/test_*.py")) if "mark.fault" in path.read_text()]
    arguments = ["-p", "no:terminal", "-p", "no:xdist", f"--timeout={SECONDS_MAX}", *marked]
    if options.list:
        arguments.append("--collect-only")
    else:
        arguments.append(f"--junit-xml={options.out / 'junit.xml'}")
    status = pytest.main(arguments, plugins=[table])
    table.close()
    sys.exit(int(status))


if __name__ == "__main__":
    main()
