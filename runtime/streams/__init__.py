"""What leaves the service: consumer groups over the streams, each a role that is scaled alone.

`GROUPS[name](engine, stop)` runs one until `stop` is set, finishing what it has begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from runtime.actors.engine import Engine
from runtime.streams import delivery, hub, standings

Group = Callable[[Engine, asyncio.Event], Awaitable[None]]

GROUPS: Final[dict[str, Group]] = {
    "deliveries": delivery.run,
    "integrations": hub.run,
    "leaderboards": standings.run,
}
"""Every consumer group by the name that `tombola worker` takes."""
