import asyncio
import json
from dataclasses import replace
from typing import Any, Final

import pytest
from aiohttp import web

from runtime.operations.reading import HIDDEN
from runtime.streams import expiry
from tests.support.deliveries import working
from tests.support.guests import guest_who_played, log_in
from tests.support.operations import make_merchant
from tests.support.receiver import receiving
from tests.support.rewards import Shelf
from tests.support.stack import OTHER_TENANT, TO_LOOPBACK, Answer, Stack, fields_of, refused
from tests.support.tables import contents
from tests.support.waiting import until
from tests.support.world import World

pytestmark = pytest.mark.settings(role_matrix="strict", **TO_LOOPBACK)


async def claim(stack: Stack, reward_id: str, player: str = "player_ann", **headers: str) -> Any:
    return await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player, headers=headers)


async def test_reward_and_its_task_read_alike_after_each_move(stack: Stack, shelf: Shelf) -> None:
    for mode, moves in (("on_claim", ("claim",)), ("manual", ("claim", "fulfill", "revoke"))):
        reward_id = await shelf.reward(prize_id := await shelf.prize(mode))
        await stack.database.execute("UPDATE prizes SET terms = 'Until May.' WHERE prize_id = $1", prize_id)
        for move in moves:
            if move == "claim":
                moved = (await claim(stack, reward_id)).data
            else:
                moved = (await stack.admin("POST", f"/admin/rewards/{reward_id}/{move}", {})).data
            assert moved["prize"]["terms"] == "Until May."
            assert (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"][0] == moved
            tasks = (await stack.admin("GET", "/admin/fulfillment/tasks", prize=prize_id)).data["items"]
            assert {task["attempts"] for task in tasks} <= {1}
        assert [task["status"] for task in tasks] == ["TASK_STATUS_DELIVERED"]


async def test_prize_keeps_its_channel_until_fulfil_and_its_owner_alone_sees_a_code(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize("manual", "voucher_code")
    reward_id = await shelf.reward(prize_id)
    path, note = f"/admin/rewards/{reward_id}/fulfill", {"note": "handed over"}
    assert (await stack.admin("POST", path, note)).reason == "OUT_OF_STOCK"
    await shelf.codes(prize_id, "MUG-1")
    await shelf.reward(several := await shelf.prize(), "player_bob", quantity=2)
    reserved = "UPDATE codes SET reward_id = $1, assigned_at = now() WHERE prize_id = $2"
    await shelf.engine.database.execute(reserved, reward_id, prize_id)
    for kept, channel in ((several, "voucher_code"), (prize_id, "none")):
        change = {"fulfillment": {"channel": channel}}
        kept_by = (await stack.admin("PUT", f"/admin/prizes/{kept}", change)).envelope
        assert kept_by["data"] == {"reason": "HAS_HISTORY", "field": "fulfillment.channel"}
        assert "undelivered rewards" in kept_by["message"] and "Instead, deliver or revoke" in kept_by["message"]
    assert not (await stack.admin("POST", path, note)).data.get("code")
    assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", change)).code == "OK"
    [mine] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
    assert mine["code"] == "MUG-1"
    [entry] = (await stack.admin("GET", "/admin/audit", subject_id=reward_id)).data["items"]
    assert (entry["action"], entry["actor"], entry["before"]["status"]) == ("reward.fulfill", "staff_test", "won")
    assert (entry["after"]["status"], entry["after"]["note"]) == ("fulfilled", "handed over")
    assert "MUG-1" not in str(entry)


async def test_expiry_reaches_tenants_in_batches(stack: Stack, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "BATCH", 2)
    for place in (shelf, await Shelf(shelf.engine, OTHER_TENANT).open()):
        prize_id = await place.prize()
        for _ in range(5):
            await place.reward(prize_id, expires_in_seconds=-1)
    assert sum(await asyncio.gather(*(expiry.expire(shelf.engine) for _ in range(4)))) == 10


async def test_reward_is_listed_with_all_its_fields(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize()
    reward_id = await shelf.reward(prize_id, quantity=2, expires_in_seconds=3600, game_id="game_1")
    [reward] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
    assert reward.pop("won_at") + 3600 - reward.pop("expires_at") in (-1, 0, 1)
    expected: dict[str, Any] = {"id": reward_id, "prize_id": prize_id, "name": "Mug", "type": "voucher", "value": 5}
    expected |= {"status": "REWARD_STATUS_WON", "game_id": "game_1", "campaign_id": "camp_test", "claimed_at": 0}
    expected |= dict.fromkeys(("play_id", "milestone_id", "code", "code_error"), "")
    expected |= {"fulfilled_at": 0, "quantity": 2}
    prize: dict[str, Any] = dict.fromkeys(("description", "image_url", "terms", "currency"), "") | {"claim_fields": []}
    assert reward == expected | {"prize": prize}


NAME: Final = {"key": "name", "label": "Your name <b>here</b>", "required": True}
ADDRESS: Final = {"key": "address", "label": "Address", "kind": "CLAIM_FIELD_KIND_LONG_TEXT", "required": True}
SIZE: Final = {"key": "size", "label": "Size", "kind": "CLAIM_FIELD_KIND_CHOICE", "options": ["S", "M", "</script>"]}
ON_CLAIM: Final = {"redemption_mode": "on_claim", "channel": "none"}
ANSWERS: Final = {"name": "  Ophelia Quince ", "address": "1 Mill Lane\nBath", "size": "</script>"}
KEPT: Final = [
    {"key": "name", "label": "Your name <b>here</b>", "value": "Ophelia Quince"},
    {"key": "address", "label": "Address", "value": "1 Mill Lane\nBath"},
    {"key": "size", "label": "Size", "value": "</script>"},
]
PERSONAL: Final = ("Ophelia Quince", "Mill Lane")


async def prize(world: World, *asked: dict[str, Any], **fields: Any) -> str:
    return await world.prize(claim_fields=list(asked or (NAME, ADDRESS, SIZE)), **{"fulfillment": ON_CLAIM, **fields})


async def won(world: World, prize_id: str, player: str = "ann") -> str:
    assert (await world.round(await world.wheel(prize_id), player)).code == "OK"
    found = (await world.stack.consumer("GET", "/rewards/me", player=player, prize_id=prize_id)).data["items"]
    return str(found[0]["id"])


async def claim_with(world: World, reward_id: str, answers: Any, player: str = "ann", key: str = "") -> Answer:
    path, body = f"/rewards/{reward_id}/claim", {"answers": answers}
    return await world.stack.consumer("POST", path, body, player=player, key=key)


async def shown(world: World, reward_id: str, *roles: str) -> dict[str, Any]:
    answer = await world.stack.admin("GET", f"/admin/rewards/{reward_id}", roles=roles or ("admin",))
    assert answer.code == "OK", answer.envelope
    return dict(answer.data)


async def test_claim_fields_read_back_and_are_shown_to_players(world: World) -> None:
    prize_id = await prize(world)
    path = f"/admin/prizes/{prize_id}"
    arguments = (await world.stack.admin("GET", path)).data["claim_fields"]
    assert arguments == [
        *({**NAME, "kind": "CLAIM_FIELD_KIND_TEXT", "options": []}, {**ADDRESS, "options": []}),
        {**SIZE, "required": False},
    ]
    game = await world.wheel(prize_id)
    render = (await world.stack.consumer("GET", f"/games/{game}/render", player="ann")).data
    assert render["prizes"][0]["claim_fields"] == arguments
    reward_id = await won(world, prize_id)
    listed = (await world.stack.consumer("GET", "/rewards/me", player="ann", prize_id=prize_id)).data["items"]
    assert [item["prize"]["claim_fields"] for item in listed if item["id"] == reward_id] == [arguments]
    assert (await world.stack.admin("PUT", path, {"name": "Jug"})).data["claim_fields"] == arguments
    assert (await world.stack.admin("PUT", path, {"claim_fields": []})).data["claim_fields"] == []


async def test_claim_fields_that_cannot_be_asked_are_refused(world: World) -> None:
    failed = []
    for fields, field in (
        *(([{**NAME, "key": ""}], "claim_fields[0].key"), ([{**NAME, "key": "a b"}], "claim_fields[0].key")),
        ([NAME, {**SIZE, "key": "name"}], "claim_fields[1].key"),
        *(([{**NAME, "key": "k" * 65}], "claim_fields[0].key"), ([{**NAME, "label": " "}], "claim_fields[0].label")),
        ([{**NAME, "label": "two\nlines"}], "claim_fields[0].label"),
        ([{**NAME, "options": ["S", "M"]}], "claim_fields[0].options"),
        ([{**SIZE, "options": ["S"]}], "claim_fields[0].options"),
        ([{**SIZE, "options": ["S", "S"]}], "claim_fields[0].options"),
        ([{**SIZE, "options": ["S", " M"]}], "claim_fields[0].options"),
        ([{**SIZE, "options": [f"{n}" for n in range(51)]}], "claim_fields[0].options"),
        ([{**NAME, "kind": "CLAIM_FIELD_KIND_PHOTO"}], "claim_fields[0].kind"),
        ([{**NAME, "key": f"k{n}"} for n in range(11)], "claim_fields"),
    ):
        body = {"name": "Mug", "type": "goods", "fulfillment": ON_CLAIM, "claim_fields": fields}
        found = fields_of(await world.stack.admin("POST", "/admin/prizes", body))
        if found != [field]:
            failed.append((fields, found))
    assert failed == []


async def test_claim_fields_are_refused_on_a_prize_that_is_not_claimed(world: World) -> None:
    on_win = {"name": "Mug", "type": "goods", "claim_fields": [NAME]}
    assert fields_of(await world.stack.admin("POST", "/admin/prizes", on_win)) == ["claim_fields"]
    by_hand = {**on_win, "fulfillment": {"redemption_mode": "manual", "channel": "manual"}}
    made = (await world.stack.admin("POST", "/admin/prizes", by_hand)).data
    path = f"/admin/prizes/{made['prize_id']}"
    to_win = {"fulfillment": {"redemption_mode": "on_win", "channel": "none"}}
    assert fields_of(await world.stack.admin("PUT", path, to_win)) == ["claim_fields"]
    assert (await world.stack.admin("PUT", path, {**to_win, "claim_fields": []})).code == "OK"


async def test_claim_with_wrong_answers_is_refused_and_changes_nothing(world: World) -> None:
    reward_id, failed = await won(world, await prize(world)), []
    for answers, fields in (
        *((None, ["answers.name", "answers.address"]), ({**ANSWERS, "size": "XXL"}, ["answers.size"])),
        ({**ANSWERS, "name": "x" * 201}, ["answers.name"]),
        *(({**ANSWERS, "name": "Ann\nlee", "shoe": "44"}, ["answers.name", "answers.shoe"]), ("Ann", ["answers"])),
    ):
        answer = await claim_with(world, reward_id, answers)
        repeated = [text for text in PERSONAL if text in str(answer.envelope)]
        if fields_of(answer) != fields or repeated:
            failed.append((answers, answer.envelope, repeated))
    assert failed == []
    unclaimed = {"reward": None, "answers": [], "delivery": None, "messages": []}
    assert (await shown(world, reward_id)) | {"reward": None} == unclaimed
    assert (await claim_with(world, reward_id, ANSWERS)).data["status"] == "REWARD_STATUS_FULFILLED"
    assert (await shown(world, reward_id))["answers"] == KEPT


async def test_claim_answers_the_fields_of_the_moment_and_keeps_their_labels(world: World) -> None:
    prize_id = await prize(world)
    first, second = await won(world, prize_id), await won(world, prize_id, "bob")
    assert (await claim_with(world, first, ANSWERS)).code == "OK"
    body = {"claim_fields": [{**NAME, "label": "Full name"}]}
    assert (await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", body)).code == "OK"
    assert fields_of(await claim_with(world, second, ANSWERS, "bob")) == ["answers.address", "answers.size"]
    assert (await claim_with(world, second, {"name": "Bob"}, "bob")).code == "OK"
    assert (await shown(world, second))["answers"] == [{"key": "name", "label": "Full name", "value": "Bob"}]
    assert (await shown(world, first))["answers"] == KEPT


async def test_claim_with_other_answers_under_one_key_is_a_mismatch(world: World) -> None:
    reward_id = await won(world, await prize(world))
    first = await claim_with(world, reward_id, ANSWERS, key="k1")
    assert first.code == "OK" and (await claim_with(world, reward_id, ANSWERS, key="k1")).data == first.data
    other = await claim_with(world, reward_id, {**ANSWERS, "name": "Eve"}, key="k1")
    assert refused(other) == (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")
    straight = {"id": reward_id, "player_id": "ann", "idempotency_key": "k1"}
    path = f"/rewards/{reward_id}/claim"
    same = await world.stack.core("POST", path, straight | {"answers": ANSWERS})
    assert same.data["reward"]["id"] == reward_id, "the database knows it too, whatever the edge remembers"
    differs = await world.stack.core("POST", path, straight | {"answers": {**ANSWERS, "name": "Eve"}})
    assert differs.reason == "IDEMPOTENCY_MISMATCH"
    assert (await shown(world, reward_id))["answers"] == KEPT


async def test_answers_are_masked_for_staff_who_cannot_move_the_reward(world: World) -> None:
    reward_id = await won(world, await prize(world))
    assert (await claim_with(world, reward_id, ANSWERS)).code == "OK"
    for role in ("admin", "reward_manager"):
        assert (await shown(world, reward_id, role))["answers"] == KEPT
    hidden = await shown(world, reward_id, "designer")
    assert [(one["label"], one["value"]) for one in hidden["answers"]] == [(one["label"], HIDDEN) for one in KEPT]
    asking = await world.stack.admin("GET", f"/admin/rewards/{reward_id}", roles=("designer",), reveal="true")
    assert asking.data == hidden, "it is the edge that says who may"
    listed = (await world.stack.admin("GET", "/admin/rewards", player_id="ann", limit=1)).data["items"][0]
    assert listed["id"] == reward_id and listed["answered"] is True and "answers" not in listed
    assert (await world.stack.admin("GET", "/admin/rewards/reward_none")).reason == "UNKNOWN_REWARD"
    assert (await world.stack.admin("GET", f"/admin/rewards/{reward_id}", roles=("viewer",))).reason == "ROLE_REQUIRED"
    merchant_id = await make_merchant(world.stack)
    shop = replace(world, stack=replace(world.stack, merchant_id=merchant_id))
    assert (await shown(shop, reward_id, "admin"))["answers"] == hidden["answers"]
    change = "UPDATE campaigns SET merchant_id = $2 WHERE campaign_id = $1"
    await world.database.execute(change, world.campaign_id, merchant_id)
    assert (await shown(shop, reward_id, "admin"))["answers"] == KEPT


async def test_answers_are_stored_in_one_table_only(world: World) -> None:
    reward_id = await won(world, await prize(world))
    assert (await claim_with(world, reward_id, ANSWERS, key="k2")).code == "OK"
    assert (await world.stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {"reason": "x"})).code == "OK"
    await shown(world, reward_id)
    stored = await contents(world.database, world.stack.tenant_id)
    assert {name for name, rows in stored.items() if any(text in str(rows) for text in PERSONAL)} == {"claim_answers"}


async def test_answers_that_a_receiver_repeats_are_masked(world: World) -> None:
    async def repeats(got: Any) -> web.StreamResponse:
        return web.Response(status=500, text=f"cannot ship to {got.json['data']['answers']}")

    async with receiving() as receiver, working(world.stack.engine, "deliveries"):
        receiver.replies = [repeats]
        config = {"url": receiver.url, "secret": "s" * 24}
        sent = {"redemption_mode": "on_claim", "channel": "webhook", "config": config}
        reward_id = await won(world, await prize(world, fulfillment=sent))
        assert (await claim_with(world, reward_id, {**ANSWERS, "address": "1 Mill Lane"})).code == "OK"
        query = "SELECT last_error FROM tasks WHERE reward_id = $1 AND last_error <> ''"
        await until(lambda: world.database.fetchval(query, reward_id))
        said = str(await world.database.fetchval(query, reward_id))
        whole, hidden = [await shown(world, reward_id, role) for role in ("reward_manager", "designer")]
    assert "cannot ship" in said and not any(text in said for text in PERSONAL)
    delivery = hidden["delivery"]
    assert delivery["answer"].startswith("cannot ship") and not any(text in str(delivery) for text in PERSONAL)
    sent_then, masked = (json.loads(one["delivery"]["request"])["data"]["answers"] for one in (whole, hidden))
    assert sent_then == receiver.all[0].json["data"]["answers"] and set(masked.values()) == {HIDDEN}


async def test_answers_are_exported_and_erased_with_the_player(world: World) -> None:
    prize_id = await prize(world)
    reward_id, stored = await won(world, prize_id, "ophelia"), await won(world, prize_id, "bob")
    assert (await claim_with(world, reward_id, ANSWERS, "ophelia", key="k3")).code == "OK"
    assert (await claim_with(world, stored, ANSWERS, "bob")).code == "OK"
    items = (await world.stack.admin("GET", "/admin/players/ophelia/export", limit=100)).data["items"]
    [exported] = [item["data"] for item in items if item["kind"] == "answer"]
    assert (exported["reward_id"], exported["answers"]) == (reward_id, KEPT)
    assert (await world.stack.admin("POST", "/admin/players/ophelia/erase", {"reason": "asked for"})).code == "OK"
    assert (await shown(world, reward_id))["answers"] == []
    assert (await shown(world, stored))["answers"] == KEPT


async def test_delivery_whose_answers_were_erased_is_not_sent(world: World) -> None:
    async with receiving() as receiver:
        config = {"url": receiver.url, "secret": "s" * 24}
        sent = {"redemption_mode": "on_claim", "channel": "webhook", "config": config}
        prize_id = await prize(world, fulfillment=sent)
        for player in ("cleo", "dora"):
            reward_id = await won(world, prize_id, player)
            assert (await claim_with(world, reward_id, ANSWERS, player)).code == "OK"
        assert (await world.stack.admin("POST", "/admin/players/dora/erase", {"reason": "asked for"})).code == "OK"
        query = "SELECT last_error FROM tasks WHERE reward_id = $1 AND status = 'dead'"
        async with working(world.stack.engine, "deliveries"):
            await until(lambda: world.database.fetchval(query, reward_id))
            await until(lambda: receiver.all)
    assert "was erased" in await world.database.fetchval(query, reward_id)
    assert [one.json["data"]["player_id"] for one in receiver.all] == ["cleo"]


async def test_rewards_list_of_core_requires_a_player(stack: Stack) -> None:
    assert refused(await stack.core("GET", "/rewards/me")) == (400, "INVALID_ARGUMENT", "VALIDATION")


async def test_answers_of_a_guest_move_with_its_login(world: World) -> None:
    prize_id = await prize(world)
    guest = await guest_who_played(world, await world.wheel(prize_id, access="public"))
    found = await world.stack.consumer("GET", "/rewards/me", headers=guest.bearer, prize_id=prize_id)
    reward_id = found.data["items"][0]["id"]
    path = f"/rewards/{reward_id}/claim"
    assert (await world.stack.consumer("POST", path, {"answers": ANSWERS}, headers=guest.bearer)).code == "OK"
    player = await log_in(world.stack, guest, "keeps.them@example.com")
    seen = await shown(world, reward_id)
    assert (seen["reward"]["player_id"], seen["answers"]) == (player, KEPT)
    assert (await world.stack.admin("POST", f"/admin/players/{player}/erase", {"reason": "x"})).code == "OK"
    assert (await shown(world, reward_id))["answers"] == []
