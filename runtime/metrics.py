"""Metrics that more than one part of a process counts, and those of its stores."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, Protocol

from prometheus_client import REGISTRY, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

OUTCOMES: Final = ("delivered", "awaiting", "retry", "dead")
"""How an attempt to deliver ends (spec.md, "Fulfillment task")."""

# Its name on the wire is fulfillment_tasks_total: the client adds the suffix.
FULFILLMENT_TASKS: Final = Counter("fulfillment_tasks", "Attempts to deliver a task, by their outcome.", ["outcome"])
for _outcome in OUTCOMES:
    FULFILLMENT_TASKS.labels(_outcome)  # A series that appears only with its first event cannot be alerted on.

# About one an object. The interpreter knows the number (0.4 ms at 2 million); counting objects walks them all (130 ms).
BLOCKS: Final = Gauge("tombola_python_blocks", "Blocks of memory that objects have: rises as long as something leaks.")
BLOCKS.set_function(sys.getallocatedblocks)


class HasRoundTrips(Protocol):
    """The durable store."""

    round_trips: int


class Store(Protocol):
    """The ephemeral store."""

    @property
    def up(self) -> bool: ...
    @property
    def round_trips(self) -> int: ...
    @property
    def commands(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def trips(self) -> int: ...


class Stores(Collector):
    """What the process asked of its stores, read when /metrics is."""

    def __init__(self, database: HasRoundTrips | None, ephemeral: Store) -> None:
        self._database = database
        self._ephemeral = ephemeral

    def register(self) -> None:
        """Shows these counters from now on."""
        REGISTRY.register(self)

    def unregister(self) -> None:
        """Shows them no more: the stores are closed."""
        REGISTRY.unregister(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        if self._database is not None:
            yield _count("tombola_database_round_trips", "Statements sent to the database.", self._database.round_trips)
        store = self._ephemeral
        yield _count("tombola_ephemeral_round_trips", "Pipelines sent to the ephemeral store.", store.round_trips)
        yield _count("tombola_ephemeral_commands", "Commands sent to the ephemeral store.", store.commands)
        yield _count("tombola_ephemeral_lost", "Posted commands that failed or whose fate is unknown.", store.lost)
        yield _count("tombola_ephemeral_trips", "Times that the ephemeral store was given up for a while.", store.trips)
        yield GaugeMetricFamily("tombola_ephemeral_up", "Whether the ephemeral store is asked now.", float(store.up))


def _count(name: str, help_text: str, value: int) -> Metric:
    return CounterMetricFamily(name, help_text, value)
