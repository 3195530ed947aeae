import asyncio
from contextlib import suppress

import pytest

from runtime.outgoing.breaker import CircuitBreaker
from runtime.outgoing.bulkhead import Bulkhead, Entry
from runtime.streams import receivers
from runtime.streams.receivers import Receivers


async def entered(bulkhead: Bulkhead, count: int) -> list[asyncio.Task[Entry]]:
    tasks = [asyncio.create_task(bulkhead.enter()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_bulkhead_admits_up_to_its_places_and_then_in_order() -> None:
    bulkhead = Bulkhead(places=2, wait_seconds=60)
    tasks = await entered(bulkhead, 4)
    assert [task.done() for task in tasks] == [True, True, False, False]
    for number in (2, 3):
        bulkhead.leave()
        assert await tasks[number] is Entry.ENTERED
    late = await entered(bulkhead, 1)
    assert not late[0].done()
    late[0].cancel()


async def test_full_queue_turns_away_at_once() -> None:
    bulkhead = Bulkhead(places=1, wait_seconds=60, queue_max=1)
    tasks = await entered(bulkhead, 3)
    assert await tasks[2] is Entry.QUEUE_FULL
    bulkhead.leave()
    assert await tasks[1] is Entry.ENTERED


async def test_wait_ends_and_shuts_the_queue_for_a_while() -> None:
    bulkhead = Bulkhead(places=1, wait_seconds=0.02, shut_seconds=60)
    tasks = await entered(bulkhead, 3)
    assert [await task for task in tasks] == [Entry.ENTERED, Entry.TOO_LATE, Entry.TOO_LATE]
    assert await bulkhead.enter() is Entry.TOO_LATE
    bulkhead.leave()
    assert await bulkhead.enter() is Entry.ENTERED, "a free place is taken, whatever was before"


async def test_queue_of_a_stuck_receiver_is_shut() -> None:
    bulkhead = Bulkhead(places=1, wait_seconds=60, stuck_seconds=0)
    assert await bulkhead.enter() is Entry.ENTERED
    began = asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() == began:
        pass
    assert await bulkhead.enter() is Entry.TOO_LATE


async def test_cancelled_wait_takes_no_place() -> None:
    bulkhead = Bulkhead(places=1, wait_seconds=60)
    for given in ("before", "at once", "later"):
        first, second, third = await entered(bulkhead, 3)
        assert await first is Entry.ENTERED
        if given == "before":
            bulkhead.leave()
        second.cancel()
        if given == "at once":
            bulkhead.leave()
        with suppress(asyncio.CancelledError):
            await second
        if given == "later":
            bulkhead.leave()
        assert second.cancelled()
        assert await third is Entry.ENTERED
        [waiting] = await entered(bulkhead, 1)
        assert not waiting.done(), "there is no second place"
        waiting.cancel()
        bulkhead.leave()


def failing(breaker: CircuitBreaker, times: int, now: float) -> None:
    for _ in range(times):
        assert breaker.admits(now)
        breaker.record(True, now)


def breaker() -> CircuitBreaker:
    return CircuitBreaker(failures_to_open=3, open_seconds=10.0)


def test_breaker_opens_at_the_last_failure_in_a_row() -> None:
    one = breaker()
    failing(one, 2, 0.0)
    one.record(False, 0.0)
    failing(one, 2, 0.0)
    assert not one.is_open(0.0) and one.admits(0.0)
    one.record(True, 0.0)
    assert one.is_open(9.9) and not one.admits(9.9)


def test_breaker_admits_one_attempt_per_pause() -> None:
    one = breaker()
    failing(one, 3, 0.0)
    assert not one.is_open(10.0) and not one.is_open(10.0), "asking takes no attempt"
    assert [one.admits(now) for now in (10.0, 10.0, 19.9, 20.0)] == [True, False, False, True]


def test_trial_that_succeeds_closes_it_and_one_that_fails_does_not() -> None:
    one = breaker()
    failing(one, 3, 0.0)
    assert one.admits(10.0)
    one.record(True, 11.0)
    assert not one.admits(19.0)
    assert one.admits(20.0)
    one.record(False, 20.0)
    assert one.admits(20.0) and one.admits(20.0)


def row(prize_id: str, url: str = "", channel: str = "webhook") -> dict[str, object]:
    return {"prize_id": prize_id, "channel": channel, "channel_config": {"url": url} if url else {}}


async def test_prizes_of_one_host_share_a_receiver_over_all_tenants() -> None:
    known = Receivers()
    first = known.of("tenant_a", row("prize_1", "https://shop.example/a"))
    assert known.of("tenant_b", row("prize_2", "https://shop.example/b")) is first
    assert known.of("tenant_a", row("prize_3", "https://other.example/a")) is not first


async def test_channel_without_a_url_is_its_tenants_alone() -> None:
    known = Receivers()
    codes = known.of("tenant_a", row("prize_1", channel="voucher_code"))
    assert known.of("tenant_a", row("prize_2", channel="voucher_code")) is codes
    assert known.of("tenant_b", row("prize_1", channel="voucher_code")) is not codes
    assert known.of("tenant_a", row("prize_3", channel="plugin")) is not codes


async def test_prizes_and_receivers_without_tasks_are_forgotten_beyond_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receivers, "KNOWN_MAX", 10)
    known = Receivers()
    busy = known.of("tenant_a", row("busy", "https://shop.example"))
    busy.tasks = 1
    for nth in range(100):
        known.of("tenant_a", row(f"prize_{nth}", "https://shop.example"))
        known.of(f"tenant_{nth}", row("prize", f"https://{nth}.example"))
    assert sum(map(len, known._by_prize.values())) <= 11 and len(known._by_name) <= 11
    assert known.of("tenant_a", row("busy", "https://shop.example")) is busy
