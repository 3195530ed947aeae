"""Idle Core processes: the statements that they send with many tenants."""

import time
from typing import Final

from ops.benchmarks.bench import Bench
from ops.benchmarks.case import Case, Ratio, Run

DATABASE: Final = "bench_idle"
VALKEY_DB: Final = 10
TENANTS: Final = 500
WARM_SECONDS: Final = 25.0
"""Longer than the intervals of the jobs: each has run once, and has its lease."""

WINDOW: Final = 15.0
"""The measured time, as a multiple of the length of other runs: 60 s, which every job's interval divides."""

_TENANTS: Final = f"""
    INSERT INTO tenants (tenant_id, name)
    SELECT 'tenant_' || n, 'Tenant ' || n FROM generate_series(1, {TENANTS}) AS n ON CONFLICT DO NOTHING
"""


class IdleCores(Case):
    """Starts some Core processes on a database with TENANTS tenants and counts the statements in PostgreSQL's log."""

    unit = "statements"
    once = True

    def __init__(self, name: str, title: str, ratios: tuple[Ratio, ...] = (), *, cores: int) -> None:
        super().__init__()
        self.name, self.title, self.ratios, self._cores = name, title, ratios, cores

    def prepare(self, bench: Bench) -> None:
        if bench.stack.sql(f"SELECT count(*) FROM pg_database WHERE datname = '{DATABASE}'") == "0":
            bench.stack.make_database(DATABASE)
        bench.stack.sql(_TENANTS, DATABASE)
        bench.stack.sql(f"ALTER DATABASE {DATABASE} SET log_statement = 'all'", DATABASE)

    def run(self, bench: Bench) -> Run:
        cores = [
            bench.stack.serve("core", f"core {number}", database=DATABASE, valkey_db=VALKEY_DB)
            for number in range(1, self._cores + 1)
        ]
        try:
            time.sleep(WARM_SECONDS)
            before, began = bench.stack.postgres.statements(), time.monotonic()
            time.sleep(WINDOW * bench.scale.seconds)
            return Run(done=bench.stack.postgres.statements() - before, seconds=time.monotonic() - began)
        finally:
            for core in cores:
                bench.stack.end(core)


CASES: Final[tuple[Case, ...]] = (
    IdleCores("idle-cores-1", f"statements of an idle Core, with {TENANTS} tenants", cores=1),
    IdleCores("idle-cores-4", "the same of four idle Cores", (Ratio("idle-cores-1", most=1.2),), cores=4),
)
