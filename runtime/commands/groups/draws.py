"""`tombola draws`: prize draws. `verify` checks an evidence file without a server; the others follow from the rows."""

from __future__ import annotations

import sys
from pathlib import Path

from runtime.commands.builder import app_of
from runtime.commands.environment import EXIT_USE
from runtime.commands.evidence import verify as findings_of

EXIT_REFUTED = 1

app = app_of("draws")


@app.command
def verify(file: Path, *, root: str = "") -> None:
    """Check the evidence file of a draw, without a server: its tickets, its random value and its winners.

    Exits with 1 if a check fails.

    Parameters
    ----------
    file
        The file, from GET /api/v1/draws/ID/file.
    root
        The Merkle root that was published when the draw was closed, if you have a copy.
    """
    try:
        findings = findings_of(file, root)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"tombola draws verify: {error}", file=sys.stderr)
        sys.exit(EXIT_USE)
    for finding in findings:
        print({True: "ok     ", False: "FAILED ", None: "open   "}[finding.ok] + finding.text)
    if any(finding.ok is False for finding in findings):
        sys.exit(EXIT_REFUTED)
