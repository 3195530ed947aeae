"""Loads a player and converts its row to a message."""

from __future__ import annotations

from typing import Any, Final, Protocol

import asyncpg

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.errors import Fault, Status, invalid, violations
from runtime.wire import contacts
from runtime.wire.enums import enum, token
from runtime.wire.scope import PLAYER_ID, PLAYER_ID_RULE

_SQL: Final = sql.load("players")

FIND: Final = _SQL["find"]
MEET: Final = _SQL["create"]
OWNER: Final = _SQL["owner"]

PLAYER: Final = "player_"
"""The prefix of player ids made by this service; external ids never have it."""


class _Named(Protocol):
    """A signed call about a player to pack or quest `id`. One of the other fields names the player."""

    @property
    def id(self) -> str: ...
    @property
    def player_id(self) -> str: ...
    @property
    def email(self) -> str: ...
    @property
    def phone(self) -> str: ...


def player_from_row(row: asyncpg.Record) -> m.Player:
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
        unsubscribed=[enum(m.MessageKind, kind) for kind in row["unsubscribed"]],
    )


def contact_from_row(row: Any) -> m.Contact:
    return m.Contact(
        id=row["id"],
        type=m.ContactType[row["type"].upper()],
        value=row["value"],
        verified=row["verified"],
        created_at=row["created_at"],
    )


async def named_player(engine: Engine, tenant_id: str, request: _Named) -> str:
    """The request's `player_id`, which may be unknown, or the id of the contact's owner. UNKNOWN_PLAYER if there is
    none, or for a merchant's pack or quest, if the owner has never taken part in this merchant's campaigns.
    """
    named = [name for name in ("player_id", "email", "phone") if getattr(request, name)]
    if len(named) != 1:
        raise violations([("player_id", "exactly one of player_id, email and phone is required")])
    if named == ["player_id"]:
        if not PLAYER_ID.fullmatch(request.player_id):  # No token can have it.
            raise invalid("player_id", PLAYER_ID_RULE)
        return request.player_id
    type, value = m.ContactType[named[0].upper()], getattr(request, named[0])
    owner = (token(type), contacts.normalized(type, value, field=named[0]))
    player_id: str | None = await engine.database.fetchval(_SQL["owner_known_to"], tenant_id, *owner, request.id)
    if player_id is None:
        raise Fault(Status.NOT_FOUND, "UNKNOWN_PLAYER", f"there is no player with this {named[0]}")
    return player_id
