import asyncio
import base64
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from runtime.app import running
from runtime.core import Core
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.login.api_tokens import GUESSES, GUESSES_IN_ALL, Marks
from runtime.operations import Operation
from runtime.operations.staff import tokens
from runtime.operations.staff.tokens import CACHE_SECONDS, PREFIX, REVOKED_SECONDS
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.resources import make_campaign
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of, refused
from tests.support.waiting import until

INVALID = (401, "UNAUTHENTICATED", "TOKEN_INVALID")
EXPIRED = (401, "UNAUTHENTICATED", "TOKEN_EXPIRED")
FORBIDDEN = (403, "PERMISSION_DENIED", "FORBIDDEN")
ROLE_REQUIRED = (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
TOO_MANY = (400, "FAILED_PRECONDITION", "TOO_MANY_TOKENS")
DAY = 86_400


async def make(stack: Stack, roles: tuple[str, ...] = ("admin",), by: tuple[str, ...] = ("admin",), **body: Any) -> Any:
    return (await stack.admin("POST", "/admin/tokens", {"name": "ci", "roles": list(roles), **body}, roles=by)).data


async def ask(stack: Stack, token: str, path: str = "/admin/me", verb: str = "GET", body: Any = None) -> Answer:
    return await stack.admin(verb, path, body, roles=(), headers=bearer(token))


async def until_refused(stack: Stack, token: str, why: tuple[int, str, str] = INVALID) -> None:
    await until(lambda: ask(stack, token), lambda it: refused(it) == why)


@asynccontextmanager
async def new_edge(stack: Stack, core: Any = None) -> AsyncIterator[Edge]:
    edge = Edge.build(stack.process.settings, core or Core(stack.engine), stack.engine.ephemeral, staff=True)
    yield edge
    await edge.close()


async def shown(edge: Edge, token: str) -> str:
    try:
        return "" if await edge.auth.identify(make_mocked_request("GET", "/", bearer(token))) else "nobody"
    except Fault as fault:
        return fault.reason


def guess(tenant_id: str) -> str:
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32) + tenant_id.encode()).rstrip(b"=").decode()


async def test_token_secret_is_shown_once_and_opens_what_its_roles_do(stack: Stack) -> None:
    made = await make(stack, ("designer",))
    assert re.fullmatch(r"tmb_[A-Za-z0-9_-]{43,}\.[A-Za-z0-9_-]{16}", made["secret"])
    reply = (await ask(stack, made["secret"])).data
    named = f"ci ({made['id']})"
    assert (reply["subject"], reply["tenant_id"], reply["roles"]) == (named, stack.tenant_id, ["designer"])
    assert reply["expires_at"] == made["expires_at"]
    (listed,) = (await stack.admin("GET", "/admin/tokens")).data["items"]
    assert {**listed, "last_used_at": 0} == {**made, "secret": ""}
    assert (listed["made_by"], listed["last_used_at"] % 3600) == ("staff_test", 0)
    assert listed["last_used_at"] > made["created_at"] - 3600
    assert (await ask(stack, made["secret"], "/admin/campaigns", "POST", {"name": "Fair"})).code == "OK"
    entries = (await stack.admin("GET", "/admin/audit")).data["items"]
    found = [(row["action"], row["actor"]) for row in entries if row["action"] != "staff.sign_in"]
    assert found == [("campaign.create", named), ("token.create", "staff_test")]


async def test_token_expiry_is_bounded_by_the_setting(stack: Stack) -> None:
    now = int(time.time())
    assert (await make(stack))["expires_at"] == pytest.approx(now + 90 * DAY, abs=60)
    assert (await make(stack, expires_at=now + DAY))["expires_at"] == now + DAY
    for wrong in (now - 1, now + stack.process.settings.api_token_seconds_max + 60):
        body = {"name": "ci", "roles": ["admin"], "expires_at": wrong}
        assert fields_of(await stack.admin("POST", "/admin/tokens", body)) == ["expires_at"]


@pytest.mark.settings(api_token_seconds_max=120)
async def test_token_without_an_expiry_lives_no_longer_than_the_setting(stack: Stack) -> None:
    assert (await make(stack))["expires_at"] == pytest.approx(time.time() + 120, abs=30)


async def test_token_with_more_roles_than_its_maker_is_refused(stack: Stack) -> None:
    async def tried(by: tuple[str, ...], roles: list[str], **body: Any) -> Answer:
        return await stack.admin("POST", "/admin/tokens", {"name": "x", "roles": roles, **body}, roles=by)

    assert (await tried(("designer",), ["designer"])).code == "OK"
    for by, roles in ((("designer",), ["admin"]), (("reward_manager",), ["reward_manager", "designer"])):
        assert refused(await tried(by, roles)) == FORBIDDEN
    for roles in (["platform"], ["admin", "platform"], ["owner"], []):
        answer = await tried(("admin", "platform"), roles)
        assert refused(answer) == FORBIDDEN or fields_of(answer)[0].startswith("roles")
    assert refused(await tried(("platform",), ["admin"])) == ROLE_REQUIRED
    assert await stack.database.fetchval("SELECT count(*) FROM api_tokens") == 1


async def test_token_cannot_make_tokens_or_sign_out(stack: Stack) -> None:
    token = (await make(stack))["secret"]
    assert refused(await ask(stack, token, "/admin/tokens", "POST", {"name": "x", "roles": ["designer"]})) == FORBIDDEN
    for body in ({}, {"everywhere": True}):
        assert (await ask(stack, token, "/admin/auth/logout", "POST", body)).reason == "TOKEN_MISSING"
    assert (await ask(stack, token, "/admin/auth/link", "POST", {"link": token})).reason == "TOKEN_INVALID"
    assert (await ask(stack, token)).code == "OK"


async def test_token_of_another_tenant_or_altered_token_opens_nothing(stack: Stack) -> None:
    other = replace(stack, tenant_id=OTHER_TENANT)
    token = (await make(other))["secret"]
    campaign_id = (await make_campaign(stack))["id"]
    headers = {**bearer(token), "X-Tenant-Id": stack.tenant_id}
    answer = await stack.admin("GET", f"/admin/campaigns/{campaign_id}", roles=(), headers=headers)
    assert answer.reason == "UNKNOWN_CAMPAIGN"
    assert (await ask(stack, token)).data["tenant_id"] == OTHER_TENANT
    bare = token.partition(".")[0]
    raw = base64.urlsafe_b64decode(bare.removeprefix(PREFIX) + "==")
    here = PREFIX + base64.urlsafe_b64encode(raw[:32] + stack.tenant_id.encode()).rstrip(b"=").decode()
    near = (here, bare[:-1], bare + "A", f"{bare}.", f"{bare}.{'A' * 15}", f"{token}A", f"{token}.{'A' * 16}")
    for wrong in (*near, token[:-1], token.upper(), PREFIX, PREFIX + "A" * 5_000, PREFIX + "é", "tmb_é.é"):
        assert refused(await ask(stack, wrong)) == INVALID
    assert (await stack.admin("GET", "/admin/tokens")).data["items"] == []
    made = (await other.admin("GET", "/admin/tokens")).data["items"][0]["id"]
    assert (await stack.admin("DELETE", f"/admin/tokens/{made}")).reason == "UNKNOWN_TOKEN"
    assert (await ask(stack, token)).code == "OK"


async def test_token_of_a_merchant_is_limited_to_the_merchant(stack: Stack) -> None:
    ours, theirs = [replace(stack, merchant_id=await make_merchant(stack)) for _ in range(2)]
    made = await make(ours)
    assert made["merchant_id"] == ours.merchant_id
    assert (await ask(stack, made["secret"])).data["merchant_id"] == ours.merchant_id
    campaign_id = (await make_campaign(theirs))["id"]
    assert (await ask(stack, made["secret"], f"/admin/campaigns/{campaign_id}")).reason == "UNKNOWN_CAMPAIGN"
    body = {"name": "x", "roles": ["admin"], "merchant_id": theirs.merchant_id}
    assert (await ours.admin("POST", "/admin/tokens", body)).reason == "UNKNOWN_MERCHANT"
    assert (await theirs.admin("GET", "/admin/tokens")).data["items"] == []
    assert (await theirs.admin("DELETE", f"/admin/tokens/{made['id']}")).reason == "UNKNOWN_TOKEN"
    assert (await make(stack, merchant_id=theirs.merchant_id))["merchant_id"] == theirs.merchant_id
    assert (await stack.admin("POST", "/admin/tokens", {**body, "merchant_id": "nobody"})).reason == "UNKNOWN_MERCHANT"
    assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).code == "OK"
    await until_refused(stack, made["secret"])


async def test_revoked_token_is_refused_on_every_edge(stack: Stack) -> None:
    made, stored = await make(stack), await make(stack)
    settings = replace(stack.process.settings, database_url="", core_rpc_addresses=(stack.process.rpc_address,))
    async with running(settings, ["admin"]) as one, running(settings, ["admin"]) as two:
        edges = [replace(stack, process=edge_process) for edge_process in (one, two)]
        for edge in edges:
            for token in (made["secret"], stored["secret"]):
                assert (await ask(edge, token)).code == "OK"
        for _ in range(2):
            assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).code == "OK"
            assert refused(await ask(stack, made["secret"])) == INVALID, "at once, on the edge that was asked"
        for edge in (stack, *edges):
            await until_refused(edge, made["secret"])
            assert (await ask(edge, stored["secret"])).code == "OK"
    rows = (await stack.admin("GET", "/admin/tokens")).data["items"]
    assert [(row["id"], row["revoked_at"] > 0) for row in rows] == [(stored["id"], False), (made["id"], True)]
    entries = [row["action"] for row in (await stack.admin("GET", "/admin/audit")).data["items"]]
    assert entries.count("token.revoke") == 1
    # The revocation outlives every edge's cache, and is dropped before the token would have expired.
    stored = "SELECT extract(epoch FROM expires_at - revoked_at)::float8 FROM revocations WHERE kind = 'token'"
    assert CACHE_SECONDS < await stack.database.fetchval(stored) <= REVOKED_SECONDS + 1
    await stack.database.execute("DELETE FROM revocations")
    async with new_edge(stack) as fresh:
        assert await shown(fresh, made["secret"]) == "TOKEN_INVALID"


async def test_tokens_are_bounded_and_some_kept_from_merchants(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 5)
    monkeypatch.setattr(tokens, "TENANT_RESERVED", 2)
    merchants = replace(stack, merchant_id=await make_merchant(stack))
    body = {"name": "many", "roles": ["admin"]}
    answers = await asyncio.gather(*(merchants.admin("POST", "/admin/tokens", body) for _ in range(9)))
    made = [answer.data["id"] for answer in answers if answer.code == "OK"]
    assert len(made) == 3
    assert {refused(answer) for answer in answers if answer.code != "OK"} == {TOO_MANY}
    for one in made:
        assert (await merchants.admin("DELETE", f"/admin/tokens/{one}")).code == "OK"
    assert refused(await merchants.admin("POST", "/admin/tokens", body)) == TOO_MANY, "each edge remembers those"
    for _ in range(2):
        assert (await stack.admin("POST", "/admin/tokens", body)).code == "OK"
    assert refused(await stack.admin("POST", "/admin/tokens", body)) == TOO_MANY
    assert (await replace(stack, tenant_id=OTHER_TENANT).admin("POST", "/admin/tokens", body)).code == "OK"
    for ended in ("revoked_at", "expires_at"):
        await stack.database.execute(f"UPDATE api_tokens SET {ended} = now() - interval '3 hours'")
        assert (await merchants.admin("POST", "/admin/tokens", body)).code == "OK"


async def test_token_cannot_be_revoked_as_a_sign_in(stack: Stack) -> None:
    """A sign-in's end is remembered for as long as people's tokens live: an API token would come back after it."""
    made = await make(stack)
    for body in ({"subject": f"ci ({made['id']})"}, {"sign_in_id": made["id"]}):
        assert fields_of(await stack.admin("POST", "/admin/staff/revoke", body)) == list(body)


async def test_token_expires_by_the_clock_of_the_database(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    now = await stack.database.fetchval("SELECT unix(now())")
    seen, unseen = [await make(stack, expires_at=now + 3) for _ in range(2)]
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: now + 1_000.0)
        assert (await ask(stack, seen["secret"])).code == "OK"
    await until_refused(stack, seen["secret"], EXPIRED)
    assert await stack.database.fetchval("SELECT unix(now())") >= now + 3
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: now - 1_000.0)
        for token in (seen, unseen):
            assert refused(await ask(stack, token["secret"])) == EXPIRED


async def test_token_cannot_be_made_from_its_row(stack: Stack) -> None:
    made = await make(stack)
    row = await stack.database.fetchrow("SELECT api_tokens::text AS text, token_hash FROM api_tokens")
    raw = base64.urlsafe_b64decode(made["secret"].partition(".")[0].removeprefix(PREFIX) + "==")[:32]
    for form in (made["secret"], raw.hex(), base64.b64encode(raw).decode()[:-2]):
        assert form not in row["text"]
    digest = row["token_hash"]
    stolen = base64.urlsafe_b64encode(digest + stack.tenant_id.encode()).rstrip(b"=").decode()
    for text in (digest.hex(), PREFIX + digest.hex(), PREFIX + stolen, made["id"], PREFIX + made["id"]):
        assert refused(await ask(stack, text)) == INVALID


async def test_token_is_taken_only_from_the_header_of_an_admin_request(stack: Stack) -> None:
    token = (await make(stack))["secret"]
    for name in ("token", "access_token", "Authorization"):
        for roles in ((), ("admin",)):
            assert refused(await stack.admin("GET", "/admin/campaigns", roles=roles, **{name: token})) == INVALID
    assert (await stack.admin("GET", "/admin/campaigns", q=PREFIX)).code == "OK"
    for path in ("/players/me", "/rewards/me"):
        assert refused(await stack.consumer("GET", path, headers=bearer(token))) == INVALID


@pytest.mark.settings(rate_limits=True)
async def test_guesses_of_an_address_are_limited_and_cost_no_query_each(stack: Stack) -> None:
    requests = 0
    core = Core(stack.engine)

    class Counting:
        async def call(self, operation: Operation, request: Any) -> Any:
            nonlocal requests
            requests += operation.name == "OpenToken"
            return await core.call(operation, request)

    async with new_edge(stack, Counting()) as edge:
        known, wrong = (await make(stack))["secret"], guess(stack.tenant_id)
        assert await shown(edge, known) == ""
        assert {await shown(edge, wrong) for _ in range(20)} == {"TOKEN_INVALID"} and requests == 2
        began = time.monotonic()
        seen = [await shown(edge, guess(stack.tenant_id)) for _ in range(3 * GUESSES.burst)]
        refilled = (time.monotonic() - began) * GUESSES.per_second
        assert set(seen) == {"TOKEN_INVALID", "RATE_LIMITED"}
        assert seen.count("TOKEN_INVALID") <= GUESSES.burst + 1 + refilled
        assert requests <= 2 + GUESSES.burst + 1 + refilled
        assert await shown(edge, known) == "", "a known token is not limited"
    async with new_edge(stack) as many:
        good = [(await make(stack))["secret"] for _ in range(GUESSES.burst + 5)]
        assert {await shown(many, token) for token in good} == {""}, "good tokens use up no guesses"
    async with new_edge(stack) as edge:  # An address has a limit over all tenants, too.
        began = time.monotonic()
        seen = [await shown(edge, guess(f"tenant_{nth}")) for nth in range(2 * GUESSES_IN_ALL.burst)]
        refilled = (time.monotonic() - began) * GUESSES_IN_ALL.per_second
        assert seen.count("TOKEN_INVALID") <= GUESSES_IN_ALL.burst + 1 + refilled and "RATE_LIMITED" in seen


async def test_unknown_token_is_unavailable_while_core_is_away(stack: Stack) -> None:
    core, away = Core(stack.engine), False

    class Leaving:
        async def call(self, operation: Operation, request: Any) -> Any:
            if away:
                raise Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")
            return await core.call(operation, request)

    async with new_edge(stack, Leaving()) as edge:
        token = (await make(stack))["secret"]
        await edge.revocations.read()
        away = True
        assert await shown(edge, token) == "STORE_UNAVAILABLE"
        away = False
        assert await shown(edge, token) == "", "the failure was not remembered as an unknown token"


@pytest.mark.settings(rate_limits=True)
async def test_marked_token_is_taken_beside_any_junk_from_its_address(stack: Stack) -> None:
    """A stranger shares the address of a shop's machines, and names their tenant, and others, without end."""

    def junk(tenant_id: str) -> str:
        mark = base64.urlsafe_b64encode(secrets.token_bytes(12)).decode()
        return guess(tenant_id) + secrets.choice(["", f".{mark}", f".{revoked.partition('.')[2]}"])

    good = [(await make(stack))["secret"] for _ in range(GUESSES.burst + 5)]
    revoked, unmarked = (await make(stack))["secret"], good[0].partition(".")[0]
    async with new_edge(stack) as edge:
        # Five tenants exceed what the address has in all. Its own tenant comes last: nothing refills meanwhile.
        for tenant_id in (*(f"tenant_{nth}" for nth in range(4)), stack.tenant_id):
            assert "RATE_LIMITED" in [await shown(edge, junk(tenant_id)) for _ in range(2 * GUESSES.burst)]
        assert await shown(edge, unmarked) == "RATE_LIMITED", "else nothing was kept out"
        assert {await shown(edge, token) for token in good} == {""}
    async with new_edge(stack) as elsewhere:
        assert {await shown(elsewhere, one) for one in (unmarked, f"{unmarked}.{'A' * 16}")} == {""}


@pytest.mark.settings(rate_limits=True)
async def test_revoked_tokens_count_as_guesses(stack: Stack) -> None:
    ended = [(await make(stack))["secret"] for _ in range(GUESSES.burst + 10)]
    await stack.database.execute("UPDATE api_tokens SET revoked_at = now()")
    began = time.monotonic()
    async with new_edge(stack) as edge:
        seen = [await shown(edge, token) for token in ended]
    refilled = (time.monotonic() - began) * GUESSES.per_second
    assert set(seen) <= {"TOKEN_INVALID", "RATE_LIMITED"}
    assert seen.count("TOKEN_INVALID") <= GUESSES.burst + 1 + refilled


def test_token_mark_is_bound_to_its_token_and_to_current_or_older_secrets() -> None:
    now, before, other = Marks(["new", "old"]), Marks(["old"]), Marks(["other"])
    token = f"{PREFIX}abc"
    assert now.read(now.marked(token)) == now.read(before.marked(token)) == (token, True)
    assert now.read(other.marked(token)) == before.read(now.marked(token)) == (token, False)
    assert now.read(f"{token}d.{now.marked(token).partition('.')[2]}") == (f"{token}d", False)
    assert Marks([]).marked(token) == token and Marks([]).read(now.marked(token)) == (token, False)
