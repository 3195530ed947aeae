import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from runtime import messages as m
from runtime.actors import claims
from runtime.actors.engine import Engine
from runtime.actors.mailbox import Work
from runtime.actors.rewards import MOVES, STATES
from runtime.core import Core
from runtime.errors import Fault
from runtime.groups import event_stream, task_stream
from runtime.stores.database import StoreUnavailable
from tests.support.rewards import Shelf, claim, core, fulfill
from tests.support.stack import settings_of
from tests.support.waiting import until

Status = m.RewardStatus


@pytest.fixture
async def cores(database_url: str, valkey_url: str, valkey_flush: None) -> AsyncIterator[tuple[Core, Core]]:
    settings = settings_of(database_url, valkey_url)
    async with core(settings) as one, core(settings) as two:
        yield one, two


@pytest.fixture
async def shelf(cores: tuple[Core, Core]) -> Shelf:
    return await Shelf(cores[0].engine).open()


async def outcomes(*claims: Any) -> Counter[str]:
    done = await asyncio.gather(*claims, return_exceptions=True)
    for answer in done:
        if isinstance(answer, BaseException) and not isinstance(answer, Fault):
            raise answer
    return Counter(answer.reason if isinstance(answer, Fault) else "OK" for answer in done)


async def test_reward_is_claimed_once_by_fifty_rivals_of_two_processes(cores: tuple[Core, Core], shelf: Shelf) -> None:
    reward_id = await shelf.reward(await shelf.prize(channel="webhook"))
    counts = await outcomes(*(claim(core, reward_id) for core in cores for _ in range(50)))
    assert counts == {"OK": 1, "ALREADY_CLAIMED": 99}
    assert (await shelf.row(reward_id))["task"] == "pending"


async def test_claims_with_one_key_are_one_claim_and_get_one_answer(cores: tuple[Core, Core], shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "CODE-1", "CODE-2")
    reward_id = await shelf.reward(prize_id)
    answers = await asyncio.gather(*(claim(core, reward_id, key="k") for core in cores for _ in range(50)))
    assert all(answer == answers[0] for answer in answers)
    assert (answers[0].status, answers[0].code) == (Status.FULFILLED, "CODE-1")
    assert (await shelf.row(reward_id))["codes"] == 1


async def test_last_code_goes_to_one_of_twenty_rivals(cores: tuple[Core, Core], shelf: Shelf) -> None:
    prize_id = await shelf.prize(channel="voucher_code")
    await shelf.codes(prize_id, "LAST")
    rewards = [await shelf.reward(prize_id, f"player_{nth}") for nth in range(20)]
    counts = await outcomes(*(claim(cores[nth % 2], reward, f"player_{nth}") for nth, reward in enumerate(rewards)))
    assert counts == {"OK": 1, "OUT_OF_STOCK": 19}
    rows = [await shelf.row(reward_id) for reward_id in rewards]
    assert sorted((row["status"], row["task"], row["codes"]) for row in rows) == sorted(
        [("fulfilled", "delivered", 1)] + [("won", None, 0)] * 19
    )


async def test_bad_claim_fails_alone(cores: tuple[Core, Core], shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    empty, plain = await shelf.prize(channel="voucher_code"), await shelf.prize(channel="webhook")
    good = [await shelf.reward(plain) for _ in range(5)]
    late = await shelf.reward(plain, expires_in_seconds=-10)
    bad = await shelf.reward(empty)
    other = await shelf.reward(plain, "player_bob")
    write, written = claims._write, []

    async def count_write(claimer: claims.Claimer, requests: Sequence[m.ClaimRewardRequest]) -> Any:
        written.append(len(requests))
        return await write(claimer, requests)

    monkeypatch.setattr(claims, "_write", count_write)
    counts = await outcomes(*(claim(cores[0], reward_id) for reward_id in [*good, late, bad, other, "reward_none"]))
    assert counts == {"OK": 5, "ILLEGAL_TRANSITION": 1, "OUT_OF_STOCK": 1, "UNKNOWN_REWARD": 2}
    assert written == [9], "one statement for all of them"


async def test_fulfil_by_twenty_rivals_takes_one_code(cores: tuple[Core, Core], shelf: Shelf) -> None:
    prize_id = await shelf.prize("manual", "voucher_code")
    await shelf.codes(prize_id, *(f"CODE-{nth}" for nth in range(20)))
    reward_id = await shelf.reward(prize_id)
    counts = await outcomes(*(fulfill(cores[nth % 2], reward_id) for nth in range(20)))
    assert counts == {"OK": 1, "ILLEGAL_TRANSITION": 19}
    assert (await shelf.row(reward_id))["codes"] == 1


async def test_claim_is_published_to_the_streams(cores: tuple[Core, Core], shelf: Shelf, valkey: Any) -> None:
    reward_id = await shelf.reward(await shelf.prize(channel="webhook"))
    await claim(cores[0], reward_id)
    events = await read(valkey, event_stream(0))
    assert b'"type":"prize_claimed"' in events[b"e"] and reward_id.encode() in events[b"e"]
    assert b'"merchant_id":"merchant_test"' in events[b"e"]
    task = await cores[0].engine.database.fetchval("SELECT task_id FROM tasks WHERE reward_id = $1", reward_id)
    assert (await read(valkey, task_stream(0)))[b"t"] == f"tenant_test {task}".encode()


async def read(valkey: Any, stream: str) -> dict[bytes, bytes]:
    [(_, [(_, fields)])] = await valkey.xread({stream: "0"}, count=1, block=5000)
    return dict(fields)


@pytest.mark.parametrize("before", STATES)
def test_moves_are_those_of_the_contract(before: str) -> None:
    legal = {"won": {"claimed", "fulfilling", "fulfilled", "expired", "revoked"}}
    legal |= {"claimed": {"fulfilling", "fulfilled", "revoked"}, "fulfilling": {"fulfilled", "failed", "revoked"}}
    legal |= {"fulfilled": {"revoked"}, "failed": {"fulfilling", "fulfilled", "revoked"}, "expired": set()}
    legal |= {"revoked": set()}
    assert {after for move in MOVES.values() if before in move.before for after in move.after} == legal[before]


def works_of(shelf: Shelf, *claimed: tuple[str, str]) -> list[Work[m.ClaimRewardRequest]]:
    """Claims of Ann's that wait in one mailbox: (reward, idempotency key)."""
    scope, loop = m.Scope(tenant_id=shelf.tenant_id), asyncio.get_running_loop()
    return [
        Work(
            m.ClaimRewardRequest(scope=scope, id=reward_id, player_id="player_ann", idempotency_key=key),
            loop.create_future(),
        )
        for reward_id, key in claimed
    ]


async def hear_of(engine: Engine, reward_id: str) -> None:
    await until(lambda: engine.ephemeral.run("XRANGE", event_stream(0), "-", "+"), lambda it: reward_id in str(it))


async def test_bad_replay_fails_alone(cores: tuple[Core, Core], shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims of a batch are committed together, so each must be answered and published."""
    engine, prize_id = cores[0].engine, await shelf.prize(channel="webhook")
    old, new = await shelf.reward(prize_id), await shelf.reward(prize_id)
    await claim(cores[0], old, key="k")
    monkeypatch.setattr(claims, "AS_CLAIMED", FAILS)
    works = works_of(shelf, (old, "k"), (new, ""))
    await claims.ClaimActors(engine).process_batch(claims.Claimer(engine, shelf.tenant_id), works)
    assert isinstance(works[0].future.exception(), asyncpg.DivisionByZeroError)
    assert works[1].future.result().reward.status == Status.CLAIMED
    await hear_of(engine, new)


FAILS = "SELECT 1 / 0 WHERE $1::text <> '' AND $2::text[] IS NOT NULL"
LOSES_THE_CONNECTION = FAILS.replace("1 / 0", "pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize("read", [FAILS, LOSES_THE_CONNECTION], ids=["an error", "a lost connection"])
async def test_claim_whose_guest_cannot_be_read_fails_no_other_claim(
    cores: tuple[Core, Core], shelf: Shelf, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    engine, prize_id = cores[0].engine, await shelf.prize(channel="webhook")
    good = await shelf.reward(prize_id)
    monkeypatch.setattr(claims, "MERGED", read)
    works = works_of(shelf, (good, ""), ("reward_none", ""), (good, "another"))
    await claims.ClaimActors(engine).process_batch(claims.Claimer(engine, shelf.tenant_id), works)
    claimed, unknown, second = (work.future for work in works)
    assert claimed.result().reward.status == Status.CLAIMED
    assert isinstance(unknown.exception(), asyncpg.DivisionByZeroError | StoreUnavailable)
    # What waited behind them was asked for, and is answered by what is true.
    refused = second.exception()
    assert isinstance(refused, Fault) and refused.reason == "ALREADY_CLAIMED"
    await hear_of(engine, good)
