"""Pack management, for staff, and what players have redeemed."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import invalid, unknown, violations
from runtime.operations import audit, catalog, reading
from runtime.operations.approvals import policy
from runtime.operations.approvals.pending import NeedsApproval, id_of_new, may_need_approval, pinned_id, settle
from runtime.operations.checks import TIME_MAX, Checks, provided, refuse_read_only, search_pattern, set_fields
from runtime.operations.packs.codes import SQL, new_key
from runtime.wire.enums import enum, token
from runtime.wire.scope import Scoped, merchant_of, tenant_of

_CAMPAIGN: Final = sql.load("campaigns")["get"]
_IS_KNOWN: Final = sql.load("desk")["is_known"]

SETTABLE: Final = frozenset({"name", "status", "gives", "until"})
TURNS_MAX: Final = 1_000_000
AMOUNT_MAX: Final = 1_000_000_000_000


@may_need_approval
async def create_pack(engine: Engine, request: m.CreatePackRequest) -> m.PackReply:
    """Creates a pack without codes: import or generate them next. Default status: active.

    A code that gives more than DUAL_TURNS_ABOVE or DUAL_ADJUSTMENT_ABOVE needs a second person's approval: 202
    APPROVAL_NEEDED.
    """

    async def work(connection: asyncpg.Connection) -> m.PackReply:
        return m.PackReply(pack=await make(engine, connection, request))

    return await catalog.create_dependent(engine, request, m.PackReply, work)


async def make(engine: Engine, connection: asyncpg.Connection, request: m.CreatePackRequest) -> m.Pack:
    """Creates the pack. The caller has locked the tenant's catalogue."""
    tenant_id, pack = tenant_of(request), provided(request.pack, "pack")
    refuse_read_only(pack, m.Pack(id=pinned_id(pack.id)))
    if found := problems(pack):
        raise violations(found)
    campaign = await reading.for_update(connection, _CAMPAIGN, request, "campaign", pack.campaign_id)
    _check_wallet(request, pack, campaign["merchant_id"])
    pack_id = id_of_new("pack", pack.id)
    columns = (pack.campaign_id, pack.name, token(pack.status, "active"), *_gift(pack), pack.until)
    await connection.execute(SQL["insert"], tenant_id, pack_id, *columns)
    key = new_key(engine, tenant_id, pack.campaign_id)
    await connection.execute(SQL["store_key"], tenant_id, pack.campaign_id, key)
    row = await row_of(connection, tenant_id, pack_id)
    await audit.record(connection, tenant_id, "pack.create", pack_id, after=dict(row))
    pinned = m.CreatePackRequest.parse(bytes(request))
    assert pinned.pack is not None
    pinned.pack.id = pack_id
    needs = policy.pack(engine.settings, None, row)
    await settle(connection, needs, lambda: NeedsApproval(pack_id, before={}, after=dict(row), pinned=pinned))
    return pack_from_row(row)


async def get_pack(engine: Engine, request: m.GetPackRequest) -> m.PackReply:
    """One pack with its counts, archived or not."""
    return m.PackReply(pack=pack_from_row(await reading.one(engine, SQL["get"], request, "pack")))


async def list_packs(engine: Engine, request: m.ListPacksRequest) -> m.ListPacksReply:
    """The tenant's packs with their counts, newest first. Archived packs only if `status` asks for them."""
    filters = (request.campaign_id, token(request.status), search_pattern(request.q), merchant_of(request))
    rows, pagination = await reading.page(engine, SQL["list"], request, tenant_of(request), *filters)
    return m.ListPacksReply(items=[pack_from_row(row) for row in rows], pagination=pagination)


@may_need_approval
async def update_pack(engine: Engine, request: m.UpdatePackRequest) -> m.PackReply:
    """Sets the fields of the request. Redemptions keep what they gave. 202 APPROVAL_NEEDED as for `create_pack`.

    INVALID_ARGUMENT if `campaign_id` would change: the codes are the campaign's.
    """

    async def work(connection: asyncpg.Connection) -> m.PackReply:
        return m.PackReply(pack=await alter(engine, connection, request))

    return await catalog.change_dependent(engine, tenant_of(request), work)


async def alter(engine: Engine, connection: asyncpg.Connection, request: m.UpdatePackRequest) -> m.Pack:
    """Changes the pack. The caller has locked the tenant's catalogue."""
    tenant_id, update = tenant_of(request), provided(request.pack, "pack")
    await reading.for_update(connection, SQL["owner"], request, "pack", request.id)
    before = await row_of(connection, tenant_id, request.id)
    pack = pack_from_row(before)
    if update.campaign_id not in ("", pack.campaign_id):
        raise invalid("campaign_id", "cannot change")
    if pack.status is m.PackStatus.ARCHIVED:
        raise invalid("status", "cannot change: the pack is archived, and its codes are no longer valid")
    set_fields(pack, update, request.update_mask, SETTABLE)
    if found := problems(pack):
        raise violations(found)
    campaign = await reading.for_update(connection, _CAMPAIGN, request, "campaign", pack.campaign_id)
    _check_wallet(request, pack, campaign["merchant_id"])
    columns = (pack.name, token(pack.status, "active"), *_gift(pack), pack.until)
    await connection.execute(SQL["update"], tenant_id, request.id, *columns)
    after = await row_of(connection, tenant_id, request.id)
    await audit.record(connection, tenant_id, "pack.update", request.id, before=dict(before), after=dict(after))
    # Codes and redemptions in the meantime do not make the approval stale.
    rests_on = {name: before[name] for name in ("status", "until", *policy.GIFT)}
    approval = NeedsApproval(request.id, before=dict(before), after=dict(after), rests_on=rests_on)
    await settle(connection, policy.pack(engine.settings, before, after), lambda: approval)
    return pack_from_row(after)


async def delete_pack(engine: Engine, request: m.DeleteRequest) -> m.DeleteReply:
    """Removes a pack, or archives it if it has codes or receipts. Players cannot enter its codes any more."""
    tenant_id = tenant_of(request)

    async def work(connection: asyncpg.Connection) -> m.DeleteReply:
        before = await reading.for_update(connection, SQL["owner"], request, "pack", request.id)
        # A receipt's payment holds the pack: `remove` must see its redemption.
        await connection.execute(SQL["lock"], tenant_id, request.id)
        archived = await connection.fetchval(SQL["remove"], tenant_id, request.id) is None
        if archived:
            await connection.execute(SQL["archive"], tenant_id, request.id)
        act = "pack.archive" if archived else "pack.delete"
        await audit.record(connection, tenant_id, act, request.id, before=dict(before))
        return m.DeleteReply(id=request.id, archived=archived)

    return await catalog.change_dependent(engine, tenant_id, work)


async def list_redemptions(engine: Engine, request: m.ListRedemptionsRequest) -> m.ListRedemptionsReply:
    """The codes and receipts of a pack that players redeemed, newest first."""
    await reading.one(engine, SQL["owner"], request, "pack")
    filters = (tenant_of(request), request.id)
    rows, pagination = await reading.page(engine, SQL["redemptions"], request, *filters, replica=True)
    return m.ListRedemptionsReply(items=[_redemption(row) for row in rows], pagination=pagination)


async def list_player_redemptions(engine: Engine, request: m.ListOfPlayerRequest) -> m.ListRedemptionsReply:
    """The codes and receipts that a player redeemed, newest first."""
    tenant_id = tenant_of(request)
    if not await engine.database.fetchval(_IS_KNOWN, tenant_id, request.id):
        raise unknown("player", request.id)
    filters = (tenant_id, request.id, request.campaign_id, merchant_of(request))
    rows, pagination = await reading.page(engine, SQL["of_player"], request, *filters)
    return m.ListRedemptionsReply(items=[_redemption(row) for row in rows], pagination=pagination)


# -- checks and messages -----------------------------------------------------------------------


def problems(pack: m.Pack) -> list[tuple[str, str]]:
    """(field, description) of each problem. References are not checked."""
    checks, gives = Checks(), pack.gives or m.PackGift()
    checks.required("campaign_id", pack.campaign_id)
    checks.required("name", pack.name)
    checks.between("until", pack.until, 0, TIME_MAX)
    if bool(gives.turns) == bool(gives.currency):
        checks.problem("gives", "must have either turns or currency")
    elif gives.turns:
        checks.between("gives.turns", gives.turns, 1, TURNS_MAX)
        if gives.amount or gives.scope_key:
            checks.problem("gives", "has an amount and a scope_key only with a currency")
    else:
        checks.between("gives.amount", gives.amount, 1, AMOUNT_MAX)
    return checks.found


def _check_wallet(request: Scoped, pack: m.Pack, merchant_id: str) -> None:
    """INVALID_ARGUMENT if the wallet is neither the campaign's, nor its merchant's, nor the tenant's. The staff of a
    merchant cannot credit the tenant's.
    """
    gives = provided(pack.gives, "gives")
    wallets = {"", pack.campaign_id, merchant_id, "" if merchant_of(request) else tenant_of(request)}
    if gives.scope_key not in wallets:
        raise invalid("gives.scope_key", "must be the id of the campaign, of its merchant or of the tenant")


def _gift(pack: m.Pack) -> tuple[int, str, str, int]:
    """turns, currency, scope_key and amount as stored."""
    gives = provided(pack.gives, "gives")
    return gives.turns, gives.currency, (gives.scope_key or pack.campaign_id) if gives.currency else "", gives.amount


async def row_of(connection: asyncpg.Connection, tenant_id: str, pack_id: str) -> asyncpg.Record:
    """The pack's row, as this transaction sees it."""
    row = await connection.fetchrow(SQL["get"], tenant_id, pack_id, "", False)
    assert row is not None, "the caller has inserted or read it"
    return row


_GIFT: Final = frozenset({"turns", "currency", "scope_key", "amount"})


def gift(row: Any) -> m.PackGift:
    """What a pack gives, or a redemption gave."""
    return m.PackGift(**{name: row[name] for name in _GIFT})


def pack_from_row(row: asyncpg.Record, secret: str = "") -> m.Pack:
    """The message for a row, with the secret of its receipts if it was just created."""
    fields = {name: value for name, value in row.items() if name not in _GIFT}
    return m.Pack(**{**fields, "status": enum(m.PackStatus, row["status"]), "gives": gift(row), "secret": secret})


def _redemption(row: asyncpg.Record) -> m.Redemption:
    return m.Redemption(**{name: value for name, value in row.items() if name not in _GIFT}, gave=gift(row))
