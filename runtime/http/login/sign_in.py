"""Staff sign in to the dashboard: by a link that is good for one use, or at the issuer whose keys the edge trusts.

    GET  /admin/auth/methods        -> {oidc}: which ways there are beside a link
    POST /admin/auth/link           {link} -> {token, expires_at}
    POST /admin/auth/oidc/start     {redirect_uri} -> {url, state, nonce, verifier}
    POST /admin/auth/oidc/finish    {code, verifier, nonce, redirect_uri} -> {token, expires_at}

A link is made by who has the secret of staff's tokens (`ops/up`, `tombola token link`). It is a token for an audience
of its own, so it opens nothing, and it is used up by the note of its sign-in, of which Core takes one. What either
way gives is a token of ours, of STAFF_SESSION_SECONDS, which logging out ends (runtime/http/login/staff.py); whoever
leaves the issuer keeps it until then, unless it is revoked.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import jwt
import msgspec
from aiohttp import web

from runtime import messages as m
from runtime.errors import Fault, Status, invalid
from runtime.http.admission.client_address import client_of
from runtime.http.auth.identity import Identity, require_roles
from runtime.http.auth.revocations import Revocations
from runtime.http.auth.tokens import Tokens
from runtime.http.bodies import decode_json, read_body
from runtime.http.edge import Edge
from runtime.http.envelope import ok
from runtime.http.login.oidc import Issuer, checked_text
from runtime.operations import API
from runtime.operations.audit import NOTE_SIGN_IN
from runtime.operations.row import MANAGEMENT, PLATFORM
from runtime.settings import Settings

METHODS: Final = f"{API}/admin/auth/methods"
LINK: Final = f"{API}/admin/auth/link"
OIDC_START: Final = f"{API}/admin/auth/oidc/start"
OIDC_FINISH: Final = f"{API}/admin/auth/oidc/finish"

LINK_SECONDS: Final = 900
DASHBOARD: Final = "/dashboard"
_NO_STORE: Final = {"Cache-Control": "no-store"}
_BODY_BYTES_MAX: Final = 16 * 1024


class LinkBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a sign-in by a link."""

    link: str


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a sign-in's beginning. redirect_uri: the dashboard's address, as the issuer knows it."""

    redirect_uri: str


class FinishBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a sign-in's end: what the issuer gave, and what the beginning did."""

    code: str
    verifier: str
    nonce: str
    redirect_uri: str


B = TypeVar("B", LinkBody, StartBody, FinishBody)


def links_of(settings: Settings, revocations: Revocations | None = None) -> Tokens:
    """What makes links, and verifies them."""
    return Tokens(
        issuer=settings.jwt_issuer,
        audience=f"{settings.jwt_staff_audience}/nobody",
        staff_audience=f"{settings.jwt_staff_audience}/link",
        staff_secrets=settings.jwt_staff_secrets,
        seconds_max=LINK_SECONDS,
        revocations=revocations,
    )


def link_of(
    settings: Settings, admin_url: str, subject: str, *, tenant_id: str, roles: Any, merchant_id: str = ""
) -> str:
    """An address that signs its first visitor in. In the fragment, which browsers send to no server."""
    token = links_of(settings).mint(
        subject, tenant_id=tenant_id, merchant_id=merchant_id, roles=roles, seconds=LINK_SECONDS
    )
    return f"{admin_url}{DASHBOARD}#link={token}"


def mount(app: web.Application, edge: Edge) -> Issuer | None:
    """Adds the routes. The issuer, which is to be closed at the end, where there is one."""
    issuer = Issuer.of(edge.settings, edge.revocations)
    counter = _Counter(edge, issuer)
    app.router.add_get(METHODS, counter.methods)
    app.router.add_post(LINK, counter.by_link)
    app.router.add_post(OIDC_START, counter.start)
    app.router.add_post(OIDC_FINISH, counter.finish)
    return issuer


class _Counter:
    """Where staff come in without a token, and leave with one."""

    def __init__(self, edge: Edge, issuer: Issuer | None) -> None:
        self._edge, self._issuer = edge, issuer
        self._links = links_of(edge.settings, edge.revocations) if edge.settings.jwt_staff_secrets else None

    async def methods(self, request: web.Request) -> web.Response:
        """Which ways there are, for the page that offers them."""
        return ok({"oidc": self._issuer is not None}, headers=_NO_STORE)

    async def by_link(self, request: web.Request) -> web.Response:
        """Signs in whom the link names, the first time that it is shown."""
        told = await _read(request, LinkBody)
        checked_text("link", told.link)
        if self._links is None:
            raise _refused("there are no links here: JWT_STAFF_SECRET is not set")
        identity = await self._links.verify(told.link)
        # The same name: what is noted is the session's sign-in, and ends with it. Before the link is used up.
        jti = jwt.decode(told.link, options={"verify_signature": False}).get("jti")
        if not (isinstance(jti, str) and jti):
            raise _refused("the link names no sign-in")
        reply: m.NotedReply = await self._edge.caller.call(NOTE_SIGN_IN, self._note(request, identity))
        if not reply.noted:
            raise _refused("the link was used already; ask for another")
        return self._signed_in(identity, jti)

    async def start(self, request: web.Request) -> web.Response:
        """Where to send the browser, and what it keeps until it is back."""
        told = await _read(request, StartBody)
        checked_text("redirect_uri", told.redirect_uri)
        issuer = self._known_issuer()
        self._check_own(request, told.redirect_uri)
        return ok(await issuer.start(told.redirect_uri), headers=_NO_STORE)

    async def finish(self, request: web.Request) -> web.Response:
        """Signs in whom the issuer names for the code."""
        told = await _read(request, FinishBody)
        for name in ("code", "verifier", "nonce", "redirect_uri"):
            checked_text(name, getattr(told, name))
        issuer = self._known_issuer()
        self._check_own(request, told.redirect_uri)
        identity = await issuer.finish(told.code, told.verifier, told.nonce, told.redirect_uri)
        return self._signed_in(require_roles(identity, MANAGEMENT | {PLATFORM}), "")

    def _check_own(self, request: web.Request, redirect_uri: str) -> None:
        """Refuses what is not the dashboard's address, as it was asked by or as CALLBACK_BASE_URL has it."""
        try:
            parts = urlsplit(redirect_uri)
        except ValueError:
            parts = urlsplit("")
        own = (request.host, urlsplit(self._edge.settings.callback_url).netloc)
        plain = parts.scheme in ("http", "https") and parts.path.rstrip("/") == DASHBOARD
        if not plain or parts.netloc not in own or parts.query or parts.fragment:
            raise invalid("redirect_uri", "must be the address of this dashboard")

    def _known_issuer(self) -> Issuer:
        if self._issuer is None:
            raise _refused("there is no issuer here: OIDC_CLIENT_ID is not set")
        return self._issuer

    def _signed_in(self, identity: Identity, jti: str) -> web.Response:
        seconds = min(self._edge.settings.staff_session_seconds, self._edge.revocations.longest("", ""))
        token = self._edge.tokens.mint(
            identity.subject,
            tenant_id=identity.tenant_id,
            merchant_id=identity.merchant_id,
            roles=identity.roles,
            seconds=seconds,
            jti=jti,
        )
        return ok({"token": token, "expires_at": int(self._edge.tokens.now()) + seconds}, headers=_NO_STORE)

    def _note(self, request: web.Request, identity: Identity) -> m.NoteSignInRequest:
        return m.NoteSignInRequest(
            scope=m.Scope(tenant_id=identity.tenant_id, merchant_id=identity.merchant_id),
            subject=identity.subject,
            sign_in_id=identity.sign_in_id,
            roles=sorted(identity.roles),
            expires_at=identity.expires_at,
            address=client_of(request, self._edge.settings.trusted_proxies).address,
        )


async def _read(request: web.Request, kind: type[B]) -> B:
    return decode_json(msgspec.json.Decoder(kind), await read_body(request, _BODY_BYTES_MAX))


def _refused(why: str) -> Fault:
    return Fault(Status.UNAUTHENTICATED, "TOKEN_INVALID", why)
