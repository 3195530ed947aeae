"""Spreads the players of a busy game over several replicas of Core.

Calls for one actor go to one replica, its first, so that they share its batches. While more calls are in flight than
CALLS_PER_REPLICA for each replica, the actor's calls go to more replicas, and each player's calls to one of them. With
fewer calls, the only cost is a counter. This only affects speed: correctness never depends on which replica decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any, Final

from runtime.actors.committer import OVERLAP
from runtime.actors.game.sessions import named_player

CALLS_PER_REPLICA: Final = OVERLAP * 16
"""An actor's calls in flight per replica. A commit of 16 plays has two thirds of the throughput of one of 256, and a
replica has OVERLAP commits under way: more calls would only wait. Each edge counts its own calls. If a replica is too
slow for all edges, the calls in flight grow at each of them."""

CALM_SECONDS: Final = 10.0
"""How long calls must be few before one replica is removed. A player who changes replicas costs a read."""


class Load:
    """The calls of one actor. width: the number of replicas that they go to; peak: the most in flight recently."""

    __slots__ = ("in_flight", "peak", "width", "timer")

    def __init__(self) -> None:
        self.in_flight = self.peak = 0
        self.width = 1
        self.timer: asyncio.TimerHandle | None = None


class Spread:
    """The actors with calls in flight, or with a width above 1."""

    def __init__(self) -> None:
        self._loads: dict[Hashable, Load] = {}

    def begin(self, key: Hashable, width_max: int) -> Load:
        """Counts a call; `end` must follow. A load above the bound gets one more replica, up to `width_max`."""
        load = self._loads.get(key)
        if load is None:
            load = self._loads[key] = Load()
        load.in_flight += 1
        if load.in_flight > load.peak:
            load.peak = load.in_flight
            if load.peak > CALLS_PER_REPLICA * load.width and load.width < width_max:
                load.width += 1
                self._watch(key, load)
        return load

    def end(self, key: Hashable, load: Load) -> None:
        """The call is over."""
        load.in_flight -= 1
        if not load.in_flight and load.timer is None:
            del self._loads[key]

    def close(self) -> None:
        """Stops all timers."""
        for load in self._loads.values():
            if load.timer is not None:
                load.timer.cancel()

    def _watch(self, key: Hashable, load: Load) -> None:
        if load.timer is not None:
            load.timer.cancel()
        load.timer = asyncio.get_running_loop().call_later(CALM_SECONDS, self._narrow, key, load)

    def _narrow(self, key: Hashable, load: Load) -> None:
        """Removes a replica from a load that stayed below half the bound, so that its width does not alternate."""
        if load.peak <= CALLS_PER_REPLICA * (load.width - 1) / 2:
            load.width -= 1
        load.peak, load.timer = load.in_flight, None
        if load.width > 1:
            self._watch(key, load)
        elif not load.in_flight:
            del self._loads[key]


def player_of(request: Any) -> str:
    """The player of a call; "": none, such as at an anonymous start."""
    return getattr(request, "player_id", "") or named_player(getattr(request, "session_id", ""))
