"""Players: profiles, contacts, logins, and the merge of a guest into a player."""

from __future__ import annotations

from typing import Final

from runtime.operations.players import challenges, logins, profiles, revocations

ROWS: Final = (*profiles.ROWS, *challenges.ROWS, *logins.ROWS, *revocations.ROWS)
