import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final
from urllib.parse import quote

import pytest
from aiohttp import web
from google.protobuf import descriptor_pb2
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from runtime import messages as m
from runtime.core import Caller
from runtime.errors import Fault
from runtime.http import admin, consumer
from runtime.http import core as core_http
from runtime.http.core_guard import CoreGuard
from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.http.edge import Edge
from runtime.operations import API, BY_NAME, OPERATIONS, Operation
from runtime.rpc.client import RpcCaller
from runtime.settings import Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.wire.schema import Kind, fields_of
from tests.support.bodies import serves
from tests.support.leaderboards import make_board
from tests.support.operations import Ids, body_of, edge_body, furnish, path_of
from tests.support.stack import Answer, Stack
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, new_world

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
            rest = await stack.core(row.verb, row.path.replace("{id}", "x_unknown"))
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
            wrong |= {(row.name, message, name) for name in changed if (message, name) not in {("Contact", "value")}}
    assert {message for message, _ in seen} >= {"Campaign", "Game", "Render", "Prize", "Quest", "Task", "Contact"}
    assert wrong == set()


def resources_in(message: Any, shown: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if shown.get("id"):
        yield message.__name__, shown
    for name, field in fields_of(message).items():
        if field.kind is Kind.MESSAGE and shown.get(name):
            for one in shown[name] if field.repeated else [shown[name]]:
                yield from resources_in(field.type, one)


SURFACES: tuple[Surface, ...] = ("core", "consumer", "admin")


@pytest.mark.parametrize("surface", SURFACES)
async def test_document_of_each_surface_is_served(stack: Stack, surface: Surface) -> None:
    url = getattr(stack.process, f"{surface}_url")
    async with stack.http.get(f"{url}{API}/openapi.json") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert await answer.json() == document(surface)


def required_of(operation: Operation) -> list[str]:
    message = operation.request
    if operation.resource:
        message = fields_of(message)[operation.resource].type
    return [name for name, field in fields_of(message).items() if field.required and name in (operation.example or {})]


ASKING: Final = [row for row in OPERATIONS if required_of(row) and not (row.resource and not row.creates)]


async def test_required_fields_are_what_each_operation_asks_for(stack: Stack) -> None:
    wrong = []
    # An operation of an actor or a task looks at its own thing before its fields.
    for operation in (row for row in ASKING if row.run is not None and row.subject != "task"):
        path, required = operation.path.replace("{id}", "x_1"), required_of(operation)
        player = {"player_id": "player_a"} if operation.of_player and "player_id" not in required else {}

        async def violations(*fields: str, row: Operation = operation, of: Any = player, to: str = path) -> list[Any]:
            body = {field: (row.example or {})[field] for field in fields}
            answer = await stack.core(row.verb, to, {row.resource: body} if row.resource else {**of, **body})
            prefix = f"{row.resource}."
            found = answer.envelope["data"].get("violations", ())
            return [(one["field"].removeprefix(prefix), one["description"]) for one in found]

        for field in required:
            found = await violations(*(other for other in required if other != field))
            if field not in {name.partition(".")[0] for name, _ in found}:
                wrong.append((operation.name, field, found))
        missed = [name for name, said in await violations(*required) if said == "is required" and "." not in name]
        wrong += [(operation.name, field, "is required too") for field in missed]
    assert wrong == []


@pytest.mark.parametrize("surface", SURFACES)
async def test_path_without_its_id_is_answered_as_documented(stack: Stack, surface: Surface) -> None:
    """`.` is taken out of a path by whoever sends it; an empty id is sent as it is, and is no path of ours."""
    url, tried = getattr(stack.process, f"{surface}_url"), set()
    headers = {"Authorization": f"Bearer {stack.token('player_a' if surface == 'consumer' else 'staff', ('admin',))}"}
    query = {"scope.tenant_id" if surface == "core" else "tenant_id": stack.tenant_id}
    for path, verbs in document(surface)["paths"].items():
        for verb, row in verbs.items():
            if "/{id}/" not in path:
                continue
            for lost in (".", ""):
                sent = url + path.replace("{id}", lost)
                async with stack.http.request(verb, sent, params=query, json={}, headers=headers) as answer:
                    documented, reason = row["responses"][str(answer.status)], (await answer.json())["data"]["reason"]
                # The last may meet any request, as the document's introduction says.
                assert reason in (*documented["content"]["application/json"]["examples"], "UNKNOWN_ROUTE"), (verb, sent)
                tried.add((row["operationId"], answer.status))
    assert ("ImportCodes", 405) in tried or surface == "consumer", tried


DOCUMENT: Final = "urn:document"


@cache
def registry_of(surface: Surface) -> Registry[Any]:
    made = document(surface)
    for name, schema in made["components"]["schemas"].items():
        if "properties" in schema and not name.endswith(("Metadata", "Error", "Payload")):
            # Open to later versions; of this one, no field is undocumented.
            schema.setdefault("additionalProperties", False)
    return Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(made)).crawl()


@dataclass(frozen=True, kw_only=True)
class Conforming(Stack):
    """A stack whose every answer is held to the document. seen: the operations that succeeded."""

    seen: set[str]

    async def _ask(self, base: str, verb: str, path: str, *more: Any) -> Answer:
        answer = await super()._ask(base, verb, path, *more)
        surface = next(one for one in SURFACES if getattr(self.process, f"{one}_url") == base)
        paths = registry_of(surface).contents(DOCUMENT)["paths"]
        template = next(
            template
            for template in sorted(paths, key=lambda template: "{" in template)
            if verb.lower() in paths[template] and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), API + path)
        )
        row = paths[template][verb.lower()]
        media = row["responses"][str(answer.http)]["content"]["application/json"]
        answered = ("responses", str(answer.http), "content", "application/json", "schema")
        pointer = "/".join(
            quote(step.replace("~", "~0").replace("/", "~1")) for step in ("paths", template, verb.lower(), *answered)
        )
        schema = {"$ref": f"{DOCUMENT}#/{pointer}"}
        Draft202012Validator(schema, registry=registry_of(surface)).validate(answer.envelope)
        if answer.http >= 400:
            assert answer.reason in media["examples"], (row["operationId"], answer.envelope)
        else:
            self.seen.add(row["operationId"])
        return answer


async def test_answers_are_as_documented(stack: Stack) -> None:
    ask = Conforming(**vars(stack), seen=set())
    known = await furnish(ask)
    await every_example(ask, known)
    await end_approvals(ask, known)
    await manage(ask, known)
    for surface in SURFACES:
        row_names = {row["operationId"] for verbs in document(surface)["paths"].values() for row in verbs.values()}
        missing = row_names - ask.seen - {"GetHealth", "GetReadiness", "GetMetrics"}
        missing -= {"GetLogCheckpoint", "GetLogStamp", "GetLogTile"}
        # What is asked of machines and by login is held to the document by its own tests, and by schemathesis.
        reads = {row.name for row in OPERATIONS if row.verb == "GET" and row.subject != "integration"}
        assert sorted(missing & reads) == [], surface
        assert len(missing) < 15, (surface, " ".join(sorted(missing)))


async def end_approvals(ask: Conforming, known: Ids) -> None:
    body = {"player_id": known["player"], "scope_key": known["campaign"], "currency": "points", "amount": 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ask.engine, "settings", replace(ask.engine.settings, dual_adjustment_above=4))
        own = await ask.admin("POST", "/admin/wallet/adjustments", body)
        others = await ask.core("POST", "/wallet/adjustments", body)
        for approval, act in ((own, "withdraw"), (others, "reject")):
            assert approval.http == 202
            path = f"/admin/approvals/{approval.envelope['data']['approval']['id']}/{act}"
            assert (await ask.admin("POST", path, {})).code == "OK"


async def every_example(ask: Conforming, known: Ids) -> None:
    for operation in (row for row in OPERATIONS if row.verb != "DELETE" and not row.streamed):
        path = path_of(operation, known)
        if operation.consumer is not None:
            body = edge_body(operation, known) if operation.has_body else None
            await ask.consumer(operation.verb, path, body, player=known["player"])
        if serves("admin", operation):
            body = edge_body(operation, known) if operation.has_body else None
            await ask.admin(operation.verb, f"/admin{path}", body, roles=("admin", "platform"))
        body = body_of(operation, known) if operation.has_body else None
        query: dict[str, Any] = {"player_id": known["player"]} if body is None and operation.of_player else {}
        await ask.core(operation.verb, path, body, **query)


async def manage(ask: Conforming, known: Ids) -> None:
    """What no example alone brings about: plays of each shape, what a secret opens, refusals, and what is removed."""
    async with new_world(ask) as world:
        mug, of_world = await world.prize(total=10), {"campaign_id": world.campaign_id, "name": "New"}
        rungs = [{"name": "Two coins", "currency": "coin", "threshold": 2, "prize_id": mug}]
        drops = [{"type": "star", "prize_id": mug, "frequency": 1, "max_catchable": 1}]
        tiers = {"tiers": [{"min": 1, "max": 9, "prize_group": "g"}], "prize_groups": {"g": []}, "max_score": 9}
        for shape, config, payload in (
            (EGGS, tiers, {"score": 3, "duration_ms": 1}),
            (GIFTS, {"drops": drops, "total_items": 2, "interval_ms": 1}, {"caught_items": []}),
            (COLLECTION, COINS, {}),
        ):
            game = await world.game(shape, config, milestones={"mode": "cumulative_unlock", "rungs": rungs})
            session = await world.session(game)
            play = (await world.play(game, session, payload=payload)).data["play_id"]
            assert (await world.play(game, session, payload=payload)).reason == "SESSION_PLAYED"
            assert (await ask.admin("POST", f"/admin/plays/{play}/replay", {})).data["matches"]
        for _ in range(2):
            await world.redeem(game, (await world.milestones(game))[0]["id"])
        [coded] = (await world.round(await world.wheel(await world.prize(codes=["A-1"])))).data["rewards"]
        await world.round(game, "bob")
        board = (await make_board(ask, world.campaign_id, metric="plays"))["id"]
        draw = {"tickets": {"currency": "coin"}, "prizes": [{"prize_id": mug, "count": 1}], "alternates": 1}
        bodies: tuple[tuple[str, dict[str, Any]], ...] = (
            ("quests", {"type": "daily", "turns": 1, "status": "active", "condition": {"kind": "event", "count": 1}}),
            *(("packs", {"gives": {"turns": 1}}), ("draws", {**draw, "randomness": {"kind": "INTERNAL"}})),
        )
        made = {kind: (await ask.admin("POST", f"/admin/{kind}", of_world | body)).data["id"] for kind, body in bodies}
        answer = await ask.admin("POST", "/admin/draws", of_world | bodies[2][1] | {"tickets": {"imported": True}})
        unused = answer.data["id"]
        why = {"player_id": "ann", "reason": "lost"}
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            *((f"quests/{made['quests']}/rotate-secret", {}), (f"packs/{made['packs']}/rotate-secret", {})),
            (f"rewards/{coded['reward_id']}/reveal-code", {"reason": "lost"}),
            (f"draws/{unused}/tickets", {"holders": [{"player_id": "ann", "tickets": 1}]}),
            *((f"draws/{made['draws']}/close", {}), (f"draws/{made['draws']}/draw", {})),
            (f"draws/{made['draws']}/replace", {"rank": 1, "reason": "gone"}),
            *((f"draws/{made['draws']}/confirm", {}), (f"leaderboards/{board}/adjust", {**why, "delta": 1})),
            (f"leaderboards/{board}/disqualify", why),
        )
        for path, body in calls:
            await ask.admin("POST", f"/admin/{path}", body)
        await ask.core("POST", f"/quests/{made['quests']}/events", {"event_id": "e", "player_id": "ann"})
        await ask.core("POST", f"/packs/{made['packs']}/receipts", {"receipt_id": "till-1", "player_id": "ann"})
        await ask.admin("PUT", f"/admin/games/{game}", {"name": "New"})
        assert (await ask.admin("PUT", f"/admin/games/{game}", {"revision": 1})).reason == "STALE_REVISION"
        assert (await ask.admin("DELETE", f"/admin/prizes/{mug}")).reason == "IN_USE"
        await ask.core("GET", "/exports", name="plays")
        for roles, reason in (((), "TOKEN_MISSING"), (("clerk",), "ROLE_REQUIRED")):
            assert (await ask.admin("GET", "/admin/games", roles=roles)).reason == reason
        known = {**known, "prize": await world.prize(), "game": await world.wheel(), "draw": unused}
    for operation in (row for row in OPERATIONS if row.verb == "DELETE" and row.admin):
        await ask.admin("DELETE", f"/admin{path_of(operation, known)}")
