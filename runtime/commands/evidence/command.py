"""`tombola verify`: checks a file that the service handed out, without a server or a secret."""

from __future__ import annotations

import sys
from pathlib import Path

from cyclopts import App

from runtime.commands.environment import EXIT_USE
from runtime.commands.evidence import receipts
from runtime.commands.evidence.findings import report
from runtime.commands.groups import VERIFY

app = App(name="verify", help=VERIFY)


@app.default
def verify(file: Path, /, *, commitment: str = "") -> None:
    """Check the receipt of a play, without a server: its hashes, its words, its outcome and its rewards.

    Prints a line per check: `ok`, `FAILED`, or `open` for what the file cannot decide. Exits with 1 if a check fails.

    Parameters
    ----------
    file
        The receipt, from GET /api/v1/plays/ID/receipt.
    commitment
        The commitment that the start returned, if you have kept it.
    """
    try:
        receipt = receipts.read_receipt(file.read_bytes())
        if receipt is None:
            raise ValueError(f"not {receipts.KIND}: it has no known format")
        findings = receipts.verify(receipt, commitment=commitment)
    except (OSError, ValueError) as error:
        print(f"tombola verify: {error}", file=sys.stderr)
        sys.exit(EXIT_USE)
    report(findings)
