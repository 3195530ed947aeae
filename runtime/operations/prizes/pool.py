"""Staff's operations on a pool of voucher codes: list, withdraw, set the expiry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.operations import audit, reading
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.games import frozen
from runtime.operations.idempotent_writes import Done, once
from runtime.outgoing.vault import VaultError, code_context, vault_of
from runtime.wire.enums import enum, token
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("codes")
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

HIDDEN: Final = "\u2022\u2022\u2022\u2022"
PART: Final = 5_000
"""Codes in one statement, which changes them well within its timeout."""
IDS_MAX: Final = 1_000


def masked(code: str) -> str:
    """Shows the end of a code that stays secret without it: four characters from length 12, two from 8, else none."""
    return HIDDEN + (code[-4:] if len(code) >= 12 else code[-2:] if len(code) >= 8 else "")


async def list_codes(engine: Engine, request: m.ListCodesRequest) -> m.ListCodesReply:
    """Lists the codes of a prize's pool, newest first, and counts them by state. Needs write access to the prize.

    A won code shows its last characters, a free code none: any winner knows the common prefix, and could use a free
    code with the shown rest. NOT_FOUND UNKNOWN_PRIZE; FORBIDDEN.
    """
    tenant_id, state = tenant_of(request), token(request.state).removeprefix("code_state_")
    await reading.for_update(engine.database, _GET_PRIZE, request, "prize", request.id)
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, request.id, state)
    totals = await engine.database.fetchrow(_SQL["totals"], tenant_id, request.id)
    assert totals is not None, "a sum always has its one row"
    items = [_shown(engine, tenant_id, request.id, row) for row in rows]
    return m.ListCodesReply(items=items, pagination=pagination, totals=m.CodeTotals(**totals))


def _shown(engine: Engine, tenant_id: str, prize_id: str, row: Any) -> m.VoucherCode:
    fields = dict(row)
    sealed, text = (fields.pop("key_id"), fields.pop("ciphertext")), HIDDEN
    if row["state"] == "assigned":
        # A code that no key opens stays hidden. Its winner and the log get the error.
        with suppress(VaultError, ValueError):
            text = masked(vault_of(engine.keyring.code).open(*sealed, code_context(tenant_id, prize_id)))
    return m.VoucherCode(**{**fields, "state": _state(row["state"])}, masked=text)


def _state(stored: str) -> m.CodeState:
    return enum(m.CodeState, stored)


async def withdraw_codes(engine: Engine, request: m.WithdrawCodesRequest) -> m.WithdrawCodesReply:
    """Removes codes from a prize's pool for good: up to 1,000 by id, or all free ones.

    FAILED_PRECONDITION FROZEN in a frozen campaign. Won codes stay, and are listed in `kept` with their state. All free
    codes are withdrawn in several transactions.
    """
    checks = Checks()
    if bool(request.ids) == request.all_free:
        checks.problem("ids", "is required, or all_free: exactly one of the two")
    _check_ids(checks, request.ids)
    reply = m.WithdrawCodesReply()
    changed, part = False, 0
    while True:
        done = await _withdraw_part(engine, request, part)
        reply.withdrawn += done.reply.withdrawn
        reply.kept, reply.available = done.reply.kept, done.reply.available
        changed = changed or (done.reply.withdrawn > 0 and not done.repeated)
        part += 1
        if not request.all_free or not reply.available:
            break
    if changed:
        await _reload_catalog(engine, tenant_of(request))
    return reply


async def _withdraw_part(engine: Engine, request: m.WithdrawCodesRequest, part: int) -> Done:
    tenant_id, prize_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.WithdrawCodesReply:
        await reading.for_update(connection, _GET_PRIZE, request, "prize", prize_id)
        ids = list(dict.fromkeys(request.ids))
        if request.all_free:
            ids = [row["code_id"] for row in await connection.fetch(_SQL["list_free"], tenant_id, prize_id, PART)]
        await connection.execute(_SQL["lock"], tenant_id, prize_id, ids)
        withdrawn = {row["code_id"] for row in await connection.fetch(_SQL["withdraw"], tenant_id, prize_id, ids)}
        reply = m.WithdrawCodesReply(withdrawn=len(withdrawn))
        reply.kept = await _retained(
            connection, tenant_id, prize_id, [one for one in request.ids if one not in withdrawn]
        )
        reply.available = await connection.fetchval(_SQL["available"], tenant_id, prize_id)
        if withdrawn:
            await frozen.refuse_lowered(connection, tenant_id, prize_id, "codes")
        if withdrawn or not part:
            after = {"withdrawn": len(withdrawn), "left": reply.available, "why": request.reason}
            after |= {"ids": sorted(withdrawn)} if request.ids else {}
            await audit.record(connection, tenant_id, "prize.withdraw_codes", prize_id, after=after)
        return reply

    return await once(engine, request, m.WithdrawCodesReply, work, part=part)


async def expire_codes(engine: Engine, request: m.ExpireCodesRequest) -> m.ExpireCodesReply:
    """Sets the expiry of codes of a prize's pool: up to 1,000 by id, or all free or all expired ones.

    FAILED_PRECONDITION FROZEN in a frozen campaign, unless the codes are never to expire. `ending_at` limits these to
    codes with that expiry, such as those of one import. Won and withdrawn codes stay unchanged, and are listed in
    `kept` with their state. All codes are changed in several transactions.
    """
    checks = Checks()
    if [bool(request.ids), request.all_free, request.all_expired].count(True) != 1:
        checks.problem("ids", "is required, or all_free, or all_expired: exactly one of the three")
    if bool(request.expires_at) == request.never:
        checks.problem("expires_at", "is required, or never: exactly one of the two")
    if request.ending_at and request.ids:
        checks.problem("ending_at", "must not be used with ids")
    for name in ("expires_at", "ending_at"):
        if not 0 <= getattr(request, name) <= TIME_MAX:
            checks.problem(name, "must be a time in unix seconds")
    _check_ids(checks, request.ids)
    reply = m.ExpireCodesReply()
    changed, part = False, 0
    while True:
        done = await _expire_part(engine, request, part)
        reply.changed += done.reply.changed
        reply.kept, reply.available = done.reply.kept, done.reply.available
        changed = changed or (done.reply.changed > 0 and not done.repeated)
        part += 1
        if request.ids or not done.reply.changed:
            break
    if changed:
        await _reload_catalog(engine, tenant_of(request))
    return reply


async def _expire_part(engine: Engine, request: m.ExpireCodesRequest, part: int) -> Done:
    tenant_id, prize_id = tenant_of(request), request.id
    state = "free" if request.all_free else "expired" if request.all_expired else ""
    ending_at, expires_at = request.ending_at, request.expires_at

    async def work(connection: asyncpg.Connection) -> m.ExpireCodesReply:
        await reading.for_update(connection, _GET_PRIZE, request, "prize", prize_id)
        if expires_at and expires_at <= engine.clock.now():
            raise invalid("expires_at", "must be a future time, in unix seconds")
        while True:
            ids = list(dict.fromkeys(request.ids))
            if state:
                filters = (state, ending_at, expires_at, PART)
                rows = await connection.fetch(_SQL["with_other_expiry"], tenant_id, prize_id, *filters)
                ids = [row["code_id"] for row in rows]
            await connection.execute(_SQL["lock"], tenant_id, prize_id, ids)
            rows = await connection.fetch(_SQL["set_expiry"], tenant_id, prize_id, ids, state, ending_at, expires_at)
            # A concurrent request may have changed all of these codes; others may remain.
            if rows or not state or not ids:
                break
        reply = m.ExpireCodesReply(changed=len(rows))
        retained = await _retained(connection, tenant_id, prize_id, request.ids)
        reply.kept = [one for one in retained if one.state not in (m.CodeState.FREE, m.CodeState.EXPIRED)]
        reply.available = await connection.fetchval(_SQL["available"], tenant_id, prize_id)
        if rows and expires_at:
            await frozen.refuse_lowered(connection, tenant_id, prize_id, "expires_at")
        if rows or not part:
            after = {"changed": len(rows), "expires_at": expires_at, "left": reply.available, "why": request.reason}
            after |= {"ids": sorted(row["code_id"] for row in rows)} if request.ids else {"state": state}
            after |= {"ending_at": ending_at} if ending_at else {}
            await audit.record(connection, tenant_id, "prize.expire_codes", prize_id, after=after)
        return reply

    return await once(engine, request, m.ExpireCodesReply, work, part=part)


def _check_ids(checks: Checks, ids: Sequence[str]) -> None:
    """Checks the ids, and raises all problems found so far."""
    for index, code_id in enumerate(ids):
        checks.required(f"ids[{index}]", code_id)
    checks.raise_found()
    if len(ids) > IDS_MAX:
        raise invalid("ids", f"must be at most {IDS_MAX}")


async def _retained(
    connection: asyncpg.Connection, tenant_id: str, prize_id: str, ids: Sequence[str]
) -> list[m.KeptCode]:
    if not ids:
        return []
    rows = await connection.fetch(_SQL["states"], tenant_id, prize_id, list(ids))
    states = {row["code_id"]: _state(row["state"]) for row in rows}
    return [m.KeptCode(id=one, state=states.get(one, m.CodeState.UNSPECIFIED)) for one in ids]


async def _reload_catalog(engine: Engine, tenant_id: str) -> None:
    """Makes games reload the pool: they treat an empty one as sold out."""
    version = await engine.database.fetchval(_RAISE_VERSION, tenant_id)
    if version is not None:
        engine.catalog_changed(tenant_id, version)
