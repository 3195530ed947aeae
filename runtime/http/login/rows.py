"""The table of login routes: all POST, served by the consumer edge itself, not by Core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from runtime import messages as m
from runtime.wire.schema import Field, Kind, fields_of

CHALLENGE: Final = "chal_0f1e2d3c4b5a69788796a5b4c3d2e1f0"
_EVERY_CODE: Final = ("UNKNOWN_CHALLENGE", "CODE_WRONG", "CODE_EXPIRED")


class Answers(Enum):
    """The kind of a route's response."""

    CHALLENGE = "Challenge"
    TOKENS = "Tokens"
    CONTACT = "Contact"
    DONE = "Done"


@dataclass(frozen=True, slots=True, eq=False)
class LoginRow:
    """One route. example: its body; every field is a required string. refusals: its own reasons, in addition to those
    of all edge routes (runtime/http/docs/extra_routes.py).

    flags: optional boolean fields; optional: optional strings. players_only: it requires a player's token.
    """

    name: str
    path: str
    answers: Answers
    about: str
    refusals: tuple[str, ...]
    example: Mapping[str, str]
    players_only: bool = False
    flags: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The body's fields, in order."""
        return tuple(self.example)


START: Final = LoginRow(
    "StartLogin",
    "/players/auth/start",
    Answers.CHALLENGE,
    about="Sends a code to a phone or an e-mail address. The response is the same for known and unknown contacts. Send "
    "the client's `refresh_token` from an earlier login with this contact, even if it is used, expired or logged out: "
    "codes that other clients request then do not count against the limits.",
    refusals=("RESEND_TOO_SOON", "SENDER_UNAVAILABLE"),
    example={"contact_type": "CONTACT_TYPE_EMAIL", "contact": "ada@example.com"},
    optional=("refresh_token",),
)
VERIFY: Final = LoginRow(
    "VerifyLogin",
    "/players/auth/verify",
    Answers.TOKENS,
    about="Exchanges a code for a player's tokens. Send a guest's token with it to merge the guest into the player.",
    refusals=(*_EVERY_CODE, "PLAYER_MERGED"),
    example={"challenge_id": CHALLENGE, "code": "123456"},
)
REFRESH: Final = LoginRow(
    "RefreshLogin",
    "/players/auth/refresh",
    Answers.TOKENS,
    about="Exchanges a refresh token for new tokens. A refresh token works once. If the response is lost, it works "
    "once more within 10 seconds, from the same address.",
    refusals=("UNKNOWN_PLAYER",),
    example={"refresh_token": "rt_hq0V..."},
)
LOGOUT: Final = LoginRow(
    "LogOut",
    "/players/auth/logout",
    Answers.DONE,
    about="Ends the token's login and its refresh tokens; with `everywhere`, all logins and tokens of the player.",
    refusals=("TOKEN_MISSING", "ROLE_REQUIRED"),
    example={},
    players_only=True,
    flags=("everywhere",),
)
LINK: Final = LoginRow(
    "LinkContact",
    "/players/me/contacts",
    Answers.CONTACT,
    about="Adds a contact, verified by its own challenge, to a player. Guests must use verify instead.",
    refusals=(
        *_EVERY_CODE,
        *("TOKEN_MISSING", "ROLE_REQUIRED", "LOGIN_REQUIRED", "CONTACT_TAKEN", "PLAYER_MERGED", "UNKNOWN_PLAYER"),
    ),
    example={"type": "CONTACT_TYPE_PHONE", "value": "+4915112345678", "challenge_id": CHALLENGE, "code": "123456"},
    players_only=True,
)

ROWS: Final = (START, VERIFY, REFRESH, LOGOUT, LINK)

_CONTACT: Final = fields_of(m.Contact)["value"]
_OPAQUE: Final = Field("", Kind.TEXT, None, False, any_characters=True)
"""Credentials are never shown, so they may contain any characters: a wrong one is simply invalid."""


def text_of(name: str) -> Field:
    """The rules for a field of a body."""
    return _CONTACT if name in ("contact", "value") else _OPAQUE
