import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from structlog.testing import capture_logs

from runtime import ids
from runtime.errors import Fault
from runtime.http.auth.external_issuer import ExternalIssuer
from runtime.http.auth.identity import Identity
from runtime.http.auth.tokens import Tokens
from runtime.settings import Settings
from tests.support.tokens import SECRET, Issuer, claims, own_tokens, reason_of, serving_issuer

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
THIEF = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
OCT_KEY = "o" * 64
"""A shared secret in an issuer's public document."""
RSA_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def another(url: str, issuer: str = "tombola", audience: str = "edge", **options: Any) -> ExternalIssuer:
    return ExternalIssuer(url, issuer, audience, **options)


def b64(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def test_token_is_for_one_audience() -> None:
    for audiences in (["edge", "staff"], ["staff"], ["edge"]):
        token = jwt.encode(claims(aud=audiences, roles=["admin"]), SECRET, algorithm="HS256")
        assert await reason_of(own_tokens(), token) == "TOKEN_INVALID"


@pytest.mark.parametrize(
    ("seconds", "login", "taken"),
    [(600, "", True), (601, "", False), (10**12, "", False), (60, "login_1", True), (61, "login_1", False)],
)
async def test_token_made_for_too_long_is_refused(seconds: int, login: str, taken: bool) -> None:
    tokens = own_tokens(seconds_max=600, login_seconds_max=60)
    for roles in ([], ["admin"]):
        token = tokens.mint("ann", tenant_id="t", seconds=seconds, login_id=login, roles=roles)
        if taken:
            assert (await tokens.verify(token)).subject == "ann"
        else:
            assert await reason_of(tokens, token) == "TOKEN_INVALID"


@pytest.mark.parametrize("sid", [7, [], {}, None, False])
async def test_login_that_is_no_text_is_none(sid: Any) -> None:
    token = jwt.encode({**claims(), "sid": sid}, SECRET, algorithm="HS256")
    assert await reason_of(own_tokens(), token) == "TOKEN_INVALID"


async def test_token_is_its_own_sign_in_unless_it_continues_one() -> None:
    tokens = own_tokens()

    async def minted(**said: Any) -> Identity:
        return await tokens.verify(tokens.mint("ann", tenant_id="t", seconds=60, **said))

    own = jwt.decode(tokens.mint("ann", tenant_id="t", seconds=60), options={"verify_signature": False})["jti"]
    assert len(own) == 16, "96 bits"
    staff = [await minted(roles=["admin"], jti=jti) for jti in ("", "", "one", "one")]
    assert len({one.sign_in_id for one in staff}) == 3 and staff[2].sign_in_id == staff[3].sign_in_id
    assert all(one.sign_in_id.startswith("signin_") and len(one.sign_in_id) == 39 for one in staff)
    player, logged_in = await minted(), await minted(login_id="login_1")
    assert player.sign_in_id == logged_in.sign_in_id == ""
    assert len({player.revocable, logged_in.revocable, staff[0].revocable}) == 3
    assert "login_1" in str(logged_in.revocable) and "ann" in str(player.revocable)


@pytest.mark.parametrize(
    ("said", "subject"),
    [
        *(("  Ann B. \n", "Ann B."), ("Jose\u0301", "Jos\u00e9"), ("\u00a0ann\u2003", "ann")),
        *((said, "") for said in ("a\u200bnn", "ann\u202e", "a\u00adnn", "ann\x07b", "ann\u3164", "ann\u2800", " ")),
        *((said, "") for said in ("ann\ufe0f", "ann\U000e0100")),
    ],
)
async def test_staff_subject_has_one_form_and_no_unseen_characters(said: str, subject: str) -> None:
    """Else somebody could be the second person for what they asked themselves."""
    tokens = own_tokens()
    token = tokens.mint(said, tenant_id="t", seconds=60, roles=["admin"])
    if subject:
        assert (await tokens.verify(token)).subject == subject
    else:
        assert await reason_of(tokens, token) == "TOKEN_INVALID"


class TestRotation:
    OLD = "o" * 32

    def tokens(self, *secrets: str) -> Tokens:
        return Tokens(*secrets, issuer="tombola", audience="edge")

    async def test_tokens_of_a_secret_that_was_before_still_count(self) -> None:
        before = self.tokens(self.OLD).mint("player_1", tenant_id="t", seconds=60)
        now = self.tokens(SECRET, self.OLD)
        assert (await now.verify(before)).player_id == "player_1"
        after = now.mint("player_1", tenant_id="t", seconds=60)
        assert jwt.get_unverified_header(after)["kid"] != jwt.get_unverified_header(before)["kid"]
        assert (await self.tokens(SECRET).verify(after)).player_id == "player_1"
        assert await reason_of(self.tokens(self.OLD), after) == "TOKEN_INVALID"

    async def test_token_without_a_key_id_is_tried_with_every_secret(self) -> None:
        for secret in (SECRET, self.OLD):
            token = jwt.encode(claims(), secret, algorithm="HS256")
            assert (await self.tokens(SECRET, self.OLD).verify(token)).player_id == "player_1"
        expired = jwt.encode(claims(exp=int(time.time()) - 60), self.OLD, algorithm="HS256")
        assert await reason_of(self.tokens(SECRET, self.OLD), expired) == "TOKEN_EXPIRED"

    async def test_key_id_of_one_secret_does_not_pass_for_another_s_token(self) -> None:
        kid = jwt.get_unverified_header(self.tokens(SECRET).mint("p", tenant_id="t", seconds=60))["kid"]
        token = jwt.encode(claims(), self.OLD, algorithm="HS256", headers={"kid": kid})
        assert await reason_of(self.tokens(SECRET, self.OLD), token) == "TOKEN_INVALID"
        assert SECRET not in kid and self.OLD not in kid and len(kid) == 16


class TestAnotherIssuer:
    async def read(self, issuer: Issuer, said: dict[str, Any], **options: Any) -> Identity:
        tokens = own_tokens(external=another(issuer.url, "https://id.example", "them", **options))
        iss = "https://id.example"
        token = jwt.encode(claims(iss=iss, aud="them", **said), RSA_KEY, algorithm="RS256", headers={"kid": "rsa"})
        try:
            return await tokens.verify(token)
        finally:
            await tokens.close()

    async def test_role_that_is_not_mapped_leaves_a_player_a_player(self, issuer: Issuer) -> None:
        for roles in (["user"], ["admin", "platform"], "admin", {"admin": True}, None, 7):
            identity = await self.read(issuer, {"roles": roles}, roles={"boss": "admin"})
            assert (identity.player_id, identity.roles) == ("player_1", frozenset())

    async def test_mapped_role_makes_staff(self, issuer: Issuer) -> None:
        for said in (["boss", "user"], "user boss", ["boss", 7]):
            identity = await self.read(issuer, {"roles": said}, roles={"boss": "admin", "artist": "designer"})
            assert (identity.player_id, identity.subject, identity.roles) == ("", "player_1", frozenset({"admin"}))

    async def test_claims_have_the_names_that_the_settings_give_them(self, issuer: Issuer) -> None:
        names = {"tenant_claim": "https://id.example/org", "merchant_claim": "shop.id", "player_claim": "uid"}
        names |= {"roles_claim": "realm_access.roles"}
        said = {"sub": "auth0|123", "tenant_id": "tenant_other", "https://id.example/org": "tenant_1"}
        said |= {"shop": {"id": "m_1"}, "uid": "u-9", "realm_access": {"roles": ["boss"]}}
        player = await self.read(issuer, said, **names)
        assert (player.tenant_id, player.merchant_id, player.player_id) == ("tenant_1", "m_1", "u-9")
        staff = await self.read(issuer, said, **names, roles={"boss": "admin"})
        assert (staff.subject, staff.roles) == ("auth0|123", frozenset({"admin"}))

    def test_roles_name_may_have_an_equals_sign_in_it(self) -> None:
        settings = Settings(jwks_url="https://id.example/jwks", jwks_role_map=["group=boss=admin", "artist=designer"])
        foreign = ExternalIssuer.of(settings)
        assert foreign is not None and foreign.roles == {"group=boss": "admin", "artist": "designer"}

    async def test_issuer_speaks_for_its_tenants_alone(self, issuer: Issuer) -> None:
        mine = frozenset({"tenant_1"})
        assert (await self.read(issuer, {}, tenants=mine)).tenant_id == "tenant_1"
        assert (await self.read(issuer, {"tenant_id": None}, tenants=mine)).tenant_id == "tenant_1"
        for said, tenants in (
            *(({"tenant_id": "tenant_2"}, mine), ({"tenant_id": ["tenant_1"]}, mine)),
            *(({"tenant_id": None}, frozenset({"tenant_1", "tenant_2"})), ({"tenant_id": None}, frozenset({"*"}))),
            ({"tenant_id": "tenant_1"}, frozenset()),
        ):
            with pytest.raises(Fault, match="TOKEN_INVALID"):
                await self.read(issuer, said, tenants=tenants)

    async def test_issuer_gets_no_longer_token_lifetime_than_ours(self, issuer: Issuer) -> None:
        with pytest.raises(Fault, match="TOKEN_INVALID"):
            await self.read(issuer, {"exp": int(time.time()) + 366 * 86_400})

    async def test_issuer_names_no_player_of_ours(self, issuer: Issuer) -> None:
        """Rankings show ids: an issuer that could choose one would take over that guest or player."""
        for kind in ("guest", "player"):
            with pytest.raises(Fault, match="TOKEN_INVALID"):
                await self.read(issuer, {"sub": ids.make(kind)})
        assert (await self.read(issuer, {"sub": "guest_of_honour"})).player_id == "guest_of_honour"

    async def test_issuer_names_no_login_of_ours(self, issuer: Issuer) -> None:
        assert (await self.read(issuer, {"sid": "login_1"})).login_id == ""

    async def test_merchant_is_an_identifier_or_absent(self, issuer: Issuer) -> None:
        """Any other empty value would turn a merchant's staff into the tenant's."""
        boss = {"roles": ["boss"]}
        for wrong in ([], {}, 0, 0.0, False, True, 7, ["m_1"], {"id": "m_1"}, "a}b", " "):
            with pytest.raises(Fault, match="TOKEN_INVALID"):
                await self.read(issuer, {**boss, "merchant_id": wrong}, roles={"boss": "admin"})
        for said in ({}, {"merchant_id": None}, {"merchant_id": ""}):
            identity = await self.read(issuer, {**boss, **said}, roles={"boss": "admin"})
            assert (identity.roles, identity.merchant_id) == (frozenset({"admin"}), "")
        assert (await self.read(issuer, {**boss, "merchant_id": "m_1"}, roles={"boss": "admin"})).merchant_id == "m_1"

    async def test_document_without_keys_is_an_issuer_that_was_never_reached(self, issuer: Issuer) -> None:
        keys = issuer.document["keys"]
        for document in ({"keys": ["x"]}, {"keys": [*keys, None]}, {"keys": "x"}, {"keys": {}}, {"error": 1}, [], None):
            issuer.document = document
            with capture_logs() as logs, pytest.raises(Fault) as caught:
                await self.read(issuer, {})
            assert (caught.value.http, caught.value.reason) == (503, "STORE_UNAVAILABLE"), document
            assert [row["event"] for row in logs if row["log_level"] != "debug"] == ["jwks_not_fetched"]

    async def test_unusable_key_leaves_the_others(self, issuer: Issuer) -> None:
        keys = issuer.document["keys"]
        broken = [{**row, **wrong} for row in keys for wrong in ({"x": "!", "n": "!"}, {"crv": []}, {"kid": []})]
        issuer.document = {"keys": [{}, {"kty": "oct"}, *broken, *keys]}
        assert (await self.read(issuer, {})).player_id == "player_1"


WRONG: dict[str, dict[str, Any]] = {
    "no exp": {"exp": None},
    "no iat": {"iat": None},
    "no sub": {"sub": None},
    "no iss": {"iss": None},
    "no aud": {"aud": None},
    "no tenant": {"tenant_id": None},
    "wrong iss": {"iss": "other"},
    "wrong aud": {"aud": "other"},
    "infinite exp": {"exp": float("inf")},
    "exp that is no number": {"exp": "soon"},
    "from the future": {"iat": 2**33},
    "roles that are no list": {"roles": "admin"},
    "a tenant that breaks a hash tag": {"tenant_id": "a}b"},
    "a player with a newline": {"sub": "a\nb"},
    "staff without a name": {"aud": "staff", "sub": "", "roles": ["admin"]},
    "staff by a name that no log can show": {"aud": "staff", "sub": "ann\u202e\n", "roles": ["admin"]},
    "staff by a name too long to log out": {"aud": "staff", "sub": "x" * 513, "roles": ["admin"]},
    "a merchant that is no text": {"aud": "staff", "roles": ["admin"], "merchant_id": 0},
    "a merchant that is a list": {"aud": "staff", "roles": ["admin"], "merchant_id": []},
    "not before next year": {"nbf": 2**33},
    "nbf that is no number": {"nbf": "soon"},
}


def critical(algorithm: str, key: Any, body: str, **header: Any) -> str:
    """A token with the one critical extension that pyjwt verifies, but does not write."""
    signed = f"{b64({'alg': algorithm, 'crit': ['b64'], 'b64': True, **header})}.{body}"
    signature = jwt.get_algorithm_by_name(algorithm).sign(signed.encode(), key)
    return f"{signed}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.fault("Tokens", size="21 wrong claims", figure="refused")
async def test_wrong_claims_are_refused(name: str) -> None:
    token = jwt.encode(claims(**WRONG[name]), SECRET, algorithm="HS256")
    assert await reason_of(own_tokens(), token) == "TOKEN_INVALID"


@pytest.mark.fault("Tokens", size="17 forged headers and signatures", figure="refused")
async def test_forged_headers_are_refused(issuer: Issuer) -> None:
    tokens = own_tokens(external=another(issuer.url))
    good = jwt.encode(claims(), SECRET, algorithm="HS256")
    _, body, signature = good.split(".")
    forged = {
        "alg none": f"{b64({'alg': 'none', 'typ': 'JWT'})}.{body}.",
        "alg None": f"{b64({'alg': 'None'})}.{body}.",
        "no alg": f"{b64({'typ': 'JWT'})}.{body}.{signature}",
        "alg that is no string": f"{b64({'alg': ['HS256']})}.{body}.{signature}",
        "crit": critical("HS256", SECRET.encode(), body),
        "wrong key": jwt.encode(claims(), "x" * 32, algorithm="HS256"),
        "another hash": jwt.encode(claims(), SECRET * 2, algorithm="HS512"),
        "a flipped bit": good[:-2] + ("A" if good[-2] != "A" else "B") + good[-1],
        "garbage": "abc",
        "empty parts": "..",
        "not ascii": "é.é.é",
        "jwk in the header": jwt.encode(
            claims(), THIEF, algorithm="ES256", headers={"jwk": json.loads(ECAlgorithm.to_jwk(THIEF.public_key()))}
        ),
        "crit of an external token": critical("RS256", RSA_KEY, body, kid="rsa"),
        "external HS512": jwt.encode(claims(), OCT_KEY, algorithm="HS512", headers={"kid": "oct"}),
        "unknown kid": jwt.encode(claims(), RSA_KEY, algorithm="RS256", headers={"kid": "other"}),
    }
    # RS/HS confusion: the public key, which everybody has, as an HMAC secret (pyjwt refuses to sign that).
    for algorithm in ("HS256", "RS256"):
        signed = f"{b64({'alg': algorithm, 'kid': 'rsa'})}.{body}"
        mac = hmac.new(RSA_PEM, signed.encode(), hashlib.sha256).digest()
        forged[f"an HMAC as {algorithm}"] = f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    for name, token in forged.items():
        assert await reason_of(tokens, token) == "TOKEN_INVALID", name
    await tokens.close()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    keys: dict[str, tuple[Any, Any]] = {"rsa": (RSAAlgorithm, RSA_KEY), "ec": (ECAlgorithm, EC_KEY)}
    keys["ed"] = (OKPAlgorithm, ED_KEY)
    public = [{**json.loads(kind.to_jwk(key.public_key())), "kid": kid} for kid, (kind, key) in keys.items()]
    async with serving_issuer(
        *public, {"kty": "oct", "k": base64.urlsafe_b64encode(OCT_KEY.encode()).decode().rstrip("="), "kid": "oct"}
    ) as issuer:
        yield issuer


async def test_foreign_issuer_keys_are_fetched_once_and_verify(issuer: Issuer) -> None:
    tokens = own_tokens(external=another(issuer.url, "https://id.example", "them"))
    foreign = claims(iss="https://id.example", aud="them")
    signers: list[tuple[Any, str, str]] = [(RSA_KEY, "RS256", "rsa"), (EC_KEY, "ES256", "ec"), (ED_KEY, "EdDSA", "ed")]
    for key, algorithm, kid in signers:
        token = jwt.encode(foreign, key, algorithm=algorithm, headers={"kid": kid})
        assert (await tokens.verify(token)).player_id == "player_1"
    assert issuer.asked == 1
    # Neither issuer may speak for the other.
    assert await reason_of(tokens, jwt.encode(foreign, SECRET, algorithm="HS256")) == "TOKEN_INVALID"
    own = jwt.encode(claims(), RSA_KEY, algorithm="RS256", headers={"kid": "rsa"})
    assert await reason_of(tokens, own) == "TOKEN_INVALID"
    await tokens.close()


async def test_issuer_that_was_never_reached_is_unavailable() -> None:
    tokens = own_tokens(external=another("http://127.0.0.1:1/jwks"))
    with pytest.raises(Fault) as caught:
        await tokens.verify(jwt.encode(claims(), RSA_KEY, algorithm="RS256", headers={"kid": "rsa"}))
    assert caught.value.http == 503
    await tokens.close()
