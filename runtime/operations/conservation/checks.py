"""The checks of sql/conservation.sql: which there are, how they are run, and how what they find is noted.

A check looks at things of a kind, by their keys. All checks of a kind look at the same keys by one snapshot, which is
held for as long as that takes: so there are few keys at a time (`STEP_KEYS`).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import Counter

import sql
from runtime import ids
from runtime.stores.database import Database

CONSERVATION: Final = sql.load("conservation")
_SQL: Final = sql.load("violations")

STEP_KEYS: Final = 100
"""How many things are looked at by one snapshot, where nothing is known of how long it takes."""

WHOLE_KEYS: Final = 1_000
"""The same, for who looks at everything at once."""

STEP_SECONDS_MAX: Final = 300.0
"""How long one statement may take: it counts a prize's rewards, or a campaign's day, of which there may be millions."""

FOUND_MAX: Final = 200
"""Violations of one check that one step notes. Of what is beyond it is not known what is gone."""

OPEN_MAX: Final = 1_000
"""Violations of one check that are open in a tenant: if everything is wrong, it need not all be written down."""

VIOLATIONS: Final = Counter("tombola_violations", "Violations found that were not known, by their check.", ["check"])
SECONDS: Final = Counter("tombola_audit_seconds", "Time that checks took, in seconds, by their kind.", ["kind"])

log = structlog.get_logger(__name__)


class Check(NamedTuple):
    """One check. kind: of the things whose keys it takes. holds: the sentence that must be true."""

    name: str
    kind: str
    holds: str
    statement: str


def _checks() -> dict[str, Check]:
    found = {}
    for name, query in CONSERVATION.described.items():
        kind = name.partition("_")[0]
        if kind not in ("walk", "changed"):
            holds = " ".join(query.doc.split()).partition(". ")[0].rstrip(".") + "."
            found[name] = Check(name, kind, holds, f"SELECT * FROM (\n{query.text}\n) AS v LIMIT {FOUND_MAX + 1}")
    return found


CHECKS: Final[Mapping[str, Check]] = _checks()
"""Every check by its name."""

KINDS: Final[tuple[str, ...]] = tuple(name.removeprefix("walk_") for name in CONSERVATION if name.startswith("walk_"))
"""The kinds of things that are looked at, each with a way around all of them."""

for _check in CHECKS.values():
    assert _check.kind in KINDS, f"{_check.name} looks at things that nothing walks over"
    VIOLATIONS.labels(_check.name)  # A series that appears only with its first event cannot be alerted on.
for _kind in KINDS:
    SECONDS.labels(_kind)


class Broken(NamedTuple):
    """A row that breaks a check: of which thing, what of it, whose it is, what it should be and is."""

    check: str
    subject_id: str
    row_id: str
    scope_key: str
    expected: str
    found: str

    @property
    def deviation(self) -> str:
        """By how much it is wrong, which stays the same where more is added to both sides; else how."""
        try:
            return str(int(self.found) - int(self.expected.removeprefix("at most ")))
        except ValueError:
            return f"{self.found} for {self.expected}"


@dataclass(slots=True)
class Looked:
    """What was found of some things of a kind. at: when, by the database's clock. more: checks that found too much."""

    kind: str
    keys: list[str]
    at: datetime
    seconds: float = 0.0
    broken: dict[str, list[Broken]] = field(default_factory=dict)
    more: set[str] = field(default_factory=set)


async def look(database: Database, tenant_id: str, kind: str, keys: Sequence[str]) -> Looked:
    """Runs every check of the kind over these things, by one snapshot; changes nothing."""
    began = time.perf_counter()
    async with database.connection() as connection:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            looked = Looked(kind, list(keys), await connection.fetchval("SELECT now()"))
            for check in CHECKS.values():
                if check.kind == kind:
                    rows = await connection.fetch(check.statement, tenant_id, looked.keys, timeout=STEP_SECONDS_MAX)
                    looked.broken[check.name] = [_broken(tenant_id, check, row) for row in rows[:FOUND_MAX]]
                    if len(rows) > FOUND_MAX:
                        looked.more.add(check.name)
    looked.seconds = time.perf_counter() - began
    SECONDS.labels(kind).inc(looked.seconds)
    return looked


def _broken(tenant_id: str, check: Check, row: Any) -> Broken:
    scope_key = row["scope_key"] or ""
    return Broken(
        check=check.name,
        subject_id=row["id"],
        row_id=row["row_id"] or "",
        scope_key="" if scope_key == tenant_id else scope_key,
        expected=row["expected"] or "",
        found=row["found"] or "",
    )


async def note(database: Database, tenant_id: str, looked: Looked) -> int:
    """Keeps what was found, and what is gone; how many are new. Each of these is logged and counted, once."""
    fresh = 0
    rows = await database.fetch(_SQL["any_there"], tenant_id, list(looked.broken), looked.keys)
    known = {row["check_name"] for row in rows}
    for name, broken in looked.broken.items():
        if not broken and name not in known:
            continue  # Nearly always: nothing is wrong, and nothing was.
        columns = [
            [ids.make("violation") for _ in broken],
            [one.subject_id for one in broken],
            [one.row_id for one in broken],
            [one.scope_key for one in broken],
            [one.expected for one in broken],
            [one.found for one in broken],
            [one.deviation for one in broken],
        ]
        about = (tenant_id, name, looked.keys, looked.at)
        for row in await database.fetch(_SQL["note"], *about, *columns, OPEN_MAX, name not in looked.more):
            fresh += 1
            VIOLATIONS.labels(name).inc()
            log.error(
                "conservation_violated",
                check=name,
                holds=CHECKS[name].holds,
                tenant_id=tenant_id,
                violation_id=row["violation_id"],
                subject_id=row["subject_id"],
                row_id=row["row_id"],
                expected=row["expected"],
                found=row["found"],
            )
    return fresh


async def everything(database: Database, tenant_id: str, kind: str, after: str = "") -> AsyncIterator[list[str]]:
    """The keys of all things of a kind, WHOLE_KEYS at a time."""
    while keys := await next_keys(database, tenant_id, kind, after, WHOLE_KEYS):
        yield keys
        after = keys[-1]


async def next_keys(database: Database, tenant_id: str, kind: str, after: str, count: int) -> list[str]:
    """The next keys of a kind, in their order."""
    async with database.connection() as connection:
        rows = await connection.fetch(CONSERVATION[f"walk_{kind}"], tenant_id, after, count, timeout=STEP_SECONDS_MAX)
    return [row["id"] for row in rows]


def markdown() -> str:
    """The checks as the table of docs/reference/audit.md."""
    rows = [f"| {check.kind} | `{check.name}` | {check.holds} |" for check in CHECKS.values()]
    return "\n".join(["| of each | check | what holds |", "| --- | --- | --- |", *rows]) + "\n"


Report = Callable[[str, str, int], None]
"""Hears of each step: the tenant, the kind, and how many things were looked at in it."""


async def audit(database: Database, tenant_id: str = "", report: Report = lambda tenant, kind, count: None) -> int:
    """Looks at everything of every tenant, or of one, now; how many violations are new."""
    fresh = 0
    for tenant in await database.fetch(_SQL["tenants"], tenant_id):
        for kind in KINDS:
            async for keys in everything(database, tenant["tenant_id"], kind):
                looked = await look(database, tenant["tenant_id"], kind, keys)
                fresh += await note(database, tenant["tenant_id"], looked)
                report(tenant["tenant_id"], kind, len(keys))
    return fresh
