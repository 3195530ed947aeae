"""Reconciliation: continuous checks of invariants over the rows, and the violations found.

`checks` runs the statements of sql/conservation.sql and records violations. It is used by the auditor, which checks
changed rows and cycles through all others (runtime/streams/auditor.py), and by `tombola audit`, which checks everything
at once. Staff list violations and close them.
"""

from __future__ import annotations

from typing import Final

from runtime.operations.conservation.violations import close_violation, list_violations
from runtime.operations.row import ADMINS, STAFF, Operation

ROWS: Final = (
    Operation("ListViolations", "GET /violations", run=list_violations, admin=STAFF),
    Operation(
        "CloseViolation",
        "POST /violations/{id}/close",
        run=close_violation,
        admin=ADMINS,
        refusals=("ILLEGAL_TRANSITION",),
        example={"reason": "The points were given by hand; entry_01kgk3wq puts them right."},
    ),
)
