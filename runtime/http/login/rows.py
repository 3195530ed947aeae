"""The rows of the login's routes: all POST, all the consumer edge's own, and none of them Core's."""

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
    """What a route answers with."""

    CHALLENGE = "Challenge"
    TOKENS = "Tokens"
    CONTACT = "Contact"
    DONE = "Done"


@dataclass(frozen=True, slots=True, eq=False)
class LoginRow:
    """One route. example: its body, every field of which is a required text. refusals: its own reasons, beside those
    of every route of the edges (runtime/http/docs/extra_routes.py).

    flags: further fields, true or false, that may be left out; optional: texts that may be. players_only: it needs a
    player's token; the others do without.
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
    about="Sends a code to a phone or an e-mail address. The answer is the same whether it is known or not. With a "
    "`refresh_token` that the client has from an earlier login by this contact, used or expired or logged out, codes "
    "that strangers ask for do not count against it.",
    refusals=("RESEND_TOO_SOON", "SENDER_UNAVAILABLE"),
    example={"contact_type": "CONTACT_TYPE_EMAIL", "contact": "ada@example.com"},
    optional=("refresh_token",),
)
VERIFY: Final = LoginRow(
    "VerifyLogin",
    "/players/auth/verify",
    Answers.TOKENS,
    about="Turns a right code into a player's tokens. A guest's token, sent along, hands over what the guest has won.",
    refusals=(*_EVERY_CODE, "PLAYER_MERGED"),
    example={"challenge_id": CHALLENGE, "code": "123456"},
)
REFRESH: Final = LoginRow(
    "RefreshLogin",
    "/players/auth/refresh",
    Answers.TOKENS,
    about="Turns a refresh token into new tokens. Each is good for one use; where the answer was lost, once more "
    "within 10 seconds, from the same address.",
    refusals=("UNKNOWN_PLAYER",),
    example={"refresh_token": "rt_hq0V..."},
)
LOGOUT: Final = LoginRow(
    "LogOut",
    "/players/auth/logout",
    Answers.DONE,
    about="Ends the login that the token is of, refresh tokens included; with `everywhere` all logins of the player.",
    refusals=("TOKEN_MISSING", "ROLE_REQUIRED"),
    example={},
    players_only=True,
    flags=("everywhere",),
)
LINK: Final = LoginRow(
    "LinkContact",
    "/players/me/contacts",
    Answers.CONTACT,
    about="Gives a player one more contact, proved by a challenge of its own. A guest logs in with it, by verify.",
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
"""What opens something is shown to nobody: a wrong one is wrong, whatever it holds."""


def text_of(name: str) -> Field:
    """What a field of a body may hold."""
    return _CONTACT if name in ("contact", "value") else _OPAQUE
