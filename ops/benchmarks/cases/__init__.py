"""Every case, in the order of the table."""

from __future__ import annotations

from typing import Final

from ops.benchmarks.case import Case
from ops.benchmarks.cases import audit, delivery, edges, hung, memory, owned, pgbench, plays

CASES: Final[tuple[Case, ...]] = (
    *plays.BARE,
    *pgbench.CASES,
    *plays.CASES,
    *owned.CASES,
    *edges.CASES,
    *delivery.CASES,
    *hung.CASES,
    *audit.CASES,
    *memory.CASES,
)
