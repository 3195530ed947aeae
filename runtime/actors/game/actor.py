"""A game's actor: what it remembers of one game, and how it looks again.

What it remembers only saves reading it again: nobody is refused, and no prize is called unavailable,
by a memory. `doubt` is asked before either, and makes the turn look first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import sql
from runtime import events, ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.engine import Engine
from runtime.actors.game import snapshot
from runtime.actors.game.awards import Winner, award
from runtime.actors.game.sessions import Session
from runtime.actors.game.snapshot import PrizeCard, Rulebook
from runtime.actors.idempotency import WITHOUT_KEY, KeyedRequest
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status

QUERIES: Final = sql.load("play")
SEATS_MAX: Final = 10_000
"""Players that one game's actor remembers; beyond it, it forgets them all and looks again."""
LOOK_SECONDS: Final = 1.0
"""A start is not accepted by a rulebook that was last compared with the database longer ago than this."""
READS: Final = (m.EligibilityRequest, m.ListMilestonesRequest)
"""Requests that are answered by what was just read, and that make nobody a player."""
CAP: Final = Status.FAILED_PRECONDITION


@dataclass(slots=True)
class Seat:
    """What a player is at, in one game, today. balances: of the game's wallet scope. grants: rung -> when.

    read_in: the actor's round in which it was read; in any later one it is a memory.
    """

    player_id: str
    plays: int
    day_plays: int
    turns: int
    prizes: dict[str, int]
    balances: dict[str, int]
    grants: dict[str, int]
    read_in: int


@dataclass(slots=True)
class Shelf:
    """What is left of a prize: units (None: unlimited), codes in the pool, and how many went out today."""

    remaining: int | None
    day_awarded: int
    codes: int
    read_in: int


class Doubt(Exception):
    """A memory would refuse this: look before it does."""


@dataclass(slots=True)
class Ticket:
    """A request in this turn, with the session that it opened.

    asked: under which idempotency key, where it carries one. searched: it is known not to be
    committed already; without that it is not refused, since it may be a retry of what used up its cap.
    """

    work: Work[Any]
    request: Any
    player_id: str
    session: Session | None = None
    guest: bool = False
    asked: KeyedRequest = WITHOUT_KEY
    searched: bool = False


class GameActor:
    """One game's memory: its rulebook, its players' seats, its prizes' shelves."""

    __slots__ = (
        "engine",
        "tenant_id",
        "game_id",
        "book",
        "seats",
        "shelves",
        "day",
        "resets_at",
        "looked_at",
        "round",
        "deciding",
        "committing",
    )

    def __init__(self, engine: Engine, key: tuple[str, str]) -> None:
        self.engine = engine
        self.tenant_id, self.game_id = key
        self.book: Rulebook | None = None
        self.seats: dict[str, Seat] = {}
        self.shelves: dict[str, Shelf] = {}
        self.day = date.min
        self.resets_at = 0
        self.looked_at = 0.0
        self.round = 0
        self.deciding = asyncio.Lock()
        self.committing: set[asyncio.Future[Any]] = set()

    def forget(self) -> None:
        """Drops what was remembered of players and prizes; with the rulebook, where that may have changed."""
        self.seats.clear()
        self.shelves.clear()
        self.looked_at = 0.0

    # ---------------------------------------------------------------- look

    async def look(self, tickets: Sequence[Ticket], *, all_of_it: bool) -> Rulebook:
        """Begins a round: reads what the tickets need and is not remembered, or all that they need."""
        engine = self.engine
        if all_of_it and self.committing:
            # What is being committed is not there to be read yet: forgetting it now would be forgetting it twice.
            await asyncio.wait(self.committing)
        self.round += 1
        while True:
            book = self.book
            if book is None or book.version < engine.catalog_versions.get(self.tenant_id, 0):
                book = self.book = await snapshot.load(engine.database, self.tenant_id, self.game_id)
                engine.catalog_changed(self.tenant_id, book.version)
                self.forget()
            now = engine.clock.now()
            day, self.resets_at = book.today(now)
            if day != self.day or all_of_it or len(self.seats) > SEATS_MAX:
                self.day = day
                self.forget()
            needed = {
                ticket.player_id: ticket
                for ticket in tickets
                if ticket.player_id not in self.seats or isinstance(ticket.request, READS)
            }
            if not needed and self.looked_at and now - self.looked_at < LOOK_SECONDS:
                return book
            if await self._read(book, needed) == book.version:
                return book
            self.book = None

    async def _read(self, book: Rulebook, needed: dict[str, Ticket]) -> int:
        """Reads the seats of the players in `needed`, and every shelf. The catalogue's version."""
        # Asking whether one may play makes nobody a player; nor does a guest where no guest may play.
        made = sorted(
            player_id
            for player_id, ticket in needed.items()
            if not isinstance(ticket.request, READS) and not (ticket.guest and book.access != "public")
        )
        row = await self.engine.database.fetchrow(
            QUERIES["look"],
            self.tenant_id,
            self.game_id,
            list(needed),
            list(book.prizes),
            made,
            ["guest" if needed[player_id].guest else "external" for player_id in made],
            book.campaign_id,
            book.scope_key,
            self.day,
        )
        assert row is not None, "look always has its one row"
        for player_id, plays, day_plays, turns, prizes, balances, grants in row["players"] or ():
            self.seats[player_id] = Seat(
                player_id, plays, day_plays, turns, prizes or {}, balances or {}, grants or {}, self.round
            )
        for prize_id, remaining, day_awarded, codes in row["prizes"] or ():
            if not self.committing or prize_id not in self.shelves:
                self.shelves[prize_id] = Shelf(remaining, day_awarded, codes, self.round)
        self.looked_at = self.engine.clock.now()
        version: int = row["catalog_version"]
        return version

    # ---------------------------------------------------------------- what a decision asks and moves

    def admit(self, book: Rulebook, seat: Seat) -> bool:
        """True where the play spends a turn. Refuses with the cap that is reached, and when it resets."""
        if book.max_plays_per_user and seat.plays >= book.max_plays_per_user:
            self.doubt(seat)
            limit = book.max_plays_per_user
            raise Fault(CAP, "CAP_USER", f"{seat.plays} of {limit} plays used", limit=limit, resets_at=0)
        day_used = bool(book.max_plays_per_day) and seat.day_plays >= book.max_plays_per_day
        if not day_used and not book.requires_turn:
            return False
        if seat.turns > 0 and not (day_used and book.requires_turn):
            return True
        self.doubt(seat)
        if day_used:
            limit = book.max_plays_per_day
            raise Fault(
                CAP, "CAP_DAY", f"{seat.day_plays} of {limit} plays used today", limit=limit, resets_at=self.resets_at
            )
        raise Fault(CAP, "NO_TURNS", "a play of this game needs a turn, and there is none", resets_at=0)

    def doubt(self, seen: Seat | Shelf) -> None:
        """To be called before anything is refused because of `seen`: raises Doubt where that is a memory."""
        if seen.read_in != self.round:
            raise Doubt

    def available(self, prize: PrizeCard | None, seat: Seat, quantity: int) -> bool:
        """May this player take `quantity` of the prize now?"""
        shelf = None if prize is None else self.shelves.get(prize.prize_id)
        if prize is not None and shelf is not None and prize.active:
            held = seat.prizes.get(prize.prize_id, 0)
            if (
                (shelf.remaining is None or shelf.remaining >= quantity or prize.is_points)
                and (not prize.takes_code or shelf.codes >= quantity)
                and (not prize.max_per_user or held + quantity <= prize.max_per_user)
                and (not prize.max_per_day or shelf.day_awarded + quantity <= prize.max_per_day)
            ):
                return True
            self.doubt(shelf)
            self.doubt(seat)
        return False

    def take(self, prize: PrizeCard, seat: Seat, quantity: int) -> None:
        """Remembers that `quantity` of the prize went to this player."""
        shelf = self.shelves[prize.prize_id]
        if shelf.remaining is not None and not prize.is_points:
            shelf.remaining -= quantity
        shelf.codes -= quantity if prize.takes_code else 0
        shelf.day_awarded += quantity
        seat.prizes[prize.prize_id] = seat.prizes.get(prize.prize_id, 0) + quantity

    def give(
        self, book: Rulebook, seat: Seat, prize: PrizeCard, quantity: int, winner: Winner, changes: Changes
    ) -> list[m.WonReward]:
        """Gives `quantity` of a prize: points to the wallet, anything else as rewards."""
        self.take(prize, seat, quantity)
        if not prize.is_points:
            return award(changes, prize, quantity, winner)
        changes.take_prize(
            prize.prize_id,
            seat.player_id,
            quantity,
            self.day,
            stocked=False,
            per_user=prize.max_per_user,
            per_day=prize.max_per_day,
        )
        if amount := prize.points * quantity:
            reference = winner.play_id or winner.milestone_id
            self.credit(book, seat, snapshot.POINTS, amount, "play_reward", reference, changes)
        return [
            m.WonReward(prize_id=prize.prize_id, name=prize.name, type=prize.type, quantity=quantity, value=prize.value)
        ]

    def credit(
        self, book: Rulebook, seat: Seat, currency: str, amount: int, reason: str, reference_id: str, changes: Changes
    ) -> None:
        """Moves a balance of the game's wallet scope."""
        seat.balances[currency] = changes.move_balance(
            ids.make("entry"),
            seat.player_id,
            book.scope_key,
            currency,
            seat.balances.get(currency),
            amount,
            reason,
            reference_id,
        )

    def event(self, type: str, book: Rulebook, ticket: Ticket, now: float, data: dict[str, Any]) -> events.Event:
        """An event of this game, in the trace of the request that caused it."""
        return events.new_event(
            type,
            occurred_at=now,
            tenant_id=self.tenant_id,
            merchant_id=book.merchant_id,
            campaign_id=book.campaign_id,
            data=data,
            trace_id=ticket.work.trace_id,
        )
