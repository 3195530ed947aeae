"""Every field of every body, wrong in every way that its type can be: 400 in the envelope, the field named,
nothing changed.

The fields are those that game.proto has (`runtime.wire.schema`), so one that is new is tried too.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from runtime.http import consumer
from runtime.http.edge import INTERNAL
from runtime.operations import Operation
from runtime.wire.schema import OBJECT_DEPTH_MAX, TEXT_CHARACTERS_MAX, Field, Kind, fields_of
from tests.support.bodies import HALF, NUL, Furnished, Raw, bodies_of, encode
from tests.support.operations import WITH_BODY, Body, Ids, body_of, path_of, whole_body

BATCH: Final = 20
LONG: Final = "x" * (TEXT_CHARACTERS_MAX + 1)


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
    """What is wrong with the refusal; empty where nothing is."""
    body = encode(one.body)
    status, envelope = await furnished.send(surface, operation.verb, path, body)
    told = (status, envelope["code"], envelope["data"]["reason"])
    named = [row["field"] for row in envelope["data"].get("violations", [])]
    if told == (400, "INVALID_ARGUMENT", "VALIDATION") and one.path[:200] in named:
        return ()
    return surface, operation.name, one.path, body[:300], envelope


def named_as(place: tuple[Any, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


CLOSED: Final = {"admin": INTERNAL, "consumer": consumer.CLOSED}
"""Fields that come from elsewhere: the path and the headers, and on an edge the token."""


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
"""Numbers that may be negative, and those that are read, and passed over where they are sent back."""


def numbers(message: Any, body: Body, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for name, field in fields_of(message).items():
        if name == "scope" or name in SIGNED:
            continue
        place = (*at, name)
        if field.kind in (Kind.INT32, Kind.INT64) and not field.repeated:
            yield place
        elif field.kind is Kind.MESSAGE:
            yield from numbers(field.type, body, (*place, 0) if field.repeated else place)


async def test_negative_count_is_refused_by_its_path(furnished: Furnished) -> None:
    before, tried, failed = await furnished.contents(), set(), []
    for operation in WITH_BODY:
        for place in numbers(operation.request, {}):
            if operation.streamed:
                continue
            body = {"scope": {"tenant_id": furnished.known["tenant"]}, **whole_body(operation, furnished.known)}
            inner: Any = body
            for step, below in itertools.pairwise(place):
                inner = inner[step] if isinstance(step, int) else inner.setdefault(step, [] if below == 0 else {})
                if inner == []:
                    inner.append({})
            inner[place[-1]] = -1
            path = named_as(place)
            status, envelope = await furnished.send(
                "core", operation.verb, path_of(operation, furnished.known), encode(body)
            )
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            own = path.removeprefix(f"{operation.resource}.")
            if status != 400 or own not in named:
                failed.append((operation.name, path, envelope))
            tried.add(path)
    assert failed == []
    assert {"game.rules.max_plays_per_day", "prize.stock.total", "quest.turns", "campaign.end_date"} <= tried
    assert await furnished.contents() == before


def required(operation: Operation, message: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of a body without which it is refused: what game.proto says, but for what an update keeps."""
    updates = "update_mask" in fields_of(operation.request)
    for name, field in fields_of(message).items():
        place = (*at, name)
        if field.required and not (updates and at):
            yield place
        if field.kind is Kind.MESSAGE and name != "scope" and not (updates and at):
            yield from required(operation, field.type, (*place, 0) if field.repeated else place)


def without(body: Body, place: tuple[Any, ...]) -> bool:
    """Removes what stands at the place; False where the body has nothing there."""
    inner: Any = body
    for step in place[:-1]:
        if not inner or (isinstance(step, str) and step not in inner):
            return False
        inner = inner[step]
    return inner.pop(place[-1], None) is not None


async def test_missing_required_field_is_named(furnished: Furnished) -> None:
    before, tried, failed = await furnished.contents(), 0, []
    for operation in (row for row in WITH_BODY if not row.streamed):
        for place in required(operation, operation.request):
            body = {"scope": {"tenant_id": furnished.known["tenant"]}, **body_of(operation, furnished.known)}
            if not without(body, place):
                continue
            status, envelope = await furnished.send(
                "core", operation.verb, path_of(operation, furnished.known), encode(body)
            )
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            path = named_as(place)
            own = path.removeprefix(f"{operation.resource}.")
            if status != 400 or not any(row.startswith(own) for row in named):
                failed.append((operation.name, path, envelope))
            tried += 1
    assert failed == []
    assert tried > 60
    assert await furnished.contents() == before
