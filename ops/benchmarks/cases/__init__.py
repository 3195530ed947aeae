"""Every case, in the order of the table."""

from __future__ import annotations

from typing import Final

from ops.benchmarks.case import Case
from ops.benchmarks.cases import delivery, full, hung, memory, owned, pgbench, plays

CASES: Final[tuple[Case, ...]] = (
    *plays.BARE,
    *pgbench.CASES,
    *plays.CASES,
    *owned.CASES,
    *full.CASES,
    *delivery.CASES,
    *hung.CASES,
    *memory.CASES,
)
