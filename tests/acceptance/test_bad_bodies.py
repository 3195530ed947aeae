"""Bodies that are no bodies at all, wrong ids and queries, and bodies that hypothesis makes up.

TOMBOLA_FUZZ_BODIES sets how many (10,000 takes a minute).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from runtime.http.login import rows as login_rows
from runtime.operations import OPERATIONS, Operation
from runtime.wire.schema import Kind, fields_of
from tests.support.bodies import NUL, Furnished, Raw, bodies_of, encode, serves
from tests.support.operations import WITH_BODY, Ids, body_of, path_of

BODIES: Final = int(os.environ.get("TOMBOLA_FUZZ_BODIES", "300"))
BATCH: Final = 20


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
    """(verb, path) of every route of the surface with a body, those beside the table too."""
    prefix = "/admin" if surface == "admin" else ""
    yield from ((row.verb, prefix + path_of(row, known)) for row in WITH_BODY if serves(surface, row))
    if surface == "consumer":
        yield from (("POST", row.path) for row in login_rows.ROWS)


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_names_as_nobody_writes_them_are_refused_in_few_words(furnished: Furnished, surface: str) -> None:
    before = await furnished.contents()
    for verb, path in every_path(surface, furnished.known):
        for why, body in MISNAMED.items():
            if surface == "admin" and path.endswith("/codes") and body.startswith('{"scope"'):
                continue  # Of Core's body there: an edge says the scope itself.
            status, envelope = await furnished.send(surface, verb, path, body)
            assert (status, envelope["data"]["reason"]) == (400, "VALIDATION"), (path, why, envelope)
            assert len(json.dumps(envelope)) < REFUSAL_BYTES_MAX, (path, why)
    assert await furnished.contents() == before


@pytest.mark.parametrize("surface", ["core", "admin", "consumer"])
async def test_what_is_no_body_is_refused(furnished: Furnished, surface: str) -> None:
    before = await furnished.contents()
    for operation, prefix in bodies_of(surface):
        path = prefix + path_of(operation, furnished.known)
        for why, body in WHOLE.items():
            status, envelope = await furnished.send(surface, operation.verb, path, body)
            assert (status, envelope["data"]["reason"]) == (400, "VALIDATION"), (operation.name, why, envelope)
    assert await furnished.contents() == before


async def test_the_import_of_codes_names_what_is_wrong(furnished: Furnished) -> None:
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
async def test_ten_megabytes_and_what_is_compressed_are_refused_unread(furnished: Furnished, surface: str) -> None:
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


async def test_ids_and_queries_that_are_wrong_are_refused_by_name(furnished: Furnished) -> None:
    for operation in OPERATIONS:
        rows = fields_of(operation.request)
        if "{id}" in operation.path:
            for wrong in ("%00", "a%00b", "x" * 7_000):
                path = operation.path.replace("{id}", wrong)
                body = encode({"scope": {"tenant_id": furnished.known["tenant"]}}) if operation in WITH_BODY else ""
                query = "" if body else f"?scope.tenant_id={furnished.known['tenant']}"
                status, envelope = await furnished.send("core", operation.verb, path + query, body)
                verified = envelope["data"].get("verified")  # of who asks whether, and hears no
                assert status in (400, 404) or verified is False, (wrong[:9], envelope)
                named = [row["field"] for row in envelope["data"].get("violations", [])]
                assert status == 404 or named == ["id"] or "%" not in wrong or operation.streamed, (
                    operation.name,
                    wrong[:9],
                    envelope,
                )
        if operation.verb != "GET":
            continue
        path = path_of(operation, furnished.known)
        wrong_by_kind = {
            Kind.TEXT: ["%00", "x" * 10_001],
            Kind.INT32: ["x", "1.5", "", "2147483648", "9223372036854775808", "1e3", "٣"],
            Kind.ENUM: ["NOPE", "", "1", "%00"],
        }
        for name, field in rows.items():
            for value in wrong_by_kind.get(field.kind, []) if name != "id" else []:
                if len(value) > 8_000:
                    continue  # aiohttp refuses so long a line itself: no field to name.
                query = f"?scope.tenant_id={furnished.known['tenant']}&{name}={value}"
                status, envelope = await furnished.send("core", "GET", path + query, "")
                named = [row["field"] for row in envelope["data"].get("violations", [])]
                assert (status, set(named)) == (400, {name}), (operation.name, name, value, envelope)
        if "limit" in rows:
            for limit in ("0", "-1", "101", "99999999999999999999"):
                status, envelope = await furnished.send("core", "GET", f"{path}?scope.tenant_id=t&limit={limit}", "")
                assert status == 400 and envelope["data"]["violations"][0]["field"] == "limit", (operation.name, limit)
        if "cursor" in rows:
            for cursor in ("x", "eyJhIjoxfQ", "%F0%9F%98%80", "A" * 2_000):
                query = f"?scope.tenant_id={furnished.known['tenant']}&player_id=p&cursor={cursor}"
                status, envelope = await furnished.send("core", "GET", path + query, "")
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
operations = st.sampled_from([row for row in WITH_BODY if not row.streamed])


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


@bounded(
    max_examples=max(1, BODIES // BATCH),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(made=st.lists(asked, min_size=BATCH, max_size=BATCH))
async def test_no_body_that_can_be_made_up_is_an_error_of_ours(
    furnished: Furnished, made: list[tuple[Operation, Any, bool]]
) -> None:
    async def send(operation: Operation, body: Any, fits: bool) -> None:
        if fits and isinstance(body, dict):
            right = body_of(operation, furnished.known)
            body = {"scope": {"tenant_id": furnished.known["tenant"]}, **right, **body}
            if operation.resource and isinstance(body.get(operation.resource), dict):
                body[operation.resource] = {**right[operation.resource], **body[operation.resource]}
        data = encode(body).encode(errors="surrogatepass")
        status, envelope = await furnished.send("core", operation.verb, path_of(operation, furnished.known), data)
        assert status < 500, (operation.name, data, envelope)

    await asyncio.gather(*(send(*one) for one in made))
