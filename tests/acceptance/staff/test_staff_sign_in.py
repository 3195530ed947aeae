import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest

from runtime.http.login.sign_in import LINK_SECONDS, link_of
from runtime.operations.audit import SIGN_INS
from runtime.operations.players.revocations import LEEWAY_SECONDS
from tests.support.issuer import Issuer, issuing
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.shared import SharedService
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of, refused
from tests.support.waiting import until

INVALID = (401, "UNAUTHENTICATED", "TOKEN_INVALID")
REDIRECT = "https://admin.example/dashboard"


def link(stack: Stack, *roles: str, **said: Any) -> str:
    address = link_of(
        stack.process.settings, "http://edge", "ann", tenant_id=stack.tenant_id, roles=roles or ("admin",), **said
    )
    assert address.startswith("http://edge/dashboard#link=")
    return address.partition("#link=")[2]


async def use(stack: Stack, token: str) -> Answer:
    return await stack.admin("POST", "/admin/auth/link", {"link": token}, roles=())


async def me(stack: Stack, token: str) -> Answer:
    return await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))


async def test_link_signs_in_its_subject_with_its_roles(stack: Stack) -> None:
    answer = await use(stack, link(stack, "designer", "reward_manager"))
    assert answer.headers["Cache-Control"] == "no-store"
    reply = (await me(stack, answer.data["token"])).data
    found = (reply["subject"], reply["tenant_id"], reply["roles"])
    assert found == ("ann", stack.tenant_id, ["designer", "reward_manager"])
    seconds = stack.process.settings.staff_session_seconds
    assert reply["expires_at"] == answer.data["expires_at"] and abs(reply["expires_at"] - time.time() - seconds) < 60


async def test_link_used_at_once_signs_in_one(stack: Stack) -> None:
    token = link(stack)
    answers = await asyncio.gather(*(use(stack, token) for _ in range(8)))
    assert sorted(answer.http for answer in answers) == [200, *[401] * 7]
    assert {refused(answer) for answer in answers if answer.http == 401} == {INVALID}
    assert refused(await use(stack, token)) == INVALID


async def test_used_link_counts_against_no_other_sign_in(stack: Stack) -> None:
    used = link(stack)
    assert (await use(stack, used)).code == "OK"
    for _ in range(SIGN_INS.at_once):
        assert refused(await use(stack, used)) == INVALID
    assert (await use(stack, link(stack))).code == "OK"


async def test_link_beyond_the_rate_is_good_later(stack: Stack) -> None:
    for _ in range(SIGN_INS.at_once):
        assert (await use(stack, link(stack))).code == "OK"
    waiting = link(stack)
    answer = await use(stack, waiting)
    assert (answer.http, answer.reason, answer.headers["Retry-After"]) == (429, "RATE_LIMITED", "60")
    passed = "UPDATE login_rates SET full_at = full_at - make_interval(secs => $1) WHERE rate_key LIKE 'signer:%'"
    await stack.database.execute(passed, SIGN_INS.every_seconds)
    assert (await use(stack, waiting)).code == "OK"


async def test_link_is_no_token_and_a_token_no_link(stack: Stack) -> None:
    assert refused(await me(stack, link(stack))) == INVALID
    assert refused(await use(stack, stack.token("ann", ("admin",)))) == INVALID
    assert refused(await use(stack, stack.token("player_ann"))) == INVALID
    assert refused(await use(stack, "no token at all")) == INVALID
    assert fields_of(await stack.admin("POST", "/admin/auth/link", {}, roles=())) != []


@pytest.mark.parametrize("jti", [None, "", 7])
async def test_link_without_a_name_is_refused_and_not_used_up(stack: Stack, jti: Any) -> None:
    claims = {**jwt.decode(link(stack), options={"verify_signature": False}), "jti": jti}
    secret = stack.process.settings.jwt_staff_secrets[0]
    nameless = jwt.encode({name: value for name, value in claims.items() if value is not None}, secret)
    assert [refused(await use(stack, nameless)) for _ in range(2)] == [INVALID] * 2
    assert (await stack.admin("GET", "/admin/audit", actor="ann")).data["items"] == []


async def test_expired_link_is_refused(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = jwt.decode(link(stack), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == LINK_SECONDS
    old = {**claims, "iat": claims["iat"] - LINK_SECONDS - 60, "exp": claims["iat"] - 60}
    secret = stack.process.settings.jwt_staff_secrets[0]
    assert refused(await use(stack, jwt.encode(old, secret, algorithm="HS256")))[2] == "TOKEN_EXPIRED"


@pytest.mark.settings(token_seconds_max=600, refresh_token_seconds=600)
async def test_link_lives_no_longer_than_an_accepted_token(stack: Stack) -> None:
    assert (await use(stack, link(stack))).code == "OK"


async def test_oidc_sign_in_without_an_issuer_is_refused(stack: Stack) -> None:
    assert (await stack.admin("GET", "/admin/auth/methods", roles=())).data == {"oidc": False}
    assert refused(await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())) == INVALID


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as issuer:
        yield issuer


@pytest.fixture
async def trusting(issuer: Issuer, bare_service: SharedService) -> AsyncIterator[Stack]:
    async with bare_service.own_stack(**issuer.settings) as stack:
        yield stack


async def begin(stack: Stack) -> dict[str, str]:
    begun = (await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())).data
    return {**begun, **{name: values[0] for name, values in parse_qs(urlsplit(begun["url"]).query).items()}}


async def finish(stack: Stack, begun: dict[str, str], code: str, **instead: str) -> Answer:
    body = {"code": code, "verifier": begun["verifier"], "nonce": begun["nonce"], "redirect_uri": REDIRECT, **instead}
    return await stack.admin("POST", "/admin/auth/oidc/finish", body, roles=())


async def test_oidc_sign_in_gives_the_roles_of_the_claims(trusting: Stack, issuer: Issuer) -> None:
    assert (await trusting.admin("GET", "/admin/auth/methods", roles=())).data == {"oidc": True}
    begun = await begin(trusting)
    assert begun["url"].startswith(f"{issuer.url}/authorize?") and begun["redirect_uri"] == REDIRECT
    answer = await finish(trusting, begun, issuer.code("dora", begun))
    reply = (await me(trusting, answer.data["token"])).data
    assert (reply["subject"], reply["tenant_id"], reply["roles"]) == ("dora", trusting.tenant_id, ["designer"])
    done = await trusting.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(answer.data["token"]))
    assert done.data == {}
    assert refused(await me(trusting, answer.data["token"])) == INVALID


async def test_oidc_code_is_used_once_and_with_its_verifier(trusting: Stack, issuer: Issuer) -> None:
    begun = await begin(trusting)
    assert refused(await finish(trusting, begun, issuer.code("ann", begun), verifier="another")) == INVALID
    code = issuer.code("ann", begun)
    assert (await finish(trusting, begun, code)).code == "OK"
    assert refused(await finish(trusting, begun, code)) == INVALID
    assert issuer.refused == ["verifier", "code"]


@pytest.mark.parametrize("ways", [("client_secret_post", "none"), ("client_secret_basic", "private_key_jwt"), None])
async def test_oidc_client_secret_is_sent_as_the_issuer_takes_it(
    issuer: Issuer, bare_service: SharedService, ways: tuple[str, ...] | None
) -> None:
    issuer.secret, issuer.ways = "a secret: of +signs/", ways
    for said, taken in (("another", False), (issuer.secret, True)):
        async with bare_service.own_stack(**issuer.settings, oidc_client_secret=said) as stack:
            begun = await begin(stack)
            answer = await finish(stack, begun, issuer.code("ann", begun))
            assert (answer.code == "OK") is taken, answer.envelope
            assert taken or refused(answer) == INVALID
    assert issuer.refused == ["client"]


async def test_oidc_id_token_with_wrong_claims_is_refused(trusting: Stack, issuer: Issuer) -> None:
    begun = await begin(trusting)
    for claims in ({"nonce": "another"}, {"nonce": None}, {"aud": "tombola"}, {"iss": "https://else.example"}):
        issuer.claims = claims
        assert refused(await finish(trusting, begun, issuer.code("ann", begun))) == INVALID, claims
    issuer.claims = {}
    assert (await finish(trusting, begun, issuer.code("ann", begun))).code == "OK"


async def test_oidc_sign_in_without_a_role_is_refused(trusting: Stack, issuer: Issuer) -> None:
    begun = await begin(trusting)
    answer = await finish(trusting, begun, issuer.code("eve", begun))
    assert refused(answer) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")


async def test_oidc_redirect_uri_must_be_the_dashboards_address(trusting: Stack) -> None:
    own = f"{trusting.process.admin_url}/dashboard"
    for right in (REDIRECT, own, f"{own}/"):
        assert (await trusting.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": right}, roles=())).code == "OK"
    others = ("https://a.example/dashboard", f"{own}/codes", f"{own}?to=x", f"{own}#x", "https://[", f"//{own[7:]}")
    for wrong in ("", "javascript:alert(1)", "/dashboard", "x" * 5000, *others):
        answer = await trusting.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": wrong}, roles=())
        assert fields_of(answer) == ["redirect_uri"]


async def test_oidc_issuer_that_is_away_is_unavailable(issuer: Issuer, bare_service: SharedService) -> None:
    for wrong in ({"jwks_issuer": f"{issuer.url}/"}, {"jwks_issuer": "http://127.0.0.1:9"}):
        async with bare_service.own_stack(**{**issuer.settings, **wrong}) as stack:
            answer = await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())
            assert refused(answer) == (503, "UNAVAILABLE", "STORE_UNAVAILABLE")


REVOKE = "/admin/staff/revoke"
NOTHING = {"withdrawn": 0, "tokens": 0}


async def log_out(stack: Stack, token: str, **body: object) -> Answer:
    return await stack.admin("POST", "/admin/auth/logout", body or None, roles=(), headers=bearer(token))


async def ended(stack: Stack, token: str) -> None:
    await until(lambda: me(stack, token), lambda it: refused(it) == INVALID)


def of_ann(stack: Stack, tenant_id: str = "") -> str:
    return stack.token("ann", ("designer",), tenant_id=tenant_id)


async def test_logout_ends_the_token_and_no_other(stack: Stack) -> None:
    here, there = of_ann(stack), of_ann(stack)
    answer = await log_out(stack, here)
    assert (answer.data, answer.headers["Cache-Control"]) == ({}, "no-store")
    assert refused(await me(stack, here)) == INVALID
    assert refused(await log_out(stack, here)) == INVALID
    assert (await me(stack, there)).code == "OK"


async def test_logout_everywhere_ends_the_subjects_tokens_until_then(stack: Stack) -> None:
    here, there = of_ann(stack), of_ann(stack)
    others = [stack.token("bea", ("designer",)), of_ann(stack, OTHER_TENANT), stack.token("ann")]
    assert (await log_out(stack, here, everywhere=True)).code == "OK"
    for token in (here, there):
        assert refused(await me(stack, token)) == INVALID
    assert [(await me(stack, token)).reason for token in others[:2]] == ["", ""]
    assert (await stack.consumer("GET", "/players/me", headers=bearer(others[2]))).code == "OK"
    change = "UPDATE revocations SET issued_until = now() - interval '1 hour', revoked_at = now() WHERE kind = 'staff'"
    await stack.database.execute(change)
    await until(lambda: me(stack, there), lambda it: it.code == "OK")
    assert refused(await me(stack, here)) == INVALID


async def test_revoke_by_an_owner_ends_the_tokens_of_another(stack: Stack) -> None:
    first, second, bystander = of_ann(stack), of_ann(stack), stack.token("bea", ("admin",))
    for token in (first, second, bystander):
        assert (await me(stack, token)).code == "OK"
    rows = (await stack.admin("GET", "/admin/audit", actor="ann")).data["items"]
    (_, oldest) = [row["subject_id"] for row in rows if row["action"] == "staff.sign_in"]
    assert (await stack.admin("POST", REVOKE, {"sign_in_id": oldest})).data == NOTHING
    assert refused(await me(stack, first)) == INVALID
    assert (await me(stack, second)).code == "OK"
    assert (await stack.admin("POST", REVOKE, {"subject": "ann"})).data == NOTHING
    assert refused(await me(stack, second)) == INVALID
    assert (await me(stack, bystander)).code == "OK"
    entries = [it for it in (await stack.admin("GET", "/admin/audit")).data["items"] if it["action"] == "staff.revoke"]
    assert [(row["actor"], row["subject_id"]) for row in entries] == [("staff_test", "ann"), ("staff_test", oldest)]


@pytest.mark.parametrize("ended_by", ["ann", "an owner"])
async def test_revoke_ends_tokens_made_by_a_clock_that_is_ahead(stack: Stack, ended_by: str) -> None:
    tokens = [stack.token("ann", ("designer",), ahead_seconds=LEEWAY_SECONDS - 1) for _ in range(2)]
    for token in tokens:
        assert (await me(stack, token)).code == "OK"
    if ended_by == "ann":
        assert (await log_out(stack, tokens[0], everywhere=True)).code == "OK"
    else:
        assert (await stack.admin("POST", REVOKE, {"subject": "ann"})).code == "OK"
    for token in tokens:
        await ended(stack, token)


async def test_revoke_of_later_tokens_is_refused(stack: Stack) -> None:
    """Nor does who owns the tenant: that would be a lock-out, which suspends nobody and shows nowhere."""
    assert fields_of(await stack.admin("POST", REVOKE, {"subject": "ann", "issued_at": 2**33})) == ["issued_at"]


@pytest.mark.settings(role_matrix="strict")
async def test_revoke_requires_the_tenants_own_admin(stack: Stack) -> None:
    body = {"subject": "ann"}
    for roles in (("designer",), ("reward_manager",), ("platform",)):
        found = refused(await stack.admin("POST", REVOKE, body, roles=roles))
        assert found == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
    merchants = replace(stack, merchant_id=await make_merchant(stack))
    assert refused(await merchants.admin("POST", REVOKE, body)) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    for roles in (("designer",), ("platform",)):
        assert (await log_out(stack, stack.token("dee", roles))).code == "OK"
    assert (await log_out(stack, merchants.token("mel", ("admin",)), everywhere=True)).code == "OK"
    assert (await me(stack, of_ann(stack))).code == "OK"


async def test_revoke_works_in_a_suspended_tenant(stack: Stack) -> None:
    token, owner = of_ann(stack), stack.token("owner", ("admin",))
    await stack.database.execute("UPDATE tenants SET status = 'suspended' WHERE tenant_id = $1", stack.tenant_id)
    assert (await stack.admin("POST", REVOKE, {"subject": "ann"}, roles=(), headers=bearer(owner))).code == "OK"
    await ended(stack, token)
    assert (await log_out(stack, owner)).code == "OK"


async def test_revoke_or_logout_with_a_wrong_field_is_refused(stack: Stack) -> None:
    assert fields_of(await stack.admin("POST", REVOKE, {})) == ["subject"]
    token = of_ann(stack)
    assert fields_of(await log_out(stack, token, everywhere="yes")) == ["everywhere"]
    assert (await log_out(stack, token, where=True)).code == "INVALID_ARGUMENT"
    assert (await me(stack, token)).code == "OK"


@pytest.mark.settings(header_fallback=True)
async def test_logout_requires_a_token_of_staff(stack: Stack) -> None:
    headers = {"X-Roles": "admin", "X-Tenant-Id": stack.tenant_id}
    answer = await stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers=headers)
    assert refused(answer) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
    player = await stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(stack.token("player_ann")))
    assert refused(player) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
