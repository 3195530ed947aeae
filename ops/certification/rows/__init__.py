"""The rows: naming a module in `MODULES` is all that adds what it declares."""

from __future__ import annotations

import importlib
from typing import Final

from ops.certification.row import ROWS, Row

MODULES: Final = (
    "processes",
    "rivals",
    "network",
    "postgres",
    "valkey",
    "recovery",
    "streams",
    "upgrade",
    "clocks",
    "deliveries",
    "consumers",
    "merging",
    "staff",
    "strangers",
)

CHECK: Final = (
    "stock-race",
    "same-session",
    "same-key",
    "cap-race",
    "core-to-postgres",
    "postgres-restarted",
    "flushall-and-kill",
    "poison",
    "zone-moved",
    "delivery-worker-killed",
    "merging",
)
"""What every change has to pass (.ci/run), at quick sizes: of each kind of fault what takes least, busy or not."""


def load() -> dict[str, Row]:
    """Every row by its name, in the order in which they run: that of `MODULES`, whichever was imported first."""
    places = {importlib.import_module(f"{__name__}.{name}").__name__: place for place, name in enumerate(MODULES)}
    return dict(sorted(ROWS.items(), key=lambda item: places[item[1].work.__module__]))
