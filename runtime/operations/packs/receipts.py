"""Receipts: purchases that a brand's own system has checked, reported in signed calls, each paid once.

A pack accepts receipts once it has a secret (RotatePackSecret). As for quest events, a signature authenticates each
call (Standard Webhooks, over the raw body). The admin edge asks Core to verify it first (VerifyReceipt), so that the
secret stays in Core. Each pack has a different secret, so a call cannot be replayed to another pack.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import asyncpg

from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.idempotency import WITHOUT_KEY
from runtime.errors import Fault, Status, suspended, unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.packs import redemption
from runtime.operations.packs.codes import SQL, refuse_wallet
from runtime.operations.packs.pack_admin import pack_from_row, row_of
from runtime.operations.packs.redemption import Payment
from runtime.operations.players.lookup import PLAYER, named_player
from runtime.operations.signed import signers
from runtime.outgoing.signing import SignatureRefused, make_secret
from runtime.outgoing.vault import pack_context, vault_of
from runtime.wire.scope import tenant_of

_RECEIPT: Final = redemption.SQL["receipt"]


async def rotate_pack_secret(engine: Engine, request: m.RotatePackSecretRequest) -> m.PackReply:
    """Creates a secret for the pack's receipts, shown only in this reply. A previous secret stays valid until
    `end_previous` ends it, or until the next rotation. FORBIDDEN as for `refuse_wallet`: the secret signs credits.
    """
    tenant_id, secret = tenant_of(request), "" if request.end_previous else make_secret()

    async def work(connection: asyncpg.Connection) -> asyncpg.Record:
        pack = await reading.for_update(connection, SQL["owner"], request, "pack", request.id)
        refuse_wallet(request, pack["scope_key"])
        before = await connection.fetchval(SQL["lock"], tenant_id, request.id)
        signing = vault_of(engine.keyring.code).rotated(before, secret, pack_context(tenant_id, request.id))
        await connection.execute(SQL["rotate"], tenant_id, request.id, signing)
        row = await row_of(connection, tenant_id, request.id)
        after = {**dict(row), "overlap": "previous_secret" in signing}
        await audit.record(connection, tenant_id, "pack.rotate", request.id, after=after)
        return row

    return m.PackReply(pack=pack_from_row(await engine.database.transaction(work), secret))


async def verify_receipt(engine: Engine, request: m.VerifyCallbackRequest) -> m.VerifyCallbackReply:
    """Whether a secret of the pack signed this call, within the tolerance of the database's time.

    An unknown pack, and one without a secret, get the same answer as a wrong signature.
    """
    tenant_id = tenant_of(request)
    row = await engine.database.fetchrow(SQL["receiver"], tenant_id, request.id)
    try:
        signers(engine, request, row["signing"] if row else {}, pack_context(tenant_id, request.id))
    except SignatureRefused:
        return m.VerifyCallbackReply(verified=False)
    return m.VerifyCallbackReply(verified=True)


async def report_receipt(engine: Engine, request: m.ReportReceiptRequest) -> m.RedemptionReply:
    """Gives a player what the pack gives, once per receipt. Reporting it again returns the first reply.

    The player is given by `player_id`, or by the e-mail address or phone number of the login. NOT_FOUND UNKNOWN_PLAYER
    for an unknown contact, in a merchant's campaign also for a player who has not taken part in this merchant's
    campaigns, or for an unknown id in this service's format; any other unknown id creates the player.
    INVALID_ARGUMENT IDEMPOTENCY_MISMATCH if the receipt was paid to another player. FAILED_PRECONDITION CODE_ENDED (not
    active, after `until`) or CAMPAIGN_CLOSED.
    """
    checks = Checks()
    checks.required("receipt_id", request.receipt_id)
    checks.raise_found()
    tenant_id = tenant_of(request)
    player_id = await named_player(engine, tenant_id, request)
    for _ in range(redemption.ATTEMPTS):
        row = await engine.database.fetchrow(_RECEIPT, tenant_id, request.id, request.receipt_id, player_id)
        if row is None:
            raise unknown("pack", request.id)
        if row["merged_into"] is not None:
            player_id = row["merged_into"]
            continue
        if row["redemption_id"] is not None:
            return _first_reply(request, row, player_id)
        if row["player_status"] is None and player_id.startswith(PLAYER):
            raise unknown("player", player_id)
        if row["merchant_suspended"] or row["player_status"] == "suspended":
            raise suspended("merchant" if row["merchant_suspended"] else "player")
        now = engine.clock.now()
        if row["status"] != "active" or 0 < row["until"] <= now:
            raise Fault(Status.FAILED_PRECONDITION, "CODE_ENDED", f"pack {request.id} accepts no receipts now")
        redemption.check_open(row, row["campaign_status"], now)
        redemption.check_entry(row)
        paid = Payment(ids.make("redemption"), request.id, row["campaign_id"], player_id, receipt_id=request.receipt_id)
        try:
            made = await engine.database.transaction(partial(_pay, tenant_id=tenant_id, paid=paid))
        except redemption.Merged as merged:
            player_id = merged.player_id
            continue
        except asyncpg.UniqueViolationError:
            continue  # The receipt was paid meanwhile.
        if made is None:
            continue  # The pack, its campaign or the player was changed meanwhile.
        redemption.announce(engine, tenant_id, row["merchant_id"], made)
        return redemption.answer_of(made)
    raise Fault(Status.UNAVAILABLE, "OVERLOADED", "the receipt is being paid; try again", retry_after_seconds=1)


async def _pay(connection: asyncpg.Connection, *, tenant_id: str, paid: Payment) -> Mapping[str, Any] | None:
    """Pays what the pack gives now. None: it accepts no receipts of the player."""
    await redemption.lock_player(connection, tenant_id, paid.player_id)
    about = (tenant_id, paid.pack_id, paid.player_id)
    if (gives := await connection.fetchrow(redemption.SQL["lock_pack"], *about)) is None:
        return None
    return await redemption.pay(connection, tenant_id, paid, gives, WITHOUT_KEY)


def _first_reply(request: m.ReportReceiptRequest, row: asyncpg.Record, player_id: str) -> m.RedemptionReply:
    """The first reply to the receipt. IDEMPOTENCY_MISMATCH if it was paid to another player."""
    if row["paid_to"] != player_id:
        message = f"receipt {request.receipt_id!r} was already paid to another player"
        raise Fault(Status.INVALID_ARGUMENT, "IDEMPOTENCY_MISMATCH", message, http_status=422)
    gave = {name: row[f"paid_{name}"] for name in ("turns", "currency", "scope_key", "amount")}
    return redemption.answer_of({**row, **gave})
