import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from runtime.actors.game import cache
from runtime.operations import OPERATIONS
from runtime.operations.row import Operation
from tests.support.guests import new_guest
from tests.support.leaderboards import order
from tests.support.stack import Answer, Stack, refused
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

DOORS = [row for row in OPERATIONS if row.consumer is not None and "{id}" in row.path]
OWN = {"ClaimReward", "GetPlayReceipt", "GetRevision"}
"""Doors to what its bearer alone can name: a reward that was won, a play that was made, the terms of a start."""


def test_public_operations_by_id_are_all_tried_here() -> None:
    assert {row.name for row in DOORS} - OWN == {
        *("AcceptReferral", "CompleteQuest", "CreateReferralCode", "GetDraw", "GetEligibility", "GetEntry"),
        *(
            *("GetPublicCampaign", "ListHistory", "ListMilestones", "ListRankings", "Play", "RecordView", "Redeem"),
            *("RenderGame", "Start", "SubmitEntry"),
        ),
    }


def doors(kind: str) -> list[Operation]:
    found = [row for row in DOORS if row.path.split("/")[1] == kind and row.name not in OWN]
    assert found
    return found


async def put(stack: Stack, path: str, **fields: Any) -> None:
    assert (await stack.admin("PUT", f"/admin{path}", fields)).http == 200


async def a_game(world: World, **fields: Any) -> str:
    rungs = [{"id": "mug", "currency": "coin", "threshold": 2, "prize_id": await world.prize()}]
    return await world.game(COLLECTION, COINS, milestones={"rungs": rungs, "mode": "spend_exchange"}, **fields)


async def archived_game(world: World) -> str:
    game_id = await a_game(world)
    await world.round(game_id, "bob")
    await put(world.stack, f"/games/{game_id}", status="archived")
    return game_id


async def game_of_a_draft_campaign(world: World) -> str:
    await put(world.stack, f"/campaigns/{world.campaign_id}", status="draft")
    return await a_game(world)


async def draft_campaign(world: World) -> str:
    await put(world.stack, f"/campaigns/{world.campaign_id}", status="draft")
    return world.campaign_id


async def archived_quest(world: World) -> str:
    quest_id = await world.quest()
    assert (await world.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player="bob")).http == 200
    assert (await world.stack.admin("DELETE", f"/admin/quests/{quest_id}")).data["archived"]
    return quest_id


async def quest_of_a_draft_campaign(world: World) -> str:
    quest_id = await world.quest()
    await put(world.stack, f"/campaigns/{world.campaign_id}", status="draft")
    return quest_id


async def ranked_board(world: World) -> str:
    board_id = await world.board()
    await world.round(await a_game(world), "bob")

    async def is_ranked() -> bool:  # Not at once if an older transaction of the server is running.
        await world.stack.engine.rankings.rebuild(world.stack.tenant_id, board_id)
        return await order(world.stack, board_id) == [("bob", 1)]

    await until(is_ranked)
    return board_id


async def archived_board(world: World) -> str:
    board_id = await ranked_board(world)
    assert (await world.stack.admin("DELETE", f"/admin/leaderboards/{board_id}")).data["archived"]
    return board_id


async def finalized_and_archived_board(world: World) -> str:
    board_id = await ranked_board(world)
    assert (await world.stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 200
    assert (await world.stack.admin("DELETE", f"/admin/leaderboards/{board_id}")).data["archived"]
    return board_id


async def board_of_a_draft_campaign(world: World) -> str:
    board_id = await ranked_board(world)
    await put(world.stack, f"/campaigns/{world.campaign_id}", status="draft")
    return board_id


@pytest.mark.parametrize(
    ("kind", "unshown"),
    [
        *(("games", partial(a_game, status="draft")), ("games", partial(a_game, status="draft", access="public"))),
        *(("games", archived_game), ("games", game_of_a_draft_campaign), ("public", draft_campaign)),
        *(("quests", partial(World.quest, status="draft")), ("quests", archived_quest)),
        *(("quests", quest_of_a_draft_campaign), ("leaderboards", archived_board)),
        *(("leaderboards", finalized_and_archived_board), ("leaderboards", board_of_a_draft_campaign)),
    ],
)
async def test_hidden_thing_is_unknown(own_world: World, kind: str, unshown: Callable[[World], Awaitable[str]]) -> None:
    stack = own_world.stack
    guest = await new_guest(own_world, await own_world.wheel(access="public"))
    nothing = f"{kind}_there_is_none"
    identifier = await unshown(own_world)
    told_apart = []
    for row in doors(kind):
        for body in ({}, row.example or {}) if row.verb == "POST" else (None,):
            refusals = {}
            for named in (identifier, nothing):
                path = row.path.replace("{id}", named)
                refusals[named] = [
                    said(await stack.consumer(row.verb, path, body), named),
                    said(await stack.consumer(row.verb, path, body, headers=guest.bearer), named),
                    said(await stack.consumer(row.verb, path, body, player="ann"), named),
                ]
                by_player = {"player_id": "ann"}
                request = stack.core(row.verb, path, {**by_player, **body}) if body is not None else None
                refusals[named].append(said(await (request or stack.core(row.verb, path, **by_player)), named))
            if refusals[identifier] != refusals[nothing]:
                told_apart.append((row.name, body, refusals))
    assert told_apart == []
    rows = "SELECT count(*) FROM players WHERE player_id = 'ann'"
    assert await own_world.database.fetchval(rows) == 0, "who asks for what is not there is nobody yet"


def said(answer: Answer, named: str) -> str:
    refusal = {name: value for name, value in answer.envelope.items() if name != "trace_id"}
    return json.dumps([answer.http, refusal]).replace(named, "{id}")


@pytest.mark.parametrize("withdraw", ["draft", "archived", "campaign"])
async def test_withdrawn_game_leaves_players_what_is_theirs(own_world: World, withdraw: str) -> None:
    stack = own_world.stack
    rungs = [
        {"id": rung, "currency": "coin", "threshold": 2, "prize_id": await own_world.prize()} for rung in ("mug", "cup")
    ]
    game_id = await own_world.game(COLLECTION, COINS, milestones={"rungs": rungs, "mode": "spend_exchange"})
    claimed = {"channel": "none", "redemption_mode": "REDEMPTION_MODE_ON_CLAIM"}
    (won,) = (await own_world.round(await own_world.wheel(await own_world.prize(fulfillment=claimed)))).data["rewards"]
    for _ in range(2):
        assert (await own_world.round(game_id)).http == 200
    assert (await own_world.redeem(game_id, "mug")).http == 200
    history, session = await own_world.history(game_id), await own_world.session(game_id)
    strangers = await own_world.session(game_id, "bob")
    if withdraw == "campaign":
        path, back = f"/campaigns/{own_world.campaign_id}", "active"
        await put(stack, path, status="draft")
    else:
        path, back = f"/games/{game_id}", "active"
        await put(stack, path, status=withdraw)
    closed = "CAMPAIGN_CLOSED" if withdraw == "campaign" else "GAME_INACTIVE"
    assert await own_world.history(game_id) == history
    found = [rung["status"] for rung in await own_world.milestones(game_id)]
    assert found == ["MILESTONE_STATUS_GRANTED", "MILESTONE_STATUS_CLAIMABLE"]
    assert (await own_world.redeem(game_id, "mug")).reason == "ALREADY_GRANTED"
    assert (await own_world.redeem(game_id, "cup")).reason == closed
    assert (await own_world.start(game_id)).reason == "UNKNOWN_GAME"
    assert (await stack.consumer("GET", f"/games/{game_id}/eligibility", player="ann")).reason == "UNKNOWN_GAME"
    for player, opened in (("ann", session), ("bob", strangers)):
        refusal = await own_world.play(game_id, opened, player)
        assert refused(refusal) == (400, "FAILED_PRECONDITION", closed)
        assert not {"draft", "archived"} & set(refusal.envelope["message"].split())
    claim = await stack.consumer("POST", f"/rewards/{won['reward_id']}/claim", {}, player="ann")
    assert claim.data["status"] == "REWARD_STATUS_FULFILLED"
    await put(stack, path, status=back)
    for player, opened in (("ann", session), ("bob", strangers)):
        assert (await own_world.play(game_id, opened, player)).http == 200
    assert (await own_world.redeem(game_id, "cup")).http == 200


async def test_completion_key_is_answered_after_its_quest_is_withdrawn(own_world: World) -> None:
    quest_id = await own_world.quest()
    stack, key = own_world.stack, {"Idempotency-Key": "k"}
    path = f"/quests/{quest_id}/complete"
    first = await stack.core("POST", path, {"player_id": "ann", "idempotency_key": "k"})
    assert first.http == 200
    await put(stack, f"/quests/{quest_id}", status="archived")
    assert (await stack.core("POST", path, {"player_id": "ann", "idempotency_key": "k"})).data == first.data
    again = await stack.consumer("POST", path, {}, player="bob", headers=key)
    assert refused(again) == (404, "NOT_FOUND", "UNKNOWN_QUEST")


async def test_game_published_elsewhere_is_known_at_once(own_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "REFRESH_SECONDS", 3_600.0)
    game_id = await a_game(own_world, status="draft", access="public")
    assert (await own_world.start(game_id, "")).reason == "UNKNOWN_GAME"
    await own_world.database.execute("UPDATE tenants SET catalog_version = catalog_version + 1")
    await own_world.database.execute("UPDATE games SET status = 'active' WHERE game_id = $1", game_id)
    assert (await own_world.start(game_id, "")).http == 200


async def test_ranking_left_behind_by_a_crash_is_dropped(own_world: World) -> None:
    board_id, stack = await ranked_board(own_world), own_world.stack
    await stack.database.execute("UPDATE campaigns SET status = 'draft'")
    await stack.engine.rankings.catch_up(stack.tenant_id)
    answer = await stack.consumer("GET", f"/leaderboards/{board_id}/rankings")
    assert refused(answer) == (404, "NOT_FOUND", "UNKNOWN_LEADERBOARD")


async def test_ranking_of_an_unshown_board_is_not_built_but_with_its_campaign(own_world: World) -> None:
    board_id, stack = await board_of_a_draft_campaign(own_world), own_world.stack
    assert await stack.engine.rankings.rebuild(stack.tenant_id, board_id) == 0
    assert (await stack.consumer("GET", f"/leaderboards/{board_id}/rankings")).reason == "UNKNOWN_LEADERBOARD"
    await put(stack, f"/campaigns/{own_world.campaign_id}", status="active")
    assert await order(stack, board_id) == [("bob", 1)]
