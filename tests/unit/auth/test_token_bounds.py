import time
from typing import Any

import jwt
import pytest

from runtime.errors import Fault
from runtime.http.auth.external_issuer import ExternalIssuer
from runtime.http.auth.tokens import TOKEN_CHARACTERS_MAX, Tokens
from runtime.operations.players.revocations import LEEWAY_SECONDS
from tests.support.tokens import SECRET, claims, own_tokens, reason_of, serving_issuer

NOW = 1_800_000_000


def signed(headers: dict[str, Any] | None = None, **said: Any) -> str:
    standard = {"iss": "tombola", "aud": "edge", "sub": "ann", "tenant_id": "t"}
    return jwt.encode({**standard, "iat": NOW, "exp": NOW + 60, **said}, SECRET, algorithm="HS256", headers=headers)


@pytest.fixture
def tokens(clock: list[float]) -> Tokens:
    return Tokens(SECRET, issuer="tombola", audience="edge")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    times = [float(NOW)]
    monkeypatch.setattr(time, "time", lambda: times[0])
    return times


async def is_taken(tokens: Tokens, token: str) -> bool:
    try:
        return (await tokens.verify(token)).subject == "ann"
    except Fault as fault:
        assert fault.http == 401
        return False


@pytest.mark.parametrize("remembered", [False, True])
async def test_token_ends_with_the_leeway_after_its_time(tokens: Tokens, clock: list[float], remembered: bool) -> None:
    token = signed()
    assert not remembered or await is_taken(tokens, token)
    clock[0] = NOW + 60 + LEEWAY_SECONDS - 0.5
    assert await is_taken(tokens, token)
    clock[0] = NOW + 60 + LEEWAY_SECONDS
    assert await reason_of(tokens, token) == "TOKEN_EXPIRED"


@pytest.mark.parametrize("claim", ["iat", "nbf"])
async def test_token_begins_no_earlier_than_the_leeway_before_its_time(tokens: Tokens, claim: str) -> None:
    assert await is_taken(tokens, signed(**{claim: NOW + LEEWAY_SECONDS}))
    assert not await is_taken(tokens, signed(**{claim: NOW + LEEWAY_SECONDS + 1}))


async def test_token_is_not_longer_than_is_read(tokens: Tokens) -> None:
    lengths = {len(token): token for token in (signed(more="x" * length) for length in range(5_900, 6_100))}
    assert await is_taken(tokens, lengths[TOKEN_CHARACTERS_MAX])
    assert not await is_taken(tokens, lengths[min(length for length in lengths if length > TOKEN_CHARACTERS_MAX)])


async def test_token_cache_keeps_the_most_recently_used(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.http.auth.tokens.CACHE_MAX", 2)
    first, second, third = (signed(jti=jti) for jti in "123")
    for token in (first, second, first, third):
        assert await is_taken(tokens, token)
    assert list(tokens._known) == [first, third]


async def test_foreign_issuer_is_asked_only_for_keys_of_its_algorithms() -> None:
    async with serving_issuer() as issuer:
        tokens = Tokens(issuer="tombola", audience="edge", external=ExternalIssuer(issuer.url, "them", "edge"))
        assert not await is_taken(tokens, signed())
        assert issuer.asked == 0
        assert not await is_taken(tokens, signed().replace("eyJhbGciOiJIUzI1NiIs", "eyJhbGciOiJFUzI1NiIs"))
        assert issuer.asked == 1
        session = tokens._keys._session if tokens._keys is not None else None
        await tokens.close()
    assert session is not None and session.closed


class TestSecretsOfTheirOwn:
    """Each edge holds the secret of its own tokens: that of players makes no staff, and the other way round."""

    STAFF = "t" * 32

    def consumer(self) -> Tokens:
        return own_tokens(staff_secrets=())

    def admin(self) -> Tokens:
        return Tokens(issuer="tombola", audience="edge", staff_audience="staff", staff_secrets=[self.STAFF])

    async def test_edge_takes_its_own(self) -> None:
        player = self.consumer().mint("ann", tenant_id="t", seconds=60)
        boss = self.admin().mint("bea", tenant_id="t", seconds=60, roles=["admin"])
        assert (await self.consumer().verify(player)).player_id == "ann"
        assert (await self.admin().verify(boss)).roles == {"admin"}
        assert await reason_of(self.consumer(), boss) == "TOKEN_INVALID"
        assert await reason_of(self.admin(), player) == "TOKEN_INVALID"

    async def test_secret_makes_tokens_of_its_own_audience_alone(self) -> None:
        both = own_tokens(staff_secrets=[self.STAFF])
        for secret, audience in ((SECRET, "staff"), (self.STAFF, "edge")):
            said = claims(aud=audience, roles=["admin"])
            for kid in [None, *(jwt.get_unverified_header(one)["kid"] for one in self.each(both))]:
                forged = jwt.encode(said, secret, algorithm="HS256", headers={"kid": kid} if kid else None)
                assert await reason_of(both, forged) == "TOKEN_INVALID"

    def each(self, tokens: Tokens) -> list[str]:
        return [tokens.mint("ann", tenant_id="t", seconds=60, roles=roles) for roles in ((), ("admin",))]

    async def test_process_without_a_secret_makes_none_of_its_tokens(self) -> None:
        with pytest.raises(LookupError):
            self.consumer().mint("bea", tenant_id="t", seconds=60, roles=["admin"])
        with pytest.raises(LookupError):
            self.admin().mint("ann", tenant_id="t", seconds=60)

    async def test_staff_s_secret_is_rotated_by_itself(self) -> None:
        before = self.admin().mint("bea", tenant_id="t", seconds=60, roles=["admin"])
        assert (await own_tokens(staff_secrets=["n" * 32, self.STAFF]).verify(before)).subject == "bea"
        assert await reason_of(own_tokens(staff_secrets=["n" * 32]), before) == "TOKEN_INVALID"


async def test_sign_in_is_the_session_of_its_issuer_or_else_the_token() -> None:
    async def sign_in(**said: Any) -> str:
        token = jwt.encode(claims(aud="staff", roles=["admin"], **said), SECRET, algorithm="HS256")
        found = (await own_tokens().verify(token)).sign_in_id
        assert "session" not in found
        return found

    assert await sign_in(sid="session_one", jti="a") == await sign_in(sid="session_one", jti="b")
    different = [await sign_in(sid="session_two"), await sign_in(jti="a"), await sign_in(jti="b"), await sign_in()]
    different += [await sign_in(nonce="x"), await sign_in(sid="", jti="c")]
    assert len(set(different)) == len(different)
    assert (await own_tokens().verify(jwt.encode(claims(jti="a"), SECRET, algorithm="HS256"))).sign_in_id == ""
