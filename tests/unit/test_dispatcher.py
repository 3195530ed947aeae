"""One attempt at one integration, in the place that its receiver has for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime import trace
from runtime.actors.dispatcher import CROWDED, FAILS, WAITED, Dispatcher
from runtime.outgoing.bulkhead import Entry

ROW = {"integration_id": "integration_1"}


class Receiver:
    """Its breaker and its bulkhead, and what is asked of the dispatcher behind them."""

    def __init__(self, *, entry: Entry = Entry.ENTERED, is_open: bool = False, admits: bool = True) -> None:
        self.told: list[Any] = []
        self.breaker = SimpleNamespace(is_open=lambda now: is_open, admits=lambda now: admits)
        self.bulkhead = SimpleNamespace(enter=self._enter, leave=lambda: self.told.append("left"))
        self._entry = entry
        self.failure: Exception | None = None

    async def _enter(self) -> Entry:
        self.told.append("entered")
        return self._entry

    async def tell(self) -> bool:
        itself: Any = SimpleNamespace(_isolation=lambda *_: self, _attempt=self._attempt, _skipped=self._skipped)
        event: Any = SimpleNamespace(tenant_id="t", trace_id="of the event")
        return await Dispatcher._tell(cast(Dispatcher, itself), ROW, event, 0)

    async def _attempt(self, *_: Any) -> None:
        self.told.append(trace.current.get())
        if self.failure is not None:
            raise self.failure

    def _skipped(self, row: Any, event: Any, attempts: int, why: str) -> bool:
        self.told.append(why)
        return False


async def test_an_attempt_is_in_the_trace_of_its_event_and_leaves_its_place() -> None:
    receiver = Receiver()
    assert await receiver.tell()
    assert receiver.told == ["entered", "of the event", "left"]
    receiver = Receiver()
    receiver.failure = ValueError()
    with pytest.raises(ValueError):
        await receiver.tell()
    assert receiver.told == ["entered", "of the event", "left"]


@pytest.mark.parametrize(
    ("receiver", "told"),
    [
        (Receiver(is_open=True), [FAILS]),
        (Receiver(entry=Entry.QUEUE_FULL), ["entered", CROWDED]),
        (Receiver(entry=Entry.TOO_LATE), ["entered", WAITED]),
        (Receiver(admits=False), ["entered", FAILS, "left"]),
    ],
    ids=["it fails", "crowded", "waited", "it fails by then"],
)
async def test_who_is_not_told_says_why_and_keeps_no_place(receiver: Receiver, told: list[str]) -> None:
    assert not await receiver.tell()
    assert receiver.told == told
