"""Login codes by the tenant's own sender. The edge has neither the tenant's row nor the keys of its secrets."""

from __future__ import annotations

from typing import Final

import structlog

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.tenant_sender import sender_of
from runtime.errors import Fault, Status, unknown
from runtime.operations.checks import TIME_MAX, Checks
from runtime.operations.row import Operation
from runtime.outgoing.senders import LoginCode, SendFailed
from runtime.outgoing.vault import VaultError
from runtime.wire.scope import tenant_of

_SENDER: Final = sql.load("tenancy")["sender"]

log = structlog.get_logger(__name__)


async def send_login_code(engine: Engine, request: m.SendLoginCodeRequest) -> m.Empty:
    """Sends a code. UNAVAILABLE SENDER_UNAVAILABLE if the tenant's mail server fails."""
    tenant_id = tenant_of(request)
    checks = Checks()
    checks.required("contact", request.contact)
    checks.required("code", request.code)
    checks.between("expires_at", request.expires_at, 0, TIME_MAX)
    checks.raise_found()
    if (stored := await engine.database.fetchval(_SENDER, tenant_id)) is None:
        raise unknown("tenant", tenant_id)
    try:
        if (sender := sender_of(engine.settings, tenant_id, stored)) is None:
            raise SendFailed("no mail server is set up")
        code = LoginCode(tenant_id, "email", request.contact, request.code, request.expires_at)
        await engine.sending.send(sender, code, own=bool(stored.get("secret")))
    except (SendFailed, VaultError, ValueError) as error:
        log.error("login_code_not_sent", sender="tenant", tenant_id=tenant_id, why=str(error))
        raise Fault(
            Status.UNAVAILABLE, "SENDER_UNAVAILABLE", "the code could not be sent; try again", retry_after_seconds=5
        ) from error
    return m.Empty()


SEND_LOGIN_CODE: Final = Operation(
    "SendLoginCode",
    "POST /logins/challenges/send",
    run=send_login_code,
    lengthy=True,
    confidential=True,
    refusals=("SENDER_UNAVAILABLE", "UNKNOWN_TENANT"),
    example={"contact": "ada@example.com", "code": "123456", "expires_at": 1764000000},
)

ROWS: Final = (SEND_LOGIN_CODE,)
