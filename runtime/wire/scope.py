"""The tenant, merchant and player of a request."""

from __future__ import annotations

import re
from typing import Final, Protocol

from runtime import messages as m
from runtime.errors import invalid

PLAYER_ID_CHARACTERS_MAX: Final = 128

PLAYER_ID: Final = re.compile(rf"[A-Za-z0-9_.:@|+-]{{1,{PLAYER_ID_CHARACTERS_MAX}}}")
"""A player's id. External issuers' subjects may contain `|` and `@`."""

PLAYER_ID_RULE: Final = f"must be at most {PLAYER_ID_CHARACTERS_MAX} letters, digits and characters of _ . : @ | + -"
"""PLAYER_ID in words."""


class Scoped(Protocol):
    """A message with a scope."""

    @property
    def scope(self) -> m.Scope | None: ...


class OfPlayer(Protocol):
    """A message with a player."""

    @property
    def player_id(self) -> str: ...


def tenant_of(request: Scoped) -> str:
    """The tenant in the request's scope. INVALID_ARGUMENT without one. Core checks this before anything else."""
    scope = request.scope
    if scope is None or not scope.tenant_id:
        raise invalid("scope.tenant_id", "is required")
    return scope.tenant_id


def merchant_of(request: Scoped) -> str:
    """The merchant whose staff sent the request; "" for the tenant's own staff."""
    return request.scope.merchant_id if request.scope is not None else ""


def player_id_of(request: OfPlayer) -> str:
    """The request's `player_id`. INVALID_ARGUMENT if it is missing or too long."""
    player_id = request.player_id
    if not player_id:
        raise invalid("player_id", "is required")
    if len(player_id) > PLAYER_ID_CHARACTERS_MAX:
        raise invalid("player_id", f"must be at most {PLAYER_ID_CHARACTERS_MAX} characters")
    return player_id
