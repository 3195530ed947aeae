import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime import trace
from runtime.actors.mailbox import DEPTHS, Deadlines, Mailboxes, Work
from runtime.errors import Fault, Status
from runtime.stores.database import StoreUnavailable
from tests.support.waiting import HANG_SECONDS, until


class Gate:
    """A batch that waits until it is let through, and says what it took."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.batches: list[list[Any]] = []
        self.entered = asyncio.Event()
        self.most_at_once = self.now = 0

    async def process_batch(self, state: Any, works: list[Work[Any]]) -> None:
        self.batches.append([work.request for work in works])
        self.now += 1
        self.most_at_once = max(self.most_at_once, self.now)
        self.entered.set()
        await self.open.wait()
        self.now -= 1
        for work in works:
            work.answer(work.request)


class Boxes(Mailboxes[str, Any, Any]):
    """Actors that remember their key, and do what a test says."""

    def __init__(self, process: Any, *, overlap: int = 1, unneeded: Any = None, **own: Any) -> None:
        super().__init__(**{"limit": 100, "batch_limit": 100, "idle_seconds": 60, **own})
        self.process, self.unneeded = process, unneeded
        vars(self)["overlap"] = overlap

    def new_state(self, key: str) -> Any:
        return key

    async def process_batch(self, state: Any, works: list[Work[Any]]) -> None:
        await self.process(state, works)

    def is_unneeded(self, state: Any) -> bool:
        return self.unneeded is not None and self.unneeded(state)


async def test_requests_that_arrive_during_a_batch_are_done_together_in_the_next_ones_up_to_the_limit() -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch, batch_limit=4)
    first = boxes.post("a", 0)
    await gate.entered.wait()
    rest = [boxes.post("a", nth) for nth in range(1, 10)]
    gate.open.set()
    assert await asyncio.gather(first, *rest) == list(range(10))
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


async def test_request_given_up_while_it_waits_is_not_done_but_one_that_hung_up_is() -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch)
    first = boxes.post("a", "first")
    await gate.entered.wait()
    given_up, hung_up, waits = (boxes.post("a", name) for name in ("given up", "hung up", "waits"))
    given_up.set_exception(Fault(Status.UNAVAILABLE, "STORE_UNAVAILABLE", "too late"))
    hung_up.cancel()
    gate.open.set()
    assert await asyncio.gather(first, waits) == ["first", "waits"]
    assert gate.batches == [["first"], ["hung up", "waits"]]
    assert given_up.exception() is not None


@pytest.mark.parametrize("overlap", [1, 2])
async def test_batches_of_one_actor_overlap_as_far_as_they_may(overlap: int) -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch, batch_limit=1, overlap=overlap)
    requests = [boxes.post("a", nth) for nth in range(6)]
    for _ in range(30):  # All that may begin has begun.
        await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(*requests)
    assert gate.most_at_once == overlap


async def test_actors_of_other_keys_do_not_wait() -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch)
    slow = boxes.post("a", "slow")
    await gate.entered.wait()
    request = boxes.post("b", "other")
    await until(lambda: len(gate.batches) >= 2)
    gate.open.set()
    assert list(await asyncio.gather(slow, request)) == ["slow", "other"]


async def test_full_mailbox_refuses_at_once_and_the_others_are_served() -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch, limit=3)
    taken = boxes.post("a", 0)
    await gate.entered.wait()
    waiting = [boxes.post("a", nth) for nth in (1, 2, 3)]
    with pytest.raises(Fault) as refusal:
        boxes.post("a", 4)
    assert (refusal.value.reason, refusal.value.http, refusal.value.retry_after_seconds) == ("OVERLOADED", 503, 1)
    boxes.post("b", "another mailbox")
    gate.open.set()
    assert await asyncio.gather(taken, *waiting) == [0, 1, 2, 3]


async def test_error_of_a_batch_refuses_only_what_it_left_unanswered() -> None:
    async def process_batch(state: Any, works: list[Work[Any]]) -> None:
        works[0].answer("done")
        raise Fault(works[0].request, "WHY", "because")

    boxes = Boxes(process_batch)
    answers = await asyncio.gather(*(boxes.post("a", Status.ABORTED) for _ in range(3)), return_exceptions=True)
    assert answers[0] == "done"
    assert [getattr(answer, "reason", "") for answer in answers[1:]] == ["WHY", "WHY"]


async def test_request_that_a_batch_forgets_is_refused_and_one_that_it_moves_is_not() -> None:
    async def process_batch(state: Any, works: list[Work[Any]]) -> None:
        works[0].answer("done")
        for work in works[2:]:
            boxes.move("a", work)

    boxes = Boxes(process_batch)
    answers = await asyncio.gather(*(boxes.post("a", nth) for nth in range(3)), return_exceptions=True)
    assert answers[::2] == ["done", "done"] and isinstance(answers[1], AssertionError)


async def test_idle_actor_leaves_and_is_made_anew_with_nothing_remembered() -> None:
    states: list[list[Any]] = []

    async def process_batch(state: list[Any], works: list[Work[Any]]) -> None:
        for work in works:
            state.append(work.request)
            work.answer(len(state))

    class Remembering(Boxes):
        def new_state(self, key: str) -> Any:
            states.append([])
            return states[-1]

    boxes = Remembering(process_batch, idle_seconds=0.01)
    assert await boxes.post("a", 1) == 1
    assert len(boxes) == 1
    await until(lambda: not len(boxes))
    assert await boxes.post("a", 2) == 1
    assert len(states) == 2


async def test_request_between_the_last_check_and_the_leaving_is_not_lost() -> None:
    async def process_batch(state: Any, works: list[Work[Any]]) -> None:
        for work in works:
            work.answer(work.request)

    boxes = Boxes(process_batch, idle_seconds=0.0001)
    async with asyncio.timeout(HANG_SECONDS):
        for nth in range(500):
            assert await boxes.post("a", nth) == nth
            await asyncio.sleep(0.0001 * (nth % 3))  # sleeps: to come when an idle one is about to leave


async def test_drain_waits_for_what_was_taken_on() -> None:
    before = asyncio.all_tasks()
    gate = Gate()
    boxes = Boxes(gate.process_batch, batch_limit=1)
    requests = [boxes.post("a", nth) for nth in range(3)]
    await gate.entered.wait()
    drained = asyncio.ensure_future(boxes.drain())
    await asyncio.sleep(0)
    assert not drained.done()
    gate.open.set()
    async with asyncio.timeout(HANG_SECONDS):
        await drained
    assert [future.result() for future in requests] == [0, 1, 2]
    await asyncio.sleep(0)
    assert asyncio.all_tasks() <= before, "its actors are gone"
    async with asyncio.timeout(HANG_SECONDS):
        await boxes.drain()
        assert await boxes.post("a", 3) == 3, "a drained actor is replaced"
        await boxes.drain()


async def test_work_keeps_the_trace_of_its_own_request() -> None:
    seen: list[str] = []
    spans: list[str] = []
    gate = asyncio.Event()

    async def process_batch(state: Any, works: list[Work[Any]]) -> None:
        await gate.wait()
        seen.extend(work.trace_id for work in works)
        spans.append(trace.caller.get())
        for work in works:
            work.answer(None)

    boxes = Boxes(process_batch)

    async def ask(trace_id: str) -> None:
        trace.current.set(trace_id)
        trace.caller.set(f"span_of_{trace_id}")
        await boxes.post("a", None)

    requests = [asyncio.ensure_future(ask(f"trace_{nth}")) for nth in range(3)]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*requests)
    assert sorted(seen) == ["trace_0", "trace_1", "trace_2"]
    assert spans == ["span_of_trace_0"], "a batch continues the span of its first request"


@pytest.mark.parametrize("overlap", [1, 2])
async def test_actor_of_nothing_leaves_with_its_last_answer_and_loses_none(overlap: int) -> None:
    gate = Gate()
    never = 10 * HANG_SECONDS  # Else it would leave as any idle one does.
    boxes = Boxes(gate.process_batch, overlap=overlap, unneeded=lambda key: key == "nothing", idle_seconds=never)
    first = boxes.post("nothing", 0)
    await gate.entered.wait()
    rest = [boxes.post("nothing", nth) for nth in range(1, 4)]
    something = boxes.post("something", 4)
    gate.open.set()
    assert await asyncio.gather(first, *rest, something) == list(range(5))
    await until(lambda: len(boxes) == 1)
    assert await boxes.post("nothing", 5) == 5  # Alone, and waited for: its batch ends after the actor has looked.
    await until(lambda: len(boxes) == 1)


async def test_refusal_holds_no_frames_but_a_bug_says_where_it_was() -> None:
    loop = asyncio.get_running_loop()
    for error, keeps_frames in ((Fault(Status.NOT_FOUND, "GONE", "gone"), False), (KeyError("a bug"), True)):
        work: Work[int] = Work(1, loop.create_future())
        try:
            raise error
        except Exception as raised:  # noqa: BLE001
            work.refuse(raised)
        assert (error.__traceback__ is not None) == keeps_frames
        assert work.future.exception() is error


async def test_idle_actors_share_one_timer_and_each_has_its_whole_time() -> None:
    gate, timers = Gate(), set()
    gate.open.set()
    boxes = Boxes(gate.process_batch, idle_seconds=0.5)
    for key in ("a", "b", "a"):
        used_again = asyncio.get_running_loop().time()
        await boxes.post(key, key)
        await until(lambda key=key: not boxes._boxes[key].batches)
        timers.add(boxes._leaving)
    assert len(timers) == 1
    await until(lambda: not len(boxes))
    assert asyncio.get_running_loop().time() >= used_again + 0.49 and boxes._leaving is None


@pytest.mark.parametrize("unneeded", [False, True])
async def test_actor_that_rests_while_its_batch_ends_stays_unless_it_is_unneeded(unneeded: bool) -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch, overlap=2, idle_seconds=3600, unneeded=lambda _: unneeded)
    answer = boxes.post("a", 1)
    await gate.entered.wait()
    await asyncio.sleep(0)
    gate.open.set()
    await answer
    await until(lambda: all(not box.batches for box in boxes._boxes.values()) and (len(boxes) == 0) == unneeded)
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(boxes) == (not unneeded)
    await boxes.drain()


@pytest.mark.parametrize(("error", "logged"), [(Fault(Status.NOT_FOUND, "GONE", "gone"), 0), (KeyError("a bug"), 1)])
async def test_batchs_bug_is_logged_and_its_refusal_is_not(error: Exception, logged: int) -> None:
    async def process_batch(state: Any, works: list[Work[Any]]) -> None:
        raise error

    with capture_logs() as said:
        with pytest.raises(type(error)):
            await Boxes(process_batch).post("a", 1)
    assert [entry["event"] for entry in said] == ["batch_failed"] * logged


async def test_depth_in_metrics_is_what_waits_and_not_what_a_batch_has_taken() -> None:
    gate = Gate()
    boxes = Boxes(gate.process_batch)
    vars(boxes)["name"] = "measured"
    answers = [boxes.post("a", 0)]
    await gate.entered.wait()
    answers += [boxes.post("a", nth) for nth in range(3)] + [boxes.post("b", 0)]

    def measured() -> dict[str, float]:
        samples = [sample for family in DEPTHS.collect() for sample in family.samples]
        return {sample.name: sample.value for sample in samples if sample.labels["actors"] == "measured"}

    assert measured() == {"tombola_mailbox_waiting": 4, "tombola_mailbox_deepest": 3, "tombola_mailbox_limit": 100}
    gate.open.set()
    await asyncio.gather(*answers)
    assert measured() == {"tombola_mailbox_waiting": 0, "tombola_mailbox_deepest": 0, "tombola_mailbox_limit": 100}


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
    for _ in range(3):
        answer = asyncio.get_running_loop().create_future()
        deadlines.watch(answer)
        async with asyncio.timeout(HANG_SECONDS):
            with pytest.raises(StoreUnavailable):
                await answer
        await asyncio.sleep(0.02)  # sleeps: the pause after which it goes on


async def test_answers_that_came_are_not_held() -> None:
    deadlines = Deadlines(60.0)
    for _ in range(1_000):
        answer = asyncio.get_running_loop().create_future()
        deadlines.watch(answer)
        answer.set_result(None)
    assert len(deadlines._waiting) <= 1
