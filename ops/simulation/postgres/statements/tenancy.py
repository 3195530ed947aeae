"""sql/tenancy.sql: tenants and merchants."""

from __future__ import annotations

from typing import Any

from ops.simulation.postgres.values import like, newest, of, unix
from ops.simulation.postgres.vocabulary import NO_KEY_UPDATE, Result, Statement, statement


def _tenant(row: Any) -> dict[str, Any]:
    return {"id": row.tenant_id} | of(row, "name status", origins=list(row.origins), created_at=unix(row.created_at))


def _merchant(row: Any) -> dict[str, Any]:
    return {"id": row.merchant_id} | of(row, "tenant_id name status", created_at=unix(row.created_at))


@statement("tenancy.raise_catalog_version")
async def raise_catalog_version(st: Statement, tenant_id: str) -> Result:
    row = st.get("tenants", tenant_id)
    rows = await st.update([row] if row else [], lambda row: {"catalog_version": row.catalog_version + 1})
    return [of(row, "catalog_version") for row in rows]


@statement("tenancy.hold_catalog")
async def hold_catalog(st: Statement, tenant_id: str) -> Result:
    row = st.get("tenants", tenant_id)
    return [of(row, "tenant_id") for row in await st.lock([row] if row else [], NO_KEY_UPDATE)]


@statement("tenancy.insert_tenant")
async def insert_tenant(st: Statement, tenant_id: str, name: str, status: str, origins: list[str]) -> Result:
    values = {"tenant_id": tenant_id, "name": name, "status": status, "origins": tuple(origins)}
    return [_tenant(await st.insert("tenants", **values))]


@statement("tenancy.list_tenants")
def list_tenants(st: Statement, tenant_id: str, pattern: str, after: str | None, limit: int) -> Result:
    rows = [row for row in st.find("tenants") if tenant_id in ("", row.tenant_id) and like(row.name, pattern)]
    return [_tenant(row) for row in newest(rows, "tenant_id", after, limit)]


@statement("tenancy.get_tenant")
def get_tenant(st: Statement, tenant_id: str) -> Result:
    row = st.get("tenants", tenant_id)
    return [_tenant(row)] if row else []


@statement("tenancy.update_tenant")
async def update_tenant(st: Statement, tenant_id: str, name: str, status: str, origins: list[str]) -> Result:
    row = st.get("tenants", tenant_id)
    values = {"name": name, "status": status, "origins": tuple(origins)}
    return [_tenant(row) for row in await st.update([row] if row else [], values)]


@statement("tenancy.get_merchant")
def get_merchant(st: Statement, tenant_id: str, merchant_id: str) -> Result:
    row = st.get("merchants", tenant_id, merchant_id)
    return [_merchant(row)] if row else []


@statement("tenancy.update_merchant")
async def update_merchant(st: Statement, tenant_id: str, merchant_id: str, name: str, status: str) -> Result:
    row = st.get("merchants", tenant_id, merchant_id)
    return [_merchant(row) for row in await st.update([row] if row else [], {"name": name, "status": status})]


@statement("tenancy.suspended")
def suspended(st: Statement, tenant_id: str, merchant_id: str, player_id: str) -> Result:
    for kind, row in (
        ("tenant", st.get("tenants", tenant_id)),
        ("merchant", st.get("merchants", tenant_id, merchant_id)),
        ("player", st.get("players", tenant_id, player_id)),
    ):
        if row is not None and row.status == "suspended":
            return [{"case": kind}]
    return [{"case": None}]


@statement("tenancy.insert_merchant")
async def insert_merchant(st: Statement, tenant_id: str, merchant_id: str, name: str, status: str) -> Result:
    if st.get("tenants", tenant_id) is None:
        return []
    values = {"tenant_id": tenant_id, "merchant_id": merchant_id, "name": name, "status": status}
    return [_merchant(await st.insert("merchants", **values))]


@statement("tenancy.list_merchants")
def list_merchants(
    st: Statement, tenant_id: str, pattern: str, merchant_id: str, after: str | None, limit: int
) -> Result:
    rows = [
        row
        for row in st.find("merchants", tenant_id=tenant_id)
        if like(row.name, pattern) and merchant_id in ("", row.merchant_id)
    ]
    return [_merchant(row) for row in newest(rows, "merchant_id", after, limit)]


@statement("tenancy.has_merchant")
def has_merchant(st: Statement, tenant_id: str, merchant_id: str, asking: str) -> Result:
    found = st.get("merchants", tenant_id, merchant_id) is not None and asking in ("", merchant_id)
    return [{"exists": found}]
