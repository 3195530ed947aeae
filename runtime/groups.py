"""The consumer groups: name, purpose, streams and entry point.

`tombola worker NAME`, its help, the setting CORE_WORKERS and the worker roles are derived from this list;
tests/ops/test_readme.py compares the documents and deployment files with it. The module imports no other part of the
runtime, so that settings can use the names: a group's code is imported only when it runs.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

Run: TypeAlias = Callable[[Any, asyncio.Event], Awaitable[None]]
"""`run(engine, stop)` reads until `stop` is set, then finishes the current batch."""


def event_stream(shard: int) -> str:
    """The event stream of a shard. The hash tag puts all keys of a shard on one cluster node."""
    return f"tombola:events:{{{shard}}}"


def task_stream(shard: int) -> str:
    """The task stream of a shard."""
    return f"tombola:tasks:{{{shard}}}"


class ConsumerGroup(NamedTuple):
    """One group. `name` is also the metrics label; `name` and `purpose` together form a sentence.

    stream: the stream of a shard; None: the group reads no stream and finds its work in the database.
    entry_point: its `Run`, as module:function.
    """

    name: str
    purpose: str
    stream: Callable[[int], str] | None
    entry_point: str

    def streams(self, shards: int) -> list[str]:
        """All streams that the group reads."""
        return [self.stream(shard) for shard in range(shards)] if self.stream is not None else []

    def load(self) -> Run:
        """Imports and returns the group's code."""
        module, _, function = self.entry_point.partition(":")
        run: Run = getattr(importlib.import_module(module), function)
        return run


DELIVERIES: Final = ConsumerGroup("deliveries", "delivers rewards", task_stream, "runtime.streams.delivery:run")
INTEGRATIONS: Final = ConsumerGroup(
    "integrations", "sends events to integrations", event_stream, "runtime.streams.hub:run"
)
LEADERBOARDS: Final = ConsumerGroup(
    "leaderboards", "updates rankings", event_stream, "runtime.streams.leaderboard_consumer:run"
)
AUDITOR: Final = ConsumerGroup("auditor", "checks the data for discrepancies", None, "runtime.streams.auditor:run")

GROUPS: Final = {group.name: group for group in (DELIVERIES, INTEGRATIONS, LEADERBOARDS, AUDITOR)}
"""The consumer groups by name."""
