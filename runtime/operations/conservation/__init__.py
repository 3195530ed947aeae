"""Conservation: what is true of the rows at every moment, looked at all the time, and what was found to break it.

`checks` runs the statements of sql/conservation.sql and notes what they find. Two use it: the auditor, which goes
after what changes and around everything (runtime/streams/auditor.py), and `tombola audit`, which looks at everything
now. Staff see what was found, and close it.
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
