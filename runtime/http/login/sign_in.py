"""Staff sign-in to the dashboard: by a single-use link, or at the external issuer.

    GET  /admin/auth/methods        -> {oidc}: whether the issuer is available in addition to links
    POST /admin/auth/link           {link} -> {token, expires_at}
    POST /admin/auth/oidc/start     {redirect_uri} -> {url, state, nonce, verifier}
    POST /admin/auth/oidc/finish    {code, verifier, nonce, redirect_uri} -> {token, expires_at}

Creating a link takes the secret of staff tokens (`ops/up`, `tombola token link`). A link is a token for a separate
audience, so it is no credential elsewhere. Recording its sign-in consumes it: Core records each sign-in once. Both ways
issue a token of our own that lasts STAFF_SESSION_SECONDS, or until log-out (runtime/http/login/staff.py). Staff whose
account at the issuer is removed keep their token until then, unless it is revoked.
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
from runtime.operations.audit import RECORD_SIGN_IN
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
    """The body of a sign-in by link."""

    link: str


class StartBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body that starts a sign-in. redirect_uri: the dashboard's URL, as registered at the issuer."""

    redirect_uri: str


class FinishBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body that finishes a sign-in: the issuer's code, and the values from the start."""

    code: str
    verifier: str
    nonce: str
    redirect_uri: str


B = TypeVar("B", LinkBody, StartBody, FinishBody)


def links_of(settings: Settings, revocations: Revocations | None = None) -> Tokens:
    """The tokens that issue and verify links."""
    return Tokens(
        issuer=settings.jwt_issuer,
        audience=f"{settings.jwt_staff_audience}/nobody",
        staff_audience=f"{settings.jwt_staff_audience}/link",
        staff_secrets=settings.jwt_staff_secrets,
        seconds_max=LINK_SECONDS,
        revocations=revocations,
    )


def link_seconds(settings: Settings) -> int:
    """The lifetime of a new link. A token with a longer one than the settings allow is refused."""
    return min(LINK_SECONDS, settings.token_seconds_max)


def link_of(
    settings: Settings, admin_url: str, subject: str, *, tenant_id: str, roles: Any, merchant_id: str = ""
) -> str:
    """A URL that signs in its first visitor. The token is in the fragment, which browsers do not send to servers."""
    token = links_of(settings).mint(
        subject, tenant_id=tenant_id, merchant_id=merchant_id, roles=roles, seconds=link_seconds(settings)
    )
    return f"{admin_url}{DASHBOARD}#link={token}"


def mount(app: web.Application, edge: Edge) -> Issuer | None:
    """Adds the routes. Returns the issuer, if there is one; the caller closes it at shutdown."""
    issuer = Issuer.of(edge.settings, edge.revocations)
    sign_in = _SignIn(edge, issuer)
    app.router.add_get(METHODS, sign_in.methods)
    app.router.add_post(LINK, sign_in.by_link)
    app.router.add_post(OIDC_START, sign_in.start)
    app.router.add_post(OIDC_FINISH, sign_in.finish)
    return issuer


class _SignIn:
    """The handlers of the sign-in."""

    def __init__(self, edge: Edge, issuer: Issuer | None) -> None:
        self._edge, self._issuer = edge, issuer
        self._links = links_of(edge.settings, edge.revocations) if edge.settings.jwt_staff_secrets else None

    async def methods(self, request: web.Request) -> web.Response:
        """The available sign-in methods."""
        return ok({"oidc": self._issuer is not None}, headers=_NO_STORE)

    async def by_link(self, request: web.Request) -> web.Response:
        """Signs in the subject of a link, on its first use."""
        body = await _read(request, LinkBody)
        checked_text("link", body.link)
        if self._links is None:
            raise _refused("sign-in links are disabled: JWT_STAFF_SECRET is not set")
        identity = await self._links.verify(body.link)
        # The session keeps the link's jti, so that revoking the recorded sign-in ends it. Read before the link is used.
        jti = jwt.decode(body.link, options={"verify_signature": False}).get("jti")
        if not (isinstance(jti, str) and jti):
            raise _refused("the link is not valid; request a new one")
        reply: m.RecordedReply = await self._edge.caller.call(RECORD_SIGN_IN, self._entry(request, identity))
        if reply.retry_after_seconds:
            message = f"too many sign-ins of {identity.subject}; the link is still valid, try again later"
            raise Fault(
                Status.RESOURCE_EXHAUSTED, "RATE_LIMITED", message, retry_after_seconds=reply.retry_after_seconds
            )
        if not reply.recorded:
            raise _refused("the link has already been used; request a new one")
        return self._signed_in(identity, jti)

    async def start(self, request: web.Request) -> web.Response:
        """Returns the issuer's URL, and the values that the browser stores meanwhile."""
        body = await _read(request, StartBody)
        checked_text("redirect_uri", body.redirect_uri)
        issuer = self._known_issuer()
        self._check_own(request, body.redirect_uri)
        return ok(await issuer.start(body.redirect_uri), headers=_NO_STORE)

    async def finish(self, request: web.Request) -> web.Response:
        """Exchanges the issuer's code and signs in its subject."""
        body = await _read(request, FinishBody)
        for name in ("code", "verifier", "nonce", "redirect_uri"):
            checked_text(name, getattr(body, name))
        issuer = self._known_issuer()
        self._check_own(request, body.redirect_uri)
        identity = await issuer.finish(body.code, body.verifier, body.nonce, body.redirect_uri)
        return self._signed_in(require_roles(identity, MANAGEMENT | {PLATFORM}), "")

    def _check_own(self, request: web.Request, redirect_uri: str) -> None:
        """Refuses a URL other than the dashboard's, under the request's host or that of CALLBACK_BASE_URL."""
        try:
            parts = urlsplit(redirect_uri)
        except ValueError:
            parts = urlsplit("")
        own = (request.host, urlsplit(self._edge.settings.callback_url).netloc)
        plain = parts.scheme in ("http", "https") and parts.path.rstrip("/") == DASHBOARD
        if not plain or parts.netloc not in own or parts.query or parts.fragment:
            raise invalid("redirect_uri", "must be the URL of this dashboard")

    def _known_issuer(self) -> Issuer:
        if self._issuer is None:
            raise _refused("sign-in at an issuer is disabled: OIDC_CLIENT_ID is not set")
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

    def _entry(self, request: web.Request, identity: Identity) -> m.RecordSignInRequest:
        return m.RecordSignInRequest(
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
