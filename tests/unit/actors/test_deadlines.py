"""Answers that do not come are given up in time, and those that come are left alone."""

from __future__ import annotations

import asyncio

import pytest

from runtime.actors.mailbox import Deadlines
from runtime.stores.database import StoreUnavailable
from tests.support.waiting import HANG_SECONDS


async def test_answer_that_does_not_come_is_given_up() -> None:
    deadlines = Deadlines(0.1)
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in range(5)]
    for answer in answers:
        deadlines.watch(answer)
    answers[0].set_result("here")
    answers[3].set_result("here")
    ended = await asyncio.gather(*answers, return_exceptions=True)
    late = [isinstance(end, StoreUnavailable) and end.sent for end in ended]
    assert late == [False, True, True, False, True] and ended[0] == ended[3] == "here"


async def test_answer_has_its_whole_time() -> None:
    loop = asyncio.get_running_loop()
    ended: list[float] = []
    deadlines, began = Deadlines(0.03), []
    for _ in range(4):
        began.append(loop.time())
        deadlines.watch(last := loop.create_future())
        last.add_done_callback(lambda answer: ended.append(loop.time()) or answer.exception())
        await asyncio.sleep(0.01)  # sleeps: so that each begins later than the one before
    with pytest.raises(StoreUnavailable):
        await last
    await asyncio.sleep(0)
    assert len(ended) == 4 and all(end >= begin + 0.03 for begin, end in zip(began, ended, strict=True))


async def test_deadlines_go_on_after_a_pause() -> None:
    deadlines = Deadlines(0.01)
    loop = asyncio.get_running_loop()
    for _ in range(3):
        answer = loop.create_future()
        deadlines.watch(answer)
        async with asyncio.timeout(HANG_SECONDS):
            with pytest.raises(StoreUnavailable):
                await answer
        await asyncio.sleep(0.02)  # sleeps: the pause after which it goes on


async def test_answers_that_came_are_not_held() -> None:
    deadlines = Deadlines(60.0)
    loop = asyncio.get_running_loop()
    for _ in range(1_000):
        answer = loop.create_future()
        deadlines.watch(answer)
        answer.set_result(None)
    assert len(deadlines._waiting) <= 1
