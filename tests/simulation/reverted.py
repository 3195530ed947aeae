"""Tombola as it was before a mend, for tests that the simulation finds it: `python -m tests.simulation.reverted`.

Each undoes one mend, no more, in the running code; the bug comes back, with all that is around it as it is now.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from ops.simulation.machine import with_fixed_order
from ops.simulation.postgres.vocabulary import MODELS
from ops.simulation.run import plan_of, run, settle_memory
from runtime.actors.changes import Changes
from runtime.actors.game.cache import GameCache
from runtime.operations.players import merging
from tests.simulation.broken import BROKEN

SEEDS: Final = 500
"""Within so many it must be found."""


@contextmanager
def counters_lost() -> Iterator[None]:
    """Where two turns of one game meet in one commit, the later one's count of plays replaces the earlier one's."""
    whole = Changes.absorb

    def absorb(self: Changes, other: Changes) -> None:
        counts = {**self.play_counts, **other.play_counts}
        whole(self, other)
        self.play_counts = counts

    with patch.object(Changes, "absorb", absorb):
        yield


@contextmanager
def neighbours_look() -> Iterator[None]:
    """A turn whose commit was refused forgets at once what its neighbour has looked up and not decided by yet."""

    def distrust(self: GameCache, *, snapshot: bool = False) -> None:
        self.players.clear()
        self.stock.clear()
        self.refreshed_at = 0.0
        if snapshot:
            self.snapshot = None

    with patch.object(GameCache, "distrust", distrust):
        yield


@contextmanager
def zone_moved_west() -> Iterator[None]:
    """The look passes over a counter whose day is still to come, which the guard counts."""
    whole = MODELS["play.refresh"]

    async def refresh(*args: Any) -> Any:
        given = whole(*args)
        rows: Any = await given if hasattr(given, "__await__") else given
        for row in rows:
            row["players"] = [
                [*player[:2], 0 if player[3] else player[2], False, *player[4:]] for player in row["players"] or ()
            ]
        return rows

    with patch.dict(MODELS, {"play.refresh": refresh}):
        yield


@contextmanager
def late_for_a_merged_guest() -> Iterator[None]:
    """What was decided for a guest is committed for it, though it has become a player meanwhile."""

    async def hold_player(connection: Any, tenant_id: str, player_id: str) -> str:
        return player_id

    with patch.object(Changes, "hold_guest", lambda self, player_id: None):
        with patch.object(merging, "hold_player", hold_player):
            yield


REVERTED: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    made.__name__: made
    for made in (
        counters_lost,
        neighbours_look,
        zone_moved_west,
        late_for_a_merged_guest,
    )
}


def first_failing(name: str, seeds: range) -> dict[str, Any]:
    """The first seed that finds it (of broken.py's too), and what it says; the seed is None where none does."""
    settle_memory()
    made = REVERTED[name] if name in REVERTED else BROKEN[name][0]
    for seed in seeds:
        violation = run(plan_of(seed), made).violation
        if violation is not None:
            return {"seed": seed, "violation": violation.name, "found": violation.found}
    return {"seed": None}


if __name__ == "__main__":
    with_fixed_order("tests.simulation.reverted")
    print(json.dumps(first_failing(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))))
