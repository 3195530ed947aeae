"""A prize's release schedule: checks, stored form, and the secret seed.

Stored: the terms (runtime/rules/release.py), the key and nonce that the seed derives from, the commitment, and the
notary's copy. A change of the terms makes a new seed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

import asyncpg

import sql
from runtime import messages as m
from runtime.actors import sealed_seeds
from runtime.actors.engine import Engine
from runtime.actors.game.releases import seed_purpose
from runtime.actors.game.state import POINTS
from runtime.errors import invalid
from runtime.operations.checks import TIME_MAX, Checks, is_timezone
from runtime.operations.prizes.stock import COUNT_MAX
from runtime.rules.release import KINDS, SEALED, TIMES, OpenTime, commitment, opening
from runtime.rules.sealing import sealed
from runtime.settings import Key

_SQL: Final = sql.load("prizes")

NONE: Final = "NONE"
SPAN_SECONDS_MAX: Final = 2 * 366 * 86_400
SEALED_UNITS_MAX: Final = 10_000
"""A game computes all instants when it loads its prizes: some 20 ms for as many."""
WEEKDAYS: Final = range(1, 8)

Later: TypeAlias = Callable[[int], int]
"""Moves a time (unix seconds)."""


def fill_defaults(prize: m.Prize) -> None:
    """Removes a release of kind NONE, and fills in units and time zone."""
    release = prize.release
    if release is None or release.kind == NONE:
        prize.release = None
    elif release.kind == TIMES:
        release.units = release.units or sum(one.units for one in release.times)
    else:
        release.units = release.units or (prize.stock.total if prize.stock else 0)
        release.timezone = release.timezone or "UTC"


def check(checks: Checks, prize: m.Prize) -> None:
    """Adds the problems of a release with its defaults filled in. The codec has checked the sizes of its lists."""
    release = prize.release
    if release is None or not _check_ranges(checks, release):
        return
    if release.kind not in KINDS:
        checks.problem("release.kind", f"must be one of {', '.join(KINDS)} or {NONE}")
        return
    total = prize.stock.total if prize.stock else 0
    if prize.type == POINTS:
        checks.problem("release", "must be omitted: points have no stock")
    elif not total:
        checks.problem("stock.total", "must be set: a release frees units of a limited stock")
    else:
        checks.between("release.units", release.units, 1, total)
    if release.kind == TIMES:
        _check_times(checks, release)
    else:
        _check_span(checks, release)


def _check_ranges(checks: Checks, release: m.PrizeRelease) -> bool:
    """Whether each number is possible on its own."""
    before = len(checks.found)
    checks.between("release.units", release.units, 0, COUNT_MAX)
    for name in ("starts_at", "ends_at"):
        checks.between(f"release.{name}", getattr(release, name), 0, TIME_MAX)
    for index, one in enumerate(release.times):
        checks.between(f"release.times[{index}].at", one.at, 1, TIME_MAX)
        checks.between(f"release.times[{index}].units", one.units, 1, COUNT_MAX)
    for index, hours in enumerate(release.hours):
        path = f"release.hours[{index}]"
        checks.between(f"{path}.from_hour", hours.from_hour, 0, 23)
        checks.between(f"{path}.to_hour", hours.to_hour, 1, 24)
        if not hours.weekdays or any(day not in WEEKDAYS for day in hours.weekdays):
            checks.problem(f"{path}.weekdays", "must be numbers from 1 (Monday) to 7 (Sunday)")
        elif hours.from_hour >= hours.to_hour:
            checks.problem(f"{path}.to_hour", "must be after from_hour")
    return len(checks.found) == before


def _check_times(checks: Checks, release: m.PrizeRelease) -> None:
    for name in ("starts_at", "ends_at", "hours"):
        if getattr(release, name):
            checks.problem(f"release.{name}", "must be omitted for TIMES")
    if not release.times:
        checks.problem("release.times", "is required")
    elif release.units != sum(one.units for one in release.times):
        checks.problem("release.units", "must be the sum of the units of `times`")


def _check_span(checks: Checks, release: m.PrizeRelease) -> None:
    if release.times:
        checks.problem("release.times", "must be omitted, except for TIMES")
    if release.kind == SEALED and release.units > SEALED_UNITS_MAX:
        checks.problem("release.units", f"must be at most {SEALED_UNITS_MAX} for SEALED")
    if not release.starts_at:
        checks.problem("release.starts_at", "is required")
    if not is_timezone(release.timezone):
        checks.problem("release.timezone", "must be an IANA time zone such as Europe/Berlin")
    elif not 0 < release.ends_at - release.starts_at <= SPAN_SECONDS_MAX:
        checks.problem("release.ends_at", "must be after starts_at, by at most two years")
    elif not OpenTime(_terms(release)).total:
        checks.problem("release.hours", "must include some time between starts_at and ends_at")


def _terms(release: m.PrizeRelease) -> dict[str, Any]:
    terms: dict[str, Any] = {"kind": release.kind, "units": release.units}
    if release.kind == TIMES:
        return terms | {"times": [[one.at, one.units] for one in release.times]}
    terms |= {"starts_at": release.starts_at, "ends_at": release.ends_at, "timezone": release.timezone}
    hours = [[sorted(set(one.weekdays)), one.from_hour, one.to_hour] for one in release.hours]
    return terms | ({"hours": hours} if hours else {})


def stored(
    engine: Engine, tenant_id: str, prize_id: str, release: m.PrizeRelease | None, before: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The column. Unchanged terms keep their seed."""
    if release is None:
        return None
    terms = _terms(release)
    if before is not None and before["terms"] == terms:
        return dict(before)
    key, nonce = engine.keyring.server[0], secrets.token_hex(16)
    seed = sealed_seeds.derived(key, *seed_purpose(tenant_id, prize_id, nonce))
    promised = commitment(opening(prize_id, terms, seed))
    column = {"terms": terms, "key_id": key.id, "nonce": nonce, "commitment": promised}
    notary_key = engine.settings.notary_key
    if notary_key and release.kind == SEALED:
        column["notary_copy"] = sealed({"opening": opening(prize_id, terms, seed)}, notary_key)
    return column


def moved(engine: Engine, tenant_id: str, prize_id: str, column: Mapping[str, Any], later: Later) -> dict[str, Any]:
    """The column of a copy, with its own seed and later times.

    INVALID_ARGUMENT if none of its `hours` would be open: on other weekdays, or across a clock change.
    """
    release = message(column)
    assert release is not None
    if release.kind != TIMES:
        release.starts_at, release.ends_at = later(release.starts_at), later(release.ends_at)
        if release.ends_at <= release.starts_at or not OpenTime(_terms(release)).total:
            raise invalid("start_date", "would leave a prize's release without open hours: choose the same weekday")
    for one in release.times:
        one.at = later(one.at)
    copied = stored(engine, tenant_id, prize_id, release, None)
    assert copied is not None
    return copied


async def promise(
    connection: asyncpg.Connection, tenant_id: str, prize_id: str, column: Mapping[str, Any] | None
) -> None:
    """Keeps the release, so that it can be opened even if it is replaced or its prize is deleted."""
    if column is not None:
        await connection.execute(_SQL["promise_release"], tenant_id, prize_id, column)


def message(column: Mapping[str, Any] | None) -> m.PrizeRelease | None:
    """The release of a stored prize, without its opening."""
    if column is None:
        return None
    terms = dict(column["terms"])
    times = [m.ReleaseTime(at=at, units=units) for at, units in terms.pop("times", ())]
    hours = [
        m.ReleaseHours(weekdays=weekdays, from_hour=first, to_hour=end)
        for weekdays, first, end in terms.pop("hours", ())
    ]
    promised = {name: column[name] for name in ("commitment", "notary_copy") if name in column}
    return m.PrizeRelease(**terms, times=times, hours=hours, **promised)


async def openings(engine: Engine, tenant_id: str, commitments: Collection[str]) -> list[str]:
    """The openings of these commitments whose last unit is free."""
    if not commitments:
        return []
    rows = await engine.database.fetch(_SQL["promised_releases"], tenant_id, sorted(commitments))
    keys, now = engine.keyring.server, engine.clock.now()
    found = [opened(keys, tenant_id, row["prize_id"], row["release"], now) for row in rows]
    return [document for document in found if document]


def opened(keys: tuple[Key, ...], tenant_id: str, prize_id: str, column: Mapping[str, Any] | None, now: float) -> str:
    """The opening of a release whose last unit is free; "" before, and if its key is no longer configured."""
    if column is None or now < ends_at(column["terms"]) or column["key_id"] not in {key.id for key in keys}:
        return ""
    seed = sealed_seeds.opened(keys, column["key_id"], *seed_purpose(tenant_id, prize_id, column["nonce"]))
    return opening(prize_id, column["terms"], seed)


def ends_at(terms: Mapping[str, Any]) -> int:
    """When the last unit becomes free, at the latest."""
    at: int = max(at for at, _ in terms["times"]) if terms["kind"] == TIMES else terms["ends_at"]
    return at
