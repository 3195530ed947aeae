import asyncio
import csv
import hashlib
import io
import ipaddress
import json
from dataclasses import dataclass
from typing import Any, Final

import jwt
import pytest

from runtime import ids
from runtime.operations import API
from runtime.operations.entries import contacts, submit
from runtime.wire.contacts import canonical
from tests.support import invariants
from tests.support.locks import blocked
from tests.support.resources import make_campaign, make_draw
from tests.support.rewards import Shelf
from tests.support.scenario import Scenario
from tests.support.stack import Answer, Stack, fields_of, refused
from tests.support.world import World

TERMS: Final = {"id": "terms", "text": {"en": "I accept the terms.", "de": "Ich stimme zu."}, "required": True}
NEWS: Final = {"id": "news", "text": {"en": "Send me news."}}
EMAIL: Final = {"key": "email", "label": {"en": "E-mail"}, "kind": "ENTRY_FIELD_KIND_EMAIL", "required": True}
BORN: Final = {"key": "birth_date", "label": {"en": "Born"}, "kind": "ENTRY_FIELD_KIND_DATE"}
FORM: Final[dict[str, Any]] = {"mode": "ENTRY_MODE_BEFORE_PLAY", "fields": [EMAIL], "consents": [TERMS, NEWS]}


@dataclass(frozen=True)
class Desk:
    """A campaign with an entry form and a public wheel without prizes."""

    world: World
    game_id: str

    @property
    def stack(self) -> Stack:
        return self.world.stack

    @property
    def path(self) -> str:
        return f"/campaigns/{self.world.campaign_id}/entry"

    async def submit(self, player: str = "ann", key: str = "", stack: Stack | None = None, **body: Any) -> Answer:
        return await (stack or self.stack).consumer("POST", self.path, body, player=player, key=key)

    async def enter(self, player: str = "ann", **fields: Any) -> dict[str, Any]:
        made = await self.submit(player, fields={"email": f"{player}@example.com", **fields}, consents={"terms": True})
        assert made.data["missing"] == []
        return dict(made.data)

    async def given(self, player: str = "ann") -> Any:
        return (await self.stack.consumer("GET", self.path, player=player)).data["given"]

    async def change(self, **entry: Any) -> None:
        body = {"entry": {**FORM, **entry}}
        assert (await self.stack.admin("PUT", f"/admin/campaigns/{self.world.campaign_id}", body)).code == "OK"


async def desk_of(stack: Stack, entry: dict[str, Any] | None, **game: Any) -> Desk:
    campaign = await make_campaign(stack, **({"entry": entry} if entry is not None else {}))
    world = World(stack, campaign["id"])
    return Desk(world, await world.wheel(**{"access": "public", **game}))


async def test_entry_admits_plays_until_it_is_incomplete(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    world, game_id = desk.world, desk.game_id
    copy = await stack.admin("POST", f"/admin/campaigns/{world.campaign_id}/duplicate", {"name": "Copy"})
    form = (await stack.consumer("GET", f"/public/campaigns/{world.campaign_id}")).data["entry"]
    assert copy.data["entry"] == form == (await stack.consumer("GET", desk.path, player="a")).data["asked"]
    assert form["consents"][0]["text"] == TERMS["text"]
    refused = await world.start(game_id)
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "ENTRY_REQUIRED")
    assert refused.envelope["data"]["missing"] == ["fields.email", "consents.terms"]
    eligibility = await world.eligibility(game_id)
    assert (eligibility["can_play"], eligibility["reason"]) == (False, "ENTRY_REQUIRED")
    partly = (await desk.submit(fields={"email": "Ann@Example.com"}, locale="de-AT")).data
    assert partly["missing"] == ["consents.terms"]
    found = (await desk.submit(consents={"terms": True, "news": True}, locale="de-AT")).data
    assert found == {"entry_id": partly["entry_id"], "missing": []}
    given = await desk.given()
    assert given["fields"] == {"email": "ann@example.com"}
    shown = {one["id"]: (one["given"], one["text"], one["locale"], one["text_sha256"]) for one in given["consents"]}
    texts = {"terms": ("Ich stimme zu.", "de"), "news": ("Send me news.", "en")}
    sha256 = {text: hashlib.sha256(text.encode()).hexdigest() for text, _ in texts.values()}
    assert shown == {name: (True, text, locale, sha256[text]) for name, (text, locale) in texts.items()}
    assert (await world.round(game_id)).code == "OK"
    session = await world.session(game_id)
    assert (await desk.submit(consents={"news": False})).data["missing"] == []
    assert (await world.play(game_id, session)).code == "OK", "a voluntary consent's withdrawal ends no play"
    session = await world.session(game_id)
    await desk.change(consents=[{**TERMS, "text": {"en": "I accept the new terms."}}])
    for answer in (await world.start(game_id), await world.play(game_id, session)):
        assert answer.envelope["data"]["missing"] == ["consents.terms"], "a changed text is asked again"
    for text in (TERMS["text"]["en"], "I accept the new terms."):
        agreed = await desk.submit(consents={"terms": True}, consent_texts={"terms": text})
        assert (agreed.reason == "CONSENT_CHANGED") == (text == TERMS["text"]["en"])
    assert (await world.play(game_id, session)).code == "OK"
    await desk.change(fields=[{**EMAIL, "kind": "ENTRY_FIELD_KIND_PHONE"}])
    assert "fields.email" in (await world.start(game_id)).envelope["data"]["missing"], "a changed kind is asked again"
    assert await invariants.broken(stack.database, stack.tenant_id) == {}


async def test_withdrawal_stops_plays_of_every_process_at_once(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    await desk.enter()
    sessions = [await desk.world.session(desk.game_id) for _ in range(3)]
    assert (await desk.world.play(desk.game_id, sessions[0])).code == "OK", "the game's actor has cached the entry"
    # As another process would: the cached revision is wrong, and only the commit's guard notices.
    statement = "UPDATE entries SET given = '{field:email}', revision = revision + 1 WHERE tenant_id = $1"
    await stack.database.execute(statement, stack.tenant_id)
    assert (await desk.world.play(desk.game_id, sessions[1])).reason == "ENTRY_REQUIRED"
    await desk.submit(consents={"terms": True})
    body = {"campaign_id": desk.world.campaign_id, "consents": ["terms", "news"], "reason": "by phone"}
    withdrawn = await stack.admin("POST", "/admin/players/ann/consents/withdraw", body)
    assert [(one["id"], one["given"]) for one in withdrawn.data["consents"]] == [("terms", False)]
    assert (await desk.world.play(desk.game_id, sessions[2])).reason == "ENTRY_REQUIRED"
    audited = (await stack.admin("GET", "/admin/audit", action="player.withdraw_consents")).data["items"]
    assert audited[0]["after"]["consents"] == ["terms"]
    assert (await stack.admin("POST", "/admin/players/bob/consents/withdraw", body)).reason == "UNKNOWN_ENTRY"


async def test_suspended_player_can_withdraw_consents_and_nothing_else(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    await desk.enter()
    for player in ("ann", "bob"):
        assert (await stack.consumer("GET", "/players/me", player=player)).code == "OK"
        status = {"status": "PLAYER_STATUS_SUSPENDED"}
        assert (await stack.admin("PUT", f"/admin/players/{player}", status)).code == "OK"
    withdrawal = {"consents": {"terms": False}}
    for player, body in (("ann", {}), ("ann", {"consents": {"news": True, "terms": False}}), ("bob", withdrawal)):
        assert (await desk.submit(player, **body)).reason == "SUSPENDED", (player, body)
    assert (await desk.submit(**withdrawal)).data["missing"] == ["consents.terms"]
    assert [one["given"] for one in (await desk.given())["consents"]] == [False]
    assert not (await stack.consumer("GET", desk.path, player="bob")).data.get("given"), "no entry was made"


async def test_consent_can_be_withdrawn_without_the_form(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    await desk.submit(fields={"email": "ann@x.example"}, consents={"terms": True, "news": True})
    path = f"/admin/campaigns/{desk.world.campaign_id}"
    for change, consent_id in (({"status": "CAMPAIGN_STATUS_DRAFT"}, "news"), ({"entry": {}}, "terms")):
        assert (await stack.admin("PUT", path, change)).code == "OK"
        withdrawal = {consent_id: False}
        for body in ({"consents": {}}, {"consents": withdrawal, "fields": {"email": "b@x.example"}}):
            assert (await desk.submit(**body)).reason == "UNKNOWN_CAMPAIGN"
        assert (await desk.submit("bob", consents=withdrawal)).reason == "UNKNOWN_CAMPAIGN"
        assert (await desk.submit(consents=withdrawal)).code == "OK"
    query = "SELECT given FROM entries WHERE tenant_id = $1"
    assert await stack.database.fetchval(query, stack.tenant_id) == ["field:email:email"]


async def test_staff_enter_a_player_by_the_rules_of_the_form(stack: Stack) -> None:
    desk = await desk_of(stack, {**FORM, "max_entries": 1})
    body = {"campaign_id": desk.world.campaign_id, "fields": {"email": "ann@x.example"}, "consents": {"terms": True}}
    post = {**body, "reason": "a postcard"}
    paths = [f"/admin/players/{one}/entries" for one in ("postcard-1", "postcard-2", ids.make("guest"))]
    key = {"Idempotency-Key": "postcard-1"}
    first, again = [await stack.admin("POST", paths[0], post, headers=key) for _ in range(2)]
    assert first.data == again.data and first.data["missing"] == []
    assert fields_of(await stack.admin("POST", paths[0], body)) == ["reason"]
    assert (await stack.admin("POST", paths[1], post)).envelope["data"]["why"]["reason"] == "MAX_ENTRIES"
    assert (await stack.admin("POST", paths[2], post)).reason == "UNKNOWN_PLAYER"
    assert refused(await stack.admin("POST", paths[1], {**post, "campaign_id": "camp_x"}))[2] == "UNKNOWN_CAMPAIGN"
    assert (await desk.world.round(desk.game_id, "postcard-1")).code == "OK"
    query = "SELECT actor FROM entry_consents WHERE tenant_id = $1"
    assert await stack.database.fetchval(query, stack.tenant_id) == "staff_test"
    audited = (await stack.admin("GET", "/admin/audit", action="player.enter")).data["items"]
    assert [(one["subject_id"], one["after"]["reason"]) for one in audited] == [("postcard-1", "a postcard")]
    assert (await stack.admin("POST", "/admin/players/postcard-1/erase", {"reason": "asked"})).code == "OK"
    erased = await stack.admin("POST", paths[0], post, headers=key)
    assert (erased.data["id"], erased.data["fields"]) == (first.data["id"], {})
    assert "ann@x.example" not in str(await stack.database.fetch("SELECT reply FROM keyed_requests"))
    assert (await stack.admin("PUT", "/admin/players/postcard-1", {"status": "PLAYER_STATUS_SUSPENDED"})).code == "OK"
    assert refused(await stack.admin("POST", paths[0], post)) == (403, "PERMISSION_DENIED", "SUSPENDED")


async def test_campaign_takes_no_entry_before_its_start_and_while_paused(stack: Stack) -> None:
    desk, opens_at = await desk_of(stack, FORM), 2**32
    whole = {"fields": {"email": "bob@x.example"}, "consents": {"terms": True}}
    await desk.enter("ann")
    await desk.submit("bob", fields=whole["fields"])
    post = {"campaign_id": desk.world.campaign_id, "reason": "a postcard", **whole}
    for state in (f"start_date = to_timestamp({opens_at})", "status = 'paused'"):
        async with stack.database.connection() as staff, staff.transaction():
            await staff.execute(f"UPDATE campaigns SET {state} WHERE tenant_id = $1", stack.tenant_id)
            entering = await blocked(stack.database, desk.submit("", **whole))
        answers = [await entering, await desk.submit("bob", **whole)]
        answers.append(await stack.admin("POST", "/admin/players/postcard-1/entries", post))
        assert [refused(one) for one in answers] == [(400, "FAILED_PRECONDITION", "CAMPAIGN_CLOSED")] * 3, state
        facts = {"reason": "CAMPAIGN_CLOSED"} | ({} if "paused" in state else {"opens_at": opens_at})
        assert answers[0].envelope["data"] == facts
        assert (await desk.submit("ann", fields={"email": "new@x.example"})).code == "OK", "a complete entry can change"


async def test_session_from_before_the_form_is_refused(stack: Stack) -> None:
    desk = await desk_of(stack, None)
    session = await desk.world.session(desk.game_id)
    await desk.change()
    assert (await desk.world.play(desk.game_id, session)).reason == "ENTRY_REQUIRED"
    await desk.stack.admin("PUT", f"/admin/campaigns/{desk.world.campaign_id}", {"entry": {}})
    assert (await desk.world.round(desk.game_id, "bob")).code == "OK"


async def test_claim_requires_the_entry_of_its_campaign(stack: Stack, shelf: Shelf) -> None:
    desk = await desk_of(stack, {**FORM, "mode": "ENTRY_MODE_BEFORE_CLAIM"})
    assert (await desk.world.round(desk.game_id)).code == "OK"
    reward_id = await shelf.reward(await shelf.prize())
    statement = "UPDATE rewards SET campaign_id = $2, player_id = 'ann' WHERE reward_id = $1"
    await stack.database.execute(statement, reward_id, desk.world.campaign_id)
    refused = await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="ann")
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "ENTRY_REQUIRED")
    assert refused.envelope["data"]["missing"] == ["fields.email", "consents.terms"]
    await stack.database.execute("UPDATE campaigns SET status = 'paused' WHERE tenant_id = $1", stack.tenant_id)
    assert (await desk.submit("bob")).reason == "CAMPAIGN_CLOSED"
    await desk.enter()
    await desk.change(mode="ENTRY_MODE_BEFORE_CLAIM", countries={"allow": ["AT"]})
    barred = await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="ann")
    assert barred.envelope["data"]["why"] == {"reason": "COUNTRY", "country": ""}
    await desk.change(mode="ENTRY_MODE_BEFORE_CLAIM")
    assert (await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player="ann")).code == "OK"


async def test_invalid_values_are_reported_by_field(stack: Stack) -> None:
    def field(key: str, kind: str, **more: Any) -> dict[str, Any]:
        return {"key": key, "label": {"en": key}, "kind": f"ENTRY_FIELD_KIND_{kind}", **more}

    sizes = [{"value": "S"}, {"value": "M", "label": {"en": "Medium"}}]
    kinds = ("TEXT", "EMAIL", "PHONE", "DATE", "CHECKBOX", "NUMBER", "ADDRESS")
    fields = [field(kind.lower(), kind) for kind in kinds] + [field("size", "CHOICE", options=sizes)]
    desk = await desk_of(stack, {"fields": fields, "consents": [TERMS]})
    home = {"line1": "Main Street 1", "city": "Bern", "country": "ch"}
    wrong: dict[str, Any] = {"text": "a\nb", "email": "nobody", "phone": "0301234", "date": "31.12.1990"}
    wrong |= {"checkbox": "yes", "number": "7", "address": {**home, "country": "Swiss"}, "size": "L", "other": "x"}
    found = fields_of(await desk.submit(fields=wrong, consents={"terms": "yes", "spam": True}))
    named = {f"fields.{key}" for key in wrong if key != "address"}
    assert set(found) == named | {"fields.address.country", "consents.terms", "consents.spam"}
    right = {"text": " Ann ", "email": "A@b.example", "phone": "+49 30 1234567", "date": "1990-12-31", "checkbox": True}
    right |= {"number": 7, "address": home, "size": "M"}
    assert (await desk.submit(fields=right)).code == "OK"
    assert (await desk.submit(fields={"text": None, "size": "S"})).code == "OK"
    kept = {"email": "a@b.example", "phone": "+49301234567", "address": {**home, "country": "CH"}, "size": "S"}
    kept |= {name: right[name] for name in ("date", "checkbox", "number")}
    assert (await desk.given())["fields"] == kept


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"fields": [{**EMAIL, "key": "1st"}]}, "entry.fields[0].key"),
        ({"fields": [EMAIL, EMAIL]}, "entry.fields[1].key"),
        ({"fields": [{**EMAIL, "label": {}}]}, "entry.fields[0].label"),
        ({"fields": [{**EMAIL, "label": {"english": "E-mail"}}]}, "entry.fields[0].label.english"),
        ({"fields": [{**EMAIL, "kind": "ENTRY_FIELD_KIND_CHOICE"}]}, "entry.fields[0].options"),
        ({"consents": [{**TERMS, "link": "javascript:alert(1)"}]}, "entry.consents[0].link"),
        ({"consents": [{**TERMS, "text": {"en": " "}}]}, "entry.consents[0].text.en"),
        *(({"min_age": 18}, "entry.min_age"), ({"countries": {"deny": ["D1"]}}, "entry.countries.deny[0]")),
    ],
)
async def test_invalid_form_is_refused_by_field(stack: Stack, entry: dict[str, Any], field: str) -> None:
    refused = await stack.admin("POST", "/admin/campaigns", {"name": "Autumn", "entry": entry})
    assert [one["field"] for one in refused.envelope["data"]["violations"]] == [field]


async def test_underage_and_foreign_players_are_refused_with_the_reason(stack: Stack) -> None:
    address = {"key": "home", "label": {"en": "Home"}, "kind": "ENTRY_FIELD_KIND_ADDRESS"}
    entry = {**FORM, "fields": [EMAIL, BORN, address], "min_age": 18, "countries": {"deny": ["FR"]}}
    desk = await desk_of(stack, {**entry, "min_age": 0})
    await desk.enter("bea", birth_date="1990-12-24")
    await desk.change(**entry)
    assert (await desk.submit("bea", fields={"home": None})).data["missing"] == ["fields.birth_date"]
    young = await desk.submit(fields={"birth_date": "2015-01-31"})
    assert (young.code, young.reason) == ("PERMISSION_DENIED", "NOT_ELIGIBLE")
    assert young.envelope["data"]["why"] == {"reason": "AGE", "min_age": 18}
    paris = {"line1": "1 Rue", "city": "Paris", "country": "FR"}
    assert (await desk.submit(fields={"home": paris})).envelope["data"]["why"] == {"reason": "COUNTRY", "country": "FR"}
    assert await desk.given() is None, "a refused entry stores nothing"
    await desk.enter(birth_date="1990-01-31", home={**paris, "country": "DE"})
    given = await desk.given()
    assert (given["old_enough"], "birth_date" in given["fields"]) == (18, False)
    assert "1990" not in repr(await stack.database.fetch("SELECT * FROM entries WHERE tenant_id = $1", stack.tenant_id))
    assert (await desk.world.round(desk.game_id)).code == "OK"
    await desk.change(**{**entry, "countries": {"allow": ["AT"]}})
    assert (await desk.world.start(desk.game_id)).envelope["data"]["why"] == {"reason": "COUNTRY", "country": "DE"}
    assert (await desk.world.eligibility(desk.game_id))["reason"] == "NOT_ELIGIBLE"
    await desk.change(**{**entry, "min_age": 21})
    assert (await desk.world.start(desk.game_id)).envelope["data"]["missing"] == ["fields.birth_date"]


LOOPBACK: Final = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param(False, marks=pytest.mark.settings(country_header="X-Country")),
        pytest.param(True, marks=pytest.mark.settings(country_header="X-Country", trusted_proxies=LOOPBACK)),
    ],
)
async def test_country_header_counts_only_from_a_trusted_proxy(stack: Stack, refused: bool) -> None:
    desk = await desk_of(stack, {**FORM, "countries": {"deny": ["FR"]}})
    body = {"fields": {"email": "ann@example.com"}}
    answer = await stack.consumer("POST", desk.path, body, player="ann", headers={"X-Country": "FR"})
    assert answer.reason == ("NOT_ELIGIBLE" if refused else "")
    for sent in (body, {}, {"consents": {"news": False}}):
        direct = await stack.core("POST", desk.path, {**sent, "player_id": "bob", "country": "FR"})
        assert direct.reason == "NOT_ELIGIBLE"
    assert fields_of(await stack.consumer("POST", desk.path, {**body, "country": "DE"}, player="ann")) == ["country"]
    post = {"campaign_id": desk.world.campaign_id, "reason": "a postcard"}
    for country, found in {"Paris": "VALIDATION", "fr": "NOT_ELIGIBLE", "de": ""}.items():
        assert (await stack.admin("POST", "/admin/players/cat/entries", {**post, "country": country})).reason == found
    for country in ("AT", "DE"):
        keyed = {"X-Country": country, "Idempotency-Key": "k1"}
        assert (await stack.consumer("POST", desk.path, body, player="ann", headers=keyed)).code == "OK", country


async def test_max_entries_holds_against_rivals_that_complete_an_entry(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    for nth in range(8):
        assert (await desk.submit(f"p{nth}")).data["missing"], "an incomplete entry does not count"
    await desk.enter("early")
    await desk.change(max_entries=4)
    answers = await asyncio.gather(
        *[desk.submit(f"p{nth}", fields={"email": f"p{nth}@x.example"}, consents={"terms": True}) for nth in range(12)]
    )
    refused = [one for one in answers if one.code != "OK"]
    assert len(refused) == 9
    assert all(one.envelope["data"]["why"] == {"reason": "MAX_ENTRIES", "max_entries": 4} for one in refused)
    assert (await desk.submit("early", fields={"email": "later@x.example"})).code == "OK", "an update is no new entry"


async def test_idempotency_key_replays_the_first_reply(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    body = {"fields": {"email": "ann@example.com"}, "consents": {"terms": True}}
    first = await desk.submit(key="k1", **body)
    await desk.submit(consents={"terms": False})
    for ask in (stack.consumer, stack.core):
        named = {"player_id": "ann", "idempotency_key": "k1", "country": "AT"} if ask == stack.core else {}
        headers = {} if named else {"Idempotency-Key": "k1", "Authorization": f"Bearer {stack.token('ann')}"}
        again = await ask("POST", desk.path, {**body, **named}, headers=headers)
        assert again.data["entry_id"] == first.data["entry_id"]
    assert not (await desk.given())["consents"][0]["given"], "a late retry does not give the consent again"
    other = await stack.core("POST", desk.path, {"player_id": "ann", "idempotency_key": "k1", "locale": "fr"})
    assert (other.http, other.reason) == (422, "IDEMPOTENCY_MISMATCH")
    for key, entries in (("k2" * 11, 1), ("short", 2)):
        tries = [one.data for one in await asyncio.gather(*[desk.submit("", key, **body) for _ in range(2)])]
        assert len({one["entry_id"] for one in tries}) == entries and all(one["guest_token"] for one in tries)
    await stack.database.execute("UPDATE entry_keys SET created_at = now() - interval '11 minutes'")
    assert "guest_token" not in (await desk.submit("", "k2" * 11, **body)).data


async def test_guest_enters_a_public_campaign_and_keeps_the_entry_at_login(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    body = {"fields": {"email": "gus@example.com"}, "consents": {"terms": True}, "source": {"utm_source": "ad"}}
    entered = await stack.consumer("POST", desk.path, body)
    headers = {"Authorization": f"Bearer {entered.data['guest_token']}"}
    session = (await stack.consumer("POST", f"/games/{desk.game_id}/start", {}, headers=headers)).data["session_id"]
    assert (await desk.world.play(desk.game_id, session, "")).code == "OK"
    guest_id = jwt.decode(entered.data["guest_token"], options={"verify_signature": False})["sub"]
    contact = {"type": "CONTACT_TYPE_EMAIL", "value": "gus@example.com"}
    resolved = await stack.core("POST", "/players/resolve", {"contact": contact, "guest_player_id": guest_id})
    player = resolved.data["player"]["id"]
    assert (await desk.given(player))["fields"] == body["fields"]
    assert (await desk.world.round(desk.game_id, player)).code == "OK"
    other = {"fields": {"email": "other@example.com"}, "source": {"utm_source": "other"}}
    second = await stack.consumer("POST", desk.path, {**body, **other})
    other_id = jwt.decode(second.data["guest_token"], options={"verify_signature": False})["sub"]
    late = "UPDATE entries SET late = player_id = $2, counted = player_id = $2 WHERE tenant_id = $1"
    await stack.database.execute(late, stack.tenant_id, other_id)
    await stack.core("POST", "/players/resolve", {"contact": contact, "guest_player_id": other_id})
    given = await desk.given(player)
    assert (given["fields"], given["source"]["utm_source"]) == (body["fields"], "ad"), "the player's own entry wins"
    rows = "SELECT array_agg(has_guests AND late) FROM entries WHERE tenant_id = $1"
    assert await stack.database.fetchval(rows, stack.tenant_id) == [True], "complete only by the late entry"
    assert await invariants.broken(stack.database, stack.tenant_id) == {}
    closed = await desk_of(stack, FORM, access="player")
    assert (await closed.submit("", **body)).reason == "TOKEN_MISSING"
    token = (await desk.submit("", **{**body, "fields": {"email": "guest@example.com"}})).data["guest_token"]
    bearer = {"headers": {"Authorization": f"Bearer {token}"}}
    assert (await stack.consumer("POST", closed.path, body, **bearer)).reason == "LOGIN_REQUIRED"
    assert (await stack.admin("PUT", f"/admin/games/{closed.game_id}", {"rules": {"admits_guests": True}})).code == "OK"
    assert (await stack.consumer("POST", closed.path, body, **bearer)).code == "OK"
    draw_only = Desk(World(stack, (await make_campaign(stack, entry={**FORM, "one_per_contact": True}))["id"]), "")
    assert (await stack.consumer("POST", draw_only.path, body, **bearer)).data["missing"] == []
    stranger = {**body, "fields": {**body["fields"], "email": "stranger@example.com"}}
    assert (await draw_only.submit("", **stranger)).data["guest_token"], "without games, strangers enter too"
    for form in (FORM, {**FORM, "one_per_contact": True, "fields": [{**EMAIL, "required": False}]}):
        other = Desk(World(stack, (await make_campaign(stack, entry=form))["id"]), "")
        assert (await other.submit("", **stranger)).reason == "TOKEN_MISSING", "but with one entry per contact"
        assert (await stack.consumer("POST", other.path, body, **bearer)).reason == "LOGIN_REQUIRED"


async def test_erasure_clears_an_entry_and_keeps_its_receipts(stack: Stack) -> None:
    desk = await desk_of(stack, {**FORM, "one_per_contact": True})
    await desk.enter()
    assert (await desk.world.round(desk.game_id)).code == "OK"
    exported = (await stack.admin("GET", "/admin/players/ann/export", limit=100)).data["items"]
    assert [one["data"]["fields"] for one in exported if one["kind"] == "entry"] == [{"email": "ann@example.com"}]
    assert (await stack.admin("POST", "/admin/players/ann/erase", {"reason": "asked"})).code == "OK"
    given = await desk.given()
    assert (given["fields"], [one["given"] for one in given["consents"]]) == ({}, [False])
    left = "SELECT tenant_id FROM entry_contacts UNION ALL SELECT tenant_id FROM entry_keys"
    assert stack.tenant_id not in [row["tenant_id"] for row in await stack.database.fetch(left)]
    later = f"Bearer {stack.token('ann', ahead_seconds=1)}"  # The erasure ends tokens of its own second too.
    assert (await desk.world.start(desk.game_id, Authorization=later)).reason == "ENTRY_REQUIRED"
    assert await invariants.broken(stack.database, stack.tenant_id) == {}


@pytest.mark.fault(
    "1,000 aliases of one mailbox; 50 uses of one pack code over two processes",
    small=100,
    full=1_000,
    unit="aliases at once",
    figure="1 entry",
)
async def test_aliases_of_one_mailbox_get_one_entry(scenario: Scenario, stack: Stack) -> None:
    desk = await desk_of(stack, {**FORM, "one_per_contact": True})
    spellings = ("annlee", "a.nnlee", "an.nlee", "a.n.n.l.e.e", "Ann.Lee")
    aliases = [f"{spellings[nth % 5]}+{nth}@{('gmail', 'googlemail')[nth % 2]}.com" for nth in range(scenario.size)]
    answers = await asyncio.gather(*[desk.submit(f"p{nth}", fields={"email": one}) for nth, one in enumerate(aliases)])
    assert sorted(one.code for one in answers) == ["OK"] + ["PERMISSION_DENIED"] * (scenario.size - 1)
    assert {one.envelope["data"]["why"]["reason"] for one in answers if one.code != "OK"} == {"CONTACT"}
    _, known = contacts.hashes_of(stack.engine, stack.tenant_id, [("email", "cat@fastmail.fm")])
    async with stack.database.connection() as rival, rival.transaction():
        await rival.execute(submit.SQL["lock_contacts"], stack.tenant_id, desk.world.campaign_id, known)
        entering = await blocked(stack.database, desk.submit("cat", fields={"email": "cat@fastmail.fm"}))
        assert not entering.done()
    assert (await entering).code == "OK"
    assert (await desk.submit("bob", fields={"email": "any@cat.fastmail.com"})).reason == "NOT_ELIGIBLE"
    assert fields_of(await desk.submit("eve", fields={"email": "eve@mailinator.com"})) == ["fields.email"]
    assert (await desk.submit("hal", fields={"email": "hal@example.com"})).code == "OK"
    for player, reason in (("gil", "NOT_ELIGIBLE"), ("hal", "")):  # Hal has an entry already.
        linked = {"player_id": player, "contact": {"type": "CONTACT_TYPE_EMAIL", "value": f"{player}@mailinator.com"}}
        assert (await stack.core("POST", "/players/me/contacts", linked)).code == "OK"
        assert (await desk.submit(player, fields={"email": f"{player}@example.com"})).reason == reason
    own = (*(f"cat{nth}" for nth in range(6)), "c.at0")
    changes = [await desk.submit("cat", fields={"email": f"{one}@gmail.com"}) for one in own]
    assert [one.code for one in changes] == ["OK"] * 5 + ["PERMISSION_DENIED", "OK"], "an own alias is no change"


def test_spellings_of_a_mailbox_and_no_others_have_one_form() -> None:
    mailboxes = (
        *("a.b@gmail.com ab+x@googlemail.com \uff41b@gmail.com", "a-b@pm.me A_b+x@proton.me", "ab@mac.com ab+x@me.com"),
        *("a.b@ya.ru a-b+x@yandex.ua", "ab@ya.ru", "a@yahoo.co.in a-x@yahoo.co.in a+x@yahoo.co.in", "a.b@yahoo.co.in"),
        *("a_b@fastmail.to x@a-b.fastmail.to", "a.b@outlook.com a.b+x@outlook.com", "a-x@outlook.com", "a.b@me.com"),
    )
    forms = [{canonical("email", spelling) for spelling in mailbox.split()} for mailbox in mailboxes]
    assert [len(each) for each in forms] == [1] * len(mailboxes) and len(set.union(*forms)) == len(mailboxes)


async def export(desk: Desk, name: str, role: str = "admin", **query: str) -> list[dict[str, Any]]:
    """An export of the campaign; with format=jsonl as JSON."""
    stack = desk.stack
    headers = {"Authorization": f"Bearer {stack.token('staff_test', (role,))}"}
    url = f"{stack.process.admin_url}{API}/admin/exports/{name}"
    async with stack.http.get(url, params={**query, "campaign_id": desk.world.campaign_id}, headers=headers) as got:
        text = await got.text()
        if got.content_type == "application/x-ndjson":
            return [json.loads(line) for line in text.splitlines()]
        return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.settings(role_matrix="strict")
async def test_export_of_participants_follows_consents(stack: Stack) -> None:
    name = {"key": "name", "label": {"en": "Name"}, "kind": "ENTRY_FIELD_KIND_TEXT"}
    desk = await desk_of(stack, {**FORM, "fields": [name, EMAIL]})
    for player in ("ann", "bob"):
        await desk.enter(player, name=f"=N({player})")
        await desk.submit(player, consents={"news": True})
        assert (await desk.world.round(desk.game_id, player)).code == "OK"
    await desk.submit("bob", consents={"news": False})
    await desk.submit("cat", fields={"name": "Cat"})
    await desk.enter("dan")
    assert (await desk.stack.admin("POST", "/admin/players/dan/erase", {"reason": "asked"})).code == "OK"
    ann, bob, cat = await export(desk, "participants")
    columns = ["fields.name", "fields.email", *(f"consents.{one}" for one in ("terms", "news"))]
    assert [one for one in ann if one.partition(".")[0] in ("fields", "consents") and one.count(".") == 1] == columns
    assert [ann[one] for one in columns] == ["'=N(ann)", "ann@example.com", "agreed", "agreed"]
    assert (ann["plays"], ann["wins"], ann["missing"]) == ("1", "0", "")
    assert ann["consents.news.text_sha256"] == hashlib.sha256(b"Send me news.").hexdigest()
    found = (bob["consents.terms"], bob["consents.news"], bob["consents.news.decided_at"] > "2026")
    assert found == ("agreed", "withdrawn", True)
    assert (cat["missing"], cat["consents.terms"]) == ("fields.email, consents.terms", "")
    (only,) = await export(desk, "participants", format="jsonl", consent="news")
    assert (only["player_id"], only["fields"]) == ("ann", {"email": "ann@example.com", "name": "=N(ann)"})
    assert {key: one["given"] for key, one in only["consents"].items()} == {"news": True, "terms": True}
    masked = (await export(desk, "participants", "designer"))[0]
    assert (masked["fields.email"], masked["fields.name"]) == ("a***@example.com", "")
    audited = (await stack.admin("GET", "/admin/audit", subject_type="export")).data["items"]
    found = [(one["after"]["whole_contacts"], one["after"]["consent"]) for one in reversed(audited)]
    assert found == [(True, ""), (True, "news"), (False, "")]
    await desk.change(fields=[EMAIL], consents=[TERMS, {**NEWS, "text": {"en": "Sell my data."}}])
    rows = await export(desk, "participants")
    assert [one["consents.news"] for one in rows] == ["outdated", "withdrawn", ""]
    assert rows[0]["fields"] == '{"name":"=N(ann)"}', "a field that the form no longer has"
    assert await export(desk, "participants", consent="news") == []
    found = [(one["given"], one["outdated"]) for one in (await desk.given())["consents"]]
    assert found == [(False, True), (True, False)]
    await desk.change(consents=[NEWS])
    assert list(json.loads((await export(desk, "participants"))[0]["consents"])) == ["terms"]


@pytest.mark.settings(role_matrix="strict")
async def test_export_of_winners_has_entry_and_answers(stack: Stack, shelf: Shelf) -> None:
    desk = await desk_of(stack, FORM)
    size = {"key": "size", "label": "Size", "required": True}
    on_claim = {"redemption_mode": "REDEMPTION_MODE_ON_CLAIM", "channel": "manual"}
    prize_id = await desk.world.prize(claim_fields=[size], fulfillment=on_claim, value=7)
    for player in ("ann", "bob", "cat", "dan"):
        await desk.enter(player)
        reward_id = await shelf.reward(prize_id)
        move = "UPDATE rewards SET campaign_id = $2, player_id = $3, value = 7 WHERE reward_id = $1"
        await stack.database.execute(move, reward_id, desk.world.campaign_id, player)
        if player == "ann":
            body = {"answers": {"size": "=XL"}}
            assert (await stack.consumer("POST", f"/rewards/{reward_id}/claim", body, player=player)).code == "OK"
            rename = """UPDATE claim_answers SET answers = answers || '[{"key": "old", "label": "", "value": "x"}]'"""
            await stack.database.execute(rename)
    await desk.submit("bob", consents={"news": True})
    assert (await stack.admin("POST", "/admin/players/dan/erase", {"reason": "asked"})).code == "OK"
    ann, bob, cat = await export(desk, "winners")
    shown = ("player_id", "value", "status", "email", "answers.size", "answers")
    assert [ann[one] for one in shown] == ["ann", "7.0", "claimed", "ann@example.com", "'=XL", '{"old":"x"}']
    assert [bob[one] for one in shown] == ["bob", "7.0", "won", "bob@example.com", "", "{}"]
    assert (bool(ann["claimed_at"]), bob["claimed_at"], cat["email"]) == (True, "", "cat@example.com")
    assert [one["player_id"] for one in await export(desk, "winners", consent="news")] == ["bob"]
    await desk.submit("bob", consents={"news": False})
    assert await export(desk, "winners", consent="news") == []
    (first, *_) = await export(desk, "winners", format="jsonl")
    assert first["answers"] == {"size": "=XL", "old": "x"}
    masked = (await export(desk, "winners", "designer"))[0]
    assert (masked["email"], masked["answers.size"], masked["answers"]) == ("a***@example.com", "", "{}")


async def test_source_of_an_entry_is_that_of_its_first_submission(stack: Stack) -> None:
    desk = await desk_of(stack, FORM)
    parts = ["utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "referrer"]
    invalid = {"utm_term": "x" * 201, "utm_medium": "a\u0000", "referrer": "https://news.example/?q=ann"}
    for name, text in invalid.items():
        assert fields_of(await desk.submit(source={name: text})) == [f"source.{name}"]
    assert await desk.given() is None
    first = {"utm_source": "=news", "utm_campaign": " spring ", "utm_term": " ", "referrer": "news.example"}
    for source in (first, {"utm_source": "other"}, None):
        assert (await desk.submit(consents={"terms": True}, source=source)).code == "OK"
    stored = {**dict.fromkeys(parts, ""), **first, "utm_campaign": "spring", "utm_term": ""}
    assert (await desk.given())["source"] == stored
    await desk.enter("bob")
    await desk.submit("bob", source=first)
    post = {"campaign_id": desk.world.campaign_id, "reason": "a postcard", "source": {"utm_source": "postal"}}
    entry = (await stack.admin("POST", "/admin/players/cat/entries", post)).data
    assert entry["source"]["utm_source"] == "postal"
    listed = [[one[f"source.{part}"] for part in parts] for one in await export(desk, "participants")]
    unknown = [""] * 5
    assert listed == [["'=news", "", "spring", "", "", "news.example"], ["", *unknown], ["postal", *unknown]]
    sources = [one["source"] for one in await export(desk, "participants", format="jsonl")]
    assert sources == [{name: text for name, text in stored.items() if text}, {}, {"utm_source": "postal"}]
    exported = (await stack.admin("GET", "/admin/players/ann/export", limit=100)).data["items"]
    assert [one["data"]["source"] for one in exported if one["kind"] == "entry"] == sources[:1]
    assert (await stack.admin("POST", "/admin/players/ann/erase", {"reason": "asked"})).code == "OK"
    assert (await desk.given())["source"] is None


async def test_draw_has_a_ticket_for_each_admitted_entry_complete_in_time(stack: Stack) -> None:
    desk = await desk_of(stack, {**FORM, "mode": "ENTRY_MODE_BEFORE_CLAIM"})
    for player in ("ann", "bob"):
        await desk.enter(player)
    for player in ("cleo", "dan", "fay"):
        await desk.submit(player, fields={"email": f"{player}@x.example"})
    abroad = {"player_id": "cleo", "country": "FR", "consents": {"terms": True}}
    assert (await stack.core("POST", desk.path, abroad)).data["missing"] == []
    await desk.change(mode="ENTRY_MODE_BEFORE_CLAIM", countries={"deny": ["FR"]})
    draw_id = await make_draw(stack, desk.world.campaign_id, await desk.world.prize())
    await stack.database.execute("UPDATE campaigns SET end_date = now() WHERE tenant_id = $1", stack.tenant_id)
    for player in ("dan", "eve"):
        await desk.enter(player)  # In time for a claim.
    reopen = """UPDATE campaigns SET entry = entry || jsonb_build_object('mode', $2::text),
        redeem_until = now() + make_interval(hours => $3) WHERE tenant_id = $1"""
    closed = "CAMPAIGN_CLOSED"
    for mode, hours, reason in (("open", 1, closed), ("before_play", 0, closed), ("before_play", 1, "")):
        await stack.database.execute(reopen, stack.tenant_id, mode, hours)
        for player in ("fay", "gus"):
            answer = await desk.submit(player, fields={"email": f"{player}@x.example"}, consents={"terms": True})
            assert answer.reason == reason
    draws = [await stack.consumer("GET", f"/draws/{draw_id}", player=one) for one in ("ann", "cleo", "dan", "eve")]
    assert [one.data.get("me", {}).get("tickets", 0) for one in draws] == [1, 0, 0, 0]
    draw = (await stack.admin("POST", f"/admin/draws/{draw_id}/close", {})).data
    assert (draw["ticket_count"], draw["holder_count"]) == (2, 2)
