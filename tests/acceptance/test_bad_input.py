"""Every field of every body, wrong in every way that its type can be: 400 in the envelope, the field named,
nothing changed. And bodies that are no bodies at all.

The fields are those that game.proto has (`runtime.wire.schema`), so one that is new is tried too.
TOMBOLA_FUZZ_BODIES sets how many bodies hypothesis makes (10,000 takes a minute).
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from runtime.http import admin, consumer
from runtime.operations import API, BY_NAME, OPERATIONS, Operation
from runtime.wire.schema import OBJECT_DEPTH_MAX, TEXT_CHARACTERS_MAX, Field, Kind, fields_of
from tests.support.operations import WITH_BODY, Body, Ids, body_of, furnish, path_of
from tests.support.stack import Stack, new_stack, settings_of
from tests.support.tables import contents

BODIES: Final = int(os.environ.get("TOMBOLA_FUZZ_BODIES", "300"))
BATCH: Final = 20

NUL: Final = "a\0b"
HALF: Final = "a\ud83d"
"""Half of a surrogate pair."""
LONG: Final = "x" * (TEXT_CHARACTERS_MAX + 1)


class Raw(str):
    """JSON that no Python value makes."""


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


WRONG: Final[dict[Kind, list[Any]]] = {
    Kind.TEXT: [1, True, [], {}, NUL, HALF, LONG],
    Kind.INT32: ["1", "x", 1.5, True, [], {}, 2**31, -(2**31) - 1, 2**63, 2**64, 10**40, Raw("1e999"), Raw("-1e999")],
    Kind.INT64: ["x", "1.0", str(2**63), "\u0663", 1.5, True, [], {}, 2**63, -(2**63) - 1, 10**40, Raw("1e999")],
    Kind.NUMBER: ["1", True, [], {}, Raw("1e999"), 10**400],
    Kind.FLAG: [0, 1, "true", [], {}],
    Kind.ENUM: [1, 0, True, [], {}, "", "NOPE", "UNSPECIFIED", HALF, NUL],
    Kind.OBJECT: [1, "x", True, []],
    Kind.MESSAGE: [1, "x", True, []],
    Kind.MAP: [1, "x", {}, {"a": 1}],
}
WITHIN: Final[list[tuple[Any, str]]] = [
    ({"a": NUL}, ".a"),
    ({"a": {"b": [1, HALF]}}, ".a.b[1]"),
    ({"a": 2**63}, ".a"),
    ({"a": Raw("1e999")}, ".a"),
    ({NUL: 1}, ""),
    (deep(OBJECT_DEPTH_MAX + 1), ".a" * OBJECT_DEPTH_MAX),
]
"""A free-form object's content, and the path to what is wrong with it."""


@dataclass(frozen=True)
class Try:
    """A body with one thing wrong, and the path of it."""

    body: Body
    path: str


def encode(value: Any) -> str:
    """JSON, with `Raw` as it is written."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{encode(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(encode, value)) + "]"
    return json.dumps(value)


def wrong_values(field: Field) -> Iterator[tuple[Any, str]]:
    """(value, what is added to the field's path)."""
    for value in WRONG[field.kind]:
        if field.repeated:
            yield [value], "[0]"
        elif not (field.kind is Kind.OBJECT and value == {}):
            yield value, ""
    if field.repeated:
        yield from ((value, "") for value in (1, "x", True, {}))
    if field.kind is Kind.OBJECT and not field.repeated:
        yield from WITHIN


def tries(message: Any, body: Body, closed: frozenset[str] = frozenset(), at: tuple[Any, ...] = ()) -> Iterator[Try]:
    """The body with each field of the message wrong in each way, and with one that is none."""
    if len(at) > 8:
        return

    def with_value(place: tuple[Any, ...], value: Any) -> Body:
        made = copy.deepcopy(body)
        inner: Any = made
        for step in place[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(step, str) else inner[step]
        inner[place[-1]] = value
        return made

    def said(place: tuple[Any, ...]) -> str:
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")

    for name, field in fields_of(message).items():
        place = (*at, name)
        if name in closed:
            yield Try(with_value(place, "x"), said(place))
            continue
        for value, more in wrong_values(field):
            yield Try(with_value(place, value), said(place) + more)
        if field.kind is Kind.MESSAGE:
            if field.repeated:
                inner = with_value(place, [{}])
                yield from tries(field.type, inner, frozenset(), (*place, 0))
            else:
                yield from tries(field.type, body, frozenset(), place)
    yield Try(with_value((*at, "surprise"), 1), said((*at, "surprise")))


@dataclass(frozen=True)
class World:
    stack: Stack
    known: Ids

    async def contents(self) -> dict[str, tuple[int, str]]:
        return await contents(self.stack.database)

    async def send(
        self, surface: str, verb: str, path: str, data: bytes | str, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """(HTTP status, the envelope)."""
        process = self.stack.process
        base = {"core": process.core_url, "consumer": process.consumer_url, "admin": process.admin_url}[surface]
        token = {
            "core": "",
            "consumer": self.stack.token(self.known["player"]),
            "admin": self.stack.token("staff", ("admin", "platform")),
        }[surface]
        sent = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", **(headers or {})}
        sent.pop("Authorization") if not token else None
        async with self.stack.http.request(verb, base + API + path, data=data, headers=sent) as answer:
            envelope = await answer.json()
            assert list(envelope) == ["code", "message", "trace_id", "data"]
            return answer.status, envelope


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(module_database_url: str, valkey_url: str) -> AsyncIterator[World]:
    async with new_stack(settings_of(module_database_url, valkey_url)) as stack:
        yield World(stack, await furnish(stack))


async def refused(world: World, surface: str, operation: Operation, path: str, one: Try) -> None:
    body = encode(one.body)
    status, envelope = await world.send(surface, operation.verb, path, body)
    about = (surface, operation.name, one.path, body[:300], envelope)
    assert (status, envelope["code"], envelope["data"]["reason"]) == (400, "INVALID_ARGUMENT", "VALIDATION"), about
    named = [row["field"] for row in envelope["data"]["violations"]]
    assert one.path[:200] in named, about


CLOSED: Final = {
    "admin": frozenset({"scope", "id", "idempotency_key", "update_mask", "guest_player_id"}),
    "consumer": frozenset({"scope", "id", "idempotency_key", "update_mask", "guest_player_id", "player_id"}),
}
"""Fields that come from elsewhere: the path and the headers, and on an edge the token."""

OWN: Final = {"ImportCodes"}
"""Its body is read as it arrives, by a reader of its own: below."""


def bodies_of(surface: str) -> Iterator[tuple[Operation, str]]:
    """(operation, prefix of its path) of each operation with a body that the surface serves."""
    rows = {"core": {row.name for row in OPERATIONS}, "admin": {r.operation for r in admin.ROWS}}
    rows["consumer"] = {row.operation for row in consumer.ROWS}
    for operation in WITH_BODY:
        if operation.name in rows[surface] - OWN:
            yield operation, "/admin" if surface == "admin" else ""


def messages_of(surface: str, operation: Operation, known: Ids) -> tuple[Any, Body, frozenset[str]]:
    """(the message that a body is, one that is right, the fields that it may not have)."""
    body, message = body_of(operation, known), operation.request
    if surface == "core":
        return message, {"scope": {"tenant_id": "tenant_test"}, **body}, frozenset()
    if operation.resource:
        return fields_of(message)[operation.resource].type, body[operation.resource], frozenset()
    if surface == "consumer":
        body.pop("player_id", None)
    return message, body, CLOSED[surface]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_each_wrong_field_is_refused_by_its_path(world: World, surface: str) -> None:
    before, count = await world.contents(), 0
    for operation, prefix in bodies_of(surface):
        message, body, closed = messages_of(surface, operation, world.known)
        path = prefix + path_of(operation, world.known)
        every = list(tries(message, body, closed))
        for start in range(0, len(every), BATCH):
            some = every[start : start + BATCH]
            await asyncio.gather(*(refused(world, surface, operation, path, one) for one in some))
        count += len(every)
    assert count > (1000 if surface != "consumer" else 100)
    assert await world.contents() == before


SIGNED: Final = {"amount", "delta", "value", "id", "revision", "created_at", "updated_at", "remaining", "awarded"}
"""Numbers that may be negative, and those that are read, and passed over where they are sent back."""


def numbers(message: Any, body: Body, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a body's whole numbers that must not be negative."""
    for name, field in fields_of(message).items():
        if name == "scope" or name in SIGNED:
            continue
        place = (*at, name)
        if field.kind in (Kind.INT32, Kind.INT64) and not field.repeated:
            yield place
        elif field.kind is Kind.MESSAGE:
            yield from numbers(field.type, body, (*place, 0) if field.repeated else place)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_counts_is_not_negative(world: World) -> None:
    before, tried = await world.contents(), set()
    for operation in WITH_BODY:
        for place in numbers(operation.request, {}):
            if operation.name in OWN:
                continue
            body = {"scope": {"tenant_id": "tenant_test"}, **body_of(operation, world.known)}
            inner: Any = body
            for step in place[:-1]:
                inner = inner[step] if isinstance(step, int) else inner.setdefault(step, {})
                if inner == []:
                    inner.append({})
            inner[place[-1]] = -1
            path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")
            status, envelope = await world.send("core", operation.verb, path_of(operation, world.known), encode(body))
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            own = path.removeprefix(f"{operation.resource}.")
            assert status == 400 and own in named, (operation.name, path, envelope)
            tried.add(path)
    assert {"game.rules.max_plays_per_day", "prize.stock.total", "quest.turns", "campaign.end_date"} <= tried
    assert await world.contents() == before


REQUIRED: Final = {
    "CreateCampaign": "name",
    "CreateGame": "name campaign_id reward_handler handler_config milestones.rungs[0].currency"
    " milestones.rungs[0].threshold milestones.rungs[0].prize_id",
    "CreatePrize": "name fulfillment.config.url",
    "CreateQuest": "name campaign_id",
    "CreateLeaderboard": "name metric prizes[0].from_rank prizes[0].to_rank prizes[0].prize_id",
    "CreateIntegration": "type events config.url",
    "CreateTenant": "name",
    "CreateMerchant": "name",
    "AdjustBalance": "player_id scope_key currency amount",
    "DisqualifyPlayer": "player_id",
    "AdjustScore": "player_id delta reason",
    "EmitEvent": "type",
    "Play": "session_id",
    "Redeem": "player_id milestone_id",
    "ClaimReward": "player_id",
    "CompleteQuest": "player_id",
    "UpdatePlayer": "player_id",
    "LinkContact": "player_id contact",
    "ResolvePlayer": "contact",
}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_missing_is_named(world: World) -> None:
    before = await world.contents()
    for name, paths in REQUIRED.items():
        operation = BY_NAME[name]
        for path in paths.split():
            body = {"scope": {"tenant_id": "tenant_test"}, **body_of(operation, world.known)}
            inner: Any = body if path in body else body.get(operation.resource, body)
            *steps, last = path.replace("[0]", ".0").split(".")
            for step in steps:
                inner = inner[int(step)] if step.isdigit() else inner[step]
            inner.pop(last)
            status, envelope = await world.send("core", operation.verb, path_of(operation, world.known), encode(body))
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            assert status == 400 and any(row == path or row.startswith(path) for row in named), (name, path, envelope)
    assert await world.contents() == before


WHOLE: Final[dict[str, bytes]] = {
    "cut short": b'{"name": "x',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "NaN": b'{"name": NaN}',
    "a comment": b'{"name": 1 /* one */}',
    "a comma too many": b'{"name": "x",}',
    "two bodies": b"{}{}",
    "a list": b"[]",
    "a text": b'"x"',
    "null": b"null",
    "a number of 5,000 digits": b'{"name": ' + b"9" * 5_000 + b"}",
    "lists in lists": b"[" * 100_000,
    "lists in lists, closed": b"[" * 100_000 + b"]" * 100_000,
    "objects in objects": b'{"a":' * 30_000 + b"1" + b"}" * 30_000,
    "a control character": b'{"name": "\x01"}',
    "the same field twice": b'{"surprise": 1, "surprise": 2}',
    "a field without a name": b'{"": 1}',
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_what_is_no_body_is_refused(world: World, surface: str) -> None:
    before = await world.contents()
    for operation, prefix in bodies_of(surface):
        path = prefix + path_of(operation, world.known)
        for why, body in WHOLE.items():
            status, envelope = await world.send(surface, operation.verb, path, body)
            assert (status, envelope["data"]["reason"]) == (400, "VALIDATION"), (operation.name, why, envelope)
    assert await world.contents() == before


@pytest.mark.asyncio(loop_scope="module")
async def test_the_import_of_codes_names_what_is_wrong(world: World) -> None:
    before = await world.contents()
    wrong = {
        '{"codes": 1}': "codes",
        '{"codes": ["A", 1]}': "codes[1]",
        '{"codes": [null]}': "codes[0]",
        '{"surprise": 1}': "surprise",
        '{"codes": ["A"], "surprise": []}': "surprise",
        '{"codes": ["A"': "",
        '{"codes": [' + "[" * 10_000: "",
    }
    for surface, prefix in (("admin", "/admin"), ("core", "")):
        path = f"{prefix}/prizes/{world.known['prize']}/codes"
        for body, field in wrong.items():
            if surface == "core":
                body = '{"scope": {"tenant_id": "tenant_test"}, ' + body[1:]
            status, envelope = await world.send(surface, "POST", path, body)
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            assert (status, named) == (400, [field]), (surface, body[:80], envelope)
        for line in (NUL, "x" * 600, "\x01"):
            status, envelope = await world.send(surface, "POST", path, encode({"codes": [line]}))
            assert status == 400 or envelope["data"]["invalid"] == 1, (line, envelope)
        assert (await world.send(surface, "POST", path, b'{"codes": ["\xff"]}'))[0] == 400
        status, envelope = await world.send(surface, "POST", path, b'{"codes": ["\\ud800"]}')
        assert status == 400 or envelope["data"]["invalid"] == 1, envelope
    assert await world.contents() == before


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_ten_megabytes_and_what_is_compressed_are_refused_unread(world: World, surface: str) -> None:
    path = "/admin/campaigns" if surface == "admin" else f"/games/{world.known['game']}/play"
    status, envelope = await world.send(surface, "POST", path, b'{"name": "' + b"x" * 10_000_000 + b'"}')
    assert (status, envelope["code"], envelope["data"]["reason"]) == (413, "INVALID_ARGUMENT", "BODY_TOO_LARGE")
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "nonsense"):
        status, envelope = await world.send(surface, "POST", path, bomb, {"Content-Encoding": encoding})
        assert (status, envelope["code"], envelope["data"]["reason"]) == (
            415,
            "INVALID_ARGUMENT",
            "ENCODING_UNSUPPORTED",
        )


@pytest.mark.asyncio(loop_scope="module")
async def test_ids_and_queries_that_are_wrong_are_refused_by_name(world: World) -> None:
    for operation in OPERATIONS:
        rows = fields_of(operation.request)
        if "{id}" in operation.path:
            for wrong in ("%00", "a%00b", "x" * 7_000):
                path = operation.path.replace("{id}", wrong)
                body = encode({"scope": {"tenant_id": "tenant_test"}}) if operation in WITH_BODY else ""
                query = "" if body else "?scope.tenant_id=tenant_test"
                status, envelope = await world.send("core", operation.verb, path + query, body)
                assert status in (400, 404) or operation.name == "VerifyCallback", (wrong[:9], envelope)
                named = [row["field"] for row in envelope["data"].get("violations", [])]
                assert status == 404 or named == ["id"] or "%" not in wrong or operation.name in OWN, (
                    operation.name,
                    wrong[:9],
                    envelope,
                )
        if operation.verb != "GET":
            continue
        path = path_of(operation, world.known)
        wrong_by_kind = {
            Kind.TEXT: ["%00", "x" * 10_001],
            Kind.INT32: ["x", "1.5", "", "2147483648", "9223372036854775808", "1e3", "٣"],
            Kind.ENUM: ["NOPE", "", "1", "%00"],
        }
        for name, field in rows.items():
            for value in wrong_by_kind.get(field.kind, []) if name != "id" else []:
                if len(value) > 8_000:
                    continue  # aiohttp refuses so long a line itself: no field to name.
                query = f"?scope.tenant_id=tenant_test&{name}={value}"
                status, envelope = await world.send("core", "GET", path + query, "")
                named = [row["field"] for row in envelope["data"].get("violations", [])]
                assert (status, set(named)) == (400, {name}), (operation.name, name, value, envelope)
        if "limit" in rows:
            for limit in ("0", "-1", "101", "99999999999999999999"):
                status, envelope = await world.send("core", "GET", f"{path}?scope.tenant_id=t&limit={limit}", "")
                assert status == 400 and envelope["data"]["violations"][0]["field"] == "limit", (operation.name, limit)
        if "cursor" in rows:
            for cursor in ("x", "eyJhIjoxfQ", "%F0%9F%98%80", "A" * 2_000):
                query = f"?scope.tenant_id=tenant_test&player_id=p&cursor={cursor}"
                status, envelope = await world.send("core", "GET", path + query, "")
                assert status == 400 and envelope["data"]["violations"][0]["field"] == "cursor", operation.name


# -- bodies that hypothesis makes ------------------------------------------------------------

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["", NUL, "game_x", "active", "GAME_STATUS_ACTIVE", "probability", "points", "9" * 30, "-0"]),
    st.sampled_from([Raw("1e999"), Raw('"\\ud800"'), Raw("-0"), Raw("1E400"), Raw("NaN"), Raw("0.1e-400")]),
)
names = st.one_of(
    st.sampled_from(sorted({name for row in OPERATIONS for name in fields_of(row.request)})),
    st.sampled_from(["name", "prizes", "handler_config", "prize_id", "probability", "config", "url", "rungs", "items"]),
    st.text(max_size=6),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)
operations = st.sampled_from([row for row in WITH_BODY if row.name not in OWN])


def resource_of(operation: Operation) -> st.SearchStrategy[Any]:
    """A body with the fields that the operation has, some of them left as they should be."""
    fields = [name for name in fields_of(operation.request) if name != "scope"]
    inner = fields_of(fields_of(operation.request)[operation.resource].type) if operation.resource else {}
    of_fields = st.dictionaries(st.sampled_from(fields), values, max_size=4) if fields else st.just({})
    if not inner:
        return of_fields
    one = st.dictionaries(st.sampled_from(list(inner)), values, max_size=6)
    return st.one_of(of_fields, one.map(lambda value: {operation.resource: value}))


asked = operations.flatmap(
    lambda operation: st.tuples(st.just(operation), st.one_of(resource_of(operation), values), st.booleans())
)


@pytest.mark.asyncio(loop_scope="module")
@bounded(
    max_examples=max(1, BODIES // BATCH),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(made=st.lists(asked, min_size=BATCH, max_size=BATCH))
async def test_no_body_that_can_be_made_up_is_an_error_of_ours(
    world: World, made: list[tuple[Operation, Any, bool]]
) -> None:
    async def send(operation: Operation, body: Any, fits: bool) -> None:
        if fits and isinstance(body, dict):
            right = body_of(operation, world.known)
            body = {"scope": {"tenant_id": "tenant_test"}, **right, **body}
            if operation.resource and isinstance(body.get(operation.resource), dict):
                body[operation.resource] = {**right[operation.resource], **body[operation.resource]}
        data = encode(body).encode(errors="surrogatepass")
        status, envelope = await world.send("core", operation.verb, path_of(operation, world.known), data)
        assert status < 500, (operation.name, data, envelope)

    await asyncio.gather(*(send(*one) for one in made))
