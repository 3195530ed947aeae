import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from prometheus_client import REGISTRY

from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.committer import CATALOG
from runtime.actors.game import batch as batching
from runtime.actors.game import cache as caching
from runtime.actors.game.batch import BATCH_ROUNDS, SINGLE_ROUNDS, process_batch
from runtime.actors.game.cache import GameCache
from runtime.actors.game.eligibility import require_fresh
from runtime.actors.game.pending import PendingRequest
from runtime.actors.game.sessions import open_session
from runtime.actors.game.state import StaleRead
from runtime.actors.mailbox import Work
from runtime.errors import Fault, Status
from runtime.groups import event_stream, task_stream
from runtime.rules import Attempt, Outcome, Words
from runtime.rules.handlers import probability
from runtime.stores.database import Guarded, StoreUnavailable
from runtime.stores.publisher import shard_of
from tests.support.stack import Stack
from tests.support.waiting import HANG_SECONDS
from tests.support.world import COINS, COLLECTION, World

AWAY: Final = "the database is away"


class Pauses:
    """asyncio, but that nobody sleeps in it: for how long it was to be is noted."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: Any) -> None:
        self.asked.append(seconds)


class Commits:
    """What is committed, how many plays at a time; and what becomes of it instead, by their order."""

    def __init__(self, real: Callable[[str, Changes], Awaitable[Any]]) -> None:
        self.real = real
        self.sizes: list[int] = []
        self.ends: list[Exception | None] = []
        self.lost: list[bool] = []

    def __call__(self, tenant_id: str, changes: Changes) -> asyncio.Future[Any]:
        nth = len(self.sizes)
        self.sizes.append(len(changes.plays))
        end = self.ends[nth] if nth < len(self.ends) else None
        if type(end) is Fault:  # The committer is full.
            raise end
        return asyncio.ensure_future(self._commit(tenant_id, changes, end))

    async def _commit(self, tenant_id: str, changes: Changes, end: Exception | None) -> Any:
        if end is None:
            return await self.real(tenant_id, changes)
        if isinstance(end, StoreUnavailable) and end.sent and self.lost:
            await self.real(tenant_id, changes)
        raise end


@pytest.fixture
def commits(module_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    commits = Commits(module_stack.engine.committer.commit)
    monkeypatch.setattr(module_stack.engine.committer, "commit", commits)
    monkeypatch.setattr(batching, "CONFLICT_PAUSE_SECONDS", 0.0)
    return commits


@pytest.fixture
def cache(module_stack: Stack, game_id: str) -> GameCache:
    return GameCache(module_stack.engine, (module_stack.tenant_id, game_id))


@pytest.fixture
async def game_id(world: World) -> str:
    return await world.game(COLLECTION, COINS)


async def plays(world: World, game_id: str, *players: str, **named: Any) -> list[Work[Any]]:
    return [
        work_of(m.PlayRequest(id=game_id, player_id=player, session_id=await world.session(game_id, player), **named))
        for player in players
    ]


def work_of(request: Any) -> Work[Any]:
    return Work(request, asyncio.get_running_loop().create_future())


def ends(works: list[Work[Any]]) -> list[str]:
    found = []
    for work in works:
        error = work.future.exception()
        found.append(error.reason if isinstance(error, Fault) else type(error).__name__ if error else "played")
    return found


async def coins(world: World, player: str) -> int:
    statement = "SELECT balance FROM balances WHERE player_id = $1 AND scope_key = $2"
    return int(await world.database.fetchval(statement, player, world.campaign_id) or 0)


async def test_refused_batch_is_decided_apart(world: World, cache: GameCache, game_id: str, commits: Commits) -> None:
    commits.ends = [Guarded("play_cap")] * BATCH_ROUNDS
    works = await plays(world, game_id, "ann", "bob", "cas")
    await process_batch(cache, works)
    assert ends(works) == ["played"] * 3 and commits.sizes == [3] * BATCH_ROUNDS + [1, 1, 1]
    assert [await coins(world, player) for player in ("ann", "bob", "cas")] == [2, 2, 2]


async def test_many_changes_split_a_batch(world: World, cache: GameCache, game_id: str, commits: Commits) -> None:
    works = await plays(world, game_id, "dan", "eve")
    commits.ends = [Guarded(CATALOG)] * 5
    await process_batch(cache, works)
    assert ends(works) == ["played"] * 2 and commits.sizes == [2] * 6
    works = await plays(world, game_id, "dan", "eve")
    commits.sizes.clear()
    commits.ends = [Guarded(CATALOG)] * SINGLE_ROUNDS
    await process_batch(cache, works)
    assert ends(works) == ["played"] * 2 and commits.sizes == [2] * SINGLE_ROUNDS + [1, 1]


async def test_play_that_keeps_losing_to_rivals_is_refused_as_overloaded(
    world: World, cache: GameCache, game_id: str, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = await plays(world, game_id, "fay")
    commits.ends = [Guarded("codes")] * (BATCH_ROUNDS + SINGLE_ROUNDS)
    pauses = Pauses()
    monkeypatch.setattr(batching, "asyncio", pauses)
    monkeypatch.setattr(batching, "random", SimpleNamespace(uniform=lambda low, high: (low, high)))
    monkeypatch.setattr(batching, "CONFLICT_PAUSE_SECONDS", 1.0)
    await process_batch(cache, works)
    assert ends(works) == ["OVERLOADED"] and len(commits.sizes) == BATCH_ROUNDS + SINGLE_ROUNDS
    assert works[0].future.exception().retry_after_seconds == 1
    # Each time another while, and at first at once: rivals that meet do not meet again for that.
    assert pauses.asked == [(0, min(number, 8)) for number in range(SINGLE_ROUNDS)]
    assert await coins(world, "fay") == 0


@pytest.mark.parametrize(
    ("end", "outdated"),
    [
        *((Guarded("play_cap"), False), (Guarded(CATALOG), True), (StoreUnavailable(AWAY, sent=False), False)),
        *((ValueError("a bug"), False), (Fault(Status.UNAVAILABLE, "OVERLOADED", "full"), False)),
    ],
    ids=["guard", "catalogue", "lost", "bug", "full"],
)
async def test_failed_commit_makes_the_next_round_read_again(
    world: World, cache: GameCache, game_id: str, commits: Commits, end: Exception, outdated: bool
) -> None:
    works = await plays(world, game_id, "tom")
    commits.ends = [end]
    await batching._round(cache, batching._open(cache, works), again=False)
    assert cache.players["tom"].plays == 1 and (cache.distrusted, cache.outdated) == (True, outdated)
    assert await read_in(cache, await asks(game_id, "tom")) == [True] and cache.players["tom"].plays == 0


async def test_commit_of_unknown_fate_is_unavailable_without_the_database(
    world: World, cache: GameCache, game_id: str, commits: Commits, monkeypatch: pytest.MonkeyPatch
) -> None:
    works = await plays(world, game_id, "kim")
    commits.ends, commits.lost = [StoreUnavailable(AWAY, sent=True)], [True]

    async def away(*_: Any) -> Any:
        raise StoreUnavailable(AWAY, sent=False)

    monkeypatch.setattr(batching, "answer_committed", away)
    await process_batch(cache, works)
    assert ends(works) == ["STORE_UNAVAILABLE"]


async def test_commit_error_fails_only_its_play(world: World, cache: GameCache, game_id: str, commits: Commits) -> None:
    works = await plays(world, game_id, "lea", "max")
    commits.ends = [ValueError("a bug"), ValueError("a bug")]
    await process_batch(cache, works)
    assert ends(works) == ["played", "played"] and commits.sizes == [2, 2, 1, 1]
    works = await plays(world, game_id, "lea")
    commits.sizes.clear()
    commits.ends = [ValueError("a bug")]
    await process_batch(cache, works)
    assert ends(works) == ["ValueError"] and commits.sizes == [1]
    assert await coins(world, "lea") == 2


async def test_malformed_request_is_refused_alone(world: World, cache: GameCache, game_id: str) -> None:
    works = [
        work_of(m.PlayRequest(id=game_id, player_id="ann")),
        work_of(m.PlayRequest(id=game_id, player_id="ann", session_id="none")),
        work_of(m.PlayRequest(id=game_id, player_id="ann", session_id=await world.session(game_id), client_seed="\0")),
        work_of(m.RedeemRequest(id=game_id, milestone_id="m")),
        *(await plays(world, game_id, "ann")),
    ]
    await process_batch(cache, works)
    assert ends(works) == ["VALIDATION", "SESSION_INVALID", "VALIDATION", "VALIDATION", "played"]


async def test_committed_batch_publishes_events_and_tasks_and_is_counted(world: World, module_stack: Stack) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("fulfillment_tasks_total", {"outcome": "delivered"}) or 0.0

    engine, tenant_id = module_stack.engine, module_stack.tenant_id
    config = {"url": "https://shop.example.com/parcels", "secret": "a secret of the shop's"}
    parcel = await world.prize(fulfillment={"channel": "webhook", "config": config})
    code = await world.prize(codes=["A-1"])
    before = counted()
    for prize_id in (code, parcel):
        cache = GameCache(engine, (tenant_id, await world.wheel(prize_id)))
        works = await plays(world, cache.game_id, "uma")
        await process_batch(cache, works)
        assert ends(works) == ["played"] and counted() == before + 1
    statement = "SELECT task_id FROM tasks WHERE tenant_id = $1 AND prize_id = $2"
    task_id = await world.database.fetchval(statement, tenant_id, parcel)
    shard = shard_of(tenant_id, engine.settings.stream_shards)
    messages = {task_stream(shard): f"{tenant_id} {task_id}", event_stream(shard): works[0].future.result().play_id}
    async with asyncio.timeout(HANG_SECONDS):
        for stream, message in messages.items():
            while message not in str(await engine.ephemeral.run("XRANGE", stream, "-", "+")):
                await asyncio.sleep(0.02)


async def asks(game_id: str, *players: str, request: Any = m.PlayRequest) -> list[PendingRequest]:
    made = [request(id=game_id, player_id=player) for player in players]
    return [PendingRequest(work_of(one), one, one.player_id) for one in made]


async def read_in(cache: GameCache, requests: list[PendingRequest], *, everything: bool = False) -> list[bool]:
    await cache.refresh(requests, everything=everything)
    return [cache.players[one.player_id].read_in == cache.round for one in requests]


async def test_cache_is_reread_when_stale_or_for_exact_requests(world: World, cache: GameCache, game_id: str) -> None:
    await world.round(game_id, "ann")
    await world.round(game_id, "bob")
    ann, both = await asks(game_id, "ann"), await asks(game_id, "ann", "bob")
    assert await read_in(cache, ann) == [True]
    assert (cache.round, cache.compared_in) == (1, 1)
    assert await read_in(cache, ann) == [False]
    assert (cache.round, cache.compared_in) == (2, 1)
    assert await read_in(cache, both) == [False, True]
    assert await read_in(cache, ann, everything=True) == [True]
    assert await read_in(cache, await asks(game_id, "ann", request=m.EligibilityRequest)) == [True]
    starts, compared = await asks(game_id, "ann", request=m.StartRequest), cache.compared_in
    for amiss in (-caching.REFRESH_SECONDS, 3600):
        cache.refreshed_at += amiss
        assert await read_in(cache, ann) == [False] and cache.compared_in == compared < cache.round
        assert await read_in(cache, starts) == [False] and cache.compared_in == cache.round
        compared = cache.round
    cache.distrust()
    snapshot = cache.snapshot
    assert await read_in(cache, ann) == [True] and cache.snapshot is snapshot and not cache.distrusted
    cache.distrust(snapshot=True)
    assert await read_in(cache, ann) == [True] and cache.snapshot is not snapshot and not cache.outdated
    assert await read_in(cache, ann) == [False]
    with pytest.raises(StaleRead):
        require_fresh(cache.state(), cache.players["ann"])


async def test_newer_catalogue_or_day_makes_the_cache_read_again(
    world: World, cache: GameCache, game_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.round(game_id, "ann")
    ann = await asks(game_id, "ann")
    await read_in(cache, ann)
    snapshot = cache.snapshot
    assert snapshot is not None
    await world.stack.admin("PUT", f"/admin/games/{game_id}", {"name": "New"})
    assert await read_in(cache, ann) == [True] and cache.snapshot is not snapshot
    assert cache.engine.catalog_versions[cache.tenant_id] >= cache.snapshot.version  # type: ignore[union-attr]
    cache.day = cache.day.replace(year=2020)
    assert await read_in(cache, ann) == [True] and cache.day.year > 2020
    monkeypatch.setattr(caching, "PLAYERS_MAX", 0)
    assert await read_in(cache, ann) == [True] and list(cache.players) == ["ann"]


async def test_old_snapshot_refuses_no_play(world: World, cache: GameCache, game_id: str) -> None:
    first, *works = await plays(world, game_id, "ned", "ned")
    await process_batch(cache, [first])
    cache.snapshot.status = "paused"
    await world.database.execute("UPDATE tenants SET catalog_version = catalog_version + 1")
    cache.refreshed_at -= caching.REFRESH_SECONDS
    await process_batch(cache, works)
    assert ends(works) == ["played"]


def under_way(cache: GameCache, *players: str) -> asyncio.Future[Any]:
    commit: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    commit.add_done_callback(cache.committing.pop)
    cache.committing[commit] = frozenset(players)
    return commit


async def test_failed_commit_discards_cached_state_of_the_waiting(world: World, cache: GameCache, game_id: str) -> None:
    ann = await asks(game_id, "ann")
    for everything in (True, False):
        await cache.refresh(ann, everything=True)
        snapshot, commit = cache.snapshot, under_way(cache)
        commit.add_done_callback(lambda _: cache.distrust(snapshot=True))
        if not everything:
            cache.distrust()
        asyncio.get_running_loop().call_later(0.01, commit.set_result, None)
        await cache.refresh(ann, everything=everything)
        assert cache.snapshot is not snapshot and not cache.distrusted, everything


async def test_stock_under_a_pending_commit_is_not_overwritten_by_a_read(world: World, module_stack: Stack) -> None:
    prize_id = await world.prize(total=9)
    cache = GameCache(module_stack.engine, (module_stack.tenant_id, await world.wheel(prize_id)))
    ann = await asks(cache.game_id, "ann")
    await cache.refresh(ann, everything=False)
    assert cache.stock[prize_id].remaining == 9
    cache.stock[prize_id].remaining = 5
    commit = under_way(cache)
    cache.refreshed_at = 0.0
    await cache.refresh(ann, everything=False)
    assert cache.stock[prize_id].remaining == 5
    commit.set_result(None)
    await asyncio.sleep(0)
    cache.refreshed_at = 0.0
    await cache.refresh(ann, everything=False)
    assert cache.stock[prize_id].remaining == 9


async def test_rule_error_fails_only_its_own_play(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin's rule may raise. Plays decided before it are not committed and must not stay in the cache."""
    prize_id, decide, engine = await world.prize(total=9), probability.decide, world.stack.engine
    game_id = await world.wheel(prize_id, rules={"max_plays_per_user": 1})
    cache = GameCache(engine, (world.stack.tenant_id, game_id))
    works = await plays(world, game_id, *(f"p{nth}" for nth in range(5)))
    session_id = works[2].request.session_id
    seed = open_session(engine.keyring.server, world.stack.tenant_id, game_id, session_id).seed
    broken = Words(seed, "").word(0)

    def breaks(attempt: Attempt) -> Outcome:
        if attempt.words.word(0) == broken:
            raise ZeroDivisionError("a plugin's mistake")
        return decide(attempt)

    monkeypatch.setattr(probability, "decide", breaks)
    await process_batch(cache, works)
    assert ends(works) == ["played", "played", "ZeroDivisionError", "played", "played"]
    assert all(work.future.result().rewards for work in works if work is not works[2])
    assert await world.stock(prize_id) == (5, 4)
    monkeypatch.undo()
    again = work_of(works[2].request)
    await process_batch(cache, [again])
    assert again.future.result().rewards  # It used up nothing.
