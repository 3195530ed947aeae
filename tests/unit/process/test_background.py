import asyncio

from runtime.background import FAILURES, Background, attempt
from runtime.errors import Fault, Status
from tests.support.waiting import HANG_SECONDS


def failures(job: str) -> float:
    return float(FAILURES.labels(job)._value.get())


async def test_job_that_fails_is_counted_and_tried_again() -> None:
    background, done, tries = Background(), asyncio.Event(), 0
    before = failures("shaky")

    async def work() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RuntimeError("a bug")
        if tries == 2:
            raise Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")
        done.set()

    await background.repeat("shaky", work, 0.001)
    async with asyncio.timeout(HANG_SECONDS):
        await done.wait()
    await background.close()
    assert failures("shaky") - before == 2


async def test_failure_of_one_that_runs_once_is_counted_and_ends_it() -> None:
    background = Background()
    before = failures("once")

    async def work() -> None:
        raise RuntimeError("a bug")

    await (await background.run("once", work)).wait()
    assert failures("once") - before == 1
    await background.close()


async def test_close_cancels_what_runs_and_waits_for_it() -> None:
    background, began, ended = Background(), asyncio.Event(), False

    async def work() -> None:
        nonlocal ended
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
            ended = True

    await background.run("endless", work)
    await background.repeat("never due", work, 1000)
    await began.wait()
    await background.close()
    assert ended


async def test_job_that_does_not_end_is_counted_and_left() -> None:
    background, began, let_go = Background(), asyncio.Event(), asyncio.Event()
    before = failures("deaf")

    async def work() -> None:
        began.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                pass  # a job that does not listen

    waiting = asyncio.ensure_future((await background.run("deaf", work)).wait())
    await began.wait()
    try:
        await background.close()
        assert failures("deaf") - before == 1
    finally:
        let_go.set()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_failure_of_one_attempt_is_counted_and_stops_no_other() -> None:
    before = failures("many")

    async def work(error: Exception | None) -> None:
        if error is not None:
            raise error

    away = Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "away")
    works = [work(error) for error in (None, ValueError("a bug"), away, None)]
    assert [await attempt("many", each, campaign_id="c") for each in works] == [True, False, False, True]
    assert failures("many") - before == 2
