import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest

from runtime import messages as m
from runtime.http.docs.document import Surface
from runtime.http.docs.openapi import document
from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import Kind, fields_of
from tests.support.bodies import Furnished, encode
from tests.support.operations import Body, Ids, body_of, furnish, path_of
from tests.support.stack import Stack
from tests.support.stack import fields_of as wrong_fields_of

CORES: Final = (
    *("' OR '1'='1", "'; DROP TABLE games; --", '" OR ""="', "1); DELETE FROM plays; --", "$1"),
    *("$$;select pg_sleep(9)$$", "E'\\x27'", "%s%n%d", "%' ESCAPE '_", "\\'", "$(id)", "`id`"),
    *("; cat /etc/passwd", "| nc 127.0.0.1 1", "&& true", "{{7*7}}", "${7*7}", "#{7*7}", "{0.__class__}"),
    *("%(name)s", "<% 7*7 %>", "{% raw %}", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
    *("javascript:alert(1)", "]]><!--", "&lt;&#x3c;&amp;", '{"a": 1}', '"}, "admin": true, {"', "\\u0000"),
    *('\\"', "null", "true", "NaN", "[]", "../../etc/passwd", "..\\..\\windows", "/dev/null"),
    *("file:///etc/passwd", "%2e%2e%2f", "%00", "C:\\", "=1+1", "@SUM(A1)", "+1", "-1"),
    *("\r\nSet-Cookie: a=b", "a\tb\nc", "\x1b[31mred\x1b[0m", "\x08\x7f\x01", "\u202eevil"),
    *("\u200bzero\u2060", "\ufeffbom", "\ufffd\ufffe\uffff", "e\u0301 \u00e9", "ﷺ", "𝕿𝖊𝖘𝖙", "👩‍👩‍👧‍👦🏳️‍🌈"),
    *("\U0010ffff\ue000", "İıſK", "ß ẞ ﬃ", "Ⅷ ½ ٣", "\u0300\u0301\u0302", "\u2028line\u2029"),
    *("\x85nel\xa0", "*)(uid=*))(|(uid=*", "' or count(/*)=1 or '", "{$gt: ''}", "*1\r\n$4\r\nPING"),
    *("sealed:1:AAAA", "__proto__", "constructor.prototype", "Infinity", "1e309", "0x41", "tenant_other"),
    *("}{", "{tenant_test}v:", "*", "_"),
)
WRAPS: Final = ("{}", "a{}", "{}z", "a{}z", "'{}'", '"{}"', "({})")
STRINGS: Final = [wrap.replace("{}", core) for wrap, core in itertools.product(WRAPS, CORES)][:500]
assert len(set(STRINGS)) == 500

FREE_NAMES: Final = frozenset({"name", "description", "display_name", "reason"})
FREE_FIELDS: Final = frozenset({(m.Game, "type"), (m.Prize, "type"), (m.Rung, "currency"), (m.Integration, "events")})

OF_LINES: Final = frozenset({"description", "reason"})

BREAKS: Final = frozenset("\r\n\t")
UNSEEN: Final = frozenset("\x01\x08\x1b\x7f\x85\u200b\u2028\u2029\u202e\u2060\ufeff\ufffe\uffff")
"""Those of the strings' characters that no text may hold which people are shown."""


def free_texts(message: Any, at: str = "") -> Iterator[str]:
    for name, field in fields_of(message).items():
        path = f"{at}{name}" + ("[0]" if field.repeated else "")
        if field.kind is Kind.MESSAGE and name != "scope":
            yield from free_texts(field.type, f"{path}.")
        elif field.kind is Kind.TEXT and not field.read_only and (name in FREE_NAMES or (message, name) in FREE_FIELDS):
            yield path


def is_taken(path: str, text: str) -> bool:
    return not (UNSEEN if path.rpartition(".")[2] in OF_LINES else UNSEEN | BREAKS) & set(text)


def sent(path: str, text: str) -> str:
    return text if is_taken(path, text) else "plain"


def free_objects(operation: Operation) -> list[str]:
    if not operation.resource:
        return []
    fields = fields_of(fields_of(operation.request)[operation.resource].type)
    return [f"{operation.resource}.{name}" for name in fields if name in {"settings", "ui", "attributes"}]


def is_open(operation: Operation) -> bool:
    updates_player = operation.has_body and operation.resource and operation.of_player
    return operation.creates or bool(updates_player) or "player_id" in (operation.example or {})


NO_SENDER: Final = "SENDER_UNAVAILABLE"
"""Of login codes: these tests have no mail server."""

STORING: Final = [row for row in OPERATIONS if is_open(row) and list(free_texts(row.request))]


def steps(path: str) -> list[str | int]:
    found: list[str | int] = []
    for part in path.replace("[", ".[").split("."):
        found.append(int(part[1:-1]) if part.startswith("[") else part)
    return found


def get(value: Any, path: str) -> Any:
    for step in steps(path):
        value = value[step]
    return value


def put(value: Any, path: str, item: Any) -> None:
    *first, last = steps(path)
    for step in first:
        value = value[step]
    value[last] = item


@pytest.mark.parametrize("operation", STORING, ids=lambda operation: operation.name)
@pytest.mark.parametrize("count", [len(CORES), pytest.param(500, marks=pytest.mark.nightly)])
@pytest.mark.fault(
    "Injection strings", size="500 in each free text", figure="stored as sent", smaller="one of seven by day"
)
async def test_free_text_is_stored_as_sent(module_stack: Stack, known: Ids, operation: Operation, count: int) -> None:
    resource = operation.resource
    updates = (row for row in OPERATIONS if row.verb == "PUT" and row.resource == resource)
    update = next(updates, None) if operation.creates else None
    stored: dict[str, str] = {}
    strings = STRINGS[:count]
    if "player_id" in body_of(operation, known):
        for index in range(count):
            body = {"player_id": player_of(operation, index), "player": {"locale": "en"}}
            assert (await module_stack.core("PUT", "/players/me", body)).data

    async def one(index: int) -> None:
        text, following = strings[index], strings[index - 1]
        made = await module_stack.core(operation.verb, path_of(operation, known), with_text(operation, known, text))
        check(operation, made.data, text)
        if update is None:
            return
        identifier = made.data[resource]["id"]
        path = update.path.replace("{id}", identifier)
        changed = await module_stack.core("PUT", path, with_text(operation, known, following))
        check(operation, changed.data, following)
        stored[identifier] = following

    for start in range(0, count, 10):
        await asyncio.gather(*(one(index) for index in range(start, min(start + 10, count))))
    if stored:
        # Tenants are listed beyond one's own where the scope names none.
        stack = replace(module_stack, tenant_id="") if resource == "tenant" else module_stack
        async for item in every(stack, operation.path):
            if item["id"] in stored:
                check(operation, {resource: item}, stored.pop(item["id"]))
        assert stored == {}
    if not resource:
        audited = (
            "SELECT player_id, reason FROM leaderboard_adjustments"
            " UNION SELECT player_id, reason FROM leaderboard_disqualifications"
        )
        reasons = {row["player_id"]: row["reason"] for row in await module_stack.database.fetch(audited)}
        for index, text in enumerate(strings):
            assert reasons[player_of(operation, index)] == sent("reason", text)


async def test_free_text_with_invisible_characters_is_refused_by_its_field(module_stack: Stack, known: Ids) -> None:
    failed = []
    for operation, text in itertools.product(STORING, (text for text in CORES if (UNSEEN | BREAKS) & set(text))):
        body = body_of(operation, known)
        for path in free_texts(operation.request):
            put(body, path, text)
        wrong = {path for path in free_texts(operation.request) if not is_taken(path, text)}
        answer = await module_stack.core(operation.verb, path_of(operation, known), body)
        if wrong and set(wrong_fields_of(answer)) != wrong:
            failed.append((operation.name, text, answer.envelope))
    assert failed == []


def player_of(operation: Operation, index: int) -> str:
    return f"player_{operation.name}_{index}"


def with_text(operation: Operation, known: Ids, text: str) -> Body:
    body = body_of(operation, known)
    for path in free_texts(operation.request):
        put(body, path, sent(path, text))
    for path in free_objects(operation):
        put(body, path, {text: [text, {"a": text}]})
    if "player_id" in body:
        body["player_id"] = player_of(operation, STRINGS.index(text))
    return body


def check(operation: Operation, reply: Body, text: str) -> None:
    for path in free_texts(operation.request):
        shown, wanted = get_or_none(reply, path), sent(path, text)
        assert shown == (wanted.strip() if path == "player.display_name" else wanted) or "." not in path, (path, text)
    for path in free_objects(operation):
        assert get(reply, path) == {text: [text, {"a": text}]}, (text, reply)


async def every(stack: Stack, path: str) -> AsyncIterator[dict[str, Any]]:
    cursor = ""
    while True:
        page = (await stack.core("GET", path, limit="100", **({"cursor": cursor} if cursor else {}))).data
        for item in page["items"]:
            yield item
        cursor = page["pagination"]["next_cursor"]
        if not cursor:
            return


def get_or_none(value: Any, path: str) -> Any:
    try:
        return get(value, path)
    except (KeyError, IndexError, TypeError):
        return None


def other_texts(message: Any, at: str = "") -> Iterator[str]:
    for name, field in fields_of(message).items():
        if name in ("scope", "update_mask"):
            continue
        path = f"{at}{name}" + ("[0]" if field.repeated else "")
        if field.kind is Kind.MESSAGE:
            yield from other_texts(field.type, f"{path}.")
        elif field.kind is Kind.TEXT:
            yield path


@pytest.mark.parametrize("chunk", [0, *(pytest.param(nth, marks=pytest.mark.nightly) for nth in (1, 2, 3))])
@pytest.mark.fault(
    "Injection strings", size="every other text field", figure="no 5xx", smaller="20 of the 500 in each, 5 by day"
)
async def test_text_in_any_other_field_is_never_an_internal_error(module_stack: Stack, chunk: int) -> None:
    """Every other text field of every operation: each gets a share of the strings, all of them in turn."""
    known = await furnish(
        module_stack, f"player_{chunk}"
    )  # One of its own: among the operations is the end of all logins.
    strings = itertools.cycle(STRINGS[chunk * 125 : (chunk + 1) * 125])
    sent, failed = 0, list[tuple[str, Any]]()
    for operation in (row for row in OPERATIONS if row.has_body and not row.streamed):
        tried, free = [], set(free_texts(operation.request)) if operation in STORING else set()
        for path in other_texts(operation.request):
            if path in free:
                continue
            for text in itertools.islice(strings, 5):
                body = body_of(operation, known)
                try:
                    put(body, path, text)
                except (KeyError, IndexError, TypeError):
                    continue  # the example has no such place, which `sent` below keeps rare
                tried.append(module_stack.core(operation.verb, path_of(operation, known), body))
        answers = await asyncio.gather(*tried)
        broken = [answer for answer in answers if answer.http >= 500 and answer.reason != NO_SENDER]
        failed += [(operation.name, answer.envelope) for answer in broken]
        sent += len(tried)
    assert failed == [] and sent >= 250


async def test_search_takes_every_string_literally(module_stack: Stack, known: Ids) -> None:
    names = [text for text in STRINGS[: len(CORES)] if is_taken("name", text)]
    for text in names:
        made = await module_stack.core("POST", "/prizes", {"prize": {"name": f"find {text} me", "type": "goods"}})
        assert made.data
    for text in names:
        items = (await module_stack.core("GET", "/prizes", q=f"find {text} me", limit="100")).data["items"]
        found = [prize["name"] for prize in items]
        assert f"find {text} me" in found
        assert {name.casefold() for name in found} == {f"find {text} me".casefold()} or len(found) == 1, (text, found)


SUBJECTS = {f"/{row.path.split('/')[1]}/{{id}}": row.subject for row in OPERATIONS if row.subject not in ("", "player")}
"""What the start of a path with an id names. Players' are left out: the one who asks would be signed out."""


class Bound(NamedTuple):
    """A place in an operation's body, and how much it may hold. lists: elements, else characters."""

    verb: str
    path: str
    body: Any
    place: tuple[str | int, ...]
    most: int
    lists: bool
    element: Any

    def __str__(self) -> str:
        return f"{self.verb} {self.path} {self.named}"

    @property
    def named(self) -> str:
        said = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place).removeprefix(".")
        return "id" if said == "prize_id" and "/prizes" in self.path else said  # An edge's other name for it.

    def with_so_much(self, much: int) -> Any:
        body = copy.deepcopy(self.body)
        inner: Any = body
        for step, following in zip(self.place, self.place[1:], strict=False):
            if isinstance(step, int):
                inner = inner[step]
            else:
                if not inner.get(step):
                    inner[step] = [{}] if isinstance(following, int) else {}
                inner = inner[step]
        value = [self.element] * much if self.lists else "x" * much
        if isinstance(self.place[-1], int):
            inner[:] = [value]
        else:
            inner[self.place[-1]] = value
        return body


def bounds(surface: Surface) -> Iterator[Bound]:
    found = document(surface)

    def resolved(schema: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in schema:
            return dict(found["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
        return schema

    def of(schema: dict[str, Any], place: tuple[str | int, ...]) -> Iterator[tuple[Any, ...]]:
        schema = resolved(schema)
        if schema.get("type") == "array":
            element = resolved(schema["items"])
            if "maxItems" in schema:
                yield place, schema["maxItems"], True, {} if element["type"] == "object" else "x"
            yield from of(element, (*place, 0))
        elif schema.get("type") == "string" and not {"enum", "pattern"} & schema.keys():
            yield place, schema["maxLength"], False, None
        for name, inner in schema.get("properties", {}).items():
            yield from of(inner, (*place, name))

    for path, verbs in found["paths"].items():
        for verb, row in verbs.items():
            content = row.get("requestBody", {}).get("content", {})
            if "application/json" not in content or "text/plain" in content or row["security"] == [{"signature": []}]:
                continue
            media = content["application/json"]
            for place, most, lists, element in of(media["schema"], ()):
                if place[0] != "scope":
                    yield Bound(verb.upper(), path, media["example"], place, most, lists, element)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("surface", ["core", "consumer", "admin"])
async def test_texts_and_lists_are_as_long_as_documented(furnished: Furnished, surface: Surface) -> None:
    found, wrong = list(bounds(surface)), []
    assert len(found) > (10 if surface == "consumer" else 40)
    for bound in found:
        known = next((kind for start, kind in SUBJECTS.items() if start in bound.path), "")
        path = bound.path.removeprefix("/api/v1").replace("{id}", furnished.known.get(known, "x_1"))

        async def violations(much: int, bound: Bound = bound, path: str = path) -> list[dict[str, str]]:
            body = bound.with_so_much(much)
            if surface == "core":
                body["scope"] = {"tenant_id": furnished.stack.tenant_id}
            status, envelope = await furnished.send(surface, bound.verb, path, encode(body))
            assert status < 500 or envelope["data"]["reason"] == NO_SENDER, (bound, envelope)
            return list(envelope["data"].get("violations", ()))

        refused = [row["field"] for row in await violations(bound.most + 1)]
        if not {bound.named, f"{bound.named}[0]"} & set(refused):
            wrong.append((str(bound), bound.most, "takes more", refused))
        taken = [row for row in await violations(bound.most) if row["field"] == bound.named]
        if [row for row in taken if "at most" in row["description"]]:
            wrong.append((str(bound), bound.most, "takes less", taken))
    assert wrong == []
