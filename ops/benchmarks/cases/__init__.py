"""Every case, in the order of the table."""

from typing import Final

from ops.benchmarks.case import Case
from ops.benchmarks.cases import delivery, followers, full, hung, idle, imports, memory, owned, pgbench, plays, raffle

CASES: Final[tuple[Case, ...]] = (
    *plays.BARE,
    *pgbench.CASES,
    *plays.CASES,
    *owned.CASES,
    *imports.CASES,
    *raffle.CASES,
    *full.CASES,
    *delivery.CASES,
    *hung.CASES,
    *memory.CASES,
    *idle.CASES,
    *followers.CASES,
)
