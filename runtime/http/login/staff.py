"""Staff at the admin edge: their sign-ins and refusals are noted in the audit log, and they log out.

    POST /admin/auth/logout   {everywhere?} -> {}

Staff's tokens are made elsewhere (`tombola token mint`, another issuer), so a sign-in is a token, or a session of
that issuer's, that was not seen before. What is noted is asked of Core, which says once for all edges what has been
noted already and what is too much. Where Core does not answer, the request goes on: without Core it comes to nothing.
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
from runtime.operations.audit import NOTE_REFUSAL, NOTE_SIGN_IN
from runtime.operations.players.revocations import REVOKE_STAFF

IDENTITY: Final = web.RequestKey("identity", Identity)
"""Whose request it is, once it was let in."""

OF_ROLES: Final = frozenset({"ROLE_REQUIRED", "FORBIDDEN"})
"""Reasons of refusals that are noted: what who is known may not do."""

SIGN_INS_KNOWN_MAX: Final = 10_000
REFUSALS_OF_ONE: Final = Policy("refusals", 1 / 360, 10)
"""Of one who is refused, Core is asked to note ten at once and ten an hour."""

REFUSALS_OF_ALL: Final = Policy("refusals", 1 / audit.REFUSALS.every_seconds, audit.REFUSALS.at_once)
"""Of all of a tenant's staff, or players, no more than Core would note: a flood does not come so far."""

REFUSALS: Final = Counter(
    "tombola_staff_refusals", "Refusals for want of a role, by whether each was noted.", ["noted"]
)

log = structlog.get_logger(__name__)


class _LogOut(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a logout."""

    everywhere: bool = False


class Desk:
    """Where staff sign in and out of an admin edge."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._of_one, self._of_all = LocalRate(REFUSALS_OF_ONE), LocalRate(REFUSALS_OF_ALL)
        self._decoder = msgspec.json.Decoder(_LogOut)
        self._counted = {noted: REFUSALS.labels("yes" if noted else "no") for noted in (True, False)}

    async def signed_in(self, request: web.Request, identity: Identity) -> None:
        """Has a sign-in noted that this edge has not seen before."""
        key = (identity.tenant_id, identity.sign_in_id)
        if not identity.sign_in_id or key in self._known:
            return
        note = m.NoteSignInRequest(
            scope=_own_scope(identity),
            subject=identity.subject,
            sign_in_id=identity.sign_in_id,
            roles=sorted(identity.roles),
            expires_at=identity.expires_at,
            address=self._address(request),
        )
        try:
            await self._edge.caller.call(NOTE_SIGN_IN, note)
        except Fault as fault:
            log.warning("sign_in_not_noted", subject=identity.subject, why=fault.message)
            return
        self._known[key] = None
        if len(self._known) > SIGN_INS_KNOWN_MAX:
            self._known.popitem(last=False)

    async def refused(self, request: web.Request, identity: Identity, route: str, fault: Fault) -> None:
        """Has a refusal noted, within bounds; counts it in any case."""
        self._counted[await self._note_refusal(request, identity, route, fault)].inc()

    async def _note_refusal(self, request: web.Request, identity: Identity, route: str, fault: Fault) -> bool:
        kind = "staff" if identity.roles else "players"
        if self._of_one.take(f"{identity.tenant_id}\0{identity.subject}") is not None:
            return False
        if self._of_all.take(f"{identity.tenant_id}\0{kind}") is not None:
            return False
        note = m.NoteRefusalRequest(
            scope=_own_scope(identity),
            subject=identity.subject,
            route=route,
            reason=fault.reason,
            needed=list(fault.facts.get("roles", ())),
            roles=sorted(identity.roles),
            address=self._address(request),
        )
        try:
            if not identity.expires_at:  # A header said so, and may have made the tenant up.
                await self._edge.tenants.check(identity.tenant_id, request)
            reply: m.NotedReply = await self._edge.caller.call(NOTE_REFUSAL, note)
        except Fault as failure:
            log.warning("refusal_not_noted", subject=identity.subject, route=route, why=failure.message)
            return False
        return reply.noted

    async def log_out(self, request: web.Request) -> web.Response:
        """Ends the sign-in that the token is of, or with `everywhere` every token of its subject; here at once."""
        identity = request[IDENTITY]
        told = decode_json(self._decoder, await read_body(request) or b"{}")
        if not identity.sign_in_id:
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "there is no token here that could end")
        end = m.RevokeStaffRequest(
            # The tenant's own scope: everybody may end what is theirs.
            scope=m.Scope(tenant_id=identity.tenant_id),
            subject=identity.subject if told.everywhere else "",
            sign_in_id=identity.sign_in_id,
            issued_at=identity.issued_at,
        )
        await self._edge.caller.call(REVOKE_STAFF, end)
        await self._edge.revocations.read()
        return ok({})

    def _address(self, request: web.Request) -> str:
        return client_of(request, self._edge.settings.trusted_proxies).address


def _own_scope(identity: Identity) -> m.Scope:
    """Where somebody is at home, whomever they act for."""
    return m.Scope(tenant_id=identity.tenant_id, merchant_id=identity.merchant_id)
