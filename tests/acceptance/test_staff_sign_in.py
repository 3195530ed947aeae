"""Staff sign in to the dashboard: by a link that is good once, and at another issuer by OpenID Connect with PKCE."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest

from runtime.http.login.sign_in import LINK_SECONDS, link_of
from runtime.operations.audit import SIGN_INS
from tests.support.issuer import Issuer, issuing
from tests.support.login import bearer
from tests.support.stack import Answer, Stack, fields_of, new_stack, refused, settings_of

INVALID = (401, "UNAUTHENTICATED", "TOKEN_INVALID")
REDIRECT = "https://admin.example/dashboard"


def link(stack: Stack, *roles: str, **said: Any) -> str:
    """What a link's fragment carries."""
    address = link_of(
        stack.process.settings, "http://edge", "ann", tenant_id=stack.tenant_id, roles=roles or ("admin",), **said
    )
    assert address.startswith("http://edge/dashboard#link=")
    return address.partition("#link=")[2]


async def use(stack: Stack, token: str) -> Answer:
    return await stack.admin("POST", "/admin/auth/link", {"link": token}, roles=())


async def me(stack: Stack, token: str) -> Answer:
    return await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))


async def test_a_link_signs_in_whom_it_names_with_its_roles_for_a_session(stack: Stack) -> None:
    answer = await use(stack, link(stack, "designer", "reward_manager"))
    assert answer.headers["Cache-Control"] == "no-store"
    told = (await me(stack, answer.data["token"])).data
    assert (told["subject"], told["tenant_id"], told["roles"]) == (
        "ann",
        stack.tenant_id,
        ["designer", "reward_manager"],
    )
    seconds = stack.process.settings.staff_session_seconds
    assert told["expires_at"] == answer.data["expires_at"] and abs(told["expires_at"] - time.time() - seconds) < 60


async def test_of_rivals_with_one_link_one_is_signed_in(stack: Stack) -> None:
    token = link(stack)
    answers = await asyncio.gather(*(use(stack, token) for _ in range(8)))
    assert sorted(answer.http for answer in answers) == [200, *[401] * 7]
    assert {refused(answer) for answer in answers if answer.http == 401} == {INVALID}
    assert refused(await use(stack, token)) == INVALID


async def test_who_shows_a_used_link_again_and_again_keeps_nobody_from_signing_in(stack: Stack) -> None:
    used = link(stack)
    assert (await use(stack, used)).code == "OK"
    for _ in range(SIGN_INS.at_once):
        assert refused(await use(stack, used)) == INVALID
    assert (await use(stack, link(stack))).code == "OK"


async def test_a_link_that_came_when_there_were_too_many_is_good_a_moment_later(stack: Stack) -> None:
    for _ in range(SIGN_INS.at_once):
        assert (await use(stack, link(stack))).code == "OK"
    waiting = link(stack)
    assert (await use(stack, waiting)).http == 401
    passed = "UPDATE login_rates SET full_at = full_at - make_interval(secs => $1) WHERE rate_key LIKE 'signer:%'"
    await stack.database.execute(passed, SIGN_INS.every_seconds)
    assert (await use(stack, waiting)).code == "OK"


async def test_a_link_opens_nothing_by_itself_and_a_token_is_no_link(stack: Stack) -> None:
    assert refused(await me(stack, link(stack))) == INVALID
    assert refused(await use(stack, stack.token("ann", ("admin",)))) == INVALID
    assert refused(await use(stack, stack.token("player_ann"))) == INVALID
    assert refused(await use(stack, "no token at all")) == INVALID
    assert fields_of(await stack.admin("POST", "/admin/auth/link", {}, roles=())) != []


async def test_a_link_that_is_too_old_signs_nobody_in(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = jwt.decode(link(stack), options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == LINK_SECONDS
    old = {**claims, "iat": claims["iat"] - LINK_SECONDS - 60, "exp": claims["iat"] - 60}
    secret = stack.process.settings.jwt_staff_secrets[0]
    assert refused(await use(stack, jwt.encode(old, secret, algorithm="HS256")))[2] == "TOKEN_EXPIRED"


async def test_a_session_is_one_sign_in_in_the_audit_log_and_logging_out_ends_it(stack: Stack) -> None:
    token = (await use(stack, link(stack))).data["token"]
    assert (await me(stack, token)).code == "OK"
    rows = (await stack.admin("GET", "/admin/audit", actor="ann")).data["items"]
    assert [row["action"] for row in rows] == ["staff.sign_in"]
    assert (await stack.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(token))).code == "OK"
    assert refused(await me(stack, token)) == INVALID


async def test_without_an_issuer_there_is_only_the_link(stack: Stack) -> None:
    assert (await stack.admin("GET", "/admin/auth/methods", roles=())).data == {"oidc": False}
    answer = await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())
    assert refused(answer) == INVALID


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as issuer:
        yield issuer


@pytest.fixture
async def trusting(issuer: Issuer, make_database: Callable[[], str], valkey_url: str) -> AsyncIterator[Stack]:
    """A stack that trusts the issuer."""
    async with new_stack(settings_of(make_database(), valkey_url, **issuer.settings)) as stack:
        yield stack


async def begin(stack: Stack) -> dict[str, str]:
    """What a page is told at the beginning, and what the issuer is asked with it."""
    begun = (await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())).data
    return {**begun, **{name: values[0] for name, values in parse_qs(urlsplit(begun["url"]).query).items()}}


async def finish(stack: Stack, begun: dict[str, str], code: str, **instead: str) -> Answer:
    body = {"code": code, "verifier": begun["verifier"], "nonce": begun["nonce"], "redirect_uri": REDIRECT, **instead}
    return await stack.admin("POST", "/admin/auth/oidc/finish", body, roles=())


async def test_who_signs_in_at_the_issuer_is_staff_as_their_claims_say(trusting: Stack, issuer: Issuer) -> None:
    assert (await trusting.admin("GET", "/admin/auth/methods", roles=())).data == {"oidc": True}
    begun = await begin(trusting)
    assert begun["url"].startswith(f"{issuer.url}/authorize?") and begun["redirect_uri"] == REDIRECT
    answer = await finish(trusting, begun, issuer.code("dora", begun))
    told = (await me(trusting, answer.data["token"])).data
    assert (told["subject"], told["tenant_id"], told["roles"]) == ("dora", trusting.tenant_id, ["designer"])
    # The session is ours: signing out ends it, whatever the issuer thinks.
    assert (
        await trusting.admin("POST", "/admin/auth/logout", {}, roles=(), headers=bearer(answer.data["token"]))
    ).data == {}
    assert refused(await me(trusting, answer.data["token"])) == INVALID


async def test_a_code_is_of_use_once_and_to_who_has_the_verifier(trusting: Stack, issuer: Issuer) -> None:
    begun = await begin(trusting)
    code = issuer.code("ann", begun)
    assert refused(await finish(trusting, begun, code, verifier="another")) == INVALID
    code = issuer.code("ann", begun)
    assert (await finish(trusting, begun, code)).code == "OK"
    assert refused(await finish(trusting, begun, code)) == INVALID
    assert issuer.refused == ["verifier", "code"]


@pytest.mark.parametrize("ways", [("client_secret_post", "none"), ("client_secret_basic", "private_key_jwt"), None])
async def test_a_client_with_a_secret_says_it_as_the_issuer_takes_it(
    issuer: Issuer, make_database: Callable[[], str], valkey_url: str, ways: tuple[str, ...] | None
) -> None:
    issuer.secret, issuer.ways = "a secret: of +signs/", ways
    for said, taken in (("another", False), (issuer.secret, True)):
        settings = settings_of(make_database(), valkey_url, **issuer.settings, oidc_client_secret=said)
        async with new_stack(settings) as stack:
            begun = await begin(stack)
            answer = await finish(stack, begun, issuer.code("ann", begun))
            assert (answer.code == "OK") is taken, answer.envelope
            assert taken or refused(answer) == INVALID
    assert issuer.refused == ["client"]


async def test_an_id_token_of_another_sign_in_or_client_or_issuer_signs_nobody_in(
    trusting: Stack, issuer: Issuer
) -> None:
    begun = await begin(trusting)
    for claims in ({"nonce": "another"}, {"nonce": None}, {"aud": "tombola"}, {"iss": "https://else.example"}):
        issuer.claims = claims
        assert refused(await finish(trusting, begun, issuer.code("ann", begun))) == INVALID, claims
    issuer.claims = {}
    assert (await finish(trusting, begun, issuer.code("ann", begun))).code == "OK"


async def test_who_has_no_role_here_is_told_so_and_gets_no_token(trusting: Stack, issuer: Issuer) -> None:
    begun = await begin(trusting)
    answer = await finish(trusting, begun, issuer.code("eve", begun))
    assert refused(answer) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")


async def test_only_an_address_is_sent_to_the_issuer(trusting: Stack) -> None:
    for wrong in ("", "javascript:alert(1)", "/dashboard", "https://a.example/#x", "x" * 5000):
        answer = await trusting.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": wrong}, roles=())
        assert fields_of(answer) == ["redirect_uri"]


async def test_an_issuer_that_is_away_or_another_is_said_to_be_unusable(
    issuer: Issuer, make_database: Callable[[], str], valkey_url: str
) -> None:
    for wrong in ({"jwks_issuer": f"{issuer.url}/"}, {"jwks_issuer": "http://127.0.0.1:9"}):
        settings = settings_of(make_database(), valkey_url, **{**issuer.settings, **wrong})
        async with new_stack(settings) as stack:
            answer = await stack.admin("POST", "/admin/auth/oidc/start", {"redirect_uri": REDIRECT}, roles=())
            assert refused(answer) == (503, "UNAVAILABLE", "STORE_UNAVAILABLE")
