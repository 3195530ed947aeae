"""Players: profiles, contacts, logins, and the merge of a guest into a player."""

from __future__ import annotations

from typing import Final

from runtime.operations.players import challenges, login_mails, logins, profiles, revocations

ROWS: Final = (*profiles.ROWS, *challenges.ROWS, *login_mails.ROWS, *logins.ROWS, *revocations.ROWS)
