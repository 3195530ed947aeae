import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from grpclib.client import Channel
from grpclib.const import Cardinality

from runtime import messages as m
from runtime.actors.idempotency import KEY_CHARACTERS_MAX
from runtime.errors import Fault
from runtime.operations import BY_NAME, OPERATIONS
from runtime.wire.schema import check, fields_of
from tests.support.receiver import Receiver
from tests.support.rewards import Shelf
from tests.support.stack import TO_LOOPBACK, Answer, Stack, refused
from tests.support.tables import everything_in, forgotten
from tests.support.world import COINS, COLLECTION, World

KEY = {"Idempotency-Key": "k1"}
MISMATCH = (422, "INVALID_ARGUMENT", "IDEMPOTENCY_MISMATCH")

pytestmark = pytest.mark.settings(**TO_LOOPBACK)


async def over_grpc(stack: Stack, name: str, request: Any) -> tuple[Any, str]:
    row = BY_NAME[name]
    host, _, port = stack.process.rpc_address.rpartition(":")
    channel = Channel(host, int(port))
    try:
        async with channel.request(row.rpc_path, Cardinality.UNARY_UNARY, row.request, row.reply) as stream:
            await stream.send_message(request, end=True)
            reply = await stream.recv_message()
            return reply, str((stream.initial_metadata or {}).get("idempotency-replayed", ""))
    finally:
        channel.close()


async def test_replay_says_so_on_every_surface(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "A", "B", "C", "D")
    claims = [f"/rewards/{await shelf.reward(prize_id)}/claim" for _ in range(2)]
    codes, emit = f"/admin/prizes/{prize_id}/codes", "/admin/integrations/emit"
    request = m.ClaimRewardRequest(
        scope=m.Scope(tenant_id=stack.tenant_id),
        id=await shelf.reward(prize_id),
        player_id="player_ann",
        idempotency_key="k1",
    )
    asks: dict[str, Callable[[], Awaitable[Answer]]] = {
        "consumer claim": lambda: stack.consumer("POST", claims[0], {}, player="player_ann", headers=KEY),
        "core claim": lambda: stack.core("POST", claims[1], {"player_id": "player_ann", "idempotency_key": "k1"}),
        "admin import": lambda: stack.admin("POST", codes, {"codes": ["E"]}, headers=KEY),
        "core import": lambda: stack.core("POST", codes, {"codes": ["F"]}, headers={"Idempotency-Key": "k2"}),
        "core emit": lambda: stack.core("POST", emit, {"type": "custom", "idempotency_key": "k1"}),
    }
    replays = {}
    for name, ask in asks.items():
        answers = [await ask() for _ in range(3)]
        assert answers[0].data == answers[1].data, name
        replays[name] = [answer.headers.get("Idempotency-Replayed", "") for answer in answers]
    replays["grpc claim"] = [(await over_grpc(stack, "ClaimReward", request))[1] for _ in range(3)]
    assert replays == {name: ["", "true", "true"] for name in replays}


async def test_key_on_a_second_game_is_another_key(own_world: World) -> None:
    one, two = await own_world.wheel(), await own_world.wheel()
    first = await own_world.play(one, await own_world.session(one), key="k1")
    second = await own_world.play(two, await own_world.session(two), key="k1")
    assert (first.http, second.http) == (200, 200)
    assert first.data["play_id"] != second.data["play_id"]
    await forgotten(own_world.stack)
    again = await own_world.play(two, await own_world.session(two), key="k1")
    assert refused(again) == MISMATCH  # another session of that game


async def test_key_redeems_once_in_each_game(own_world: World) -> None:
    rungs = [{"id": "mug", "name": "", "currency": "coin", "threshold": 2, "prize_id": await own_world.prize()}]
    games = [await own_world.game(COLLECTION, COINS, milestones={"rungs": rungs}) for _ in range(2)]
    for game_id in games:
        await own_world.round(game_id)
    answers = [await own_world.redeem(game_id, "mug", key="k1") for game_id in games]
    assert [answer.http for answer in answers] == [200, 200]
    await forgotten(own_world.stack)
    assert [(await own_world.redeem(game_id, "mug", key="k1")).data for game_id in games] == [
        answer.data for answer in answers
    ]


async def twice(stack: Stack, path: str, body: Any, changed: Any, **more: Any) -> tuple[Answer, Answer]:
    """The answers to the same request of staff twice under one key, the second without the ephemeral store's help."""
    first = await stack.admin("POST", f"/admin/{path}", body, headers=KEY, **more)
    assert first.http == 200, first.envelope
    quick = await stack.admin("POST", f"/admin/{path}", body, headers=KEY, **more)
    assert (quick.data, quick.headers.get("Idempotency-Replayed")) == (first.data, "true")
    await forgotten(stack)
    again = await stack.admin("POST", f"/admin/{path}", body, headers=KEY, **more)
    assert (again.data, again.headers.get("Idempotency-Replayed")) == (first.data, "true")
    await forgotten(stack)
    assert refused(await stack.admin("POST", f"/admin/{path}", changed, headers=KEY, **more)) == MISMATCH
    return first, again


async def creations(world: World) -> list[tuple[str, str, dict[str, Any], str]]:
    """(path, what Core wraps the body in, the body, the table that gets one row) of each keyed creation."""
    campaign_id, prize_id = world.campaign_id, await world.prize()
    wheel = {"type": "spin_wheel", "seed_generator": "none", "reward_handler": "probability", "validator": "basic"}
    odds = {"handler_config": {"prizes": [{"prize_id": prize_id, "probability": 0.5}]}}
    quest = {"name": "Mission", "turns": 1, "campaign_id": campaign_id, "condition": {"kind": "event", "count": 1}}
    webhook = {"type": "webhook", "config": {"url": "https://hooks.example/in", "secret": "s" * 32}}
    board = {"name": "Top", "metric": "plays", "mode": "sum", "campaign_id": campaign_id}
    return [
        ("/campaigns", "campaign", {"name": "Spring"}, "campaigns"),
        (f"/campaigns/{campaign_id}/duplicate", "", {"name": "Copy"}, "campaigns"),
        ("/games", "game", {"name": "Wheel", "campaign_id": campaign_id, **wheel, **odds}, "games"),
        ("/prizes", "prize", {"name": "Mug", "type": "goods", "value": 2}, "prizes"),
        *(("/quests", "quest", quest, "quests"), ("/leaderboards", "leaderboard", board, "leaderboards")),
        ("/integrations", "integration", {**webhook, "events": ["prize_won"]}, "integrations"),
        ("/tenants", "tenant", {"name": "Other", "database": world.database.name}, "tenants"),
        ("/merchants", "merchant", {"name": "Shop"}, "merchants"),
    ]


async def test_key_makes_one_resource_of_each_kind(own_world: World) -> None:
    stack, failed, secrets = own_world.stack, [], []
    roles = {"roles": ("admin", "platform")}
    for path, wrapper, body, table in await creations(own_world):
        before = await own_world.count(table)
        on_core = {wrapper: body} if wrapper else body
        rivals = await asyncio.gather(*(stack.core("POST", path, on_core, headers=KEY) for _ in range(8)))
        changed = {**body, **({"name": "Else"} if "name" in body else {"events": ["prize_claimed"]})}
        first, again = await twice(stack, path.removeprefix("/"), body, changed, **roles)
        ids = {(answer.data[wrapper or "campaign"])["id"] for answer in rivals}
        replays = sum(answer.headers.get("Idempotency-Replayed") == "true" for answer in rivals)
        other = await stack.core("POST", path, {**on_core, "idempotency_key": "k2"}, headers=None)
        counted = await own_world.count(table) - before
        # One of Core's caller, one of the staff, one under another key.
        if (len(ids), replays, counted, other.http) != (1, 7, 3, 200):
            failed.append((path, ids, replays, counted, first.data))
        if again.headers.get("ETag") != first.headers.get("ETag"):
            failed.append((path, first.headers, again.headers))
        secrets += [first.data["secret"]] if first.data.get("secret") else []
    assert failed == []
    stored = await stack.database.fetch("SELECT reply FROM keyed_requests")
    assert secrets and not [secret for secret in secrets for row in stored if secret.encode() in row["reply"]]


async def test_key_starts_one_session_on_core(own_world: World) -> None:
    stack, game_id = own_world.stack, await own_world.wheel()
    path, body = f"/games/{game_id}/start", {"player_id": "ann"}
    rivals = await asyncio.gather(*(stack.core("POST", path, body, headers=KEY) for _ in range(8)))
    started = {answer.data["session_id"] for answer in rivals if answer.code == "OK"}
    refusals = {refused(answer) for answer in rivals if answer.code != "OK"}
    assert len(started) == 1 and refusals <= {(409, "ABORTED", "IDEMPOTENCY_IN_PROGRESS")}
    request = m.StartRequest(m.Scope(tenant_id=stack.tenant_id), id=game_id, player_id="ann", idempotency_key="k1")
    reply, replayed = await over_grpc(stack, "Start", request)
    assert ({reply.session_id}, replayed) == (started, "true")
    others = [
        await stack.core("POST", path, {"player_id": "bob"}, headers=KEY),
        await stack.core("POST", f"/games/{await own_world.wheel()}/start", body, headers=KEY),
        await own_world.start(game_id, **KEY),  # The edge keeps the keys of its own players.
        await stack.core("POST", path, body),
    ]
    assert len({answer.data["session_id"] for answer in others} - started) == 4


async def test_key_makes_one_adjustment_for_each_of_staff(own_world: World) -> None:
    stack = own_world.stack
    for player in ("ann", "bob"):
        await stack.core("GET", "/players/me", player_id=player)
    body = {"player_id": "ann", "scope_key": own_world.campaign_id, "currency": "points", "amount": 5}
    await twice(stack, "wallet/adjustments", body, {**body, "player_id": "bob"})
    assert await stack.database.fetchval("SELECT sum(balance) FROM balances") == 5
    headers = {**KEY, "Authorization": f"Bearer {stack.token('someone_else', roles=('admin',))}"}
    assert (await stack.admin("POST", "/admin/wallet/adjustments", body, headers=headers)).http == 200
    assert await stack.database.fetchval("SELECT sum(balance) FROM balances") == 10


async def test_key_adjusts_a_score_once(own_world: World) -> None:
    stack = own_world.stack
    await own_world.round(await own_world.wheel())
    board_id = await own_world.board()
    body = {"player_id": "ann", "delta": 4, "reason": "a prize draw"}
    first, _ = await twice(stack, f"leaderboards/{board_id}/adjust", body, {**body, "delta": 5})
    assert first.data["score"] == 5


async def test_key_imports_codes_once(own_world: World) -> None:
    prize_id = await own_world.prize(fulfillment={"channel": "voucher_code"})
    path, body = f"prizes/{prize_id}/codes", {"codes": ["A", "B", "B"]}
    first, _ = await twice(own_world.stack, path, body, {"codes": ["A", "C"]})
    assert (first.data["added"], first.data["duplicates"]) == (2, 1)
    assert await own_world.database.fetchval("SELECT count(*) FROM codes") == 2
    assert len(await own_world.database.fetchval("SELECT request_hash FROM keyed_requests")) == 16


async def test_key_imports_each_part_once(own_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.http.codes.PART", 3)
    prize_id = await own_world.prize(fulfillment={"channel": "voucher_code"})
    body = {"codes": [f"L-{nth}" for nth in range(8)]}
    both = [await own_world.stack.admin("POST", f"/admin/prizes/{prize_id}/codes", body, headers=KEY) for _ in range(2)]
    assert both[0].data == both[1].data
    assert (both[0].data["added"], both[0].data["available"]) == (8, 8)


async def test_key_emits_an_event_once(own_world: World, receiver: Receiver) -> None:
    config = {"type": "webhook", "events": ["custom"], "config": {"url": receiver.url}}
    await own_world.stack.admin("POST", "/admin/integrations", config)
    body = {"type": "custom", "data": {"n": 1}}
    first, _ = await twice(own_world.stack, "integrations/emit", body, {"type": "custom", "data": {"n": 2}})
    assert first.data["dispatched"] == 1
    assert [got.json["id"] for got in receiver.all] == [first.data["event_id"]]


async def test_key_of_an_abandoned_emit_is_taken_over_by_one_retry(own_world: World, receiver: Receiver) -> None:
    stack = own_world.stack
    config = {"type": "webhook", "events": ["custom"], "config": {"url": receiver.url}}
    await stack.admin("POST", "/admin/integrations", config)
    body = {"type": "custom", "data": {"n": 1}}
    first = await stack.admin("POST", "/admin/integrations/emit", body, headers=KEY)
    begun = bytes(m.EmitEventReply(event_id=first.data["event_id"], dispatched=-1))
    await stack.database.execute("UPDATE keyed_requests SET reply = $1", begun)
    await forgotten(stack)
    answer = await stack.admin("POST", "/admin/integrations/emit", body, headers=KEY)
    assert (*refused(answer), answer.headers["Retry-After"]) == (409, "ABORTED", "IDEMPOTENCY_IN_PROGRESS", "1")
    await stack.database.execute("UPDATE keyed_requests SET requested_at = now() - interval '1 minute'")
    retries = [stack.admin("POST", "/admin/integrations/emit", body, headers=KEY) for _ in range(4)]
    answers = await asyncio.gather(*retries)
    assert next(answer for answer in answers if answer.code == "OK").data == first.data
    assert {refused(one) for one in answers if one.code != "OK"} <= {(409, "ABORTED", "IDEMPOTENCY_IN_PROGRESS")}
    assert [got.json["id"] for got in receiver.all] == [first.data["event_id"]] * 2


async def test_key_fulfils_and_revokes_a_reward_once(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize("manual", total=5)
    reward_id, other = await shelf.reward(prize_id), await shelf.reward(prize_id)
    await twice(stack, f"rewards/{reward_id}/fulfill", {"note": "a"}, {"note": "b"})
    first, _ = await twice(stack, f"rewards/{reward_id}/revoke", {"reason": "a"}, {"reason": "b"})
    assert first.data["status"] == "REWARD_STATUS_REVOKED"
    answer = await stack.admin("POST", f"/admin/rewards/{other}/revoke", {"reason": "c"}, headers=KEY)
    assert answer.data["id"] == other


async def test_stored_answer_of_a_claim_holds_no_readable_code(stack: Stack, shelf: Shelf, valkey: Any) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "MUG-SECRET-1")
    path = f"/rewards/{await shelf.reward(prize_id)}/claim"
    first = await stack.consumer("POST", path, {}, player="player_ann", headers=KEY)
    assert first.data["code"] == "MUG-SECRET-1"
    assert (await stack.consumer("POST", path, {}, player="player_ann", headers=KEY)).data == first.data
    stored = await everything_in(valkey)
    assert stored and not [key for key, value in stored.items() if "MUG-SECRET-1" in value]


async def test_key_of_what_confides_is_kept_by_core_alone(own_world: World, valkey: Any) -> None:
    """A secret that was given could be guessed from a plain hash of what was asked."""
    for path, wrapper, body, _ in await creations(own_world):
        if wrapper in ("prize", "quest", "integration"):
            first, again = [await own_world.stack.admin("POST", f"/admin{path}", body, headers=KEY) for _ in range(2)]
            assert (again.data, again.headers.get("Idempotency-Replayed")) == (first.data, "true")
    assert not [key for key in await everything_in(valkey) if "}k:" in str(key)]


def test_key_of_every_keyed_operation_is_bounded() -> None:
    failed = []
    for row in (row for row in OPERATIONS if row.keyed and row.verb != "GET"):
        with pytest.raises(Fault) as refusal:
            check(row.request(idempotency_key="k" * (KEY_CHARACTERS_MAX + 1)))
        reply = [(one["field"], one["description"]) for one in refusal.value.data["violations"]]
        bound = fields_of(row.request)["idempotency_key"].most
        if bound != KEY_CHARACTERS_MAX or ("idempotency_key", "must be at most 255 characters long") not in reply:
            failed.append((row.name, bound, reply))
    assert failed == []
