"""Answers that do not come are given up in time, and those that come are left alone."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from runtime.actors.deadlines import Deadlines
from tests.support.waiting import HANG_SECONDS


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    given_up: list[asyncio.Future[str]] = []

    def give_up(answer: asyncio.Future[str]) -> None:
        given_up.append(answer)
        answer.set_result("given up")

    deadlines = Deadlines(0.1, give_up)
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in range(5)]
    for answer in answers:
        deadlines.watch(answer)
    answers[0].set_result("here")
    answers[3].set_result("here")
    assert await asyncio.gather(*answers) == ["here", "given up", "given up", "here", "given up"]
    assert given_up == [answers[1], answers[2], answers[4]]


async def test_each_has_its_whole_time() -> None:
    loop = asyncio.get_running_loop()
    ended: list[float] = []

    def give_up(answer: asyncio.Future[None]) -> None:
        ended.append(loop.time())
        answer.set_result(None)

    deadlines, began = Deadlines(0.03, give_up), []
    for _ in range(4):
        began.append(loop.time())
        deadlines.watch(last := loop.create_future())
        await asyncio.sleep(0.01)  # sleeps: so that each begins later than the one before
    await last
    assert all(end >= begin + 0.03 for begin, end in zip(began, ended, strict=True))


async def test_after_a_pause_it_goes_on() -> None:
    given_up: list[asyncio.Future[None]] = []

    def give_up(answer: asyncio.Future[None]) -> None:
        given_up.append(answer)
        answer.set_result(None)

    deadlines = Deadlines(0.01, give_up)
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in range(3)]
    for answer in answers:
        deadlines.watch(answer)
        async with asyncio.timeout(HANG_SECONDS):
            await answer
        await asyncio.sleep(0.02)  # sleeps: the pause after which it goes on
    assert given_up == answers


async def test_answers_that_came_are_not_held() -> None:
    deadlines = Deadlines(60.0, lambda answer: None)
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


async def test_the_timer_is_the_first_s_that_still_waits() -> None:
    deadlines = Deadlines(10, lambda answer: answer.set_result(None))
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
    deadlines.watch(asyncio.get_running_loop().create_future())
    assert watch.calls[-1] == 23.0
