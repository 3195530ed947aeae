"""API tokens: made with no more than their maker has, shown once, taken by the admin edge alone, and ended at once."""

from __future__ import annotations

import asyncio
import base64
import re
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from ops.servers.base import free_port
from runtime.app import running
from runtime.core import Core
from runtime.errors import Fault, Status
from runtime.http.edge import Edge
from runtime.http.login import api_tokens
from runtime.http.login.api_tokens import GUESSES, GUESSES_IN_ALL, Marks
from runtime.operations import Operation
from runtime.operations.row import MANAGEMENT
from runtime.operations.staff import tokens
from runtime.operations.staff.tokens import HELD_SECONDS, PREFIX, REVOKED_SECONDS
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.processes import process
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
    answer = await stack.admin("POST", "/admin/tokens", {"name": "ci", "roles": list(roles), **body}, roles=by)
    return answer.data


async def ask(stack: Stack, token: str, path: str = "/admin/me", verb: str = "GET", body: Any = None) -> Answer:
    return await stack.admin(verb, path, body, roles=(), headers=bearer(token))


async def until_refused(stack: Stack, token: str, why: tuple[int, str, str] = INVALID) -> None:
    async def is_refused() -> bool:
        answer = await ask(stack, token)
        assert answer.code == "OK" or refused(answer) == why, answer.envelope
        return answer.code != "OK"

    await until(is_refused)


async def test_a_token_is_told_once_and_opens_what_it_was_made_for(stack: Stack) -> None:
    made = await make(stack, ("designer",))
    assert re.fullmatch(r"tmb_[A-Za-z0-9_-]{43,}\.[A-Za-z0-9_-]{16}", made["secret"])
    told = (await ask(stack, made["secret"])).data
    named = f"ci ({made['id']})"
    assert (told["subject"], told["tenant_id"], told["roles"]) == (named, stack.tenant_id, ["designer"])
    assert told["expires_at"] == made["expires_at"]
    (listed,) = (await stack.admin("GET", "/admin/tokens")).data["items"]
    assert {**listed, "last_used_at": 0} == {**made, "secret": ""}
    assert (listed["made_by"], listed["last_used_at"] % 3600) == ("staff_test", 0)
    assert listed["last_used_at"] > made["created_at"] - 3600
    # What it does is done under its name and its id.
    assert (await ask(stack, made["secret"], "/admin/campaigns", "POST", {"name": "Fair"})).code == "OK"
    noted = (await stack.admin("GET", "/admin/audit")).data["items"]
    assert [(row["action"], row["actor"]) for row in noted if row["action"] != "staff.sign_in"] == [
        ("campaign.create", named),
        ("token.create", "staff_test"),
    ]


async def test_it_lives_as_long_as_is_said_and_no_longer_than_the_setting(stack: Stack) -> None:
    now = int(time.time())
    assert (await make(stack))["expires_at"] == pytest.approx(now + 90 * DAY, abs=60)
    assert (await make(stack, expires_at=now + DAY))["expires_at"] == now + DAY
    for wrong in (now - 1, now + stack.process.settings.api_token_seconds_max + 60):
        body = {"name": "ci", "roles": ["admin"], "expires_at": wrong}
        assert fields_of(await stack.admin("POST", "/admin/tokens", body)) == ["expires_at"]


@pytest.mark.settings(api_token_seconds_max=120)
async def test_a_shorter_setting_shortens_what_nobody_said(stack: Stack) -> None:
    assert (await make(stack))["expires_at"] == pytest.approx(time.time() + 120, abs=30)


async def test_a_token_s_hour_of_use_is_written_once_and_not_for_each_request(stack: Stack) -> None:
    token = (await make(stack))["secret"]
    version = "SELECT xmin::text FROM api_tokens"
    before = await stack.database.fetchval(version)
    assert (await ask(stack, token)).code == "OK"
    first = await stack.database.fetchval(version)
    assert first != before
    for _ in range(3):
        assert (await ask(stack, token)).code == "OK"
    later = Edge.build(stack.process.settings, Core(stack.engine), stack.engine.ephemeral, staff=True)
    assert await later.auth.identify(make_mocked_request("GET", "/", bearer(token)))
    await later.close()
    assert await stack.database.fetchval(version) == first


@pytest.mark.parametrize("matrix", ["any", "strict"])
async def test_a_token_opens_what_its_roles_open_for_people(stack: Stack, matrix: str) -> None:
    rpc = (stack.process.rpc_address,)
    settings = replace(stack.process.settings, role_matrix=matrix, database_url="", core_rpc_addresses=rpc)
    async with running(settings, ["admin"]) as edge_process:
        edge = replace(stack, process=edge_process)
        for roles in (*[(role,) for role in sorted(MANAGEMENT)], ("designer", "reward_manager")):
            token = (await make(stack, roles))["secret"]
            mine = (await ask(edge, token)).data
            people = (await edge.admin("GET", "/admin/me", roles=roles)).data
            assert mine["operations"] == people["operations"] and mine["operations"]
            for path, body in (("/admin/campaigns", {"name": "C"}), ("/admin/wallet/adjustments", {})):
                as_people = await edge.admin("POST", path, body, roles=roles)
                assert (await ask(edge, token, path, "POST", body)).reason == as_people.reason


async def test_nobody_makes_a_token_that_may_do_more_than_they(stack: Stack) -> None:
    async def tried(by: tuple[str, ...], roles: list[str], **body: Any) -> Answer:
        return await stack.admin("POST", "/admin/tokens", {"name": "x", "roles": roles, **body}, roles=by)

    assert (await tried(("designer",), ["designer"])).code == "OK"
    for by, roles in ((("designer",), ["admin"]), (("reward_manager",), ["reward_manager", "designer"])):
        assert refused(await tried(by, roles)) == FORBIDDEN
    # Platform's nobody gives, platform neither.
    for roles in (["platform"], ["admin", "platform"], ["owner"], []):
        answer = await tried(("admin", "platform"), roles)
        assert refused(answer) == FORBIDDEN or fields_of(answer)[0].startswith("roles")
    assert refused(await tried(("platform",), ["admin"])) == ROLE_REQUIRED
    assert await stack.database.fetchval("SELECT count(*) FROM api_tokens") == 1


@pytest.mark.settings(role_matrix="strict")
async def test_with_the_strict_matrix_admins_alone_make_and_end_tokens(stack: Stack) -> None:
    made = await make(stack, ("designer",))
    for roles in (("designer",), ("reward_manager",)):
        body = {"name": "x", "roles": list(roles)}
        assert refused(await stack.admin("POST", "/admin/tokens", body, roles=roles)) == ROLE_REQUIRED
        assert refused(await stack.admin("DELETE", f"/admin/tokens/{made['id']}", roles=roles)) == ROLE_REQUIRED
    assert (await ask(stack, made["secret"])).code == "OK"


async def test_a_token_makes_no_tokens_and_signs_nobody_out(stack: Stack) -> None:
    token = (await make(stack))["secret"]
    assert refused(await ask(stack, token, "/admin/tokens", "POST", {"name": "x", "roles": ["designer"]})) == FORBIDDEN
    for body in ({}, {"everywhere": True}):
        assert (await ask(stack, token, "/admin/auth/logout", "POST", body)).reason == "TOKEN_MISSING"
    assert (await ask(stack, token, "/admin/auth/link", "POST", {"link": token})).reason == "TOKEN_INVALID"
    assert (await ask(stack, token)).code == "OK"


async def test_another_tenant_s_token_opens_nothing_here(stack: Stack) -> None:
    other = replace(stack, tenant_id=OTHER_TENANT)
    token = (await make(other))["secret"]
    campaign_id = (await make_campaign(stack))["id"]
    answer = await stack.admin(
        "GET", f"/admin/campaigns/{campaign_id}", roles=(), headers={**bearer(token), "X-Tenant-Id": stack.tenant_id}
    )
    assert answer.reason == "UNKNOWN_CAMPAIGN"
    assert (await ask(stack, token)).data["tenant_id"] == OTHER_TENANT
    # Nor does it where it says that it is of here, or with anything else put to it.
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


async def test_a_merchant_s_token_is_its_merchant_s(stack: Stack) -> None:
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
    # The tenant's own staff makes and ends each merchant's.
    assert (await make(stack, merchant_id=theirs.merchant_id))["merchant_id"] == theirs.merchant_id
    assert (await stack.admin("POST", "/admin/tokens", {**body, "merchant_id": "nobody"})).reason == "UNKNOWN_MERCHANT"
    assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).code == "OK"
    await until_refused(stack, made["secret"])


async def test_a_token_of_who_is_suspended_reads_and_does_nothing(stack: Stack) -> None:
    merchants = replace(stack, merchant_id=await make_merchant(stack))
    own, tenant = (await make(merchants))["secret"], (await make(stack))["secret"]
    await stack.admin("PUT", f"/admin/merchants/{merchants.merchant_id}", {"status": "MERCHANT_STATUS_SUSPENDED"})
    assert (await ask(stack, own, "/admin/campaigns", "POST", {"name": "C"})).reason == "SUSPENDED"
    assert (await ask(stack, own, "/admin/campaigns")).code == "OK"
    assert (await ask(stack, tenant, "/admin/campaigns", "POST", {"name": "C"})).code == "OK"
    await stack.database.execute("UPDATE tenants SET status = 'suspended' WHERE tenant_id = $1", stack.tenant_id)
    assert (await ask(stack, tenant, "/admin/campaigns", "POST", {"name": "C"})).reason == "SUSPENDED"


async def test_a_revoked_token_is_refused_by_edges_in_other_processes(stack: Stack, tmp_path: Path) -> None:
    made, kept = await make(stack), await make(stack)
    settings = stack.process.settings
    environment = {
        "CORE_RPC_ADDRESSES": stack.process.rpc_address,
        "REDIS_URL": settings.redis_url,
        "JWT_STAFF_SECRET": settings.jwt_staff_secret,
        "DEVELOPMENT": "on",
    }
    async with AsyncExitStack() as parts:
        edges = []
        for number in range(2):
            port = free_port()
            own = {**environment, "ADMIN_PORT": str(port)}
            await parts.enter_async_context(process(tmp_path / str(number), port, "admin", **own))
            edges.append(_at(stack, f"http://127.0.0.1:{port}"))
        for edge in edges:
            for token in (made["secret"], kept["secret"]):
                assert (await ask(edge, token)).code == "OK"
        for _ in range(2):  # Again it does nothing more.
            assert (await stack.admin("DELETE", f"/admin/tokens/{made['id']}")).code == "OK"
            assert refused(await ask(stack, made["secret"])) == INVALID, "at once, on the edge that was asked"
        for edge in (stack, *edges):
            await until_refused(edge, made["secret"])
            assert (await ask(edge, kept["secret"])).code == "OK"
    rows = (await stack.admin("GET", "/admin/tokens")).data["items"]
    assert [(row["id"], row["revoked_at"] > 0) for row in rows] == [(kept["id"], False), (made["id"], True)]
    noted = [row["action"] for row in (await stack.admin("GET", "/admin/audit")).data["items"]]
    assert noted.count("token.revoke") == 1
    # Edges are told of it for longer than one may go by what it heard before, and not for the rest of its life.
    kept = "SELECT extract(epoch FROM kept_until - revoked_at)::float8 FROM revocations WHERE kind = 'token'"
    assert HELD_SECONDS < await stack.database.fetchval(kept) <= REVOKED_SECONDS + 1
    await stack.database.execute("DELETE FROM revocations")
    fresh = Edge.build(settings, Core(stack.engine), stack.engine.ephemeral, staff=True)
    with pytest.raises(Fault, match="TOKEN_INVALID"):
        await fresh.auth.identify(make_mocked_request("GET", "/", bearer(made["secret"])))
    await fresh.close()


async def test_a_tenant_has_so_many_tokens_that_live_or_ended_lately(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are made at once; and some are left to the tenant, whatever its merchants make and end."""
    monkeypatch.setattr(tokens, "TOKENS_MAX", 5)
    monkeypatch.setattr(tokens, "TENANTS_OWN", 2)
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
    # What ended long ago counts no more, nor what expired.
    for ended in ("revoked_at", "expires_at"):
        await stack.database.execute(f"UPDATE api_tokens SET {ended} = now() - interval '3 hours'")
        assert (await merchants.admin("POST", "/admin/tokens", body)).code == "OK"


async def test_a_token_is_not_ended_as_people_are(stack: Stack) -> None:
    """A sign-in's end is remembered for as long as people's tokens live: an API token would come back after it."""
    made = await make(stack)
    for body in ({"subject": f"ci ({made['id']})"}, {"sign_in_id": made["id"]}):
        assert fields_of(await stack.admin("POST", "/admin/staff/revoke", body)) == list(body)


async def test_a_token_expires_by_the_database_s_clock(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_who_reads_the_table_has_no_token(stack: Stack) -> None:
    made = await make(stack)
    row = await stack.database.fetchrow("SELECT api_tokens::text AS text, token_hash FROM api_tokens")
    assert row is not None
    raw = base64.urlsafe_b64decode(made["secret"].partition(".")[0].removeprefix(PREFIX) + "==")[:32]
    for form in (made["secret"], raw.hex(), base64.b64encode(raw).decode()[:-2]):
        assert form not in row["text"]
    digest = row["token_hash"]
    stolen = base64.urlsafe_b64encode(digest + stack.tenant_id.encode()).rstrip(b"=").decode()
    for text in (digest.hex(), PREFIX + digest.hex(), PREFIX + stolen, made["id"], PREFIX + made["id"]):
        assert refused(await ask(stack, text)) == INVALID


async def test_a_token_is_taken_from_its_header_alone_and_by_no_other_edge(stack: Stack) -> None:
    token = (await make(stack))["secret"]
    for name in ("token", "access_token", "Authorization"):
        # Even beside one that is shown as it should be: it stands in logs now.
        for roles in ((), ("admin",)):
            assert refused(await stack.admin("GET", "/admin/campaigns", roles=roles, **{name: token})) == INVALID
    assert (await stack.admin("GET", "/admin/campaigns", q=PREFIX)).code == "OK"
    for path in ("/players/me", "/rewards/me"):
        assert refused(await stack.consumer("GET", path, headers=bearer(token))) == INVALID


@pytest.mark.settings(rate_limits=True)
async def test_guesses_are_limited_by_address_and_cost_no_query_each(stack: Stack) -> None:
    def guess() -> str:
        raw = secrets.token_bytes(32) + stack.tenant_id.encode()
        return PREFIX + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    asked = 0
    core = Core(stack.engine)

    class Counting:
        async def call(self, operation: Operation, request: Any) -> Any:
            nonlocal asked
            asked += operation.name == "OpenToken"
            return await core.call(operation, request)

    edge = Edge.build(stack.process.settings, Counting(), stack.engine.ephemeral, staff=True)

    async def shown(token: str) -> str:
        try:
            return "" if await edge.auth.identify(make_mocked_request("GET", "/", bearer(token))) else "nobody"
        except Fault as fault:
            return fault.reason

    known, wrong = (await make(stack))["secret"], guess()
    assert await shown(known) == ""
    assert {await shown(wrong) for _ in range(20)} == {"TOKEN_INVALID"} and asked == 2
    began = time.monotonic()
    seen = [await shown(guess()) for _ in range(3 * GUESSES.burst)]
    refilled = (time.monotonic() - began) * GUESSES.per_second
    assert set(seen) == {"TOKEN_INVALID", "RATE_LIMITED"}
    assert seen.count("TOKEN_INVALID") <= GUESSES.burst + 1 + refilled
    assert asked <= 2 + GUESSES.burst + 1 + refilled
    # Who is known goes on, from that address too.
    assert await shown(known) == ""
    await edge.close()
    # Tokens that are good take nothing of what an address may guess.
    many = Edge.build(stack.process.settings, core, stack.engine.ephemeral, staff=True)
    for _ in range(GUESSES.burst + 5):
        token = (await make(stack))["secret"]
        assert await many.auth.identify(make_mocked_request("GET", "/", bearer(token)))
    await many.close()


@pytest.mark.settings(rate_limits=True)
async def test_tokens_that_are_none_keep_out_no_good_one_of_another_tenant_or_that_was_not_refused(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one address: of many machines behind it one shows what ended, or names another tenant."""

    def guess(tenant_id: str) -> str:
        return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(32) + tenant_id.encode()).rstrip(b"=").decode()

    edge = Edge.build(stack.process.settings, Core(stack.engine), stack.engine.ephemeral, staff=True)

    async def shown(token: str) -> str:
        try:
            return "" if await edge.auth.identify(make_mocked_request("GET", "/", bearer(token))) else "nobody"
        except Fault as fault:
            return fault.reason

    good, unseen = [(await make(stack))["secret"] for _ in range(2)]
    assert "RATE_LIMITED" in [await shown(guess(OTHER_TENANT)) for _ in range(2 * GUESSES.burst)]
    assert await shown(good) == ""
    # One that is shown for ever, and asked for again and again.
    monkeypatch.setattr(api_tokens, "UNKNOWN_SECONDS", 0.0)
    wrong = guess(stack.tenant_id)
    assert "RATE_LIMITED" in [await shown(wrong) for _ in range(2 * GUESSES.burst)]
    assert await shown(unseen) == ""
    # Whatever tenants it names, an address has so many in all.
    began = time.monotonic()
    seen = [await shown(guess(f"tenant_{nth}")) for nth in range(2 * GUESSES_IN_ALL.burst)]
    refilled = (time.monotonic() - began) * GUESSES_IN_ALL.per_second
    assert seen.count("TOKEN_INVALID") <= GUESSES_IN_ALL.burst + 1 + refilled and "RATE_LIMITED" in seen
    await edge.close()


async def test_with_core_away_a_token_opens_nothing_that_is_not_known(stack: Stack) -> None:
    core, away = Core(stack.engine), False

    class Leaving:
        async def call(self, operation: Operation, request: Any) -> Any:
            if away:
                raise Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")
            return await core.call(operation, request)

    edge = Edge.build(stack.process.settings, Leaving(), stack.engine.ephemeral, staff=True)
    token = (await make(stack))["secret"]
    await edge.revocations.read()
    away = True
    request = make_mocked_request("GET", "/", bearer(token))
    with pytest.raises(Fault, match="STORE_UNAVAILABLE"):
        await edge.auth.identify(request)
    away = False
    assert await edge.auth.identify(request)  # It was not taken for one that is none.
    await edge.close()


def _at(stack: Stack, admin_url: str) -> Stack:
    return replace(stack, process=replace(stack.process, admin_url=admin_url))


@pytest.mark.settings(rate_limits=True)
async def test_no_junk_that_an_address_shows_keeps_out_a_good_token_that_the_edge_has_not_seen(stack: Stack) -> None:
    """A stranger shares the address of a shop's machines, and names their tenant, and others, without end."""

    def junk(tenant_id: str) -> str:
        raw = base64.urlsafe_b64encode(secrets.token_bytes(32) + tenant_id.encode()).rstrip(b"=").decode()
        mark = base64.urlsafe_b64encode(secrets.token_bytes(12)).decode()
        return PREFIX + raw + secrets.choice(["", f".{mark}", f".{revoked.partition('.')[2]}"])

    edge = Edge.build(stack.process.settings, Core(stack.engine), stack.engine.ephemeral, staff=True)

    async def shown(token: str) -> str:
        try:
            return "" if await edge.auth.identify(make_mocked_request("GET", "/", bearer(token))) else "nobody"
        except Fault as fault:
            return fault.reason

    made = [await make(stack) for _ in range(GUESSES.burst + 5)]
    good, revoked = [one["secret"] for one in made], (await make(stack))["secret"]
    for tenant_id in (stack.tenant_id, *(f"tenant_{nth}" for nth in range(8))):
        assert "RATE_LIMITED" in [await shown(junk(tenant_id)) for _ in range(GUESSES_IN_ALL.burst)]
    unmarked = good[0].partition(".")[0]
    assert await shown(unmarked) == "RATE_LIMITED", "else nothing was kept out"
    assert {await shown(token) for token in good} == {""}
    # Without its mark it is as good, as long as the address has tries; with a mark of another secret, too.
    elsewhere = Edge.build(stack.process.settings, Core(stack.engine), stack.engine.ephemeral, staff=True)
    for one in (unmarked, f"{unmarked}.{'A' * 16}"):
        assert await elsewhere.auth.identify(make_mocked_request("GET", "/", bearer(one)))
    await elsewhere.close()
    await edge.close()


@pytest.mark.settings(rate_limits=True)
async def test_who_has_tokens_that_ended_may_show_few_of_them_too(stack: Stack) -> None:
    edge = Edge.build(stack.process.settings, Core(stack.engine), stack.engine.ephemeral, staff=True)
    ended = [(await make(stack))["secret"] for _ in range(GUESSES.burst + 10)]
    await stack.database.execute("UPDATE api_tokens SET revoked_at = now()")
    seen = []
    began = time.monotonic()
    for token in ended:
        try:
            await edge.auth.identify(make_mocked_request("GET", "/", bearer(token)))
        except Fault as fault:
            seen.append(fault.reason)
    refilled = (time.monotonic() - began) * GUESSES.per_second
    assert set(seen) <= {"TOKEN_INVALID", "RATE_LIMITED"} and len(seen) == len(ended)
    assert seen.count("TOKEN_INVALID") <= GUESSES.burst + 1 + refilled
    await edge.close()


def test_a_mark_is_of_one_token_and_one_secret_and_older_secrets_are_taken() -> None:
    now, before, other = Marks(["new", "old"]), Marks(["old"]), Marks(["other"])
    token = f"{PREFIX}abc"
    assert now.read(now.marked(token)) == now.read(before.marked(token)) == (token, True)
    assert now.read(other.marked(token)) == before.read(now.marked(token)) == (token, False)
    assert now.read(f"{token}d.{now.marked(token).partition('.')[2]}") == (f"{token}d", False)
    assert Marks([]).marked(token) == token and Marks([]).read(now.marked(token)) == (token, False)
