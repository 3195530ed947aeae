"""The play path: a game's actor decides all that waits in its mailbox in one turn.

    open    verify each session; answer what needs no state
    look    read what is not remembered, for all of them, in at most one round trip
    decide  each by the pure rules, in order, as if the ones before it had happened
    commit  through the tenant's committer: one guarded statement
    answer  and publish, off the players' path

What the actor remembers only saves reading it again: nobody is refused, and no prize is called
unavailable, by a memory. Where one would be, the actor looks first (`Doubt`). Where the commit's guard
finds anything changed, all is forgotten, looked at again, and decided again; what then still fails is
decided play by play, so one bad play never fails its neighbours.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import msgspec

import sql
from runtime import events, ids
from runtime import messages as m
from runtime.actors import milestones, rulebook
from runtime.actors.awards import Winner, award, pending_tasks
from runtime.actors.commit import Changes
from runtime.actors.engine import Engine
from runtime.actors.mailbox import Work
from runtime.actors.rulebook import PrizeCard, Rulebook
from runtime.actors.sessions import Session, issue, open_session
from runtime.database import Guarded, StoreUnavailable
from runtime.errors import Fault, Status, invalid
from runtime.metrics import FULFILLMENT_TASKS
from runtime.rules import Attempt, Outcome, Words, check_client_seed, seed_hash

QUERIES: Final = sql.load("play")
TOGETHER_ROUNDS: Final = 2
"""How often a whole batch is decided before it is taken apart."""
ALONE_ROUNDS: Final = 32
"""How often one play is decided before its player is asked to try again."""
RIVAL_PAUSE_SECONDS: Final = 0.004
"""The longest pause between two such rounds is this times their number, up to eight."""
SEATS_MAX: Final = 10_000
"""Players that one game's actor remembers; beyond it, it forgets them all and looks again."""
LOOK_SECONDS: Final = 1.0
"""A start is not accepted by a rulebook that was last compared with the database longer ago than this."""
_READS: Final = (m.EligibilityRequest, m.ListMilestonesRequest)
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

    hash: of what it asks, where it carries an idempotency key. searched: it is known not to be
    committed already; without that it is not refused, since it may be a retry of what used up its cap.
    """

    work: Work[Any]
    request: Any
    player_id: str
    session: Session | None = None
    guest: bool = False
    hash: bytes | None = None
    searched: bool = False


@dataclass(slots=True)
class Decision:
    """What a ticket will be answered once it is committed, and what is then published."""

    ticket: Ticket
    reply: Any
    events: list[events.Event] = field(default_factory=list)


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
                book = self.book = await rulebook.load(engine.database, self.tenant_id, self.game_id)
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
                if ticket.player_id not in self.seats or isinstance(ticket.request, _READS)
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
            if not isinstance(ticket.request, _READS) and not (ticket.guest and book.access != "public")
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

    # ---------------------------------------------------------------- decide

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
            self.credit(book, seat, rulebook.POINTS, amount, "play_reward", reference, changes)
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

    def start(self, book: Rulebook, ticket: Ticket) -> m.StartReply:
        """A session for the player, where a play would now be admitted."""
        now = self.engine.clock.now()
        book.refuse_unless_open(now)
        seat = self.seats[ticket.player_id]
        self.admit(book, seat)
        settings = self.engine.settings
        session = issue(settings.server_keys, self.tenant_id, self.game_id, ticket.player_id, now)
        seed = session.seed
        return m.StartReply(
            session_id=session.token,
            seed_hash=seed_hash(seed),
            expires_at=session.issued_ms // 1000 + settings.session_ttl_seconds,
            drop_plan=[
                m.PlannedDrop(id=drop.id, type=drop.type, at_ms=drop.at_ms)
                for drop in book.rules.seed_generator.plan(book.rules.config, seed)
            ],
            guest_player_id=ticket.player_id if ticket.guest else "",
        )

    def eligibility(self, book: Rulebook, ticket: Ticket) -> m.EligibilityReply:
        """Whether `start` would be let in, and why not. By what was just read (`_READS`)."""
        seat = self.seats[ticket.player_id]
        reply = m.EligibilityReply(can_play=True, remaining_turns=seat.turns, free_plays_remaining=-1)
        if book.max_plays_per_day:
            reply.free_plays_remaining = max(0, book.max_plays_per_day - seat.day_plays)
            reply.resets_at = self.resets_at
        if book.max_plays_per_user:
            left = max(0, book.max_plays_per_user - seat.plays)
            free = reply.free_plays_remaining
            reply.free_plays_remaining = left if free < 0 else min(free, left)
        if book.requires_turn:
            reply.free_plays_remaining = 0
        try:
            book.refuse_unless_open(self.engine.clock.now())
            self.admit(book, seat)
        except Fault as fault:
            reply.can_play = False
            reply.reason = fault.reason
            reply.resets_at = fault.facts.get("resets_at", reply.resets_at)
        return reply

    def play(self, book: Rulebook, ticket: Ticket, changes: Changes) -> Decision:
        """One play, decided: everything that it changes goes into `changes`."""
        request, session = ticket.request, ticket.session
        assert session is not None
        now = self.engine.clock.now()
        book.refuse_unless_open(now)
        seat = self.seats[ticket.player_id]
        spends_turn = self.admit(book, seat)
        seed, rules = session.seed, book.rules
        plan = rules.seed_generator.plan(rules.config, seed)
        payload = request.payload or {}
        elapsed_ms = int(now * 1000) - session.issued_ms
        rules.validator.check(rules.reward_handler, rules.config, payload, plan, elapsed_ms)
        outcome = rules.reward_handler.decide(
            Attempt(
                rules.config,
                book.game,
                Words(seed, request.client_seed),
                payload,
                plan,
                lambda prize_id, quantity: self.available(book.prizes.get(prize_id), seat, quantity),
            )
        )
        # From here on nothing refuses: what is remembered moves on, for the plays behind this one.
        play_id, entries_before = session.play_id, len(changes.ledger)
        self._count(book, seat, play_id, spends_turn, changes)
        winner = Winner(seat.player_id, book.campaign_id, self.day, self.game_id, play_id)
        rewards, points = self._rewards(book, seat, outcome, winner, changes)
        granted = milestones.cross(self, book, seat, winner, changes) if book.auto_grant else []
        currencies = dict.fromkeys(entry[3] for entry in changes.ledger[entries_before:])
        reply = m.PlayReply(
            rewards=rewards,
            metadata=outcome.metadata,
            play_id=play_id,
            seed=seed.hex(),
            seed_hash=seed_hash(seed),
            balances=[m.CurrencyBalance(currency=name, balance=seat.balances[name]) for name in currencies],
            milestones_granted=granted,
        )
        changes.plays.append(
            (
                play_id,
                self.game_id,
                seat.player_id,
                session.token,
                book.revision,
                seed,
                request.client_seed,
                payload,
                encode_outcome(outcome, reply),
                outcome.score,
                len(rewards),
                points,
                request.idempotency_key or None,
                ticket.hash,
            )
        )
        return Decision(ticket, reply, self._events(book, ticket, outcome, reply, points, now))

    def _count(self, book: Rulebook, seat: Seat, play_id: str, spends_turn: bool, changes: Changes) -> None:
        """Counts the play, and spends the turn that it costs."""
        seat.plays += 1
        seat.day_plays += 1
        # A play that spends a turn is beyond the day's free ones: its bound is that no rival played in between.
        day_cap = book.max_plays_per_day
        if spends_turn and not book.requires_turn:
            day_cap = seat.day_plays
        changes.count_play(self.game_id, seat.player_id, self.day, cap=book.max_plays_per_user, day_cap=day_cap)
        if spends_turn:
            changes.move_turns(ids.make("turn"), seat.player_id, book.campaign_id, seat.turns, -1, "play", play_id)
            seat.turns -= 1

    def _rewards(
        self, book: Rulebook, seat: Seat, outcome: Outcome, winner: Winner, changes: Changes
    ) -> tuple[list[m.WonReward], int]:
        """Gives what the rule decided. The rewards that the player is told of, and the points among them."""
        before = seat.balances.get(rulebook.POINTS, 0)
        rewards: list[m.WonReward] = []
        for won in outcome.awards:
            rewards += self.give(book, seat, book.prizes[won.prize_id], won.quantity, winner, changes)
        for won_item in outcome.credits:
            self.credit(book, seat, won_item.item, won_item.quantity, "play_reward", winner.play_id, changes)
            rewards.append(m.WonReward(name=won_item.item, type="item", quantity=won_item.quantity))
        return rewards, seat.balances.get(rulebook.POINTS, 0) - before

    def _events(
        self, book: Rulebook, ticket: Ticket, outcome: Outcome, reply: m.PlayReply, points: int, now: float
    ) -> list[events.Event]:
        """play_completed, and prize_won for each prize."""
        about = {"play_id": reply.play_id, "game_id": self.game_id, "player_id": ticket.player_id}
        completed = {**about, "score": outcome.score, "wins": len(reply.rewards), "points": points}
        found = [self.event(events.PLAY_COMPLETED, book, ticket, now, completed)]
        for reward in reply.rewards:
            if reward.prize_id:
                won = {
                    **about,
                    "prize_id": reward.prize_id,
                    "reward_id": reward.reward_id,
                    "name": reward.name,
                    "type": reward.type,
                    "quantity": reward.quantity,
                    "value": reward.value,
                }
                found.append(self.event(events.PRIZE_WON, book, ticket, now, won))
        for rung in reply.milestones_granted:
            won = {**about, "prize_id": rung.prize_id, "reward_id": rung.reward_id, "milestone_id": rung.id}
            found.append(self.event(events.PRIZE_WON, book, ticket, now, won))
        return found

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


# -------------------------------------------------------------------- the turn


async def turn(actor: GameActor, works: list[Work[Any]]) -> None:
    """Does everything that waited in the game's mailbox."""
    tickets = _open(actor, works)
    for attempt in range(TOGETHER_ROUNDS):
        if not tickets:
            return
        tickets = await _round(actor, tickets, again=attempt > 0)
    for ticket in tickets:
        await _alone(actor, ticket)


async def _alone(actor: GameActor, ticket: Ticket) -> None:
    """Decides one ticket by itself, as often as its rivals make it necessary."""
    for number in range(ALONE_ROUNDS):
        if not await _round(actor, [ticket], again=True):
            return
        # Rivals for one balance would meet again and again: each waits another while.
        await asyncio.sleep(random.uniform(0, RIVAL_PAUSE_SECONDS * min(number, 8)))
    ticket.work.refuse(
        Fault(Status.UNAVAILABLE, "OVERLOADED", "too much happened at once; try again", retry_after_seconds=1)
    )


async def _round(actor: GameActor, tickets: list[Ticket], *, again: bool) -> list[Ticket]:
    """Looks, decides, commits, answers. Returns the tickets that must be decided again."""
    try:
        if again:
            tickets = await _answer_found(actor, tickets)
            if not tickets:
                return []
        async with actor.deciding:
            book = await actor.look(tickets, all_of_it=again)
            try:
                decisions, changes, later = _decide(actor, book, tickets)
            except Doubt:
                book = await actor.look(tickets, all_of_it=True)
                decisions, changes, later = _decide(actor, book, tickets)
            commit = (
                asyncio.ensure_future(actor.engine.committer.commit(actor.tenant_id, changes)) if decisions else None
            )
            if commit is not None:
                actor.committing.add(commit)
                commit.add_done_callback(actor.committing.discard)
    except Fault as fault:
        for ticket in tickets:
            ticket.work.refuse(fault)
        return []
    if commit is None:
        return later
    try:
        left = await commit
    except Guarded as guarded:
        _mend(actor, guarded)
        return [decision.ticket for decision in decisions] + later
    except StoreUnavailable as error:
        actor.forget()
        await _resolve(actor, decisions, error)
        return later
    except Exception as error:
        actor.forget()
        if len(decisions) > 1:
            return [decision.ticket for decision in decisions] + later
        decisions[0].ticket.work.refuse(error)
        return later
    for prize_id, remaining in left.items():
        # What other games of the tenant took of a shared prize shows here.
        if prize_id in actor.shelves and not actor.committing:
            actor.shelves[prize_id].remaining = remaining
    _answer(actor, decisions, changes)
    return later


def _mend(actor: GameActor, guarded: Guarded) -> None:
    """Forgets what a refused commit has shown to be stale."""
    if guarded.guard == "catalog":
        actor.book = None
    actor.forget()


def _open(actor: GameActor, works: list[Work[Any]]) -> list[Ticket]:
    """A ticket for each work; what can be refused by its request alone is refused here."""
    tickets = []
    for work in works:
        try:
            tickets.append(_ticket(actor, work))
        except Fault as fault:
            work.refuse(fault)
    return tickets


def _ticket(actor: GameActor, work: Work[Any]) -> Ticket:
    request = work.request
    match request:
        case m.PlayRequest():
            if not request.session_id:
                raise invalid("session_id", "is required")
            keys = actor.engine.settings.server_keys
            session = open_session(keys, actor.tenant_id, actor.game_id, request.session_id)
            if request.player_id and request.player_id != session.player_id:
                raise Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is another player's")
            check_client_seed(request.client_seed)
            hash = play_hash(request) if request.idempotency_key else None
            return Ticket(work, request, session.player_id, session, guest=not request.player_id, hash=hash)
        case m.RedeemRequest():
            if not request.player_id:
                raise invalid("player_id", "is required")
            return Ticket(work, request, request.player_id, hash=milestones.redeem_hash(request))
        case _:
            guest = not request.player_id
            return Ticket(work, request, request.player_id or ids.make("player"), guest=guest)


def _decide(actor: GameActor, book: Rulebook, tickets: list[Ticket]) -> tuple[list[Decision], Changes, list[Ticket]]:
    """(what is to be committed, its changes, the tickets that wait for another of this batch).

    Answers what changes nothing, and refuses what must be refused. Doubt goes through.
    """
    changes = Changes(book.version)
    decisions: list[Decision] = []
    later: list[Ticket] = []
    taken: set[Any] = set()
    settled: list[tuple[Ticket, Any]] = []
    for ticket in tickets:
        request = ticket.request
        # Its twin in this batch is decided first; this one then finds it committed.
        marks: set[tuple[Any, ...]] = set()
        if ticket.hash is not None:
            marks.add((ticket.player_id, request.idempotency_key))
        if ticket.session is not None:
            marks.add((ticket.session.nonce,))
        if not taken.isdisjoint(marks):
            later.append(ticket)
            continue
        try:
            _check_access(actor, book, ticket)
            match request:
                case m.PlayRequest():
                    decisions.append(actor.play(book, ticket, changes))
                    taken |= marks
                case m.RedeemRequest():
                    decisions.append(Decision(ticket, *milestones.redeem(actor, book, ticket, changes)))
                    taken |= marks
                case m.StartRequest():
                    settled.append((ticket, actor.start(book, ticket)))
                case m.EligibilityRequest():
                    settled.append((ticket, actor.eligibility(book, ticket)))
                case m.ListMilestonesRequest():
                    settled.append((ticket, milestones.progress(actor, book, ticket)))
        except Fault as fault:
            if ticket.searched or (ticket.session is None and ticket.hash is None):
                settled.append((ticket, fault))
            else:
                later.append(ticket)
    for ticket, answer in settled:
        if isinstance(answer, Fault):
            ticket.work.refuse(answer)
        else:
            ticket.work.answer(answer)
    return decisions, changes, later


def _check_access(actor: GameActor, book: Rulebook, ticket: Ticket) -> None:
    """UNAUTHENTICATED for nobody on a player's game; SESSION_EXPIRED for a play that comes too late."""
    if ticket.guest and book.access != "public" and not isinstance(ticket.request, m.EligibilityRequest):
        raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this game needs a player")
    session = ticket.session
    if session is not None:
        age_seconds = actor.engine.clock.now() - session.issued_ms / 1000
        ttl_seconds = actor.engine.settings.session_ttl_seconds
        if age_seconds > ttl_seconds:
            raise Fault(
                Status.FAILED_PRECONDITION, "SESSION_EXPIRED", f"a session may be played for {ttl_seconds} seconds"
            )


def _answer(actor: GameActor, decisions: list[Decision], changes: Changes) -> None:
    """Tells the players, then the streams."""
    for decision in decisions:
        decision.ticket.work.answer(decision.reply)
    publisher = actor.engine.publisher
    for decision in decisions:
        publisher.events(decision.events)
    pending = pending_tasks(changes)
    publisher.tasks(actor.tenant_id, pending)
    FULFILLMENT_TASKS.labels("delivered").inc(len(changes.tasks) - len(pending))


# -------------------------------------------------------------------- plays that are there already


async def _answer_found(actor: GameActor, tickets: list[Ticket]) -> list[Ticket]:
    """Answers the tickets whose play (or redeem) is committed already; returns the rest."""
    plays = [ticket for ticket in tickets if ticket.session is not None]
    found_plays: list[Any] = []
    if plays:
        keyed = [ticket for ticket in plays if ticket.hash is not None]
        found_plays = await actor.engine.database.fetch(
            QUERIES["find"],
            actor.tenant_id,
            [ticket.session.play_id for ticket in plays if ticket.session is not None],
            [ticket.player_id for ticket in keyed],
            [ticket.request.idempotency_key for ticket in keyed],
        )
    redeems = [ticket for ticket in tickets if ticket.session is None and ticket.hash is not None]
    found_redeems: dict[tuple[str, str], Any] = {}
    if redeems:
        rows = await actor.engine.database.fetch(
            QUERIES["find_redeems"],
            actor.tenant_id,
            [ticket.player_id for ticket in redeems],
            [ticket.request.idempotency_key for ticket in redeems],
        )
        found_redeems = {(row["player_id"], row["idempotency_key"]): row for row in rows}
    by_play = {row["play_id"]: row for row in found_plays}
    by_key = {(row["player_id"], row["idempotency_key"]): row for row in found_plays}
    rest = []
    for ticket in tickets:
        ticket.searched = True
        key = (ticket.player_id, ticket.request.idempotency_key) if ticket.hash is not None else None
        if ticket.session is None:
            row = found_redeems.get(key) if key else None
        else:
            row = (by_key.get(key) if key else None) or by_play.get(ticket.session.play_id)
        if row is None:
            rest.append(ticket)
        elif key is None or row["idempotency_key"] != key[1]:
            ticket.work.refuse(Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session was played already"))
        elif row["request_hash"] != ticket.hash:
            ticket.work.refuse(
                Fault(
                    Status.INVALID_ARGUMENT,
                    "IDEMPOTENCY_MISMATCH",
                    "this Idempotency-Key was used for another request",
                    http_status=422,
                )
            )
        else:
            ticket.work.answer(milestones.decode_row(row) if ticket.session is None else decode_row(row))
    return rest


async def _resolve(actor: GameActor, decisions: list[Decision], error: StoreUnavailable) -> None:
    """After a commit of unknown fate: what is found is answered, of what is not nothing is claimed."""
    waiting = [decision.ticket for decision in decisions]
    if error.sent:
        try:
            waiting = await _answer_found(actor, waiting)
        except Exception:  # The store is still away: nothing was learnt, and that is what is said.
            waiting = [decision.ticket for decision in decisions]
    for ticket in waiting:
        ticket.work.refuse(error)


def play_hash(request: m.PlayRequest) -> bytes:
    """What makes two requests under one Idempotency-Key the same: session, payload and client seed."""
    said = msgspec.json.encode([request.id, request.session_id, request.payload or {}, request.client_seed])
    return hashlib.sha256(said).digest()[:16]


def encode_outcome(outcome: Outcome, reply: m.PlayReply) -> bytes:
    """The play row's `outcome`: the rule's decision for replay, and the answer for history and retries."""
    return msgspec.json.encode(
        {
            "decided": outcome,
            "rewards": reply.rewards,
            "balances": reply.balances,
            "milestones_granted": reply.milestones_granted,
        }
    )


def decode_row(row: Any) -> m.PlayReply:
    """The answer that a committed play was given."""
    outcome, seed = row["outcome"], row["seed"]
    return m.PlayReply(
        rewards=[m.WonReward(**reward) for reward in outcome["rewards"]],
        metadata=outcome["decided"]["metadata"],
        play_id=row["play_id"],
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        balances=[m.CurrencyBalance(**balance) for balance in outcome["balances"]],
        milestones_granted=[m.GrantedMilestone(**rung) for rung in outcome["milestones_granted"]],
    )
