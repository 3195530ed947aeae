"""Claims as players make them, and what admins may do to a reward by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from runtime.streams import expiry
from tests.support.rewards import Shelf
from tests.support.stack import OTHER_TENANT, Stack


async def claim(stack: Stack, reward_id: str, player: str = "player_ann", **headers: str) -> Any:
    return await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player, headers=headers)


async def test_a_claim_of_a_voucher_shows_its_code_and_delivers_it(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "MUG-1")
    reward = (await claim(stack, reward_id := await shelf.reward(prize_id))).data
    assert (reward["status"], reward["code"]) == ("REWARD_STATUS_FULFILLED", "MUG-1")
    assert reward["claimed_at"] == reward["fulfilled_at"] > 0
    assert (await shelf.row(reward_id))["task"] == "delivered"


async def test_a_claim_for_a_webhook_makes_its_task(stack: Stack, shelf: Shelf) -> None:
    reward = (await claim(stack, reward_id := await shelf.reward(await shelf.prize(channel="webhook")))).data
    assert reward["status"] in ("REWARD_STATUS_CLAIMED", "REWARD_STATUS_FULFILLING")
    assert (await shelf.row(reward_id))["task"] == "pending"


@pytest.mark.parametrize(("mode", "channel"), [("manual", "none"), ("on_claim", "manual"), ("on_win", "manual")])
async def test_a_claim_of_what_is_handed_over_by_hand_makes_no_task(
    stack: Stack, shelf: Shelf, mode: str, channel: str
) -> None:
    reward = (await claim(stack, reward_id := await shelf.reward(await shelf.prize(mode, channel)))).data
    assert reward["status"] == "REWARD_STATUS_CLAIMED"
    assert (await shelf.row(reward_id))["task"] is None


async def test_a_claim_of_what_is_on_its_way_keeps_its_one_task(stack: Stack, shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize("on_win", "webhook"), task="pending")
    assert (await claim(stack, reward_id)).data["status"] == "REWARD_STATUS_CLAIMED"
    assert (await shelf.row(reward_id))["task"] == "pending"


async def test_a_second_claim_is_rejected(stack: Stack, shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize())
    await claim(stack, reward_id)
    again = await claim(stack, reward_id)
    assert (again.http, again.code, again.reason) == (409, "ALREADY_EXISTS", "ALREADY_CLAIMED")


async def test_a_reward_of_another_player_is_unknown(stack: Stack, shelf: Shelf) -> None:
    theirs = await claim(stack, await shelf.reward(await shelf.prize()), "player_bob")
    nobodys = await claim(stack, "reward_none", "player_bob")
    assert (theirs.http, theirs.reason) == (nobodys.http, nobodys.reason) == (404, "UNKNOWN_REWARD")


async def test_a_reward_of_another_tenant_is_unknown_to_players_and_admins(stack: Stack, shelf: Shelf) -> None:
    other = await Shelf(shelf.engine, OTHER_TENANT).open()
    reward_id = await other.reward(await other.prize())
    for answer in (
        await claim(stack, reward_id),
        await stack.admin("POST", f"/admin/rewards/{reward_id}/fulfill", {}),
        await stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {}),
    ):
        assert (answer.http, answer.reason) == (404, "UNKNOWN_REWARD")
    assert (await other.row(reward_id))["status"] == "won"


async def test_without_a_code_the_claim_changes_nothing_and_works_later(stack: Stack, shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    before = await shelf.row(reward_id := await shelf.reward(prize_id))
    refused = await claim(stack, reward_id)
    assert (refused.http, refused.code, refused.reason) == (400, "FAILED_PRECONDITION", "OUT_OF_STOCK")
    assert await shelf.row(reward_id) == before
    await shelf.codes(prize_id, "MUG-1")
    assert (await claim(stack, reward_id)).data["code"] == "MUG-1"


async def test_a_reward_that_is_late_cannot_be_claimed(stack: Stack, shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize(), expires_in_seconds=-1)
    refused = await claim(stack, reward_id)
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    assert refused.envelope["data"]["reward_status"] == "REWARD_STATUS_EXPIRED"


class TestIdempotency:
    async def test_a_retry_answers_as_the_first_time_even_without_the_ephemeral_store(
        self, stack: Stack, shelf: Shelf
    ) -> None:
        prize_id = await shelf.prize(channel="voucher_code")
        await shelf.codes(prize_id, "MUG-1", "MUG-2")
        body = {"player_id": "player_ann", "idempotency_key": "k1"}
        reward_id = await shelf.reward(prize_id)
        # Core keeps no answers in the ephemeral store: what it knows of the key is in the row.
        first = await stack.core("POST", f"/rewards/{reward_id}/claim", body)
        again = await stack.core("POST", f"/rewards/{reward_id}/claim", body)
        assert first.data == again.data
        assert again.data["reward"]["code"] == "MUG-1"

    async def test_a_retry_answers_as_the_first_time_whatever_became_of_the_reward(
        self, stack: Stack, shelf: Shelf
    ) -> None:
        body = {"player_id": "player_ann", "idempotency_key": "k1"}
        reward_id = await shelf.reward(await shelf.prize(channel="webhook"))
        first = await stack.core("POST", f"/rewards/{reward_id}/claim", body)
        await stack.admin("POST", f"/admin/rewards/{reward_id}/fulfill", {})
        assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).data == first.data

    async def test_the_edge_passes_the_key_on_so_that_a_flushed_store_forgets_nothing(
        self, stack: Stack, shelf: Shelf, valkey: Any
    ) -> None:
        reward_id = await shelf.reward(await shelf.prize())
        first = await claim(stack, reward_id, **{"Idempotency-Key": "k1"})
        await valkey.flushall()
        assert (await claim(stack, reward_id, **{"Idempotency-Key": "k1"})).data == first.data
        other = await shelf.reward(await shelf.prize())
        assert (await claim(stack, other, **{"Idempotency-Key": "k1"})).data["id"] == other

    async def test_players_do_not_share_keys(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize()
        for player in ("player_ann", "player_bob"):
            reward_id = await shelf.reward(prize_id, player)
            body = {"player_id": player, "idempotency_key": "k1"}
            assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).http == 200

    async def test_a_refused_claim_leaves_its_key_free(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(channel="voucher_code")
        body = {"player_id": "player_ann", "idempotency_key": "k1"}
        reward_id = await shelf.reward(prize_id)
        assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).reason == "OUT_OF_STOCK"
        await shelf.codes(prize_id, "MUG-1")
        assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).data["reward"]["code"] == "MUG-1"


class TestFulfill:
    @pytest.mark.parametrize(
        ("status", "task"), [("won", ""), ("won", "pending"), ("claimed", ""), ("claimed", "retry"), ("failed", "dead")]
    )
    async def test_it_delivers_with_its_task(self, stack: Stack, shelf: Shelf, status: str, task: str) -> None:
        reward_id = await shelf.reward(await shelf.prize(channel="webhook"), status=status, task=task)
        done = (await stack.admin("POST", f"/admin/rewards/{reward_id}/fulfill", {"note": "handed over"})).data
        assert done["status"] == "REWARD_STATUS_FULFILLED" and done["fulfilled_at"] > 0
        assert (await shelf.row(reward_id))["task"] == "delivered"

    async def test_a_voucher_takes_its_code_which_its_owner_alone_sees(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize("manual", "voucher_code")
        reward_id = await shelf.reward(prize_id)
        path = f"/admin/rewards/{reward_id}/fulfill"
        assert (await stack.admin("POST", path, {})).reason == "OUT_OF_STOCK"
        await shelf.codes(prize_id, "MUG-1")
        assert not (await stack.admin("POST", path, {})).data.get("code")
        [mine] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
        assert mine["code"] == "MUG-1"

    async def test_it_is_noted_with_its_note_and_without_a_code(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize("manual", "voucher_code")
        await shelf.codes(prize_id, "MUG-1")
        reward_id = await shelf.reward(prize_id)
        await stack.admin("POST", f"/admin/rewards/{reward_id}/fulfill", {"note": "handed over"})
        entry = await shelf.engine.database.fetchrow("SELECT * FROM audit_entries WHERE subject_id = $1", reward_id)
        assert entry is not None
        assert (entry["action"], entry["actor"], entry["before"]["status"]) == ("reward.fulfill", "staff_test", "won")
        assert (entry["after"]["status"], entry["after"]["note"]) == ("fulfilled", "handed over")
        assert "MUG-1" not in str(dict(entry))


class TestRevoke:
    @pytest.mark.parametrize(
        ("status", "task", "left"),
        [
            ("won", "", None),
            ("won", "pending", "cancelled"),
            ("claimed", "retry", "cancelled"),
            ("fulfilling", "awaiting", "cancelled"),
            ("failed", "dead", "cancelled"),
        ],
    )
    async def test_what_was_not_delivered_is_free_again(
        self, stack: Stack, shelf: Shelf, status: str, task: str, left: str | None
    ) -> None:
        prize_id = await shelf.prize(channel="webhook", total=5)
        reward_id = await shelf.reward(prize_id, status=status, task=task, quantity=2)
        assert await shelf.stock(prize_id) == ((5, 5, 0) if status == "failed" else (5, 3, 2))
        done = (await stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {"reason": "a cheat"})).data
        assert done["status"] == "REWARD_STATUS_REVOKED"
        assert (await shelf.row(reward_id))["task"] == left
        assert await shelf.stock(prize_id) == (5, 5, 0)

    async def test_what_was_delivered_stays_used(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(channel="voucher_code", total=5)
        await shelf.codes(prize_id, "MUG-1")
        reward_id = await shelf.reward(prize_id)
        await claim(stack, reward_id)
        await stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {})
        row = await shelf.row(reward_id)
        assert (row["status"], row["task"], row["codes"]) == ("revoked", "delivered", 1)
        assert await shelf.stock(prize_id) == (5, 4, 1)
        [mine] = (await stack.consumer("GET", "/rewards/me", player="player_ann")).data["items"]
        assert not mine.get("code")

    async def test_a_code_that_nobody_saw_returns_to_its_pool(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(channel="voucher_code")
        await shelf.codes(prize_id, "MUG-1")
        reward_id = await shelf.reward(prize_id, status="fulfilling", task="pending")
        await shelf.engine.database.execute("UPDATE codes SET reward_id = $1, assigned_at = now()", reward_id)
        await stack.admin("POST", f"/admin/rewards/{reward_id}/revoke", {})
        assert (await claim(stack, await shelf.reward(prize_id))).data["code"] == "MUG-1"

    async def test_a_second_revoke_is_rejected(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(total=5)
        path = f"/admin/rewards/{await shelf.reward(prize_id)}/revoke"
        await stack.admin("POST", path, {})
        again = await stack.admin("POST", path, {})
        assert (again.http, again.code, again.reason) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
        assert await shelf.stock(prize_id) == (5, 5, 0)

    async def test_an_unlimited_prize_has_its_count_back(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize()
        await stack.admin("POST", f"/admin/rewards/{await shelf.reward(prize_id)}/revoke", {})
        assert await shelf.stock(prize_id) == (0, 0, 0)


class TestExpiry:
    async def test_only_what_is_late_and_not_on_its_way_expires(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize(channel="webhook")
        expected = {
            await shelf.reward(prize_id, expires_in_seconds=-1): "expired",
            await shelf.reward(prize_id, expires_in_seconds=3600): "won",
            await shelf.reward(prize_id): "won",
            await shelf.reward(prize_id, expires_in_seconds=-1, task="pending"): "won",
            await shelf.reward(prize_id, expires_in_seconds=-1, status="claimed"): "claimed",
        }
        assert await expiry.expire(shelf.engine) == 1
        assert {reward_id: (await shelf.row(reward_id))["status"] for reward_id in expected} == expected
        assert await shelf.stock(prize_id) == (0, 0, 4)
        assert await expiry.expire(shelf.engine) == 0

    async def test_every_tenant_has_its_turn_and_batches_follow_one_another(
        self, stack: Stack, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(expiry, "BATCH", 2)
        other = await Shelf(shelf.engine, OTHER_TENANT).open()
        for place in (shelf, other):
            prize_id = await place.prize()
            for _ in range(5):
                await place.reward(prize_id, expires_in_seconds=-1)
        assert sum(await asyncio.gather(*(expiry.expire(shelf.engine) for _ in range(4)))) == 10

    async def test_it_stops_when_told(self, stack: Stack, shelf: Shelf) -> None:
        prize_id = await shelf.prize()
        reward_id = await shelf.reward(prize_id, expires_in_seconds=-1)
        stop = asyncio.Event()
        running = asyncio.create_task(expiry.run(shelf.engine, stop, every_seconds=0.01))
        while (await shelf.row(reward_id))["status"] != "expired":
            await asyncio.sleep(0)
        stop.set()
        await running
        late = await shelf.reward(prize_id, expires_in_seconds=-1)
        assert (await shelf.row(late))["status"] == "won"
