"""The two stores of a run, one of each for all its processes, and what the world does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, Final

from ops.simulation.faults import Weather
from ops.simulation.loop import Incarnation, SimulatedLoop
from ops.simulation.machine import EPOCH
from ops.simulation.node import Work
from ops.simulation.postgres.client import ModelDatabase
from ops.simulation.postgres.server import ModelServer
from ops.simulation.postgres.vocabulary import Statement
from ops.simulation.valkey import ModelEphemeral, ModelValkey
from runtime.actors.engine import Engine
from runtime.settings import Settings

PACES: Final = (0.000_3, 0.001, 0.004)
"""Seconds that a way to a store and back takes, about: of a run one of these."""


class Stores:
    """Postgres and Valkey of one run."""

    def __init__(self, loop: SimulatedLoop, seed: str, settings: Settings) -> None:
        dice = Random(f"{seed}/stores")
        self.weather = Weather(loop, seed, dice.choice(PACES))
        self.jobs: list[Callable[[Engine], list[tuple[Work, float]]]] = []
        """What each process does beside its requests."""
        self.server = ModelServer(clock=self.microseconds, random=Random(f"{seed}/postgres"))
        self.valkey = ModelValkey()
        self._loop = loop
        self._settings = settings
        self._ahead_seconds = 0.0
        self._set_back: list[tuple[int, int]] = []
        self._ways = Random(f"{seed}/ways")
        self._context = copy_context()

    def microseconds(self) -> int:
        """The database's clock."""
        return int(self.database_now() * 1_000_000)

    def database_now(self) -> float:
        """The same in seconds."""
        return EPOCH + self._loop.now + self._ahead_seconds

    def virtual(self, microseconds: int) -> float:
        """When the database's clock says so, in virtual seconds, if nothing steps it."""
        return microseconds / 1_000_000 - EPOCH - self._ahead_seconds

    def step_clock(self, seconds: float) -> None:
        before = self.microseconds()
        self._ahead_seconds += seconds
        if seconds < 0:
            self._set_back.append((self.microseconds(), before))

    def was_set_back_over(self, microseconds: int) -> bool:
        """Whether the database's clock said so twice: what goes by it may think that it is past."""
        return any(low <= microseconds <= high for low, high in self._set_back)

    def way(self) -> float:
        """Seconds from whoever asks to a Core, or back."""
        return self.weather.pace * (0.1 + self._ways.random())

    # -- a process's -----------------------------------------------------------------------------

    def database(self, incarnation: Incarnation) -> ModelDatabase:
        settings = self._settings
        return ModelDatabase(
            self.server,
            size=settings.database_pool_size,
            acquire_seconds=settings.database_acquire_timeout_seconds,
            statement_seconds=settings.database_statement_timeout_seconds,
            network=self.weather.network(incarnation, "database"),
        )

    def ephemeral(self, incarnation: Incarnation) -> ModelEphemeral:
        return ModelEphemeral(self.valkey, network=self.weather.network(incarnation, "valkey"))

    def died(self, incarnation: Incarnation, database: ModelDatabase) -> None:
        """Its connections are cut, by the machine that it ran on."""
        self._context.run(database.crash)

    # -- the world's -----------------------------------------------------------------------------

    def flush(self) -> None:
        self.valkey.flush()

    def away(self, store: str, seconds: float) -> None:
        """A store ends, and is back after so long: Postgres with all that was committed, Valkey with nothing."""
        server = self.server if store == "database" else self.valkey
        if server.up:
            server.stop()
            self._loop.call_later(seconds, server.start)

    def keep(self, store: str) -> Callable[[], None]:
        """Remembers what a store holds now."""
        return self.server.keep() if store == "database" else self.valkey.replica()

    def set_back(self, store: str, restore: Callable[[], None], seconds: float) -> None:
        """A store ends, and is back after so long with what it held when that was kept."""
        server = self.server if store == "database" else self.valkey
        server.stop()
        restore()
        self._loop.call_later(
            seconds, self.server.start if store == "database" else partial(self.valkey.start, empty=False)
        )

    def make_tenant(self, tenant_id: str) -> None:
        """The tenant is there before anything else."""
        store = self.server.store
        tx = store.begin()
        statement = Statement(store, tx, _at_once)
        work = statement.insert("tenants", tenant_id=tenant_id, name="Simulation")
        try:
            work.send(None)
        except StopIteration:
            pass
        statement.end()
        store.commit(tx)

    def rows(self, table: str) -> Iterable[Any]:
        """The committed rows, as named tuples; times in microseconds, JSON as its bytes."""
        found = self.server.store.tables[table]
        for slot in found.slots:
            for version in reversed(slot.versions):
                if version.commit is not None:
                    if version.row is not None:
                        yield version.row
                    break

    def busy(self) -> bool:
        return bool(self.server.store.running)

    def busy_with(self) -> str:
        return ", ".join(self.server.busy) or "a process does not start"


async def _at_once(what: str) -> None:
    """Nothing comes in between."""
