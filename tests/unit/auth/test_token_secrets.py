"""Players' and staff's tokens: whose secret makes which, and which sign-in one of staff's is of."""

from typing import Any

import jwt
import pytest

from runtime.http.auth.tokens import Tokens
from tests.support.tokens import SECRET, claims, own_tokens, reason_of


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
            kids = [None, *(jwt.get_unverified_header(one)["kid"] for one in self.each(both))]
            for kid in kids:
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
        after = own_tokens(staff_secrets=["n" * 32, self.STAFF])
        assert (await after.verify(before)).subject == "bea"
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
