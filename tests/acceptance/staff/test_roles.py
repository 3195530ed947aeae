import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio

from runtime.http import admin
from runtime.operations import Operation
from runtime.operations.row import MANAGEMENT, PLATFORM
from tests.support.login import bearer
from tests.support.operations import SUBJECTS, edge_body, furnish, path_of
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.shared import SharedService
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of, refused
from tests.support.tables import contents

SERVED: Final = admin.served()

ROLE_REQUIRED: Final = (403, "PERMISSION_DENIED", "ROLE_REQUIRED")

DESIGNED: Final = ("campaigns", "games", "prizes", "quests", "leaderboards", "draws", "assets", "packs")
"""What a designer makes, changes and removes, by the first part of its path."""

HANDED_OUT: Final = (
    *("/rewards/", "/wallet/", "/fulfillment/", "/prizes/{id}/codes", "/packs/{id}/codes"),
    "/players/{id}/turns",
    *("/leaderboards/{id}/finalize", "/leaderboards/{id}/disqualify", "/leaderboards/{id}/adjust"),
    "/draws/{id}/",
)

ROLES: Final = (
    *((), ("admin",), ("designer",), ("reward_manager",), ("platform",), ("admin", "platform")),
    *(("designer", "reward_manager"), ("Admin", "owner", "superuser", "")),
)


def is_design(operation: Operation) -> bool:
    _, first, *more = operation.path.split("/")
    changes = (
        bool(operation.resource)
        or bool(operation.upload)
        or operation.verb == "DELETE"
        or more[-1:] in (["duplicate"], ["test-plays"], ["stock"], ["rotate-secret"], ["import"], ["preview"])
    )
    return first in DESIGNED and changes


@pytest_asyncio.fixture(scope="module")
async def strict(module_service: SharedService) -> AsyncIterator[Stack]:
    async with module_service.own_stack(role_matrix="strict") as stack:
        yield stack


@pytest.fixture(params=["any", "strict"])
def either(request: pytest.FixtureRequest, module_stack: Stack, strict: Stack) -> Stack:
    return strict if request.param == "strict" else module_stack


def roles_of(operation: Operation) -> frozenset[str]:
    """The roles that may call an operation under the strict matrix (docs/reference/roles.md)."""
    if not operation.scoped:
        return MANAGEMENT | {PLATFORM} if operation.verb == "GET" else frozenset({PLATFORM})
    if operation.path in ("/players/{id}/export", "/campaigns/{id}/archive"):
        return frozenset({"admin"})  # Whole contacts; the only copy of plays.
    if operation.verb == "GET" or operation.path == "/plays/{id}/replay" or operation.service == "ApprovalService":
        return MANAGEMENT
    if operation.path == "/packs/{id}/rotate-secret":
        return frozenset({"admin", "reward_manager"})  # Its holder can sign receipts, and so credit players.
    if is_design(operation):
        return frozenset({"admin", "designer"})
    if operation.path.startswith(HANDED_OUT):
        return frozenset({"admin", "reward_manager"})
    return frozenset({"admin"})


def test_rows_open_to_the_roles_of_their_kind() -> None:
    found, due = {}, {}
    for operation, row in SERVED:
        strict = roles_of(operation)
        found[operation.name] = row.roles("strict"), row.roles("any")
        due[operation.name] = strict, MANAGEMENT if operation.scoped else strict
    assert {name: one for name, one in found.items() if one != due[name]} == {}


def test_roles_page_names_every_operation() -> None:
    shown = admin.markdown()
    assert "| admin, reward_manager | `POST /prizes/{id}/codes`" in shown
    for operation, _ in SERVED:
        assert f"{operation.path}`" in shown
    assert all(f"{path}`" in shown for path in ("/exports/{name}", "/live", "GET /me"))


async def ask(stack: Stack, operation: Operation, known: dict[str, str], **options: Any) -> Answer:
    return await stack.admin(operation.verb, "/admin" + path_of(operation, known), **options)


@pytest.mark.fault("Roles", size="every admin route, every role, both matrices", figure="403 exactly where due")
async def test_admin_routes_are_shut_exactly_to_roles_outside_the_table(either: Stack) -> None:
    """Asked with an id that nothing has: whoever is let in is told so, or something else that is not 403."""
    matrix = either.process.settings.role_matrix
    known, wrong = dict.fromkeys(SUBJECTS, "x"), []
    player = bearer(either.token("player_ann"))
    for operation, row in SERVED:
        for roles in ROLES:
            answer = await ask(either, operation, known, roles=roles)
            if not roles:
                right = refused(answer) == (401, "UNAUTHENTICATED", "TOKEN_MISSING")
            elif not row.roles(matrix).isdisjoint(roles):
                right = answer.http not in (401, 403)
            else:
                right = refused(answer) == ROLE_REQUIRED
            wrong += [] if right else [(operation.name, roles, answer.envelope)]
        answer = await ask(either, operation, known, roles=(), headers=player)
        wrong += [] if refused(answer) == ROLE_REQUIRED else [(operation.name, "a player", answer.envelope)]
    assert wrong == []


async def test_refused_role_changes_nothing(either: Stack) -> None:
    """Asked with ids and bodies that would work: the role is judged before either is looked at."""
    known = await furnish(either)
    before, let_in = await contents(either.database), []
    for operation, row in SERVED:
        body = edge_body(operation, known) if operation.has_body else None
        for role in {"admin", PLATFORM} - row.roles(either.process.settings.role_matrix):
            answer = await ask(either, operation, known, body=body, roles=(role,))
            let_in += [] if refused(answer) == ROLE_REQUIRED else [(operation.name, role, answer.envelope)]
    assert let_in == []
    assert await contents(either.database) == before


async def test_platform_role_beside_a_management_role_acts_for_another_tenant(module_stack: Stack) -> None:
    there, both = {"X-Tenant-Id": OTHER_TENANT}, ("designer", "platform")
    made = (await module_stack.admin("POST", "/admin/campaigns", {"name": "Theirs"}, roles=both, headers=there)).data
    assert (await module_stack.admin("GET", f"/admin/campaigns/{made['id']}", roles=both)).reason == "UNKNOWN_CAMPAIGN"
    found = await module_stack.admin("GET", f"/admin/campaigns/{made['id']}", roles=both, headers=there)
    assert found.data["name"] == "Theirs"
    audit = (await module_stack.admin("GET", "/admin/audit", roles=both, headers=there)).data["items"]
    assert [(entry["action"], entry["actor"]) for entry in audit] == [("campaign.create", "staff_test")]


@pytest.fixture
async def path(module_stack: Stack) -> str:
    campaign = await make_campaign(module_stack)
    return f"/admin/games/{(await make_game(module_stack, campaign['id'], await make_prize(module_stack)))['id']}"


async def test_etag_of_a_game_is_its_revision(module_stack: Stack, path: str) -> None:
    read = await module_stack.admin("GET", path)
    assert (read.headers["ETag"], read.data["revision"]) == ('"1"', 1)
    written = await module_stack.admin("PUT", path, {"name": "B"}, headers={"If-Match": read.headers["ETag"]})
    assert (written.headers["ETag"], written.data["revision"]) == ('"2"', 2)
    assert (await module_stack.admin("GET", path)).headers["ETag"] == '"2"'


@pytest.mark.parametrize(
    ("body", "headers"),
    [({"revision": 1}, {}), ({}, {"If-Match": '"1"'}), ({"revision": 1}, {"If-Match": '"1"'}), ({"revision": 7}, {})],
)
async def test_stale_edit_is_aborted(module_stack: Stack, path: str, body: Any, headers: dict[str, str]) -> None:
    assert (await module_stack.admin("PUT", path, {"name": "First"}, headers={"If-Match": "*"})).data["revision"] == 2
    late = await module_stack.admin("PUT", path, {"name": "Late", **body}, headers=headers)
    assert (late.http, late.code, late.reason) == (409, "ABORTED", "STALE_REVISION")
    assert late.envelope["data"]["revision"] == 2
    assert (await module_stack.admin("GET", path)).data["name"] == "First"


async def test_edit_with_a_wrong_etag_is_refused(module_stack: Stack, path: str) -> None:
    named = []
    for tag in ('W/"1"', '"1", "2"', "1", '"0"', '"x"', '"99999999999999"', ""):
        named += fields_of(await module_stack.admin("PUT", path, {"name": "B"}, headers={"If-Match": tag}))
    assert named == ["If-Match"] * 7
    both = await module_stack.admin("PUT", path, {"name": "B", "revision": 2}, headers={"If-Match": '"1"'})
    assert fields_of(both) == ["revision"]
    assert (await module_stack.admin("GET", path)).data["revision"] == 1


async def test_edits_at_once_with_one_etag_make_one_revision(module_stack: Stack, path: str) -> None:
    tag = {"If-Match": '"1"'}
    done = await asyncio.gather(*(module_stack.admin("PUT", path, {"name": f"N{n}"}, headers=tag) for n in range(10)))
    assert sorted(answer.http for answer in done) == [200] + [409] * 9
    winner = next(answer for answer in done if answer.http == 200)
    assert (await module_stack.admin("GET", path)).data["name"] == winner.data["name"]
