"""The play path: a game's actor decides all that waits in its mailbox in one turn.

    open    verify each session; answer what needs no state
    look    read what is not remembered, for all of them, in at most one round trip (game.py)
    decide  each by the pure rules, in order, as if the ones before it had happened (decide.py)
    commit  through the tenant's committer: one guarded statement (commit.py)
    answer  and publish, off the players' path

Where a memory would refuse somebody, the actor looks first (`Doubt`). Where the commit's guard finds
anything changed, all is forgotten, looked at again, and decided again; what then still fails is
decided play by play, so one bad play never fails its neighbours.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.game import decide, milestones
from runtime.actors.game.actor import Doubt, GameActor, Ticket
from runtime.actors.game.awards import pending_tasks
from runtime.actors.game.decide import Decision
from runtime.actors.game.retries import answer_found
from runtime.actors.game.sessions import open_session
from runtime.actors.game.snapshot import Rulebook
from runtime.actors.idempotency import keyed
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status, invalid
from runtime.metrics import FULFILLMENT_TASKS
from runtime.rules import check_client_seed
from runtime.stores.database import Guarded, StoreUnavailable

TOGETHER_ROUNDS: Final = 2
"""How often a whole batch is decided before it is taken apart."""
ALONE_ROUNDS: Final = 32
"""How often one play is decided before its player is asked to try again."""
RIVAL_PAUSE_SECONDS: Final = 0.004
"""The longest pause between two such rounds is this times their number, up to eight."""


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
        async with actor.deciding:
            book = await actor.look(tickets, all_of_it=again)
            if again:
                # After the look: whatever it would refuse a retry by is what the retry's first try committed.
                tickets = await answer_found(actor, tickets)
                if not tickets:
                    return []
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
            guest = not request.player_id
            return Ticket(work, request, session.player_id, session, guest, keyed(request, player_id=session.player_id))
        case m.RedeemRequest():
            if not request.player_id:
                raise invalid("player_id", "is required")
            return Ticket(work, request, request.player_id, asked=keyed(request))
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
        if ticket.asked.key is not None:
            marks.add((ticket.asked.player_id, ticket.asked.key))
        if ticket.session is not None:
            marks.add((ticket.session.nonce,))
        if not taken.isdisjoint(marks):
            later.append(ticket)
            continue
        try:
            _check_access(actor, book, ticket)
            match request:
                case m.PlayRequest():
                    decisions.append(decide.play(actor, book, ticket, changes))
                    taken |= marks
                case m.RedeemRequest():
                    decisions.append(Decision(ticket, *milestones.redeem(actor, book, ticket, changes)))
                    taken |= marks
                case m.StartRequest():
                    settled.append((ticket, decide.start(actor, book, ticket)))
                case m.EligibilityRequest():
                    settled.append((ticket, decide.eligibility(actor, book, ticket)))
                case m.ListMilestonesRequest():
                    settled.append((ticket, milestones.progress(actor, book, ticket)))
        except Fault as fault:
            if ticket.searched or (ticket.session is None and ticket.asked.key is None):
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


async def _resolve(actor: GameActor, decisions: list[Decision], error: StoreUnavailable) -> None:
    """After a commit of unknown fate: what is found is answered, of what is not nothing is claimed."""
    waiting = [decision.ticket for decision in decisions]
    if error.sent:
        try:
            waiting = await answer_found(actor, waiting)
        except Exception:  # The store is still away: nothing was learnt, and that is what is said.
            waiting = [decision.ticket for decision in decisions]
    for ticket in waiting:
        ticket.work.refuse(error)
