"""Core's end of an edge's connection (`runtime.rpc.connection`): executes the calls on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from runtime import trace
from runtime.actors.idempotency import replayed
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc import MESSAGE_BYTES_MAX
from runtime.rpc.connection import FrameProtocol
from runtime.rpc.frames import ANSWER_BYTES_MAX, GOODBYE, Answer, Call, body, calls_of, too_large
from runtime.service_token import check_service_token
from runtime.wire.schema import check

RUNNING_MAX: Final = 4_096
"""The maximum of concurrent calls of one edge. Beyond it the connection is not read until half are answered."""

RUNNING_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum size of all concurrent requests of one edge, with the same back-pressure."""

HELLO_SECONDS: Final = 10.0
"""The time limit for authenticating."""

TOKEN_BYTES_MAX: Final = 512
"""The maximum of an edge's first frame, unless a token is longer: unauthenticated peers get little buffer space."""

log = structlog.get_logger(__name__)

Run = Callable[[Operation, Any], Awaitable[Any]]


class CallMultiplexer(FrameProtocol):
    """The calls of one edge. They run concurrently, each in its own task, and are answered as they complete."""

    def __init__(
        self,
        run: Run,
        started: Callable[[asyncio.Task[None]], None],
        tokens: Sequence[str] = (),
        admit: Callable[[], bool] = lambda: True,
    ) -> None:
        """run: executes an operation. started: called with each call's task, which continues if the edge disconnects.
        tokens: the accepted service tokens; empty: any is accepted. admit: called after authentication; false if there
        is no slot for the edge and its connection was aborted.
        """
        super().__init__()
        self._tokens = tokens
        self.frame_bytes_max = max(TOKEN_BYTES_MAX, *(len(token.encode()) for token in tokens), 0)
        self._admitted = False
        self.closed = asyncio.get_running_loop().create_future()
        self._run = run
        self._started = started
        self._admit = admit
        self._running: dict[asyncio.Task[None], int] = {}
        self._running_bytes = 0
        self._full = False  # of calls
        self._unread = False  # by the edge
        self._ended = False

    def say_goodbye(self) -> None:
        """Asks the edge to end the connection, so that it sends no more calls."""
        self.queue.put(GOODBYE, Answer(GOODBYE).row())

    # -- callbacks of the connection ---------------------------------------------------------

    def frame_received(self, frame: bytes) -> None:
        if not self._admitted:
            check_service_token(self._tokens, frame.decode(errors="surrogateescape"))
            self._admitted = self._admit()
            self.frame_bytes_max = MESSAGE_BYTES_MAX
            return
        for call in calls_of(frame):
            task = asyncio.create_task(self._answer(call))
            size = self._running[task] = len(memoryview(call.request))
            self._running_bytes += size
            task.add_done_callback(self._answered)
            self._started(task)
        if len(self._running) > RUNNING_MAX or self._running_bytes > RUNNING_BYTES_MAX:
            self._full = True
            self._update_reading()

    def refused(self, fault: Fault) -> None:
        self.queue.put(GOODBYE, Answer.refusal(GOODBYE, fault).row())

    def eof_received(self) -> bool:
        """The edge sends no more calls, but still gets every answer."""
        self._ended = True
        if not self._running:
            self.close()
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._hello_timer = asyncio.get_running_loop().call_later(HELLO_SECONDS, self._give_up_hello)

    def _give_up_hello(self) -> None:
        if not self._admitted and self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = True  # An edge that does not read its answers would fill this process's memory.
        self._update_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = False
        self._update_reading()

    def _update_reading(self) -> None:
        """Pauses or resumes reading, depending on the load."""
        if self._transport is None or self._transport.is_closing():
            return
        if self._full or self._unread:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._hello_timer.cancel()
        self.closed.set_result(None)

    # -- the calls ---------------------------------------------------------------------------

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._running_bytes -= self._running.pop(task)
        if self._full and len(self._running) <= RUNNING_MAX // 2 and self._running_bytes <= RUNNING_BYTES_MAX // 2:
            self._full = False
            self._update_reading()
        if self._ended and not self._running:
            self.close()

    async def _answer(self, call: Call) -> None:
        trace.begin(call.traceparent)
        trace.actor.set(call.actor)
        try:
            row = await self._row(call)
        except Exception as error:
            # Otherwise the error would be lost in the task, and the edge would wait until its deadline.
            log.error("call_failed", operation=call.operation, exc_info=error)
            row = Answer.refusal(call.number, _internal()).row()
        self.queue.put(call.number, row)

    async def _row(self, call: Call) -> bytes:
        try:
            reply = await self._reply(call)
            row = Answer(call.number, reply, replayed=replayed.get()).row()
            if len(row) > ANSWER_BYTES_MAX:
                raise too_large(ANSWER_BYTES_MAX)
        except Fault as fault:
            row = Answer.refusal(call.number, fault).row()
        return row

    async def _reply(self, call: Call) -> Any:
        operation = BY_NAME.get(call.operation)
        if operation is None:
            raise Fault(Status.UNIMPLEMENTED, "UNIMPLEMENTED", f"unknown operation {call.operation!r}")
        request = call.message(operation)
        check(request)
        reply = await self._run(operation, request)
        try:
            return body(reply)
        except Fault as fault:
            log.error("reply_not_encoded", operation=operation.name, why=fault.message)
            raise _internal() from None


def _internal() -> Fault:
    return Fault(Status.INTERNAL, "INTERNAL", "an internal error; it has been logged")
