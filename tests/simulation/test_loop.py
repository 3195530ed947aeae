"""The virtual loop: time jumps, a seed chooses among what is ready, and what dies takes no further step."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ops.simulation.loop import Incarnation, SimulatedLoop, Stuck
from ops.simulation.machine import EPOCH, pretended, unraised
from runtime import ids


def on_loop(work: Callable[[SimulatedLoop], Awaitable[Any]], seed: str = "1", shuffled: bool = True) -> Any:
    """What the work gives, on a loop of that seed."""
    loop = SimulatedLoop(seed, shuffled=shuffled)
    with unraised(), pretended(loop, seed):
        try:
            return loop.run_until_complete(work(loop))
        finally:
            loop.abandon()
            loop.close()


def test_loop_passes_a_year_at_once() -> None:
    async def work(loop: SimulatedLoop) -> float:
        await asyncio.sleep(365 * 86400)  # sleeps: on a virtual clock
        return time.time()

    began = time.perf_counter()
    assert on_loop(work) == pytest.approx(EPOCH + 365 * 86400, abs=1)
    assert time.perf_counter() - began < 5


async def _order(loop: SimulatedLoop) -> list[int]:
    seen: list[int] = []

    async def one(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(number)

    await asyncio.gather(*(one(number) for number in range(8)))
    return seen


def test_seed_gives_one_order_and_others_give_others() -> None:
    orders = {seed: on_loop(_order, seed) for seed in map(str, range(20))}
    assert orders == {seed: on_loop(_order, seed) for seed in orders}
    assert len({tuple(order) for order in orders.values()}) == len(orders)


def test_unshuffled_loop_is_first_come_first_served() -> None:
    assert on_loop(_order, shuffled=False) == [*range(8)] * 3


def test_callbacks_of_one_future_keep_their_order() -> None:
    async def work(loop: SimulatedLoop) -> list[int]:
        future, seen = loop.create_future(), list[int]()
        for number in range(10):
            future.add_done_callback(lambda _, number=number: seen.append(number))
        future.set_result(None)
        await asyncio.sleep(1)  # sleeps: on a virtual clock
        return seen

    for seed in map(str, range(20)):
        assert on_loop(work, seed) == [*range(10)]


def test_dead_process_takes_no_further_step_and_no_finally() -> None:
    async def work(loop: SimulatedLoop) -> tuple[list[str], list[str]]:
        seen: list[str] = []
        process = Incarnation("core-0")

        async def live() -> None:
            try:
                while True:
                    seen.append("lives")
                    await asyncio.sleep(1)  # sleeps: on a virtual clock
            finally:
                seen.append("tidies up")

        loop.spawn(process, live())
        await asyncio.sleep(2.5)  # sleeps: on a virtual clock
        loop.kill(process)
        before = list(seen)
        await asyncio.sleep(10)  # sleeps: on a virtual clock
        return before, list(seen)

    before, after = on_loop(work)
    assert before == after == ["lives"] * 3


def test_still_process_goes_on_later_with_all_that_was_ready() -> None:
    async def work(loop: SimulatedLoop) -> list[float]:
        seen: list[float] = []
        process = Incarnation("core-0")

        async def live() -> None:
            for _ in range(4):
                await asyncio.sleep(1)  # sleeps: on a virtual clock
                seen.append(round(loop.now))

        loop.spawn(process, live())
        await asyncio.sleep(1.5)  # sleeps: on a virtual clock
        loop.stand_still(process, 10)
        await asyncio.sleep(30)  # sleeps: on a virtual clock
        return seen

    assert on_loop(work) == [1, 12, 13, 14]


def test_time_and_chance_follow_from_the_seed() -> None:
    async def work(loop: SimulatedLoop) -> Any:
        await asyncio.sleep(random.random())  # sleeps: on a virtual clock
        return (
            time.time(),
            time.monotonic(),
            os.urandom(4),
            secrets.token_hex(4),
            random.random(),
            ids.make("x"),
            ids.ulid_at(5),
        )

    assert on_loop(work, "7") == on_loop(work, "7") != on_loop(work, "8")


def test_process_makes_its_own_identifiers_by_its_own_clock() -> None:
    async def work(loop: SimulatedLoop) -> list[str]:
        first, second = Incarnation("core-0"), Incarnation("core-1")
        second.wall_seconds = -3600.0

        async def make() -> str:
            return ids.make("x")

        return [await loop.spawn(process, make()) for process in (first, second, first)]

    ahead, behind, again = on_loop(work)
    assert behind < ahead < again


def test_loop_with_nothing_left_raises_stuck() -> None:
    async def work(loop: SimulatedLoop) -> None:
        await loop.create_future()

    with pytest.raises(Stuck):
        on_loop(work)
