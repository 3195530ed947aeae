"""The codes of packs: their canonical form, their hashes, and how they are imported, generated and withdrawn.

Only hashes are stored, keyed with a secret of the campaign, which is encrypted with CODE_KEYS. So the tables reveal no
code, and a rotation of CODE_KEYS keeps every code valid. A campaign has each code once, over all its packs.
"""

from __future__ import annotations

import hmac
import os
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, forbidden, invalid
from runtime.operations import audit, reading
from runtime.operations.code_lines import in_slices, part_hashes, problem, sift
from runtime.operations.idempotent_writes import once
from runtime.outgoing.vault import VaultError, pack_key_context, vault_of
from runtime.wire.scope import Scoped, merchant_of, tenant_of

SQL: Final = sql.load("packs")

CHARACTERS_MIN: Final = 6
GENERATED_MAX: Final = 5_000
"""Codes in one request; the dashboard and the command line send several."""

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O or U."""

GENERATED_CHARACTERS: Final = 16
"""80 random bits: among a million codes, a guess is right with a chance of 1 in 10^18."""

_GROUP: Final = 4
_ALIKE: Final = str.maketrans("OIL", "011")
_ASCII: Final = {**_ALIKE, **dict.fromkeys(map(ord, "- \t\n\r\v\f"))}
_NO_KEY: Final = bytes(32)


def canonical(code: str) -> str:
    """The form in which codes are compared: upper case, without spaces and dashes, O as 0, and I and L as 1."""
    if code.isascii():
        return code.upper().translate(_ASCII)  # An import has a million of these.
    text = unicodedata.normalize("NFKC", code).upper()
    return "".join(one for one in text if not one.isspace() and unicodedata.category(one) != "Pd").translate(_ALIKE)


def code_problem(code: str) -> str | None:
    """The problem of a canonical code, or None."""
    if 0 < len(code) < CHARACTERS_MIN:
        return f"has fewer than {CHARACTERS_MIN} letters and digits"
    return problem(code)


def code_hash(key: bytes, code: str) -> bytes:
    """The stored hash of a canonical code."""
    return hmac.digest(key, code.encode(), "sha256")[:16]


def new_key(engine: Engine, tenant_id: str, campaign_id: str) -> dict[str, str]:
    """A new secret of a campaign's hashes, encrypted."""
    secret = os.urandom(32).hex()
    return {"secret": vault_of(engine.keyring.code).seal_secret(secret, pack_key_context(tenant_id, campaign_id))}


def open_key(engine: Engine, tenant_id: str, campaign_id: str, sealed: dict[str, Any] | None) -> bytes:
    """The secret of the campaign's hashes. UNAVAILABLE CODE_UNAVAILABLE if no key in CODE_KEYS decrypts it.

    sealed None: the campaign never had a pack. Its codes are hashed too, so that the answer takes as long.
    """
    if sealed is None:
        return _NO_KEY
    try:
        context = pack_key_context(tenant_id, campaign_id)
        return bytes.fromhex(vault_of(engine.keyring.code).open_secret(sealed["secret"], context))
    except VaultError:
        message = "no configured key decrypts the secret of the campaign's codes"
        raise Fault(Status.UNAVAILABLE, "CODE_UNAVAILABLE", message, retry_after_seconds=1) from None


async def import_pack_codes(engine: Engine, request: m.ImportCodesRequest) -> m.ImportCodesReply:
    """Adds codes to a pack, and counts and lists the lines of invalid codes and duplicates.

    A duplicate may be of another pack of the campaign. At most PART_MAX codes; REST splits longer imports into parts.
    The codes end with the pack (`until`), so they take no `expires_at`.
    """
    tenant_id = tenant_of(request)
    if request.expires_at or request.expiries:
        raise invalid("expires_at", "is not for a pack's codes: set the pack's until")
    sifted = sift(request, engine.clock.now(), canonical=canonical, why_not=code_problem)
    hash_of = await _hash_function(engine, request)
    code_of: dict[bytes, str] = {}
    async for part in in_slices(list(sifted.lines_of)):
        code_of |= {hash_of(code): code for code in part}

    async def work(connection: asyncpg.Connection) -> m.ImportCodesReply:
        present = await _add(connection, request, code_of, "pack.import_codes")
        result = sifted.reply(code_of[one] for one in present)
        if not request.more:
            row = await connection.fetchrow(SQL["get"], tenant_id, request.id, "", False)
            assert row is not None, "the pack has codes, so it is not deleted"
            result.available = row["free"]
        return result

    hashes = part_hashes(engine, request)
    done = await once(engine, request, m.ImportCodesReply, work, hashes=hashes, part=request.part)
    reply: m.ImportCodesReply = done.reply
    return reply


async def generate_codes(engine: Engine, request: m.GenerateCodesRequest) -> m.GenerateCodesReply:
    """Adds new random codes of 80 bits to a pack and returns them, for the only time."""
    if not 1 <= request.count <= GENERATED_MAX:
        raise invalid("count", f"must be between 1 and {GENERATED_MAX}")
    hash_of = await _hash_function(engine, request)
    code_of: dict[bytes, str] = {}
    async for part in in_slices(range(request.count)):
        code_of |= {hash_of(code): code for code in [_random_code() for _ in part]}

    async def work(connection: asyncpg.Connection) -> set[bytes]:
        return await _add(connection, request, code_of, "pack.generate_codes")

    present = await engine.database.transaction(work)
    return m.GenerateCodesReply(codes=[_grouped(code) for one, code in code_of.items() if one not in present])


async def withdraw_pack_codes(engine: Engine, request: m.WithdrawPackCodesRequest) -> m.WithdrawPackCodesReply:
    """Withdraws unused codes for good, such as those of a lost delivery. Used codes keep what they gave."""
    tenant_id = tenant_of(request)
    if not request.codes:
        raise invalid("codes", "is required")
    hash_of = await _hash_function(engine, request)
    hashes = sorted({hash_of(canonical(code)) for code in request.codes})

    async def work(connection: asyncpg.Connection) -> int:
        pack = await reading.for_update(connection, SQL["owner"], request, "pack", request.id)
        about = (tenant_id, request.id, pack["campaign_id"], hashes)
        withdrawn: int = await connection.fetchval(SQL["withdraw"], *about)
        after = {"withdrawn": withdrawn, "reason": request.reason}
        await audit.record(connection, tenant_id, "pack.withdraw_codes", request.id, after=after)
        return withdrawn

    withdrawn = await engine.database.transaction(work)
    return m.WithdrawPackCodesReply(withdrawn=withdrawn, kept=len(request.codes) - withdrawn)


async def _hash_function(engine: Engine, request: reading.IdRequest) -> Callable[[str], bytes]:
    """Hashes codes of the pack's campaign. NOT_FOUND UNKNOWN_PACK; PERMISSION_DENIED FORBIDDEN."""
    tenant_id = tenant_of(request)
    pack = await reading.for_update(engine.database, SQL["owner"], request, "pack", request.id)
    sealed = await engine.database.fetchval(SQL["key"], tenant_id, pack["campaign_id"])
    key = open_key(engine, tenant_id, pack["campaign_id"], sealed)
    return lambda code: code_hash(key, code)


async def _add(
    connection: asyncpg.Connection, request: reading.IdRequest, hashes: Iterable[bytes], action: str
) -> set[bytes]:
    """Adds codes to the pack. Returns those that the campaign has already.

    ILLEGAL_TRANSITION if it is archived; FORBIDDEN as for `refuse_wallet`.
    """
    tenant_id, added = tenant_of(request), sorted(hashes)
    rows = await connection.fetch(SQL["add"], tenant_id, request.id, merchant_of(request), added)
    if not rows:
        pack = await reading.for_update(connection, SQL["owner"], request, "pack", request.id)
        refuse_wallet(request, pack["scope_key"])
        raise Fault(
            Status.FAILED_PRECONDITION,
            "ILLEGAL_TRANSITION",
            f"pack {request.id} is {pack['status']}: it takes no codes",
        )
    present = {row["code_hash"] for row in rows if row["code_hash"] is not None}
    if added:
        after = {"added": len(added) - len(present), "duplicates": len(present)}
        await audit.record(connection, tenant_id, action, request.id, after=after)
    return present


def refuse_wallet(request: Scoped, *scope_keys: str) -> None:
    """FORBIDDEN if one of these wallets is the tenant's: a merchant's staff cannot credit it."""
    if merchant_of(request) and tenant_of(request) in scope_keys:
        raise forbidden("wallet", tenant_of(request))


def _random_code() -> str:
    """A canonical random code."""
    return "".join(ALPHABET[byte & 31] for byte in os.urandom(GENERATED_CHARACTERS))


def _grouped(code: str) -> str:
    return "-".join(code[place : place + _GROUP] for place in range(0, len(code), _GROUP))
