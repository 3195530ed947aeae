"""What the other modules of this package share: a serving process and its failure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from runtime.actors.engine import Engine
from runtime.core import Caller, Core
from runtime.settings import Settings

CLOSE_SECONDS: Final = 2.0
"""The part of DRAIN_SECONDS reserved for closing the stores."""


class CannotStart(SystemExit):
    """Ends the process with a message that says what to do."""


@dataclass(slots=True)
class Running:
    """A serving process. Addresses show the actual port, even if configured as 0; "" if not listening."""

    settings: Settings
    engine: Engine | None = None
    core: Core | None = None
    caller: Caller | None = None
    core_url: str = ""
    consumer_url: str = ""
    admin_url: str = ""
    rpc_address: str = ""
    metrics_url: str = ""
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: str = ""

    def fail(self, why: str) -> None:
        """Ends the process with this reason."""
        self.failure = self.failure or why
        self.failed.set()

    @property
    def drain_seconds(self) -> float:
        """How long accepted requests may take to finish after the stop."""
        return max(0.0, self.settings.drain_seconds - CLOSE_SECONDS)
