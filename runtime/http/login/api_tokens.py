"""API tokens at the admin edge, verified by Core and cached.

The edge asks Core once an hour for each token; Core then records its use. Revocations arrive by the feed that every
edge polls each second (auth/revocations.py), and expiry follows the database's clock. Unknown tokens are cached for a
while too, and each address has a limited number of failed attempts per tenant, so guesses do not cost Core a query
each. A token that was refused before has a separate limit: a machine that keeps sending a revoked token does not lock
out others at its address. The edge stores only hashes of tokens.

A token is issued with a mark after a dot, a MAC by an edge's secret (`Marks`). It distinguishes issued tokens from
invented ones before Core is asked: marked tokens have their own limit of attempts, which strangers at the same address
cannot exhaust. The mark grants nothing and Core never sees it. Without a valid mark a token still works, under the
common limit.

A token can never do more than its creator: neither in roles, merchant nor tenant, and no token has the role `platform`.
A token cannot create tokens, which would outlive its revocation, nor sign anyone in or out.
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
from runtime.operations.staff.tokens import CACHE_SECONDS, OPEN_TOKEN, PREFIX, hash_of, tenant_in
from runtime.settings import Settings
from runtime.stores.single_flight import SingleFlight

CHARACTERS_MAX: Final = 256
REMEMBERED_MAX: Final = 10_000
"""The size of each of the two caches. Valid and refused tokens are separate, so that guesses evict no valid token."""

UNKNOWN_SECONDS: Final = 60.0
GUESSES: Final = Policy("api-tokens", per_second=1, burst=30)
"""The limit of invalid tokens per address and tenant. Valid tokens are not charged."""

GUESSES_IN_ALL: Final = Policy("api-tokens", per_second=4, burst=120)
"""The limit of invalid tokens per address, over all tenants."""


_MARK_BYTES: Final = 12
_MARK: Final = re.compile(r"[A-Za-z0-9_-]{16}")


class _Presented(NamedTuple):
    """A token without its mark, and whether the mark is valid."""

    token: str
    marked: bool


class Marks:
    """Distinguishes issued tokens from invented ones by a MAC under the secrets of staff tokens.

    The first of `secrets` signs, all verify. Without secrets there are no marks.
    """

    def __init__(self, secrets: Sequence[str]) -> None:
        self._keys = [hmac.digest(secret.encode(), b"tombola API token", "sha256") for secret in secrets]

    def marked(self, token: str) -> str:
        """The token as it is issued, with its mark."""
        return f"{token}.{_mark(self._keys[0], token)}" if self._keys else token

    def read(self, presented: str) -> _Presented | None:
        """Parses a presented token. None if it is too long, or its mark is malformed."""
        if len(presented) > CHARACTERS_MAX:
            return None
        token, dot, mark = presented.partition(".")
        if not dot:
            return _Presented(token, marked=False)
        if not _MARK.fullmatch(mark):
            return None
        return _Presented(token, marked=any(hmac.compare_digest(_mark(key, token), mark) for key in self._keys))


def _mark(key: bytes, token: str) -> str:
    made = hmac.digest(key, token.encode(errors="replace"), "sha256")[:_MARK_BYTES]
    return base64.urlsafe_b64encode(made).decode()


class _Known(NamedTuple):
    """A token that Core accepted in this hour since 1970."""

    identity: Identity
    hour: int


class _Refused(NamedTuple):
    """Why a token was refused, and the time (monotonic seconds) until which Core is not asked again."""

    until: float
    reason: str


class _Guesses:
    """The limits of invalid tokens per address."""

    def __init__(self, processes: int) -> None:
        self._first = ClientRate(GUESSES.divided(processes))
        self._again = ClientRate(GUESSES.divided(processes))
        self._in_all = ClientRate(GUESSES_IN_ALL.divided(processes))

    def take(self, request: web.Request, client: Client, tenant_id: str, again: bool) -> Callable[[], None]:
        """Charges an attempt and returns its refund. again: the token was refused before. RATE_LIMITED."""
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
    """The client's key within a tenant."""
    return Client(*(f"{one}\0{tenant_id}" if one else "" for one in client))


class StaffAuth(Auth):
    """Authentication at the admin edge: accepts API tokens as well as people's tokens."""

    def __init__(self, tokens: Tokens, settings: Settings, caller: Caller, revocations: Revocations) -> None:
        super().__init__(tokens, header_fallback=settings.header_fallback, default_tenant=settings.default_tenant)
        self._caller = caller
        self._revocations = revocations
        self._proxies = settings.trusted_proxies
        self._marks = Marks(settings.jwt_staff_secrets)
        self._tries = {
            marked: _Guesses(settings.processes) if settings.rate_limits else None for marked in (False, True)
        }
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._refused: OrderedDict[str, _Refused] = OrderedDict()
        self._in_flight = SingleFlight()

    async def identify(self, request: web.Request) -> Identity | None:
        """The caller's identity, if any. Refuses a token in the URL, because URLs end up in logs and histories."""
        if PREFIX in request.query_string and any(_is_token(value) for value in request.query.values()):
            raise _refusal("TOKEN_INVALID", "tokens must be in the Authorization header; revoke this one")
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip().startswith(PREFIX):
            return await self._identify_token(token.strip(), request)
        return await super().identify(request)

    async def _identify_token(self, presented: str, request: web.Request) -> Identity:
        """The identity of an API token. TOKEN_INVALID, TOKEN_EXPIRED; RATE_LIMITED after too many guesses."""
        read = self._marks.read(presented)
        if read is None or not IDENTIFIER.fullmatch(tenant_id := tenant_in(read.token)):
            raise _refusal("TOKEN_INVALID")
        await self._revocations.read_first()
        digest, now = hash_of(read.token), self._revocations.now()
        known = self._known.get(digest)
        if known is None or known.hour != now // CACHE_SECONDS:
            known = await self._verified(tenant_id, digest, request, self._tries[read.marked])
        else:
            self._known.move_to_end(digest)
        identity = known.identity
        if any(self._revocations.revoked(key, identity.issued_at) for key in identity.revocable):
            raise _refusal("TOKEN_INVALID")
        if identity.expires_at <= now:
            raise _refusal("TOKEN_EXPIRED")
        return identity

    async def _verified(self, tenant_id: str, digest: str, request: web.Request, tries: _Guesses | None) -> _Known:
        refused = self._refused.get(digest)
        if refused is not None and refused.until > time.monotonic():
            raise _refusal(refused.reason)
        client = client_of(request, self._proxies)
        give_back = None
        if tries is not None and digest not in self._known and not self._in_flight.under_way(digest):
            give_back = tries.take(request, client, tenant_id, digest in self._refused)
        known: _Known = await self._in_flight.share(digest, lambda: self._ask(tenant_id, digest))
        if give_back is not None:
            give_back()
        return known

    async def _ask(self, tenant_id: str, digest: str) -> _Known:
        message = m.OpenTokenRequest(scope=m.Scope(tenant_id=tenant_id), token_hash=digest)
        hour = int(self._revocations.now() // CACHE_SECONDS)
        try:
            reply: m.TokenReply = await self._caller.call(OPEN_TOKEN, message)
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


def check_creation(identity: Identity, message: m.CreateTokenRequest) -> None:
    """PERMISSION_DENIED FORBIDDEN if the token would have roles that its creator lacks, or its creator is a token.

    An admin may do what the other roles may, so may grant all three. Core checks the merchant.
    """
    if identity.api_token_id:
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", "an API token cannot create tokens: use a staff sign-in")
    may = MANAGEMENT if "admin" in identity.roles else identity.roles & MANAGEMENT
    beyond = sorted(set(message.token.roles) - may) if message.token is not None else []
    if beyond:
        text = f"you cannot grant roles that you lack: {', '.join(beyond)}"
        raise Fault(Status.PERMISSION_DENIED, "FORBIDDEN", text, roles=beyond)


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
    message = why or ("the token has expired" if reason == "TOKEN_EXPIRED" else "the token is not valid")
    return Fault(Status.UNAUTHENTICATED, reason, message)
