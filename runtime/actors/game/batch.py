"""The play path: a game's actor decides all that waits in its mailbox in one batch.

    open     verify each session; refuse what its request alone refuses
    refresh  read what is not remembered, for all of them, in at most one round trip (cache.py)
    decide   each by the pure rules, in order, as if the ones before it had happened (decide.py)
    commit   through the tenant's committer: one guarded statement (committer.py)
    answer   and publish, off the players' path

Where a memory would refuse somebody, the cache is refreshed first (`StaleRead`). Where the commit's
guard finds anything changed, all is forgotten, read again, and decided again; what then still fails is
decided play by play, so one bad play never fails its neighbours. A catalogue that changed meanwhile is no
play's fault, and takes no batch apart.
"""

from __future__ import annotations

import asyncio
import collections
import random
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog
from prometheus_client import Counter

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.committer import CATALOG, OVERLAP
from runtime.actors.engine import Actors
from runtime.actors.game import decide
from runtime.actors.game.awards import pending_tasks, record
from runtime.actors.game.cache import GameCache
from runtime.actors.game.eligibility import player_of
from runtime.actors.game.pending import READS, Answer, Decision, PendingRequest
from runtime.actors.game.retries import answer_found
from runtime.actors.game.sessions import open_session
from runtime.actors.game.state import GameState, StaleRead
from runtime.actors.idempotency import keyed
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status, invalid
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
    state: GameState
    changes: Changes
    decisions: list[Decision] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    later: list[PendingRequest] = field(default_factory=list)
    look: Any = None

    def undone(self) -> list[PendingRequest]:
        """The requests of the next round where nothing of this one was committed."""
        return [decision.pending for decision in self.decisions] + self.later


class GameActors(Actors[tuple[str, str], Any, GameCache]):
    """A game's starts, plays and redeems, and what is asked of them: decided and committed together."""

    overlap = OVERLAP

    @staticmethod
    def key_of(request: Any) -> tuple[str, str]:
        return request.scope.tenant_id, request.id

    def new_state(self, key: tuple[str, str]) -> GameCache:
        return GameCache(self.engine, key)

    async def process_batch(self, state: GameCache, works: list[Work[Any]]) -> None:
        await process_batch(state, works)

    def is_futile(self, state: GameCache) -> bool:
        return state.snapshot is None  # There is no such game.

    def distrust(self) -> None:
        for cache in self.states():
            cache.distrust(snapshot=True)


async def process_batch(cache: GameCache, works: list[Work[Any]]) -> None:
    """Answers everything that waited in the game's mailbox."""
    left, rounds = Left(_open(cache, works)), 0
    for attempt in range(ALONE_ROUNDS):
        if not left.requests or rounds == TOGETHER_ROUNDS:
            break
        left = await _round(cache, left.requests, again=attempt > 0)
        rounds += not left.outdated
    for pending in left.requests:
        await _alone(cache, pending)


async def _alone(cache: GameCache, pending: PendingRequest) -> None:
    """Decides one request by itself, as often as its rivals make it necessary."""
    for number in range(ALONE_ROUNDS):
        if not (await _round(cache, [pending], again=True)).requests:
            return
        # Rivals for one balance would meet again and again: each waits another while.
        await asyncio.sleep(random.uniform(0, RIVAL_PAUSE_SECONDS * min(number, 8)))
    pending.work.refuse(
        Fault(Status.UNAVAILABLE, "OVERLOADED", "too much happened at once; try again", retry_after_seconds=1)
    )


async def _round(cache: GameCache, requests: list[PendingRequest], *, again: bool) -> Left:
    """Refreshes, decides, commits, answers. Returns the requests that must be decided again."""
    try:
        async with cache.deciding:
            batch = await _refresh_and_decide(cache, requests, again=again)
            commit = _begin_commit(cache, batch)
    except Fault as fault:
        for pending in requests:
            pending.work.refuse(fault)
        return Left([])
    except Exception as error:
        # Of one of them, by a plugin's rule or a value: apart, it is that one's alone. What was decided of the others
        # before it is remembered, and not committed.
        cache.distrust()
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
        cache.distrust(snapshot=outdated)
        if _contradicted(batch, guarded):
            _give_up(cache, batch, guarded)
            return Left(batch.later)
        return Left(batch.undone(), outdated)
    except StoreUnavailable as error:
        cache.distrust()
        await _resolve(cache, batch, error)
        return Left(batch.later)
    except Exception as error:
        cache.distrust()
        if len(batch.decisions) > 1:
            return Left(batch.undone())
        batch.decisions[0].pending.work.refuse(error)
        return Left(batch.later)
    finally:
        del commit  # It holds the error that it raised, whose frames hold this one.
    batch.state.snapshot.played = True
    cache.note_stock(left)
    _answer(cache, batch)
    return Left(batch.later)


# -- open ------------------------------------------------------------------------------------


def _open(cache: GameCache, works: list[Work[Any]]) -> list[PendingRequest]:
    """A pending request for each work; what can be refused by its request alone is refused here."""
    requests = []
    for work in works:
        try:
            requests.append(_pending(cache, work))
        except Fault as fault:
            work.refuse(fault)
    return requests


def _pending(cache: GameCache, work: Work[Any]) -> PendingRequest:
    request = work.request
    match request:
        case m.PlayRequest():
            if not request.session_id:
                raise invalid("session_id", "is required")
            keyring = cache.engine.keyring
            session = open_session(
                keyring.server, cache.tenant_id, cache.game_id, request.session_id, elsewhere=keyring.missing
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


async def _refresh_and_decide(cache: GameCache, requests: list[PendingRequest], *, again: bool) -> Batch:
    """The batch, decided. Again: from what is read anew, and without those that are found committed."""
    await cache.refresh(requests, everything=again)
    requests = _own_sessions(requests)
    if again:
        # After the refresh: whatever it would refuse a retry by is what the retry's first try committed.
        requests = await answer_found(cache, requests)
    batch = _batch(cache, requests)
    if again and len(requests) == 1:
        batch.look = batch.state.look_of(player_of(batch.state, requests[0]))
    try:
        _decide(cache, batch)
    except StaleRead:
        await cache.refresh(requests, everything=True)
        batch = _batch(cache, requests)
        _decide(cache, batch)
    return batch


def _batch(cache: GameCache, requests: list[PendingRequest]) -> Batch:
    state = cache.state()
    return Batch(requests, state, Changes(state.snapshot.version))


def _own_sessions(requests: list[PendingRequest]) -> list[PendingRequest]:
    """Those but plays of another player's session, which are refused before anything is looked up for them.

    A session that was opened before a guest logged in plays for the player: so whose it is shows after the look.
    """
    strangers = [pending for pending in requests if pending.bearer]
    for pending in strangers:
        pending.work.refuse(Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "this session is another player's"))
    return [pending for pending in requests if pending not in strangers] if strangers else requests


def _decide(cache: GameCache, batch: Batch) -> None:
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
            decided = decide.decide(batch.state, pending)
            if isinstance(decided, Decision):
                record(batch.state, decided.effects, batch.changes)
                batch.decisions.append(decided)
            else:
                batch.answers.append(decided)
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
                cache.engine.starts.note(cache.tenant_id, cache.game_id, batch.state.now)
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
    kind = type(pending.request)
    shows = kind in READS or (batch.state.snapshot.shows_plan and kind is m.StartRequest)
    return shows and _follows(batch, pending)


def _marks(pending: PendingRequest) -> set[tuple[str, ...]]:
    """What a retry of the request has in common with it: its idempotency key, its session. Empty: nothing."""
    marks: set[tuple[str, ...]] = set()
    if pending.asked.key is not None:
        marks.add((pending.asked.player_id, pending.asked.key))
    if pending.session is not None:
        marks.add((pending.session.nonce,))
    return marks


# -- commit and answer -----------------------------------------------------------------------


def _begin_commit(cache: GameCache, batch: Batch) -> asyncio.Future[dict[str, int | None]] | None:
    """The commit of what was decided, under way; None where nothing changes."""
    if not batch.decisions:
        return None
    if not batch.state.snapshot.played:
        batch.changes.begin_history(cache.game_id)
    commit = asyncio.ensure_future(cache.engine.committer.commit(cache.tenant_id, batch.changes))
    # Whose plays, while they may yet be undone, say what those after them are: which plan's, or whether they are free.
    counted = batch.state.snapshot.shows_plan or batch.state.snapshot.max_plays_per_day
    players = (decision.pending.player_id for decision in batch.decisions) if counted else ()
    cache.committing[commit] = frozenset(players)
    commit.add_done_callback(cache.committing.pop)
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


def _give_up(cache: GameCache, batch: Batch, guarded: Guarded) -> None:
    """Look and guard go by different rules: no further try would help, and somebody must know."""
    pending = batch.decisions[0].pending
    CONTRADICTIONS.labels(guarded.guard).inc()
    log.error("guard_contradicted", guard=guarded.guard, tenant_id=cache.tenant_id, game_id=cache.game_id)
    pending.work.refuse(Fault(Status.INTERNAL, "INTERNAL", "something went wrong here; it has been logged"))


def _answer(cache: GameCache, batch: Batch) -> None:
    """Tells the players, then the streams."""
    for decision in batch.decisions:
        decision.pending.work.answer(decision.reply)
    publisher = cache.engine.publisher
    for decision in batch.decisions:
        publisher.events(decision.events)
    tasks = pending_tasks(batch.changes)
    publisher.tasks(cache.tenant_id, tasks)
    for status, count in collections.Counter(task.status for task in batch.changes.tasks).items():
        if status != "pending":
            FULFILLMENT_TASKS.labels(status).inc(count)


async def _resolve(cache: GameCache, batch: Batch, error: StoreUnavailable) -> None:
    """After a commit of unknown fate: what is found is answered, of what is not nothing is claimed."""
    waiting = [decision.pending for decision in batch.decisions]
    if error.sent:
        try:
            waiting = await answer_found(cache, waiting)
        except Exception:  # The store is still away: nothing was learnt, and that is what is said.
            waiting = [decision.pending for decision in batch.decisions]
    for pending in waiting:
        pending.work.refuse(error)
