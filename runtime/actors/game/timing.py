"""A player's time in a game: no moment of it pays for two plays.

Sessions may be open at once, and each has its own time since its start. Were a play held to that alone, a player would
open sixty, wait once, and be paid sixty times for the one wait. So a play takes the time that it took up (as its
validator says) from what earlier ones have left: `busy_until`, in unix milliseconds of the database, is up to when the
player's time is taken. It is kept with the count of plays, and moved by the same guarded statement.

A validator grants each play the network's slack beyond its time. That too is taken, so `busy_until` may be ahead of
the clock: by AHEAD_MS at most, after which even short plays wait.
"""

from __future__ import annotations

from typing import Final

from runtime.rules import NETWORK_SLACK_MS

AHEAD_MS: Final = 10 * NETWORK_SLACK_MS
"""The slack of so many plays, before the next one is held to the clock alone. Who rests gets it back: so long a time
may be played in short plays at once and paid for, after which each takes the time that it says. Less would refuse
clients that round up, and send what they played in a row."""


def begins_ms(busy_until: int, issued_ms: int, now_ms: int) -> int:
    """From when on the player's time is this play's: its start, or the end of what earlier plays took up."""
    if busy_until > now_ms + AHEAD_MS + NETWORK_SLACK_MS:
        return issued_ms  # The clock was set back since: who played then must not wait until it is there again.
    return max(issued_ms, busy_until)


def left_ms(begins: int, now_ms: int) -> int:
    """What is left for the play of the time since its start, as a validator is told; less than none: ahead too far."""
    return min(max(0, now_ms - begins), now_ms + AHEAD_MS - NETWORK_SLACK_MS - begins)
