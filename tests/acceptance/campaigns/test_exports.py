import asyncio
import csv
import io
import itertools
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import pytest_asyncio
from pyarrow import parquet
from structlog.testing import capture_logs

from runtime import messages as m
from runtime.commands.groups.export import _Csv
from runtime.errors import Fault, Status
from runtime.http.feeds import downloads
from runtime.http.feeds import exports as feed
from runtime.operations import API
from runtime.operations.reporting.exports import EXPORTS, ROWS
from tests.support.operations import Ids, furnish
from tests.support.operator import Operator
from tests.support.resources import make_campaign
from tests.support.stack import OTHER_TENANT, Stack, fields_of, make_tenant, refused
from tests.support.waiting import until

PLAYS = 10_000


@pytest_asyncio.fixture(scope="module")
async def many(module_stack: Stack, known: Ids) -> AsyncIterator[str]:
    await make_tenant(module_stack, "tenant_many", module_stack.database)
    await module_stack.database.execute(
        """INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES ('tenant_many', 'g', 'c', 'G', 'x')"""
    )
    await module_stack.database.execute(
        f"""INSERT INTO plays (tenant_id, play_id, game_id, player_id, session_id, revision, seed, client_seed, payload,
                               outcome, score, wins, points)
            SELECT 'tenant_many', 'play_' || lpad(n::text, 26, '0'), 'g', 'p' || n % 100, '', 1, '\\x00', 'seed ' || n,
                   '{{}}', '{{}}', n, 0, 0
            FROM generate_series(1, {PLAYS}) AS n"""
    )
    yield "tenant_many"


async def bytes_of(stack: Stack, name: str, *, roles: tuple[str, ...] = ("admin",), **query: Any) -> bytes:
    headers = {"Authorization": f"Bearer {stack.token('staff_test', roles)}"}
    url = f"{stack.process.admin_url}{API}/admin/exports/{name}"
    async with stack.http.get(url, params=query, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["Content-Type"] == feed.CONTENT_TYPES[query.get("format", "csv")]
        assert answer.headers["Cache-Control"] == "no-store"
        return await answer.read()


async def text_of(stack: Stack, name: str, **query: Any) -> str:
    return (await bytes_of(stack, name, **query)).decode()


async def rows_of(stack: Stack, name: str, **query: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(await text_of(stack, name, **query), newline="")))


async def test_export_of_each_kind_has_every_row_of_its_time_and_campaign(module_stack: Stack, known: Ids) -> None:
    expected = {"plays": "play", "rewards": "reward", "winners": "reward", "ledger": "entry", "tasks": "task"}
    expected |= {"play_receipts": "play", "participants": "participant", "redemptions": "redemption", "views": "view"}
    now, failed = int(await module_stack.database.fetchval("SELECT extract(epoch FROM now())::float8")), []
    for name in EXPORTS:
        rows = await rows_of(module_stack, name)
        first = [next(iter(row.values())) for row in rows]
        facts = {
            "whole": name == "audit" or known[expected[name]] in [row["id"] for row in rows],
            "once": len(set(first)) == len(first),
            "in order": name == "ledger" or first == sorted(first),
            "of its time": await rows_of(module_stack, name, **{"from": now - 3600, "to": now + 3600}) != [],
            "not after": await rows_of(module_stack, name, **{"from": now + 3600}) == [],
            "not before": await rows_of(module_stack, name, to=now - 3600) == [],
            "of its campaign": name == "audit"
            or [next(iter(row.values())) for row in await rows_of(module_stack, name, campaign_id=known["campaign"])]
            == first,
        }
        failed += [(name, fact) for fact, holds in facts.items() if not holds]
    assert failed == []


async def test_export_resumes_after_its_last_whole_line(module_stack: Stack, many: str) -> None:
    stack = replace(module_stack, tenant_id=many)
    whole = [row["id"] for row in await rows_of(stack, "plays")]
    assert len(whole) == PLAYS and sorted(set(whole)) == whole
    headers = {"Authorization": f"Bearer {stack.token('staff_test', ('admin',))}"}
    async with stack.http.get(f"{stack.process.admin_url}{API}/admin/exports/plays", headers=headers) as answer:
        held = await answer.content.readexactly(300_000)
    lines = held.decode().split("\r\n")[:-1]
    rest = await text_of(stack, "plays", cursor=lines[-1].split(",")[0])
    assert [line.split(",")[0] for line in (*lines[1:], *rest.split("\r\n")[:-1])] == whole


async def test_parquet_export_has_the_values_of_the_json_lines_with_their_types(
    module_stack: Stack, known: Ids
) -> None:
    def shown(cell: Any, by_json: Any) -> Any:
        if isinstance(cell, datetime):
            return int(cell.timestamp()) if isinstance(by_json, int) else f"{cell:%Y-%m-%dT%H:%M:%SZ}"
        return json.loads(cell) if isinstance(by_json, dict | list) else str(cell) if isinstance(cell, date) else cell

    types: dict[str, str] = {}
    for name in EXPORTS:
        lines = [json.loads(line) for line in (await text_of(module_stack, name, format="jsonl")).splitlines()]
        read = parquet.read_table(io.BytesIO(await bytes_of(module_stack, name, format="parquet")))
        # The audit log has an entry more: that of the first export.
        pairs = list(zip(read.to_pylist(), lines, strict=name != "audit"))
        assert [{key: shown(cell, line[key]) for key, cell in row.items()} for row, line in pairs] == lines != [], name
        empty = parquet.read_table(io.BytesIO(await bytes_of(module_stack, name, format="parquet", **{"from": 2**33})))
        assert (empty.num_rows, empty.schema) == (0, read.schema)
        types |= {field.name: str(field.type) for field in read.schema}
    time = "timestamp[ms, tz=UTC]"
    expected = {"score": "int64", "value": "double", "won_at": time, "hour": time, "fields": "string", "erased": "bool"}
    assert expected.items() <= types.items()


async def test_parquet_export_is_written_in_groups(
    module_stack: Stack, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed.parquet, "GROUP_ROWS", PLAYS // 4)
    stack = replace(module_stack, tenant_id=many)
    read = parquet.ParquetFile(io.BytesIO(await bytes_of(stack, "plays", format="parquet")))
    assert (read.metadata.num_row_groups, read.metadata.num_rows) == (4, PLAYS)
    monkeypatch.setattr(feed.parquet, "is_available", lambda: False)
    for form, why in (("parquet", "pip install 'tombola[parquet]'"), ("xml", "csv, jsonl, parquet")):
        refused = await stack.admin("GET", "/admin/exports/plays", format=form)
        assert fields_of(refused) == ["format"] and why in str(refused.envelope)


@pytest.fixture
def refuse_parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception, tuple[int, ...]], None]:
    real, parts = feed._part, itertools.count(1)

    def refuse(fault: Exception, at: tuple[int, ...]) -> None:
        async def failing(edge: Any, message: Any) -> Any:
            if next(parts) in at:
                raise fault
            return await real(edge, message)

        monkeypatch.setattr(feed, "_part", failing)

    return refuse


@pytest.mark.parametrize("error", [Fault(Status.INTERNAL, "INTERNAL", "broken"), RuntimeError("a bug")])
async def test_export_is_cut_where_a_part_fails(
    module_stack: Stack, many: str, refuse_parts: Any, error: Exception
) -> None:
    refuse_parts(error, (3,))
    with capture_logs() as logs, pytest.raises(aiohttp.ClientPayloadError):
        await text_of(replace(module_stack, tenant_id=many), "plays")
    logged = [line["exc_info"] for line in logs if line["event"] == "download_failed"]
    assert logged == [error] * isinstance(error, RuntimeError)


async def test_export_ends_where_its_columns_change(
    module_stack: Stack, known: Ids, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = iter(("id", "id,x", "id,x", "id,x"))

    async def part(edge: Any, message: Any) -> m.ReadExportReply:
        head, after = next(heads), "" if message.after or message.since else "entry_1"
        return m.ReadExportReply(head=f"{head}\r\n", lines="entry_1\r\n", after=after, columns=head.split(","))

    monkeypatch.setattr(feed, "_part", part)
    ran = await Operator(module_stack, tmp_path)("export", "participants", "--out", "x")
    assert (ran.code, list(tmp_path.iterdir())) == (1, []) and "columns changed" in ran.err, "resumed once"


async def test_export_asks_again_for_a_part_that_is_unavailable(
    module_stack: Stack, many: str, refuse_parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_parts(Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away"), (2, 5))
    monkeypatch.setattr(downloads, "PAUSE_SECONDS", 0.01)
    assert len(await rows_of(replace(module_stack, tenant_id=many), "plays")) == PLAYS


async def test_export_part_has_a_bounded_number_of_rows(module_stack: Stack, many: str) -> None:
    answer = await replace(module_stack, tenant_id=many).core("GET", "/exports", name="plays")
    assert int(answer.data["rows"]) == ROWS and answer.data["after"]
    assert answer.data["lines"].count("\r\n") == ROWS


async def test_export_cells_are_never_formulas(module_stack: Stack, known: Ids) -> None:
    start = await module_stack.consumer("POST", f"/games/{known['game']}/start", {}, player="player_bob")
    body = {"session_id": start.data["session_id"], "payload": {}, "client_seed": "=HYPERLINK(1)"}
    played = await module_stack.consumer("POST", f"/games/{known['game']}/play", body, player="player_bob")
    [row] = [row for row in await rows_of(module_stack, "plays") if row["id"] == played.data["play_id"]]
    assert row["client_seed"] == "'=HYPERLINK(1)"
    for name in EXPORTS:
        rows = csv.reader(io.StringIO(await text_of(module_stack, name), newline=""))
        begins = {cell[:1] for row in rows for cell in row if not cell.removeprefix("-").isdigit()}
        assert not begins & set("=+-@"), name


@pytest.mark.settings(role_matrix="strict")
async def test_export_masks_contacts_by_role_and_merchant(stack: Stack) -> None:
    open_to_all = await furnish(stack, "player_ann")
    merchant_id = open_to_all["merchant"]
    own = await furnish(stack, "player_bob", merchant_id=merchant_id)
    change = "UPDATE players SET display_name = 'N ' || player_id, locale = 'de' WHERE tenant_id = $1"
    await stack.database.execute(change, stack.tenant_id)
    await stack.database.execute(
        "INSERT INTO contacts (tenant_id, contact_id, player_id, type, value) VALUES"
        " ($1, 'c1', 'player_ann', 'phone', '+15550100'), ($1, 'c2', 'player_bob', 'phone', '+15550199')",
        stack.tenant_id,
    )

    async def winners(asking: Stack, role: str) -> dict[str, tuple[str, ...]]:
        rows = await rows_of(asking, "winners", roles=(role,))
        assert "theirs" not in rows[0]
        shown = ("player_id", "display_name", "locale", "email", "phone")
        return {row["campaign_id"]: tuple(row[name] for name in shown) for row in rows}

    ann = ("player_ann", "N player_ann", "de", "player_ann@example.com", "'+15550100")
    bob = ("player_bob", "N player_bob", "de", "player_bob@example.com", "'+15550199")
    assert await winners(stack, "reward_manager") == {open_to_all["campaign"]: ann, own["campaign"]: bob}
    assert (await winners(stack, "designer"))[own["campaign"]][-2:] == ("p***@example.com", "'+15***99")
    veiled = ("player_ann", "", "", "", "")
    shop = replace(stack, merchant_id=merchant_id)
    assert await winners(shop, "reward_manager") == {
        open_to_all["campaign"]: veiled,
        own["campaign"]: (*bob[:3], "", ""),
    }
    assert (await winners(shop, "admin"))[open_to_all["campaign"]] == veiled
    fill = """UPDATE entries SET fields = '{"name": "N"}', source = '{"referrer": "x"}' WHERE tenant_id = $1"""
    await stack.database.execute(fill, stack.tenant_id)
    asked = [("admin", "ann", "****", False), ("designer", "bob", "****", True), ("admin", "bob", "N", True)]
    for role, name, *shown in asked:
        (entry,) = (await shop.admin("GET", f"/admin/players/player_{name}/entries", roles=(role,))).data["items"]
        assert [entry["fields"]["name"], bool(entry["source"])] == shown


CHANGED: Final[dict[str, tuple[str, Any, str, str]]] = {
    # A field's kind, its value, its kind after a change of the form, and what a designer sees then.
    "street": ("TEXT", "12 Secret Street", "NUMBER", ""),
    "mail": ("EMAIL", "ann@example.com", "CHECKBOX", ""),
    "born": ("DATE", "1990-03-01", "CHOICE", ""),
    "floor": ("NUMBER", 12, "PHONE", ""),
    "doors": ("NUMBER", 1, "CHECKBOX", ""),
    "owner": ("CHECKBOX", True, "NUMBER", ""),
    "note": ("TEXT", "Ann@home in Secret Street", "EMAIL", ""),
    "name": ("TEXT", "Anna", "PHONE", ""),
    "home": ("ADDRESS", {"line1": "12 Secret Street", "city": "Rome", "country": "IT"}, "EMAIL", ""),
    "size": ("CHOICE", "XL", "CHOICE", "XL"),
    "kids": ("NUMBER", 2, "NUMBER", "2"),
    "post": ("TEXT", "ann@example.com", "EMAIL", "a***@example.com"),
}


@pytest.mark.settings(role_matrix="strict")
async def test_export_masks_values_whose_field_has_another_kind_now(stack: Stack) -> None:
    def form(at: int) -> dict[str, Any]:
        fields = [{"key": id, "label": {"en": id}, "kind": f"ENTRY_FIELD_KIND_{it[at]}"} for id, it in CHANGED.items()]
        options = [{"value": value, "label": {"en": value}} for value in ("XL", "S")]
        return {"fields": [one | ({"options": options} if one["kind"].endswith("CHOICE") else {}) for one in fields]}

    campaign_id = (await make_campaign(stack, entry=form(0)))["id"]
    path, body = f"/campaigns/{campaign_id}/entry", {"fields": {key: row[1] for key, row in CHANGED.items()}}
    assert (await stack.consumer("POST", path, body, player="ann")).code == "OK"
    changed = {"entry": form(2) | {"one_per_contact": True}}
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", changed, roles=("designer",))).code == "OK"
    (row,) = await rows_of(stack, "participants", roles=("designer",), campaign_id=campaign_id)
    assert {key: row[f"fields.{key}"] for key in CHANGED} == {key: shown for key, (*_, shown) in CHANGED.items()}
    (whole,) = await rows_of(stack, "participants", campaign_id=campaign_id)
    assert whole["fields.street"] == "12 Secret Street"
    assert (await stack.consumer("POST", path, {"fields": {"kids": 3}}, player="ann")).code == "OK"


async def test_export_of_what_is_unknown_is_refused(module_stack: Stack, known: Ids) -> None:
    stack = module_stack
    assert (await stack.admin("GET", "/admin/exports/plays", roles=())).reason == "TOKEN_MISSING"
    assert (await stack.admin("GET", "/admin/exports/plays", roles=("viewer",))).reason == "ROLE_REQUIRED"
    unknown = await stack.admin("GET", "/admin/exports/secrets")
    assert fields_of(unknown) == ["name"] and "must be one of plays, " in unknown.envelope["message"]
    for path, parameter, value in (
        *(("plays", "from", "soon"), ("plays", "to", -1), ("plays", "to", 5), ("plays", "cursor", "x")),
        *(("ledger", "cursor", "x"), ("participants", "consent", "unknown")),
    ):
        answer = await stack.admin("GET", f"/admin/exports/{path}", **{"from": 9, parameter: value})
        assert (answer.http, fields_of(answer)) == (400, [parameter]), (path, parameter)
    assert "ExportRows" in (await stack.admin("GET", "/admin/me")).data["operations"]


@pytest.mark.settings(role_matrix="strict")
async def test_export_is_in_the_audit_log_once(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    known = await furnish(stack)
    monkeypatch.setattr("runtime.operations.reporting.exports.ROWS", 1)
    for _ in range(2):
        start = await stack.consumer("POST", f"/games/{known['game']}/start", {}, player="player_ann")
        body = {"session_id": start.data["session_id"], "payload": {}}
        await stack.consumer("POST", f"/games/{known['game']}/play", body, player="player_ann")
    assert len(await rows_of(stack, "plays")) == 3, "in three parts or four"
    plays = await rows_of(stack, "plays", campaign_id=known["campaign"], **{"from": 5, "to": 4_000_000_000})
    await text_of(stack, "plays", cursor=plays[1]["id"])
    for role in ("designer", "reward_manager"):
        await text_of(stack, "winners", roles=(role,))
    shop = replace(stack, merchant_id=known["merchant"])
    await text_of(shop, "ledger")
    assert (await stack.admin("GET", "/admin/exports/plays", campaign_id="camp_x")).reason == "UNKNOWN_CAMPAIGN"
    listed = (await stack.admin("GET", "/admin/audit", subject_type="export")).data["items"]
    assert {(entry["actor"], entry["action"]) for entry in listed} == {("staff_test", "export.read")}
    plain = {"campaign_id": "", "from": 0, "to": 0, "cursor": "", "consent": "", "whole_contacts": False}
    narrowed = plain | {"campaign_id": known["campaign"], "from": 5, "to": 4_000_000_000}
    assert [(entry["subject_id"], entry["after"]) for entry in reversed(listed)] == [
        *(("plays", plain), ("plays", narrowed), ("plays", plain | {"cursor": plays[1]["id"]}), ("winners", plain)),
        *(("winners", plain | {"whole_contacts": True}), ("ledger", plain)),
    ]
    of_shop = (await shop.admin("GET", "/admin/audit", subject_type="export")).data["items"]
    assert [entry["subject_id"] for entry in of_shop] == ["ledger"]


async def test_export_has_nothing_of_another_tenant_or_merchant(module_stack: Stack, known: Ids) -> None:
    other, merchants = replace(module_stack, tenant_id=OTHER_TENANT), replace(module_stack, merchant_id="merchant_x")
    await module_stack.database.execute(
        "INSERT INTO merchants (tenant_id, merchant_id, name) VALUES ($1, 'merchant_x', 'X') ON CONFLICT DO NOTHING",
        module_stack.tenant_id,
    )
    theirs = await furnish(replace(module_stack, merchant_id=""), "player_eve", merchant_id=known["merchant"])
    for name in EXPORTS:
        assert theirs["campaign"] not in await text_of(other, name)
        assert theirs["campaign"] not in await text_of(merchants, name), name
    answer = await merchants.admin("GET", "/admin/exports/plays", campaign_id=theirs["campaign"])
    assert answer.reason == "UNKNOWN_CAMPAIGN"


async def test_export_command_writes_the_file(module_stack: Stack, many: str, tmp_path: Path) -> None:
    stack = replace(module_stack, tenant_id=many)
    for form, rows in (("csv", PLAYS), ("jsonl", PLAYS), ("parquet", None)):
        ran = await Operator(stack, tmp_path)("export", "plays", "--format", form, "--out", "plays", "--json")
        assert ran.json.get("rows") == rows
        assert (tmp_path / "plays").read_bytes() == await bytes_of(stack, "plays", format=form)
    written, target = _Csv(), io.BytesIO()
    for piece in (b"id,n\r\nplay_", b"", b"id,n\r\nplay_1,2\r\npl", b"", b"play_2,3\r\n"):
        written.take(piece, target) if piece else written.cut()
    assert (target.getvalue(), written.rows) == (b"id,n\r\nplay_1,2\r\nplay_2,3\r\n", 2), "cut off after the header"


async def test_exports_of_a_tenant_run_two_at_a_time(
    module_stack: Stack, known: Ids, many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun, gate = feed._part, 0, asyncio.Event()

    async def held(edge: Any, message: Any) -> Any:
        nonlocal begun
        begun += message.scope.tenant_id == many
        if message.scope.tenant_id == many:
            await gate.wait()
        return await real(edge, message)

    monkeypatch.setattr(feed, "_part", held)
    stack = replace(module_stack, tenant_id=many)
    running = [asyncio.create_task(text_of(stack, "plays")) for _ in range(2)]
    await until(lambda: begun == 2)
    third = await stack.admin("GET", "/admin/exports/plays")
    assert refused(third) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED") and int(third.headers["Retry-After"]) > 0
    assert await rows_of(module_stack, "plays"), "another tenant's has places of its own"
    gate.set()
    first, second = await asyncio.gather(*running)
    assert first == second == await text_of(stack, "plays")


async def test_exports_of_merchants_leave_their_tenant_a_place() -> None:
    places = downloads.Slots("exports", 8)
    with places.one("t", of_merchant=True):
        with pytest.raises(Fault), places.one("t", of_merchant=True):
            pass
        with places.one("t"), places.one("other", of_merchant=True):
            pass
    with places.one("t", of_merchant=True), pytest.raises(Fault), places.one("t"), places.one("t"):
        pass


async def test_unread_export_loses_its_place(module_stack: Stack, many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = feed._part

    async def endless(edge: Any, message: Any) -> Any:
        if message.after == "!":
            return await real(edge, message)
        return m.ReadExportReply(head="id\r\n", lines="x" * 1_000_000, after="x")

    monkeypatch.setattr(feed, "_part", endless)
    monkeypatch.setattr(downloads, "STALLED_SECONDS", 3.0)
    stack = replace(module_stack, tenant_id=many)
    host, port = stack.process.admin_url.removeprefix("http://").split(":")
    bearer = stack.token("ann", ("admin",))
    request = f"GET {API}/admin/exports/plays HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {bearer}"
    silent: list[asyncio.StreamWriter] = []

    async def has_place() -> bool:
        return (await stack.admin("GET", "/admin/exports/ledger", cursor="!")).code == "INVALID_ARGUMENT"

    async def full() -> bool:
        # Those before may be cut off by now: a busy machine looks seldom.
        for _, writer in [await asyncio.open_connection(host, int(port), limit=1) for _ in range(2)]:
            writer.write(f"{request}\r\n\r\n".encode())
            silent.append(writer)
        return not await has_place()

    await until(full)
    await until(has_place)
    for writer in silent:
        writer.close()
