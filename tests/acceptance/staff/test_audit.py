import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from runtime.http import admin
from runtime.operations import audit
from tests.support.login import bearer
from tests.support.operations import edge_body, furnish, make_merchant, path_of
from tests.support.resources import make_campaign
from tests.support.stack import OTHER_TENANT, Answer, Stack, refused


async def entries(stack: Any, **query: str) -> list[dict[str, Any]]:
    return list((await stack.admin("GET", "/admin/audit", **query)).data["items"])


async def entries_of(stack: Stack, action: str, tenant_id: str = "") -> list[dict[str, Any]]:
    query = "SELECT * FROM audit_entries WHERE tenant_id = $1 AND action = $2 ORDER BY entry_id"
    return [dict(row) for row in await stack.database.fetch(query, tenant_id or stack.tenant_id, action)]


async def test_change_is_noted_with_actor_before_after_and_trace(stack: Any) -> None:
    campaign = await make_campaign(stack)
    answer = await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"name": "Winter"})
    newest, oldest = await entries(stack, subject_type="campaign", subject_id=campaign["id"])
    found = (newest["action"], newest["subject_type"], newest["subject_id"])
    assert found == ("campaign.update", "campaign", campaign["id"])
    assert newest["actor"] == "staff_test"
    assert newest["trace_id"] == answer.envelope["trace_id"]
    assert (newest["before"]["name"], newest["after"]["name"]) == ("Autumn", "Winter")
    assert oldest["action"] == "campaign.create"
    assert newest["created_at"] > 0
    assert await entries(stack, actor="somebody else") == []


async def test_staff_change_is_noted_once_and_a_refusal_never(stack: Stack) -> None:
    known, actions, refusals, wrong = await furnish(stack), dict[str, set[str]](), dict[str, str](), []
    unchanging = ("ReplayPlay", "PreviewMessage")
    changing = [row for row, _ in admin.served() if row.verb != "GET" and row.name not in unchanging]
    for operation in sorted(changing, key=lambda operation: operation.verb == "DELETE"):
        body = edge_body(operation, known) if operation.has_body else None
        path = f"/admin{path_of(operation, known)}"
        answer = await stack.admin(operation.verb, path, body, roles=("admin", "platform"))
        found = await stack.database.fetch(
            "SELECT action FROM audit_entries WHERE trace_id = $1 AND action NOT IN ('staff.sign_in', 'staff.refuse')",
            answer.envelope["trace_id"],
        )
        expected = 0
        if answer.code != "OK":
            refusals[operation.name] = answer.reason
        else:
            # A bulk operation is noted for each reward; an approval and an import, beside what they do.
            expected = sum(one["ok"] for one in answer.data["results"]) if operation.name == "BulkRewards" else 1
            expected += operation.name == "ApproveApproval"
            expected += answer.data["created"] if operation.name == "ImportCampaign" else 0
            actions[operation.name] = {row["action"] for row in found}
        if len(found) != expected:
            wrong.append((operation.name, answer.reason, found))
    assert wrong == []
    assert {"ImportCodes", "EmitEvent", "TestIntegration", "AdjustBalance", "RevokeStaff"} <= actions.keys(), refusals
    assert "ApproveApproval" in actions and len(actions) > len(refusals), refusals
    assert (actions["EmitEvent"], actions["DuplicateCampaign"]) == ({"event.emit"}, {"campaign.duplicate"})


async def test_sign_in_is_noted_once_for_its_token(stack: Stack) -> None:
    token = bearer(stack.token("ann", ("designer", "reward_manager")))
    for path in ("/admin/me", "/admin/games", "/admin/me"):
        assert (await stack.admin("GET", path, roles=(), headers=token)).data
    (entry,) = [entry for entry in await entries_of(stack, "staff.sign_in") if entry["actor"] == "ann"]
    assert (entry["subject_type"], entry["after"]["roles"]) == ("staff", ["designer", "reward_manager"])
    assert entry["after"]["address"] == "127.0.0.1" and entry["after"]["expires_at"] > 1_700_000_000
    assert token["Authorization"].partition(" ")[2] not in str(entry)
    (shown,) = await entries(stack, actor="ann")
    assert (shown["action"], shown["subject_id"]) == ("staff.sign_in", entry["subject_id"])


async def test_sign_in_seen_by_many_edges_is_noted_once(stack: Stack) -> None:
    body = {"subject": "ann", "sign_in_id": "signin_1", "roles": ["admin"], "expires_at": 1}
    answers = await asyncio.gather(*(stack.core("POST", "/audit/sign-ins", body) for _ in range(20)))
    assert sorted(answer.data["recorded"] for answer in answers) == [False] * 19 + [True]
    assert len(await entries_of(stack, "staff.sign_in")) == 1
    assert (await stack.core("POST", "/audit/sign-ins", {**body, "sign_in_id": "signin_2"})).data["recorded"]


async def test_sign_ins_of_one_subject_are_bounded(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SIGN_INS", audit.SIGN_INS._replace(at_once=3, every_seconds=3600.0))
    for _ in range(6):
        assert (await stack.admin("GET", "/admin/me")).data
    assert len(await entries_of(stack, "staff.sign_in")) == 3
    assert (await stack.admin("GET", "/admin/me", roles=(), headers=bearer(stack.token("bea", ("admin",))))).data
    assert len(await entries_of(stack, "staff.sign_in")) == 4


@pytest.mark.settings(role_matrix="strict")
async def test_refusal_is_noted_with_the_route_and_the_reason(stack: Stack) -> None:
    assert (await stack.admin("PUT", "/admin/games/game_x", {"name": "x"}, roles=("reward_manager",))).http == 403
    (entry,) = await entries_of(stack, "staff.refuse")
    assert (entry["actor"], entry["subject_type"], entry["subject_id"]) == ("staff_test", "staff", "staff_test")
    after = {"route": "PUT /admin/games/{id}", "reason": "ROLE_REQUIRED", "address": "127.0.0.1"}
    assert entry["after"] == after | {"needed": ["admin", "designer"], "roles": ["reward_manager"]}
    abroad = {**bearer(stack.token("pat", ("platform",))), "X-Tenant-Id": OTHER_TENANT}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=abroad)).http == 403
    assert {entry["actor"] for entry in await entries_of(stack, "staff.refuse")} == {"staff_test", "pat"}
    assert await entries_of(stack, "staff.refuse", OTHER_TENANT) == []


async def test_refusal_of_a_player_is_noted_without_an_address(stack: Stack) -> None:
    answer = await stack.admin("GET", "/admin/games", roles=(), headers=bearer(stack.token("player_ann")))
    assert refused(answer) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
    (entry,) = await entries_of(stack, "staff.refuse")
    assert (entry["actor"], entry["after"]["roles"]) == ("player_ann", [])
    assert entry["after"]["address"] == "", "no erasure could take it away"
    assert await entries_of(stack, "staff.sign_in") == []


async def test_refusals_are_shown_to_the_staff_of_their_merchant(stack: Stack) -> None:
    merchant_id = await make_merchant(stack)
    theirs, others = (replace(stack, merchant_id=one) for one in (merchant_id, await make_merchant(stack)))
    answer = await theirs.admin("POST", "/admin/merchants", {"name": "x"})
    assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    for staff, seen in ((stack, 1), (theirs, 1), (others, 0)):
        found = [entry for entry in await entries(staff) if entry["action"] == "staff.refuse"]
        assert len(found) == seen
        assert all(entry["after"]["reason"] == "FORBIDDEN" for entry in found)


@pytest.mark.settings(header_fallback=True)
async def test_refusal_of_an_unknown_caller_is_not_noted(stack: Stack) -> None:
    answers: list[Answer] = [
        await stack.admin("GET", "/admin/games", roles=()),
        await stack.admin("GET", "/admin/games", roles=(), headers=bearer("x.y.z")),
        await stack.admin("GET", "/admin/games", roles=(), headers={"X-Roles": "x", "X-Tenant-Id": "tenant_none"}),
    ]
    assert [answer.http for answer in answers] == [401, 401, 403]
    assert await stack.database.fetchval("SELECT count(*) FROM audit_entries") == 0
    there = {"X-Roles": "x", "X-Tenant-Id": stack.tenant_id}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=there)).http == 403
    assert len(await entries_of(stack, "staff.refuse")) == 1


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_entries SET actor = 'x'", "DELETE FROM audit_entries", "TRUNCATE audit_entries"]
)
async def test_entry_cannot_be_rewritten_even_by_a_superuser(stack: Any, statement: str) -> None:
    await make_campaign(stack)
    before = await entries(stack)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stack.database.execute(statement)
    assert before and (await entries(stack))[-len(before) :] == before
