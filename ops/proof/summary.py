"""What came of trying to break it, in a few lines: the table of the README between its marks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ops.certification import record, rows
from ops.proof.mutants import score

README: Final = Path(__file__).resolve().parents[2] / "README.md"

_MARKED: Final = re.compile(r"(?<=<!-- proof -->\n).*?(?=<!-- end of proof -->)", re.DOTALL)


def readme() -> str:
    """The README with the table as it is now."""
    text, count = _MARKED.subn(lambda _: f"{table()}\n", README.read_text())
    assert count == 1, "the README has one place for it"
    return text


def table() -> str:
    """A line of each proof that is kept."""
    every, known = rows.load(), record.read()
    held = sum(name in known and known[name].ok for name in every)
    ready = next((told for told in known["core-killed"].figures if "ready again" in told), "")
    _, mutants, killed, explained, alive, untried = score.total()
    lines = (
        "| Tried | Came to |",
        "|---|---|",
        f"| [{len(every)} faults](docs/certify.md) of real processes under load, at full size | {held} hold |",
        f"| {known['core-killed'].size} kills of a Core (SIGKILL) under load | {ready.partition(' [')[0]} |",
        f"| [{mutants:,} mutants](docs/mutants.md): guards and functions broken, one at a time "
        f"| {killed:,} noticed, {explained} explained, {alive} not, {untried:,} not tried yet |",
    )
    return "\n".join(lines)
