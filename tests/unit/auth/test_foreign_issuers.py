"""Another issuer, as it should not be: documents that hold no keys, and claims that are not what they must be."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from structlog.testing import capture_logs

from runtime.errors import Fault
from runtime.http.auth.external_issuer import Foreign
from runtime.http.auth.identity import Identity
from runtime.http.auth.tokens import Tokens
from tests.support.tokens import SECRET, Issuer, claims, own_tokens, reason_of, serving_issuer

KEY = ec.generate_private_key(ec.SECP256R1())
JWK = {**json.loads(ECAlgorithm.to_jwk(KEY.public_key())), "kid": "ec"}


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with serving_issuer(JWK) as issuer:
        yield issuer


async def read(issuer: Issuer, **said: Any) -> Identity:
    """Who a token of this issuer's staff names, with these claims."""
    foreign = Foreign(issuer.url, "them", "edge", roles={"boss": "admin"})
    tokens = Tokens(issuer="tombola", audience="edge", foreign=foreign)
    whose = claims(iss="them", sub="ann", tenant_id="t", roles=["boss"])
    try:
        return await tokens.verify(jwt.encode({**whose, **said}, KEY, algorithm="ES256", headers={"kid": "ec"}))
    finally:
        await tokens.close()


@pytest.mark.parametrize("merchant_id", [[], {}, 0, 0.0, False, True, 7, ["m_1"], {"id": "m_1"}, "a}b", " "])
async def test_merchant_that_is_no_identifier_makes_nobody_the_tenants_own_staff(
    issuer: Issuer, merchant_id: Any
) -> None:
    with pytest.raises(Fault, match="TOKEN_INVALID"):
        await read(issuer, merchant_id=merchant_id)


@pytest.mark.parametrize("said", [{}, {"merchant_id": None}, {"merchant_id": ""}])
async def test_staff_without_a_merchant_is_the_tenants_own(issuer: Issuer, said: dict[str, Any]) -> None:
    identity = await read(issuer, **said)
    assert (identity.roles, identity.merchant_id) == (frozenset({"admin"}), "")
    assert (await read(issuer, merchant_id="m_1")).merchant_id == "m_1"


@pytest.mark.parametrize("merchant_id", [[], 0, False])
async def test_same_holds_of_a_token_of_ours(merchant_id: Any) -> None:
    token = jwt.encode(claims(aud="staff", roles=["admin"], merchant_id=merchant_id), SECRET, algorithm="HS256")
    assert await reason_of(own_tokens(), token) == "TOKEN_INVALID"


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
        await read(issuer)
    assert (caught.value.http, caught.value.reason) == (503, "STORE_UNAVAILABLE")
    assert [row["event"] for row in logs] == ["jwks_not_fetched"]


async def test_key_that_is_of_no_use_leaves_the_others(issuer: Issuer) -> None:
    broken = [{}, {"kty": "oct"}, {**JWK, "x": "!", "kid": "x"}, {**JWK, "crv": []}, {**JWK, "kid": []}]
    issuer.document = {"keys": [*broken, JWK]}
    assert (await read(issuer)).subject == "ann"
