"""The import of voucher codes: checks and encrypts them, and adds them to the prize's pool in parts
(runtime/operations/code_lines.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.operations import audit, reading
from runtime.operations.code_lines import in_slices, part_hashes, sift
from runtime.operations.idempotent_writes import once
from runtime.outgoing.vault import Sealed, code_context, vault_of
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("codes")
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]


async def import_codes(engine: Engine, request: m.ImportCodesRequest) -> m.ImportCodesReply:
    """Adds codes to a prize's pool, and counts and lists the lines of invalid codes and duplicates.

    At most PART_MAX codes; REST splits longer imports into parts. Codes never appear in a reply or a log.
    """
    tenant_id = tenant_of(request)
    sifted = sift(request, engine.clock.now())
    add = await _add_codes(engine, request, list(sifted.lines_of), sifted.ends)
    was_empty: list[bool] = []

    async def work(connection: asyncpg.Connection) -> m.ImportCodesReply:
        result = sifted.reply(await add(connection))
        available = await connection.fetchval(_SQL["available"], tenant_id, request.id)
        was_empty.append(0 < available <= result.added)
        result.available = 0 if request.more else available
        return result

    hashes = part_hashes(engine, request)
    done = await once(engine, request, m.ImportCodesReply, work, hashes=hashes, part=request.part)
    result: m.ImportCodesReply = done.reply
    if not done.repeated and was_empty[-1]:
        # Games treat an empty pool as sold out, so they must reload it.
        version = await engine.database.fetchval(_RAISE_VERSION, tenant_id)
        if version is not None:
            engine.catalog_changed(tenant_id, version)
    return result


async def _add_codes(
    engine: Engine, request: m.ImportCodesRequest, codes: list[str], ends: list[int]
) -> Callable[[asyncpg.Connection], Awaitable[list[str]]]:
    """Returns a function that adds the codes to the pool and returns those that it has already.

    Encrypts the codes now, so that no transaction waits for it. NOT_FOUND UNKNOWN_PRIZE; PERMISSION_DENIED FORBIDDEN.
    """
    tenant_id, prize_id = tenant_of(request), request.id
    vault, context = vault_of(engine.keyring.code), code_context(tenant_id, prize_id)
    made: list[tuple[list[bytes], Sealed, str, int]] = []
    async for part in in_slices(list(zip(codes, ends, strict=True))):
        made += [(vault.fingerprints(code, context), vault.seal(code, context), code, end) for code, end in part]
    # Ids in the order of the fingerprints: the rows then reach the ends of the indexes by id in order, which costs
    # PostgreSQL a third less than rows in a random order.
    made.sort()
    by_id = {ids.make("code"): code for _, _, code, _ in made}
    older = [(older, code_id) for code_id, ((_, *olders), *_) in zip(by_id, made, strict=True) for older in olders]

    async def add(connection: asyncpg.Connection) -> list[str]:
        await connection.execute(_SQL["lock_pool"], tenant_id, prize_id, len(engine.keyring.code) > 1)
        rows = await connection.fetch(
            _SQL["add"],
            tenant_id,
            prize_id,
            list(by_id),
            [sealed.key_id for _, sealed, _, _ in made],
            [sealed.ciphertext for _, sealed, _, _ in made],
            [fingerprints[0] for fingerprints, *_ in made],
            [fingerprint for fingerprint, _ in older],
            [code_id for _, code_id in older],
            merchant_of(request),
            [end for *_, end in made],
        )
        if not rows:
            raise await reading.write_refusal(connection, _GET_PRIZE, request, "prize", prize_id)
        present = [by_id[row["code_id"]] for row in rows if row["code_id"] is not None]
        if codes:
            after = {"added": len(codes) - len(present), "duplicates": len(present)}
            await audit.record(connection, tenant_id, "prize.import_codes", prize_id, after=after)
        return present

    return add
