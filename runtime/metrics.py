"""Metrics shared by several parts of a process, and those of its stores."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, Protocol

from prometheus_client import REGISTRY, Counter, Gauge, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

# One more series per counter, which no alert or panel uses.
disable_created_metrics()  # type: ignore[no-untyped-call]

OUTCOMES: Final = ("delivered", "awaiting", "retry", "dead")
"""Outcomes of a delivery attempt."""

# Exported as fulfillment_tasks_total: the client library adds the suffix.
FULFILLMENT_TASKS: Final = Counter("fulfillment_tasks", "Attempts to deliver a task, by their outcome.", ["outcome"])
for _outcome in OUTCOMES:
    FULFILLMENT_TASKS.labels(_outcome)  # A series that first appears with an event cannot be alerted on.

ROLES: Final = Gauge("tombola_role", "1 for each role that the process has, once it has started.", ["role"])

# About one per object. Reading this number takes 0.4 ms at 2 million; counting objects walks all of them (130 ms).
BLOCKS: Final = Gauge("tombola_python_blocks", "Memory blocks allocated by objects; grows with a leak.")
BLOCKS.set_function(sys.getallocatedblocks)


SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The usual bounds of a histogram of times."""


class Counts(Collector):
    """A counter with labels, as plain integers: the client library's `labels().inc()` costs ten times as much.

    known: label values that are exported from the start, since a series that first appears with an event has no
    increase to alert on.
    """

    def __init__(self, name: str, help_text: str, labels: Sequence[str], known: Iterable[tuple[str, ...]] = ()) -> None:
        self.values: dict[tuple[str, ...], int] = dict.fromkeys(known, 0)
        self._name, self._help, self._labels = name, help_text, labels
        REGISTRY.register(self)

    def add(self, *labels: str) -> None:
        """Counts one event."""
        self.values[labels] = self.values.get(labels, 0) + 1

    def describe(self) -> Iterable[Metric]:
        return [CounterMetricFamily(self._name, self._help)]

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, value in list(self.values.items()):
            family.add_metric(labels, value)
        yield family


class Distribution:
    """One series of a histogram: an observation is a binary search and two additions."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Counts one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def buckets(self) -> list[tuple[str, float]]:
        """Cumulative counts, as Prometheus has them."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))


class Histogram(Collector):
    """A histogram with labels; each series is a `Distribution` that its owner keeps and observes."""

    def __init__(
        self, name: str, help_text: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS
    ) -> None:
        self._name, self._help, self._labels, self._bounds = name, help_text, labels, bounds
        self._series: dict[tuple[str, ...], Distribution] = {}
        REGISTRY.register(self)

    def series(self, *labels: str) -> Distribution:
        """The series of these label values; exported from now on."""
        return self._series.setdefault(labels, Distribution(self._bounds))

    def describe(self) -> Iterable[Metric]:
        return [HistogramMetricFamily(self._name, self._help)]

    def collect(self) -> Iterable[Metric]:
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, series in list(self._series.items()):
            family.add_metric(labels, series.buckets(), series.total)
        yield family


class Replica(Protocol):
    """The read replica of a database. reason: why it is not used; "": it is."""

    reason: str
    lag_seconds: float


class Pool(Protocol):
    """The connections to one database."""

    name: str
    answers: bool
    size: int

    @property
    def busy(self) -> int: ...
    @property
    def replica(self) -> Replica | None: ...


class DurableStore(Protocol):
    """The durable store."""

    round_trips: int

    @property
    def parts(self) -> Sequence[Pool]: ...


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
    """Counters of the stores, read at each scrape of /metrics."""

    def __init__(self, database: DurableStore | None, ephemeral: Store) -> None:
        self._database = database
        self._ephemeral = ephemeral

    def register(self) -> None:
        """Adds these counters to /metrics."""
        REGISTRY.register(self)

    def unregister(self) -> None:
        """Removes them from /metrics, because the stores are closed."""
        REGISTRY.unregister(self)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        if self._database is not None:
            yield _count("tombola_database_round_trips", "Statements sent to the database.", self._database.round_trips)
            yield from self._of_pools(self._database.parts)
        store = self._ephemeral
        yield _count("tombola_ephemeral_round_trips", "Pipelines sent to the ephemeral store.", store.round_trips)
        yield _count("tombola_ephemeral_commands", "Commands sent to the ephemeral store.", store.commands)
        yield _count("tombola_ephemeral_lost", "Posted commands that failed or have an unknown outcome.", store.lost)
        yield _count("tombola_ephemeral_trips", "Times that the breaker of the ephemeral store opened.", store.trips)
        yield GaugeMetricFamily(
            "tombola_ephemeral_up", "Whether the breaker of the ephemeral store is closed.", float(store.up)
        )

    def _of_pools(self, pools: Sequence[Pool]) -> Iterable[Metric]:
        busy = GaugeMetricFamily("tombola_pool_busy", "Database connections in use.", labels=["database"])
        size = GaugeMetricFamily("tombola_pool_size", "Database connections at most.", labels=["database"])
        up = GaugeMetricFamily("tombola_database_up", "Whether the database answered last.", labels=["database"])
        replica = GaugeMetricFamily("tombola_replica_up", "Whether the replica serves reads.", labels=["database"])
        lag = GaugeMetricFamily("tombola_replica_lag_seconds", "The age of the replica's data.", labels=["database"])
        for pool in pools:
            busy.add_metric([pool.name], pool.busy)
            size.add_metric([pool.name], pool.size)
            up.add_metric([pool.name], float(pool.answers))
            if pool.replica is not None:
                replica.add_metric([pool.name], float(not pool.replica.reason))
                lag.add_metric([pool.name], pool.replica.lag_seconds)
        return busy, size, up, replica, lag


def _count(name: str, help_text: str, value: int) -> Metric:
    return CounterMetricFamily(name, help_text, value)


CALLS: Final = Counts("tombola_operations", "Operations by their gRPC status.", ["operation", "status"])
