"""The documents as they are served, and held to what the operations really answer and refuse."""

import re
from dataclasses import replace
from functools import cache
from typing import Any, Final
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.operations import API, OPERATIONS, Operation
from runtime.wire.schema import fields_of
from tests.support.bodies import serves
from tests.support.operations import Ids, body_of, edge_body, furnish, path_of
from tests.support.stack import Answer, Stack
from tests.support.stack import fields_of as wrong_fields_of
from tests.support.world import COINS, COLLECTION, World, new_world

SURFACES: tuple[Surface, ...] = ("core", "consumer", "admin")


@pytest.mark.parametrize("surface", SURFACES)
async def test_document_of_each_surface_is_served(stack: Stack, surface: Surface) -> None:
    url = getattr(stack.process, f"{surface}_url")
    async with stack.http.get(f"{url}{API}/openapi.json") as answer:
        assert answer.headers["Content-Type"] == "application/json"
        assert await answer.json() == document(surface)
        tag = answer.headers["ETag"]
    async with stack.http.get(f"{url}{API}/openapi.json", headers={"If-None-Match": tag}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


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
JSON: Final = ("content", "application/json", "schema")


@cache
def registry_of(surface: Surface) -> Registry[Any]:
    made = document(surface)
    for name, schema in made["components"]["schemas"].items():
        if "properties" in schema and not name.endswith(("Metadata", "Error", "Payload")):
            # Open to later versions; of this one, no field is undocumented.
            schema.setdefault("additionalProperties", False)
    return Registry().with_resource(DOCUMENT, DRAFT202012.create_resource(made)).crawl()


class Conforming:
    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.seen: set[str] = set()

    async def __call__(self, surface: Surface, verb: str, path: str, body: Any = None, **more: Any) -> Answer:
        answer: Answer = await getattr(self.stack, surface)(verb, path, body, **more)
        paths = registry_of(surface).contents(DOCUMENT)["paths"]
        template = next(
            template
            for template in sorted(paths, key=lambda template: "{" in template)
            if verb.lower() in paths[template] and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template), API + path)
        )
        row = paths[template][verb.lower()]
        media = row["responses"][str(answer.http)]["content"]["application/json"]
        place = (
            "paths",
            template,
            verb.lower(),
            "responses",
            str(answer.http),
            "content",
            "application/json",
            "schema",
        )
        pointer = "/".join(quote(step.replace("~", "~0").replace("/", "~1")) for step in place)
        schema = {"$ref": f"{DOCUMENT}#/{pointer}"}
        Draft202012Validator(schema, registry=registry_of(surface)).validate(answer.envelope)
        if answer.http >= 400:
            assert answer.reason in media["examples"], (row["operationId"], answer.envelope)
        else:
            self.seen.add(row["operationId"])
        return answer


async def test_answers_are_as_documented(stack: Stack) -> None:
    ask = Conforming(stack)
    async with new_world(stack) as world:
        await play(ask, world)
    known = await furnish(stack)
    await every_example(ask, known)
    for operation in (row for row in OPERATIONS if row.verb == "DELETE" and serves("admin", row)):
        await ask("admin", "DELETE", f"/admin{path_of(operation, known)}")
    await end_approvals(ask, stack, known)
    for surface in SURFACES:
        row_names = {row["operationId"] for verbs in document(surface)["paths"].values() for row in verbs.values()}
        missing = row_names - ask.seen - {"GetHealth", "GetReadiness", "GetMetrics"}
        # What is asked of machines and by login is held to the document by its own tests, and by schemathesis.
        reads = {row.name for row in OPERATIONS if row.verb == "GET" and row.subject != "integration"}
        assert sorted(missing & reads) == [], surface
        assert len(missing) < 30, (surface, " ".join(sorted(missing)))


async def end_approvals(ask: Conforming, stack: Stack, known: Ids) -> None:
    body = {"player_id": known["player"], "scope_key": known["campaign"], "currency": "points", "amount": 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_adjustment_above=4))
        own = await ask("admin", "POST", "/admin/wallet/adjustments", body)
        others = await ask("core", "POST", "/wallet/adjustments", body)
        for approval, act in ((own, "withdraw"), (others, "reject")):
            assert approval.http == 202
            path = f"/admin/approvals/{approval.envelope['data']['approval']['id']}/{act}"
            assert (await ask("admin", "POST", path, {})).code == "OK"


async def every_example(ask: Conforming, known: Ids) -> None:
    for operation in (row for row in OPERATIONS if row.verb != "DELETE" and not row.streamed):
        path = path_of(operation, known)
        if operation.consumer is not None:
            body = edge_body(operation, known) if operation.has_body else None
            await ask("consumer", operation.verb, path, body, player=known["player"])
        if serves("admin", operation):
            body = edge_body(operation, known) if operation.has_body else None
            await ask("admin", operation.verb, f"/admin{path}", body, roles=("admin", "platform"))
        body = body_of(operation, known) if operation.has_body else None
        query = {"player_id": known["player"]} if body is None and operation.of_player else {}
        await ask("core", operation.verb, path, body, **query)


async def play(ask: Conforming, world: World) -> None:
    """What succeeds in a game alone: start, play, redeem, claim, and the act on a reward by staff."""
    player, mug = "player_ann", await world.prize(total=10, fulfillment={"redemption_mode": "on_claim"})
    rungs = [{"name": "Two coins", "currency": "coin", "threshold": 2, "prize_id": mug}]
    wheel = await world.wheel(mug, access="public")
    leaves = await world.game(COLLECTION, COINS, milestones={"rungs": rungs})
    for game in (wheel, leaves):
        session = (await ask("consumer", "POST", f"/games/{game}/start", {}, player=player)).data["session_id"]
        body = {"session_id": session, "payload": {}}
        for _ in range(2):
            await ask("consumer", "POST", f"/games/{game}/play", body, player=player)
    assert "guest_token" in (await ask("consumer", "POST", f"/games/{wheel}/start", {})).data
    await ask("core", "GET", "/exports", name="plays")
    refused = await ask("consumer", "POST", f"/games/{leaves}/redeem", {}, player=player)
    assert wrong_fields_of(refused) == ["milestone_id"]
    [rung] = (await ask("consumer", "GET", f"/games/{leaves}/milestones", player=player)).data["items"]
    await ask("consumer", "POST", f"/games/{leaves}/redeem", {"milestone_id": rung["id"]}, player=player)
    for reward in (await ask("consumer", "GET", "/rewards/me", player=player)).data["items"]:
        await ask("consumer", "POST", f"/rewards/{reward['id']}/claim", {}, player=player)
        await ask("admin", "POST", f"/admin/rewards/{reward['id']}/revoke", {"reason": "a cheat"})
