"""A pool of voucher codes as staff sees it: listed by ids, what was won by its end too; ended, withdrawn."""

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
from runtime.operations.idempotent_writes import Done, once
from runtime.outgoing.vault import VaultError, code_context, vault_of
from runtime.wire.enums import enum, token
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("codes")
_GET_PRIZE: Final = sql.load("prizes")["get"]
_RAISE_VERSION: Final = sql.load("tenancy")["raise_catalog_version"]

HIDDEN: Final = "\u2022\u2022\u2022\u2022"
PART: Final = 5_000
"""Codes of one statement: what it changes well within its time."""
IDS_MAX: Final = 1_000


def masked(code: str) -> str:
    """The end of a code that is long enough to keep its secret: four characters of 12, two of 8, else none."""
    return HIDDEN + (code[-4:] if len(code) >= 12 else code[-2:] if len(code) >= 8 else "")


async def list_codes(engine: Engine, request: m.ListCodesRequest) -> m.ListCodesReply:
    """The codes of a prize's pool, the newest first, and how many of each state; for who may write the prize.

    A code that was won is shown by its last characters. Of the others nothing is: what begins all of them is known to
    whoever won one, and what is free could be used by who reads the rest. NOT_FOUND UNKNOWN_PRIZE; FORBIDDEN.
    """
    tenant_id, state = tenant_of(request), token(request.state).removeprefix("code_state_")
    await reading.to_write(engine.database, _GET_PRIZE, request, "prize", request.id)
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, request.id, state)
    totals = await engine.database.fetchrow(_SQL["totals"], tenant_id, request.id)
    assert totals is not None, "a sum always has its one row"
    items = [_shown(engine, tenant_id, request.id, row) for row in rows]
    return m.ListCodesReply(items=items, pagination=pagination, totals=m.CodeTotals(**totals))


def _shown(engine: Engine, tenant_id: str, prize_id: str, row: Any) -> m.VoucherCode:
    fields = dict(row)
    sealed, text = (fields.pop("key_id"), fields.pop("ciphertext")), HIDDEN
    if row["state"] == "assigned":
        # What no key of ours opens stays hidden: who wins it is told, and the log.
        with suppress(VaultError, ValueError):
            text = masked(vault_of(engine.keyring.code).open(*sealed, code_context(tenant_id, prize_id)))
    return m.VoucherCode(**{**fields, "state": _state(row["state"])}, masked=text)


def _state(stored: str) -> m.CodeState:
    return enum(m.CodeState, stored)


async def withdraw_codes(engine: Engine, request: m.WithdrawCodesRequest) -> m.WithdrawCodesReply:
    """Takes codes out of a prize's pool for good: up to 1,000 by their ids, or every free one.

    One that somebody won stays: it is told with what it is. Every free one goes in parts, each kept by itself.
    """
    checks = Checks()
    if bool(request.ids) == request.all_free:
        checks.problem("ids", "or all_free must be given, and not both")
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
        await _looked_at_afresh(engine, tenant_of(request))
    return reply


async def _withdraw_part(engine: Engine, request: m.WithdrawCodesRequest, part: int) -> Done:
    tenant_id, prize_id = tenant_of(request), request.id

    async def work(connection: asyncpg.Connection) -> m.WithdrawCodesReply:
        await reading.to_write(connection, _GET_PRIZE, request, "prize", prize_id)
        ids = list(dict.fromkeys(request.ids))
        if request.all_free:
            ids = [row["code_id"] for row in await connection.fetch(_SQL["free"], tenant_id, prize_id, PART)]
        await connection.execute(_SQL["hold"], tenant_id, prize_id, ids)
        gone = {row["code_id"] for row in await connection.fetch(_SQL["withdraw"], tenant_id, prize_id, ids)}
        reply = m.WithdrawCodesReply(withdrawn=len(gone))
        reply.kept = await _kept(connection, tenant_id, prize_id, [one for one in request.ids if one not in gone])
        reply.available = await connection.fetchval(_SQL["available"], tenant_id, prize_id)
        if gone or not part:
            after = {"withdrawn": len(gone), "left": reply.available, "why": request.reason}
            after |= {"ids": sorted(gone)} if request.ids else {}
            await audit.record(connection, tenant_id, "prize.withdraw_codes", prize_id, after=after)
        return reply

    return await once(engine, request, m.WithdrawCodesReply, work, part=part)


async def expire_codes(engine: Engine, request: m.ExpireCodesRequest) -> m.ExpireCodesReply:
    """Sets when codes of a prize's pool end: up to 1,000 by their ids, every free or every expired one.

    `ending_at` narrows all of them to those that end at that time, as those of one import do. One that somebody won,
    or that was withdrawn, stays as it is: it is told with what it is. All are changed in parts, each kept by itself.
    """
    checks = Checks()
    if [bool(request.ids), request.all_free, request.all_expired].count(True) != 1:
        checks.problem("ids", "or all_free or all_expired must be given, and one of them alone")
    if bool(request.expires_at) == request.never:
        checks.problem("expires_at", "or never must be given, and not both")
    if request.ending_at and request.ids:
        checks.problem("ending_at", "narrows all_free and all_expired alone")
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
        await _looked_at_afresh(engine, tenant_of(request))
    return reply


async def _expire_part(engine: Engine, request: m.ExpireCodesRequest, part: int) -> Done:
    tenant_id, prize_id = tenant_of(request), request.id
    state = "free" if request.all_free else "expired" if request.all_expired else ""
    ending_at, expires_at = request.ending_at, request.expires_at

    async def work(connection: asyncpg.Connection) -> m.ExpireCodesReply:
        await reading.to_write(connection, _GET_PRIZE, request, "prize", prize_id)
        if expires_at and expires_at <= engine.clock.now():
            raise invalid("expires_at", "must be a time to come, in unix seconds")
        while True:
            ids = list(dict.fromkeys(request.ids))
            if state:
                wanted = (state, ending_at, expires_at, PART)
                rows = await connection.fetch(_SQL["ending_otherwise"], tenant_id, prize_id, *wanted)
                ids = [row["code_id"] for row in rows]
            await connection.execute(_SQL["hold"], tenant_id, prize_id, ids)
            rows = await connection.fetch(_SQL["set_expiry"], tenant_id, prize_id, ids, state, ending_at, expires_at)
            # A rival may have had all of these: then others may be left.
            if rows or not state or not ids:
                break
        reply = m.ExpireCodesReply(changed=len(rows))
        kept = await _kept(connection, tenant_id, prize_id, request.ids)
        reply.kept = [one for one in kept if one.state not in (m.CodeState.FREE, m.CodeState.EXPIRED)]
        reply.available = await connection.fetchval(_SQL["available"], tenant_id, prize_id)
        if rows or not part:
            after = {"changed": len(rows), "expires_at": expires_at, "left": reply.available, "why": request.reason}
            after |= {"ids": sorted(row["code_id"] for row in rows)} if request.ids else {"state": state}
            after |= {"ending_at": ending_at} if ending_at else {}
            await audit.record(connection, tenant_id, "prize.expire_codes", prize_id, after=after)
        return reply

    return await once(engine, request, m.ExpireCodesReply, work, part=part)


def _check_ids(checks: Checks, ids: Sequence[str]) -> None:
    """Refuses what was found wrong so far, and with the ids."""
    for index, code_id in enumerate(ids):
        checks.required(f"ids[{index}]", code_id)
    checks.raise_found()
    if len(ids) > IDS_MAX:
        raise invalid("ids", f"must be at most {IDS_MAX}")


async def _kept(connection: asyncpg.Connection, tenant_id: str, prize_id: str, ids: Sequence[str]) -> list[m.KeptCode]:
    """Codes with what they are."""
    if not ids:
        return []
    rows = await connection.fetch(_SQL["states"], tenant_id, prize_id, list(ids))
    states = {row["code_id"]: _state(row["state"]) for row in rows}
    return [m.KeptCode(id=one, state=states.get(one, m.CodeState.UNSPECIFIED)) for one in ids]


async def _looked_at_afresh(engine: Engine, tenant_id: str) -> None:
    """Has games look at the pool again: they count an empty one as sold out."""
    version = await engine.database.fetchval(_RAISE_VERSION, tenant_id)
    if version is not None:
        engine.catalog_changed(tenant_id, version)
