"""Which tables hold the rows of tenants, and which belong to the installation."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

import sql

INSTALLATION: Final = frozenset({"processes", "job_leases", "key_holders", "retired_keys", "tenant_databases"})
"""Tables of the processes, their keys and the directory: their rows never move with a tenant."""


@cache
def tenant_tables() -> tuple[str, ...]:
    """Every other table of the schema, in its order: a tenant's rows in them belong together, in one database."""
    names = re.findall(r"^CREATE TABLE (\w+)", sql.SCHEMA.read_text(encoding="utf-8"), re.MULTILINE)
    return tuple(name for name in names if name not in INSTALLATION)
