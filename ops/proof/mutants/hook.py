"""Stands between asyncpg's connections and what they are asked to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import asyncpg

Change = Callable[[str], str]

_NAMED: Final = "-- "


def name_of(query: str) -> str:
    """The full name of a named statement, by the comment that it begins with; empty of any other SQL."""
    if not query.startswith(_NAMED):
        return ""
    name = query[len(_NAMED) : query.index("\n")] if "\n" in query else ""
    return name if "." in name and " " not in name else ""


def install(change: Change) -> None:
    """From now on each statement of this process is `change` of it. Once a process."""
    connection: Any = asyncpg.Connection
    get_statement, execute = connection._get_statement, connection.execute

    async def changed_statement(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        return await get_statement(self, change(query), *args, **kwargs)

    async def changed_execute(self: Any, query: str, *args: Any, **kwargs: Any) -> Any:
        # With arguments it is prepared, and comes by above.
        return await execute(self, query if args else change(query), *args, **kwargs)

    connection._get_statement, connection.execute = changed_statement, changed_execute
