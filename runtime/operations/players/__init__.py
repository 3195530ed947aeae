"""Players: their profiles and contacts, how they log in, and how a guest becomes one."""

from __future__ import annotations

from typing import Final

from runtime.operations.players import challenges, logins, profiles, revocations

ROWS: Final = (*profiles.ROWS, *challenges.ROWS, *logins.ROWS, *revocations.ROWS)
