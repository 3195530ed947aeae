"""A voucher code that no key opens: nobody is told that it was delivered, and nothing is used up by finding out."""

import asyncio
from typing import Any

import pytest

from runtime.actors.rewards import CODES_UNAVAILABLE
from tests.support.deliveries import state, sweep
from tests.support.rewards import Shelf
from tests.support.stack import Stack, refused

UNAVAILABLE = (503, "UNAVAILABLE", "CODE_UNAVAILABLE")
ANN = "player_ann"

LOST = "UPDATE codes SET key_id = 'gone' WHERE prize_id = $1"
"""As if CODE_KEYS no longer named the key."""

BACK = "UPDATE codes SET key_id = $2 WHERE prize_id = $1"
DAMAGED = "UPDATE codes SET ciphertext = set_byte(ciphertext, 20, get_byte(ciphertext, 20) # 1) WHERE prize_id = $1"


async def voucher(shelf: Shelf, *codes: str, mode: str = "on_claim") -> str:
    prize_id = await shelf.prize(mode, "voucher_code", total=9)
    await shelf.codes(prize_id, *codes)
    return prize_id


async def won(shelf: Shelf, prize_id: str, player: str = ANN, **fields: Any) -> str:
    reward_id = await shelf.reward(prize_id, player, **fields)
    await shelf.engine.database.execute(
        "UPDATE codes SET reward_id = $2, assigned_at = now() WHERE code_id ="
        " (SELECT min(code_id) FROM codes WHERE prize_id = $1 AND reward_id IS NULL)",
        *(prize_id, reward_id),
    )
    return reward_id


async def claim(stack: Stack, reward_id: str, player: str = ANN, key: str = "") -> Any:
    return await stack.consumer("POST", f"/rewards/{reward_id}/claim", {}, player=player, key=key)


async def key_is_back(shelf: Shelf, prize_id: str) -> None:
    await shelf.engine.database.execute(BACK, prize_id, shelf.engine.settings.code_keys[0].id)


@pytest.mark.parametrize("reserved", [True, False])
@pytest.mark.parametrize("broken", [LOST, DAMAGED])
async def test_unopenable_code_stays_claimable(stack: Stack, shelf: Shelf, reserved: bool, broken: str) -> None:
    prize_id = await voucher(shelf, "MUG-1")
    reward_id = await (won(shelf, prize_id) if reserved else shelf.reward(prize_id))
    before, counted = await shelf.row(reward_id), CODES_UNAVAILABLE._value.get()
    await shelf.engine.database.execute(broken, prize_id)
    assert refused(await claim(stack, reward_id, key="k1")) == UNAVAILABLE
    assert await shelf.row(reward_id) == before
    assert before["task"] is None and before["codes"] == int(reserved)
    assert CODES_UNAVAILABLE._value.get() == counted + 1
    if broken == DAMAGED:
        await shelf.engine.database.execute(DAMAGED, prize_id)  # The same bit again.
    else:
        await key_is_back(shelf, prize_id)
    again = await claim(stack, reward_id, key="k1")
    assert (again.data["status"], again.data["code"]) == ("REWARD_STATUS_FULFILLED", "MUG-1")


async def test_claim_of_an_unopenable_code_fails_alone_in_its_batch(stack: Stack, shelf: Shelf) -> None:
    lost, sound = await voucher(shelf, "LOST-1"), await voucher(shelf, *(f"MUG-{nth}" for nth in range(8)))
    unlucky = await won(shelf, lost, "player_0")
    lucky = {f"player_{nth}": await won(shelf, sound, f"player_{nth}") for nth in range(1, 9)}
    await shelf.engine.database.execute(LOST, lost)
    mine, *others = await asyncio.gather(
        claim(stack, unlucky, "player_0"), *(claim(stack, reward_id, name) for name, reward_id in lucky.items())
    )
    assert refused(mine) == UNAVAILABLE
    assert {answer.data["code"] for answer in others} == {f"MUG-{nth}" for nth in range(8)}
    assert (await shelf.row(unlucky))["status"] == "won"


async def test_claim_replay_shows_the_code_or_is_refused(stack: Stack, shelf: Shelf) -> None:
    prize_id = await voucher(shelf, "MUG-1")
    reward_id = await won(shelf, prize_id)
    body = {"player_id": ANN, "idempotency_key": "k1"}
    first = await stack.core("POST", f"/rewards/{reward_id}/claim", body)
    await shelf.engine.database.execute(LOST, prize_id)
    assert refused(await stack.core("POST", f"/rewards/{reward_id}/claim", body)) == UNAVAILABLE
    await key_is_back(shelf, prize_id)
    assert (await stack.core("POST", f"/rewards/{reward_id}/claim", body)).data == first.data


async def test_rewards_list_marks_the_unopenable_code_alone(stack: Stack, shelf: Shelf) -> None:
    lost, sound = await voucher(shelf, "LOST-1"), await voucher(shelf, "MUG-1")
    rewards = [await won(shelf, prize_id) for prize_id in (lost, sound)]
    for reward_id in rewards:
        assert (await claim(stack, reward_id)).http == 200
    counted = CODES_UNAVAILABLE._value.get()
    await shelf.engine.database.execute(LOST, lost)
    items = (await stack.consumer("GET", "/rewards/me", player=ANN)).data["items"]
    assert {item["id"]: (item["code"], item["code_error"], item["status"]) for item in items} == {
        rewards[0]: ("", "CODE_UNAVAILABLE", "REWARD_STATUS_FULFILLED"),
        rewards[1]: ("MUG-1", "", "REWARD_STATUS_FULFILLED"),
    }
    assert CODES_UNAVAILABLE._value.get() == counted + 1
    await key_is_back(shelf, lost)
    items = (await stack.consumer("GET", "/rewards/me", player=ANN)).data["items"]
    assert {(item["code"], item["code_error"]) for item in items} == {("LOST-1", ""), ("MUG-1", "")}


async def test_fulfil_of_an_unopenable_code_is_refused(stack: Stack, shelf: Shelf) -> None:
    prize_id = await voucher(shelf, "MUG-1", mode="manual")
    reward_id = await won(shelf, prize_id)
    await shelf.engine.database.execute(LOST, prize_id)
    path = f"/admin/rewards/{reward_id}/fulfill"
    assert refused(await stack.admin("POST", path, {})) == UNAVAILABLE
    row = await shelf.row(reward_id)
    assert (row["status"], row["task"], row["codes"]) == ("won", None, 1)
    await key_is_back(shelf, prize_id)
    assert (await stack.admin("POST", path, {})).data["status"] == "REWARD_STATUS_FULFILLED"


@pytest.mark.parametrize("reserved", [True, False])
async def test_delivery_of_an_unopenable_code_is_retried_then_dead(stack: Stack, shelf: Shelf, reserved: bool) -> None:
    prize_id = await voucher(shelf, "MUG-1", mode="on_win")
    engine = shelf.engine
    reward_id = await (won(shelf, prize_id, task="pending") if reserved else shelf.reward(prize_id, task="pending"))
    task_id = await engine.database.fetchval("SELECT task_id FROM tasks WHERE reward_id = $1", reward_id)
    await engine.database.execute(LOST, prize_id)
    for attempts, ended in ((0, ("retry", "fulfilling")), (7, ("dead", "failed"))):
        await engine.database.execute("UPDATE tasks SET attempts = $1, next_attempt_at = now()", attempts)
        await sweep(engine)
        assert await state(engine, task_id) == ended
        error = await engine.database.fetchval("SELECT last_error FROM tasks")
        assert error == f"the code of reward {reward_id} cannot be decrypted now; nothing was changed"
    assert await shelf.stock(prize_id) == (9, 9, 0)
    assert (await shelf.row(reward_id))["codes"] == 0
    await key_is_back(shelf, prize_id)
    assert (await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {})).http == 200
    await sweep(engine)
    assert await state(engine, task_id) == ("delivered", "fulfilled")
    [mine] = (await stack.consumer("GET", "/rewards/me", player=ANN)).data["items"]
    assert mine["code"] == "MUG-1"
