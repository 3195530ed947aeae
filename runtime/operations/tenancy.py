"""Tenants and the merchants within them.

Whether a caller may make or see tenants is the edge's question (role `platform`); here a list with a
tenant in its scope shows that one alone.
"""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import unknown
from runtime.operations import audit, catalog, reading
from runtime.operations.checks import Checks, given, refuse_read_only, search_pattern, set_fields
from runtime.operations.idempotent_writes import create
from runtime.operations.row import ADMINS, PLATFORM_ALONE, STAFF, STAFF_OR_PLATFORM, Command, Operation
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("tenancy")

SETTABLE: Final = frozenset({"name", "status"})
"""Of a merchant; a tenant has `origins` beside them."""


async def create_tenant(engine: Engine, request: m.CreateTenantRequest) -> m.TenantReply:
    """A new tenant, active unless it says otherwise."""
    tenant = given(request.tenant, "tenant")
    refuse_read_only(tenant, m.Tenant())
    _check(tenant)
    status = token(tenant.status, "active")

    async def work(connection: asyncpg.Connection) -> m.TenantReply:
        tenant_id = ids.make("tenant")
        row = await connection.fetchrow(_SQL["insert_tenant"], tenant_id, tenant.name, status, tenant.origins)
        assert row is not None
        await audit.record(connection, tenant_id, "tenant.create", tenant_id, after=dict(row))
        return m.TenantReply(tenant=_tenant(row))

    reply: m.TenantReply = (await create(engine, request, m.TenantReply, work)).reply
    return reply


async def update_tenant(engine: Engine, request: m.UpdateTenantRequest) -> m.TenantReply:
    """Renames, suspends or restores a tenant, or says whose pages may show it. NOT_FOUND UNKNOWN_TENANT."""

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        before = await connection.fetchrow(_SQL["get_tenant"], request.id)
        assert before is not None, "its row is locked"
        tenant = _tenant(before)
        set_fields(tenant, given(request.tenant, "tenant"), request.update_mask, SETTABLE | {"origins"})
        _check(tenant)
        written = (request.id, tenant.name, token(tenant.status), tenant.origins)
        row = await connection.fetchrow(_SQL["update_tenant"], *written)
        assert row is not None
        await audit.record(connection, request.id, "tenant.update", request.id, before=dict(before), after=dict(row))
        return row

    return m.TenantReply(tenant=_tenant(await catalog.change(engine, request.id, work)))


async def list_tenants(engine: Engine, request: m.ListTenantsRequest) -> m.ListTenantsReply:
    """Tenants newest first: the scope's one, or all where the scope names none."""
    tenant_id = request.scope.tenant_id if request.scope is not None else ""
    filters = (tenant_id, search_pattern(request.q))
    rows, pagination = await reading.page(engine, _SQL["list_tenants"], request, *filters)
    return m.ListTenantsReply(items=[_tenant(row) for row in rows], pagination=pagination)


async def create_merchant(engine: Engine, request: m.CreateMerchantRequest) -> m.MerchantReply:
    """A new merchant of the tenant, active unless it says otherwise."""
    merchant = given(request.merchant, "merchant")
    tenant_id = tenant_of(request)
    refuse_read_only(merchant, m.Merchant(tenant_id=tenant_id))
    _check(merchant)

    async def work(connection: asyncpg.Connection) -> m.MerchantReply:
        merchant_id = ids.make("merchant")
        status = token(merchant.status, "active")
        row = await connection.fetchrow(_SQL["insert_merchant"], tenant_id, merchant_id, merchant.name, status)
        if row is None:
            raise unknown("tenant", tenant_id)
        await audit.record(connection, tenant_id, "merchant.create", merchant_id, after=dict(row))
        return m.MerchantReply(merchant=_merchant(row))

    reply: m.MerchantReply = (await create(engine, request, m.MerchantReply, work)).reply
    return reply


async def update_merchant(engine: Engine, request: m.UpdateMerchantRequest) -> m.MerchantReply:
    """Renames, suspends or restores a merchant. NOT_FOUND UNKNOWN_MERCHANT."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        before = await connection.fetchrow(_SQL["get_merchant"], tenant_id, request.id)
        if before is None:
            raise unknown("merchant", request.id)
        merchant = _merchant(before)
        set_fields(merchant, given(request.merchant, "merchant"), request.update_mask, SETTABLE)
        _check(merchant)
        written = (tenant_id, request.id, merchant.name, token(merchant.status))
        row = await connection.fetchrow(_SQL["update_merchant"], *written)
        assert row is not None
        await audit.record(connection, tenant_id, "merchant.update", request.id, before=dict(before), after=dict(row))
        return row

    return m.MerchantReply(merchant=_merchant(await catalog.change(engine, tenant_id, work)))


async def list_merchants(engine: Engine, request: m.ListMerchantsRequest) -> m.ListMerchantsReply:
    """The tenant's merchants, newest first; to a merchant's staff, that one."""
    filters = (tenant_of(request), search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list_merchants"], request, *filters)
    return m.ListMerchantsReply(items=[_merchant(row) for row in rows], pagination=pagination)


def _check(resource: m.Tenant | m.Merchant) -> None:
    checks = Checks()
    checks.required("name", resource.name)
    if isinstance(resource, m.Tenant):
        checks.origins("origins", resource.origins)
    checks.raise_found()


def _tenant(row: Any) -> m.Tenant:
    return m.Tenant(**{**row, "status": enum(m.TenantStatus, row["status"])})


def _merchant(row: Any) -> m.Merchant:
    return m.Merchant(**{**row, "status": enum(m.MerchantStatus, row["status"])})


# -- rows ------------------------------------------------------------------------------------


ROWS: Final = (
    Operation(
        "CreateTenant",
        "POST /tenants",
        run=create_tenant,
        resource="tenant",
        admin=PLATFORM_ALONE,
        example={"name": "Fair & Co."},
        command=Command(
            "tenants create NAME --origin",
            "Make a tenant, and print its id.",
            help={"origin": "Origins of pages that may show it; several times."},
            says="{id}",
        ),
    ),
    Operation(
        "UpdateTenant",
        "PUT /tenants/{id}",
        run=update_tenant,
        resource="tenant",
        admin=PLATFORM_ALONE,
        example={"status": "TENANT_STATUS_ACTIVE"},
        command=Command(
            "tenants update TENANT --name --status --origin",
            "Rename, suspend or restore a tenant, or say whose pages may show it: what is not said stays.",
            help={
                "tenant": "Its id.",
                "name": "Its new name.",
                "status": "Suspended, a tenant does nothing until it is active again.",
                "origin": "Origins of pages that may show it; several times.",
            },
            columns="id, name, status, origins",
        ),
    ),
    Operation(
        "ListTenants",
        "GET /tenants",
        run=list_tenants,
        admin=STAFF_OR_PLATFORM,
        command=(
            Command(
                "tenants list [SEARCH=q]",
                "List tenants, the newest first, or those with this in their name; without the role platform your own.",
                columns="id, name, status",
            ),
            Command("tenants show TENANT", "Show a tenant.", one=True, columns="id, name, status, origins"),
        ),
    ),
    Operation(
        "CreateMerchant",
        "POST /merchants",
        run=create_merchant,
        resource="merchant",
        admin=ADMINS,
        tenant_wide=True,
        refusals=("UNKNOWN_TENANT",),
        example={"name": "Main street"},
        command=Command(
            "merchants create NAME",
            "Make a merchant, and print its id.",
            says="{id}",
        ),
    ),
    Operation(
        "UpdateMerchant",
        "PUT /merchants/{id}",
        run=update_merchant,
        resource="merchant",
        admin=ADMINS,
        tenant_wide=True,
        refusals=("UNKNOWN_TENANT",),
        example={"status": "MERCHANT_STATUS_ACTIVE"},
        command=Command(
            "merchants update MERCHANT --name --status",
            "Rename, suspend or restore a merchant: what is not said stays.",
            help={
                "merchant": "Its id.",
                "name": "Its new name.",
                "status": "Suspended, a merchant does nothing until it is active again.",
            },
            columns="id, name, status",
        ),
    ),
    Operation(
        "ListMerchants",
        "GET /merchants",
        run=list_merchants,
        admin=STAFF,
        command=(
            Command(
                "merchants list [SEARCH=q]",
                "List merchants, the newest first, or those with this in their name.",
                columns="id, name, status",
            ),
            Command("merchants show MERCHANT", "Show a merchant.", one=True, columns="id, name, status"),
        ),
    ),
)
