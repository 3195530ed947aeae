"""Core's end of an edge's stream of calls (`runtime.rpc.frames`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from runtime import trace
from runtime.errors import Fault, Status
from runtime.operations import BY_NAME, Operation
from runtime.rpc.frames import GOODBYE, Answer, Call, Frame, Outbox, body, calls_of
from runtime.wire.schema import check

log = structlog.get_logger(__name__)

Run = Callable[[Operation, Any], Awaitable[Any]]
Receive = Callable[[], Awaitable[bytes | None]]
Send = Callable[[Frame], Awaitable[None]]


class Carrier:
    """One stream. Its calls run side by side, each in a task of its own, and are answered as they end."""

    def __init__(self, run: Run, started: Callable[[asyncio.Task[None]], None]) -> None:
        """run: what does an operation. started: told of each call's task, which goes on without its edge."""
        self._run = run
        self._started = started
        self._running: set[asyncio.Task[None]] = set()
        self._outbox = Outbox()

    async def carry(self, receive: Receive, send: Send) -> None:
        """Until the edge has ended the stream and has every answer. MsgspecError for a frame that is none."""
        writer = asyncio.create_task(self._outbox.send_all(send))
        try:
            while (frame := await receive()) is not None:
                for call in calls_of(frame):
                    task = asyncio.create_task(self._answer(call))
                    self._running.add(task)
                    task.add_done_callback(self._running.discard)
                    self._started(task)
            if self._running:
                await asyncio.wait(self._running)
            self._outbox.end()
            await writer
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def say_goodbye(self) -> None:
        """Asks the edge to end the stream: it then sends nothing that nobody would read."""
        self._outbox.put(GOODBYE, Answer(GOODBYE).row())

    async def _answer(self, call: Call) -> None:
        trace.current.set(trace.read(call.traceparent) or trace.new())
        trace.actor.set(call.actor)
        try:
            answer = Answer(call.number, await self._reply(call))
        except Fault as fault:
            answer = Answer.refusal(call.number, fault)
        self._outbox.put(call.number, answer.row())

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
