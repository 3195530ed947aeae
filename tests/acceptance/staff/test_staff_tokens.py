"""Staff's tokens end before their time: by logging out, here or everywhere, and by who may revoke them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from runtime.errors import Fault
from runtime.http.edge import Edge
from runtime.operations.players.revocations import LEEWAY_SECONDS
from runtime.rpc.client import RpcCaller
from tests.support.login import bearer
from tests.support.operations import make_merchant
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of, refused
from tests.support.waiting import until

ENDED = (401, "UNAUTHENTICATED", "TOKEN_INVALID")
REVOKE = "/admin/staff/revoke"
NOTHING = {"withdrawn": 0, "tokens": 0}
"""What a revocation tells where nothing of theirs waits, and they have made no token."""


async def me(stack: Stack, token: str) -> Answer:
    return await stack.admin("GET", "/admin/me", roles=(), headers=bearer(token))


async def log_out(stack: Stack, token: str, **body: object) -> Answer:
    return await stack.admin("POST", "/admin/auth/logout", body or None, roles=(), headers=bearer(token))


async def ended(stack: Stack, token: str) -> None:
    async def is_refused() -> bool:
        answer = await me(stack, token)
        assert answer.code == "OK" or refused(answer) == ENDED, answer.envelope
        return answer.code != "OK"

    await until(is_refused)


def of_ann(stack: Stack, tenant_id: str = "") -> str:
    return stack.token("ann", ("designer",), tenant_id=tenant_id)


async def test_logout_ends_the_token_and_no_other(stack: Stack) -> None:
    here, there = of_ann(stack), of_ann(stack)
    answer = await log_out(stack, here)
    assert (answer.data, answer.headers["Cache-Control"]) == ({}, "no-store")
    assert refused(await me(stack, here)) == ENDED
    assert refused(await log_out(stack, here)) == ENDED
    assert (await me(stack, there)).code == "OK"


async def test_logout_everywhere_ends_the_subjects_tokens_until_then(stack: Stack) -> None:
    here, there = of_ann(stack), of_ann(stack)
    others = [stack.token("bea", ("designer",)), of_ann(stack, OTHER_TENANT), stack.token("ann")]
    assert (await log_out(stack, here, everywhere=True)).code == "OK"
    for token in (here, there):
        assert refused(await me(stack, token)) == ENDED
    assert [(await me(stack, token)).reason for token in others[:2]] == ["", ""]
    assert (await stack.consumer("GET", "/players/me", headers=bearer(others[2]))).code == "OK"
    await stack.database.execute(
        "UPDATE revocations SET issued_until = now() - interval '1 hour', revoked_at = now() WHERE kind = 'staff'"
    )

    async def counts() -> bool:
        return (await me(stack, there)).code == "OK"

    await until(counts)
    assert refused(await me(stack, here)) == ENDED


async def test_revoke_by_an_owner_ends_the_tokens_of_another(stack: Stack) -> None:
    first, second, bystander = of_ann(stack), of_ann(stack), stack.token("bea", ("admin",))
    for token in (first, second, bystander):
        assert (await me(stack, token)).code == "OK"
    rows = (await stack.admin("GET", "/admin/audit", actor="ann")).data["items"]
    (_, oldest) = [row["subject_id"] for row in rows if row["action"] == "staff.sign_in"]
    assert (await stack.admin("POST", REVOKE, {"sign_in_id": oldest})).data == NOTHING
    assert refused(await me(stack, first)) == ENDED
    assert (await me(stack, second)).code == "OK"
    assert (await stack.admin("POST", REVOKE, {"subject": "ann"})).data == NOTHING
    assert refused(await me(stack, second)) == ENDED
    assert (await me(stack, bystander)).code == "OK"
    noted = [row for row in (await stack.admin("GET", "/admin/audit")).data["items"] if row["action"] == "staff.revoke"]
    assert [(row["actor"], row["subject_id"]) for row in noted] == [("staff_test", "ann"), ("staff_test", oldest)]


@pytest.mark.parametrize("ended_by", ["ann", "an owner"])
async def test_revoke_ends_tokens_made_by_a_clock_that_is_ahead(stack: Stack, ended_by: str) -> None:
    with pytest.MonkeyPatch.context() as clock:
        ahead = time.time() + LEEWAY_SECONDS - 1
        clock.setattr(time, "time", lambda: ahead)
        tokens = [of_ann(stack), of_ann(stack)]
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
    later = {"subject": "ann", "issued_at": 2**33}
    assert fields_of(await stack.admin("POST", REVOKE, later)) == ["issued_at"]


async def test_revoke_reaches_every_edge_and_later_ones(stack: Stack) -> None:
    token = of_ann(stack)
    caller = RpcCaller([stack.process.rpc_address])
    there = Edge.build(stack.process.settings, caller, stack.engine.ephemeral)
    assert (await there.tokens.verify(token)).subject == "ann"
    await log_out(stack, token)
    await there.revocations.read()
    later = Edge.build(stack.process.settings, caller, stack.engine.ephemeral)
    for edge in (there, later):
        with pytest.raises(Fault, match="TOKEN_INVALID"):
            await edge.tokens.verify(token)
        await edge.close()
    await caller.close()


@pytest.mark.settings(role_matrix="strict")
async def test_revoke_requires_the_tenants_own_admin(stack: Stack) -> None:
    body = {"subject": "ann"}
    for roles in (("designer",), ("reward_manager",), ("platform",)):
        assert refused(await stack.admin("POST", REVOKE, body, roles=roles)) == (
            403,
            "PERMISSION_DENIED",
            "ROLE_REQUIRED",
        )
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
    assert fields_of(await stack.admin("POST", REVOKE, {"subject": "x" * 513})) == ["subject"]
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
