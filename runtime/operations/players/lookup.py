"""Finding a player, and the message of its row."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

import sql
from runtime import messages as m
from runtime.wire.enums import enum

_SQL: Final = sql.load("players")

FIND: Final = _SQL["find"]
MEET: Final = _SQL["meet"]
OWNER: Final = _SQL["owner"]


def player_from_row(row: asyncpg.Record) -> m.Player:
    """The message of a row of `FIND`."""
    return m.Player(
        id=row["player_id"],
        display_name=row["display_name"],
        avatar_url=row["avatar_url"],
        locale=row["locale"],
        attributes=row["attributes"],
        contacts=[contact_from_row(contact) for contact in row["contacts"]],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        auth_method=m.AuthMethod[row["auth_method"].upper()],
        status=enum(m.PlayerStatus, row["status"]),
    )


def contact_from_row(row: Any) -> m.Contact:
    """The message of a contact's row."""
    return m.Contact(
        id=row["id"],
        type=m.ContactType[row["type"].upper()],
        value=row["value"],
        verified=row["verified"],
        created_at=row["created_at"],
    )
