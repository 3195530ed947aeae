"""sql/integrations.sql: who is told of events, and what became of each telling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ops.simulation.postgres.values import dumps, epoch, loads, newest, of, unix
from ops.simulation.postgres.vocabulary import KEY_SHARE, NO_KEY_UPDATE, SHARE, UPDATE, Result, Statement, statement

_TEN_MINUTES = 600 * 1_000_000


def _shown(row: Any) -> dict[str, Any]:
    return (
        of(row, "integration_id merchant_id campaign_id type")
        | {"events": list(row.events), "config": loads(row.config)}
        | {"status": row.status, "created_at": unix(row.created_at)}
    )


def _theirs(st: Statement, tenant_id: str, merchant_id: str, writing: bool) -> Callable[[Any], bool]:
    """Whether staff of a merchant may read, or write, an integration."""
    may = st.campaigns_of(tenant_id, merchant_id, writing)
    return lambda row: merchant_id in ("", row.merchant_id) or (row.merchant_id == "" and may(row.campaign_id))


def _seen(st: Statement, tenant_id: str, integration_id: str, merchant_id: str, writing: bool) -> list[Any]:
    row = st.get("integrations", tenant_id, integration_id)
    return [row] if row is not None and _theirs(st, tenant_id, merchant_id, writing)(row) else []


def _writable(st: Statement, tenant_id: str, campaign_id: str, merchant_id: str) -> bool:
    known = st.get("campaigns", tenant_id, campaign_id) is not None
    return known and st.theirs(tenant_id, merchant_id, True)(campaign_id)


@statement("integrations.insert")
async def insert(
    st: Statement,
    tenant_id: str,
    integration_id: str,
    merchant_id: str,
    campaign_id: str,
    type_name: str,
    events: list[str],
    config: Any,
    asking: str,
) -> Result:
    if campaign_id != "" and not _writable(st, tenant_id, campaign_id, asking):
        return []
    stored = dumps(config) or b"{}"
    await st.hold_keys_of_config(stored)
    row = await st.insert(
        "integrations",
        tenant_id=tenant_id,
        integration_id=integration_id,
        merchant_id=merchant_id,
        campaign_id=campaign_id,
        type=type_name,
        events=tuple(events),
        config=stored,
    )
    return [_shown(row)]


@statement("integrations.list")
def list_(
    st: Statement,
    tenant_id: str,
    type_name: str,
    campaign_id: str,
    status: str,
    merchant_id: str,
    after: str | None,
    limit: int,
) -> Result:
    theirs = _theirs(st, tenant_id, merchant_id, False)
    rows = [
        row
        for row in st.find("integrations", tenant_id=tenant_id)
        if type_name in ("", row.type)
        and campaign_id in ("", row.campaign_id)
        and status in ("", row.status)
        and theirs(row)
    ]
    return [_shown(row) for row in newest(rows, "integration_id", after, limit)]


@statement("integrations.delete")
async def delete(st: Statement, tenant_id: str, integration_id: str, merchant_id: str) -> Result:
    rows = _seen(st, tenant_id, integration_id, merchant_id, True)
    gone = await st.delete(rows, _theirs(st, tenant_id, merchant_id, True))
    for row in gone:
        own = {"tenant_id": tenant_id, "integration_id": row.integration_id}
        await st.delete(st.find("integration_deliveries", **own))
    return [_shown(row) for row in gone]


@statement("integrations.exists")
def exists(st: Statement, tenant_id: str, integration_id: str, merchant_id: str, writing: bool) -> Result:
    return [{"?column?": 1} for _ in _seen(st, tenant_id, integration_id, merchant_id, writing)]


@statement("integrations.get")
def get(st: Statement, tenant_id: str, integration_id: str, merchant_id: str, writing: bool) -> Result:
    return [_shown(row) for row in _seen(st, tenant_id, integration_id, merchant_id, writing)]


@statement("integrations.lock")
async def lock(st: Statement, tenant_id: str, integration_id: str) -> Result:
    row = st.get("integrations", tenant_id, integration_id)
    return [of(row, "integration_id") for row in await st.lock([row] if row else [], UPDATE)]


@statement("integrations.update")
async def update(
    st: Statement,
    tenant_id: str,
    integration_id: str,
    campaign_id: str,
    events: list[str],
    config: Any,
    status: str,
    asking: str,
) -> Result:
    def may(row: Any) -> bool:
        if campaign_id == "" and asking in ("", row.merchant_id):
            return True
        return campaign_id == row.campaign_id or _writable(st, tenant_id, campaign_id, asking)

    row = st.get("integrations", tenant_id, integration_id)
    if row is None or not may(row):
        return []
    stored = dumps(config) or b"{}"
    rows = await st.lock([row], NO_KEY_UPDATE, may)
    for held in rows:
        await st.hold_keys_of_config(stored, held.config)
    changed = await st.update(
        [row] if rows else [],
        lambda row: {
            "campaign_id": campaign_id,
            "events": tuple(events),
            "config": stored,
            "status": status,
            "heard_from": st.now if row.status == "paused" and status == "active" else row.heard_from,
        },
        may,
    )
    return [_shown(row) for row in changed]


@statement("integrations.active")
def active(st: Statement, tenant_id: str) -> Result:
    rows = st.find("integrations", tenant_id=tenant_id, status="active")
    return [
        of(row, "integration_id merchant_id campaign_id type")
        | {"events": list(row.events), "config": loads(row.config), "heard_from": epoch(row.heard_from)}
        for row in rows
    ]


@statement("integrations.campaign_merchant")
def campaign_merchant(st: Statement, tenant_id: str, campaign_id: str, merchant_id: str) -> Result:
    row = st.get("campaigns", tenant_id, campaign_id)
    return [of(row, "merchant_id")] if row and st.theirs(tenant_id, merchant_id, True)(campaign_id) else []


_NOTED = (
    "integration_id",
    "delivery_id",
    "event_id",
    "event_type",
    "status",
    "attempts",
    "event",
    "http_status",
    "error",
    "duration_ms",
    "pause",
    "answer",
)


@statement("integrations.note_deliveries")
async def note_deliveries(st: Statement, tenant_id: str, *args: Any) -> Result:
    *columns, delays, tried_seconds = args
    places = [dict(zip(_NOTED, place, strict=True)) for place in zip(*columns, strict=True)]
    found = [st.get("integrations", tenant_id, one) for one in sorted({n["integration_id"] for n in places})]
    held = await st.lock([row for row in found if row], KEY_SHARE)
    there = {row.integration_id for row in held}
    oldest = st.now - round(tried_seconds * 1_000_000)

    def told(d: Any, excluded: Any) -> dict[str, Any]:
        over = excluded.status == "retry" and d.created_at < oldest
        return {
            "status": "dead" if over else excluded.status,
            "event": excluded.event if d.event is None else d.event,
            "next_attempt_at": None if over else excluded.next_attempt_at,
        } | of(excluded, "attempts http_status error duration_ms answer")

    noted = 0
    for n in places:
        if n["integration_id"] not in there:
            continue
        nth, pause = max(n["attempts"], 1) - 1, n.pop("pause")
        waits = [wait for wait in (delays[nth] if nth < len(delays) else None, pause) if wait is not None]
        again = st.after(max(waits)) if n["status"] == "retry" and waits else None
        values = n | {"tenant_id": tenant_id, "next_attempt_at": again, "event": dumps(n["event"])}
        row = await st.upsert(
            "integration_deliveries",
            told,
            on=("tenant_id", "integration_id", "event_id"),
            where=lambda d: d.status != "delivered",
            **values,
        )
        noted += row is not None
    return noted


@statement("integrations.erased")
async def erased(st: Statement, tenant_id: str, player_ids: list[str]) -> Result:
    found = [st.get("players", tenant_id, one) for one in sorted(set(player_ids))]
    held = await st.lock([row for row in found if row], SHARE)
    return [of(row, "player_id", erased_at=unix(row.erased_at)) for row in held]


@statement("integrations.told")
def told(st: Statement, tenant_id: str, event_ids: list[str]) -> Result:
    rows = [
        row
        for event_id in dict.fromkeys(event_ids)
        for row in st.find("integration_deliveries", tenant_id=tenant_id, event_id=event_id)
        if st.get("integrations", tenant_id, row.integration_id) is not None
    ]
    return st.unordered([of(row, "integration_id event_id") for row in rows])


def _due(row: Any, now: int) -> bool:
    return bool(row.status == "retry" and row.next_attempt_at <= now)


@statement("integrations.tenants_with_retries")
def tenants_with_retries(st: Statement) -> Result:
    found = set()
    for row in st.find("integrations", status="active"):
        own = {"tenant_id": row.tenant_id, "integration_id": row.integration_id}
        if any(_due(one, st.now) for one in st.find("integration_deliveries", **own)):
            found.add(row.tenant_id)
    return st.unordered([{"tenant_id": tenant_id} for tenant_id in sorted(found)])


@statement("integrations.lease_retries")
async def lease_retries(
    st: Statement, tenant_id: str, integration_ids: list[str], rooms: list[int], seconds: float
) -> Result:
    taken: dict[str, Any] = {}
    for integration_id, room in st.unordered(list(zip(integration_ids, rooms, strict=True))):
        rows = st.find("integration_deliveries", tenant_id=tenant_id, integration_id=integration_id)
        due = sorted([row for row in rows if _due(row, st.now)], key=lambda row: row.next_attempt_at)
        held = await st.lock(due, UPDATE, lambda row: _due(row, st.now), skip=True, limit=room)
        # An integration that is named twice is given what is due once: the statement sees none of its own changes.
        taken.update({row.delivery_id: row for row in held})
    rows = await st.update(list(taken.values()), {"next_attempt_at": st.after(seconds)})
    return st.unordered(
        [of(row, "integration_id event_id event_type attempts", event=loads(row.event)) for row in rows]
    )


@statement("integrations.prune_deliveries")
async def prune_deliveries(st: Statement, tenant_id: str, integration_id: str, keep: int) -> Result:
    rows = st.find("integration_deliveries", tenant_id=tenant_id, integration_id=integration_id)
    newest_first = sorted((row.delivery_id for row in rows), reverse=True)
    if len(newest_first) <= keep:
        return 0
    mark = st.get("event_marks", tenant_id)
    before = (mark.told_until if mark else st.now) - _TEN_MINUTES

    def old(row: Any) -> bool:
        return bool(row.status != "retry" and row.created_at < before and row.delivery_id < newest_first[keep])

    return len(await st.delete([row for row in rows if old(row)], old))


@statement("integrations.list_deliveries")
def list_deliveries(
    st: Statement, tenant_id: str, integration_id: str, merchant_id: str, after: str | None, limit: int
) -> Result:
    rows = st.find("integration_deliveries", tenant_id=tenant_id, integration_id=integration_id)
    rows = [row for row in rows if _may_read(row, merchant_id)]
    names = "delivery_id integration_id event_id event_type status attempts http_status error duration_ms"
    return [
        of(row, names, event=loads(row.event), answer=row.answer)
        | {"next_attempt_at": unix(row.next_attempt_at), "created_at": unix(row.created_at)}
        for row in newest(rows, "delivery_id", after, limit)
    ]


@statement("integrations.delivery")
def delivery(st: Statement, tenant_id: str, integration_id: str, delivery_id: str, merchant_id: str) -> Result:
    row = st.get("integration_deliveries", tenant_id, integration_id, delivery_id)
    if row is None or not _may_read(row, merchant_id):
        return []
    return [of(row, "status attempts", event=loads(row.event), created_at=unix(row.created_at))]


def _may_read(row: Any, merchant_id: str) -> bool:
    """Whether a merchant's staff ("": the tenant's own) reads of the event."""
    return not merchant_id or (row.event is not None and loads(row.event).get("merchant_id") == merchant_id)
