"""Old bugs for tests that the simulation finds them: `python -m ops.simulation.reverted`.

Each patch reverts one fix in the running code and leaves everything around it.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from ops.simulation.machine import with_fixed_order
from ops.simulation.postgres import MODELS, Transaction
from ops.simulation.run import plan_of, run, settle_memory
from runtime.actors.changes import Changes
from runtime.actors.game.cache import GameCache


@contextmanager
def counters_lost() -> Iterator[None]:
    """If two batches of a game share a commit, the later one's play counts replace the earlier one's."""
    whole = Changes.absorb

    def absorb(self: Changes, other: Changes) -> None:
        counts = {**self.play_counts, **other.play_counts}
        whole(self, other)
        self.play_counts = counts

    with patch.object(Changes, "absorb", absorb):
        yield


@contextmanager
def neighbours_look() -> Iterator[None]:
    """A batch with a refused commit immediately discards what the concurrent batch has read and not yet used."""

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
    """The refresh ignores a counter with a future day, which the guard counts."""
    whole = MODELS["play.refresh"]

    def refresh(*args: Any) -> Any:
        rows: Any = whole(*args)
        for row in rows:
            row["players"] = [
                [*player[:2], 0 if player[3] else player[2], False, *player[4:]] for player in row["players"] or ()
            ]
        return rows

    with patch.dict(MODELS, {"play.refresh": refresh}):
        yield


@contextmanager
def zone_moved_east() -> Iterator[None]:
    """A Core that does not know of a zone change yet sets back a day that has begun."""
    whole = MODELS["play.rewind_days"]

    def set_back(tx: Transaction, tenant_id: str, *arguments: Any) -> Any:
        tenant = tx.get("tenants", tenant_id)
        assert tenant is not None
        return whole(tx, tenant_id, *arguments[:-1], tenant["catalog_version"])

    with patch.dict(MODELS, {"play.rewind_days": set_back}):
        yield


REVERTED: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    defect.__name__: defect for defect in (counters_lost, neighbours_look, zone_moved_west, zone_moved_east)
}


def first_failing(name: str, seeds: range) -> dict[str, Any]:
    """The first seed that finds the bug, and the violation; the seed is None if none does."""
    settle_memory()
    for seed in seeds:
        violation = run(plan_of(seed), REVERTED[name]).violation
        if violation is not None:
            return {"seed": seed, "violation": violation.name, "found": violation.found}
    return {"seed": None}


if __name__ == "__main__":
    with_fixed_order("ops.simulation.reverted")
    print(json.dumps(first_failing(sys.argv[1], range(int(sys.argv[2]), int(sys.argv[3])))))
