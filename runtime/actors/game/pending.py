"""A request on its way through a game's actor, and what was decided of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from runtime import messages as m
from runtime.actors.game.awards import Effects
from runtime.actors.game.sessions import Session
from runtime.actors.idempotency import WITHOUT_KEY, KeyedRequest
from runtime.actors.mailbox import Work
from runtime.events import Event

READS: Final = frozenset({m.EligibilityRequest, m.ListMilestonesRequest})
"""Types of requests that are answered by what was just read, and that make nobody a player.

Types are compared, not asked by isinstance: messages are of an abstract class, whose answer costs each play more.
"""


@dataclass(slots=True)
class PendingRequest:
    """A request that waits for its answer, with the session that it opened.

    asked: under which idempotency key, where it carries one. searched: it is known not to be
    committed already; without that it is not refused, since it may be a retry of what used up its cap.
    anonymous: nobody was named; that stays so, whoever it turns out to be for.
    newcomer: nobody was named, so this is a guest whom no row knows.
    bearer: who brings the session, where that is not the player that it names.
    player_id: whom it is decided for; a guest's own is turned to the player that the guest has become.
    look, contradictions: by what it was decided and then refused by a guard, and how often just so again.
    """

    work: Work[Any]
    request: Any
    player_id: str
    session: Session | None = None
    anonymous: bool = False
    asked: KeyedRequest = WITHOUT_KEY
    searched: bool = False
    newcomer: bool = False
    bearer: str = ""
    look: Any = None
    contradictions: int = 0

    def turn_to(self, player_id: str) -> None:
        """From now on it is this player's, who was the guest that it came for."""
        self.player_id = player_id
        if self.bearer == player_id:
            self.bearer = ""
        if self.asked.key is not None:
            self.asked = self.asked._replace(player_id=player_id)


class Decision(NamedTuple):
    """What a request will be answered once its effects are committed, and what is then published."""

    pending: PendingRequest
    reply: Any
    effects: Effects
    events: list[Event]


class Answer(NamedTuple):
    """What a request that changes nothing is told: its reply, or the Fault that refuses it."""

    pending: PendingRequest
    reply: Any
