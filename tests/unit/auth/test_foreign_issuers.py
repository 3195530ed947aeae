"""Another issuer, as it should not be: documents that hold no keys, and claims that are not what they must be."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from structlog.testing import capture_logs

from runtime.errors import Fault
from runtime.http.auth.external_issuer import Foreign
from runtime.http.auth.identity import Identity
from runtime.http.auth.tokens import Tokens

KEY = ec.generate_private_key(ec.SECP256R1())
JWK = {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "ec"}


class Issuer:
    """An issuer whose JWKS document is what the test says it is."""

    def __init__(self) -> None:
        self.document: Any = {"keys": [JWK]}
        self.url = ""

    async def read(self, **said: Any) -> Identity:
        """Who a token of this issuer's staff names, with these claims."""
        tokens = Tokens(
            issuer="tombola", audience="edge", foreign=Foreign(self.url, "them", "edge", roles={"boss": "admin"})
        )
        now = int(time.time())
        whose = {"iss": "them", "aud": "edge", "sub": "ann", "tenant_id": "t", "roles": ["boss"]}
        claims = {**whose, "iat": now, "exp": now + 60, **said}
        try:
            return await tokens.verify(jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "ec"}))
        finally:
            await tokens.close()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer, app = Issuer(), web.Application()

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(issuer.document)

    app.router.add_get("/jwks", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    issuer.url = f"http://127.0.0.1:{runner.addresses[0][1]}/jwks"
    yield issuer
    await runner.cleanup()


@pytest.mark.parametrize("merchant_id", [[], {}, 0, 0.0, False, True, 7, ["m_1"], {"id": "m_1"}, "a}b", " "])
async def test_merchant_that_is_no_identifier_makes_nobody_the_tenants_own_staff(
    issuer: Issuer, merchant_id: Any
) -> None:
    with pytest.raises(Fault, match="TOKEN_INVALID"):
        await issuer.read(merchant_id=merchant_id)


@pytest.mark.parametrize("said", [{}, {"merchant_id": None}, {"merchant_id": ""}])
async def test_staff_without_a_merchant_is_the_tenants_own(issuer: Issuer, said: dict[str, Any]) -> None:
    identity = await issuer.read(**said)
    assert (identity.roles, identity.merchant_id) == (frozenset({"admin"}), "")
    assert (await issuer.read(merchant_id="m_1")).merchant_id == "m_1"


@pytest.mark.parametrize("merchant_id", [[], 0, False])
async def test_same_holds_of_a_token_of_ours(merchant_id: Any) -> None:
    now, secret = int(time.time()), "s" * 32
    claims = {"iss": "tombola", "aud": "staff", "sub": "ann", "tenant_id": "t", "roles": ["admin"]}
    token = jwt.encode({**claims, "iat": now, "exp": now + 60, "merchant_id": merchant_id}, secret, algorithm="HS256")
    with pytest.raises(Fault, match="TOKEN_INVALID"):
        await Tokens(secret, issuer="tombola", audience="edge", staff_audience="staff").verify(token)


@pytest.mark.parametrize(
    "document",
    [
        {"keys": ["x"]},
        {"keys": [JWK, None]},
        {"keys": "x"},
        {"keys": {}},
        {"error": "gone"},
        [],
        None,
    ],
)
async def test_document_without_keys_is_an_issuer_that_was_never_reached(issuer: Issuer, document: Any) -> None:
    issuer.document = document
    with capture_logs() as logs, pytest.raises(Fault) as caught:
        await issuer.read()
    assert (caught.value.http, caught.value.reason) == (503, "STORE_UNAVAILABLE")
    assert [row["event"] for row in logs] == ["jwks_not_fetched"]


async def test_key_that_is_of_no_use_leaves_the_others(issuer: Issuer) -> None:
    broken = [{}, {"kty": "oct"}, {**JWK, "x": "!", "kid": "x"}, {**JWK, "crv": []}, {**JWK, "kid": []}]
    issuer.document = {"keys": [*broken, JWK]}
    assert (await issuer.read()).subject == "ann"
