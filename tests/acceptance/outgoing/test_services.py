"""The services of spreadsheet, sms, messaging and crm: what each receives is what the real one documents."""

import time
from base64 import b64encode
from typing import Any, Final
from urllib.parse import parse_qsl

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import json
from standardwebhooks import Webhook

from runtime.actors import address_limit
from runtime.outgoing.services import google_sheets
from tests.support.deliveries import SECRET
from tests.support.receiver import Got, Receiver
from tests.support.resources import make_campaign
from tests.support.stack import TO_LOOPBACK, fields_of

pytestmark = pytest.mark.settings(**TO_LOOPBACK)

KEY: Final = rsa.generate_private_key(65537, 2048)
PEM: Final = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
SID: Final = f"AC{'0' * 32}"
ASKED: Final = {"include": ["contact", "entry"], "consent": "news"}
ANN: Final = {"tel": "+49301234567", "email": "ann@example.com", "city": "=Bonn"}


class Service:
    """An integration of the test's campaign, in which Ann agrees to news and Bob does not."""

    def __init__(self, stack: Any, receiver: Receiver, campaign_id: str) -> None:
        self.stack, self.receiver, self.campaign_id = stack, receiver, campaign_id
        self.base = receiver.url.removesuffix("/hook")

    async def make(self, kind: str, service: str, **config: Any) -> str:
        body = {"type": kind, "events": ["x"], "config": {"service": service, **config}}
        body["campaign_id"] = self.campaign_id
        made = await self.stack.admin("POST", "/admin/integrations", body)
        assert made.code == "OK", made.envelope
        assert "secret" not in made.data["config"]
        return str(made.data["id"])

    async def emit(self, player: str = "ann", **data: Any) -> str:
        body = {"type": "x", "campaign_id": self.campaign_id, "data": {"player_id": player, **data}}
        return str((await self.stack.admin("POST", "/admin/integrations/emit", body)).data["event_id"])

    async def log(self) -> list[dict[str, Any]]:
        await self.stack.engine.dispatcher.log.wait_until_written()
        (one,) = (await self.stack.admin("GET", "/admin/integrations")).data["items"]
        return list((await self.stack.admin("GET", f"/admin/integrations/{one['id']}/deliveries")).data["items"])

    async def status(self) -> str:
        return str((await self.log())[0]["status"]).removeprefix("INTEGRATION_DELIVERY_STATUS_")


@pytest.fixture
async def target(stack: Any, receiver: Receiver) -> Service:
    kinds = {"tel": "PHONE", "email": "EMAIL", "city": "TEXT"}
    fields = [{"key": key, "label": {"en": key}, "kind": f"ENTRY_FIELD_KIND_{kind}"} for key, kind in kinds.items()]
    consents = [{"id": "news", "text": {"en": "Send me news."}}]
    campaign_id = (await make_campaign(stack, entry={"fields": fields, "consents": consents}))["id"]
    for player in ("ann", "bob"):
        body = {"fields": ANN, "consents": {"news": player == "ann"}}
        assert (await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", body, player=player)).code == "OK"
    return Service(stack, receiver, campaign_id)


async def test_google_sheet_gets_a_row_with_a_cached_token(target: Service) -> None:
    tokens: list[str] = []

    async def google(got: Got) -> web.StreamResponse:
        if got.path == "/token":
            form = dict(parse_qsl(got.body.decode()))
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            claims = jwt.decode(form["assertion"], KEY.public_key(), ["RS256"], audience=f"{target.base}/token")
            assert claims["scope"] == "https://www.googleapis.com/auth/spreadsheets"
            assert claims["iss"] == "bot@example.com" and claims["exp"] - claims["iat"] == 3600
            assert jwt.get_unverified_header(form["assertion"])["kid"] == "k1"
            tokens.append(f"ya29.{len(tokens)}")
            return web.json_response({"access_token": tokens[-1], "expires_in": 3599, "token_type": "Bearer"})
        if got.headers["Authorization"] != f"Bearer {tokens[-1]}" or got.json["values"][0][-1] == 401:
            return web.json_response({"error": {"code": 401, "message": tokens[-1]}}, status=401)
        return web.json_response({"updates": {"updatedRows": 1}})

    target.receiver.replies = [google] * 9
    key = {"type": "service_account", "client_email": "bot@example.com", "private_key": PEM, "private_key_id": "k1"}
    secret = json.encode({**key, "token_uri": f"{target.base}/token"}).decode()
    columns = ["id", "occurred_at", "entry.city", "data.no", "data.list", "data.n"]
    sheet = {"spreadsheet_id": "1aBcDeFgHiJ", "sheet": "Ann's", "columns": columns}
    sheet |= {"url": target.base, "secret": secret}
    integration_id = await target.make("spreadsheet", "google_sheets", **sheet, **ASKED)
    event_id = await target.emit(list=["a"], n=-5)
    token, row = target.receiver.all
    assert (token.path, row.request.method) == ("/token", "POST")
    assert row.path == "/v4/spreadsheets/1aBcDeFgHiJ/values/'Ann''s'!A1:append"
    assert dict(row.request.query) == {"valueInputOption": "RAW", "insertDataOption": "INSERT_ROWS"}
    (cells,) = row.json["values"]
    assert (cells[0], cells[2:]) == (event_id, ["=Bonn", "", '["a"]', -5]) and row.json["majorDimension"] == "ROWS"
    assert time.strptime(cells[1], "%Y-%m-%dT%H:%M:%SZ")
    await target.emit("bob", n=401)
    assert target.receiver.all[2].json["values"][0][2] == "" and len(tokens) == 1
    failed = (await target.log())[0]
    assert (failed["http_status"], tokens[0] in failed["answer"]) == (401, False)
    await target.emit()
    assert len(tokens) == 2 and await target.status() == "DELIVERED"
    assert google_sheets._loaded.cache_info().misses == 1, "loading a key stops the process for a while"
    ((_, problem),) = google_sheets.account_key(json.encode({**key, "private_key": "x" * 4_000}).decode())
    assert "4,096 bits" in problem
    moved_config = {**sheet, "service": "google_sheets", "url": "https://elsewhere.example", **ASKED}
    del moved_config["secret"]
    moved = await target.stack.admin("PUT", f"/admin/integrations/{integration_id}", {"config": moved_config})
    assert set(fields_of(moved)) == {"config.secret"}


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_csv_line_is_signed_and_without_formulas(target: Service, method: str) -> None:
    config = {"url": f"{target.base}/rows?key=1", "secret": SECRET, "headers": {"X-Key": "k"}, "method": method}
    await target.make("spreadsheet", "csv", columns=["data.name", "data.n", "entry.city"], **config, **ASKED)
    event_id = await target.emit(name='a,"b"\n', n=-5)
    (got,) = target.receiver.all
    assert (got.request.method, got.headers["X-Key"]) == (method, "k")
    assert got.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert got.request.raw_path == ("/rows?key=1" if method == "POST" else f"/rows/{event_id}.csv?key=1")
    assert got.body == b'"a,""b""\n",-5,\'=Bonn\r\n' and got.headers["webhook-id"] == event_id
    assert got.headers["webhook-signature"] == got.headers["X-Service-Signature"] != ""


async def test_hubspot_contact_is_upserted_by_email(target: Service) -> None:
    replies = [web.json_response({"status": "COMPLETE"}), web.json_response({"numErrors": 1}, status=207)]

    async def hubspot(got: Got) -> web.StreamResponse:
        return replies.pop(0)

    target.receiver.replies = [hubspot] * 2
    fields = {"city": "entry.city", "last_prize": "data.name", "count": "data.n"}
    await target.make("crm", "hubspot", url=target.base, secret="pat-eu1-x", fields=fields, **ASKED)
    event_id = await target.emit(n=2)
    (got,) = target.receiver.all
    assert got.path == "/crm/v3/objects/contacts/batch/upsert" and got.headers["Authorization"] == "Bearer pat-eu1-x"
    properties = {"city": "=Bonn", "count": "2", "email": "ann@example.com"}
    contact = {"idProperty": "email", "id": "ann@example.com", "objectWriteTraceId": event_id}
    assert got.json == {"inputs": [{**contact, "properties": properties}]}
    assert (await target.status(), (await target.log())[0]["answer"]) == ("DELIVERED", "")
    await target.emit()
    assert await target.status() == "RETRY"
    await target.emit("bob")
    assert await target.status() == "SKIPPED" and len(target.receiver.all) == 2


async def test_json_mapping_nests_fields_and_omits_absent_ones(target: Service) -> None:
    fields = {"lead.mail": "contact.email", "lead.city": "entry.city", "key": "id", "n": "data.n"}
    await target.make("crm", "json", url=target.receiver.url, fields=fields, secret=SECRET, **ASKED)
    events = [await target.emit(n=1), await target.emit("bob")]
    got = target.receiver.all
    lead = {"mail": "ann@example.com", "city": "=Bonn"}
    assert [one.json for one in got] == [{"lead": lead, "key": events[0], "n": 1}, {"key": events[1]}]
    for one in got:
        Webhook(SECRET).verify(one.body, dict(one.headers))


async def test_sms_per_number_is_rate_limited(target: Service, monkeypatch: Any) -> None:
    monkeypatch.setattr(address_limit, "ADDRESS_MOST", 2)

    async def refuse(got: Got) -> web.StreamResponse:
        return web.json_response({"code": 21211, "message": got.headers["Authorization"]}, status=400)

    text = {"text": "You won {data.name} {data.no}{}", "from": "Shop"}
    await target.make("sms", "twilio", url=target.base, account_sid=SID, secret="token", **text, **ASKED)
    target.receiver.replies = [refuse]
    for status in ("DEAD", "DELIVERED", "DELIVERED", "SKIPPED"):
        await target.emit(name="{contact.email}")
        assert await target.status() == status
    await target.emit("bob")
    assert await target.status() == "SKIPPED"
    assert len(target.receiver.all) == 3
    got = target.receiver.all[0]
    assert got.path == f"/2010-04-01/Accounts/{SID}/Messages.json"
    assert got.headers["Authorization"] == "Basic " + b64encode(f"{SID}:token".encode()).decode()
    sent = {"To": ANN["tel"], "From": "Shop", "Body": "You won {contact.email} {}"}
    assert dict(parse_qsl(got.body.decode())) == sent


GATEWAYS: Final = {
    "form": (
        *("sms", "http", {"format": "form", "to": "+4930111222", "fields": {"m.body": "text", "to": "to"}}),
        {"m": '{"body":"<!here> & @all"}', "to": "+4930111222"},
    ),
    "json": ("sms", "http", {"to": "+4930111222", "fields": {"m.body": "text"}}, {"m": {"body": "<!here> & @all"}}),
    "slack": ("messaging", "slack", {}, {"text": "&lt;!here&gt; &amp; @all"}),
    "discord": ("messaging", "discord", {}, {"content": "<!here> & @all", "allowed_mentions": {"parse": []}}),
}


@pytest.mark.parametrize("name", GATEWAYS)
async def test_text_is_sent_in_the_services_shape(target: Service, name: str) -> None:
    kind, gateway, config, expected = GATEWAYS[name]
    where = {"url": target.receiver.url} if kind == "sms" else {"secret": target.receiver.url}
    integration_id = await target.make(kind, gateway, text="{data.name}", **config, **where)
    await target.emit(name="<!here> & @all")
    (got,) = target.receiver.all
    assert (dict(parse_qsl(got.body.decode())) if name == "form" else got.json) == expected
    path, other = f"/admin/integrations/{integration_id}/rotate", f"{target.base}/other"
    for secret, code in (("too short", "INVALID_ARGUMENT"), (other, "OK")):
        assert (await target.stack.admin("POST", path, {"secret": secret})).code == code
    await target.emit()
    assert target.receiver.all[1].path == ("/other" if kind == "messaging" else got.path)


URL: Final = {"url": "https://a.example"}
NUMBERS: Final = {"account_sid": "x", "from": "+0"}
WRONG: Final[list[tuple[str, dict[str, Any], set[str]]]] = [
    *(("crm", {"service": "x"}, {"service"}), ("sms", {**URL}, {"service"})),
    ("spreadsheet", {"service": "google_sheets"}, {"spreadsheet_id", "secret"}),
    ("spreadsheet", {"service": "google_sheets", "spreadsheet_id": "1" * 20, "secret": "{}"}, {"secret"}),
    (
        *("spreadsheet", {"service": "csv", "url": "x", "columns": ["id", "x"], "method": "GET"}),
        {"url", "columns[1]", "method"},
    ),
    ("crm", {"service": "hubspot", "secret": "a b"}, {"include", "secret"}),
    ("crm", {"service": "json", **URL, "fields": {"a": "id", "a.b": "id"}}, {"fields.a"}),
    ("sms", {"service": "twilio", **NUMBERS, "text": "{x}", "secret": "t"}, {*NUMBERS, "text", "to"}),
    ("messaging", {"service": "slack", "secret": "https://a.example", "text": "x", **URL}, {"url"}),
]


async def test_wrong_config_is_refused_at_its_fields(stack: Any) -> None:
    for kind, config, fields in WRONG:
        refused = await stack.admin("POST", "/admin/integrations", {"type": kind, "events": ["x"], "config": config})
        assert {one.removeprefix("config.") for one in fields_of(refused)} == fields, config
