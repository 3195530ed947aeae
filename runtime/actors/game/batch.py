"""The play path: a game's actor decides all that waits in its mailbox in one batch.

    open     verify each session; refuse what its request alone refuses
    refresh  read what is not remembered, for all of them, in at most one round trip (actor.py)
    decide   each by the pure rules, in order, as if the ones before it had happened (decide.py)
    commit   through the tenant's committer: one guarded statement (committer.py)
    answer   and publish, off the players' path

Where a memory would refuse somebody, the actor is refreshed first (`StaleRead`). Where the commit's
guard finds anything changed, all is forgotten, read again, and decided again; what then still fails is
decided play by play, so one bad play never fails its neighbours. A catalogue that changed meanwhile is no
play's fault, and takes no batch apart.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import Counter

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.committer import CATALOG
from runtime.actors.game import decide, milestones
from runtime.actors.game.actor import GameActor, StaleRead
from runtime.actors.game.awards import pending_tasks
from runtime.actors.game.pending import READS, Decision, PendingRequest
from runtime.actors.game.retries import answer_found
from runtime.actors.game.sessions import open_session
from runtime.actors.game.snapshot import GameSnapshot
from runtime.actors.idempotency import keyed
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status, invalid, merged, unknown
from runtime.metrics import FULFILLMENT_TASKS
from runtime.rules import check_client_seed
from runtime.stores.database import Guarded, StoreUnavailable

TOGETHER_ROUNDS: Final = 2
"""How often a whole batch is decided before it is taken apart, beside those that a changed catalogue undid."""
ALONE_ROUNDS: Final = 32
"""How often one play is decided before its player is asked to try again."""
RIVAL_PAUSE_SECONDS: Final = 0.004
"""The longest pause between two such rounds is this times their number, up to eight."""
CONTRADICTIONS_MAX: Final = 2
"""How often a fresh look may contradict the guard that refused one play, before that is an error."""
UNSEEN: Final = frozenset({"codes"})
"""Guards that may refuse for what a look does not see: a rival holds codes and has not committed them."""

CONTRADICTIONS: Final = Counter(
    "tombola_guard_contradictions",
    "Plays refused by a guard though a fresh look found no reason, by the guard.",
    ["guard"],
)

log = structlog.get_logger(__name__)


class Answer(NamedTuple):
    """What a request that changes nothing is told: its reply, or the Fault that refuses it."""

    pending: PendingRequest
    reply: Any


class Left(NamedTuple):
    """What a round leaves to be decided again. outdated: all of it, and for no fault of any: the catalogue changed."""

    requests: list[PendingRequest]
    outdated: bool = False


@dataclass(slots=True)
class Batch:
    """The requests that one round decides and commits together, and what it has made of them so far.

    decisions: of the requests that change something, by `changes`; answered when that is committed.
    answers: to the requests that change nothing; given when all are decided. later: the requests that the
    next round decides, behind another of this batch or behind a search for their first answer.
    look: what a request that is alone was decided by, where that was read anew.
    """

    requests: list[PendingRequest]
    snapshot: GameSnapshot
    changes: Changes
    decisions: list[Decision] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    later: list[PendingRequest] = field(default_factory=list)
    look: Any = None

    def undone(self) -> list[PendingRequest]:
        """The requests of the next round where nothing of this one was committed."""
        return [decision.pending for decision in self.decisions] + self.later


async def process_batch(actor: GameActor, works: list[Work[Any]]) -> None:
    """Answers everything that waited in the game's mailbox."""
    left, rounds = Left(_open(actor, works)), 0
    for attempt in range(ALONE_ROUNDS):
        if not left.requests or rounds == TOGETHER_ROUNDS:
            break
        left = await _round(actor, left.requests, again=attempt > 0)
        rounds += not left.outdated
    for pending in left.requests:
        await _alone(actor, pending)


async def _alone(actor: GameActor, pending: PendingRequest) -> None:
    """Decides one request by itself, as often as its rivals make it necessary."""
    for number in range(ALONE_ROUNDS):
        if not (await _round(actor, [pending], again=True)).requests:
            return
        # Rivals for one balance would meet again and again: each waits another while.
        await asyncio.sleep(random.uniform(0, RIVAL_PAUSE_SECONDS * min(number, 8)))
    pending.work.refuse(
        Fault(Status.UNAVAILABLE, "OVERLOADED", "too much happened at once; try again", retry_after_seconds=1)
    )


async def _round(actor: GameActor, requests: list[PendingRequest], *, again: bool) -> Left:
    """Refreshes, decides, commits, answers. Returns the requests that must be decided again."""
    try:
        async with actor.deciding:
            batch = await _refresh_and_decide(actor, requests, again=again)
            commit = _begin_commit(actor, batch)
    except Fault as fault:
        for pending in requests:
            pending.work.refuse(fault)
        return Left([])
    except Exception as error:
        # Of one of them, by a plugin's rule or a value: apart, it is that one's alone. What was decided of the others
        # before it is remembered, and not committed.
        actor.distrust()
        waiting = [pending for pending in requests if not pending.work.answered]
        if len(waiting) > 1:
            return Left(waiting)
        for pending in waiting:
            pending.work.refuse(error)
        return Left([])
    if commit is None:
        return Left(batch.later)
    try:
        left = await commit
    except Guarded as guarded:
        outdated = guarded.guard == CATALOG
        actor.distrust(snapshot=outdated)
        if _contradicted(batch, guarded):
            _give_up(actor, batch, guarded)
            return Left(batch.later)
        return Left(batch.undone(), outdated)
    except StoreUnavailable as error:
        actor.distrust()
        await _resolve(actor, batch, error)
        return Left(batch.later)
    except Exception as error:
        actor.distrust()
        if len(batch.decisions) > 1:
            return Left(batch.undone())
        batch.decisions[0].pending.work.refuse(error)
        return Left(batch.later)
    finally:
        del commit  # It holds the error that it raised, whose frames hold this one.
    batch.snapshot.played = True
    actor.note_stock(left)
    _answer(actor, batch)
    return Left(batch.later)


# -- open ------------------------------------------------------------------------------------


def _open(actor: GameActor, works: list[Work[Any]]) -> list[PendingRequest]:
    """A pending request for each work; what can be refused by its request alone is refused here."""
    requests = []
    for work in works:
        try:
            requests.append(_pending(actor, work))
        except Fault as fault:
            work.refuse(fault)
    return requests


def _pending(actor: GameActor, work: Work[Any]) -> PendingRequest:
    request = work.request
    match request:
        case m.PlayRequest():
            if not request.session_id:
                raise invalid("session_id", "is required")
            keyring = actor.engine.keyring
            session = open_session(
                keyring.server, actor.tenant_id, actor.game_id, request.session_id, elsewhere=keyring.missing
            )
            player_id = session.player_id
            check_client_seed(request.client_seed)
            anonymous = not request.player_id
            bearer = "" if request.player_id == player_id else request.player_id
            asked = keyed(request, player_id=player_id)
            return PendingRequest(work, request, player_id, session, anonymous, asked, bearer=bearer)
        case m.RedeemRequest():
            if not request.player_id:
                raise invalid("player_id", "is required")
            return PendingRequest(work, request, request.player_id, asked=keyed(request))
        case _:
            newcomer = not request.player_id
            player_id = request.player_id or ids.make("guest")
            return PendingRequest(work, request, player_id, anonymous=newcomer, newcomer=newcomer)


# -- refresh and decide ----------------------------------------------------------------------


async def _refresh_and_decide(actor: GameActor, requests: list[PendingRequest], *, again: bool) -> Batch:
    """The batch, decided. Again: from what is read anew, and without those that are found committed."""
    snapshot = await actor.refresh(requests, everything=again)
    requests = _own_sessions(requests)
    if again:
        # After the refresh: whatever it would refuse a retry by is what the retry's first try committed.
        requests = await answer_found(actor, requests)
    batch = Batch(requests, snapshot, Changes(snapshot.version))
    if again and len(requests) == 1:
        batch.look = actor.look_of(requests[0])
    try:
        _decide(actor, batch)
    except StaleRead:
        snapshot = await actor.refresh(requests, everything=True)
        batch = Batch(requests, snapshot, Changes(snapshot.version))
        _decide(actor, batch)
    return batch


def _own_sessions(requests: list[PendingRequest]) -> list[PendingRequest]:
    """Those but plays of another player's session, which are refused before anything is looked up for them.

    A session that was opened before a guest logged in plays for the player: so whose it is shows after the look.
    """
    strangers = [pending for pending in requests if pending.bearer]
    for pending in strangers:
        pending.work.refuse(Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is another player's"))
    return [pending for pending in requests if pending not in strangers] if strangers else requests


def _decide(actor: GameActor, batch: Batch) -> None:
    """Decides each request in order. Answers what changes nothing, and refuses what must be refused.

    StaleRead goes through, before anybody is answered; the batch is then of no more use.
    """
    taken: set[tuple[str, ...]] = set()
    for pending in batch.requests:
        marks = _marks(pending)
        if not taken.isdisjoint(marks) or _shows_what_follows(batch, pending):
            # Its twin, or what it follows, is decided first; this one then finds it committed.
            batch.later.append(pending)
            continue
        try:
            _check_access(actor, batch.snapshot, pending)
            _decide_one(actor, batch, pending)
            taken |= marks
        except Fault as fault:
            # Nor is anybody refused for what may yet be undone.
            if (pending.searched or not marks) and not _follows(batch, pending):
                batch.answers.append(Answer(pending, fault))
            else:
                batch.later.append(pending)
    for answer in batch.answers:
        if isinstance(answer.reply, Fault):
            answer.pending.work.refuse(answer.reply)
        else:
            if isinstance(answer.reply, m.StartReply):
                actor.engine.starts.note(actor.tenant_id, actor.game_id, actor.engine.clock.now())
            answer.pending.work.answer(answer.reply)


def _follows(batch: Batch, pending: PendingRequest) -> bool:
    """Whether this batch has decided something of the player's, which may yet be undone: a play submitted twice is.

    A redeem goes by stock, so it follows whatever anybody was given.
    """
    if isinstance(pending.request, m.RedeemRequest):
        return bool(batch.decisions)
    return any(decision.pending.player_id == pending.player_id for decision in batch.decisions)


def _shows_what_follows(batch: Batch, pending: PendingRequest) -> bool:
    """Whether this is answered by what would be the player's if all that was decided before it were committed.

    A start shows the plan of the play after those; a read shows what they leave.
    """
    request = pending.request
    shows = isinstance(request, READS) or (batch.snapshot.shows_plan and isinstance(request, m.StartRequest))
    return shows and _follows(batch, pending)


def _marks(pending: PendingRequest) -> set[tuple[str, ...]]:
    """What a retry of the request has in common with it: its idempotency key, its session. Empty: nothing."""
    marks: set[tuple[str, ...]] = set()
    if pending.asked.key is not None:
        marks.add((pending.asked.player_id, pending.asked.key))
    if pending.session is not None:
        marks.add((pending.session.nonce,))
    return marks


def _decide_one(actor: GameActor, batch: Batch, pending: PendingRequest) -> None:
    """Adds the request's decision, or its answer, to the batch. A Fault has changed nothing."""
    match pending.request:
        case m.PlayRequest():
            batch.decisions.append(decide.play(actor, batch.snapshot, pending, batch.changes))
        case m.RedeemRequest():
            batch.decisions.append(milestones.redeem(actor, batch.snapshot, pending, batch.changes))
        case m.StartRequest():
            batch.answers.append(Answer(pending, decide.start(actor, batch.snapshot, pending)))
        case m.EligibilityRequest():
            batch.answers.append(Answer(pending, decide.eligibility(actor, batch.snapshot, pending)))
        case m.ListMilestonesRequest():
            batch.answers.append(Answer(pending, milestones.progress(actor, batch.snapshot, pending)))


def _check_access(actor: GameActor, snapshot: GameSnapshot, pending: PendingRequest) -> None:
    """What the request may not do, whatever the rules of the game say.

    NOT_FOUND UNKNOWN_GAME where it is not shown; UNAUTHENTICATED TOKEN_MISSING for nobody on a player's game,
    and with a player's session;
    PERMISSION_DENIED LOGIN_REQUIRED for a guest there, PLAYER_MERGED for a start of a guest that has logged in;
    FAILED_PRECONDITION SESSION_EXPIRED for a play that comes too late.
    """
    request = pending.request
    if pending.session is None and not snapshot.shown:
        _refuse_unshown(actor, pending)
    if not isinstance(request, READS):
        if pending.needs_token(snapshot):
            raise Fault(Status.UNAUTHENTICATED, "TOKEN_MISSING", "this game needs a player")
        if not isinstance(request, m.RedeemRequest):  # Which is told first where it was granted before.
            actor.refuse_guest(snapshot, actor.state_of(pending))
    if isinstance(request, m.StartRequest) and request.player_id and request.player_id != pending.player_id:
        raise merged()
    session = pending.session
    if session is not None:
        age_seconds = actor.engine.clock.now() - session.issued_ms / 1000
        ttl_seconds = actor.engine.settings.session_ttl_seconds
        if age_seconds > ttl_seconds:
            raise Fault(
                Status.FAILED_PRECONDITION, "SESSION_EXPIRED", f"a session may be played for {ttl_seconds} seconds"
            )


def _refuse_unshown(actor: GameActor, pending: PendingRequest) -> None:
    """NOT_FOUND UNKNOWN_GAME of a game that is not shown, just as of one that is not there.

    Plays are not asked: a session was opened while it was shown. Nor is who has played it, or was granted a rung, of
    what is the player's own there; but nobody begins anything new.
    """
    if actor.compared_in != actor.round:
        raise StaleRead
    if isinstance(pending.request, (m.ListMilestonesRequest, m.RedeemRequest)):
        player = actor.state_of(pending)
        if player.plays or player.grants:
            return
        actor.require_fresh(player)
    raise unknown("game", actor.game_id)


# -- commit and answer -----------------------------------------------------------------------


def _begin_commit(actor: GameActor, batch: Batch) -> asyncio.Future[dict[str, int | None]] | None:
    """The commit of what was decided, under way; None where nothing changes."""
    if not batch.decisions:
        return None
    if not batch.snapshot.played:
        batch.changes.begin_history(actor.game_id)
    commit = asyncio.ensure_future(actor.engine.committer.commit(actor.tenant_id, batch.changes))
    # Whose plays, while they may yet be undone, say what those after them are: which plan's, or whether they are free.
    counted = batch.snapshot.shows_plan or batch.snapshot.max_plays_per_day
    players = (decision.pending.player_id for decision in batch.decisions) if counted else ()
    actor.committing[commit] = frozenset(players)
    commit.add_done_callback(actor.committing.pop)
    return commit


def _contradicted(batch: Batch, guarded: Guarded) -> bool:
    """True where a fresh look has twice found nothing that this guard could refuse by.

    Rivals change what is looked at: what is seen just as before, and refused again, was not refused for them.
    """
    if batch.look is None or guarded.guard in UNSEEN:
        return False
    pending = batch.decisions[0].pending
    pending.contradictions = pending.contradictions + 1 if batch.look == pending.look else 0
    pending.look = batch.look
    return pending.contradictions >= CONTRADICTIONS_MAX


def _give_up(actor: GameActor, batch: Batch, guarded: Guarded) -> None:
    """Look and guard go by different rules: no further try would help, and somebody must know."""
    pending = batch.decisions[0].pending
    CONTRADICTIONS.labels(guarded.guard).inc()
    log.error("guard_contradicted", guard=guarded.guard, tenant_id=actor.tenant_id, game_id=actor.game_id)
    pending.work.refuse(Fault(Status.INTERNAL, "INTERNAL", "something went wrong here; it has been logged"))


def _answer(actor: GameActor, batch: Batch) -> None:
    """Tells the players, then the streams."""
    for decision in batch.decisions:
        decision.pending.work.answer(decision.reply)
    publisher = actor.engine.publisher
    for decision in batch.decisions:
        publisher.events(decision.events)
    tasks = pending_tasks(batch.changes)
    publisher.tasks(actor.tenant_id, tasks)
    FULFILLMENT_TASKS.labels("delivered").inc(len(batch.changes.tasks) - len(tasks))


async def _resolve(actor: GameActor, batch: Batch, error: StoreUnavailable) -> None:
    """After a commit of unknown fate: what is found is answered, of what is not nothing is claimed."""
    waiting = [decision.pending for decision in batch.decisions]
    if error.sent:
        try:
            waiting = await answer_found(actor, waiting)
        except Exception:  # The store is still away: nothing was learnt, and that is what is said.
            waiting = [decision.pending for decision in batch.decisions]
    for pending in waiting:
        pending.work.refuse(error)
