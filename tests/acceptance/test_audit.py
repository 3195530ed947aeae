"""Every change leaves an entry: who, what, before and after, under which trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from runtime.http import admin
from runtime.operations import audit
from tests.support.login import bearer
from tests.support.operations import edge_body, furnish, make_merchant, path_of
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, Answer, Stack, refused


async def entries(stack: Any, **query: str) -> list[dict[str, Any]]:
    return list((await stack.admin("GET", "/admin/audit", **query)).data["items"])


async def noted(stack: Stack, action: str, tenant_id: str = "") -> list[dict[str, Any]]:
    """Entries of an action, the oldest first, as the database has them: each look over the edge is a sign-in."""
    rows = await stack.database.fetch(
        "SELECT * FROM audit_entries WHERE tenant_id = $1 AND action = $2 ORDER BY entry_id",
        tenant_id or stack.tenant_id,
        action,
    )
    return [dict(row) for row in rows]


async def test_change_is_noted_with_who_before_after_and_trace(stack: Any) -> None:
    campaign = await make_campaign(stack)
    answer = await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"name": "Winter"})
    newest, oldest = await entries(stack, subject_type="campaign", subject_id=campaign["id"])
    assert (newest["action"], newest["subject_type"], newest["subject_id"]) == (
        "campaign.update",
        "campaign",
        campaign["id"],
    )
    assert newest["actor"] == "staff_test"
    assert newest["trace_id"] == answer.envelope["trace_id"]
    assert (newest["before"]["name"], newest["after"]["name"]) == ("Autumn", "Winter")
    assert oldest["action"] == "campaign.create"
    assert newest["created_at"] > 0
    assert await entries(stack, actor="somebody else") == []


async def test_every_kind_of_change_is_noted_and_refused_ones_are_not(stack: Any) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    assert (await stack.admin("DELETE", f"/admin/prizes/{prize_id}")).reason == "IN_USE"
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"status": "paused"})
    await stack.admin("DELETE", f"/admin/games/{game['id']}")
    await stack.admin("DELETE", f"/admin/prizes/{prize_id}")
    await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})
    actions = [entry["action"] for entry in await entries(stack)]
    assert [action for action in actions if action != "staff.sign_in"] == [
        "campaign.duplicate",
        "prize.delete",
        "game.delete",
        "game.update",
        "game.create",
        "prize.create",
        "campaign.create",
    ]


async def test_an_import_of_codes_is_noted_without_the_codes(stack: Any) -> None:
    prize_id = await make_prize(stack, fulfillment={"channel": "voucher_code"})
    body = {"codes": ["MARKER-1", "MARKER-2"]}
    for _ in range(2):
        assert (await stack.admin("POST", f"/admin/prizes/{prize_id}/codes", body)).data
    again, first = (await entries(stack, subject_id=prize_id))[:2]
    assert (first["action"], first["actor"]) == ("prize.import_codes", "staff_test")
    assert (first["after"], again["after"]) == ({"added": 2, "duplicates": 0}, {"added": 0, "duplicates": 2})
    assert "MARKER" not in str(await entries(stack))


async def test_an_event_that_was_made_up_is_noted(stack: Any) -> None:
    emitted = (await stack.admin("POST", "/admin/integrations/emit", {"type": "prize_won", "data": {}})).data
    (entry,) = await entries(stack, subject_id=emitted["event_id"])
    assert (entry["action"], entry["actor"], entry["after"]["type"]) == ("event.emit", "staff_test", "prize_won")


async def test_a_retry_of_a_task_is_noted_and_a_refused_one_is_not(stack: Any) -> None:
    known = await furnish(stack)
    path = f"/admin/fulfillment/tasks/{known['task']}/retry"
    await stack.database.execute("UPDATE tasks SET status = 'dead', next_attempt_at = NULL, lease_until = NULL")
    assert (await stack.admin("POST", path, {})).data
    (entry,) = await entries(stack, subject_id=known["task"])
    assert (entry["action"], entry["subject_type"], entry["actor"]) == ("task.retry", "task", "staff_test")
    await stack.database.execute("UPDATE tasks SET status = 'delivered', next_attempt_at = NULL, lease_until = NULL")
    assert (await stack.admin("POST", path, {})).reason == "ILLEGAL_TRANSITION"
    assert len(await entries(stack, subject_id=known["task"])) == 1


async def test_every_operation_of_staff_s_that_does_something_is_noted(stack: Stack) -> None:
    known, done, refusals = await furnish(stack), set[str](), dict[str, str]()
    # A replay is a look at a play.
    changing = [row for row, _ in admin.served() if row.verb != "GET" and row.name != "ReplayPlay"]
    for operation in sorted(changing, key=lambda operation: operation.verb == "DELETE"):
        body = edge_body(operation, known) if operation.has_body else None
        path = f"/admin{path_of(operation, known)}"
        answer = await stack.admin(operation.verb, path, body, roles=("admin", "platform"))
        if answer.code != "OK":
            refusals[operation.name] = answer.reason
            continue
        found = await stack.database.fetch(
            "SELECT action FROM audit_entries WHERE trace_id = $1 AND action <> 'staff.sign_in'",
            answer.envelope["trace_id"],
        )
        # What is done in bulk is noted for each that it is done to; what is approved, beside what it does.
        done_to = sum(one["ok"] for one in answer.data["results"]) if operation.name == "BulkRewards" else 1
        done_to += operation.name == "ApproveApproval"
        # An import is noted beside each thing that it makes.
        done_to += answer.data["created"] if operation.name == "ImportCampaign" else 0
        assert len(found) == done_to, (operation.name, found)
        done.add(operation.name)
    assert {"ImportCodes", "EmitEvent", "TestIntegration", "AdjustBalance", "RevokeStaff"} <= done, refusals
    assert "ApproveApproval" in done, refusals
    assert len(done) > len(refusals), refusals


# -- staff who come, and whom a route is refused ----------------------------------------------


async def test_a_sign_in_is_noted_once_however_often_its_token_is_shown(stack: Stack) -> None:
    token = bearer(stack.token("ann", ("designer", "reward_manager")))
    for path in ("/admin/me", "/admin/games", "/admin/me"):
        assert (await stack.admin("GET", path, roles=(), headers=token)).data
    (entry,) = [entry for entry in await noted(stack, "staff.sign_in") if entry["actor"] == "ann"]
    assert (entry["subject_type"], entry["after"]["roles"]) == ("staff", ["designer", "reward_manager"])
    assert entry["after"]["address"] == "127.0.0.1" and entry["after"]["expires_at"] > 1_700_000_000
    assert token["Authorization"].partition(" ")[2] not in str(entry)
    (shown,) = await entries(stack, actor="ann")
    assert (shown["action"], shown["subject_id"]) == ("staff.sign_in", entry["subject_id"])


async def test_of_many_edges_that_see_a_sign_in_one_notes_it(stack: Stack) -> None:
    """Core says whether it was noted before, so an edge that starts anew says nothing again."""
    body = {"subject": "ann", "sign_in_id": "signin_1", "roles": ["admin"], "expires_at": 1}
    answers = await asyncio.gather(*(stack.core("POST", "/audit/sign-ins", body) for _ in range(20)))
    assert sorted(answer.data["noted"] for answer in answers) == [False] * 19 + [True]
    assert len(await noted(stack, "staff.sign_in")) == 1
    assert (await stack.core("POST", "/audit/sign-ins", {**body, "sign_in_id": "signin_2"})).data["noted"]


async def test_sign_ins_of_one_by_token_after_token_are_bounded(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SIGN_INS", audit.SIGN_INS._replace(at_once=3, every_seconds=3600.0))
    for _ in range(6):
        assert (await stack.admin("GET", "/admin/me")).data
    assert len(await noted(stack, "staff.sign_in")) == 3
    assert (await stack.admin("GET", "/admin/me", roles=(), headers=bearer(stack.token("bea", ("admin",))))).data
    assert len(await noted(stack, "staff.sign_in")) == 4


@pytest.mark.settings(role_matrix="strict")
async def test_who_is_refused_a_route_is_noted_with_the_route_and_the_reason(stack: Stack) -> None:
    assert (await stack.admin("PUT", "/admin/games/game_x", {"name": "x"}, roles=("reward_manager",))).http == 403
    (entry,) = await noted(stack, "staff.refuse")
    assert (entry["actor"], entry["subject_type"], entry["subject_id"]) == ("staff_test", "staff", "staff_test")
    assert entry["after"] == {
        "route": "PUT /admin/games/{id}",
        "reason": "ROLE_REQUIRED",
        "needed": ["admin", "designer"],
        "roles": ["reward_manager"],
        "address": "127.0.0.1",
    }
    # Where they are at home, whomever they act for.
    abroad = {**bearer(stack.token("pat", ("platform",))), "X-Tenant-Id": OTHER_TENANT}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=abroad)).http == 403
    assert {entry["actor"] for entry in await noted(stack, "staff.refuse")} == {"staff_test", "pat"}
    assert await noted(stack, "staff.refuse", OTHER_TENANT) == []


async def test_a_player_who_tries_the_admin_edge_is_noted(stack: Stack) -> None:
    answer = await stack.admin("GET", "/admin/games", roles=(), headers=bearer(stack.token("player_ann")))
    assert refused(answer) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
    (entry,) = await noted(stack, "staff.refuse")
    assert (entry["actor"], entry["after"]["roles"]) == ("player_ann", [])
    assert entry["after"]["address"] == "", "no erasure could take it away"
    assert await noted(stack, "staff.sign_in") == []


async def test_a_merchant_s_staff_see_what_their_own_were_refused(stack: Stack) -> None:
    merchant_id = await make_merchant(stack)
    theirs, others = (replace(stack, merchant_id=one) for one in (merchant_id, await make_merchant(stack)))
    answer = await theirs.admin("POST", "/admin/merchants", {"name": "x"})
    assert refused(answer) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    for staff, seen in ((stack, 1), (theirs, 1), (others, 0)):
        found = [entry for entry in await entries(staff) if entry["action"] == "staff.refuse"]
        assert len(found) == seen
        assert all(entry["after"]["reason"] == "FORBIDDEN" for entry in found)


@pytest.mark.settings(header_fallback=True)
async def test_whom_nobody_knows_is_noted_in_no_tenant_s_log(stack: Stack) -> None:
    answers: list[Answer] = [
        await stack.admin("GET", "/admin/games", roles=()),
        await stack.admin("GET", "/admin/games", roles=(), headers=bearer("x.y.z")),
        await stack.admin("GET", "/admin/games", roles=(), headers={"X-Roles": "x", "X-Tenant-Id": "tenant_none"}),
    ]
    assert [answer.http for answer in answers] == [401, 401, 403]
    assert await stack.database.fetchval("SELECT count(*) FROM audit_entries") == 0
    there = {"X-Roles": "x", "X-Tenant-Id": stack.tenant_id}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=there)).http == 403
    assert len(await noted(stack, "staff.refuse")) == 1


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_entries SET actor = 'x'", "DELETE FROM audit_entries", "TRUNCATE audit_entries"]
)
async def test_the_database_itself_refuses_to_rewrite_an_entry(stack: Any, statement: str) -> None:
    """The role of these tests is a superuser: what it may not, nobody may."""
    await make_campaign(stack)
    before = await entries(stack)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await stack.database.execute(statement)
    assert before and (await entries(stack))[-len(before) :] == before


async def test_the_log_is_narrowed_by_action_time_and_words(stack: Stack) -> None:
    campaign = await make_campaign(stack, name="Spring fair")
    prize_id = await make_prize(stack, name="100% Cider", stock={"total": 1})
    await stack.admin("POST", f"/admin/prizes/{prize_id}/stock", {"change": 2, "reason": "the Potter came"})

    async def actions(**query: Any) -> list[str]:
        return [entry["action"] for entry in await entries(stack, **{name: str(said) for name, said in query.items()})]

    assert await actions(action="prize") == ["prize.move_stock", "prize.create"]
    assert await actions(action="prize.m") == ["prize.move_stock"] and await actions(action="rize") == []
    assert await actions(q="potter CAME") == ["prize.move_stock"]
    assert await actions(q="100% c") == ["prize.create"] and await actions(q="100_ c") == []
    assert await actions(q=campaign["id"][5:]) == ["campaign.create"]
    assert await actions(q="spring", actor="staff_test") == ["campaign.create"]
    assert await actions(q="spring", subject_id=prize_id) == await actions(q="spring", actor="nobody") == []
    [made] = await entries(stack, action="campaign.create")
    at = made["created_at"]
    assert "campaign.create" in await actions(since=at, until=at + 1)
    assert "campaign.create" not in await actions(until=at)
    assert await actions(since=at + 3_600) == await actions(until=1) == []
    assert (await stack.admin("GET", "/admin/audit", since=str(at), until=str(at))).code == "INVALID_ARGUMENT"
    assert (await stack.admin("GET", "/admin/audit", since="-1")).code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("narrowed", [{}, {"actor": "staff_test"}, {"subject_id": "prize"}])
async def test_pages_of_a_narrowed_log_go_on_where_they_ended_and_are_of_no_other(
    stack: Stack, narrowed: dict[str, str]
) -> None:
    prize_id = await make_prize(stack)
    narrowed = {name: prize_id if name == "subject_id" else said for name, said in narrowed.items()}
    for nth in range(5):
        await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"name": f"Mug {nth}"})
    seen: list[str] = []
    cursor = ""
    while True:
        query = {"action": "prize.update", "limit": "2", "cursor": cursor, **narrowed}
        page = (await stack.admin("GET", "/admin/audit", **query)).data
        seen += [entry["after"]["name"] for entry in page["items"]]
        cursor = page["pagination"]["next_cursor"]
        if not page["pagination"]["has_more"]:
            break
        other = await stack.admin("GET", "/admin/audit", **(query | {"cursor": cursor, "action": "prize.u"}))
        assert other.code == "INVALID_ARGUMENT"
    assert seen == [f"Mug {nth}" for nth in (4, 3, 2, 1, 0)]
