import os
import re
import tracemalloc
from typing import Any

import aiohttp
import pytest

from runtime.errors import Fault
from runtime.http import codes
from runtime.http.codes import JsonCodes
from runtime.http.docs.openapi import document
from runtime.operations import API
from runtime.operations.code_lines import CODE_CHARACTERS_MAX
from runtime.wire.code_lines import CsvLines, TextLines
from tests.support.resources import make_prize
from tests.support.stack import Answer

VOUCHER = {"fulfillment": {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "voucher_code"}}


async def send(stack: Any, prize_id: str, body: Any, content_type: str, **headers: str) -> Answer:
    return await stack.upload(f"/admin/prizes/{prize_id}/codes", body, content_type, headers=headers)


@pytest.fixture
async def prize_id(stack: Any) -> str:
    return await make_prize(stack, **VOUCHER)


FORMS = {"json": ('{"codes": ["A1", "B2", "A1", "", " C3 ", "has space"]}', "application/json")}
FORMS |= {"text": ("A1\nB2\r\nA1\n\t\n C3 \nhas space", "text/plain")}
FORMS |= {"csv": ('A1,x\n"B2",y\nA1,z\n,\n C3 ,\nhas space', "text/csv; charset=utf-8")}


@pytest.mark.parametrize("form", FORMS)
async def test_import_adds_or_names_each_line(stack: Any, prize_id: str, form: str) -> None:
    body, content_type = FORMS[form]
    data = (await send(stack, prize_id, body, content_type)).data
    empty = [{"line": 4, "reason": "is empty"}] if form == "json" else []
    wrong = {"line": 6, "reason": "contains white space or unprintable characters"}
    assert data.pop("errors") == [{"line": 3, "reason": "duplicate"}, *empty, wrong]
    assert data == {"added": 3, "duplicates": 1, "invalid": 1 + len(empty), "available": 3}


@pytest.mark.parametrize("surface", ["admin", "core"])
async def test_import_names_a_line_of_any_length(stack: Any, prize_id: str, surface: str) -> None:
    path = "/admin/prizes" if surface == "admin" else "/prizes"
    answer = await getattr(stack, surface)("POST", f"{path}/{prize_id}/codes", {"codes": ["A1", "x" * 20_000]})
    assert (answer.data["added"], [error["line"] for error in answer.data["errors"]]) == (1, [2])
    body = document(surface)["components"]["schemas"]["ImportCodesBody"]  # type: ignore[arg-type]
    assert body["properties"]["codes"]["items"] == {"type": "string"}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
async def test_csv_with_another_delimiter_is_read(stack: Any, prize_id: str, delimiter: str) -> None:
    text = '\ufeff"Code",expires_at\r\nA1,2029-12-31\r\nB2,2020-01-01\r\n"C3\r\n'.replace(",", delimiter)
    data = (await send(stack, prize_id, text, "text/csv")).data
    assert (data["added"], data["errors"][0]) == (1, {"line": 3, "reason": "has already expired"})
    assert data["errors"][1]["reason"].startswith("has an unbalanced quote")
    (item,) = (await stack.admin("GET", f"/admin/prizes/{prize_id}/codes")).data["items"]
    assert item["expires_at"] == 1_893_456_000


def test_csv_line_that_is_not_well_formed_is_refused() -> None:
    rows = ('"A1";x', '"A2', 'A3";x', 'A4";x', '"A5"6;x', 'A7;"one', "more", 'end"', 'A8;6" wide', '"A""9";', '"B1')
    lines = list(CsvLines().feed("\n".join(('"Voucher code";note', *rows, '"B2";x', ""))))
    assert [line.code for line in lines if not line.wrong] == ["A1", "A8", 'A"9', "B2"]
    wrong = {line.number: re.sub(r"\D*", "", line.wrong) or line.wrong[:23] for line in lines if line.wrong}
    assert wrong == dict.fromkeys((3, 5, 6, 7, 12), "has an unbalanced quote") | {4: "3", 8: "7", 9: "7"}
    unsplit = CsvLines().feed('A1;2020-01-01\nB2,4006381333931\nC3\t2020-01-01\nD4,2029-12-31\n"E5";"x"\n')
    assert ["".join(re.findall("tab|date", line.wrong)) for line in unsplit] == ["tab", "", "tab", "date", "tab"]
    for text in ("\nid,Code\n1,A1\n", "serial;expires_at\nA1;2036-12-31\n"):
        with pytest.raises(Fault, match=r"line [12]: a header must begin with `code`"):
            list(CsvLines().feed(text))


async def test_import_of_a_body_that_cannot_be_read_is_refused(stack: Any, prize_id: str) -> None:
    for body, content_type, http, fields in (
        ('{"codes": ["A1"]} x', "application/json", 400, [""]),
        *(('{"codes": []}', "application/json", 400, ["codes"]), (b"\xff\xfe", "text/plain", 400, [""])),
        *(("", "text/plain", 400, ["codes"]), ("A1", "application/xml", 415, [])),
    ):
        answer = await send(stack, prize_id, body, content_type)
        assert (answer.http, answer.code) == (http, "INVALID_ARGUMENT"), body
        assert [row["field"] for row in answer.envelope["data"].get("violations", [])] == fields, body


async def test_import_on_core_takes_scope_expiry_and_key_from_the_request(stack: Any, prize_id: str) -> None:
    assert (await stack.core("POST", f"/prizes/{prize_id}/codes", {"codes": ["A1"]})).data["available"] == 1
    url = f"{stack.process.core_url}{API}/prizes/{prize_id}/codes"
    query = {"scope.tenant_id": stack.tenant_id}
    async with stack.http.post(url, params=query, data="A1\nB2", headers={"Content-Type": "text/plain"}) as answer:
        assert (await answer.json())["data"]["added"] == 1
    whole = {"scope": {"tenantId": stack.tenant_id}, "codes": ["C3"], "expiresAt": "1893456000", "idempotencyKey": "k1"}
    again = [await stack.core("POST", f"/prizes/{prize_id}/codes", whole) for _ in range(2)]
    assert [one.data["added"] for one in again] == [1, 1], "the second is a replay"
    assert await stack.database.fetchval("SELECT count(*) FROM codes WHERE expires_at = '2030-01-01Z'") == 1
    with pytest.raises(Fault, match="expires_at: must be before codes"):
        list(JsonCodes().feed('{"codes": [' + ", ".join(['"A"'] * 3_000) + '], "expires_at": 1}'))


async def test_import_with_a_broken_end_says_how_many_were_added(stack: Any, prize_id: str) -> None:
    body = '{"codes": [' + ",".join(f'"CODE{number}"' for number in range(6_000)) + ", 7]}"
    answer = await send(stack, prize_id, body, "application/json")
    assert answer.http == 400
    assert answer.envelope["data"]["added"] == 5_000


FAILING = """
    CREATE SEQUENCE tries;
    CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('tries') BETWEEN {first} AND {last} THEN RAISE 'no room' USING ERRCODE = '53300'; END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER fails BEFORE INSERT ON codes FOR EACH STATEMENT EXECUTE FUNCTION fail();
"""


@pytest.mark.own_service
@pytest.mark.parametrize(("last", "http"), [(2, 200), (9_999, 503)])
async def test_import_goes_on_where_the_store_refused_it(
    stack: Any, prize_id: str, monkeypatch: pytest.MonkeyPatch, last: int, http: int
) -> None:
    """A part is tried again; where that is in vain, the same import under its key adds the rest."""
    monkeypatch.setattr(codes, "PAUSES_SECONDS", (0.0,))
    monkeypatch.setattr(codes, "PARTS_AT_ONCE", 1)
    monkeypatch.setattr(codes, "PART", 10)
    await stack.database.execute(FAILING.format(first=2, last=last))
    body = "\n".join(f"CODE{number}" for number in range(35))
    answer = await send(stack, prize_id, body, "text/plain")
    assert answer.http == http
    if http == 503:
        report = answer.envelope["data"]
        assert (report["added"], report["lines"]) == (10, 10)
        await stack.database.execute("DROP TRIGGER fails ON codes")
        answer = await send(stack, prize_id, body, "text/plain", **{"Idempotency-Key": report["idempotency_key"]})
    assert [answer.data[name] for name in ("added", "duplicates", "available")] == [35, 0, 35]


@pytest.mark.parametrize("thousands", [20, pytest.param(100, marks=pytest.mark.nightly)])
async def test_import_of_many_codes_needs_little_memory(stack: Any, prize_id: str, thousands: int) -> None:
    async def body() -> Any:
        yield b'{"codes": ['
        for part in range(thousands):
            codes = ", ".join(f'"{os.urandom(8).hex()}"' for _ in range(1_000))
            yield (codes + (", " if part < thousands - 1 else "")).encode()
        yield b"]}"

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    answer = await send(stack, prize_id, aiohttp.AsyncIterablePayload(body()), "application/json")
    grown = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert answer.data["added"] == answer.data["available"] == thousands * 1_000
    assert grown < 40 * 2**20


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_readers_read_the_same_from_any_chunks(size: int) -> None:
    texts = {
        JsonCodes: '{ "scope": {"tenant_id": "t"} , "codes" : [ "a\\u00e9\\"b" , "c]" ,"d,e"\n,\t"\\ud83d\\ude00"] }',
        TextLines: "a\r\nb\n\nc",
        CsvLines: '"a,1",x\r\nb\n\n"c"\n',
    }
    for make, text in texts.items():
        whole, cut = make(), make()
        expected = [*whole.feed(text), *whole.end()]
        pieces = [line for start in range(0, len(text), size) for line in cut.feed(text[start : start + size])]
        assert [*pieces, *cut.end()] == expected
        assert expected
        assert cut.fields == whole.fields


def test_readers_keep_no_endless_value() -> None:
    reader = TextLines()
    for _ in range(100):
        assert list(reader.feed("x" * 65_536)) == []
    [line] = reader.end()
    assert line.number == 1 and CODE_CHARACTERS_MAX < len(line.code) < 100_000
    for value in ('"' + "x" * 200_000, "[" * 200_000):
        with pytest.raises(Fault):
            list(JsonCodes().feed('{"codes": [' + value))
