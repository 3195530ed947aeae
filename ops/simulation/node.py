"""One Core process of the simulation: it boots on the stores' models, is asked, stands still, dies and comes again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

import asyncpg

from ops.simulation.loop import Incarnation, SimulatedLoop
from runtime.actors.engine import Engine
from runtime.app import CLOCK_SECONDS
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.operations.leaderboards import ending
from runtime.settings import Key, Settings
from runtime.stores import history
from runtime.stores.publisher import Publisher
from runtime.wire import codec

Work = Callable[[], Awaitable[Any]]

IDLE_SECONDS: Final = 1800.0
"""How often a process does what it does beside its requests while nobody asks anything: else, in a run of hours
between moments, that would be nearly all of the work.
"""

SETTINGS: Final = Settings(
    server_keys=(Key("1", b"the same key in every run of this"),),
    code_keys=(Key("1", b"another one, for what is sealed..."[:32]),),
    jwt_secret="0" * 64,
    jwt_staff_secret="1" * 64,
    development=True,
    database_pool_size=4,
)


class Gone(Exception):
    """The process was not there, or went before it answered. sent: it may have begun."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("the process is gone")
        self.sent = sent


class Stores(Protocol):
    """What gives a process its two stores, and is told that one died."""

    def database(self, incarnation: Incarnation) -> Any: ...

    def ephemeral(self, incarnation: Incarnation) -> Any: ...

    def died(self, incarnation: Incarnation, database: Any) -> None: ...


class Node:
    """A host with one Core at a time."""

    def __init__(self, loop: SimulatedLoop, stores: Stores, number: int, settings: Settings = SETTINGS) -> None:
        self.host = f"core-{number}"
        self.loop = loop
        self.incarnation: Incarnation | None = None
        self.core: Core | None = None
        self.jobs: list[Callable[[Engine], list[tuple[Work, float]]]] = []
        """What a process does beside its requests, and how often, in seconds."""
        self.busy: Callable[[], bool] = lambda: True
        self.stirred = asyncio.Event()
        """Somebody asks again."""
        self._stores = stores
        self._settings = replace(settings)
        self._lives = 0
        self._wall_seconds = 0.0
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
        database, ephemeral = self._stores.database(incarnation), self._stores.ephemeral(incarnation)
        while True:
            try:
                await database.start()
                await ephemeral.start()
                break
            except (Fault, asyncpg.PostgresError, OSError):
                await asyncio.sleep(0.2)  # Whoever starts processes starts it again.
        settings = self._settings
        publisher = Publisher(ephemeral, shards=settings.stream_shards, length_max=settings.stream_maxlen)
        engine = Engine(settings, database, ephemeral, publisher)
        jobs: list[tuple[Work, float]] = [
            (database.read_clock, CLOCK_SECONDS),
            (partial(history.follow, database, ephemeral), history.EVERY_SECONDS),
            (partial(ending.finalize_all, engine), ending.EVERY_SECONDS),
        ]
        for made in self.jobs:
            jobs += made(engine)
        for work, seconds in jobs:
            self.loop.create_task(self._repeat(work, seconds))
        self.core = Core(engine)

    async def _repeat(self, work: Work, seconds: float) -> None:
        """As runtime/background.py does it; a store that is away is waited for."""
        while True:
            if self.busy():
                await asyncio.sleep(seconds)
            else:
                self.stirred.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS):
                        await self.stirred.wait()
            try:
                await work()
            except (Fault, asyncpg.PostgresError, OSError):
                continue

    def die(self) -> None:
        """No step of the process is taken any more; who asked it hears that the connection is cut."""
        incarnation = self.incarnation
        if incarnation is None:
            return
        self.loop.kill(incarnation)
        if self.core is not None:
            self._stores.died(incarnation, self.core.engine.database)
        self.incarnation = self.core = None
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
