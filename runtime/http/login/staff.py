"""Staff at the admin edge: records sign-ins and refusals in the audit log, and logs staff out.

    POST /admin/auth/logout   {everywhere?} -> {}

Staff tokens are issued elsewhere (`tombola token mint`, an external issuer), so a sign-in is the first use of a token,
or of an issuer's session. Core deduplicates the records of all edges and limits their rate. If Core does not respond,
the request continues: without Core it can have no effect.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec
import structlog
from aiohttp import web
from prometheus_client import Counter

from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.http.admission.client_address import client_of
from runtime.http.admission.local_rates import LocalRate
from runtime.http.admission.rates import Policy
from runtime.http.auth.identity import Identity
from runtime.http.bodies import decode_json, read_body
from runtime.http.edge import Edge
from runtime.http.envelope import ok
from runtime.operations import audit
from runtime.operations.audit import RECORD_REFUSAL, RECORD_SIGN_IN
from runtime.operations.players.revocations import REVOKE_STAFF

IDENTITY: Final = web.RequestKey("identity", Identity)
"""The request key of the authorized caller."""

OF_ROLES: Final = frozenset({"ROLE_REQUIRED", "FORBIDDEN"})
"""The refusals to record: an identified caller lacks a permission."""

SIGN_INS_KNOWN_MAX: Final = 10_000
REFUSALS_OF_ONE: Final = Policy("refusals", 1 / 360, 10)
"""The records per subject: a burst of ten, then ten an hour."""

REFUSALS_OF_ALL: Final = Policy("refusals", 1 / audit.REFUSALS.every_seconds, audit.REFUSALS.at_once)
"""The records of all of a tenant's staff, or players: Core's own limit, so that a flood does not reach Core."""

REFUSALS: Final = Counter(
    "tombola_staff_refusals",
    "Refusals for a missing role, by whether each was recorded in the audit log.",
    ["recorded"],
)

log = structlog.get_logger(__name__)


class _LogOut(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a logout."""

    everywhere: bool = False


class StaffSessions:
    """Records staff sign-ins and refusals of an admin edge, and serves log-out."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._of_one, self._of_all = LocalRate(REFUSALS_OF_ONE), LocalRate(REFUSALS_OF_ALL)
        self._decoder = msgspec.json.Decoder(_LogOut)
        self._counted = {recorded: REFUSALS.labels("yes" if recorded else "no") for recorded in (True, False)}

    async def signed_in(self, request: web.Request, identity: Identity) -> None:
        """Records a sign-in that is new to this edge."""
        key = (identity.tenant_id, identity.sign_in_id)
        if not identity.sign_in_id or key in self._known:
            return
        entry = m.RecordSignInRequest(
            scope=_own_scope(identity),
            subject=identity.subject,
            sign_in_id=identity.sign_in_id,
            roles=sorted(identity.roles),
            expires_at=identity.expires_at,
            address=self._address(request),
        )
        try:
            await self._edge.caller.call(RECORD_SIGN_IN, entry)
        except Fault as fault:
            log.warning("sign_in_not_recorded", subject=identity.subject, why=fault.message)
            return
        self._known[key] = None
        if len(self._known) > SIGN_INS_KNOWN_MAX:
            self._known.popitem(last=False)

    async def refused(self, request: web.Request, identity: Identity, route: str, fault: Fault) -> None:
        """Counts a refusal, and records it within the rate limits."""
        self._counted[await self._record_refusal(request, identity, route, fault)].inc()

    async def _record_refusal(self, request: web.Request, identity: Identity, route: str, fault: Fault) -> bool:
        kind = "staff" if identity.roles else "players"
        if self._of_one.take(f"{identity.tenant_id}\0{identity.subject}") is not None:
            return False
        if self._of_all.take(f"{identity.tenant_id}\0{kind}") is not None:
            return False
        entry = m.RecordRefusalRequest(
            scope=_own_scope(identity),
            subject=identity.subject,
            route=route,
            reason=fault.reason,
            needed=list(fault.facts.get("roles", ())),
            roles=sorted(identity.roles),
            address=self._address(request),
        )
        try:
            if not identity.expires_at:  # The identity is from headers, so the tenant may not exist.
                await self._edge.tenants.check(identity.tenant_id, request)
            reply: m.RecordedReply = await self._edge.caller.call(RECORD_REFUSAL, entry)
        except Fault as failure:
            log.warning("refusal_not_recorded", subject=identity.subject, route=route, why=failure.message)
            return False
        return reply.recorded

    async def log_out(self, request: web.Request) -> web.Response:
        """Revokes the token's sign-in, or with `everywhere` all tokens of its subject; on this edge immediately."""
        identity = request[IDENTITY]
        body = decode_json(self._decoder, await read_body(request) or b"{}")
        if not identity.sign_in_id:
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "the request has no token to revoke")
        end = m.RevokeStaffRequest(
            # The tenant's scope, without the merchant: all staff may revoke their own tokens.
            scope=m.Scope(tenant_id=identity.tenant_id),
            subject=identity.subject if body.everywhere else "",
            sign_in_id=identity.sign_in_id,
            issued_at=identity.issued_at,
        )
        await self._edge.caller.call(REVOKE_STAFF, end)
        await self._edge.revocations.read()
        return ok({})

    def _address(self, request: web.Request) -> str:
        return client_of(request, self._edge.settings.trusted_proxies).address


def _own_scope(identity: Identity) -> m.Scope:
    """The caller's own tenant and merchant, even if it acts for another tenant."""
    return m.Scope(tenant_id=identity.tenant_id, merchant_id=identity.merchant_id)
