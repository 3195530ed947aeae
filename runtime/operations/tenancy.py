"""Tenants, and the merchants within them.

The edge checks whether a caller may create or see tenants (role `platform`). Here a list with a tenant in
its scope shows only that tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, invalid, unknown
from runtime.operations import audit, catalog, reading
from runtime.operations.campaigns import hosts
from runtime.operations.checks import Checks, provided, refuse_read_only, search_pattern, set_fields
from runtime.operations.idempotent_writes import create
from runtime.operations.row import ADMINS, PLATFORM_ALONE, STAFF, STAFF_OR_PLATFORM, Command, Operation
from runtime.outgoing.vault import sender_context, shown_config, vault_of
from runtime.settings.kinds import url
from runtime.stores.database import HOME, at
from runtime.stores.databases import FOLLOW_SECONDS
from runtime.wire.contacts import normalized
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("tenancy")
_DIRECTORY: Final = sql.load("directory")

SETTABLE: Final = frozenset({"name", "status"})
"""The settable fields of a merchant; a tenant also has `origins`, `hosts` and `sender`."""

smtp_url: Final = url("smtp", "smtps").parse


async def create_tenant(engine: Engine, request: m.CreateTenantRequest) -> m.TenantReply:
    """Creates a tenant, active by default, in the database that the request names."""
    tenant = provided(request.tenant, "tenant")
    refuse_read_only(tenant, m.Tenant())
    places = {part.name: part for part in engine.database.parts}
    checks = _checked(tenant)
    if (place := places.get(tenant.database or HOME)) is None:
        checks.problem("database", f"must be one of {', '.join(places)}")
    checks.raise_found()
    assert place is not None

    async def insert(connection: asyncpg.Connection, tenant_id: str) -> m.Tenant:
        sender = _sealed(engine, tenant_id, tenant.sender, {})
        written = (tenant_id, tenant.name, token(tenant.status, "active"), tenant.origins, sender)
        await _allow(connection, tenant_id, tenant.hosts)
        row = await connection.fetchrow(_SQL["insert_tenant"], *written)
        assert row is not None
        await audit.record(connection, tenant_id, "tenant.create", tenant_id, after=_facts(row))
        return _tenant(row, place.name)

    async def work(connection: asyncpg.Connection) -> m.TenantReply:
        tenant_id = ids.make("tenant")
        # Once the Idempotency-Key is claimed: a retry would find the hosts of its first attempt.
        await hosts.refuse_taken(engine, checks, "", tenant.hosts, connection)
        checks.raise_found()
        if place.name == HOME:
            return m.TenantReply(tenant=await insert(connection, tenant_id))
        # Inserted before it is in the directory: an interruption leaves a tenant without a place, which nothing shows.
        # A retry frees its hosts (`refuse_taken`), but not while this lock is held.
        await connection.fetchval(_DIRECTORY["lock_creation"], tenant_id)
        made = await place.transaction(partial(insert, tenant_id=tenant_id))
        await connection.execute(_DIRECTORY["place"], tenant_id, place.name)
        return m.TenantReply(tenant=made)

    done = await create(engine, request, m.TenantReply, work)
    reply: m.TenantReply = done.reply
    if place.name != HOME and not done.repeated:
        engine.database.place(provided(reply.tenant, "tenant").id, place.name)
        await asyncio.sleep(2 * FOLLOW_SECONDS)  # By then the other processes have read the directory.
    return reply


async def update_tenant(engine: Engine, request: m.UpdateTenantRequest) -> m.TenantReply:
    """Renames, suspends or restores a tenant, or sets the page origins that may embed it. NOT_FOUND UNKNOWN_TENANT."""
    if (named := provided(request.tenant, "tenant").database) not in ("", engine.database.of(request.id).name):
        raise invalid("database", f"cannot change to {named!r} here; use `tombola tenants move`")
    checks = Checks()
    hosts.check(checks, provided(request.tenant, "tenant").hosts)
    checks.raise_found()
    await hosts.refuse_taken(engine, checks, request.id, provided(request.tenant, "tenant").hosts)
    checks.raise_found()

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        before = await connection.fetchrow(_SQL["get_tenant"], request.id)
        assert before is not None, "its row is locked"
        tenant = _tenant(before, HOME)
        update = provided(request.tenant, "tenant")
        changed = set_fields(tenant, update, request.update_mask, SETTABLE | {"origins", "sender", "hosts"})
        _check(tenant)
        stored = before["sender"]
        sender = _sealed(engine, request.id, tenant.sender, stored) if "sender" in changed else stored
        if "hosts" in changed:
            await _allow(connection, request.id, tenant.hosts)
        written = (request.id, tenant.name, token(tenant.status), tenant.origins, sender)
        row = await connection.fetchrow(_SQL["update_tenant"], *written)
        assert row is not None
        await audit.record(
            connection, request.id, "tenant.update", request.id, before=_facts(before), after=_facts(row)
        )
        return row

    name = engine.database.of(request.id).name
    return m.TenantReply(tenant=_tenant(await at(request.id, catalog.change(engine, request.id, work)), name))


async def list_tenants(engine: Engine, request: m.ListTenantsRequest) -> m.ListTenantsReply:
    """Tenants, newest first: the one of the scope, or all if the scope has none."""
    tenant_id = request.scope.tenant_id if request.scope is not None else ""
    filters = (tenant_id, search_pattern(request.q))
    parts = [engine.database.of(tenant_id)] if tenant_id else engine.database.parts
    query = (_SQL["list_tenants"].partition("\n")[0], *filters)
    page = engine.cursors.read(request.cursor, request.limit, query=query)
    after = page.after or (None,)
    found: list[_Found] = []
    for part in parts:
        rows = await part.fetch(_SQL["list_tenants"], *filters, *after, page.fetch)
        found += [_Found(row["id"], engine.database.of(row["id"]) is part, row, part.name) for row in rows]
    # One key orders the rows of every database, so the page is the first ones of all. Of a tenant that is being moved,
    # the copy that is in use comes first and the other is left out.
    found.sort(key=_position, reverse=True)
    shown, pagination = engine.cursors.write(found, page.limit, key=_id_of, query=query)
    items = [_tenant(one.row, one.database) for one in shown if one.in_use]
    return m.ListTenantsReply(items=items, pagination=pagination)


class _Found(NamedTuple):
    """A tenant's row in one database. in_use: the directory names that database."""

    id: str
    in_use: bool
    row: Any
    database: str


def _position(found: _Found) -> tuple[str, bool]:
    return found.id, found.in_use


def _id_of(found: _Found) -> str:
    return found.id


async def create_merchant(engine: Engine, request: m.CreateMerchantRequest) -> m.MerchantReply:
    """Creates a merchant of the tenant, active by default."""
    merchant = provided(request.merchant, "merchant")
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
        set_fields(merchant, provided(request.merchant, "merchant"), request.update_mask, SETTABLE)
        _check(merchant)
        written = (tenant_id, request.id, merchant.name, token(merchant.status))
        row = await connection.fetchrow(_SQL["update_merchant"], *written)
        assert row is not None
        await audit.record(connection, tenant_id, "merchant.update", request.id, before=dict(before), after=dict(row))
        return row

    return m.MerchantReply(merchant=_merchant(await catalog.change(engine, tenant_id, work)))


async def list_merchants(engine: Engine, request: m.ListMerchantsRequest) -> m.ListMerchantsReply:
    """The tenant's merchants, newest first. A merchant's staff sees only its own."""
    filters = (tenant_of(request), search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list_merchants"], request, *filters)
    return m.ListMerchantsReply(items=[_merchant(row) for row in rows], pagination=pagination)


def _check(resource: m.Tenant | m.Merchant) -> None:
    _checked(resource).raise_found()


def _checked(resource: m.Tenant | m.Merchant) -> Checks:
    checks = Checks()
    checks.required("name", resource.name)
    if isinstance(resource, m.Tenant):
        checks.origins("origins", resource.origins)
        hosts.check(checks, resource.hosts)
        if resource.sender:
            _check_sender(checks, resource.sender)
    return checks


async def _allow(connection: asyncpg.Connection, tenant_id: str, names: list[str]) -> None:
    checks = Checks()
    await hosts.allow(connection, checks, tenant_id, names)
    checks.raise_found()


def _check_sender(checks: Checks, sender: m.TenantSender) -> None:
    checks.required("sender.address", sender.address)
    for name in ("address", "reply_to"):
        try:
            if address := getattr(sender, name):
                normalized(m.ContactType.EMAIL, address, field=name)
        except Fault:
            checks.problem(f"sender.{name}", "must be an e-mail address")
        if not getattr(sender, name).isascii():
            checks.problem(f"sender.{name}", "must be in ASCII; write an international domain as xn--...")
    try:
        smtp_url(sender.smtp_url)
    except ValueError as error:
        checks.problem("sender.smtp_url", str(error))


def _sealed(engine: Engine, tenant_id: str, sender: m.TenantSender | None, before: Mapping[str, Any]) -> dict[str, Any]:
    """The stored form. An omitted smtp_url keeps the one of `before`; an empty sender removes all."""
    if not sender:
        return {}
    fields = {"name": sender.name, "address": sender.address, "reply_to": sender.reply_to}
    stored = {name: value for name, value in fields.items() if value}
    if sender.smtp_url:
        vault = vault_of(engine.keyring.code)
        return {**stored, "secret": vault.seal_secret(sender.smtp_url, sender_context(tenant_id))}
    return {**stored, **({"secret": before["secret"]} if before.get("secret") else {})}


def _facts(row: Any) -> dict[str, Any]:
    return {**row, "sender": shown_config(row["sender"])}


def _tenant(row: Any, database: str) -> m.Tenant:
    stored = {**row["sender"]}
    is_set = bool(stored.pop("secret", ""))
    sender = m.TenantSender(**stored, smtp_url_set=is_set) if row["sender"] else None
    return m.Tenant(**{**row, "status": enum(m.TenantStatus, row["status"]), "sender": sender}, database=database)


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
        example={"name": "Fair & Co.", "sender": {"name": "Fair & Co.", "address": "hello@fair.example"}},
        command=Command(
            "tenants create NAME --origin --database",
            "Create a tenant and print its id.",
            help={
                "origin": "An origin whose pages may show the tenant's games. Repeat for several.",
                "database": "The database that it lives in: a name in DATABASES. Default: home.",
            },
            outcome="{id}",
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
            "Rename, suspend or restore a tenant, or set its origins; omitted fields are unchanged.",
            help={
                "tenant": "The tenant's id.",
                "name": "The new name.",
                "status": "A suspended tenant is disabled until it is active again.",
                "origin": "An origin whose pages may show the tenant's games. Repeat for several.",
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
                "List tenants, newest first, optionally by name; without the role platform only your own.",
                columns="id, name, status, database",
            ),
            Command("tenants show TENANT", "Show a tenant.", one=True, columns="id, name, status, origins, database"),
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
            "Create a merchant and print its id.",
            outcome="{id}",
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
            "Rename, suspend or restore a merchant; omitted fields are unchanged.",
            help={
                "merchant": "The merchant's id.",
                "name": "The new name.",
                "status": "A suspended merchant is disabled until it is active again.",
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
                "List merchants, newest first, optionally by name.",
                columns="id, name, status",
            ),
            Command("merchants show MERCHANT", "Show a merchant.", one=True, columns="id, name, status"),
        ),
    ),
)
