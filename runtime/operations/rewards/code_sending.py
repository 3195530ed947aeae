"""Sends the code of a delivered reward to its player again, through the sender of login codes (LOGIN_SENDER)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import asyncpg
import structlog

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.rewards import open_code
from runtime.actors.tenant_sender import has_own, sender_of
from runtime.errors import Fault, Status, unknown
from runtime.operations import reading
from runtime.operations.audit import record
from runtime.operations.checks import Checks
from runtime.operations.players.challenges import Rate, charge_all
from runtime.outgoing.senders import SENDERS, RewardCode, RewardSender, SendFailed, SmtpSender
from runtime.outgoing.vault import VaultError
from runtime.settings import Settings
from runtime.wire.contacts import masked
from runtime.wire.scope import tenant_of

_SENDER: Final = sql.load("tenancy")["sender"]
_SQL: Final = sql.load("rewards")

SENDS: Final = Rate("reward-code", 600, 3)
"""Messages with one reward's code: three at once, then one in ten minutes. Each may cost the operator money."""

log = structlog.get_logger(__name__)


async def send_code(engine: Engine, request: m.SendCodeRequest) -> m.SendCodeReply:
    """Sends the code of a delivered reward to a verified contact of its player, an e-mail address first.

    The audit log records it before the message leaves. NOT_FOUND UNKNOWN_CODE if the reward has no code or is not
    FULFILLED; FAILED_PRECONDITION NO_CONTACT if the sender reaches none of the player's contacts; UNAVAILABLE
    SENDER_UNAVAILABLE if the message could not be sent; RESOURCE_EXHAUSTED RATE_LIMITED.
    """
    tenant_id, reward_id = tenant_of(request), request.id
    checks = Checks()
    checks.required("reason", request.reason)
    checks.raise_found()
    stored = await engine.database.fetchval(_SENDER, tenant_id) or {}
    own = _own_sender(engine.settings, tenant_id, stored)
    sender = _sender(engine.settings, optional=own is not None)
    reached = sorted({*(sender.carries if sender is not None else ()), *(["email"] if own is not None else ())})

    async def work(connection: asyncpg.Connection) -> RewardCode:
        row = await reading.for_update(connection, _SQL["sealed"], request, "reward", reward_id)
        if row["ciphertext"] is None:
            raise unknown("code", reward_id)
        contact = await connection.fetchrow(_SQL["contact"], tenant_id, row["player_id"], reached)
        if contact is None:
            reachable = " or ".join(reached)
            message = f"the player has no verified {reachable}; show the code and pass it on in another way"
            raise Fault(Status.FAILED_PRECONDITION, "NO_CONTACT", message)
        code = open_code(engine, tenant_id, row, reward_id, row["prize_id"])
        await charge_all(connection, [(SENDS, f"{tenant_id}:{reward_id}")])
        facts = {
            "player_id": row["player_id"],
            "prize_id": row["prize_id"],
            "contact_type": contact["type"],
            "reason": request.reason,
        }
        await record(connection, tenant_id, "reward.send_code", reward_id, after=facts)
        return RewardCode(tenant_id, contact["type"], contact["value"], reward_id, row["name"], code)

    try:
        message = await engine.database.transaction(work)
        chosen = own if own is not None and message.contact_type == "email" else sender
        assert chosen is not None, "one of the two reaches the contact"
        await chosen.send_reward(message)
    except SendFailed as error:
        log.error("reward_code_not_sent", sender=engine.settings.login_sender, reward_id=reward_id, why=str(error))
        raise _unavailable("the code could not be sent; try again") from error
    finally:
        if sender is not None:
            await sender.close()
    type = m.ContactType[message.contact_type.upper()]
    return m.SendCodeReply(contact_type=type, sent_to=masked(message.contact))


def _own_sender(settings: Settings, tenant_id: str, stored: Mapping[str, Any]) -> SmtpSender | None:
    """The tenant's own sender. SENDER_UNAVAILABLE if its URL cannot be decrypted."""
    if not has_own(settings, stored):
        return None
    try:
        return sender_of(settings, tenant_id, stored)
    except (VaultError, ValueError) as error:
        log.error("reward_code_not_sent", sender="tenant", tenant_id=tenant_id, why=str(error))
        raise _unavailable("the tenant's mail server cannot be used; operators: set its smtp_url again") from error


def _sender(settings: Settings, *, optional: bool) -> RewardSender | None:
    """LOGIN_SENDER as this process has it. If it cannot send rewards: None if optional, else SENDER_UNAVAILABLE."""
    # A Core without LOGIN_SENDER has its default, which would print codes into the log of a production system.
    make = None if settings.login_sender == "log" and not settings.development else SENDERS.get(settings.login_sender)
    sender = make(settings) if make is not None else None
    if isinstance(sender, RewardSender):
        return sender
    if optional:
        return None
    raise _unavailable("no sender is set up for codes; operators: set LOGIN_SENDER for Core too")


def _unavailable(message: str) -> Fault:
    return Fault(Status.UNAVAILABLE, "SENDER_UNAVAILABLE", message, retry_after_seconds=5)
