"""The play path: a game's actor decides all requests that wait in its mailbox as one batch.

    open     verify each session; refuse requests that are invalid by themselves
    refresh  read what the batch needs and the cache lacks, in at most one round trip (cache.py)
    decide   apply the pure rules to each request in order, as if the earlier ones had committed (decide.py)
    commit   through the committer: one guarded statement (committer.py)
    answer   reply to the players, then publish events and tasks off their path

Cached data alone never refuses a request: the rules raise `StaleRead` and the cache is refreshed first. When a guard
of the commit finds that a row has changed, the batch is read and decided again. If it still fails, its requests are
decided one by one, so that one bad play cannot fail the others. A changed catalogue does not count as such a failure.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final, NamedTuple

import msgspec
import structlog
from prometheus_client import Counter

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.committer import CATALOG, OVERLAP
from runtime.actors.engine import Actors
from runtime.actors.game import decide
from runtime.actors.game.awards import publish_tasks, record
from runtime.actors.game.cache import GameCache
from runtime.actors.game.eligibility import player_of
from runtime.actors.game.pending import READS, Answer, Decision, PendingRequest
from runtime.actors.game.retries import answer_committed
from runtime.actors.game.sessions import open_session
from runtime.actors.game.state import GameState, StaleRead
from runtime.actors.idempotency import keyed
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status, invalid
from runtime.rules import check_client_seed
from runtime.stores.database import GUARDS, Guarded, StoreUnavailable

BATCH_ROUNDS: Final = 2
"""Attempts to decide a whole batch before it is split, not counting those undone by a changed catalogue."""
SINGLE_ROUNDS: Final = 32
"""Attempts to decide a request before OVERLOADED is returned. Also limits a batch whose catalogue keeps changing."""
CONFLICT_PAUSE_SECONDS: Final = 0.004
"""Back-off after attempt n (from 0) of a single request: a random pause of up to min(n, 8) times this."""
CONTRADICTIONS_MAX: Final = 2
"""How often fresh data may contradict the guard that refused a single play before it is an error."""
UNSEEN: Final = frozenset({"codes"})
"""Guards that may refuse for a reason the snapshot cannot show: a concurrent claim locks codes without committing."""

CONTRADICTIONS: Final = Counter(
    "tombola_guard_contradictions",
    "Plays refused by a guard although fresh data showed no reason, by guard.",
    ["guard"],
)
for _guard in GUARDS:
    CONTRADICTIONS.labels(_guard)  # A series that first appears with an event cannot be alerted on.

log = structlog.get_logger(__name__)


class Unresolved(NamedTuple):
    """The requests to decide again. outdated: the catalogue changed, so none of them is at fault."""

    requests: list[PendingRequest]
    outdated: bool = False


class Batch(msgspec.Struct):
    """The requests that one round decides and commits together, with their results so far.

    decisions: of requests that write `changes`; answered once that is committed. answers: for requests that change
    nothing; sent once all are decided. later: requests left to the next round, because they depend on another request
    of this batch or need a search for their first answer. inputs: the freshly read state that a single request was
    decided by.
    """

    requests: list[PendingRequest]
    state: GameState
    changes: Changes
    decisions: list[Decision] = msgspec.field(default_factory=list)
    answers: list[Answer] = msgspec.field(default_factory=list)
    later: list[PendingRequest] = msgspec.field(default_factory=list)
    inputs: Any = None

    def undone(self) -> list[PendingRequest]:
        """The requests of the next round if nothing of this one was committed."""
        return [decision.pending for decision in self.decisions] + self.later


class GameActors(Actors[tuple[str, str], Any, GameCache]):
    """One game's starts, plays, redeems and reads, decided and committed together."""

    overlap = OVERLAP
    name = "games"

    @staticmethod
    def key_of(request: Any) -> tuple[str, str]:
        return request.scope.tenant_id, request.id

    def new_state(self, key: tuple[str, str]) -> GameCache:
        return GameCache(self.engine, key)

    async def process_batch(self, state: GameCache, works: list[Work[Any]]) -> None:
        await process_batch(state, works)

    def is_unneeded(self, state: GameCache) -> bool:
        return state.snapshot is None  # No such game.

    def distrust(self) -> None:
        for cache in self.states():
            cache.distrust(snapshot=True)


async def process_batch(cache: GameCache, works: list[Work[Any]]) -> None:
    """Answers all requests that waited in the game's mailbox."""
    unresolved, rounds = Unresolved(_open(cache, works)), 0
    for attempt in range(SINGLE_ROUNDS):
        if not unresolved.requests or rounds == BATCH_ROUNDS:
            break
        unresolved = await _round(cache, unresolved.requests, again=attempt > 0)
        rounds += not unresolved.outdated
    for pending in unresolved.requests:
        await _decide_single(cache, pending)


async def _decide_single(cache: GameCache, pending: PendingRequest) -> None:
    """Decides one request by itself, and repeats it while concurrent writes undo it."""
    for number in range(SINGLE_ROUNDS):
        if not (await _round(cache, [pending], again=True)).requests:
            return
        # Random back-off: requests that compete for one balance would otherwise collide again and again.
        await asyncio.sleep(random.uniform(0, CONFLICT_PAUSE_SECONDS * min(number, 8)))
    pending.work.refuse(
        Fault(Status.UNAVAILABLE, "OVERLOADED", "too many concurrent changes; try again", retry_after_seconds=1)
    )


async def _round(cache: GameCache, requests: list[PendingRequest], *, again: bool) -> Unresolved:
    """Refreshes, decides, commits, answers. Returns the requests that must be decided again."""
    try:
        async with cache.deciding:
            batch = await _refresh_and_decide(cache, requests, again=again)
            commit = _begin_commit(cache, batch)
    except Fault as fault:
        cache.distrust()  # If the committer is full, the cache has decisions that are not committed.
        for pending in requests:
            pending.work.refuse(fault)
        return Unresolved([])
    except Exception as error:
        # One request failed, for example in a plugin's rule. Decide each alone, so that only that one is refused.
        # Decisions made before it are in the cache but not committed, so the cache is read again.
        cache.distrust()
        waiting = [pending for pending in requests if not pending.work.answered]
        if len(waiting) > 1:
            return Unresolved(waiting)
        for pending in waiting:
            pending.work.refuse(error)
        return Unresolved([])
    if commit is None:
        return Unresolved(batch.later)
    try:
        remaining = await commit
    except Guarded as guarded:
        outdated = guarded.guard == CATALOG
        cache.distrust(snapshot=outdated)
        if _contradicted(batch, guarded):
            _give_up(cache, batch, guarded)
            return Unresolved(batch.later)
        return Unresolved(batch.undone(), outdated)
    except StoreUnavailable as error:
        cache.distrust()
        await _resolve(cache, batch, error)
        return Unresolved(batch.later)
    except Exception as error:
        cache.distrust()
        if len(batch.decisions) > 1:
            return Unresolved(batch.undone())
        batch.decisions[0].pending.work.refuse(error)
        return Unresolved(batch.later)
    finally:
        del commit  # It holds the error it raised, whose frames refer to this one: a reference cycle.
    batch.state.snapshot.played = True
    cache.record_stock(remaining)
    _answer(cache, batch)
    return Unresolved(batch.later)


# -- open ------------------------------------------------------------------------------------


def _open(cache: GameCache, works: list[Work[Any]]) -> list[PendingRequest]:
    """A pending request for each work item. Requests that are invalid by themselves are refused here."""
    requests = []
    for work in works:
        try:
            requests.append(_pending(cache, work))
        except Fault as fault:
            work.refuse(fault)
    return requests


def _pending(cache: GameCache, work: Work[Any]) -> PendingRequest:
    request = work.request
    match type(request):
        case m.PlayRequest:
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
            idempotency = keyed(request, player_id=player_id)
            return PendingRequest(work, request, player_id, session, anonymous, idempotency, bearer=bearer)
        case m.RedeemRequest:
            if not request.player_id:
                raise invalid("player_id", "is required")
            return PendingRequest(work, request, request.player_id, idempotency=keyed(request))
        case _:
            newcomer = not request.player_id
            player_id = request.player_id or ids.make("guest")
            return PendingRequest(work, request, player_id, anonymous=newcomer, newcomer=newcomer)


# -- refresh and decide ----------------------------------------------------------------------


async def _refresh_and_decide(cache: GameCache, requests: list[PendingRequest], *, again: bool) -> Batch:
    """The decided batch. again: read everything anew, and drop the requests that are already committed."""
    await cache.refresh(requests, everything=again)
    requests = _own_sessions(requests)
    if again:
        # After the refresh: its data may include the retry's first attempt, which must answer and not refuse the retry.
        requests = await answer_committed(cache, requests)
    batch = _batch(cache, requests)
    if again and len(requests) == 1:
        batch.inputs = batch.state.inputs_of(player_of(batch.state, requests[0]))
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
    """Refuses plays of another player's session, before anything is looked up for them. Returns the other requests.

    Call after the refresh: a session opened by a guest before its login belongs to the player it was merged into.
    """
    refused = [pending for pending in requests if pending.bearer]
    for pending in refused:
        pending.work.refuse(Fault(Status.PERMISSION_DENIED, "SESSION_INVALID", "the session is another player's"))
    return [pending for pending in requests if pending not in refused] if refused else requests


def _decide(cache: GameCache, batch: Batch) -> None:
    """Decides each request in order. Answers those that change nothing and refuses those that must be refused.

    StaleRead passes through before any request is answered; the batch must then be discarded.
    """
    taken: set[tuple[str, ...]] = set()
    for pending in batch.requests:
        retry_keys = _retry_keys(pending)
        if not taken.isdisjoint(retry_keys) or _shows_what_follows(batch, pending):
            # Decide its duplicate or predecessor first; the next round then finds that committed.
            batch.later.append(pending)
            continue
        try:
            decided = decide.decide(batch.state, pending)
            if isinstance(decided, Decision):
                record(batch.state, decided.effects, batch.changes)
                batch.decisions.append(decided)
            else:
                batch.answers.append(decided)
            taken |= retry_keys
        except Fault as fault:
            # Never refuse because of a decision of this batch that may still be rolled back.
            if (pending.searched or not retry_keys) and not _follows(batch, pending):
                batch.answers.append(Answer(pending, fault))
            else:
                batch.later.append(pending)
    for answer in batch.answers:
        if isinstance(answer.reply, Fault):
            answer.pending.work.refuse(answer.reply)
        else:
            if type(answer.reply) is m.StartReply:
                cache.engine.starts.record(cache.tenant_id, cache.game_id, batch.state.now)
            answer.pending.work.answer(answer.reply)


def _follows(batch: Batch, pending: PendingRequest) -> bool:
    """Whether the request depends on an uncommitted decision of this batch for the same player (a double submit).

    A redeem depends on stock, so it follows every decision.
    """
    if type(pending.request) is m.RedeemRequest:
        return bool(batch.decisions)
    return any(decision.pending.player_id == pending.player_id for decision in batch.decisions)


def _shows_what_follows(batch: Batch, pending: PendingRequest) -> bool:
    """Whether the request's answer shows the effects of decisions that are not committed yet.

    A start shows the plan of the next play; a read shows the resulting state.
    """
    kind = type(pending.request)
    shows = kind in READS or (batch.state.snapshot.shows_plan and kind is m.StartRequest)
    return shows and _follows(batch, pending)


def _retry_keys(pending: PendingRequest) -> set[tuple[str, ...]]:
    """The keys that a retry shares with the request: its idempotency key and its session. Empty if it has neither."""
    retry_keys: set[tuple[str, ...]] = set()
    if pending.idempotency.key is not None:
        retry_keys.add((pending.idempotency.player_id, pending.idempotency.key))
    if pending.session is not None:
        retry_keys.add((pending.session.nonce,))
    return retry_keys


# -- commit and answer -----------------------------------------------------------------------


def _begin_commit(cache: GameCache, batch: Batch) -> asyncio.Future[dict[str, int | None]] | None:
    """Starts the commit of the decisions; None if there are none."""
    if not batch.decisions:
        return None
    if not batch.state.snapshot.played:
        batch.changes.begin_history(cache.game_id)
    commit = cache.engine.committer.commit(cache.tenant_id, batch.changes)
    # Until the commit ends, these players' next plays are undecided: their plan, or whether they are free.
    counted = batch.state.snapshot.shows_plan or batch.state.snapshot.max_plays_per_day
    players = (decision.pending.player_id for decision in batch.decisions) if counted else ()
    cache.committing[commit] = frozenset(players)
    commit.add_done_callback(cache.committing.pop)
    return commit


def _contradicted(batch: Batch, guarded: Guarded) -> bool:
    """Whether fresh data has twice shown no reason for the guard's refusal.

    A concurrent write changes the data, so a second refusal with unchanged data has another cause.
    """
    if batch.inputs is None or guarded.guard in UNSEEN:
        return False
    pending = batch.decisions[0].pending
    pending.contradictions = pending.contradictions + 1 if batch.inputs == pending.inputs else 0
    pending.inputs = batch.inputs
    return pending.contradictions >= CONTRADICTIONS_MAX


def _give_up(cache: GameCache, batch: Batch, guarded: Guarded) -> None:
    """The rules and the guard disagree, so no retry can succeed. Logs an error, since this is a bug."""
    pending = batch.decisions[0].pending
    CONTRADICTIONS.labels(guarded.guard).inc()
    log.error("guard_contradicted", guard=guarded.guard, tenant_id=cache.tenant_id, game_id=cache.game_id)
    pending.work.refuse(Fault(Status.INTERNAL, "INTERNAL", "an internal error occurred and was logged"))


def _answer(cache: GameCache, batch: Batch) -> None:
    """Answers the players, then publishes events and tasks."""
    for decision in batch.decisions:
        decision.pending.work.answer(decision.reply)
    for decision in batch.decisions:
        cache.engine.publisher.events(decision.events)
    publish_tasks(cache.engine, cache.tenant_id, batch.changes)


async def _resolve(cache: GameCache, batch: Batch, error: StoreUnavailable) -> None:
    """After a commit of unknown outcome: answers requests found committed, refuses the others with the error."""
    waiting = [decision.pending for decision in batch.decisions]
    if error.sent:
        try:
            waiting = await answer_committed(cache, waiting)
        except Exception:  # The store is still down: the outcome stays unknown, and the error says so.
            waiting = [decision.pending for decision in batch.decisions]
    for pending in waiting:
        pending.work.refuse(error)
