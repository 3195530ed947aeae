"""The identity of a caller, and the checks of its permissions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from runtime.errors import Fault, Status
from runtime.operations.row import MANAGEMENT

IDENTIFIER_CHARACTERS_MAX: Final = 128
IDENTIFIER: Final = re.compile(rf"[A-Za-z0-9_.:-]{{1,{IDENTIFIER_CHARACTERS_MAX}}}")


OF_PLAYER: Final = ("player", "X-Player-Id")
OF_STAFF: Final = ("staff", "X-Roles")
"""The required kind of caller, and the development header that identifies it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller. `player_id` is empty for staff; `expires_at` is Unix seconds, 0 for a header identity.

    login_id: the token's login, "" for a guest or an external token. sign_in_id: of staff, "" for a player.
    revocable: the keys that revoke it (revocations.py). issued_at: Unix seconds.
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
    """The identity of a player, or None. ROLE_REQUIRED for a staff token, which the consumer edge does not accept."""
    if identity is not None and identity.expires_at:
        require_player(identity)
    return identity


def require_player(identity: Identity | None, *, headers: bool = False) -> Identity:
    """A player's identity. TOKEN_MISSING without one, ROLE_REQUIRED for staff. headers: X-Player-Id is accepted too."""
    if identity is None:
        raise token_missing(headers=headers)
    if not identity.player_id:
        message = f"this route requires a player: {_remedy(OF_PLAYER, headers)}"
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", message, roles=["player"])
    return identity


def require_roles(
    identity: Identity | None, allowed: frozenset[str] = MANAGEMENT, *, headers: bool = False
) -> Identity:
    """An identity with any of the roles. TOKEN_MISSING without an identity, ROLE_REQUIRED without any of the roles.

    headers: X-Roles is accepted too.
    """
    if identity is None:
        raise token_missing(OF_STAFF, headers=headers)
    if not identity.roles & allowed:
        names = sorted(allowed)
        message = f"requires a role: {' or '.join(names)}" + (
            "; send a token with one, or name it in X-Roles" if headers else ""
        )
        raise Fault(Status.PERMISSION_DENIED, "ROLE_REQUIRED", message, roles=names)
    return identity


def token_missing(of: tuple[str, str] = OF_PLAYER, *, headers: bool = False) -> Fault:
    """UNAUTHENTICATED: no credential. of: the kind of token and the header to suggest."""
    return Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", f"authentication is required: {_remedy(of, headers)}")


def _remedy(of: tuple[str, str], headers: bool) -> str:
    kind, header = of
    return f"send Authorization: Bearer with a {kind} token" + (f", or the header {header}" if headers else "")
