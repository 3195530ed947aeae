import ast
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from aiohttp import web
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

import runtime
from runtime import messages as m
from runtime.errors import Status
from runtime.http import admin, callback, consumer
from runtime.http import core as core_http
from runtime.http.core_guard import CoreGuard
from runtime.http.docs import examples
from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.http.docs.refusals import REFUSALS, reasons_of
from runtime.http.edge import INTERNAL, Edge, reader
from runtime.http.login import routes as login
from runtime.http.login import sign_in
from runtime.http.operational import mount_health, mount_metrics
from runtime.messages.comments import FIELDS, NAMES
from runtime.operations import BY_NAME, OPERATIONS
from runtime.rules import REWARD_HANDLERS
from runtime.rules.schemas import camel
from runtime.settings import Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.wire import codec
from runtime.wire.schema import INT32, INT64, Field, Kind, fields_of
from runtime.wire.shape import AS_IT_IS

SURFACES: tuple[Surface, ...] = get_args(Surface)
DOCUMENTS = {surface: document(surface) for surface in SURFACES}


def rows(surface: Surface) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(path, verb, operation) of a document."""
    for path, verbs in DOCUMENTS[surface]["paths"].items():
        for verb, row in verbs.items():
            yield path, verb, row


def validator(surface: Surface, schema: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": DOCUMENTS[surface]["components"]})


@pytest.mark.parametrize("surface", [pytest.param("core", marks=pytest.mark.nightly), "consumer", "admin"])
def test_document_is_valid_openapi_and_plain_json(surface: Surface) -> None:
    validate(DOCUMENTS[surface])
    assert json.loads(json.dumps(DOCUMENTS[surface])) == DOCUMENTS[surface]


@pytest.mark.parametrize("surface", SURFACES)
def test_document_has_every_route_that_its_surface_serves(surface: Surface) -> None:
    app = web.Application()
    edge = Edge.build(Settings(jwt_secret="x" * 32), None, Ephemeral("redis://127.0.0.1:1"))  # type: ignore[arg-type]
    if surface == "core":
        core_http.mount(app, None, CoreGuard())  # type: ignore[arg-type]
        mount_metrics(app)
    elif surface == "consumer":
        consumer.mount(app, edge)
        login.mount(app, edge)
    else:
        admin.mount(app, edge)
        sign_in.mount(app, edge)
        callback.mount(app, edge.caller)
    mount_health(app, {})
    served = {
        (route.resource.canonical, route.method.lower())
        for route in app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    if surface == "core":  # each path of Core is there with and without /admin, and described once
        served = {(path, verb) for path, verb in served if not path.startswith("/api/v1/admin/")}
    assert {(path, verb) for path, verb, _ in rows(surface)} == served


@pytest.mark.parametrize("surface", SURFACES)
def test_examples_match_their_schemas(surface: Surface) -> None:
    for _, _, row in rows(surface):
        contents = [answer["content"] for answer in row["responses"].values()]
        contents += [row["requestBody"]["content"]] if "requestBody" in row else []
        for content in contents:
            for media in content.values():
                shown = [media["example"]] if "example" in media else []
                for name in media.get("examples", {}):
                    shown.append(DOCUMENTS[surface]["components"]["examples"][name]["value"])
                assert shown, row["operationId"]
                for example in shown:
                    validator(surface, media["schema"]).validate(example)


def properties_of(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, schema) of each property, however deep."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    for name, one in (schema.get("properties") or {}).items() if isinstance(schema, dict) else ():
        if isinstance(one, dict) and "example" not in schema:
            yield name, one
    for one in inner:
        yield from properties_of(one)


@pytest.mark.parametrize("surface", SURFACES)
def test_properties_and_parameters_are_described(surface: Surface) -> None:
    found = list(properties_of(DOCUMENTS[surface]["components"]["schemas"]))
    found += [pair for _, _, row in rows(surface) for pair in properties_of([row["responses"], row.get("requestBody")])]
    bare = sorted({name for name, one in found if not one.get("description")})
    assert len(found) > 400 and sum(not one.get("description") for _, one in found) <= len(found) / 20, bare
    used = {field.name for row in OPERATIONS for each in (row.request, row.reply) for field in every_field(each)}
    assert set(NAMES) - used == set(), "a name that no field without a comment has"


def every_field(message: Any, seen: set[Any] | None = None) -> Iterator[Field]:
    """The fields without a comment of a message, and of those in it."""
    seen = set() if seen is None else seen
    if message in seen:
        return
    seen.add(message)
    for field in fields_of(message).values():
        if field.name not in FIELDS.get(message.__name__, {}):
            yield field
        if field.kind is Kind.MESSAGE:
            yield from every_field(field.type, seen)


@pytest.mark.parametrize("surface", SURFACES)
def test_answers_are_open_and_refusals_closed_to_reasons(surface: Surface) -> None:
    handlers = tuple(map(camel, REWARD_HANDLERS.names()))
    for name, schema in DOCUMENTS[surface]["components"]["schemas"].items():
        if "additionalProperties" in schema and "properties" in schema:
            assert name.endswith(("Body", "Fields", "Input", "Payload")) or name.startswith(handlers), name
    for _, _, row in rows(surface):
        for http, answer in row["responses"].items():
            content = answer.get("content", {}).get("application/json", {})
            if http == "200" or "examples" not in content:
                continue
            _, own = content["schema"]["allOf"]
            assert set(content["examples"]) <= set(own["properties"]["data"]["properties"]["reason"]["enum"])


def test_consumer_operations_name_the_tenant_in_the_address() -> None:
    for path, _, row in rows("consumer"):
        named = {one["name"] for one in row.get("parameters", ()) if one["in"] == "query"}
        assert "tenant_id" in named or "{tenant}" in path or not path.startswith("/api/"), path
    [callback] = [row for _, _, row in rows("admin") if row["operationId"] == "CompleteTask"]
    assert {"tenant_id", "token"} <= {one["name"] for one in callback["parameters"] if one["in"] == "query"}


def test_whole_numbers_of_bodies_have_their_minimum() -> None:
    schemas = DOCUMENTS["admin"]["components"]["schemas"]
    least = {"GrantTurnsBody": ("amount", 1), "RungInput": ("threshold", 1), "StockInput": ("total", 0)}
    least |= {"AdjustBalanceBody": ("amount", INT64[0]), "MoveStockBody": ("change", INT32[0])}
    assert {name: (field, schemas[name]["properties"][field]["minimum"]) for name, (field, _) in least.items()} == least


def test_examples_agree_with_each_other() -> None:
    start, play = examples.answer(m.StartReply, AS_IT_IS, "number"), examples.answer(m.PlayReply, AS_IT_IS, "number")
    revision = examples.answer(m.Revision, AS_IT_IS, "number")
    assert play["seed_hash"] == start["seed_hash"] == hashlib.sha256(bytes.fromhex(play["seed"])).hexdigest()
    assert start["revision_hash"] == hashlib.sha256(revision["terms"].encode()).hexdigest()
    said = f"{start['seed_hash']}:{start['revision_hash']}:{start['session_id']}"
    assert start["commitment"] == hashlib.sha256(said.encode()).hexdigest()
    prize, [won] = examples.answer(m.Prize, AS_IT_IS, "number"), play["rewards"]
    shown = [prize["id"], prize["name"], prize["type"], prize["value"]]
    assert json.loads(revision["terms"])["prizes"] == [shown]
    assert shown == [won["prize_id"], won["name"], won["type"], won["value"]]
    assert BY_NAME["Play"].example["session_id"] == start["session_id"]  # type: ignore[index]


def test_example_bodies_are_accepted_by_their_readers() -> None:
    for operation in OPERATIONS:
        if operation.has_body:
            made, fields = codec.read(operation.request, examples.core_body(operation))
            assert isinstance(made, operation.request) and fields, operation.name
    request = type("Request", (), {"match_info": {"id": "x"}, "query": {}})
    for operation in OPERATIONS:
        if operation.has_body:
            closed = consumer.CLOSED if operation.consumer is not None else frozenset({"scope", "id", "update_mask"})
            read = reader(operation, closed)(request, json.dumps(operation.example).encode())  # type: ignore[arg-type]
            assert isinstance(read, operation.request), operation.name


def test_operations_have_a_unique_id_and_a_description() -> None:
    for surface in SURFACES:
        seen = [row["operationId"] for _, _, row in rows(surface)]
        assert len(seen) == len(set(seen))
        for path, _, row in rows(surface):
            assert row["summary"] and row["tags"]
            assert row.get("description") or not path.startswith("/api"), row["operationId"]


def raised() -> Iterator[tuple[str, Status | None]]:
    """(reason, status) of each Fault that the package raises, where both are written out."""
    for path in Path(runtime.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Name("Fault"), [ast.Attribute(attr=status), ast.Constant(str(reason)), *_]):
                    yield reason, Status[status]
                case ast.Call(ast.Name("Fault"), [_, ast.Constant(str(reason)), *_]):
                    yield reason, None
                case ast.Call(ast.Name("unknown"), [ast.Constant(str(kind)), *_]):
                    yield f"UNKNOWN_{kind.upper()}", Status.NOT_FOUND


def test_raised_reasons_are_described_with_their_status() -> None:
    found = set(raised())
    assert len(found) > 40
    for reason, status in found:
        assert reason in REFUSALS, reason
        assert status in (None, REFUSALS[reason].status), reason


def test_described_reasons_are_all_used_by_an_operation() -> None:
    reasons = {reason for operation in OPERATIONS for reason in reasons_of(operation)}
    transport = {"BAD_REQUEST", "MALFORMED_REQUEST", "EXPECTATION_FAILED", "UNKNOWN_ROUTE", "METHOD_NOT_ALLOWED"}
    transport |= {"MESSAGE_TOO_LARGE"}
    edges = {reason for reason in REFUSALS if reason.startswith(("TOKEN_", "CODE_", "RATE_", "RESEND_", "IDEMPOTENCY"))}
    edges |= {"ROLE_REQUIRED", "FORBIDDEN", "SIGNATURE_INVALID", "UNKNOWN_CHALLENGE", "CORE_UNAVAILABLE"}
    edges |= {"SENDER_UNAVAILABLE", "NOT_READY", "UNKNOWN_LOG", "UNKNOWN_STAMP", "UNKNOWN_TILE"}
    assert set(REFUSALS) - reasons - transport - edges == {"UNIMPLEMENTED"}


def test_required_fields_are_in_the_schema() -> None:
    """A maker's body requires what its resource does; an update's requires nothing of it."""
    for operation in OPERATIONS:
        if not operation.resource:
            continue
        schema = DOCUMENTS["core"]["components"]["schemas"][f"{operation.name}Fields"]
        fields = fields_of(fields_of(operation.request)[operation.resource].type).values()
        wanted = [field.name for field in fields if field.required] if operation.creates else []
        assert schema.get("required", []) == wanted, operation.name


def test_document_of_an_edge_leaves_out_fields_of_core() -> None:
    for surface in ("consumer", "admin"):
        for _, _, row in rows(surface):  # type: ignore[arg-type]
            names = [parameter["name"] for parameter in row.get("parameters", ())]
            assert not any(name.startswith("scope.") for name in names), row["operationId"]
    assert "handler_config" not in DOCUMENTS["consumer"]["components"]["schemas"]["Render"]["properties"]


def test_document_of_an_edge_describes_only_fields_of_its_bodies() -> None:
    for surface, closed in (("consumer", consumer.CLOSED), ("admin", INTERNAL)):
        for _, _, row in rows(surface):  # type: ignore[arg-type]
            leaked = [name for name in closed - {"scope", "id", "player_id"} if name in row.get("description", "")]
            assert leaked == [], row["operationId"]


def test_texts_and_message_lists_of_a_body_state_their_maximum() -> None:
    for surface in SURFACES:
        for name, schema in DOCUMENTS[surface]["components"]["schemas"].items():
            if not name.endswith(("Body", "Fields", "Input")):
                continue
            for field, one in schema["properties"].items():
                element = one.get("items", one)
                if element.get("type") == "string" and name not in ("ImportCodesBody", "ImportPackCodesBody"):
                    assert {"maxLength", "enum", "pattern"} & element.keys(), (surface, name, field)
                if "items" in one and "$ref" in element and element["$ref"].endswith("Input"):
                    assert one["maxItems"] > 0, (surface, name, field)


def test_page_in_development_asks_for_the_player() -> None:
    made = document("consumer", header_fallback=True)
    assert made["components"]["securitySchemes"]["player"]["name"] == "X-Player-Id"
    assert made["paths"]["/api/v1/games/{id}/start"]["post"]["security"] == [{}, {"bearer": []}, {"player": []}]
    assert made["paths"]["/api/v1/players/me"]["get"]["security"] == [{"bearer": []}, {"player": []}]
    validate(made)
    for surface in SURFACES:
        assert "player" not in document(surface)["components"]["securitySchemes"]
