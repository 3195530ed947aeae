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
    "staff",
    "strangers",
)


def load() -> dict[str, Row]:
    """Every row by its name, in the order in which they run."""
    for name in MODULES:
        importlib.import_module(f"{__name__}.{name}")
    return ROWS
