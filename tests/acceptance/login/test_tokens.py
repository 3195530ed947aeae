import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Final

import jwt
import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import RSAAlgorithm

from runtime.http import admin, consumer
from runtime.operations import OPERATIONS
from runtime.operations.row import Access
from tests.support.bodies import serves
from tests.support.login import bearer
from tests.support.operations import WITH_BODY, Ids, path_of
from tests.support.stack import OTHER_TENANT, Stack, refused
from tests.support.tokens import serving_issuer

MISSING: Final = (401, "UNAUTHENTICATED", "TOKEN_MISSING")
ROLE_REQUIRED: Final = (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
SECRET: Final = "s" * 64
STAFF_SECRET: Final = "t" * 64
KEY: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
THIEF: Final = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PEM: Final = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest_asyncio.fixture(scope="module")
async def module_extra_settings() -> AsyncIterator[dict[str, Any]]:
    jwk = {**json.loads(RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "rsa", "use": "sig"}
    theirs = {"jwks_issuer": "https://issuer.example", "jwks_audience": "games", "jwks_tenants": ("tenant_test",)}
    own = {"jwt_secret": SECRET, "jwt_staff_secret": STAFF_SECRET, "jwks_role_map": ("boss=admin",)}
    async with serving_issuer(jwk) as issuer:
        yield {**own, **theirs, "jwks_url": issuer.url}


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    full = {"iss": "tombola", "aud": "tombola", "sub": "player_ann", "iat": now, "exp": now + 600}
    full |= {"tenant_id": "tenant_test", **changes}
    return {name: value for name, value in full.items() if value is not None}


def own(secret: str = "", headers: dict[str, Any] | None = None, algorithm: str = "HS256", **changes: Any) -> str:
    secret = secret or (STAFF_SECRET if changes.get("aud") == "tombola-staff" else SECRET)
    return jwt.encode(claims(**changes), secret, algorithm=algorithm, headers=headers)


def staff(roles: list[str], **changes: Any) -> str:
    return own(roles=roles, **{"aud": "tombola-staff", **changes})


def foreign(key: Any = KEY, kid: str | None = "rsa", **changes: Any) -> str:
    said = claims(**{"iss": "https://issuer.example", "aud": "games", **changes})
    return jwt.encode(said, key, algorithm="RS256", headers={"kid": kid} if kid else None)


def b64(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def forgeries(roles: list[str]) -> dict[str, tuple[str, str]]:
    """name -> (token, the reason of its refusal); tests/unit/auth/test_auth.py has every kind of forgery."""
    wants: dict[str, Any] = {"roles": roles, "aud": "tombola-staff"} if roles else {}
    theirs = {name: value for name, value in wants.items() if name != "aud"}
    body = own(**wants).split(".")[1]
    return {
        "alg none": (f"{b64({'alg': 'none', 'typ': 'JWT'})}.{body}.", "TOKEN_INVALID"),
        "wrong aud": (own(**{**wants, "aud": "others"}), "TOKEN_INVALID"),
        "a thief's key": (foreign(THIEF, **theirs), "TOKEN_INVALID"),
        "of another's tenant": (foreign(**theirs, tenant_id=OTHER_TENANT), "TOKEN_INVALID"),
        "expired": (own(exp=int(time.time()) - 60, **wants), "TOKEN_EXPIRED"),
    }


@pytest.mark.parametrize("edge", ["consumer", "admin"])
@pytest.mark.fault("Tokens", size="5 forgeries, every route", figure="401")
async def test_forged_token_is_refused_on_every_route(module_stack: Stack, known: Ids, edge: str) -> None:
    """Also where a route needs no credential: who shows one that is wrong is not let in as nobody."""
    rows = [operation for operation in OPERATIONS if serves(edge, operation)]
    made = forgeries([] if edge == "consumer" else ["admin", "platform"])
    let_in = []
    for name, (token, reason) in made.items():
        for operation in rows:
            body, path, headers = {} if operation in WITH_BODY else None, path_of(operation, known), bearer(token)
            if edge == "consumer":
                answer = await module_stack.consumer(operation.verb, path, body, headers=headers)
            else:
                answer = await module_stack.admin(operation.verb, f"/admin{path}", body, roles=(), headers=headers)
            if refused(answer) != (401, "UNAUTHENTICATED", reason):
                let_in.append((name, operation.name, answer.envelope))
    assert let_in == []


async def test_token_of_either_issuer_is_taken(module_stack: Stack) -> None:
    """Else the test above would prove nothing."""
    for token in (own(), foreign()):
        assert (await module_stack.consumer("GET", "/players/me", headers=bearer(token))).data["id"] == "player_ann"
    for token in (own(roles=["designer"], aud="tombola-staff"), foreign(roles=["boss"])):
        shown = await module_stack.admin("GET", "/admin/games", roles=(), headers=bearer(token))
        assert shown.data["items"] is not None


async def test_token_of_one_audience_is_refused_on_the_other_edge(module_stack: Stack, known: Ids) -> None:
    """Nor does what it claims beside its audience, nor another issuer's."""
    for token in (own(roles=["admin", "platform"]), own(roles=["user"]), foreign(roles=["user", "admin"])):
        answer = await module_stack.admin("GET", "/admin/games", roles=(), headers=bearer(token))
        assert refused(answer) == ROLE_REQUIRED
        assert (await module_stack.consumer("GET", "/players/me", headers=bearer(token))).data["id"] == "player_ann"
    calls = [(row.verb, path_of(row, known), {} if row in WITH_BODY else None) for row, _ in consumer.served()]
    calls += [("POST", f"/players/auth/{path}", {}) for path in ("start", "verify", "logout")]
    let_in = []
    for token in (staff(["admin", "platform"]), staff([]), foreign(roles=["boss"])):
        for one in calls:
            if refused(await module_stack.consumer(*one, headers=bearer(token))) != ROLE_REQUIRED:
                let_in.append(one)
    assert let_in == []


async def test_token_in_a_query_or_cookie_is_ignored(module_stack: Stack) -> None:
    for query, headers in (({"access_token": own()}, {}), ({"token": own()}, {}), ({}, {"Cookie": f"token={own()}"})):
        assert refused(await module_stack.consumer("GET", "/wallet", headers=headers, **query)) == MISSING


HEADERS: Final = {
    "X-Player-Id": "player_ann",
    "X-Roles": "admin,designer,reward_manager,platform",
    "X-Merchant-Id": "merchant_x",
    "X-User-Id": "player_ann",
    "X-Forwarded-User": "player_ann",
}


@pytest.mark.fault("Header fallback off", size="every route", figure="never honoured")
async def test_headers_are_not_believed(module_stack: Stack, known: Ids) -> None:
    believed = []
    for operation, row in consumer.served():
        ask = (operation.verb, path_of(operation, known), {} if operation in WITH_BODY else None)
        answer = await module_stack.consumer(*ask, headers=HEADERS)
        if row.access is Access.PLAYER:
            expected = refused(answer) == MISSING
        else:
            bare = await module_stack.consumer(*ask)
            expected = (answer.http, answer.envelope["data"]) == (bare.http, bare.envelope["data"])
        believed += [] if expected else [(operation.name, answer.envelope)]
    mine = {**HEADERS, **bearer(own(sub="player_bob")), "X-Tenant-Id": OTHER_TENANT}
    for operation, _ in admin.served():
        path = f"/admin{path_of(operation, known)}"
        for headers, why in (({**HEADERS, "X-Tenant-Id": module_stack.tenant_id}, MISSING), (mine, ROLE_REQUIRED)):
            answer = await module_stack.admin(operation.verb, path, roles=(), headers=headers)
            believed += [] if refused(answer) == why else [(operation.name, answer.envelope)]
    assert believed == []
    assert (await module_stack.consumer("GET", "/players/me", headers=mine)).data["id"] == "player_bob"
    assert (await module_stack.consumer("GET", "/rewards/me", headers=mine)).data["items"] == []
    designer = {**HEADERS, **bearer(staff(["designer"], sub="dee"))}
    assert (await module_stack.admin("POST", "/admin/tenants", {"name": "x"}, roles=(), headers=designer)).http == 403
    seen = (await module_stack.admin("GET", "/admin/tenants", roles=(), headers=designer)).data["items"]
    assert [tenant["id"] for tenant in seen] == [module_stack.tenant_id]
