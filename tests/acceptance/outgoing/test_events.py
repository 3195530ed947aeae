"""The AsyncAPI document against what is really on the stream, for each type."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis.asyncio

from runtime.events import TYPES, PrizeWon
from runtime.groups import event_stream
from runtime.operations import API
from runtime.operations.budget_alerts import thresholds
from runtime.stores.publisher import shard_of
from tests.support.resources import block, make_game, make_prize, one_of_every_event, play_once, rung
from tests.support.waiting import HANG_SECONDS
from tests.support.world import COINS, COLLECTION, World

DOCUMENT = json.loads((Path(__file__).parents[3] / "runtime" / "http" / "docs" / "asyncapi.json").read_text())


def schema(type: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{type}", "components": DOCUMENT["components"]}


def resolve(pointer: str) -> Any:
    value = DOCUMENT
    for part in pointer.removeprefix("#/").split("/"):
        value = value[part]
    return value


def references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if "$ref" in value else []
        return own + [found for item in value.values() for found in references(item)]
    return [found for item in value for found in references(item)] if isinstance(value, list) else []


def test_document_names_the_canonical_types_and_resolves_its_references() -> None:
    assert DOCUMENT["asyncapi"].startswith("3.")
    assert tuple(DOCUMENT["channels"]["events"]["messages"]) == TYPES == tuple(DOCUMENT["components"]["messages"])
    for pointer in references(DOCUMENT):
        resolve(pointer)
    for type in TYPES:
        jsonschema.Draft202012Validator.check_schema(schema(type))


async def test_document_is_served_by_core_and_the_admin_edge(stack: Any) -> None:
    for base in (stack.process.core_url, stack.process.admin_url):
        async with stack.http.get(f"{base}{API}/asyncapi.json") as answer:
            assert answer.status == 200
            assert await answer.json() == DOCUMENT


@pytest.fixture
async def events(stack: Any, valkey_url: str) -> Any:
    client = redis.asyncio.Redis.from_url(valkey_url)
    stream = event_stream(shard_of(stack.tenant_id, stack.process.settings.stream_shards))

    async def first(type: str, count: int = 1) -> list[dict[str, Any]]:
        async with asyncio.timeout(HANG_SECONDS):
            while True:
                emitted = [json.loads(fields[b"e"]) for _, fields in await client.xrange(stream)]
                if len(found := [event for event in emitted if event["type"] == type]) >= count:
                    return found
                await asyncio.sleep(0.01)

    yield first
    await client.aclose()


async def test_events_of_every_type_match_the_document(stack: Any, events: Any) -> None:
    campaign_id = await one_of_every_event(stack)
    hook = {"channel": "webhook", "config": {"url": "http://203.0.113.7/"}}
    dear = {"value": 5, "currency": "EUR", "stock": {"total": 9}, "low_stock_at": 9}
    sent = await make_prize(stack, campaign_id=campaign_id, fulfillment=hook, **dear)
    await stack.admin("PUT", f"/admin/campaigns/{campaign_id}", {"budget": {"amount": 1, "currency": "EUR"}})
    await play_once(stack, (await make_game(stack, campaign_id, sent))["id"])
    await thresholds.check(stack.engine, stack.tenant_id, every_seconds=0)
    await stack.database.execute("UPDATE tasks SET status = 'awaiting', attempts = 99 WHERE prize_id = $1", sent)
    task_id = await stack.database.fetchval("SELECT task_id FROM tasks WHERE prize_id = $1", sent)
    callback = {"status": "failed", "error": "no such SKU"}
    assert (await stack.core("POST", f"/fulfillment/tasks/{task_id}/callback", callback)).http == 200
    for type in TYPES:
        [event, *_] = await events(type)
        jsonschema.validate(event, schema(type))
        assert event["tenant_id"] == stack.tenant_id
        assert event["campaign_id"] == ("" if type == "log.checkpoint" else campaign_id)


@pytest.mark.parametrize(
    "ends", ["commits", pytest.param("is given up", marks=pytest.mark.settings(database_statement_timeout_seconds=2.0))]
)
async def test_events_of_a_play_are_published_after_its_commit_only(
    stack: Any, own_world: World, events: Any, valkey_url: str, valkey_flush: None, ends: str
) -> None:
    mug = await own_world.prize(fulfillment={"channel": "webhook", "config": {"url": "http://203.0.113.7/"}})
    wheel = await own_world.wheel(mug)
    session = await own_world.session(wheel, "ann")
    client = redis.asyncio.Redis.from_url(valkey_url)

    async def appended() -> int:
        return sum([await client.xlen(key) async for key in client.scan_iter("tombola:*", _type="stream")])

    async with stack.database.connection() as holder:
        async with holder.transaction():
            await holder.execute("SELECT FROM stock WHERE prize_id = $1 FOR UPDATE", mug)
            played = asyncio.ensure_future(own_world.play(wheel, session, player="ann"))
            while not await stack.database.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
                await asyncio.sleep(0.01)
            assert await appended() == 0
            if ends == "is given up":
                assert (await played).http == 503
        if ends == "commits":
            assert (await played).http == 200
            assert len(await events(PrizeWon.TYPE)) == 1
        else:
            assert await appended() == 0
    await client.aclose()


async def test_prize_won_is_alike_for_any_source(stack: Any, own_world: World, events: Any, valkey_flush: None) -> None:
    world, mug = own_world, await own_world.prize(name="Mug", value=5)
    wheel = await world.wheel(mug)
    drawn = await world.round(wheel, "ann")
    crossing = await world.game(COLLECTION, COINS, milestones=block(rung("two", 2, mug)))
    crossed = await world.round(crossing, "bob")
    redeeming = await world.game(COLLECTION, COINS, milestones=block(rung("two", 2, mug), auto_grant=False))
    await world.round(redeeming, "cleo")
    redeemed = await world.redeem(redeeming, "two", "cleo")
    board = await world.board(game_id=crossing, prizes=[{"from_rank": 1, "to_rank": 1, "prize_id": mug}])
    closed = await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})

    wins = [event["data"] for event in await events(PrizeWon.TYPE, 4)]
    assert {tuple(data) for data in wins} == {PrizeWon.__struct_fields__}
    prize = {"prize_id": mug, "name": "Mug", "type": "goods", "value": 5, "quantity": 1}
    nothing = {"game_id": "", "play_id": "", "milestone_id": "", "leaderboard_id": "", "draw_id": "", "rank": 0}
    [won], [granted], [standing] = drawn.data["rewards"], crossed.data["milestones_granted"], closed.data["standings"]
    assert wins == [
        {**nothing, **prize, **sources}
        for sources in (
            {"player_id": "ann", "reward_id": won["reward_id"], "game_id": wheel, "play_id": drawn.data["play_id"]},
            {
                "player_id": "bob",
                "reward_id": granted["reward_id"],
                "game_id": crossing,
                "play_id": crossed.data["play_id"],
                "milestone_id": "two",
            },
            {
                "player_id": "cleo",
                "reward_id": redeemed.data["reward"]["id"],
                "game_id": redeeming,
                "milestone_id": "two",
            },
            {"player_id": "bob", "reward_id": standing["reward_id"], "leaderboard_id": board, "rank": 1},
        )
    ]


def test_schema_of_every_type_requires_its_data() -> None:
    event = {"id": "evt_1", "occurred_at": 1, "tenant_id": "t", "merchant_id": "", "campaign_id": "", "data": {}}
    validators = {type: jsonschema.Draft202012Validator(schema(type)) for type in TYPES}
    assert [type for type, one in validators.items() if one.is_valid({**event, "type": type})] == []
