"""Assets as objects in the object storage (ASSETS_URL).

Each upload writes an object under a new key. Before that, the object's removal is planned. The transaction that stores
the asset cancels the removal, and the transaction that deletes the asset plans it again. So an asset always has its
object, and an object without an asset is deleted.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, NamedTuple

import asyncpg
import structlog

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.background import attempt
from runtime.errors import Fault, Status, unknown
from runtime.operations.assets.decoding import Decoded
from runtime.outgoing.objects import ObjectsUnavailable
from runtime.stores.database import chosen

_SQL: Final = sql.load("assets")

JOB: Final = "asset removal"
EVERY_SECONDS: Final = 60.0
REMOVALS_MAX: Final = 100
"""Objects of a tenant deleted per run."""

log = structlog.get_logger(__name__)


class Stored(NamedTuple):
    """Where an asset's bytes are: in its row, or in an object with this key."""

    body: bytes | None
    object: str | None


async def write(engine: Engine, tenant_id: str, decoded: Decoded, quota: int) -> Stored | None:
    """Writes the bytes of an asset that is about to be stored. None: the tenant's quota is used up."""
    if engine.objects is None:
        return Stored(decoded.body, None)
    # Begins with a letter, so that no tenant's id is a dot segment.
    key = f"tenant-{tenant_id}/{decoded.asset_id}/{ids.make('object')}"
    about = (tenant_id, key, decoded.asset_id, len(decoded.body), quota)
    if await engine.database.fetchval(_SQL["begin_object"], *about) is None:
        return None
    try:
        await engine.objects.put(key, decoded.body, decoded.type)
    except ObjectsUnavailable:
        raise _unavailable() from None
    return Stored(None, key)


async def keep(connection: asyncpg.Connection, tenant_id: str, key: str) -> None:
    """Cancels the removal of the object of an asset that the transaction stores."""
    if await connection.fetchval(_SQL["keep_object"], tenant_id, key) is None:
        raise _unavailable()  # The upload took an hour: the object may be deleted.


async def read(engine: Engine, found: m.ReadAssetReply) -> m.ReadAssetReply:
    """The asset with the bytes of its object, if it has one. Bytes whose hash is not the asset's id are refused.

    NOT_FOUND UNKNOWN_ASSET; UNAVAILABLE ASSETS_UNAVAILABLE.
    """
    if not found.object:
        return found
    if engine.objects is None:
        raise _unavailable()
    try:
        body = await engine.objects.get(found.object)
    except ObjectsUnavailable:
        raise _unavailable() from None
    asset_id = found.object.rsplit("/", 2)[1]
    if body is None or asset_id != f"asset_{hashlib.sha256(body).hexdigest()}":
        log.error("object_differs", key=found.object, missing=body is None)
        raise unknown("asset", asset_id)
    return m.ReadAssetReply(type=found.type, content=base64.b64encode(body).decode())


async def remove_all(engine: Engine) -> None:
    """Deletes the objects whose removal is due. A failure is logged; the next run tries again."""
    if engine.objects is None:
        return
    for tenant_id in await engine.database.tenants(_SQL["removing_tenants"]):
        with chosen(tenant_id):
            for row in await engine.database.fetch(_SQL["due_removals"], tenant_id, REMOVALS_MAX):
                if not await attempt(JOB, _remove(engine, tenant_id, row["object"]), tenant_id=tenant_id):
                    return  # The storage is unreachable: the other requests would time out too.


async def _remove(engine: Engine, tenant_id: str, key: str) -> bool:
    assert engine.objects is not None
    await engine.objects.delete(key)
    await engine.database.execute(_SQL["removed"], tenant_id, key)
    return True


def _unavailable() -> Fault:
    message = "the object storage does not answer; try again"
    return Fault(Status.UNAVAILABLE, "ASSETS_UNAVAILABLE", message, retry_after_seconds=5)
