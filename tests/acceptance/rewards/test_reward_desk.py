from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio

import sql
from runtime import messages as m
from runtime.errors import Fault, Status
from runtime.operations.desk import bulk as bulk_module
from runtime.operations.rewards import code_sending
from tests.support.guests import log_in
from tests.support.operations import RECEIVER, make_merchant
from tests.support.resources import make_campaign
from tests.support.stack import OTHER_TENANT, Answer, Stack, fields_of, make_tenant, refused
from tests.support.world import World

pytestmark = pytest.mark.settings(role_matrix="strict")


BY_HAND = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


async def won(world: World, *, count: int = 1, player: str = "ann", **prize: Any) -> list[str]:
    game = await world.wheel(await world.prize(**prize))
    return [(await world.round(game, player)).data["rewards"][0]["reward_id"] for _ in range(count)]


async def bulk(stack: Stack, act: str, ids: list[str], key: str = "", **more: Any) -> Answer:
    body = {"act": f"BULK_ACT_{act}", "ids": ids, **more}
    return await stack.admin("POST", "/admin/rewards/bulk", body, headers={"Idempotency-Key": key} if key else {})


def reasons(answer: Answer) -> dict[str, str]:
    assert answer.http == 200, answer.envelope
    return {one["id"]: one["reason"] for one in answer.data["results"]}


async def found(stack: Stack, **query: Any) -> list[str]:
    return [row["id"] for row in (await stack.admin("GET", "/admin/rewards", **query)).data["items"]]


async def test_manual_delivery_awaits_staff_from_the_win_or_the_claim(world: World) -> None:
    for mode in ("on_win", "on_claim"):
        [reward] = await won(world, fulfillment={"redemption_mode": mode, "channel": "manual"})

        async def task(of: str = reward) -> tuple[Any, ...]:
            tasks = (await world.stack.admin("GET", "/admin/fulfillment/tasks")).data["items"]
            found = [one for one in tasks if one["reward_id"] == of]
            return tuple(found[0][name] for name in ("status", "attempts", "next_attempt_at")) if found else ()

        if mode == "on_claim":
            assert await task() == ()
            assert (await world.stack.consumer("POST", f"/rewards/{reward}/claim", {}, player="ann")).data["claimed_at"]
        assert await task() == ("TASK_STATUS_AWAITING", 0, 0)
        assert (await world.stack.admin("POST", f"/admin/rewards/{reward}/fulfill", {})).code == "OK"
        assert await task() == ("TASK_STATUS_DELIVERED", 1, 0)


async def test_reward_is_found_by_its_whole_code_in_its_own_scope(world: World) -> None:
    [one, two] = await won(world, count=2, codes=["FAIR-1", "FAIR-2"])
    each = await found(world.stack, code=" FAIR-2 ") + await found(world.stack, code="FAIR-1")
    assert sorted(each) == sorted([one, two])
    assert await found(world.stack, code="FAIR-") == []
    assert await found(await make_tenant(world.stack, OTHER_TENANT), code="FAIR-1") == []
    shop = replace(world.stack, merchant_id=await make_merchant(world.stack))
    assert await found(shop, code="FAIR-1") == [], "the tenant's own winner"
    assert len(await found(shop, campaign_id=world.campaign_id)) == 2
    assert "FAIR-1" not in str((await world.stack.admin("GET", "/admin/rewards", code="FAIR-1")).envelope)


async def test_search_by_code_requires_the_role_that_moves_rewards(world: World) -> None:
    await won(world, codes=["GUESS-1"])
    actual = [
        await world.stack.admin("GET", "/admin/rewards", roles=("designer",), reveal="true", code=code)
        for code in ("GUESS-1", "GUESS-2")
    ]
    assert [refused(answer) for answer in actual] == [(403, "PERMISSION_DENIED", "ROLE_REQUIRED")] * 2
    assert actual[0].envelope["data"] == actual[1].envelope["data"]
    assert actual[0].envelope["data"]["roles"] == ["admin", "reward_manager"]
    for role in ("admin", "reward_manager"):
        assert len((await world.stack.admin("GET", "/admin/rewards", roles=(role,), code="GUESS-1")).data["items"]) == 1
    everything = await world.stack.admin("GET", "/admin/rewards", roles=("designer",), campaign_id=world.campaign_id)
    assert len(everything.data["items"]) == 1


async def test_code_is_revealed_to_who_moves_rewards_and_noted(world: World) -> None:
    [coded] = await won(world, codes=["AGAIN-1"])
    [plain] = await won(world)
    shop = replace(world.stack, merchant_id=await make_merchant(world.stack))

    async def reveal(stack: Stack, reward_id: str, role: str = "reward_manager") -> Answer:
        return await stack.admin("POST", f"/admin/rewards/{reward_id}/reveal-code", {"reason": "lost"}, roles=(role,))

    assert (await reveal(world.stack, coded)).data == {"code": "AGAIN-1"}
    unexplained = await world.stack.admin("POST", f"/admin/rewards/{coded}/reveal-code", {"reason": " "})
    assert (unexplained.reason, fields_of(unexplained)) == ("VALIDATION", ["reason"])
    assert refused(await reveal(world.stack, plain)) == (404, "NOT_FOUND", "UNKNOWN_CODE")
    assert refused(await reveal(world.stack, coded, "designer")) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
    assert refused(await reveal(shop, coded)) == (403, "PERMISSION_DENIED", "FORBIDDEN")
    [entries] = (await world.stack.admin("GET", "/admin/audit", action="reward.reveal_code")).data["items"]
    assert (entries["subject_id"], entries["after"]["reason"]) == (coded, "lost") and "AGAIN-1" not in str(entries)


async def test_code_is_sent_again_to_the_players_contact(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    player = await log_in(world.stack, contact="sent@example.com")
    [coded], [plain] = await won(world, player=player, codes=["SENT-1"]), await won(world)
    [unreachable] = await won(world, player="bob", codes=["SENT-2"])

    async def send(reward_id: str = coded, role: str = "reward_manager", reason: str = "lost") -> Answer:
        path, body = f"/admin/rewards/{reward_id}/send-code", {"reason": reason}
        return await world.stack.admin("POST", path, body, roles=(role,))

    assert (await send()).data == {"contact_type": "CONTACT_TYPE_EMAIL", "sent_to": "s***@example.com"}
    assert "reward code SENT-1 for sent@example.com" in capsys.readouterr().out
    assert fields_of(await send(reason=" ")) == ["reason"]
    assert refused(await send(role="designer")) == (403, "PERMISSION_DENIED", "ROLE_REQUIRED")
    assert refused(await send(plain)) == (404, "NOT_FOUND", "UNKNOWN_CODE")
    assert refused(await send(unreachable)) == (400, "FAILED_PRECONDITION", "NO_CONTACT")
    [noted] = (await world.stack.admin("GET", "/admin/audit", action="reward.send_code")).data["items"]
    assert (noted["subject_id"], noted["after"]["reason"]) == (coded, "lost")
    assert "SENT-1" not in str(noted) and "sent@" not in str(noted)
    for _ in range(code_sending.SENDS.most - 1):
        assert (await send()).code == "OK"
    assert refused(await send()) == (429, "RESOURCE_EXHAUSTED", "RATE_LIMITED")


async def test_failed_delivery_is_fulfilled_by_hand_and_the_players_audit_log_has_it(world: World) -> None:
    ann = await log_in(world.stack)
    [reward] = await won(world, player=ann, fulfillment={"channel": "webhook", "config": {"url": RECEIVER}})

    async def delivery() -> Any:
        tasks = (await world.stack.admin("GET", "/admin/fulfillment/tasks")).data["items"]
        return next(task for task in tasks if task["reward_id"] == reward)

    leased = "UPDATE tasks SET status = 'delivering', lease_owner = 'w', lease_until = now() + interval '1 minute'"
    for statement in (leased, "UPDATE rewards SET status = 'fulfilling'"):
        await world.database.execute(f"{statement} WHERE reward_id = $1", reward)
    ended = await world.stack.admin("POST", f"/admin/rewards/{reward}/fulfill", {})
    assert ended.data["status"].endswith("FULFILLED")
    late = (["retry"], ["down"], [""], [1.0], [""], [1])
    rows = await world.database.fetch(
        sql.load("fulfillment")["record"], world.stack.tenant_id, [(await delivery())["id"]], ["w"], *late
    )
    assert rows == [], "the attempt under way records nothing"
    task = await delivery()
    assert (task["status"], task["prize_name"]) == ("TASK_STATUS_DELIVERED", "Mug")
    gift = {"player_id": ann, "scope_key": world.campaign_id, "currency": "points", "amount": 5}
    gift |= {"reference_id": "sorry"}
    assert (await world.stack.admin("POST", "/admin/wallet/adjustments", gift)).http == 200
    [other] = await won(world, player="bob")
    assert (await world.stack.admin("POST", f"/admin/rewards/{other}/revoke", {})).http == 200
    entries = (await world.stack.admin("GET", "/admin/audit", player_id=ann)).data["items"]
    shown = [(one["action"], one["subject_id"]) for one in entries]
    assert shown == [("player.adjust_balance", ann), ("reward.fulfill", reward)]


async def test_search_by_contact_is_limited_to_the_merchants_campaigns(world: World) -> None:
    ada = await log_in(world.stack, contact="ada.shops@example.com")
    merchant_id = await make_merchant(world.stack)
    theirs = World(world.stack, (await make_campaign(world.stack, merchant_id=merchant_id))["id"])
    foreign = World(world.stack, (await make_campaign(world.stack, merchant_id=await make_merchant(world.stack)))["id"])
    to_send = {"channel": "webhook", "config": {"url": RECEIVER}}
    [own], _ = await won(theirs, player=ada, fulfillment=to_send), await won(foreign, player=ada)
    [open_to_all] = await won(world, player=ada, fulfillment=to_send)
    shop = replace(world.stack, merchant_id=merchant_id)
    assert await found(shop, contact="ada.shops@example.com") == [own]
    assert open_to_all in await found(shop)

    async def delivered(**query: str) -> set[str]:
        items = (await shop.admin("GET", "/admin/fulfillment/tasks", **query)).data["items"]
        return {task["reward_id"] for task in items}

    assert await delivered() >= {own, open_to_all}
    assert await delivered(contact="ada.shops@example.com") == {own}


async def test_bulk_moves_each_reward_by_itself_and_tells_each_reason(world: World) -> None:
    one, two, gone = await won(world, count=3, total=3, fulfillment=BY_HAND)
    assert (await world.stack.admin("POST", f"/admin/rewards/{gone}/revoke", {})).http == 200
    outcomes = await bulk(world.stack, "FULFILL", [one, gone, "reward_none", two], reason="handed over")
    assert reasons(outcomes) == {one: "", gone: "ILLEGAL_TRANSITION", "reward_none": "UNKNOWN_REWARD", two: ""}
    assert [one["ok"] for one in outcomes.data["results"]] == [True, False, False, True]
    for reward_id in (one, two):
        entries = (await world.stack.admin("GET", "/admin/audit", subject_id=reward_id)).data["items"]
        assert (entries[0]["action"], entries[0]["after"]["note"]) == ("reward.fulfill", "handed over")


async def test_bulk_under_its_key_moves_nothing_twice(world: World, valkey: redis.asyncio.Redis) -> None:
    [one] = await won(world, fulfillment=BY_HAND)
    assert reasons(await bulk(world.stack, "REVOKE", [one], "bulk-1", reason="a script")) == {one: ""}
    assert reasons(await bulk(world.stack, "REVOKE", [one], "bulk-1", reason="a script")) == {one: ""}
    assert reasons(await bulk(world.stack, "REVOKE", [one], "bulk-2", reason="a script")) == {one: "ILLEGAL_TRANSITION"}
    # Core keeps the key of each reward, so the edge may lose its answer.
    await valkey.flushall()
    assert reasons(await bulk(world.stack, "REVOKE", [one], "bulk-1", reason="a script")) == {one: ""}
    entries = (await world.stack.admin("GET", "/admin/audit", subject_id=one)).data["items"]
    assert [entry["action"] for entry in entries] == ["reward.revoke"]


async def test_bulk_key_with_another_body_is_refused(world: World) -> None:
    one, gone, other = await won(world, count=3, total=3, fulfillment=BY_HAND)
    assert (await world.stack.admin("POST", f"/admin/rewards/{gone}/revoke", {})).http == 200
    expected = {one: "", gone: "ILLEGAL_TRANSITION"}
    assert reasons(await bulk(world.stack, "FULFILL", [one, gone], "partly")) == expected
    for act, ids in (("REVOKE", [one, gone]), ("FULFILL", [one, other]), ("FULFILL", [gone, one])):
        answer = await bulk(world.stack, act, ids, "partly")
        assert refused(answer) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH"), (act, ids)
    assert reasons(await bulk(world.stack, "FULFILL", [one, gone], "partly")) == expected
    query = "SELECT reward_id, status FROM rewards WHERE reward_id = ANY ($1::text[])"
    statuses = await world.database.fetch(query, [one, other])
    assert {row["reward_id"]: row["status"] for row in statuses} == {one: "fulfilled", other: "won"}


@pytest.mark.parametrize("act", ["FULFILL", "REVOKE", "RETRY"])
async def test_bulk_retry_does_what_the_store_refused(world: World, monkeypatch: pytest.MonkeyPatch, act: str) -> None:
    webhook = {"channel": "webhook", "config": {"url": "http://192.0.2.1/none"}}
    ids = await won(world, count=3, total=3, fulfillment=webhook if act == "RETRY" else BY_HAND)
    done, away = bulk_module._ACTS[m.BulkAct[act]], set(ids[1:])

    async def breaks(engine: Any, request: Any, reward_id: str) -> None:
        if reward_id in away:
            raise Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away", retry_after_seconds=1)
        await done(engine, request, reward_id)

    monkeypatch.setattr(bulk_module, "_ACTS", {m.BulkAct[act]: breaks})
    key = f"hiccup-{act}"
    first = await bulk(world.stack, act, ids, key)
    assert reasons(first) == {ids[0]: "", ids[1]: "STORE_UNAVAILABLE", ids[2]: "STORE_UNAVAILABLE"}
    if act == "RETRY":  # It has been delivered since.
        assert (await world.stack.admin("POST", f"/admin/rewards/{ids[0]}/fulfill", {})).http == 200
    away.clear()
    again = await bulk(world.stack, act, ids, key)
    assert reasons(again) == dict.fromkeys(ids, "")
    assert "Idempotency-Replayed" not in again.headers
    stored = await bulk(world.stack, act, ids, key)
    assert (stored.data, stored.headers["Idempotency-Replayed"]) == (again.data, "true")


async def test_bulk_with_a_wrong_field_moves_nothing(world: World) -> None:
    [one] = await won(world, fulfillment=BY_HAND)
    for ids, field in (([], "ids"), ([one, one], "ids[1]"), ([one, ""], "ids[1]"), (["x"] * 101, "ids")):
        assert fields_of(await bulk(world.stack, "REVOKE", ids))[0].startswith(field), ids
    assert fields_of(await world.stack.admin("POST", "/admin/rewards/bulk", {"ids": [one]})) == ["act"]
    assert reasons(await bulk(world.stack, "REVOKE", [one])) == {one: ""}


async def test_bulk_moves_no_reward_of_another_tenant_or_merchant(world: World) -> None:
    [one] = await won(world, fulfillment=BY_HAND)
    assert reasons(await bulk(world.stack, "RETRY", [one])) == {one: "UNKNOWN_REWARD"}, "it has no delivery"
    assert reasons(await bulk(await make_tenant(world.stack, OTHER_TENANT), "REVOKE", [one])) == {one: "UNKNOWN_REWARD"}
    shop = replace(world.stack, merchant_id=await make_merchant(world.stack))
    assert reasons(await bulk(shop, "REVOKE", [one])) == {one: "FORBIDDEN"}
    assert reasons(await bulk(shop, "RETRY", [one])) == {one: "UNKNOWN_REWARD"}
    assert reasons(await bulk(world.stack, "REVOKE", [one])) == {one: ""}


async def test_integration_secret_is_rotated_with_an_overlap(module_stack: Stack) -> None:
    stack = module_stack
    config = {"url": "https://shop.example/hook", "secret": "the-first-secret-of-all"}
    hook = {"type": "webhook", "events": ["prize_won"], "config": config}
    path = f"/admin/integrations/{(await stack.admin('POST', '/admin/integrations', hook)).data['id']}"

    async def stored() -> dict[str, Any]:
        query = "SELECT config FROM integrations WHERE integration_id = $1"
        return dict(await stack.database.fetchval(query, path.rpartition("/")[2]))

    before = await stored()
    answer = await stack.admin("POST", f"{path}/rotate", {"secret": "the-second-secret-of-all"})
    assert answer.data["config"] == {"url": config["url"], "secret_set": True}
    after = await stored()
    assert after["previous_secret"] == before["secret"] and after["secret"].startswith("sealed:")
    assert (await stack.admin("POST", f"{path}/rotate", {})).http == 200
    assert await stored() == {"url": config["url"], "secret": after["secret"]}
    audit = str((await stack.admin("GET", "/admin/audit", subject_type="integration")).envelope)
    assert "integration.rotate" in audit and "secret-of-all" not in audit
    shop = replace(stack, merchant_id=await make_merchant(stack))
    assert (await shop.admin("POST", f"{path}/rotate", {"secret": "a-secret-of-my-own"})).http in (403, 404)
    assert refused(await stack.admin("POST", "/admin/integrations/x/rotate", {}))[0] == 404
