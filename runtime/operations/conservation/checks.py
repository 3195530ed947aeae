"""Runs the checks of sql/conservation.sql and records violations.

A check reads resources of one kind by their keys. All checks of a kind read the same keys in one snapshot. A step takes
few keys (`STEP_KEYS`), so that no snapshot stays open for long.
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
from runtime import events, ids
from runtime.stores.database import Database

CONSERVATION: Final = sql.load("conservation")
_SQL: Final = sql.load("violations")

STEP_KEYS: Final = 100
"""Keys per snapshot while the duration of a step is unknown."""

WHOLE_KEYS: Final = 1_000
"""Keys per snapshot for a full audit."""

STEP_SECONDS_MAX: Final = 300.0
"""The statement timeout. Long, since a statement may count millions of rewards of a prize, or of a campaign's day."""

FOUND_MAX: Final = 200
"""The most violations that one step records per check. With more, none can be marked as gone."""

OPEN_MAX: Final = 1_000
"""The most open violations of a check in a tenant. Bounds the rows if everything is wrong."""

VIOLATIONS: Final = Counter("tombola_violations", "New violations found, by check.", ["check"])
SECONDS: Final = Counter("tombola_audit_seconds", "Time spent in checks, in seconds, by kind.", ["kind"])

log = structlog.get_logger(__name__)


class Check(NamedTuple):
    """One check. kind: the kind of the keys that it takes. holds: the invariant, as a sentence."""

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

KINDS: Final[tuple[str, ...]] = tuple(name.removeprefix("walk_") for name in CONSERVATION if name.startswith("walk_"))
"""The kinds of checked resources; each has a `walk_` statement that iterates over all keys."""

for _check in CHECKS.values():
    assert _check.kind in KINDS, f"{_check.name} checks a kind without a walk_ statement"
    VIOLATIONS.labels(_check.name)  # Create the series at 0: an increase alert misses one that appears later.
for _kind in KINDS:
    SECONDS.labels(_kind)


class Broken(NamedTuple):
    """A row that violates a check: the resource, the row within it, its owner, the expected and the found value."""

    check: str
    subject_id: str
    row_id: str
    scope_key: str
    expected: str
    found: str

    @property
    def deviation(self) -> str:
        """The difference, which stays the same when both sides grow; for other values, both.

        Of a number by chance only the direction: every play changes the difference.
        """
        if self.expected.startswith("about "):
            return "more" if int(self.found) > int(self.expected.split()[1]) else "fewer"
        try:
            return str(int(self.found) - int(self.expected.removeprefix("at most ")))
        except ValueError:
            return f"{self.found} for {self.expected}"


@dataclass(slots=True)
class StepResult:
    """The result of one step. at: by the database's clock. more: checks that found more than FOUND_MAX."""

    kind: str
    keys: list[str]
    at: datetime
    seconds: float = 0.0
    broken: dict[str, list[Broken]] = field(default_factory=dict)
    more: set[str] = field(default_factory=set)


async def run_checks(database: Database, tenant_id: str, kind: str, keys: Sequence[str]) -> StepResult:
    """Runs every check of the kind over these keys in one read-only snapshot."""
    began = time.perf_counter()
    async with database.connection() as connection:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            result = StepResult(kind, list(keys), await connection.fetchval("SELECT now()"))
            for check in CHECKS.values():
                if check.kind == kind:
                    rows = await connection.fetch(check.statement, tenant_id, result.keys, timeout=STEP_SECONDS_MAX)
                    result.broken[check.name] = [_broken(tenant_id, check, row) for row in rows[:FOUND_MAX]]
                    if len(rows) > FOUND_MAX:
                        result.more.add(check.name)
    result.seconds = time.perf_counter() - began
    SECONDS.labels(kind).inc(result.seconds)
    return result


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


async def record_result(database: Database, tenant_id: str, result: StepResult) -> list[events.Event]:
    """Stores the violations found, and marks those that have disappeared. Logs and counts each new one; returns their
    events. Those that are not published reach integrations by the backfill.
    """
    opened = []
    rows = await database.fetch(_SQL["still_violated"], tenant_id, list(result.broken), result.keys)
    known = {row["check_name"] for row in rows}
    for name, broken in result.broken.items():
        if not broken and name not in known:
            continue  # The usual case: no violations, neither found nor stored.
        columns = [
            [ids.make("violation") for _ in broken],
            [one.subject_id for one in broken],
            [one.row_id for one in broken],
            [one.scope_key for one in broken],
            [one.expected for one in broken],
            [one.found for one in broken],
            [one.deviation for one in broken],
        ]
        about = (tenant_id, name, result.keys, result.at)
        for row in await database.fetch(_SQL["record"], *about, *columns, OPEN_MAX, name not in result.more):
            opened.append(opened_event(tenant_id, row))
            VIOLATIONS.labels(name).inc()
            log.error(
                "conservation_violated",
                check=name,
                holds=CHECKS[name].holds,
                tenant_id=tenant_id,
                violation_id=row["id"],
                subject_id=row["subject_id"],
                row_id=row["row_id"],
                expected=row["expected"],
                found=row["found"],
            )
    return opened


def opened_event(tenant_id: str, row: Any) -> events.Event:
    """The event of a violation, from its row. The backfill makes the same one."""
    names = ("check", "subject_id", "row_id", "scope_key", "expected", "found")
    holds = CHECKS[row["check"]].holds if row["check"] in CHECKS else ""
    return events.event_of(
        events.ViolationOpened(violation_id=row["id"], holds=holds, **{name: row[name] for name in names}),
        occurred_at=row["at"].timestamp(),
        tenant_id=tenant_id,
        merchant_id=row["merchant_id"],
        campaign_id=row["campaign_id"],
        trace_id="",
    )


async def all_keys(database: Database, tenant_id: str, kind: str, after: str = "") -> AsyncIterator[list[str]]:
    while keys := await next_keys(database, tenant_id, kind, after, WHOLE_KEYS):
        yield keys
        after = keys[-1]


async def next_keys(database: Database, tenant_id: str, kind: str, after: str, count: int) -> list[str]:
    async with database.connection() as connection:
        rows = await connection.fetch(CONSERVATION[f"walk_{kind}"], tenant_id, after, count, timeout=STEP_SECONDS_MAX)
    return [row["id"] for row in rows]


def markdown() -> str:
    """The table of checks in docs/reference/audit.md."""
    rows = [f"| {check.kind} | `{check.name}` | {check.holds} |" for check in CHECKS.values()]
    return "\n".join(["| kind | check | invariant |", "| --- | --- | --- |", *rows]) + "\n"


Report = Callable[[str, str, int], None]
"""Called after each step with the tenant, the kind and the number of keys."""


async def audit(
    database: Database, tenant_id: str = "", report: Report = lambda tenant, kind, count: None
) -> tuple[int, set[str]]:
    """Audits all rows of one tenant or of all.

    Returns the number of new violations, and the checks that found more than they record.
    """
    fresh, more = 0, set[str]()
    for one in await database.tenants(_SQL["tenants"], tenant_id):
        for kind in KINDS:
            async for keys in all_keys(database, one, kind):
                result = await run_checks(database, one, kind, keys)
                fresh += len(await record_result(database, one, result))
                more |= result.more
                report(one, kind, len(keys))
    return fresh, more
