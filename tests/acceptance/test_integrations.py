"""Integrations: registered, told of the right events, tried out with emit, left alone when they fail."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from runtime.actors import dispatcher as dispatch
from runtime.events import TYPES, DeliveryFailed, LeaderboardFinalized, PrizeWon, new_event
from runtime.outgoing.schedule import JITTER, SCHEDULE_SECONDS
from runtime.streams import backfill
from tests.support.deliveries import SECRET, working
from tests.support.receiver import Receiver, hang, receiving, status
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import OTHER_TENANT, TO_LOOPBACK
from tests.support.waiting import HANG_SECONDS, until

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


async def register(stack: Any, receiver: Receiver, *events: str, **fields: Any) -> str:
    config = {"url": receiver.url, "secret": SECRET, **fields.pop("config", {})}
    body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": list(events), "config": config, **fields}
    answer = await stack.admin("POST", "/admin/integrations", body)
    return str(answer.data["id"])


async def deliveries(stack: Any, integration_id: str, count: int) -> list[dict[str, Any]]:
    """The delivery log, once it has so many rows."""
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            answer = await stack.admin("GET", f"/admin/integrations/{integration_id}/deliveries", limit="100")
            if len(answer.data["items"]) >= count:
                return list(answer.data["items"])
            await asyncio.sleep(0.01)


def event(stack: Any, type: str = PrizeWon.TYPE, **fields: Any) -> Any:
    now = stack.engine.clock.now()
    own = {"occurred_at": now, "tenant_id": stack.tenant_id, "merchant_id": "", "campaign_id": "", "data": {}}
    return new_event(type, **{**own, **fields})


async def test_a_play_reaches_who_subscribes_signed_and_with_a_stable_id(stack: Any, receiver: Receiver) -> None:
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


async def test_an_integration_hears_of_what_happens_right_after_it_was_made(stack: Any, receiver: Receiver) -> None:
    """Also where the hub has just been busy with the tenant's events, and knew who was there at that moment."""
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack))
    await register(stack, receiver, "busy")
    async with working(stack.engine, "integrations"):
        for nth in range(5):
            stack.engine.publisher.events([event(stack, "busy")])
            await receiver.next()
            async with receiving() as new:
                integration_id = await register(stack, new, "play_completed")
                play = await play_once(stack, game["id"], player=f"player_{nth}")
                assert (await new.next()).json["data"]["play_id"] == play["play_id"]
                await stack.admin("DELETE", f"/admin/integrations/{integration_id}")


async def test_only_matching_events_are_told(stack: Any, receiver: Receiver) -> None:
    mine, other = await make_campaign(stack), await make_campaign(stack, name="Other")
    await register(stack, receiver, "prize_won", campaign_id=mine["id"])
    publisher = stack.engine.publisher
    publisher.events(
        [
            event(stack, "play_completed", campaign_id=mine["id"]),
            event(stack, campaign_id=other["id"]),
            event(stack),
            event(stack, tenant_id="tenant_other", campaign_id=mine["id"]),
            event(stack, campaign_id=mine["id"], data={"this": 1}),
        ]
    )
    async with working(stack.engine, "integrations"):
        assert (await receiver.next()).json["data"] == {"this": 1}
    assert len(receiver.all) == 1


async def test_emit_counts_those_that_matched_and_were_attempted(stack: Any, receiver: Receiver) -> None:
    campaign = await make_campaign(stack)
    await register(stack, receiver, "custom_event")
    await register(stack, receiver, "custom_event", campaign_id=campaign["id"])
    await register(stack, receiver, "prize_won")
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


async def test_a_failing_receiver_is_attempted_once_logged_and_then_left_alone(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "PLACES", 1)
    receiver.replies = [status(500)] * 50
    integration_id = await register(stack, receiver, "prize_won")
    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack) for _ in range(10)])
        log = await deliveries(stack, integration_id, 10)
        emitted = await stack.admin("POST", "/admin/integrations/emit", {"type": "prize_won", "data": {}})
    assert emitted.data["dispatched"] == 0
    assert len(receiver.all) == dispatch.FAILURES_TO_OPEN
    assert sum(row["http_status"] == 500 for row in log) == dispatch.FAILURES_TO_OPEN
    assert sum(row["error"].startswith("skipped") for row in log) == 10 - dispatch.FAILURES_TO_OPEN


async def test_each_try_that_fails_is_followed_by_the_pause_of_the_deliveries_schedule(
    stack: Any, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(dispatch, "FAILURES_TO_OPEN", 1000)  # It is not left alone meanwhile.
    receiver.replies = [status(500)] * 50
    await register(stack, receiver, "prize_won")
    read = "SELECT status, attempts, extract(epoch FROM next_attempt_at - now())::float8 FROM integration_deliveries"

    async def tried(status: str, attempts: int) -> bool:
        row = await stack.database.fetchrow(read)
        return row is not None and tuple(row)[:2] == (status, attempts)

    async with working(stack.engine, "integrations"):
        stack.engine.publisher.events([event(stack)])
        for attempts, pause in enumerate(SCHEDULE_SECONDS, 1):
            await until(lambda attempts=attempts: tried("retry", attempts))  # type: ignore[misc]
            *_, waits = await stack.database.fetchrow(read)
            shorter = max((one for one in SCHEDULE_SECONDS if one < pause), default=float("-inf"))
            assert shorter * (1 + JITTER) < waits <= pause * (1 + JITTER)
            await stack.database.execute("UPDATE integration_deliveries SET next_attempt_at = now()")
        await until(lambda: tried("dead", len(SCHEDULE_SECONDS) + 1))
    assert len({one.body for one in receiver.all}) == 1


async def test_a_receiver_that_hangs_harms_no_other(stack: Any, receiver: Receiver) -> None:
    async with receiving() as slow:
        slow.replies = [hang] * 1000
        await register(stack, slow, "prize_won")
        await register(stack, receiver, "prize_won")
        stack.engine.dispatcher._connector._attempt_seconds = 1.0
        events = [event(stack) for _ in range(400)]
        async with working(stack.engine, "integrations"):
            stack.engine.publisher.events(events)
            got = {(await receiver.next()).json["id"] for _ in events}
        assert got == {one.id for one in events}
        assert len(slow.all) <= dispatch.PLACES * 3


async def test_while_a_secret_is_rotated_both_sign(stack: Any, receiver: Receiver) -> None:
    old = "whsec_" + "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB"
    await register(stack, receiver, "x", config={"previous_secret": old})
    await stack.admin("POST", "/admin/integrations/emit", {"type": "x", "data": {}})
    got = await receiver.next()
    for secret in (SECRET, old):
        assert Webhook(secret).verify(got.body, dict(got.headers))["type"] == "x"


async def test_a_secret_is_never_read_back_nor_readable_at_rest(stack: Any, receiver: Receiver) -> None:
    await register(stack, receiver, "x")
    listed = await stack.admin("GET", "/admin/integrations")
    [item] = listed.data["items"]
    assert item["config"] == {"url": receiver.url, "secret_set": True}
    assert (item["type"], item["status"]) == ("INTEGRATION_TYPE_WEBHOOK", "INTEGRATION_STATUS_ACTIVE")
    stored = await stack.database.fetchval("SELECT config::text FROM integrations")
    audit = await stack.database.fetchval("SELECT string_agg(a::text, '') FROM audit_entries AS a")
    assert SECRET not in str(stored) and SECRET not in audit


async def test_a_paused_integration_hears_nothing_until_it_is_resumed(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "prize_won")
    path = f"/admin/integrations/{integration_id}"
    async with working(stack.engine, "integrations"):
        for change, heard in (("PAUSED", False), ("ACTIVE", True)):
            answer = await stack.admin("PUT", path, {"status": f"INTEGRATION_STATUS_{change}"})
            assert answer.data["status"] == f"INTEGRATION_STATUS_{change}"
            emitted = await stack.admin("POST", "/admin/integrations/emit", {"type": "prize_won", "data": {}})
            assert emitted.data["dispatched"] == int(heard)
    assert len(receiver.all) == 1


async def test_an_update_keeps_what_it_leaves_out_and_the_secret(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "x")
    path = f"/admin/integrations/{integration_id}"
    body = {"events": ["y"], "config": {"url": receiver.url + "/moved"}}
    answer = await stack.admin("PUT", path, body)
    assert (answer.data["events"], answer.data["config"]["secret_set"]) == (["y"], True)
    assert answer.data["status"] == "INTEGRATION_STATUS_ACTIVE"
    await stack.admin("POST", "/admin/integrations/emit", {"type": "y", "data": {}})
    got = await receiver.next()
    assert got.path.endswith("/moved")
    Webhook(SECRET).verify(got.body, dict(got.headers))
    for wrong in ({"type": "INTEGRATION_TYPE_CRM"}, {"events": []}, {"config": {"url": "ftp://x"}}):
        assert (await stack.admin("PUT", path, wrong)).code == "INVALID_ARGUMENT"
    assert (await stack.admin("PUT", "/admin/integrations/integration_x", {"events": ["y"]})).http == 404


async def test_an_integration_is_tested_alone_and_says_what_became_of_it(stack: Any, receiver: Receiver) -> None:
    first = await register(stack, receiver, "x")
    await register(stack, receiver, "integration_test")
    paused = await stack.admin("PUT", f"/admin/integrations/{first}", {"status": "INTEGRATION_STATUS_PAUSED"})
    assert paused.code == "OK"
    receiver.replies = [status(204), status(503)]
    told = [(await stack.admin("POST", f"/admin/integrations/{first}/test", {})).data for _ in range(2)]
    assert [(one["status"], one["http_status"]) for one in told] == [
        ("INTEGRATION_DELIVERY_STATUS_DELIVERED", 204),
        ("INTEGRATION_DELIVERY_STATUS_DEAD", 503),
    ]
    assert [one.json["type"] for one in receiver.all] == ["integration_test"] * 2
    assert len(await deliveries(stack, first, 2)) == 2


def said(code: int, text: str) -> Any:
    async def answer(request: Any) -> web.Response:
        return web.Response(status=code, text=text)

    return answer


async def test_what_was_told_is_told_again_under_the_same_id(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "integration_test")
    path = f"/admin/integrations/{integration_id}"
    receiver.replies = [status(204), said(500, "down"), said(200, "thanks")]
    for _ in range(2):
        await stack.admin("POST", f"{path}/test", {})
    newest, oldest = await deliveries(stack, integration_id, 2)
    assert (newest["status"], newest["answer"]) == ("INTEGRATION_DELIVERY_STATUS_DEAD", "down")
    again = [(await stack.admin("POST", f"{path}/resend", {"delivery_id": one["id"]})).data for one in (newest, oldest)]
    assert [(one["id"], one["event_id"]) for one in again] == [
        (newest["id"], newest["event_id"]),
        (oldest["id"], oldest["event_id"]),
    ]
    assert (again[0]["delivered"], again[0]["answer"], again[0]["attempts"]) == (True, "thanks", 2)
    assert [one.json["id"] for one in receiver.all[2:]] == [newest["event_id"], oldest["event_id"]]
    assert receiver.all[2].json == receiver.all[1].json and receiver.all[2].headers["webhook-id"] == newest["event_id"]
    await stack.engine.dispatcher.log.written()
    now = await deliveries(stack, integration_id, 2)
    assert [(one["id"], one["delivered"], one["answer"]) for one in now] == [
        (newest["id"], True, "thanks"),
        (oldest["id"], True, ""),
    ]
    assert now[0]["request"] == receiver.all[1].body.decode()
    assert (await stack.admin("POST", f"{path}/resend", {"delivery_id": "delivery_x"})).reason == "UNKNOWN_DELIVERY"
    noted = (await stack.admin("GET", "/admin/audit", subject_id=integration_id)).data["items"]
    assert [one["action"] for one in noted][:2] == ["integration.resend", "integration.resend"]


async def test_who_waits_for_a_try_waits_on_where_a_resent_one_fails(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, PrizeWon.TYPE)
    receiver.replies = [status(500), status(500)]
    async with working(stack.engine, "integrations"):
        await stack.engine.dispatcher.dispatch(event(stack))
        (waiting,) = await deliveries(stack, integration_id, 1)
        body = {"delivery_id": waiting["id"]}
        again = (await stack.admin("POST", f"/admin/integrations/{integration_id}/resend", body)).data
    assert (again["status"], again["attempts"]) == ("INTEGRATION_DELIVERY_STATUS_RETRY", 2)


async def stored_events(stack: Any) -> str:
    """The events of the log, as text, with all that was to be noted."""
    await stack.engine.dispatcher.log.written()
    return str(await stack.database.fetch("SELECT event FROM integration_deliveries ORDER BY delivery_id"))


async def erase(stack: Any, player_id: str) -> None:
    assert (await stack.admin("POST", f"/admin/players/{player_id}/erase", {"reason": "asked for"})).http == 200


async def test_what_a_receiver_said_of_a_player_goes_from_events_with_the_player(
    stack: Any, receiver: Receiver
) -> None:
    await register(stack, receiver, DeliveryFailed.TYPE)
    for player, said in (("ann", "answered 422: Ann Quince is out"), ("bob", "answered 422: Bob Reed is out")):
        await stack.core("GET", "/players/me", player_id=player)
        tasks = await stack.engine.dispatcher.dispatch(
            event(stack, DeliveryFailed.TYPE, data={"task_id": f"task_{player}", "player_id": player, "error": said})
        )
        await asyncio.wait(tasks)
    assert "Ann Quince" in await stored_events(stack)
    await erase(stack, "ann")
    left = await stored_events(stack)
    assert "Ann Quince" not in left and "task_ann" in left and "Bob Reed is out" in left


@pytest.mark.parametrize("tried_before", [True, False])
async def test_an_attempt_under_way_does_not_write_back_what_is_erased_meanwhile(
    stack: Any, receiver: Receiver, tried_before: bool
) -> None:
    integration_id = await register(stack, receiver, LeaderboardFinalized.TYPE)
    for player in ("ann", "bob"):
        await stack.core("GET", "/players/me", player_id=player)
    begun, erased = asyncio.Event(), asyncio.Event()

    async def late(request: Any) -> web.Response:
        begun.set()
        await erased.wait()
        return web.Response(status=500, text="Ann Quince is unknown here")

    names = {"ann": "Ann Quince", "bob": "Bob Reed"}
    told = {"standings": [{"player_id": player, "display_name": name} for player, name in names.items()]}
    receiver.replies = [*[status(500)] * tried_before, late]
    tasks = await stack.engine.dispatcher.dispatch(event(stack, LeaderboardFinalized.TYPE, data=told))
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


async def test_what_is_told_again_under_an_id_does_not_replace_the_event(stack: Any, receiver: Receiver) -> None:
    await register(stack, receiver, PrizeWon.TYPE)
    receiver.replies = [status(500), status(500)]
    for said in ("first", "second"):
        await asyncio.wait(await stack.engine.dispatcher.dispatch(event(stack, id="evt_1", data={"said": said})))
        await stack.engine.dispatcher.log.written()
    left = await stored_events(stack)
    assert "first" in left and "second" not in left


async def test_what_happened_since_an_erasure_is_told_and_kept(stack: Any, receiver: Receiver) -> None:
    await register(stack, receiver, LeaderboardFinalized.TYPE)
    await stack.core("GET", "/players/me", player_id="ann")
    await erase(stack, "ann")
    told = {"standings": [{"player_id": "ann", "display_name": "Ann Reed"}]}
    later = event(stack, LeaderboardFinalized.TYPE, data=told, occurred_at=stack.engine.clock.now() + 2)
    await asyncio.wait(await stack.engine.dispatcher.dispatch(later))
    assert "Ann Reed" in await stored_events(stack)


async def test_another_s_deliveries_are_unknown(stack: Any, receiver: Receiver) -> None:
    first, second = await register(stack, receiver, "x"), await register(stack, receiver, "x")
    await stack.admin("POST", f"/admin/integrations/{first}/test", {})
    ((one),) = await deliveries(stack, first, 1)
    body = {"delivery_id": one["id"]}
    assert (await stack.admin("POST", f"/admin/integrations/{second}/resend", body)).reason == "UNKNOWN_DELIVERY"
    other = replace(stack, tenant_id=OTHER_TENANT)
    assert (await other.admin("POST", f"/admin/integrations/{first}/resend", body)).reason == "UNKNOWN_INTEGRATION"
    assert len(receiver.all) == 1


async def test_what_is_kept_of_an_answer_is_short_and_repeats_nothing_confided(stack: Any, receiver: Receiver) -> None:
    headers = {"X-Api-Key": "key-of-the-receiver"}
    integration_id = await register(stack, receiver, "x", config={"headers": headers})

    async def echo(request: Any) -> web.Response:
        return web.Response(text=f"{dict(request.headers)} {SECRET} {'x' * 5_000}")

    receiver.replies = [echo]
    told = (await stack.admin("POST", f"/admin/integrations/{integration_id}/test", {})).data
    await stack.engine.dispatcher.log.written()
    (logged,) = await deliveries(stack, integration_id, 1)
    sent = receiver.all[0].headers
    for kept in (told["answer"], logged["answer"]):
        assert len(kept) == 2_048 and "****" in kept and sent["webhook-id"] in kept
        for confided in ("key-of-the-receiver", SECRET.removeprefix("whsec_"), sent["webhook-signature"]):
            assert confided not in kept


async def test_a_stub_says_that_it_is_one(stack: Any) -> None:
    body = {"type": "INTEGRATION_TYPE_SMS", "events": ["x"]}
    integration_id = (await stack.admin("POST", "/admin/integrations", body)).data["id"]
    await stack.admin("POST", "/admin/integrations/emit", {"type": "x", "data": {}})
    [row] = await deliveries(stack, integration_id, 1)
    assert (row["status"], row["delivered"]) == ("INTEGRATION_DELIVERY_STATUS_STUBBED", False)


async def test_a_deleted_integration_is_gone(stack: Any, receiver: Receiver) -> None:
    integration_id = await register(stack, receiver, "x")
    assert (await stack.admin("DELETE", f"/admin/integrations/{integration_id}")).http == 200
    for verb, path in (("DELETE", ""), ("GET", "/deliveries")):
        answer = await stack.admin(verb, f"/admin/integrations/{integration_id}{path}")
        assert (answer.http, answer.reason) == (404, "UNKNOWN_INTEGRATION")
    emitted = await stack.admin("POST", "/admin/integrations/emit", {"type": "x", "data": {}})
    assert emitted.data["dispatched"] == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"type": "INTEGRATION_TYPE_UNSPECIFIED"}, "type"),
        ({"events": []}, "events"),
        ({"events": [""]}, "events[0]"),
        ({"config": {}}, "config.url"),
        ({"config": {"url": "ftp://x"}}, "config.url"),
        ({"config": {"url": "http://user:word@x"}}, "config.url"),
        ({"type": "INTEGRATION_TYPE_CRM", "config": {"headers": {"a": ["b"]}}}, "config.headers.a"),
        ({"config": {"url": "http://x", "secret": "s" * 15}}, "config.secret"),
        ({"config": {"url": "http://x", "secret": "whsec_" + "QUFB" * 5}}, "config.secret"),
        ({"config": {"url": "http://x", "secret": "whsec_ that is no base64"}}, "config.secret"),
        ({"config": {"url": "http://x", "previous_secret": "s" * 15}}, "config.previous_secret"),
        ({"config": {"url": "http://x", "headers": {"a\nb": "c"}}}, "config.headers.a\nb"),
    ],
)
async def test_a_wrong_integration_names_the_field(stack: Any, change: dict[str, Any], field: str) -> None:
    body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": ["x"], "config": {"url": "http://a.example"}, **change}
    answer = await stack.admin("POST", "/admin/integrations", body)
    assert answer.code == "INVALID_ARGUMENT"
    assert [row["field"] for row in answer.envelope["data"]["violations"]] == [field]


async def test_an_unknown_campaign_is_unknown(stack: Any) -> None:
    body = {"type": "INTEGRATION_TYPE_CRM", "events": ["x"], "campaign_id": "camp_x"}
    answer = await stack.admin("POST", "/admin/integrations", body)
    assert (answer.http, answer.reason) == (404, "UNKNOWN_CAMPAIGN")
    answer = await stack.admin("POST", "/admin/integrations/emit", {"type": "x", "campaign_id": "camp_x", "data": {}})
    assert (answer.http, answer.reason) == (404, "UNKNOWN_CAMPAIGN")


def test_the_canonical_types_are_the_specs_and_the_others_ours() -> None:
    specs, ours = TYPES[:5], TYPES[5:]
    assert specs == ("play_completed", "prize_won", "prize_claimed", "quest_completed", "leaderboard_finalized")
    assert ours == ("delivery_failed", "campaign.budget_reached", "prizes.low_stock")
