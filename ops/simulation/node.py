"""One Core process of the simulation: it boots on the simulated database, serves requests, stalls, dies and restarts.

Only the play path runs: no background jobs and no Valkey; published events are dropped.
"""

import asyncio
from contextlib import suppress
from contextvars import Context
from dataclasses import replace
from typing import Any, Final

import asyncpg

from ops.simulation.faults import Weather
from ops.simulation.loop import Incarnation, SimulatedLoop
from ops.simulation.postgres import Server, SimulatedDatabase
from runtime.actors.engine import Engine
from runtime.app.parts import CLOCK_SECONDS
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.settings import Key, Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from runtime.wire import codec

BUSY_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 1800.0
"""Interval of clock readings after BUSY_SECONDS without requests: at the usual interval they would dominate a run."""

SETTINGS: Final = Settings(
    server_keys=(Key("1", b"the same key in every run of this"),),
    code_keys=(Key("1", b"another one, for what is sealed..."[:32]),),
    jwt_secret="0" * 64,
    jwt_staff_secret="1" * 64,
    development=True,
    database_pool_size=4,
)


CONTEXT: Final = Context()
"""Context for what no process does: cutting the connections of a dead one."""


class NoValkey(Ephemeral):
    """An ephemeral store that is always unavailable: the play path must not need it."""

    def post(self, *command: Any) -> None:
        """Drops the command."""


class ProcessDown(Exception):
    """The process was down, or died before it responded. sent: the request may have begun."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the process is gone")
        self.sent = sent


class Node:
    """A host with at most one Core process."""

    def __init__(self, loop: SimulatedLoop, server: Server, weather: Weather, number: int) -> None:
        self.host = f"core-{number}"
        self.loop = loop
        self.incarnation: Incarnation | None = None
        self.core: Core | None = None
        self._server = server
        self._weather = weather
        self._lives = 0
        self._wall_seconds = 0.0
        self._database: SimulatedDatabase | None = None
        self._woken = asyncio.Event()
        self.woken_at = 0.0
        self._pending: dict[asyncio.Future[Any], None] = {}

    @property
    def up(self) -> bool:
        return self.core is not None

    def boot(self) -> asyncio.Task[None]:
        """Starts a process; the task ends when it is ready."""
        assert self.incarnation is None
        incarnation = self.incarnation = Incarnation(self.host, self._lives)
        incarnation.wall_seconds = self._wall_seconds
        self._lives += 1
        return self.loop.spawn(incarnation, self._boot(incarnation))

    async def _boot(self, incarnation: Incarnation) -> None:
        settings = replace(SETTINGS)
        database = self._database = SimulatedDatabase(
            self._server,
            self._weather.link(incarnation),
            size=settings.database_pool_size,
            acquire_seconds=settings.database_acquire_timeout_seconds,
            statement_seconds=settings.database_statement_timeout_seconds,
        )
        while True:
            try:
                await database.read_clock()
                break
            except (Fault, asyncpg.PostgresError, OSError):
                await asyncio.sleep(0.2)  # A supervisor would restart it.
        ephemeral = NoValkey("")
        publisher = Publisher(ephemeral, shards=settings.stream_shards, length_max=settings.stream_maxlen)
        self.core = Core(Engine(settings, database, ephemeral, publisher))
        self.loop.create_task(self._read_clock(database))

    async def _read_clock(self, database: SimulatedDatabase) -> None:
        while True:
            if self.loop.now - self.woken_at < BUSY_SECONDS:
                await asyncio.sleep(CLOCK_SECONDS)
            else:
                self._woken.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._woken.wait()
            try:
                await database.read_clock()
            except (Fault, asyncpg.PostgresError, OSError):
                continue

    def wake(self) -> None:
        """Resumes the usual interval of background work, because a request is coming."""
        self.woken_at = self.loop.now
        self._woken.set()

    def crash_process(self) -> None:
        """Kills the process; pending requests fail as if their connection was cut."""
        incarnation = self.incarnation
        if incarnation is None:
            return
        self.loop.kill(incarnation)
        if self._database is not None:
            CONTEXT.run(self._database.crash)
        self.incarnation = self.core = self._database = None
        pending, self._pending = self._pending, {}
        for answer in pending:
            if not answer.done():
                answer.set_exception(ProcessDown(sent=True))
                answer.exception()

    def step_clock(self, seconds: float) -> None:
        """Steps the host's wall clock, for later processes too."""
        self._wall_seconds += seconds
        if self.incarnation is not None:
            self.incarnation.wall_seconds += seconds

    def ask(self, operation: str, body: bytes) -> tuple[asyncio.Future[Any], asyncio.Task[Any]]:
        """Sends a request to the process: the future of its response, and the task. Raises ProcessDown."""
        if self.core is None or self.incarnation is None:
            raise ProcessDown(sent=False)
        row = BY_NAME[operation]
        request = codec.decode(row.request, body)
        task = self.loop.spawn(self.incarnation, self.core.call(row, request))
        answer: asyncio.Future[Any] = self.loop.create_future()
        self._pending[answer] = None

        def relay(task: asyncio.Task[Any]) -> None:
            self._pending.pop(answer, None)
            if answer.done():
                if not task.cancelled():
                    task.exception()  # retrieved: nobody awaits it any more
            elif task.cancelled():
                answer.set_exception(ProcessDown(sent=True))
                answer.exception()
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
                answer.exception()  # retrieved: the caller may have left
            else:
                answer.set_result(task.result())

        task.add_done_callback(relay)
        return answer, task
