"""Uploads, lists and deletes assets, and reads their bytes.

An id is the hash of the stored bytes, so a repeated upload is the same asset, and its URL can be cached forever. The
bytes are in the asset's row, or with ASSETS_URL in an object (stored_objects.py).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, unknown
from runtime.operations import audit, catalog, reading
from runtime.operations.assets import stored_objects
from runtime.operations.assets.decoding import Decoder
from runtime.operations.checks import search_pattern
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("assets")
_DECODER: Final = Decoder()


def url_of(tenant_id: str, asset_id: str) -> str:
    """The asset's path on the edges (runtime/http/pages/assets.py)."""
    return f"/assets/{tenant_id}/{asset_id}"


async def create_asset(engine: Engine, request: m.CreateAssetRequest) -> m.AssetReply:
    """Stores a picture (PNG, JPEG or WebP, re-encoded as WebP) or a font (WOFF2). A file that exists is returned.

    INVALID_ARGUMENT for another type, a broken file, or too many pixels. FAILED_PRECONDITION QUOTA_EXCEEDED if the
    tenant's assets would exceed ASSET_QUOTA_BYTES. UNAVAILABLE ASSETS_UNAVAILABLE if the object storage fails.
    """
    tenant_id = tenant_of(request)
    try:
        uploaded = base64.b64decode(request.content, validate=True)
    except (binascii.Error, ValueError):
        raise invalid("content", "must be base64") from None
    decoded = await _DECODER.decode(tenant_id, uploaded)
    quota = engine.settings.asset_quota_bytes
    stored = await stored_objects.write(engine, tenant_id, decoded, quota)

    async def work(connection: asyncpg.Connection) -> m.AssetReply:
        about = (decoded.asset_id, merchant_of(request), request.name, decoded.type)
        size = (len(decoded.body), decoded.width, decoded.height)
        row = stored and await connection.fetchrow(_SQL["insert"], tenant_id, *about, *stored, *size, quota)
        if stored is None or row is None:
            message = f"the tenant's assets would exceed {quota} bytes: delete some that are not used"
            raise Fault(Status.FAILED_PRECONDITION, "QUOTA_EXCEEDED", message, quota_bytes=quota)
        fields = dict(row)
        if (key := fields.pop("object")) is not None and key == stored.object:
            await stored_objects.keep(connection, tenant_id, key)
        await audit.record(connection, tenant_id, "asset.create", decoded.asset_id, after=fields)
        return m.AssetReply(asset=_asset(tenant_id, fields))

    return await catalog.change_dependent(engine, tenant_id, work)


def _asset(tenant_id: str, row: Any) -> m.Asset:
    fields = {name: value for name, value in row.items() if name != "position"}
    return m.Asset(**fields, url=url_of(tenant_id, row["id"]))


async def get_asset(engine: Engine, request: m.GetAssetRequest) -> m.AssetReply:
    """One asset, without its bytes. NOT_FOUND UNKNOWN_ASSET."""
    row = await reading.one(engine, _SQL["get"], request, "asset")
    return m.AssetReply(asset=_asset(tenant_of(request), row))


async def list_assets(engine: Engine, request: m.ListAssetsRequest) -> m.ListAssetsReply:
    """The tenant's assets, newest first, and the quota. Filters: type, and text in the name (`q`)."""
    tenant_id = tenant_of(request)
    filters = (request.type, search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, *filters, key=("position", "id"))
    return m.ListAssetsReply(
        items=[_asset(tenant_id, row) for row in rows],
        pagination=pagination,
        used_bytes=await engine.database.fetchval(_SQL["used"], tenant_id),
        quota_bytes=engine.settings.asset_quota_bytes,
    )


async def delete_asset(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Deletes an asset. FAILED_PRECONDITION IN_USE if a campaign, game or prize shows it."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> m.DeleteReply:
        row = await reading.for_update(connection, _SQL["get"], request, "asset", request.id)
        url = url_of(tenant_id, request.id)
        if users := await connection.fetch(_SQL["users"], tenant_id, url, merchant_of(request)):
            named = [{name: user[name] for name in ("type", "id", "name")} for user in users if user["visible"]]
            raise catalog.in_use("asset", row["name"], named)
        await connection.execute(_SQL["delete"], tenant_id, request.id)
        await audit.record(connection, tenant_id, "asset.delete", request.id, before=dict(row))
        return m.DeleteReply(id=request.id)

    return await catalog.change_dependent(engine, tenant_id, work)


async def read_asset(engine: Engine, request: m.GetAssetRequest) -> m.ReadAssetReply:
    """An asset's bytes, for anyone, or the key of its object (stored_objects.read). NOT_FOUND UNKNOWN_ASSET."""
    row = await engine.database.fetchrow(_SQL["read"], tenant_of(request), request.id)
    if row is None:
        raise unknown("asset", request.id)
    if row["object"] is not None:
        return m.ReadAssetReply(type=row["type"], object=row["object"])
    return m.ReadAssetReply(type=row["type"], content=base64.b64encode(row["body"]).decode())
