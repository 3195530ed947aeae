"""A request on its way through a game's actor, and what was decided of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from runtime import ids
from runtime import messages as m
from runtime.actors.game.sessions import Session
from runtime.actors.game.snapshot import GameSnapshot
from runtime.actors.idempotency import WITHOUT_KEY, KeyedRequest
from runtime.actors.mailbox import Work
from runtime.events import Event

READS: Final = (m.EligibilityRequest, m.ListMilestonesRequest)
"""Requests that are answered by what was just read, and that make nobody a player."""


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

    def needs_token(self, snapshot: GameSnapshot) -> bool:
        """Whether it wants somebody named, and names nobody. Only a guest's session is enough, on a public game."""
        if not self.anonymous:
            return False
        return snapshot.access != "public" or (self.session is not None and not ids.is_guest(self.session.player_id))

    def makes_player(self, snapshot: GameSnapshot) -> bool:
        """Whether it makes a row of a player who has none.

        Asking whether one may play does not, nor does a guest's start: sessions are anybody's to ask for, and a guest
        who plays nothing leaves nothing. Nor does anything of a guest's where no guest may play, nor what is asked of
        a game that is not shown.
        """
        if self.session is None and not snapshot.shown:
            return False
        if isinstance(self.request, READS) or self.needs_token(snapshot):
            return False
        if not ids.is_guest(self.player_id):
            return True
        return not isinstance(self.request, m.StartRequest) and (snapshot.access == "public" or snapshot.admits_guests)


@dataclass(slots=True)
class Decision:
    """What a request will be answered once its changes are committed, and what is then published."""

    pending: PendingRequest
    reply: Any
    events: list[Event] = field(default_factory=list)
