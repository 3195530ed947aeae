"""One Core process of the simulation: it boots on the simulated database, is asked, stands still, dies, comes again.

Only what plays runs: none of the background jobs is started, and there is no Valkey; what is published is dropped.
"""

from __future__ import annotations

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
from runtime.app import CLOCK_SECONDS
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.settings import Key, Settings
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from runtime.wire import codec

BUSY_SECONDS: Final = 60.0
IDLE_SECONDS: Final = 1800.0
"""How often the clock is read when nobody has asked anything for BUSY_SECONDS: else that would be most of a run."""

SETTINGS: Final = Settings(
    server_keys=(Key("1", b"the same key in every run of this"),),
    code_keys=(Key("1", b"another one, for what is sealed..."[:32]),),
    jwt_secret="0" * 64,
    jwt_staff_secret="1" * 64,
    development=True,
    database_pool_size=4,
)


CONTEXT: Final = Context()
"""In which the machine does what no process does: it cuts the connections of one that died."""


class NoValkey(Ephemeral):
    """The ephemeral store, away for ever: the play path must not need it."""

    def post(self, *command: Any) -> None:
        """Drops it."""


class Gone(Exception):
    """The process was not there, or went before it answered. sent: it may have begun."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the process is gone")
        self.sent = sent


class Node:
    """A host with one Core at a time."""

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
        self._stirred = asyncio.Event()
        self.stirred_at = 0.0
        self._asked: dict[asyncio.Future[Any], None] = {}

    @property
    def up(self) -> bool:
        return self.core is not None

    def boot(self) -> asyncio.Task[None]:
        """Starts a process; the task ends when it answers."""
        assert self.incarnation is None
        incarnation = self.incarnation = Incarnation(self.host, self._lives)
        incarnation.wall_seconds = self._wall_seconds
        self._lives += 1
        return self.loop.spawn(incarnation, self._boot(incarnation))

    async def _boot(self, incarnation: Incarnation) -> None:
        settings = replace(SETTINGS)
        database = self._database = SimulatedDatabase(
            self._server,
            self._weather.way(incarnation),
            size=settings.database_pool_size,
            acquire_seconds=settings.database_acquire_timeout_seconds,
            statement_seconds=settings.database_statement_timeout_seconds,
        )
        while True:
            try:
                await database.start()
                break
            except (Fault, asyncpg.PostgresError, OSError):
                await asyncio.sleep(0.2)  # A supervisor starts it again.
        ephemeral = NoValkey("")
        publisher = Publisher(ephemeral, shards=settings.stream_shards, length_max=settings.stream_maxlen)
        self.core = Core(Engine(settings, database, ephemeral, publisher))
        self.loop.create_task(self._read_clock(database))

    async def _read_clock(self, database: SimulatedDatabase) -> None:
        while True:
            if self.loop.now - self.stirred_at < BUSY_SECONDS:
                await asyncio.sleep(CLOCK_SECONDS)
            else:
                self._stirred.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self._stirred.wait()
            try:
                await database.read_clock()
            except (Fault, asyncpg.PostgresError, OSError):
                continue

    def stir(self) -> None:
        """Somebody asks something: what is done beside requests is done as often as ever."""
        self.stirred_at = self.loop.now
        self._stirred.set()

    def die(self) -> None:
        """No step of the process is taken any more; who asked it hears that the connection is cut."""
        incarnation = self.incarnation
        if incarnation is None:
            return
        self.loop.kill(incarnation)
        if self._database is not None:
            CONTEXT.run(self._database.crash)
        self.incarnation = self.core = self._database = None
        asked, self._asked = self._asked, {}
        for answer in asked:
            if not answer.done():
                answer.set_exception(Gone(sent=True))
                answer.exception()

    def step_clock(self, seconds: float) -> None:
        """The host's wall clock is set: processes that start later see it so too."""
        self._wall_seconds += seconds
        if self.incarnation is not None:
            self.incarnation.wall_seconds += seconds

    def ask(self, operation: str, body: bytes) -> tuple[asyncio.Future[Any], asyncio.Task[Any]]:
        """Puts a request to the process: what will be its answer, and the task that works on it. Gone."""
        if self.core is None or self.incarnation is None:
            raise Gone(sent=False)
        row = BY_NAME[operation]
        request = codec.decode(row.request, body)
        task = self.loop.spawn(self.incarnation, self.core.call(row, request))
        answer: asyncio.Future[Any] = self.loop.create_future()
        self._asked[answer] = None

        def relay(task: asyncio.Task[Any]) -> None:
            self._asked.pop(answer, None)
            if answer.done():
                if not task.cancelled():
                    task.exception()  # seen: nobody waits for it any more
            elif task.cancelled():
                answer.set_exception(Gone(sent=True))
                answer.exception()
            elif (error := task.exception()) is not None:
                answer.set_exception(error)
                answer.exception()  # seen: whoever asked may have gone
            else:
                answer.set_result(task.result())

        task.add_done_callback(relay)
        return answer, task
