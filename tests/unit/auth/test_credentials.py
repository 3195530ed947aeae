from collections.abc import Callable
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from runtime.errors import Fault, Status
from runtime.http.admission.idempotency import idempotency_key
from runtime.http.auth.credentials import Auth
from runtime.http.auth.identity import Identity, require_player, require_roles
from runtime.messages import ContactType
from runtime.wire.contacts import normalized
from tests.support.tokens import own_tokens


def request(**headers: str) -> web.Request:
    return make_mocked_request("GET", "/", headers={name.replace("_", "-"): value for name, value in headers.items()})


async def test_headers_are_never_believed_by_default() -> None:
    auth = Auth(own_tokens(), default_tenant="t")
    assert await auth.identify(request(X_Tenant_Id="t", X_Player_Id="player_1", X_Roles="admin")) is None


async def test_headers_make_an_identity_where_turned_on() -> None:
    auth = Auth(own_tokens(), header_fallback=True, default_tenant="t")
    identity = await auth.identify(request(X_Player_Id="player_1", X_Roles="admin, designer", X_Merchant_Id="m"))
    assert identity == Identity("t", "m", "player_1", frozenset({"admin", "designer"}), "player_1", 0)
    assert await auth.identify(request(X_Tenant_Id="t")) is None


@pytest.mark.parametrize("name", ["X-Player-Id", "X-Merchant-Id", "X-Tenant-Id", "Idempotency-Key"])
async def test_repeated_header_is_refused_by_name(name: str) -> None:
    sent = CIMultiDict([("X-Player-Id", "player_1"), (name, "one"), (name, "other")])
    twice = make_mocked_request("POST", "/", headers=sent)
    with pytest.raises(Fault, match=f"{name}: must be sent only once"):
        await Auth(own_tokens(), header_fallback=True, default_tenant="t").identify(twice)
        idempotency_key(twice)


async def test_token_wins_over_headers_and_a_wrong_one_is_not_forgiven() -> None:
    tokens = own_tokens()
    auth = Auth(tokens, header_fallback=True, default_tenant="t")
    token = tokens.mint("player_1", tenant_id="tenant_1", seconds=60)
    identity = await auth.identify(request(Authorization=f"Bearer {token}", X_Player_Id="player_2", X_Roles="admin"))
    assert (identity.player_id, identity.roles) == ("player_1", frozenset())
    for wrong in ("Bearer abc", "Bearer", f"Basic {token}", f"Token {token}", f"bearer{token}", token, ""):
        with pytest.raises(Fault, match="TOKEN_INVALID"):
            await auth.identify(request(Authorization=wrong, X_Player_Id="player_2"))


def staff(*roles: str) -> Identity:
    return Identity("own", "", "", frozenset(roles), "ann", 0)


def test_platform_role_alone_acts_for_another_tenant() -> None:
    auth = Auth(own_tokens(), default_tenant="default")
    other = request(X_Tenant_Id="other")
    assert auth.tenant(other, staff("admin")) == "own"
    assert auth.tenant(other, staff("admin", "platform")) == "other"
    assert auth.tenant(request(), staff("platform")) == "own"
    assert auth.tenant(other, None) == "other"
    assert auth.tenant(request(), None) == "default"
    assert auth.tenant(make_mocked_request("GET", "/?tenant_id=asked"), None) == "asked"
    with pytest.raises(Fault, match="VALIDATION"):
        auth.tenant(request(X_Tenant_Id="a}b"), None)


def refused(call: Callable[..., Any], *arguments: Any) -> tuple[str, str]:
    """(reason, message) of what it raises."""
    with pytest.raises(Fault) as caught:
        call(*arguments)
    return caught.value.reason, caught.value.message


def test_tenant_is_named_and_an_identifier() -> None:
    auth = Auth(own_tokens(), header_fallback=True)
    missing = "is required"
    assert missing in refused(auth.tenant, request(), None)[1]
    assert "identifier" in refused(auth.tenant, make_mocked_request("GET", "/?tenant_id=a%7Db"), None)[1]
    assert missing in refused(auth._from_headers, request(X_Player_Id="ann"))[1]
    for header in ("X_Player_Id", "X_Tenant_Id", "X_Merchant_Id"):
        named = {"X_Player_Id": "ann", "X_Tenant_Id": "t", header: "a}b"}
        assert "identifier" in refused(auth._from_headers, request(**named))[1]


def test_identity_is_needed_for_a_role_or_a_player() -> None:
    for needs in (require_roles, require_player):
        assert refused(needs, None)[0] == "TOKEN_MISSING"
        assert refused(needs, staff("guest"))[0] == "ROLE_REQUIRED"
    assert require_roles(staff("admin", "guest")) == staff("admin", "guest")
    for role in ("admin", "designer", "reward_manager"):
        assert require_roles(staff(role)).roles == {role}
    for none in (staff("platform"), staff("viewer"), Identity("t", "", "ann", frozenset(), "ann", 0)):
        assert refused(require_roles, none)[0] == "ROLE_REQUIRED"
    assert refused(require_player, staff("admin"))[0] == "ROLE_REQUIRED"


FORMS: Final[dict[ContactType, dict[str, tuple[str, ...]]]] = {
    # In E.164; in lower case.
    ContactType.PHONE: {
        "+12025550123": ("+12025550123", " +1 (202) 555-0123 ", "+1.202.555.0123"),
        "+4930901820": ("+49 30 901820",),
        "+15550100": ("+15550100",),
    },
    ContactType.EMAIL: {
        "bob@example.com": ("Bob@Example.COM", " bob@example.com "),
        "ada@exämple.com": ("ada@xn--exmple-cua.com",),
        "ada@shop.test": ("ada@shop.test",),
    },
}


@pytest.mark.parametrize("type", FORMS)
def test_contact_is_kept_in_one_form(type: ContactType) -> None:
    for kept, texts in FORMS[type].items():
        assert {normalized(type, text) for text in texts} == {kept}


WRONG: Final[dict[ContactType, tuple[str, ...]]] = {
    ContactType.PHONE: ("", "2025550123", "+", "+999123456", "+155501", "+12025550123 ext 5", "+1" + "2" * 40),
    ContactType.EMAIL: (
        *("", "bob", "bob@", "@a.com", "bob@localhost", "a b@a.com", "=?utf-8?q?a?=@a.com", "x" * 400 + "@a.com"),
    ),
    ContactType.UNSPECIFIED: ("+12025550123",),
}


@pytest.mark.parametrize("type", WRONG)
def test_wrong_contact_is_refused_by_its_field(type: ContactType) -> None:
    field = "type" if type is ContactType.UNSPECIFIED else "contact"
    for wrong in WRONG[type]:
        with pytest.raises(Fault) as refused:
            normalized(type, wrong, field="contact")
        assert refused.value.status is Status.INVALID_ARGUMENT
        assert refused.value.facts["violations"][0]["field"] == field, wrong
