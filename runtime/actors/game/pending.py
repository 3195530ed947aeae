"""A pending request of a game's actor, and its decision."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from runtime import messages as m
from runtime.actors.game.awards import Effects
from runtime.actors.game.sessions import Session
from runtime.actors.idempotency import WITHOUT_KEY, KeyedRequest
from runtime.actors.mailbox import Work
from runtime.events import Event

READS: Final = frozenset({m.EligibilityRequest, m.ListMilestonesRequest})
"""Request types that are answered from freshly read data and create no player row.

Compare types; do not use isinstance: messages have an abstract base class, whose instance check is slow on this path.
"""


class PendingRequest(msgspec.Struct, eq=False):
    """A request that waits for its answer, with its opened session.

    idempotency: its idempotency key and request hash, if it has a key.
    searched: known not to be committed already. Until then it is not refused: it may be a retry of the very play that
    used up its cap.
    anonymous: the request named no player; never changes. newcomer: it named no player, so it gets a new guest id.
    bearer: the player who sent the session, if not the session's player.
    player_id: the player to decide for; a merged guest's id is replaced by its player's.
    inputs, contradictions: the state it was decided by when a guard refused it, and how often that state was unchanged.
    """

    work: Work[Any]
    request: Any
    player_id: str
    session: Session | None = None
    anonymous: bool = False
    idempotency: KeyedRequest = WITHOUT_KEY
    searched: bool = False
    newcomer: bool = False
    bearer: str = ""
    inputs: Any = None
    contradictions: int = 0

    def redirect_to(self, player_id: str) -> None:
        """Redirects the request to the player that its guest was merged into."""
        self.player_id = player_id
        if self.bearer == player_id:
            self.bearer = ""
        if self.idempotency.key is not None:
            self.idempotency = self.idempotency._replace(player_id=player_id)


class Decision(NamedTuple):
    """The reply to send once the effects are committed, and the events to publish then."""

    pending: PendingRequest
    reply: Any
    effects: Effects
    events: list[Event]


class Answer(NamedTuple):
    """The result of a request that changes nothing: its reply, or the Fault that refuses it."""

    pending: PendingRequest
    reply: Any
