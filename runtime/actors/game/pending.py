"""A request on its way through a game's actor, and what was decided of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runtime.actors.game.sessions import Session
from runtime.actors.idempotency import WITHOUT_KEY, KeyedRequest
from runtime.actors.mailbox import Work
from runtime.events import Event


@dataclass(slots=True)
class PendingRequest:
    """A request that waits for its answer, with the session that it opened.

    asked: under which idempotency key, where it carries one. searched: it is known not to be
    committed already; without that it is not refused, since it may be a retry of what used up its cap.
    newcomer: nobody was named, so this is a guest whom no row knows.
    look, contradictions: by what it was decided and then refused by a guard, and how often just so again.
    """

    work: Work[Any]
    request: Any
    player_id: str
    session: Session | None = None
    guest: bool = False
    asked: KeyedRequest = WITHOUT_KEY
    searched: bool = False
    newcomer: bool = False
    look: Any = None
    contradictions: int = 0


@dataclass(slots=True)
class Decision:
    """What a request will be answered once its changes are committed, and what is then published."""

    pending: PendingRequest
    reply: Any
    events: list[Event] = field(default_factory=list)
