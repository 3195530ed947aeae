"""API tokens at the admin edge: whose they are, by Core's word, which is remembered.

Core is asked once an hour for each token, and notes then that it is used. One that is revoked meanwhile is told of by
what every edge reads each second (auth/revocations.py); one that expires ends by the database's clock. What
Core does not know is remembered for a while, too, and an address has few tries of its own, in each tenant: guesses cost
Core no query each. A token that was refused before has tries apart, so that a machine that goes on showing one that
ended keeps none out that share its address. No edge keeps a token itself, but its hash.

A token is given out with a mark behind a dot, which an edge makes of it with a secret of its own (`Marks`): so it is
told from what strangers make up before Core is asked, and tokens that bear one have tries that no stranger can use up,
whatever else comes from their address. The mark opens nothing, and Core never sees it: without it, or where its secret
is gone, a token is as good, and has its tries with everybody's.

Nobody makes a token that may do more than they: not its roles, its merchant or its tenant, and `platform` no token
has. A token makes none, since what it made would outlive its end; and it signs nobody in or out.
"""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from aiohttp import web

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault, Status
from runtime.http.admission.client_address import Client, client_of
from runtime.http.admission.local_rates import ClientRate, charge
from runtime.http.admission.rates import Policy
from runtime.http.auth.credentials import Auth
from runtime.http.auth.identity import IDENTIFIER, Identity
from runtime.http.auth.revocations import Revocations, token_key
from runtime.http.auth.tokens import Tokens
from runtime.operations.row import MANAGEMENT
from runtime.operations.staff.tokens import HELD_SECONDS, OPEN_TOKEN, PREFIX, hash_of, tenant_in
from runtime.settings import Settings
from runtime.stores.single_flight import SingleFlight

CHARACTERS_MAX: Final = 256
REMEMBERED_MAX: Final = 10_000
"""Of tokens that are good, and of those that are none: who guesses has none that is good forgotten."""

UNKNOWN_SECONDS: Final = 60.0
GUESSES: Final = Policy("api-tokens", per_second=1, burst=30)
"""Of one address in one tenant: tokens that are not good. Those that are take nothing of it."""

GUESSES_IN_ALL: Final = Policy("api-tokens", per_second=4, burst=120)
"""Of one address, whatever tenants it names."""


_MARK_BYTES: Final = 12
_MARK: Final = re.compile(r"[A-Za-z0-9_-]{16}")


class _Shown(NamedTuple):
    """A token without its mark, and whether that is an edge's."""

    token: str
    marked: bool


class Marks:
    """Tells tokens that an edge gave out from what strangers make up: by a MAC under the secrets of staff's tokens.

    The first of `secrets` marks, each is taken. Without one there are no marks.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._keys = [hmac.digest(secret.encode(), b"tombola API token", "sha256") for secret in secrets]

    def marked(self, token: str) -> str:
        """The token as it is given out."""
        return f"{token}.{_mark(self._keys[0], token)}" if self._keys else token

    def read(self, shown: str) -> _Shown | None:
        """The token that was shown. None: it is too long for one, or its mark is malformed."""
        if len(shown) > CHARACTERS_MAX:
            return None
        token, dot, mark = shown.partition(".")
        if not dot:
            return _Shown(token, marked=False)
        if not _MARK.fullmatch(mark):
            return None
        return _Shown(token, marked=any(hmac.compare_digest(_mark(key, token), mark) for key in self._keys))


def _mark(key: bytes, token: str) -> str:
    made = hmac.digest(key, token.encode(errors="replace"), "sha256")[:_MARK_BYTES]
    return base64.urlsafe_b64encode(made).decode()


class _Known(NamedTuple):
    """A token that was good when Core was asked, in that hour since 1970."""

    identity: Identity
    hour: int


class _Refused(NamedTuple):
    """Why a token was refused, and until when (monotonic seconds) Core is not asked again."""

    until: float
    reason: str


class _Guesses:
    """How many tokens that are not good an address may show."""

    def __init__(self) -> None:
        self._first = ClientRate(GUESSES)
        self._again = ClientRate(GUESSES)
        self._in_all = ClientRate(GUESSES_IN_ALL)

    def take(self, request: web.Request, client: Client, tenant_id: str, again: bool) -> Callable[[], None]:
        """Charges one, `again` where it was refused before; what undoes that. RATE_LIMITED where there is none left."""
        rate, of_tenant = self._again if again else self._first, _within(client, tenant_id)
        charge(rate, request, of_tenant)
        try:
            charge(self._in_all, request, client)
        except Fault:
            rate.give_back(of_tenant)
            raise

        def give_back() -> None:
            rate.give_back(of_tenant)
            self._in_all.give_back(client)

        return give_back


def _within(client: Client, tenant_id: str) -> Client:
    """The client as one of the tenant's."""
    return Client(*(f"{one}\0{tenant_id}" if one else "" for one in client))


class StaffAuth(Auth):
    """What an admin edge asks of a request: API tokens count beside people's."""

    def __init__(self, tokens: Tokens, settings: Settings, caller: Caller, revocations: Revocations) -> None:
        super().__init__(tokens, header_fallback=settings.header_fallback, default_tenant=settings.default_tenant)
        self._caller = caller
        self._revocations = revocations
        self._proxies = settings.trusted_proxies
        self._marks = Marks(settings.jwt_staff_secrets)
        self._tries = {marked: _Guesses() if settings.rate_limits else None for marked in (False, True)}
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._refused: OrderedDict[str, _Refused] = OrderedDict()
        self._asking = SingleFlight()

    async def identify(self, request: web.Request) -> Identity | None:
        """Who asks; None for nobody. An address that holds a token is refused: it stands in logs and histories."""
        if PREFIX in request.query_string and any(_is_token(value) for value in request.query.values()):
            raise _refusal("TOKEN_INVALID", "a token belongs into the header Authorization; revoke this one")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip().startswith(PREFIX):
            return await self._of_token(token.strip(), request)
        return await super().identify(request)

    async def _of_token(self, shown: str, request: web.Request) -> Identity:
        """Whose an API token is. UNAUTHENTICATED TOKEN_INVALID, TOKEN_EXPIRED; RATE_LIMITED for who guesses."""
        read = self._marks.read(shown)
        if read is None or not IDENTIFIER.fullmatch(tenant_id := tenant_in(read.token)):
            raise _refusal("TOKEN_INVALID")
        await self._revocations.read_first()
        digest, now = hash_of(read.token), self._revocations.now()
        known = self._known.get(digest)
        if known is None or known.hour != now // HELD_SECONDS:
            known = await self._asked(tenant_id, digest, request, self._tries[read.marked])
        else:
            self._known.move_to_end(digest)
        identity = known.identity
        if any(self._revocations.revoked(key, identity.issued_at) for key in identity.revocable):
            raise _refusal("TOKEN_INVALID")
        if identity.expires_at <= now:
            raise _refusal("TOKEN_EXPIRED")
        return identity

    async def _asked(self, tenant_id: str, digest: str, request: web.Request, tries: _Guesses | None) -> _Known:
        refused = self._refused.get(digest)
        if refused is not None and refused.until > time.monotonic():
            raise _refusal(refused.reason)
        client = client_of(request, self._proxies)
        give_back = None
        if tries is not None and digest not in self._known and not self._asking.under_way(digest):
            give_back = tries.take(request, client, tenant_id, digest in self._refused)
        known: _Known = await self._asking.share(digest, lambda: self._ask(tenant_id, digest))
        if give_back is not None:
            give_back()
        return known

    async def _ask(self, tenant_id: str, digest: str) -> _Known:
        asked = m.OpenTokenRequest(scope=m.Scope(tenant_id=tenant_id), token_hash=digest)
        hour = int(self._revocations.now() // HELD_SECONDS)
        try:
            reply: m.TokenReply = await self._caller.call(OPEN_TOKEN, asked)
        except Fault as fault:
            if fault.status is Status.UNAUTHENTICATED:
                self._known.pop(digest, None)
                self._refused[digest] = _Refused(time.monotonic() + UNKNOWN_SECONDS, fault.reason)
                _bound(self._refused)
            raise
        assert reply.token is not None
        known = self._known[digest] = _Known(_identity(tenant_id, reply.token), hour)
        _bound(self._known)
        return known


def check_made(identity: Identity, message: m.CreateTokenRequest) -> None:
    """PERMISSION_DENIED FORBIDDEN where who asks would make a token that may do more than they, or outlives them.

    An admin may do whatever each other role may, so gives all three. Its merchant is for Core to see.
    """
    if identity.api_token_id:
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "a token makes no tokens: they would outlive its end")
    may = MANAGEMENT if "admin" in identity.roles else identity.roles & MANAGEMENT
    beyond = sorted(set(message.token.roles) - may) if message.token is not None else []
    if beyond:
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", f"you have not the roles {', '.join(beyond)}", roles=beyond)


def _identity(tenant_id: str, token: m.ApiToken) -> Identity:
    return Identity(
        tenant_id=tenant_id,
        merchant_id=token.merchant_id,
        player_id="",
        roles=frozenset(token.roles),
        subject=f"{token.name} ({token.id})",
        expires_at=token.expires_at,
        revocable=(token_key(tenant_id, token.id),),
        issued_at=token.created_at,
        api_token_id=token.id,
    )


def _bound(memory: OrderedDict[str, Any]) -> None:
    if len(memory) > REMEMBERED_MAX:
        memory.popitem(last=False)


def _is_token(text: str) -> bool:
    return text.startswith(PREFIX) and bool(tenant_in(text.partition(".")[0]))


def _refusal(reason: str, why: str = "") -> Fault:
    said = why or ("the token has expired" if reason == "TOKEN_EXPIRED" else "the token is not valid")
    return Fault(Status.UNAUTHENTICATED, reason, said)
