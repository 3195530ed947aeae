from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from runtime import messages as m
from runtime.errors import Fault
from runtime.operations import OPERATIONS, Operation
from runtime.rpc.client import RpcCaller
from runtime.wire.codec import read
from runtime.wire.schema import fields_of
from tests.support.bodies import serves
from tests.support.operations import WITH_BODY, Body, Ids, body_of, edge_body, furnish, is_list, path_of, unknown_like
from tests.support.references import named_by, references, said_of_each, text_of, without_ids
from tests.support.shared import SharedService
from tests.support.stack import Stack, make_tenant
from tests.support.tables import Contents, contents


@dataclass(frozen=True)
class Two:
    """Ann's tenant and Bob's, each with one thing of every kind, and players of different names."""

    ann: Stack
    bob: Stack
    anns: Ids
    bobs: Ids
    rpc: RpcCaller

    async def contents(self) -> list[Contents]:
        return [await contents(database) for database in self.ann.engine.database.parts]

    async def ask(self, surface: str, operation: Operation, known: Ids) -> tuple[Any, ...]:
        """What Bob is answered when he names these things: (status, code, all the rest but the trace)."""
        path, verb = path_of(operation, known), operation.verb
        if surface == "rpc":
            return await self._call(operation, known)
        if surface == "core":
            asks = operation not in WITH_BODY and "player_id" in fields_of(operation.request)
            query = {"player_id": "player_bob"} if asks else {}
            answer = await self.bob.core(verb, path, core_body(operation, known), **query)
        elif surface == "consumer":
            body = edge_body(operation, known) if operation in WITH_BODY else None
            if body is not None:
                body.pop("player_id", None)
            answer = await self.bob.consumer(verb, path, body, player="player_bob")
        else:
            body = edge_body(operation, known) if operation in WITH_BODY else None
            answer = await self.bob.admin(verb, f"/admin{path}", body)
        return answer.http, answer.code, text_of(answer)

    async def _call(self, operation: Operation, known: Ids) -> tuple[Any, ...]:
        message, _ = read(operation.request, core_body(operation, known) or {})
        message.scope = m.Scope(tenant_id=self.bob.tenant_id)
        message.id = path_of(operation, known).split("/")[2 + operation.path.startswith(("/public", "/fulfillment"))]
        if "player_id" in fields_of(operation.request):
            message.player_id = "player_bob"
        try:
            return 0, "OK", str(await self.rpc.call(operation, message))
        except Fault as fault:
            return fault.http, fault.status.name, f"{fault.message} {fault.data}"


def core_body(operation: Operation, known: Ids) -> Body | None:
    return body_of(operation, known) if operation in WITH_BODY else None


@pytest_asyncio.fixture(scope="module")
async def two(module_service: SharedService) -> AsyncIterator[Two]:
    async with module_service.own_stack() as ann:
        bob = await make_tenant(ann, "tenant_bob")  # At home, wherever Ann is.
        rpc = RpcCaller([ann.process.rpc_address], deadline_seconds=30.0)
        yield Two(ann, bob, await furnish(ann, "player_ann"), await furnish(bob, "player_bob"), rpc)
        await rpc.close()


def served(surface: str, operation: Operation) -> bool:
    return operation.scoped and serves(surface, operation)


@pytest.mark.parametrize("surface", ("core", "rpc", "consumer", "admin"))
@pytest.mark.fault("Ids of another tenant", size="every route", figure="the answer of an unknown id")
async def test_id_of_another_tenants_thing_is_answered_as_an_unknown_id(two: Two, surface: str) -> None:
    before, unknown = await two.contents(), unknown_like(two.anns)
    operations = [row for row in OPERATIONS if "{id}" in row.path and served(surface, row)]
    assert len(operations) > 10 or surface == "consumer"
    told_apart = []
    for operation in operations:
        # Ann reads it first, so that a cache that leaks has it.
        if operation.verb == "GET" and surface == "consumer":
            await two.ann.consumer("GET", path_of(operation, two.anns), player="player_ann")
        theirs = without_ids(await two.ask(surface, operation, two.anns), two.anns)
        nobodys = without_ids(await two.ask(surface, operation, unknown), unknown)
        if theirs != nobodys:
            told_apart.append((operation.name, theirs, nobodys))
    assert told_apart == []
    assert await two.contents() == before


@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_list_shows_no_row_of_another_tenant(two: Two, surface: str) -> None:
    """Asked bare, and by every filter with Ann's ids; Bob's own rows are there, so that the list is one."""
    lists = [row for row in OPERATIONS if is_list(row) and served(surface, row)]
    assert lists
    leaks, empty = [], []
    for operation in lists:
        filters = [name for name in fields_of(operation.request) if name.endswith("_id") or name in ("q", "actor")]
        queries = [{}, *({name: two.anns.get(named_by((name,))) or two.anns["game"]} for name in filters)]
        if surface == "core" and "player_id" in filters:
            queries[0] = {"player_id": "player_bob"}
        for query in queries:
            path = path_of(operation, two.bobs)
            if surface == "core":
                answer = await two.bob.core("GET", path, **query)
            elif surface == "consumer":
                answer = await two.bob.consumer("GET", path, player="player_bob", **query)
            else:
                answer = await two.bob.admin("GET", "/admin" + path, **query)
            text = str(answer.envelope["data"])
            leaks += [
                (operation.name, query, kind)
                for kind, identifier in two.anns.items()
                if identifier not in query.values() and identifier != two.bobs[kind] and identifier in text
            ]
            # Nothing was delivered to an integration yet, nor mailed.
            unused = operation.subject == "integration" or operation.name == "ListPlayerMessages"
            if not query and not unused and not answer.data["items"]:
                empty.append(operation.name)
    assert (leaks, empty) == ([], [])


async def test_cursor_of_another_tenant_is_refused(two: Two) -> None:
    paths = {"/audit"}
    for operation in (row for row in OPERATIONS if row.creates and row.scoped):
        for _ in range(2):
            assert (await two.ann.core("POST", operation.path, body_of(operation, two.anns))).data, operation.name
        paths.add(operation.path)
    assert len(paths) > 5
    for path in sorted(paths):
        page = (await two.ann.admin("GET", f"/admin{path}", limit=1)).data["pagination"]
        assert page["has_more"], path
        answer = await two.bob.admin("GET", f"/admin{path}", limit=1, cursor=page["next_cursor"])
        assert (answer.http, answer.reason) == (400, "VALIDATION"), path


async def test_key_in_two_tenants_is_two_keys(two: Two) -> None:
    key = {"Idempotency-Key": "the-same"}
    answers = []
    for stack, known in ((two.ann, two.anns), (two.bob, two.bobs)):
        answers.append(
            await stack.consumer("POST", f"/games/{known['game']}/start", {}, player="player_both", headers=key)
        )
    assert answers[0].data["session_id"] != answers[1].data["session_id"]
    assert "Idempotency-Replayed" not in answers[1].headers


async def test_body_that_names_another_tenants_thing_is_answered_as_an_unknown_id(two: Two) -> None:
    unknown, tried, told_apart = unknown_like(two.anns), set(), []
    for operation in (row for row in WITH_BODY if row.scoped):
        for place in references(operation.request):
            if not named_by(place) or (place == ("player_id",) and not serves("admin", operation)):
                continue  # A player's id is the caller's word on Core, and is made on first use.
            if said := await said_of_each(two.bob, operation, two.bobs, place, two.anns, unknown):
                tried.add((operation.name, place[-1]))
                if said[0] != said[1]:
                    told_apart.append((operation.name, place, said))
    assert told_apart == []
    made = [row for row in WITH_BODY if row.creates and row.scoped]
    assert tried >= {(row.name, place[-1]) for row in made for place in references(row.request) if named_by(place)}
    fields = {field for _, field in tried}
    assert fields >= {"session_id", "milestone_id", "scope_key", "player_id", "guest_player_id", "fallback_prize_id"}


async def test_id_of_another_tenants_thing_is_never_stored(two: Two) -> None:
    refused, stored = 0, []
    for operation in (row for row in WITH_BODY if row.resource and row.scoped):
        for name in fields_of(fields_of(operation.request)[operation.resource].type):
            kind = named_by((name,))
            if not kind or not name.endswith("_id"):
                continue
            body = body_of(operation, two.bobs)
            body[operation.resource][name] = two.anns[kind]
            answer = await two.bob.core(operation.verb, path_of(operation, two.bobs), body)
            # An update ignores what cannot be changed.
            ignored = answer.http == 200 and two.anns[kind] not in text_of(answer) and not operation.creates
            if answer.http not in (400, 404) and not ignored:
                stored.append((operation.name, name, answer.envelope))
            refused += answer.http != 200
    assert stored == [] and refused >= 8
