"""Who makes a request, and what that identity may do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from runtime.errors import Fault, Status
from runtime.operations.row import MANAGEMENT

IDENTIFIER_CHARACTERS_MAX: Final = 128


IDENTIFIER: Final = re.compile(rf"[A-Za-z0-9_.:-]{{1,{IDENTIFIER_CHARACTERS_MAX}}}")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. `player_id` is empty for staff; `expires_at` is unix seconds, 0 for a header identity.

    login_id: the login that the token is of, "" for a guest's and another issuer's. sign_in_id: staff's, "" for a
    player's. revocable: what it is revoked by (runtime/http/auth/revocations.py). issued_at: unix seconds.
    """

    tenant_id: str
    merchant_id: str
    player_id: str
    roles: frozenset[str]
    subject: str
    expires_at: int
    login_id: str = ""
    sign_in_id: str = ""
    revocable: tuple[str, ...] = ()
    issued_at: int = 0
    api_token_id: str = ""


def not_staff(identity: Identity | None) -> Identity | None:
    """A player, or nobody: a token of staff's opens nothing on the players' edge. ROLE_REQUIRED for it."""
    if identity is not None and identity.expires_at:
        require_player(identity)
    return identity


def require_player(identity: Identity | None) -> Identity:
    """A player's identity. TOKEN_MISSING for nobody, ROLE_REQUIRED for staff."""
    if identity is None:
        raise token_missing()
    if not identity.player_id:
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", "this route is a player's", roles=["player"])
    return identity


def require_roles(identity: Identity | None, allowed: frozenset[str] = MANAGEMENT) -> Identity:
    """An identity with any of the roles. TOKEN_MISSING for nobody, ROLE_REQUIRED for who lacks them all."""
    if identity is None:
        raise token_missing()
    if not identity.roles & allowed:
        names = sorted(allowed)
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", f"needs a role of {', '.join(names)}", roles=names)
    return identity


def token_missing() -> Fault:
    """UNAUTHENTICATED: nobody asks."""
    return Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this route needs a Bearer token")
