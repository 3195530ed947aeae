import asyncio
import copy
import gzip
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from runtime.http import consumer
from runtime.http.edge import INTERNAL
from runtime.http.login import rows as login_rows
from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import OBJECT_DEPTH_MAX, TEXT_CHARACTERS_MAX, Field, Kind, fields_of
from tests.support.bodies import HALF, NUL, Furnished, Raw, bodies_of, encode, serves
from tests.support.operations import WITH_BODY, Body, Ids, body_of, path_of, whole_body

BATCH: Final = 20


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


WRONG: Final[dict[Kind, list[Any]]] = {
    Kind.TEXT: [1, True, [], {}, NUL, HALF, "x" * (TEXT_CHARACTERS_MAX + 1)],
    Kind.INT32: ["1.5", "x", 1.5, True, [], {}, 2**31, -(2**31) - 1, 2**63, 2**64, 10**40, Raw("1e999"), Raw("-1e999")],
    Kind.INT64: ["x", "1.0", str(2**63), "\u0663", 1.5, True, [], {}, 2**63, -(2**63) - 1, 10**40, Raw("1e999")],
    Kind.NUMBER: ["one", True, [], {}, Raw("1e999"), 10**400],
    Kind.FLAG: [0, 1, "true", [], {}],
    Kind.ENUM: [99, 1.5, True, [], {}, "", "NOPE", "UNSPECIFIED", HALF, NUL],
    Kind.OBJECT: [1, "x", True, []],
    Kind.MESSAGE: [1, "x", True, []],
    Kind.MAP: [1, "x", {}, {"a": 1}],
}
ROUNDS: Final = {kind: itertools.cycle(values) for kind, values in WRONG.items()}
WITHIN: Final[list[tuple[Any, str]]] = [
    *(({"a": NUL}, ".a"), ({"a": {"b": [1, HALF]}}, ".a.b[1]"), ({"a": 2**63}, ".a"), ({"a": Raw("1e999")}, ".a")),
    *(({NUL: 1}, ""), (deep(OBJECT_DEPTH_MAX + 1), ".a" * OBJECT_DEPTH_MAX)),
]


@dataclass(frozen=True)
class Try:
    """A body with one thing wrong, and the path of it."""

    body: Body
    path: str


def some_wrong(kind: Kind) -> list[Any]:
    """The wrong values to try with the next field of the kind: all of them nightly, else the next few."""
    if os.environ.get("TOMBOLA_NIGHTLY"):
        return WRONG[kind]
    return list(itertools.islice(ROUNDS[kind], 2))


def wrong_values(field: Field) -> Iterator[tuple[Any, str]]:
    """(value, what is added to the field's path)."""
    for value in some_wrong(field.kind):
        if field.repeated:
            yield [value], "[0]"
        elif not (field.kind is Kind.OBJECT and value == {}):
            yield value, ""
    if field.repeated:
        yield from ((value, "") for value in (1, "x", True, {}))
    if field.kind is Kind.OBJECT and not field.repeated:
        yield from WITHIN


def tries(message: Any, body: Body, closed: frozenset[str] = frozenset(), at: tuple[Any, ...] = ()) -> Iterator[Try]:
    if len(at) > 8:
        return

    def with_value(place: tuple[Any, ...], value: Any) -> Body:
        made = copy.deepcopy(body)
        inner: Any = made
        for step in place[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(step, str) else inner[step]
        inner[place[-1]] = value
        return made

    for name, field in fields_of(message).items():
        place = (*at, name)
        if name in closed:
            yield Try(with_value(place, "x"), named_as(place))
            continue
        for value, more in wrong_values(field):
            yield Try(with_value(place, value), named_as(place) + more)
        if field.kind is Kind.MESSAGE:
            if field.repeated:
                inner = with_value(place, [{}])
                yield from tries(field.type, inner, frozenset(), (*place, 0))
            else:
                yield from tries(field.type, body, frozenset(), place)
    yield Try(with_value((*at, "surprise"), 1), named_as((*at, "surprise")))


async def is_refused(furnished: Furnished, surface: str, operation: Operation, path: str, one: Try) -> tuple[Any, ...]:
    body = encode(one.body)
    status, envelope = await furnished.send(surface, operation.verb, path, body)
    refusal = (status, envelope["code"], envelope["data"]["reason"])
    named = [row["field"] for row in envelope["data"].get("violations", [])]
    if refusal == (400, "INVALID_ARGUMENT", "VALIDATION") and one.path[:200] in named:
        return ()
    return surface, operation.name, one.path, body[:300], envelope


def named_as(place: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


CLOSED: Final = {"admin": INTERNAL, "consumer": consumer.CLOSED}


def messages_of(surface: str, operation: Operation, known: Ids) -> tuple[Any, Body, frozenset[str]]:
    """(the message that a body is, one that is right, the fields that it may not have)."""
    body, message = body_of(operation, known), operation.request
    if surface == "core":
        return message, {"scope": {"tenant_id": known["tenant"]}, **body}, frozenset()
    if operation.resource:
        return fields_of(message)[operation.resource].type, body[operation.resource], frozenset()
    if surface == "consumer":
        body.pop("player_id", None)
    return message, body, CLOSED[surface]


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_wrong_field_is_refused_by_its_path(furnished: Furnished, surface: str) -> None:
    before, count, failed = await furnished.contents(), 0, list[tuple[Any, ...]]()
    for operation, prefix in bodies_of(surface):
        message, body, closed = messages_of(surface, operation, furnished.known)
        path = prefix + path_of(operation, furnished.known)
        every = list(tries(message, body, closed))
        for start in range(0, len(every), BATCH):
            some = every[start : start + BATCH]
            found = await asyncio.gather(*(is_refused(furnished, surface, operation, path, one) for one in some))
            failed += filter(None, found)
        count += len(every)
    assert failed == []
    assert count > (1000 if surface != "consumer" else 100)
    assert await furnished.contents() == before


SIGNED: Final = {
    *("amount", "delta", "value", "id", "revision", "created_at", "updated_at", "remaining", "awarded"),
    *("last_used_at", "revoked_at", "used_at"),
}
"""Numbers that may be negative, and those that the service sets."""


def numbers(message: Any, body: Body, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, field in fields_of(message).items():
        if name == "scope" or name in SIGNED:
            continue
        place = (*at, name)
        if field.kind in (Kind.INT32, Kind.INT64) and not field.repeated:
            yield place
        elif field.kind is Kind.MESSAGE and not field.read_only:
            yield from numbers(field.type, body, (*place, 0) if field.repeated else place)


async def test_negative_count_is_refused_by_its_path(furnished: Furnished) -> None:
    before, tried, failed = await furnished.contents(), set(), []
    for call in WITH_BODY:
        for place in numbers(call.request, {}):
            if call.streamed:
                continue
            body = {"scope": {"tenant_id": furnished.known["tenant"]}, **whole_body(call, furnished.known)}
            inner: Any = body
            for step, below in itertools.pairwise(place):
                inner = inner[step] if isinstance(step, int) else inner.setdefault(step, [] if below == 0 else {})
                if inner == []:
                    inner.append({})
            inner[place[-1]] = -1
            path = named_as(place)
            status, envelope = await furnished.send("core", call.verb, path_of(call, furnished.known), encode(body))
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            own = path.removeprefix(f"{call.resource}.")
            if status != 400 or own not in named:
                failed.append((call.name, path, envelope))
            tried.add(path)
    assert failed == []
    assert {"game.rules.max_plays_per_day", "prize.stock.total", "quest.turns", "campaign.end_date"} <= tried
    assert await furnished.contents() == before


OTHERS: Final[dict[Kind, Any]] = {
    Kind.TEXT: "other",
    Kind.INT32: 5,
    Kind.INT64: 5,
    Kind.FLAG: True,
    Kind.ENUM: None,
    Kind.MESSAGE: [{}],
}


async def test_read_only_field_is_refused_by_name_unless_it_is_stored(furnished: Furnished) -> None:
    tried, failed = set(), []

    async def ask(operation: Operation, resource: Body, due: int, field: str = "") -> Any:
        body = {"scope": {"tenant_id": furnished.known["tenant"]}, **whole_body(operation, furnished.known)}
        body[operation.resource] = resource
        path = path_of(operation, furnished.known)
        status, envelope = await furnished.send("core", operation.verb, path, encode(body))
        named = [row["field"] for row in envelope["data"].get("violations", [])]
        if status != due or (field and field not in named):
            failed.append((operation.name, field, status, envelope))
        return envelope["data"].get(operation.resource)

    for operation in (row for row in WITH_BODY if row.resource):
        resource = whole_body(operation, furnished.known)[operation.resource]
        for name, field in fields_of(fields_of(operation.request)[operation.resource].type).items():
            if field.read_only and (other := OTHERS[field.kind]) is not None:
                await ask(operation, {**resource, name: other}, 400, name if field.kind is not Kind.MESSAGE else "")
                tried.add((operation.name, name))
        stored = await ask(operation, resource, 200)
        if operation.verb == "PUT":
            await ask(operation, {name: value for name, value in stored.items() if name != "secret"}, 200)
    assert failed == []
    assert {("CreateMerchant", "tenant_id"), ("UpdateGame", "created_at"), ("CreateTenant", "id")} <= tried
    prize = {"name": "Mug", "type": "goods", "stock": {"total": 5, "remaining": 4}}
    body = {"scope": {"tenant_id": furnished.known["tenant"]}, "prize": prize}
    _, envelope = await furnished.send("core", "POST", "/prizes", encode(body))
    assert [row["field"] for row in envelope["data"]["violations"]] == ["stock.remaining"]


MALFORMED: Final[dict[str, bytes | str]] = {
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
    "half a surrogate pair": '{"\\ud800": 1}',
    "half a surrogate pair, within": '{"scope": {"\\ud800": 1}}',
    "a value that is half a pair": '{"scope": {"tenant_id": "\\ud800"}}',
    "NUL": '{"\\u0000": 1}',
    "25,000 names": encode({f"{number:x}": 1 for number in range(25_000)}),
    "names of 9,000 characters": encode({f"{number}{'x' * 9_000}": 1 for number in range(20)}),
}


def every_path(surface: str, known: Ids) -> Iterator[tuple[str, str]]:
    prefix = "/admin" if surface == "admin" else ""
    yield from ((row.verb, prefix + path_of(row, known)) for row in WITH_BODY if serves(surface, row))
    if surface == "consumer":
        yield from (("POST", row.path) for row in login_rows.ROWS)


@pytest.mark.fault("Bad JSON", size="24 malformed bodies, depth 100,000; every route", figure="400, nothing changed")
@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_malformed_body_is_refused_by_a_short_answer(furnished: Furnished, surface: str) -> None:
    before, failed = await furnished.contents(), []
    for verb, path in every_path(surface, furnished.known):
        for why, body in MALFORMED.items():
            status, envelope = await furnished.send(surface, verb, path, body)
            refusal = (status, envelope["data"]["reason"])
            if refusal != (400, "VALIDATION") or len(json.dumps(envelope)) >= 16 * 1024:
                failed.append((path, why, envelope))
    assert failed == []
    assert await furnished.contents() == before


@pytest.mark.fault(
    "Oversized, compressed bomb, 64 MiB RPC message", size="10 MB, and 10 MB in 20 kB", figure="413, 415"
)
@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_body_of_ten_megabytes_or_compressed_is_refused_unread(furnished: Furnished, surface: str) -> None:
    path = "/admin/campaigns" if surface == "admin" else f"/games/{furnished.known['game']}/play"
    status, envelope = await furnished.send(surface, "POST", path, b'{"name": "' + b"x" * 10_000_000 + b'"}')
    assert (status, envelope["code"], envelope["data"]["reason"]) == (413, "INVALID_ARGUMENT", "BODY_TOO_LARGE")
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "nonsense"):
        status, envelope = await furnished.send(surface, "POST", path, bomb, {"Content-Encoding": encoding})
        assert (status, envelope["data"]["reason"]) == (415, "ENCODING_UNSUPPORTED")


async def test_wrong_id_or_query_is_refused_by_name(furnished: Furnished) -> None:
    failed: list[tuple[Any, ...]] = []
    tenant = f"scope.tenant_id={furnished.known['tenant']}"

    async def ask(operation: Operation, path: str, body: str = "") -> tuple[int, list[str], Any]:
        status, envelope = await furnished.send("core", operation.verb, path, body)
        return status, [row["field"] for row in envelope["data"].get("violations", [])], envelope

    wrong_queries: dict[Kind, list[str]] = {
        Kind.TEXT: ["%00"],
        Kind.INT32: ["x", "1.5", "", "2147483648", "9223372036854775808", "1e3", "٣"],
        Kind.ENUM: ["NOPE", "", "99", "%00"],
    }
    for operation in OPERATIONS:
        rows = fields_of(operation.request)
        for wrong in ("%00", "a%00b", "x" * 7_000) if "{id}" in operation.path else ():
            path = operation.path.replace("{id}", wrong)
            body = encode({"scope": {"tenant_id": furnished.known["tenant"]}}) if operation in WITH_BODY else ""
            status, named, envelope = await ask(operation, path if body else f"{path}?{tenant}", body)
            verified = envelope["data"].get("verified")  # A question that may be answered by no.
            is_named = status == 404 or named == ["id"] or "%" not in wrong or operation.streamed
            if not (status in (400, 404) or verified is False) or not is_named:
                failed.append((operation.name, wrong[:9], envelope))
        if operation.verb != "GET":
            continue
        bad = [(name, it) for name, field in rows.items() if name != "id" for it in wrong_queries.get(field.kind, [])]
        bad += [("limit", one) for one in ("0", "-1", "101", "9" * 20) if "limit" in rows]
        path = f"{path_of(operation, furnished.known)}?{tenant}"
        for name, value in bad:
            status, named, envelope = await ask(operation, f"{path}&{name}={value}")
            if (status, set(named)) != (400, {name}):
                failed.append((operation.name, name, value, envelope))
        for cursor in ("x", "eyJhIjoxfQ", "%F0%9F%98%80", "A" * 2_000) if "cursor" in rows else ():
            status, named, envelope = await ask(operation, f"{path}&player_id=p&cursor={cursor}")
            if (status, named[:1]) != (400, ["cursor"]):
                failed.append((operation.name, cursor, envelope))
    assert failed == []
