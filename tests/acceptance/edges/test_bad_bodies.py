"""Malformed bodies, wrong ids and wrong queries (generated ones: test_schemathesis.py)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from runtime.http.login import rows as login_rows
from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import Kind, fields_of
from tests.support.bodies import NUL, Furnished, bodies_of, encode, serves
from tests.support.operations import WITH_BODY, Ids, path_of

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

MISNAMED: Final[dict[str, str]] = {
    "half a surrogate pair": '{"\\ud800": 1}',
    "half a surrogate pair, within": '{"scope": {"\\ud800": 1}}',
    "a value that is half a pair": '{"scope": {"tenant_id": "\\ud800"}}',
    "NUL": '{"\\u0000": 1}',
    "25,000 names": encode({f"{number:x}": 1 for number in range(25_000)}),
    "names of 9,000 characters": encode({f"{number}{'x' * 9_000}": 1 for number in range(20)}),
}
REFUSAL_BYTES_MAX: Final = 16 * 1024
"""More than anybody reads of what is wrong with a body."""


def every_path(surface: str, known: Ids) -> Iterator[tuple[str, str]]:
    prefix = "/admin" if surface == "admin" else ""
    yield from ((row.verb, prefix + path_of(row, known)) for row in WITH_BODY if serves(surface, row))
    if surface == "consumer":
        yield from (("POST", row.path) for row in login_rows.ROWS)


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_body_with_odd_names_is_refused_by_a_short_answer(furnished: Furnished, surface: str) -> None:
    before, failed = await furnished.contents(), []
    for verb, path in every_path(surface, furnished.known):
        for why, body in MISNAMED.items():
            if surface == "admin" and path.endswith("/codes") and body.startswith('{"scope"'):
                continue  # Of Core's body there: an edge says the scope itself.
            status, envelope = await furnished.send(surface, verb, path, body)
            told = (status, envelope["data"]["reason"])
            if told != (400, "VALIDATION") or len(json.dumps(envelope)) >= REFUSAL_BYTES_MAX:
                failed.append((path, why, envelope))
    assert failed == []
    assert await furnished.contents() == before


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_malformed_body_is_refused_by_every_operation(furnished: Furnished, surface: str) -> None:
    before, failed = await furnished.contents(), []
    for operation, prefix in bodies_of(surface):
        path = prefix + path_of(operation, furnished.known)
        for why, body in WHOLE.items():
            status, envelope = await furnished.send(surface, operation.verb, path, body)
            if (status, envelope["data"]["reason"]) != (400, "VALIDATION"):
                failed.append((operation.name, why, envelope))
    assert failed == []
    assert await furnished.contents() == before


async def test_import_of_codes_names_what_is_wrong(furnished: Furnished) -> None:
    before = await furnished.contents()
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
        path = f"{prefix}/prizes/{furnished.known['prize']}/codes"
        for body, field in wrong.items():
            if surface == "core":
                body = f'{{"scope": {{"tenant_id": "{furnished.known["tenant"]}"}}, ' + body[1:]
            status, envelope = await furnished.send(surface, "POST", path, body)
            named = [row["field"] for row in envelope["data"].get("violations", [])]
            assert (status, named) == (400, [field]), (surface, body[:80], envelope)
        for line in (NUL, "x" * 600, "\x01"):
            status, envelope = await furnished.send(surface, "POST", path, encode({"codes": [line]}))
            assert status == 400 or envelope["data"]["invalid"] == 1, (line, envelope)
        assert (await furnished.send(surface, "POST", path, b'{"codes": ["\xff"]}'))[0] == 400
        status, envelope = await furnished.send(surface, "POST", path, b'{"codes": ["\\ud800"]}')
        assert status == 400 or envelope["data"]["invalid"] == 1, envelope
    assert await furnished.contents() == before


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_body_of_ten_megabytes_or_compressed_is_refused_unread(furnished: Furnished, surface: str) -> None:
    path = "/admin/campaigns" if surface == "admin" else f"/games/{furnished.known['game']}/play"
    status, envelope = await furnished.send(surface, "POST", path, b'{"name": "' + b"x" * 10_000_000 + b'"}')
    assert (status, envelope["code"], envelope["data"]["reason"]) == (413, "INVALID_ARGUMENT", "BODY_TOO_LARGE")
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    for encoding in ("gzip", "deflate", "br", "gzip, gzip", "nonsense"):
        status, envelope = await furnished.send(surface, "POST", path, bomb, {"Content-Encoding": encoding})
        assert (status, envelope["code"], envelope["data"]["reason"]) == (
            415,
            "INVALID_ARGUMENT",
            "ENCODING_UNSUPPORTED",
        )


WRONG_QUERIES: Final[dict[Kind, list[str]]] = {
    Kind.TEXT: ["%00"],
    Kind.INT32: ["x", "1.5", "", "2147483648", "9223372036854775808", "1e3", "٣"],
    Kind.ENUM: ["NOPE", "", "1", "%00"],
}


async def test_wrong_id_or_query_is_refused_by_name(furnished: Furnished) -> None:
    failed: list[tuple[Any, ...]] = []
    tenant = f"scope.tenant_id={furnished.known['tenant']}"

    async def ask(operation: Operation, path: str, body: str = "") -> tuple[int, list[str], Any]:
        status, envelope = await furnished.send("core", operation.verb, path, body)
        return status, [row["field"] for row in envelope["data"].get("violations", [])], envelope

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
        wrongs = [
            (name, one) for name, field in rows.items() if name != "id" for one in WRONG_QUERIES.get(field.kind, [])
        ]
        wrongs += [("limit", one) for one in ("0", "-1", "101", "9" * 20) if "limit" in rows]
        path = f"{path_of(operation, furnished.known)}?{tenant}"
        for name, value in wrongs:
            status, named, envelope = await ask(operation, f"{path}&{name}={value}")
            if (status, set(named)) != (400, {name}):
                failed.append((operation.name, name, value, envelope))
        for cursor in ("x", "eyJhIjoxfQ", "%F0%9F%98%80", "A" * 2_000) if "cursor" in rows else ():
            status, named, envelope = await ask(operation, f"{path}&player_id=p&cursor={cursor}")
            if (status, named[:1]) != (400, ["cursor"]):
                failed.append((operation.name, cursor, envelope))
    assert failed == []
