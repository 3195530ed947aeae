"""Which guard of these statements refused a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import asyncpg

GUARD: Final = "TB001"
"""SQLSTATE of the schema's refuse(): a batch's guard found a changed row."""

ONCE: Final[Mapping[str, str]] = {
    "plays_pkey": "session",
    "plays_idempotency": "session",
    "balances_pkey": "balance",
    "milestone_grants_pkey": "grant",
    "milestone_grants_idempotency": "grant",
}
"""The guard of each unique index by which sql/commit.sql refuses a row that exists."""


def guard_of(error: asyncpg.PostgresError) -> str:
    """The guard that the error is from; "": none."""
    if error.sqlstate == GUARD:
        return (error.args[0] or "").removeprefix("guard ")
    if isinstance(error, asyncpg.UniqueViolationError):
        return ONCE.get(error.constraint_name or "", "")
    return ""
