import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from runtime.operations.leaderboards import finalize
from runtime.operations.players import merging
from tests.support import invariants
from tests.support.guests import Guest, guest_who_played, log_in, new_guest, resolve, rewards_of, wallet_of
from tests.support.leaderboards import order
from tests.support.resources import block, rung
from tests.support.rivals import begun, held, waits
from tests.support.scenario import Scenario
from tests.support.stack import Answer, Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

ON_CLAIM = {"redemption_mode": "on_claim", "channel": "none"}
OWNED = ("plays", "game_players", "balances", "ledger_entries", "prize_players", "rewards", "milestone_grants")


async def rows_of(stack: Stack, player_id: str) -> dict[str, int]:
    return {
        table: await stack.database.fetchval(f"SELECT count(*) FROM {table} WHERE player_id = $1", player_id)
        for table in OWNED
    }


@pytest.fixture
async def collection(own_world: World) -> str:
    rungs = block(rung("cup", 4, await own_world.prize(total=9, fulfillment=ON_CLAIM)), auto_grant=False)
    return await own_world.game(COLLECTION, COINS, access="public", milestones=rungs)


async def test_session_from_before_the_login_is_the_players(own_world: World, stack: Stack, collection: str) -> None:
    guest = await new_guest(own_world, collection)
    bearers = {"player": "", "nobody": "", "stranger": ""}
    for who in bearers:
        bearers[who] = await own_world.session(collection, guest.player_id)
    player = await log_in(stack, guest)
    assert (await own_world.play(collection, bearers["stranger"], "stranger")).reason == "SESSION_INVALID"
    played = await own_world.play(collection, bearers["player"], player, key="k")
    assert played.data["balances"] == [{"currency": "coin", "balance": 2}]
    assert (await own_world.play(collection, bearers["player"], player, key="k")).data == played.data
    assert (await own_world.play(collection, bearers["player"], player)).reason == "SESSION_PLAYED"
    assert (await own_world.play(collection, bearers["nobody"], "")).data["balances"][0]["balance"] == 4
    assert (await rows_of(stack, guest.player_id))["plays"] == 0
    refused = await stack.core("POST", f"/games/{collection}/start", {"player_id": guest.player_id})
    assert (refused.http, refused.reason) == (403, "PLAYER_MERGED")


async def test_play_answered_before_the_login_is_so_after_it(own_world: World, stack: Stack, collection: str) -> None:
    guest = await new_guest(own_world, collection)
    body = {"session_id": guest.session, "payload": {}, "idempotency_key": "k"}
    first = await stack.core("POST", f"/games/{collection}/play", body)
    player = await log_in(stack, guest)
    for request in (body, body | {"player_id": player}, body | {"player_id": guest.player_id}):
        assert (await stack.core("POST", f"/games/{collection}/play", request)).data == first.data
    stranger = await stack.core("POST", f"/games/{collection}/play", body | {"player_id": "stranger"})
    assert stranger.reason == "SESSION_INVALID"


async def test_late_request_of_a_merged_guest_is_the_players(own_world: World, stack: Stack, collection: str) -> None:
    prize_id = await own_world.prize(fulfillment=ON_CLAIM)
    guest = await guest_who_played(own_world, await own_world.wheel(prize_id, access="public"))
    for _ in range(2):
        await own_world.round(collection, guest.player_id)
    (won,) = await rewards_of(stack, guest.player_id)
    quest_id = await own_world.quest()
    board = await own_world.board()
    player = await log_in(stack, guest)
    late = {"player_id": guest.player_id}
    claim = {**late, "idempotency_key": "k"}
    claimed = (await stack.core("POST", f"/rewards/{won['id']}/claim", claim)).data["reward"]
    assert claimed["status"] == "REWARD_STATUS_FULFILLED"
    assert (await stack.core("POST", f"/rewards/{won['id']}/claim", claim)).data["reward"] == claimed
    redeemed = await stack.core("POST", f"/games/{collection}/redeem", {**late, "milestone_id": "cup"})
    assert redeemed.code == "OK"
    assert (await stack.core("POST", f"/quests/{quest_id}/complete", late)).data["balance"] == "3"
    wallet = {"scope_key": own_world.campaign_id, "currency": "coin", "amount": 5, "idempotency_key": "a"}
    entries = [(await stack.core("POST", "/wallet/adjustments", {**late, **wallet})).data["entry"] for _ in range(2)]
    assert entries[0] == entries[1] and entries[0]["balance_after"] == "9"
    adjust = {**late, "delta": 7, "reason": "a correction"}
    assert (await stack.core("POST", f"/leaderboards/{board}/adjust", adjust)).code == "OK"
    assert set((await rows_of(stack, guest.player_id)).values()) == {0}
    assert {row["id"] for row in await rewards_of(stack, player)} == {won["id"], redeemed.data["reward"]["id"]}
    assert await wallet_of(stack, player) == {"coin": 9}
    await stack.engine.rankings.catch_up(stack.tenant_id)
    assert await order(stack, board) == [(player, 10)]


async def finalize_half(stack: Stack, board_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dies(self: Any) -> int:
        raise RuntimeError("killed between the snapshot and its prizes")

    with monkeypatch.context() as broken:
        broken.setattr(finalize.RankPrizes, "award", dies)
        assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).http == 500


async def test_board_finalized_before_the_login_pays_the_player_after_it(
    own_world: World, stack: Stack, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cup, points = await own_world.prize(), await own_world.prize(type="points", value=30)
    prizes = [{"from_rank": rank, "to_rank": rank, "prize_id": prize} for rank, prize in enumerate((cup, points), 1)]
    board = await own_world.board(prizes=prizes)
    guests = [await guest_who_played(own_world, collection) for _ in range(2)]
    await own_world.round(collection, guests[0].player_id)
    await finalize_half(stack, board, monkeypatch)
    players = [await log_in(stack, guest, f"{nth}@example.com") for nth, guest in enumerate(guests)]
    done = (await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})).data
    assert [(row["player_id"], row["reason"]) for row in done["standings"]] == [(player, "") for player in players]
    assert [row["prize_id"] for row in await rewards_of(stack, players[0])] == [cup]
    assert (await wallet_of(stack, players[1]))["points"] == 30


async def test_repeated_finalize_names_the_player_for_a_guest(own_world: World, stack: Stack, collection: str) -> None:
    """A finalize keeps no key, but its standings: whoever asks again hears of the same ranks, scores and prizes."""
    board = await own_world.board(prizes=[{"from_rank": 1, "to_rank": 1, "prize_id": await own_world.prize()}])
    guest = await guest_who_played(own_world, collection)
    ask, key = f"/admin/leaderboards/{board}/finalize", {"Idempotency-Key": "k"}
    done = (await stack.admin("POST", ask, {}, headers=key)).data
    assert done["standings"][0]["player_id"] == guest.player_id and done["standings"][0]["reward_id"]
    done["standings"][0]["player_id"] = await log_in(stack, guest)
    assert (await stack.admin("POST", ask, {}, headers=key)).data == done


async def test_player_owed_points_of_two_ranks_is_paid_both(
    own_world: World, stack: Stack, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    amounts = (50, 30)
    points = [await own_world.prize(type="points", value=amount) for amount in amounts]
    prizes = [{"from_rank": rank, "to_rank": rank, "prize_id": prize} for rank, prize in enumerate(points, 1)]
    board = await own_world.board(prizes=prizes)
    player = await log_in(stack)
    await own_world.round(collection, player)
    guest = await guest_who_played(own_world, collection)
    await own_world.round(collection, guest.player_id)
    await finalize_half(stack, board, monkeypatch)
    assert await log_in(stack, guest) == player
    done = (await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})).data
    assert [row["reason"] for row in done["standings"]] == [""] * 2
    assert (await wallet_of(stack, player))["points"] == sum(amounts)


async def test_failed_merge_moves_nothing_and_ends_no_guest(own_world: World, stack: Stack, collection: str) -> None:
    guest = await guest_who_played(own_world, collection)
    await own_world.round(collection, guest.player_id)
    player = await log_in(stack)
    # Its last step waits, and there it is killed.
    prize = await own_world.prize(fulfillment=ON_CLAIM)
    await own_world.round(await own_world.wheel(prize, access="public"), guest.player_id)
    before = await rows_of(stack, guest.player_id)
    async with held(stack, "SELECT FROM rewards WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = await begun(stack, resolve(stack, guest), "merging.lock_rewards")
        await stack.database.fetch(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%-- merging.lock_rewards%'"
            " AND pid <> pg_backend_pid()"
        )
        assert (await merge).http >= 500
    assert await rows_of(stack, guest.player_id) == before
    assert (await own_world.round(collection, guest.player_id)).code == "OK"
    assert await log_in(stack, guest) == player
    assert set((await rows_of(stack, guest.player_id)).values()) == {0}
    assert (await rows_of(stack, player))["plays"] == before["plays"] + 1


async def test_play_under_commit_moves_with_the_guest(own_world: World, stack: Stack, collection: str) -> None:
    guest = await guest_who_played(own_world, collection)
    session = await own_world.session(collection, guest.player_id)
    async with held(stack, "SELECT FROM game_players WHERE player_id = $1 FOR UPDATE", guest.player_id):
        # Longer than a shared commit waits: between it and the tenant's own, the merge could lock the players first.
        play = await begun(stack, own_world.play(collection, session, ""), "commit.commit", seconds=0.2)
        merge = await begun(stack, log_in(stack, guest), "merging.lock_players")
    assert (await play).code == "OK"
    assert (await rows_of(stack, await merge))["plays"] == 2
    assert set((await rows_of(stack, guest.player_id)).values()) == {0}


async def test_play_that_waits_for_the_merge_is_the_players(own_world: World, stack: Stack, collection: str) -> None:
    guest, player = await guest_who_played(own_world, collection), await log_in(stack)
    session = await own_world.session(collection, guest.player_id)
    await own_world.round(collection, player)
    async with held(stack, "SELECT FROM game_players WHERE player_id = $1 FOR UPDATE", player):
        merge = await begun(stack, log_in(stack, guest), "merging.lock_play_counts")
        play = await begun(stack, own_world.play(collection, session, ""), "commit.commit")
    assert await merge == player
    assert (await play).data["balances"] == [{"currency": "coin", "balance": 6}]
    assert set((await rows_of(stack, guest.player_id)).values()) == {0}


@pytest.mark.fault(
    "Merge under load",
    small=4,
    full=40,
    unit="people of 3 guests, who play, claim and redeem while a board is finalized",
    figure="every play the player's, caps and rungs hold",
)
async def test_merges_under_load_lose_nothing_and_keep_caps(scenario: Scenario, own_world: World, stack: Stack) -> None:
    capped = await own_world.prize(total=500, constraints={"max_per_user": 2}, fulfillment=ON_CLAIM)
    wheel = await own_world.wheel(capped, access="public")
    collection = await own_world.game(
        *(COLLECTION, COINS),
        access="public",
        milestones=block(rung("cup", 6, await own_world.prize(total=500, fulfillment=ON_CLAIM)), auto_grant=True),
    )
    shop = await own_world.game(
        *(COLLECTION, COINS),
        access="public",
        milestones=block(rung("mug", 2, await own_world.prize(total=500, fulfillment=ON_CLAIM)), auto_grant=False),
    )
    games, trophy = (wheel, collection, shop), await own_world.prize(total=9)
    board = await own_world.board(prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": trophy}])
    people = scenario.size

    async def plays(guest: Guest, game_id: str) -> int:
        """Sessions from before, played whatever becomes of the guest; how many plays."""
        sessions = [await own_world.session(game_id, guest.player_id) for _ in range(4)]
        ready.append(guest)
        await until(lambda: len(ready) >= len(games) * people)
        answers = [await own_world.play(game_id, session, "") for session in sessions]
        assert [answer.code for answer in answers] == ["OK"] * 4, [answer.envelope for answer in answers]
        return 4

    async def claims(guest: Guest) -> None:
        for row in await stack.database.fetch("SELECT reward_id FROM rewards WHERE player_id = $1", guest.player_id):
            await stack.core("POST", f"/rewards/{row['reward_id']}/claim", {"player_id": guest.player_id})

    async def redeems(guest: Guest) -> None:
        body = {"player_id": guest.player_id, "milestone_id": "mug"}
        answers = await asyncio.gather(*(stack.core("POST", f"/games/{shop}/redeem", body) for _ in range(3)))
        assert sorted(answer.reason for answer in answers) == ["", "ALREADY_GRANTED", "ALREADY_GRANTED"]

    ready: list[Guest] = []

    async def person(nth: int) -> tuple[str, int]:
        guests = [await guest_who_played(own_world, game_id) for game_id in games]
        playing = [asyncio.ensure_future(plays(guest, game_id)) for guest, game_id in zip(guests, games, strict=True)]
        await until(lambda: len(ready) >= len(games) * people)
        redeeming = asyncio.ensure_future(redeems(guests[-1]))
        players = await asyncio.gather(*(log_in(stack, guest, f"{nth}@example.com") for guest in (*guests, *guests)))
        await asyncio.gather(redeeming, *(claims(guest) for guest in guests))
        assert len(set(players)) == 1
        return players[0], sum(await asyncio.gather(*playing)) + len(guests)

    finalizing = asyncio.ensure_future(_finalize_when(stack, board, ready, len(games) * people))
    for player, count in await asyncio.gather(*(person(nth) for nth in range(people))):
        assert (await rows_of(stack, player))["plays"] == count
        rewards = await rewards_of(stack, player)
        assert len([row for row in rewards if row["prize_id"] == capped]) == 2
        assert sorted(row["milestone_id"] for row in rewards if row["milestone_id"]) == ["cup", "mug"]
    await finalizing
    assert await own_world.stock(trophy) == (6, 3)
    left = await stack.database.fetch(
        "SELECT p.player_id FROM players AS p JOIN plays USING (tenant_id, player_id) WHERE p.merged_into IS NOT NULL"
    )
    assert left == []
    await invariants.check(stack.database)


async def _finalize_when(stack: Stack, board_id: str, ready: list[Guest], count: int) -> None:
    await until(lambda: len(ready) >= count)
    assert (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).code == "OK"


async def log_in_beside(stack: Stack, table: str, guest: Guest, player: str, act: Awaitable[Answer]) -> None:
    """The login waits for the guest's row of a table, having looked at what both have; then the player acts."""
    async with held(stack, f"SELECT FROM {table} WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = await begun(stack, log_in(stack, guest), "merging.lock_")
        assert (await act).code == "OK"
    assert await merge == player
    await invariants.check(stack.database)


@pytest.mark.parametrize("kind", [{"total": 9, "fulfillment": ON_CLAIM}, {"type": "points", "value": 50}])
async def test_capped_prize_won_during_the_login_is_awarded_once(own_world: World, stack: Stack, kind: Any) -> None:
    prize_id = await own_world.prize(**kind, constraints={"max_per_user": 1})
    wheel = await own_world.wheel(prize_id, access="public")
    guest, player = await guest_who_played(own_world, wheel), await log_in(stack)
    await log_in_beside(stack, "game_players", guest, player, own_world.round(wheel, player))
    if "value" in kind:
        assert (await wallet_of(stack, player))["points"] == 50
    else:
        assert [row["prize_id"] for row in await rewards_of(stack, player)] == [prize_id]
        assert await own_world.stock(prize_id) == (8, 1)
    assert (await own_world.round(wheel, player)).data["rewards"] == []


async def test_rung_redeemed_during_the_login_is_one_reward(own_world: World, stack: Stack) -> None:
    mug = await own_world.prize(total=9, fulfillment=ON_CLAIM)
    rungs = block(rung("cup", 2, mug), auto_grant=False)
    ladder = await own_world.game(COLLECTION, COINS, access="public", milestones=rungs)
    guest, player = await guest_who_played(own_world, ladder), await log_in(stack)
    assert (await own_world.redeem(ladder, "cup", guest.player_id)).code == "OK"
    await own_world.round(ladder, player)
    await log_in_beside(stack, "game_players", guest, player, own_world.redeem(ladder, "cup", player))
    assert [row["milestone_id"] for row in await rewards_of(stack, player)] == ["cup"]
    assert await own_world.stock(mug) == (8, 1)


async def test_quest_completed_during_the_login_gives_its_turns_once(own_world: World, stack: Stack) -> None:
    quest_id = await own_world.quest()
    game_id = await own_world.game(COLLECTION, COINS, access="public")
    guest, player = await new_guest(own_world, game_id), await log_in(stack)
    done = f"/quests/{quest_id}/complete"
    assert (await stack.consumer("POST", done, {}, headers=guest.bearer)).data["turns_granted"] == 3
    await log_in_beside(stack, "turn_balances", guest, player, stack.consumer("POST", done, {}, player=player))
    assert (await own_world.eligibility(game_id, player))["remaining_turns"] == 3


async def test_reward_revoked_during_the_login_is_paid_back(own_world: World, stack: Stack) -> None:
    exchange = block(rung("cup", 2, await own_world.prize(total=9)), auto_grant=False, mode="SPEND_EXCHANGE")
    game_id = await own_world.game(COLLECTION, COINS, access="public", milestones=exchange)
    guest, player = await guest_who_played(own_world, game_id), await log_in(stack)
    await own_world.round(game_id, player)
    for who in (guest.player_id, player):
        assert (await own_world.redeem(game_id, "cup", who)).code == "OK"
    (delivered,) = await rewards_of(stack, guest.player_id)
    async with held(stack, "SELECT FROM rewards WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = await begun(stack, log_in(stack, guest), "merging.lock_rewards")
        revoke = asyncio.ensure_future(stack.admin("POST", f"/admin/rewards/{delivered['id']}/revoke", {}))
        await until(lambda: waits(stack, "merging.lock_target", "rewards.lock_balances"))
    assert await merge == player
    assert (await revoke).code == "OK"
    assert await wallet_of(stack, player) == {"coin": 2}


async def test_merge_into_a_guest_moves_nothing(own_world: World, stack: Stack, collection: str) -> None:
    late, early = [await guest_who_played(own_world, collection) for _ in range(2)]
    for into in (early.player_id, await log_in(stack, early)):
        moved = await merging.merge(stack.engine, stack.tenant_id, late.player_id, into)
        assert moved is (into != early.player_id)
        if not moved:
            assert (await rows_of(stack, late.player_id))["plays"] == 1


async def test_guest_that_completes_during_its_login_is_judged_as_the_player(own_world: World, stack: Stack) -> None:
    """The player has won it at another wheel: so what the guest has of it is taken back, and nobody won at this one."""
    prize = await own_world.prize(total=9, constraints={"max_per_user": 1}, fulfillment=ON_CLAIM)
    one, other = [await own_world.wheel(prize, access="public") for _ in range(2)]
    quest_id = await own_world.quest(type="daily", condition={"kind": "wins", "count": 1, "game_id": one})
    guest, player = await guest_who_played(own_world, one), await log_in(stack)
    await own_world.round(other, player)
    async with held(stack, "SELECT FROM rewards WHERE player_id = $1 FOR UPDATE", guest.player_id):
        merge = await begun(stack, log_in(stack, guest), "merging.lock_rewards")
        by_guest = {"player_id": guest.player_id}
        rival = asyncio.ensure_future(stack.core("POST", f"/quests/{quest_id}/complete", by_guest))
        await until(lambda: waits(stack, "players.create", "quests.complete"))
    assert await merge == player
    refused = await rival
    assert refused.reason == "CONDITION_NOT_MET", refused.envelope
    assert [int(refused.envelope["data"][name]) for name in ("have", "need")] == [0, 1]
    assert await stack.database.fetchval("SELECT count(*) FROM turn_entries WHERE reason = 'quest'") == 0
    await invariants.check(stack.database)
