"""An OpenID Connect provider of the tests' own: authorization code with PKCE (S256), as strict as RFC 9700 asks."""

import base64
import hashlib
import html
import json
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlencode

import jwt
from aiohttp import BasicAuth, web
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.support.stack import TENANT

CLIENT: Final = "dashboard"
USERS: Final[dict[str, dict[str, Any]]] = {
    "ann": {"groups": ["bosses"]},
    "dora": {"groups": ["marketing"]},
    "eve": {"groups": ["canteen"]},
}

SETTINGS: Final[dict[str, Any]] = {
    "jwks_audience": "tombola",
    "jwks_tenants": (TENANT,),
    "jwks_roles_claim": "groups",
    "jwks_role_map": ("bosses=admin", "marketing=designer"),
    "oidc_client_id": CLIENT,
    "callback_base_url": "https://admin.example",
}


@dataclass
class Issuer:
    """The provider. `claims`: what is said instead in the next ID tokens; `refused`: why it gave no token.

    ways: how a client may say its `secret`; None: it does not say, which means in the header.
    """

    url: str = ""
    claims: dict[str, Any] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    secret: str = ""
    ways: Sequence[str] | None = ("none",)

    @property
    def settings(self) -> dict[str, Any]:
        return {**SETTINGS, "jwks_url": f"{self.url}/jwks", "jwks_issuer": self.url}

    def code(self, user: str, asked: dict[str, str]) -> str:
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**asked, "user": user}
        return code

    async def discovery(self, _: web.Request) -> web.Response:
        claims: dict[str, Any] = {"issuer": self.url, "authorization_endpoint": f"{self.url}/authorize"}
        claims |= {"token_endpoint": f"{self.url}/token", "jwks_uri": f"{self.url}/jwks"}
        if self.ways is not None:
            claims["token_endpoint_auth_methods_supported"] = list(self.ways)
        return web.json_response(claims)

    async def jwks(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [{**json.loads(ECAlgorithm.to_jwk(self.key.public_key())), "kid": "one"}]})

    async def authorize(self, request: web.Request) -> web.Response:
        asked = dict(request.query)
        wanted = {"response_type": "code", "client_id": CLIENT, "code_challenge_method": "S256"}
        if any(asked.get(name) != value for name, value in wanted.items()) or "openid" not in asked.get("scope", ""):
            return web.Response(status=400, text="not a request that is taken here")
        user = asked.pop("user", "") or request.cookies.get("user", "")
        if not user:
            named = "".join(f'<input type="hidden" name="{k}" value="{html.escape(v)}">' for k, v in asked.items())
            buttons = "".join(f'<button name="user" value="{name}">{name}</button>' for name in USERS)
            page = f"<!doctype html><title>Issuer</title><link rel=icon href=data:,><form>{named}{buttons}</form>"
            return web.Response(text=page, content_type="text/html")
        sent = urlencode({"code": self.code(user, asked), "state": asked["state"]})
        answer = web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{sent}"})
        answer.set_cookie("user", user)
        return answer

    async def token(self, request: web.Request) -> web.Response:
        """An ID token for a code: once, for who has the verifier, and for the address that it was sent to."""
        form = await request.post()
        sent = self.codes.pop(str(form.get("code")), None)
        digest = hashlib.sha256(str(form.get("code_verifier")).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        why = "code" if sent is None else "verifier" if sent["code_challenge"] != challenge else ""
        if sent is not None and not why:
            why = "address" if sent["redirect_uri"] != form.get("redirect_uri") else ""
        if sent is None or why or self._client(request, form) != (CLIENT, self.secret):
            self.refused.append(why or "client")
            return web.json_response({"error": "invalid_grant"}, status=400)
        now, user = int(time.time()), sent["user"]
        claims = {"iss": self.url, "aud": CLIENT, "sub": user, "iat": now, "exp": now + 300, "nonce": sent["nonce"]}
        claims |= {**USERS[user], **self.claims}
        made = jwt.encode(claims, self.key, algorithm="ES256", headers={"kid": "one"})
        return web.json_response({"access_token": "opaque", "token_type": "Bearer", "id_token": made})

    def _client(self, request: web.Request, form: Mapping[str, Any]) -> tuple[str, str]:
        """Who asks for a token, and the secret that they said, where it is to be said."""
        if not self.secret or "client_secret_post" in (self.ways or ()):
            return str(form.get("client_id")), str(form.get("client_secret", ""))
        if "client_secret" in form:
            return "", ""
        client = BasicAuth.decode(request.headers.get("Authorization", "Basic Og=="))
        return unquote(client.login), unquote(client.password)


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    issuer, app = Issuer(), web.Application()
    app.router.add_get("/.well-known/openid-configuration", issuer.discovery)
    app.router.add_get("/jwks", issuer.jwks)
    app.router.add_get("/authorize", issuer.authorize)
    app.router.add_post("/token", issuer.token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield issuer
    finally:
        await runner.cleanup()
