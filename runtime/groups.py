"""The consumer groups: each one's name, the streams that it reads, what it is for, and where its code is.

The one list of them. `tombola worker NAME` and its help, the setting CORE_WORKERS and the worker roles of a
process are made from it; tests/ops/test_groups.py holds the documents and the deployment files to it. A plain
leaf, so that settings may know the names: the code is named by a text, and imported when it is to run.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

Run: TypeAlias = Callable[[Any, asyncio.Event], Awaitable[None]]
"""`run(engine, stop)` reads until `stop` is set, and finishes what it has begun."""


def event_stream(shard: int) -> str:
    """The stream of a shard's events. The hash tag keeps all that belongs to a shard on one cluster node."""
    return f"tombola:events:{{{shard}}}"


def task_stream(shard: int) -> str:
    """The stream of a shard's task ids."""
    return f"tombola:tasks:{{{shard}}}"


class ConsumerGroup(NamedTuple):
    """One group. `name` is also its label in the metrics; `purpose` continues it to a sentence.

    stream: the one that it reads, of a shard; None: it reads none, and finds in the database what there is to do.
    entry_point: its `Run`, as module:function.
    """

    name: str
    purpose: str
    stream: Callable[[int], str] | None
    entry_point: str

    def streams(self, shards: int) -> list[str]:
        """Every stream that it reads."""
        return [self.stream(shard) for shard in range(shards)] if self.stream is not None else []

    def load(self) -> Run:
        """Its code, imported now."""
        module, _, function = self.entry_point.partition(":")
        run: Run = getattr(importlib.import_module(module), function)
        return run


DELIVERIES: Final = ConsumerGroup("deliveries", "carries rewards out", task_stream, "runtime.streams.delivery:run")
INTEGRATIONS: Final = ConsumerGroup("integrations", "carries events out", event_stream, "runtime.streams.hub:run")
LEADERBOARDS: Final = ConsumerGroup(
    "leaderboards", "keeps rankings", event_stream, "runtime.streams.leaderboard_consumer:run"
)
AUDITOR: Final = ConsumerGroup("auditor", "looks whether everything adds up", None, "runtime.streams.auditor:run")

GROUPS: Final = {group.name: group for group in (DELIVERIES, INTEGRATIONS, LEADERBOARDS, AUDITOR)}
"""Every consumer group by its name."""
