"""The bulkhead: so many at once, the others in their order, none of them for long, and no place ever lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from runtime.outgoing.bulkhead import Bulkhead, Entry


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
    for given_first in (False, True):
        first, second, third = await entered(bulkhead, 3)
        assert await first is Entry.ENTERED
        if given_first:
            bulkhead.leave()
            second.cancel()
        else:
            second.cancel()
            bulkhead.leave()
        with suppress(asyncio.CancelledError):
            await second
        assert second.cancelled()
        assert await third is Entry.ENTERED
        bulkhead.leave()


async def test_place_of_a_cancelled_wait_is_free_again() -> None:
    bulkhead = Bulkhead(places=1, wait_seconds=0.02)
    tasks = await entered(bulkhead, 2)
    tasks[1].cancel()
    with suppress(asyncio.CancelledError):
        await tasks[1]
    bulkhead.leave()
    assert await bulkhead.enter() is Entry.ENTERED
    [waiting] = await entered(bulkhead, 1)
    assert await waiting is Entry.TOO_LATE
