import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.engine import Engine
from runtime.actors.game.awards import Effects
from runtime.actors.game.batch import (
    CONTRADICTIONS_MAX,
    Batch,
    _begin_commit,
    _contradicted,
    _follows,
    _own_sessions,
    _retry_keys,
    _shows_what_follows,
)
from runtime.actors.game.cache import GameCache
from runtime.actors.game.pending import Decision, PendingRequest
from runtime.actors.game.state import GameSnapshot
from runtime.actors.idempotency import KeyedRequest
from runtime.actors.mailbox import Work
from runtime.errors import Fault
from runtime.stores.database import Guarded
from tests.support.game_state import GUEST, NOW, ann, game, pending, session, state_of, stock


class Committer:
    def __init__(self) -> None:
        self.asked: list[tuple[str, Changes]] = []
        self.remaining: asyncio.Future[dict[str, int | None]] = asyncio.Future()

    def commit(self, tenant_id: str, changes: Changes) -> asyncio.Future[dict[str, int | None]]:
        self.asked.append((tenant_id, changes))
        return self.remaining


@pytest.fixture
async def cache() -> GameCache:
    return GameCache(cast(Engine, SimpleNamespace(committer=Committer())), ("t", "g"))


def batch_of(snapshot: GameSnapshot, *decided: PendingRequest) -> Batch:
    batch = Batch([], state_of(snapshot=snapshot), Changes(snapshot.version))
    batch.decisions += [Decision(one, None, Effects(ann()), []) for one in decided]
    return batch


def test_twins_have_a_key_or_a_session_in_common() -> None:
    keyed, opened = KeyedRequest("ann", "k", b""), session()
    assert _retry_keys(pending(m.StartRequest())) == set()
    assert _retry_keys(pending(m.RedeemRequest(), idempotency=keyed)) == {("ann", "k")}
    assert _retry_keys(pending(m.PlayRequest(), session=opened, idempotency=keyed)) == {("ann", "k"), (opened.nonce,)}


@pytest.mark.parametrize(
    ("decided", "request_", "follows"),
    [
        *(([], m.PlayRequest(), False), (["ann"], m.PlayRequest(), True), (["bob"], m.PlayRequest(), False)),
        *((["bob"], m.RedeemRequest(), True), ([], m.RedeemRequest(), False)),
    ],
)
def test_request_follows_what_its_batch_decided_before_it(decided: list[str], request_: Any, follows: bool) -> None:
    batch = batch_of(game(), *(pending(m.PlayRequest(), player) for player in decided))
    assert _follows(batch, pending(request_)) == follows


@pytest.mark.parametrize(
    ("shows_plan", "request_", "waits"),
    [
        *((False, m.StartRequest(), False), (True, m.StartRequest(), True), (True, m.PlayRequest(), False)),
        *((False, m.EligibilityRequest(), True), (False, m.ListMilestonesRequest(), True)),
    ],
)
def test_request_that_shows_what_may_be_undone_awaits_its_commit(shows_plan: bool, request_: Any, waits: bool) -> None:
    batch = batch_of(game(shows_plan=shows_plan), pending(m.PlayRequest()))
    assert _shows_what_follows(batch, pending(request_)) == waits
    assert not _shows_what_follows(batch, pending(request_, "bob"))


async def test_bearer_of_anothers_session_is_refused_alone() -> None:
    mine, theirs = pending(m.PlayRequest()), pending(m.PlayRequest(), bearer="eve")
    theirs.work = Work(theirs.request, asyncio.get_running_loop().create_future())
    assert _own_sessions([mine]) == [mine] == _own_sessions([mine, theirs])
    assert cast(Fault, theirs.work.future.exception()).reason == "SESSION_INVALID"


def test_guard_that_fresh_reads_contradict_again_and_again_is_given_up() -> None:
    batch = batch_of(game(), pending(m.PlayRequest()))
    assert not _contradicted(batch, Guarded("play_cap"))
    found = []
    for inputs in ("a", "a", "b", "b", "b"):
        batch.inputs = inputs
        found.append(_contradicted(batch, Guarded("play_cap")))
    assert found == [False, False, False, False, True] and CONTRADICTIONS_MAX == 2
    assert not _contradicted(batch, Guarded("codes"))


@pytest.mark.parametrize(
    ("terms", "counted", "debut"),
    [
        *(({}, set(), False), ({"shows_plan": True}, {"ann"}, False), ({"max_plays_per_day": 1}, {"ann"}, False)),
        ({"played": False}, set(), True),
    ],
)
async def test_commit_names_players(cache: GameCache, terms: dict[str, Any], counted: set[str], debut: bool) -> None:
    committer = cast(Committer, cache.engine.committer)
    assert _begin_commit(cache, batch_of(game(**terms))) is None and not cache.committing
    commit = _begin_commit(cache, batch_of(game(**terms), pending(m.PlayRequest())))
    assert commit is not None and cache.committing == {commit: frozenset(counted)}
    committer.remaining.set_result({})
    await asyncio.sleep(0)
    assert not cache.committing
    [(tenant_id, changes)] = committer.asked
    assert tenant_id == "t" and bool(changes.debuts) == debut


async def test_stock_that_a_commit_left_shows_in_the_next_round_but_not_beside_another_commit(cache: GameCache) -> None:
    cache.stock = {"mug": stock(9), "tee": stock(9)}
    cache.record_stock({"mug": 4, "hat": 2})
    cache._apply_remaining_stock()
    assert {key: it.remaining for key, it in cache.stock.items()} == {"mug": 4, "tee": 9} and not cache.remaining_stock
    under_way: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    cache.record_stock({"mug": 3})
    cache.committing[under_way] = frozenset()
    cache._apply_remaining_stock()
    assert cache.stock["mug"].remaining == 4 and not cache.remaining_stock
    cache.record_stock({"mug": 2})
    assert not cache.remaining_stock


async def test_start_that_shows_a_plan_waits_for_commits_of_its_player(cache: GameCache) -> None:
    loop = asyncio.get_running_loop()
    of_ann, of_nobody = loop.create_future(), loop.create_future()
    cache.committing = {of_ann: frozenset({"ann"}), of_nobody: frozenset()}
    start, play, other = pending(m.StartRequest()), pending(m.PlayRequest()), pending(m.StartRequest(), "bob")
    assert cache._commits_before([start], everything=False) == []
    cache.snapshot = game(shows_plan=True)
    for requests, waited in [([start], [of_ann]), ([play], []), ([other], []), ([other, start], [of_ann])]:
        assert cache._commits_before(requests, everything=False) == waited
    assert cache._commits_before([play], everything=True) == [of_ann, of_nobody]
    cache.snapshot = game()
    assert cache._commits_before([start], everything=False) == []


async def test_cache_forgets_nothing_before_what_is_being_committed_can_be_read(cache: GameCache) -> None:
    under_way = asyncio.get_running_loop().create_future()
    cache.committing[under_way] = frozenset()
    cache.players["ann"], cache.merged[GUEST], cache.refreshed_at = ann(), "ann", NOW
    cache.stock["mug"] = stock(9)
    forgetting = asyncio.ensure_future(cache._clear())
    await asyncio.sleep(0)
    assert cache.players and cache.stock and not forgetting.done()
    under_way.set_result(None)
    await forgetting
    assert not cache.players and not cache.merged and not cache.stock and cache.refreshed_at == 0.0


def test_distrust_of_the_snapshot_outlives_distrust_of_players(cache: GameCache) -> None:
    assert (cache.distrusted, cache.outdated) == (False, False)
    cache.distrust()
    assert (cache.distrusted, cache.outdated) == (True, False)
    cache.distrust(snapshot=True)
    cache.distrust()
    assert (cache.distrusted, cache.outdated) == (True, True)
