"""Core's end of an edge's connection (`runtime.rpc.connection`): does the calls that come over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc import MESSAGE_BYTES_MAX
from runtime.rpc.connection import FrameProtocol
from runtime.rpc.frames import GOODBYE, Answer, Call, body, calls_of
from runtime.service_token import check_shown
from runtime.wire.schema import check

log = structlog.get_logger(__name__)

Run = Callable[[Operation, Any], Awaitable[Any]]


class CallMultiplexer(FrameProtocol):
    """The calls of one edge: they run side by side, each in a task of its own, and are answered as they end."""

    frame_bytes_max = MESSAGE_BYTES_MAX

    def __init__(self, run: Run, started: Callable[[asyncio.Task[None]], None], tokens: Sequence[str] = ()) -> None:
        """run: what does an operation. started: told of each call's task, which goes on without its edge.
        tokens: the edge must show one of these first; none: it may show anything.
        """
        super().__init__()
        self._tokens = tokens
        self._admitted = False
        self.closed = asyncio.get_running_loop().create_future()
        self._run = run
        self._started = started
        self._running: set[asyncio.Task[None]] = set()
        self._ended = False

    def say_goodbye(self) -> None:
        """Asks the edge to end the connection: it then sends nothing that nobody would read."""
        self.queue.put(GOODBYE, Answer(GOODBYE).row())

    # -- what the connection calls -----------------------------------------------------------

    def frame_received(self, frame: bytes) -> None:
        if not self._admitted:
            check_shown(self._tokens, frame.decode(errors="surrogateescape"))
            self._admitted = True
            return
        for call in calls_of(frame):
            task = asyncio.create_task(self._answer(call))
            self._running.add(task)
            task.add_done_callback(self._answered)
            self._started(task)

    def refused(self, fault: Fault) -> None:
        self.queue.put(GOODBYE, Answer.refusal(GOODBYE, fault).row())

    def eof_received(self) -> bool:
        """The edge has no more calls: it still gets every answer."""
        self._ended = True
        if not self._running:
            self.close()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        assert self._transport is not None
        self._transport.pause_reading()  # An edge that does not read its answers would fill this process's memory.

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.closed.set_result(None)

    # -- the calls ---------------------------------------------------------------------------

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._ended and not self._running:
            self.close()

    async def _answer(self, call: Call) -> None:
        trace.current.set(trace.read(call.traceparent) or trace.new())
        trace.actor.set(call.actor)
        try:
            answer = Answer(call.number, await self._reply(call))
        except Fault as fault:
            answer = Answer.refusal(call.number, fault)
        self.queue.put(call.number, answer.row())

    async def _reply(self, call: Call) -> Any:
        operation = BY_NAME.get(call.operation)
        if operation is None:
            raise Fault(Status.UNIMPLEMENTED, "UNIMPLEMENTED", f"there is no operation {call.operation!r}")
        request = call.message(operation)
        check(request)
        reply = await self._run(operation, request)
        try:
            return body(reply)
        except Fault as fault:
            log.error("reply_not_encoded", operation=operation.name, why=fault.message)
            raise Fault(Status.INTERNAL, "INTERNAL", "something went wrong here; it has been logged") from None
