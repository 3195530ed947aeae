import asyncio
from contextlib import ExitStack
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from runtime.actors.dispatcher import TRIES_MAX
from runtime.events import TYPES, LeaderboardFinalized
from tests.support.deliveries import SECRET, deliveries, event, register, working
from tests.support.operations import make_merchant
from tests.support.receiver import Receiver, status
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import TO_LOOPBACK, fields_of

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


async def test_play_reaches_its_subscribers_signed_and_with_a_stable_id(stack: Any, receiver: Receiver) -> None:
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    integration_id = await register(stack, receiver, "play_completed", "prize_won")
    async with working(stack.engine, "integrations"):
        await play_once(stack, game["id"])
        got = sorted([await receiver.next(), await receiver.next()], key=lambda one: str(one.json["type"]))
        log = await deliveries(stack, integration_id, 2)
    assert [one.json["type"] for one in got] == ["play_completed", "prize_won"]
    for one in got:
        Webhook(SECRET).verify(one.body, dict(one.headers))
        assert one.headers["X-Service-Signature"] == one.headers["webhook-signature"]
        assert one.headers["webhook-id"] == one.json["id"]
        assert one.json["tenant_id"] == stack.tenant_id and one.json["campaign_id"] == campaign["id"]
    assert {row["event_id"] for row in log} == {one.json["id"] for one in got}
    assert all(row["delivered"] for row in log)


async def test_emit_counts_the_matching_integrations(stack: Any, receiver: Receiver) -> None:
    campaign = await make_campaign(stack)
    await register(stack, receiver, "custom_event")
    await register(stack, receiver, "custom_event", campaign_id=campaign["id"])
    await register(stack, receiver, "prize_won")
    await register(stack, receiver, "custom_event", status="INTEGRATION_STATUS_PAUSED")
    await stack.admin("POST", "/admin/integrations", {"type": "INTEGRATION_TYPE_SMS", "events": ["custom_event"]})
    async with working(stack.engine, "integrations"):
        body = {"type": "custom_event", "campaign_id": campaign["id"], "data": {"n": 1}}
        answer = (await stack.admin("POST", "/admin/integrations/emit", body)).data
        assert answer["dispatched"] == 3
        assert [(await receiver.next()).json["id"] for _ in range(2)] == [answer["event_id"]] * 2
        scope_wide = (await stack.admin("POST", "/admin/integrations/emit", {"type": "custom_event", "data": {}})).data
        assert scope_wide["dispatched"] == 2
        await receiver.next()
    assert len(receiver.all) == 3, "the hub's worker passes emitted events by"


async def test_integration_without_a_secret_gets_one_and_shows_it_once(stack: Any, receiver: Receiver) -> None:
    body = {"type": "webhook", "events": ["x"], "config": {"url": receiver.url}}
    made = (await stack.admin("POST", "/admin/integrations", body)).data
    secret = made["config"].pop("secret_once")
    assert made["config"] == {"url": receiver.url, "secret_set": True}
    assert (await stack.admin("GET", "/admin/integrations")).data["items"] == [made]
    await stack.admin("POST", f"/admin/integrations/{made['id']}/test", {})
    got = await receiver.next()
    Webhook(secret).verify(got.body, dict(got.headers))
    path, none = f"/admin/integrations/{made['id']}", {"url": receiver.url, "secret": ""}
    assert (await stack.admin("PUT", path, {"config": none})).data["config"] == {"url": receiver.url}
    again = (await stack.admin("PUT", path, {"config": {"url": receiver.url}})).data["config"]
    assert again["secret_once"] not in ("", secret)


async def test_integration_update_keeps_omitted_fields_and_the_secret(stack: Any, receiver: Receiver) -> None:
    path = f"/admin/integrations/{await register(stack, receiver, 'x')}"
    body = {"events": ["y"], "config": {"url": receiver.url, "headers": {"X-Way": "new"}}}
    answer = await stack.admin("PUT", path, body)
    assert (answer.data["events"], answer.data["config"]["secret_set"]) == (["y"], True)
    assert answer.data["status"] == "INTEGRATION_STATUS_ACTIVE"
    await stack.admin("POST", "/admin/integrations/emit", {"type": "y", "data": {}})
    got = await receiver.next()
    assert got.headers["X-Way"] == "new"
    Webhook(SECRET).verify(got.body, dict(got.headers))
    for wrong in ({"type": "crm"}, {"events": []}, {"config": {"url": "ftp://x"}}, {"merchant_id": "m"}):
        assert (await stack.admin("PUT", path, wrong)).code == "INVALID_ARGUMENT"
    assert (await stack.admin("PUT", "/admin/integrations/integration_x", {"events": ["y"]})).http == 404


async def test_trial_event_is_sent_to_one_integration_with_its_outcome(stack: Any, receiver: Receiver) -> None:
    first = await register(stack, receiver, "x")
    await register(stack, receiver, "integration_test")
    paused = await stack.admin("PUT", f"/admin/integrations/{first}", {"status": "INTEGRATION_STATUS_PAUSED"})
    assert paused.code == "OK"
    receiver.replies = [status(204), status(503)]
    reply = [(await stack.admin("POST", f"/admin/integrations/{first}/test", {})).data for _ in range(2)]
    assert [(one["status"], one["http_status"]) for one in reply] == [
        *(("INTEGRATION_DELIVERY_STATUS_DELIVERED", 204), ("INTEGRATION_DELIVERY_STATUS_DEAD", 503)),
    ]
    assert [one.json["type"] for one in receiver.all] == ["integration_test"] * 2
    assert len(await deliveries(stack, first, 2)) == 2


def said(code: int, text: str) -> Any:
    async def answer(request: Any) -> web.Response:
        return web.Response(status=code, text=text)

    return answer


async def test_resend_repeats_the_event_under_its_id(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "integration_test")
    path = f"/admin/integrations/{integration_id}"
    receiver.replies = [status(204), said(500, "down"), said(200, "thanks")]
    for _ in range(2):
        await stack.admin("POST", f"{path}/test", {})
    newest, oldest = await deliveries(stack, integration_id, 2)
    assert (newest["status"], newest["answer"]) == ("INTEGRATION_DELIVERY_STATUS_DEAD", "down")
    again = [(await stack.admin("POST", f"{path}/resend", {"delivery_id": one["id"]})).data for one in (newest, oldest)]
    first, second = [(one["id"], one["event_id"]) for one in (newest, oldest)]
    assert [(one["id"], one["event_id"]) for one in again] == [first, second]
    assert (again[0]["delivered"], again[0]["answer"], again[0]["attempts"]) == (True, "thanks", 2)
    assert [one.json["id"] for one in receiver.all[2:]] == [newest["event_id"], oldest["event_id"]]
    assert receiver.all[2].json == receiver.all[1].json and receiver.all[2].headers["webhook-id"] == newest["event_id"]
    assert receiver.all[2].headers["Accept-Encoding"] == "identity", "a compressed answer could not be read"
    await stack.engine.dispatcher.log.wait_until_written()
    now = await deliveries(stack, integration_id, 2)
    ended = [(newest["id"], True, "thanks"), (oldest["id"], True, "")]
    assert [(one["id"], one["delivered"], one["answer"]) for one in now] == ended
    assert now[0]["request"] == receiver.all[1].body.decode()
    other = f"/admin/integrations/{await register(stack, receiver, 'integration_test')}"
    for where, delivery_id in ((path, "delivery_x"), (other, newest["id"])):
        refused = await stack.admin("POST", f"{where}/resend", {"delivery_id": delivery_id})
        assert refused.reason == "UNKNOWN_DELIVERY"
    assert len(receiver.all) == 4
    entries = (await stack.admin("GET", "/admin/audit", subject_id=integration_id)).data["items"]
    assert [one["action"] for one in entries][:2] == ["integration.resend", "integration.resend"]


async def stored_events(stack: Any) -> str:
    await stack.engine.dispatcher.log.wait_until_written()
    return str(await stack.database.fetch("SELECT event FROM integration_deliveries ORDER BY delivery_id"))


async def erase(stack: Any, player_id: str) -> None:
    assert (await stack.admin("POST", f"/admin/players/{player_id}/erase", {"reason": "asked for"})).http == 200


@pytest.mark.parametrize("tried_before", [True, False])
async def test_attempt_under_way_writes_back_nothing_erased(stack: Any, receiver: Receiver, tried_before: bool) -> None:
    integration_id = await register(stack, receiver, LeaderboardFinalized.TYPE)
    for player in ("ann", "bob"):
        await stack.core("GET", "/players/me", player_id=player)
    begun, erased = asyncio.Event(), asyncio.Event()

    async def late(request: Any) -> web.Response:
        begun.set()
        await erased.wait()
        return web.Response(status=500, text="Ann Quince is unknown here")

    names = {"ann": "Ann Quince", "bob": "Bob Reed"}
    final = {"standings": [{"player_id": player, "display_name": name} for player, name in names.items()]}
    receiver.replies = [*[status(500)] * tried_before, late]
    tasks = await stack.engine.dispatcher.dispatch(event(stack, LeaderboardFinalized.TYPE, data=final))
    if tried_before:
        (waiting,) = await deliveries(stack, integration_id, 1)
        path = f"/admin/integrations/{integration_id}/resend"
        tasks.append(asyncio.create_task(stack.admin("POST", path, {"delivery_id": waiting["id"]})))
    await begun.wait()
    await erase(stack, "ann")
    erased.set()
    await asyncio.wait(tasks)
    left = await stored_events(stack)
    assert "Ann Quince" not in left and "ann" in left and "Bob Reed" in left
    (waiting,) = await deliveries(stack, integration_id, 1)
    assert (waiting["status"], waiting["attempts"]) == ("INTEGRATION_DELIVERY_STATUS_RETRY", 1 + tried_before)
    assert waiting["answer"] == ""


async def test_event_after_an_erasure_is_kept(stack: Any, receiver: Receiver) -> None:
    await register(stack, receiver, LeaderboardFinalized.TYPE)
    await stack.core("GET", "/players/me", player_id="ann")
    await erase(stack, "ann")
    final = {"standings": [{"player_id": "ann", "display_name": "Ann Reed"}]}
    later = event(stack, LeaderboardFinalized.TYPE, data=final, occurred_at=stack.engine.clock.now() + 2)
    await asyncio.wait(await stack.engine.dispatcher.dispatch(later))
    assert "Ann Reed" in await stored_events(stack)


async def test_stored_answer_is_short_and_masks_secrets(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "x", config={"headers": {"X-Api-Key": "key-of-the-receiver"}})

    async def echo(request: Any) -> web.Response:
        return web.Response(text=f"{dict(request.headers)} {SECRET} {'x' * 5_000}")

    receiver.replies = [echo]
    reply = (await stack.admin("POST", f"/admin/integrations/{integration_id}/test", {})).data
    with ExitStack() as places:
        for _ in range(TRIES_MAX):
            places.enter_context(stack.engine.dispatcher.place_for_try(stack.tenant_id))
        refused = await stack.admin("POST", f"/admin/integrations/{integration_id}/test", {})
        assert refused.envelope["data"]["reason"] == "OVERLOADED"
    await stack.engine.dispatcher.log.wait_until_written()
    (logged,) = await deliveries(stack, integration_id, 1)
    sent = receiver.all[0].headers
    for text in (reply["answer"], logged["answer"]):
        assert len(text) == 2_048 and "****" in text and sent["webhook-id"] in text
        for confided in ("key-of-the-receiver", SECRET.removeprefix("whsec_"), sent["webhook-signature"]):
            assert confided not in text


async def test_body_carries_contact_and_entry_while_the_player_consents(stack: Any, receiver: Receiver) -> None:
    phone = {"key": "tel", "label": {"en": "Phone"}, "kind": "ENTRY_FIELD_KIND_PHONE"}
    consents = [{"id": "news", "text": {"en": "Send me news."}}]
    campaign_id = (await make_campaign(stack, entry={"fields": [phone], "consents": consents}))["id"]
    asked = {"include": ["contact", "entry"], "consent": "news"}
    integration_id = await register(stack, receiver, "x", campaign_id=campaign_id, config=asked)
    await register(stack, receiver, "x", campaign_id=campaign_id, config={"include": ["entry"], "consent": "news"})
    await register(stack, receiver, "x", campaign_id=campaign_id)
    for player, agrees in (("ann", True), ("bob", False)):
        body = {"fields": {"tel": "+49301234567"}, "consents": {"news": agrees}, "source": {"utm_source": "ad"}}
        assert (await stack.consumer("POST", f"/campaigns/{campaign_id}/entry", body, player=player)).code == "OK"

    async def emit(**data: str) -> list[dict[str, Any]]:
        body = {"type": "x", "campaign_id": campaign_id, "data": data}
        assert (await stack.admin("POST", "/admin/integrations/emit", body)).code == "OK"
        bodies = [(await receiver.next()).json for _ in range(3)]
        return sorted([{key: one[key] for key in ("contact", "entry") if key in one} for one in bodies], key=len)

    entry, contact = {"tel": "+49301234567"}, {"phone": "+49301234567"}
    assert await emit(player_id="ann") == [{}, {"entry": entry}, {"contact": contact, "entry": entry}]
    assert await emit(player_id="bob") == await emit(player_id="eve") == await emit(of="nobody") == [{}] * 3

    for texts, known in (({"en": "Sell my data."}, 0), ({"en": "New.", "de": "Send me news."}, 2)):
        changed = {"entry": {"fields": [phone], "consents": [{"id": "news", "text": texts}]}}
        assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", changed)).code == "OK"
        assert len([one for one in await emit(player_id="ann") if one]) == known

    merged = "INSERT INTO players (tenant_id, player_id, merged_into) VALUES ($1, 'guest', 'ann')"
    await stack.database.execute(merged, stack.tenant_id)
    assert (await emit(player_id="guest"))[1] == {"entry": entry}
    login = "INSERT INTO contacts (tenant_id, contact_id, player_id, type, value) VALUES ($1, 'c', 'ann', 'email', $2)"
    await stack.database.execute(login, stack.tenant_id, "a@b.c")
    assert (await emit(player_id="ann"))[2] == {"contact": {**contact, "email": "a@b.c"}, "entry": entry}
    body = {"merchant_id": await make_merchant(stack)}
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", body)).code == "OK"
    assert (await emit(player_id="ann"))[2]["contact"] == contact, "its staff could enter any player of the tenant"

    async def echo(got: Any) -> web.Response:
        return web.Response(status=503, body=got.body)

    receiver.replies = [echo] * 3
    assert (await emit(player_id="ann"))[2] == {"contact": contact, "entry": entry}
    body = {"campaign_id": campaign_id, "consents": ["news"], "reason": "by phone"}
    assert (await stack.admin("POST", "/admin/players/ann/consents/withdraw", body)).code == "OK"
    await stack.engine.dispatcher.log.wait_until_written()
    assert "49301234567" not in str(await stack.database.fetch("SELECT * FROM integration_deliveries"))
    await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now() WHERE status = 'retry'")
    await stack.engine.dispatcher.retry_due()
    for _ in range(3):
        assert not {"contact", "entry"} & set((await receiver.next()).json), "a withdrawal counts at the next attempt"
    [latest, *_] = await deliveries(stack, integration_id, 6)
    resent = await stack.admin("POST", f"/admin/integrations/{integration_id}/resend", {"delivery_id": latest["id"]})
    assert resent.code == "OK" and not {"contact", "entry"} & set((await receiver.next()).json)


async def test_consent_of_an_integration_is_one_of_its_campaign(stack: Any, receiver: Receiver) -> None:
    campaign_id = (await make_campaign(stack))["id"]
    config = {"url": receiver.url, "include": ["entry"], "consent": "news"}
    body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["x"], "config": config}
    of_all = await stack.admin("POST", "/admin/integrations", body)
    for path in ("/admin/integrations", f"/admin/integrations/{of_all.data['id']}"):
        verb, sent = ("PUT", {}) if of_all.data["id"] in path else ("POST", body)
        assert fields_of(await stack.admin(verb, path, {**sent, "campaign_id": campaign_id})) == ["config.consent"]
    form = {"consents": [{"id": "news", "text": {"en": "Send me news."}}]}
    assert (await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"entry": form})).code == "OK"
    assert (await stack.admin("POST", "/admin/integrations", {**body, "campaign_id": campaign_id})).code == "OK"


async def test_integration_with_a_wrong_field_names_it(stack: Any) -> None:
    failed = []
    cases: list[tuple[dict[str, Any], str]] = [
        *(({"type": "INTEGRATION_TYPE_UNSPECIFIED"}, "type"), ({"events": []}, "events")),
        *(({"events": [""]}, "events[0]"), ({"config": {}}, "config.url")),
        *(({"config": {"url": "ftp://x"}}, "config.url"), ({"config": {"url": "http://user:word@x"}}, "config.url")),
        ({"config": {"url": "http://x", "headers": {"a": ["b"]}}}, "config.headers.a"),
        ({"config": {"url": "http://x", "secret": "s" * 15}}, "config.secret"),
        ({"config": {"url": "http://x", "secret": "whsec_" + "QUFB" * 5}}, "config.secret"),
        ({"config": {"url": "http://x", "secret": "whsec_ that is no base64"}}, "config.secret"),
        ({"config": {"url": "http://x", "previous_secret": "s" * 15}}, "config.previous_secret"),
        ({"config": {"url": "http://x", "headers": {"a\nb": "c"}}}, "config.headers.a\nb"),
        ({"config": {"url": "http://x", "include": ["secrets"], "consent": "news"}}, "config.include"),
        ({"config": {"url": "http://x", "include": "entry", "consent": "news"}}, "config.include"),
        ({"config": {"url": "http://x", "include": ["entry"]}}, "config.consent"),
        ({"config": {"url": "http://x", "include": ["entry"], "consent": 7}}, "config.consent"),
        ({"config": {"url": "http://x", "consent": "news"}}, "config.consent"),
    ]
    for change, field in cases:
        body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["x"], "config": {"url": "http://a.example"}, **change}
        found = fields_of(await stack.admin("POST", "/admin/integrations", body))
        if found != [field]:
            failed.append((change, found))
    assert failed == []


def test_event_types_begin_with_those_of_the_specification() -> None:
    specs, ours = TYPES[:5], TYPES[5:]
    assert specs == ("play_completed", "prize_won", "prize_claimed", "quest_completed", "leaderboard_finalized")
    own = "delivery_failed campaign.budget_reached prizes.low_stock code.redeemed draw.closed draw.drawn"
    assert " ".join(ours) == f"{own} log.checkpoint violation.opened"
