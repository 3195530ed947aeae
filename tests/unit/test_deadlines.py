"""Answers that do not come are given up in time, and those that come are left alone."""

from __future__ import annotations

import asyncio
from typing import Any, cast

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


async def test_each_answer_has_its_whole_time() -> None:
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


class Watch:
    """A loop's clock: what it says, and when who is to be called."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[float] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, *_: Any) -> None:
        self.calls.append(when)


async def test_timer_is_that_of_the_first_answer_that_still_waits() -> None:
    deadlines = Deadlines(10)
    watch = Watch()
    deadlines._loop = loop = cast(asyncio.AbstractEventLoop, watch)
    answers = [asyncio.get_running_loop().create_future() for _ in range(4)]
    for nth, answer in enumerate(answers):
        watch.now = float(nth)
        deadlines.watch(answer)
    assert watch.calls == [10.0]
    answers[1].set_result(None)
    watch.now = 10.0
    deadlines._tick(loop)
    assert [answer.done() for answer in answers] == [True, True, False, False]
    watch.now = 12.0
    deadlines._tick(loop)
    watch.now = 13.0
    deadlines._tick(loop)
    assert watch.calls == [10.0, 12.0, 13.0] and all(answer.done() for answer in answers)
    assert [answer.exception() is not None for answer in answers] == [True, False, True, True]
    deadlines.watch(asyncio.get_running_loop().create_future())
    assert watch.calls[-1] == 23.0
