"""game.proto's RPCs, the operations table, Core's routes and the edges' tables are one set."""

import re
from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

from aiohttp import web
from google.protobuf import descriptor_pb2

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault
from runtime.http import admin, consumer
from runtime.http import core as core_http
from runtime.http.core_guard import CoreGuard
from runtime.http.edge import Edge
from runtime.operations import API, BY_NAME, OPERATIONS
from runtime.rpc.client import RpcCaller
from runtime.settings import Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.wire.schema import Kind, fields_of
from tests.support.operations import furnish, path_of
from tests.support.stack import Stack

REQUIRED_CONSUMER = """
    POST /games/{id}/start, POST /games/{id}/play, GET /games/{id}/eligibility, GET /games/{id}/history/me,
    GET /games/{id}/render, GET /public/campaigns/{id}, GET /players/me, PUT /players/me, GET /players/me/turns,
    POST /quests/{id}/complete, GET /leaderboards/{id}/rankings, GET /wallet, GET /wallet/ledger,
    GET /games/{id}/milestones, POST /games/{id}/redeem, GET /rewards/me, POST /rewards/{id}/claim
"""

REQUIRED_ADMIN = """
    POST /games, GET /games, GET /games/{id}, PUT /games/{id}, DELETE /games/{id},
    POST /prizes, GET /prizes, GET /prizes/{id}, PUT /prizes/{id}, DELETE /prizes/{id},
    POST /prizes/{id}/codes, GET /prizes/summary, POST /rewards/{id}/fulfill, POST /rewards/{id}/revoke,
    POST /campaigns, GET /campaigns, GET /campaigns/{id}, PUT /campaigns/{id},
    POST /campaigns/{id}/duplicate, GET /campaigns/{id}/analytics,
    POST /quests, GET /quests, PUT /quests/{id}, DELETE /quests/{id},
    POST /leaderboards, GET /leaderboards, GET /leaderboards/{id}, PUT /leaderboards/{id}, DELETE /leaderboards/{id},
    POST /leaderboards/{id}/finalize, POST /leaderboards/{id}/disqualify, POST /leaderboards/{id}/adjust,
    POST /integrations, GET /integrations, DELETE /integrations/{id}, POST /integrations/emit,
    GET /fulfillment/tasks, POST /fulfillment/tasks/{id}/retry,
    POST /tenants, GET /tenants, POST /merchants, GET /merchants
"""

ADDITIONAL: Final = """
    GET /rewards, POST /plays/{id}/replay, POST /wallet/adjustments, GET /quests/{id},
    GET /integrations/{id}/deliveries, GET /audit, GET /revisions/{id}
"""

READ_BY_MANY: Final = {
    *("CampaignService", "GameService", "PrizeService", "QuestService", "LeaderboardService", "DrawService"),
    "PackService",
}
"""Services whose resources the edges cache."""


class NoCore(Caller):
    async def call(self, operation: Any, request: Any) -> Any:
        raise NotImplementedError


def routes_of(app: web.Application) -> set[tuple[str, str]]:
    return {(route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None}


def edge() -> Edge:
    return Edge.build(Settings(jwt_secret="x" * 32), NoCore(), Ephemeral("redis://127.0.0.1:1"))


def routes_in(table: str) -> set[tuple[str, str]]:
    return {(verb, path) for verb, path in re.findall(r"([A-Z]+) (/[^\s,]+)", table)}


def test_rows_are_the_rpcs_of_the_proto() -> None:
    encoded = resources.files("runtime.messages").joinpath("game.binpb").read_bytes()
    file = next(file for file in descriptor_pb2.FileDescriptorSet.FromString(encoded).file if file.name == "game.proto")
    described = {
        (service.name, method.name, method.input_type.rpartition(".")[2], method.output_type.rpartition(".")[2])
        for service in file.service
        for method in service.method
    }
    rows = {(row.service, row.name, row.request.__name__, row.reply.__name__) for row in OPERATIONS}
    assert rows == described
    assert len(BY_NAME) == len(OPERATIONS)


def test_rows_are_routes_of_core_with_and_without_admin() -> None:
    app = web.Application()
    core_http.mount(app, NoCore(), CoreGuard())
    expected = {(row.verb, prefix + row.path) for row in OPERATIONS for prefix in (API, f"{API}/admin")}
    assert {route for route in routes_of(app) if route[0] != "HEAD"} == expected


def test_rows_name_fields_of_their_requests() -> None:
    wrong = []
    for row in OPERATIONS:
        fields = fields_of(row.request)
        named = [*re.findall(r"{(\w+)}", row.path), *([row.resource] if row.resource else [])]
        if fields["scope"].type is not m.Scope or not fields.keys() >= set(named):
            wrong.append(row.name)
    assert wrong == []


def test_edges_serve_what_the_spec_lists() -> None:
    players, staff = web.Application(), web.Application()
    consumer.mount(players, edge())
    admin.mount(staff, edge())
    assert routes_of(players) >= {(verb, API + path) for verb, path in routes_in(REQUIRED_CONSUMER)}
    assert routes_of(staff) >= {(verb, f"{API}/admin{path}") for verb, path in routes_in(REQUIRED_ADMIN + ADDITIONAL)}


def test_rows_that_change_cached_things_make_them_stale() -> None:
    # An approval may change a game.
    due = {
        row.name
        for row in OPERATIONS
        if row.name == "ApproveApproval" or (row.verb != "GET" and row.admin and row.service in READ_BY_MANY)
    }
    assert {row.name for row in OPERATIONS if row.invalidates_cache} == due


async def test_rows_answer_over_rpc_and_rest_alike(stack: Stack) -> None:
    """Asked for nothing in particular, each operation gives the same answer on both transports, and is built."""
    caller, wrong = RpcCaller([stack.process.rpc_address]), []
    try:
        for row in OPERATIONS:
            path = row.path.replace("{id}", "x_unknown")
            rest = await stack.core(row.verb, path)
            request = row.request(scope=m.Scope(tenant_id=stack.tenant_id))
            if "{id}" in row.path:
                request.id = "x_unknown"
            try:
                await caller.call(row, request)
                code, reason = "OK", ""
            except Fault as fault:
                code, reason = fault.status.name, fault.reason
            over_rest = (rest.code, rest.reason if rest.code != "OK" else "")
            if (code, reason) != over_rest or code in ("INTERNAL", "UNKNOWN"):
                wrong.append((row.name, code, reason, rest.envelope))
    finally:
        await caller.close()
    assert wrong == []


MASKED: Final = {("Contact", "value")}


async def test_resource_reads_alike_in_every_answer(stack: Stack) -> None:
    known, seen, wrong = await furnish(stack), {}, set()
    for row in OPERATIONS:
        if row.verb != "GET" or row.name in ("GetLive", "ReadExport", "ListGameRevisions"):
            continue
        query = {"player_id": known["player"]} if row.of_player else {}
        answer = await stack.core("GET", path_of(row, known), **query)
        for message, shown in resources_in(row.reply, answer.data):
            before = seen.setdefault((message, shown["id"]), shown)
            changed = (name for name in shown if shown[name] != before[name])
            wrong |= {(row.name, message, name) for name in changed if (message, name) not in MASKED}
    assert {message for message, _ in seen} >= {"Campaign", "Game", "Render", "Prize", "Quest", "Task", "Contact"}
    assert wrong == set()


def resources_in(message: Any, shown: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if shown.get("id"):
        yield message.__name__, shown
    for name, field in fields_of(message).items():
        if field.kind is Kind.MESSAGE and shown.get(name):
            for one in shown[name] if field.repeated else [shown[name]]:
                yield from resources_in(field.type, one)
