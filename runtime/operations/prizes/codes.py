"""The import of voucher codes: checked, sealed, and put into the prize's pool, a part at a time.

Each part is one statement of its own. An import that breaks off has added the parts before, and doing
it again adds only the rest: what is there already is reported as a duplicate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import asyncpg

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations import audit, reading
from runtime.operations.checks import TIME_MAX
from runtime.operations.idempotent_writes import once
from runtime.outgoing.vault import code_context, vault_of
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("codes")
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

CODE_CHARACTERS_MAX: Final = 128
PART_MAX: Final = 5_000
"""Codes of one request: what one statement adds well within its time."""

ERRORS_MAX: Final = 100


def problem(code: str) -> str | None:
    """What is wrong with a code, or None. White space around it has been taken off."""
    if not code:
        return "is empty"
    if len(code) > CODE_CHARACTERS_MAX:
        return f"is longer than {CODE_CHARACTERS_MAX} characters"
    if " " in code or not code.isprintable():
        return "holds white space or characters that cannot be printed"
    return None


def _expiry_problem(end: int, now: float) -> str | None:
    """What is wrong with when a code expires (unix seconds, 0: never), or None."""
    if end < 0 or end > TIME_MAX:
        return "has no time that it expires at"
    return "is expired already" if 0 < end <= now else None


async def import_codes(engine: Engine, request: m.ImportCodesRequest) -> m.ImportCodesReply:
    """Adds codes to a prize's pool; counts and names the lines of those that are wrong or there already.

    At most PART_MAX codes; REST cuts longer imports into parts. Codes are never in an answer or a log.
    """
    tenant_id = tenant_of(request)
    if not request.codes:
        raise invalid("codes", "is required")
    if len(request.codes) > PART_MAX:
        raise invalid("codes", f"must be at most {PART_MAX} in one part")
    if request.lines and len(request.lines) != len(request.codes):
        raise invalid("lines", "must be one for each code")
    if request.expiries and len(request.expiries) != len(request.codes):
        raise invalid("expiries", "must be one for each code")
    now = engine.clock.now()
    if request.expires_at and not now < request.expires_at <= TIME_MAX:
        raise invalid("expires_at", "must be a time to come, in unix seconds")
    reply = m.ImportCodesReply()
    found: list[tuple[int, str]] = []
    lines_of: dict[str, int] = {}
    ends: list[int] = []
    for index, text in enumerate(request.codes):
        line = request.lines[index] if request.lines else index + 1
        end = (request.expiries[index] if request.expiries else 0) or request.expires_at
        code = text.strip()
        if (wrong := problem(code) or _expiry_problem(end, now)) is not None:
            reply.invalid += 1
            found.append((line, wrong))
        elif code in lines_of:
            reply.duplicates += 1
            found.append((line, "duplicate"))
        else:
            lines_of[code] = line
            ends.append(end)
    add = _adding(engine, request, list(lines_of), ends)
    was_empty: list[bool] = []

    async def work(connection: asyncpg.Connection) -> m.ImportCodesReply:
        present = await add(connection)
        duplicates = [(lines_of[code], "duplicate") for code in present]
        made = m.ImportCodesReply(
            added=len(lines_of) - len(present),
            duplicates=reply.duplicates + len(present),
            invalid=reply.invalid,
            errors=[m.CodeError(line=line, reason=why) for line, why in sorted(found + duplicates)[:ERRORS_MAX]],
        )
        available = await connection.fetchval(_SQL["available"], tenant_id, request.id)
        was_empty.append(0 < available <= made.added)
        made.available = 0 if request.more else available
        return made

    done = await once(engine, request, m.ImportCodesReply, work, hashes=_hashes(engine, request), part=request.part)
    made: m.ImportCodesReply = done.reply
    if not done.repeated and was_empty[-1]:
        # Games count an empty pool as sold out: they look at it afresh.
        version = await engine.database.fetchval(_RAISE_VERSION, tenant_id)
        if version is not None:
            engine.catalog_changed(tenant_id, version)
    return made


def _hashes(engine: Engine, request: m.ImportCodesRequest) -> list[bytes]:
    """What the part is known by, under each key that seals codes: a plain hash of few codes could be guessed from."""
    vault = vault_of(engine.keyring.code)
    said = "\n".join([*request.codes, str(request.lines), str(request.more)])
    if request.expires_at or request.expiries:
        said += f"\n{request.expires_at} {request.expiries}"
    return vault.fingerprints(said.encode(errors="backslashreplace").decode(), "import")


def _adding(
    engine: Engine, request: m.ImportCodesRequest, codes: list[str], ends: list[int]
) -> Callable[[asyncpg.Connection], Awaitable[list[str]]]:
    """What puts codes into the pool; it returns those that are there already.

    NOT_FOUND UNKNOWN_PRIZE; PERMISSION_DENIED FORBIDDEN. Sealed here, so that no transaction waits for it.
    """
    tenant_id, prize_id = tenant_of(request), request.id
    vault, context = vault_of(engine.keyring.code), code_context(tenant_id, prize_id)
    by_id = {ids.make("code"): code for code in codes}
    sealed = [vault.seal(code, context) for code in by_id.values()]
    prints = [vault.fingerprints(code, context) for code in by_id.values()]
    older = [(older, code_id) for code_id, (_, *olders) in zip(by_id, prints, strict=True) for older in olders]

    async def add(connection: asyncpg.Connection) -> list[str]:
        rows = await connection.fetch(
            _SQL["add"],
            tenant_id,
            prize_id,
            list(by_id),
            [one.key_id for one in sealed],
            [one.ciphertext for one in sealed],
            [first for first, *_ in prints],
            [fingerprint for fingerprint, _ in older],
            [code_id for _, code_id in older],
            merchant_of(request),
            ends,
        )
        if not rows:
            raise await reading.not_to_write(connection, _GET_PRIZE, request, "prize", prize_id)
        present = [by_id[row["code_id"]] for row in rows if row["code_id"] is not None]
        if codes:
            after = {"added": len(codes) - len(present), "duplicates": len(present)}
            await audit.record(connection, tenant_id, "prize.import_codes", prize_id, after=after)
        return present

    return add
