"""Test plays: staff play a game of any status with its real rules, without side effects.

Decisions use the rules of the play path. Every active prize is unlimited, no cap or turn applies, and scores are not
checked against time, so that the observed frequencies reflect the configuration. Only the run, kept for a day, and an
audit entry are written.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids, trace
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.awards import won_reward
from runtime.actors.game.snapshot import load_prizes, read_rules
from runtime.actors.game.state import PrizeTerms
from runtime.errors import unknown
from runtime.operations import audit, reading
from runtime.operations.checks import Checks
from runtime.operations.games.definitions import prizes_named
from runtime.rules import Attempt, Drop, GameRule, Outcome, Rules, Words, seed_hash
from runtime.rules.declared import Result, declared
from runtime.rules.draw import check_client_seed
from runtime.rules.payloads import UNTIMED_MS, CaughtPayload
from runtime.wire.codec import view
from runtime.wire.scope import tenant_of

_SQL: Final = sql.load("test_runs")
_GAME: Final = sql.load("games")["get"]
PURGES: Final = {"purge_test_runs": _SQL["purge"]}
"""Statements that delete expired rows of a tenant ($1), at most $2 rows each."""

TIMES_MAX: Final = 1000
SHOWN_MAX: Final = 20
"""Plays of a run that are returned in full and stored."""
SLICE_SECONDS: Final = 0.002
"""The longest time slice before it yields to the event loop. Bounds the delay of real plays."""
_FREQUENCY: Final = view(m.TestFrequency, "number")
_PLAY: Final = view(m.TestPlay, "number")
_SEED: Final = re.compile("[0-9a-f]{64}")


async def make_test_plays(engine: Engine, request: m.MakeTestPlaysRequest) -> m.TestRunReply:
    """Plays a game of any status without effects on stock, caps, wallets, rankings, statistics or events.

    Returns the observed and the declared frequency of each result, and the first plays. Prizes are never out of stock
    here. The run is kept for a day, for the tenant's staff. NOT_FOUND UNKNOWN_GAME.
    """
    tenant_id = tenant_of(request)
    times = 1 if request.start else request.times or 1
    checks = Checks()
    checks.between("times", request.times, 0, TIMES_MAX)
    if request.seed and (times > 1 or not _SEED.fullmatch(request.seed)):
        checks.problem("seed", "must be 64 hex digits, for a single play")
    checks.raise_found()
    check_client_seed(request.client_seed)
    game = await reading.for_update(engine.database, _GAME, request, "game", request.id)
    bench = await _Bench.of(engine, tenant_id, game)
    run = m.TestRun(test=True, game_id=game["id"], revision=game["revision"], times=times, made_by=trace.actor.get())
    if request.start:
        seed = _seed(request)
        run.plays = [_shown_start(request, seed, bench.plan(seed))]
        return m.TestRunReply(run=run)
    tally = _Tally()
    async for tried in bench.decide(request, times):
        tally.count(tried.outcome, bench.chances(tried.payload))
        if len(run.plays) < SHOWN_MAX:
            run.plays.append(_shown_play(bench, request, tried, single=times == 1))
    run.frequencies = tally.frequencies(times, bench.prizes)
    run.id = ids.make("testrun")

    async def work(connection: asyncpg.Connection) -> int:
        created_at: int | None = await connection.fetchval(
            _SQL["insert"],
            *(tenant_id, run.id, run.game_id, run.revision, times),
            *([_FREQUENCY(row) for row in run.frequencies], [_PLAY(play) for play in run.plays], run.made_by),
        )
        if created_at is None:
            raise unknown("game", request.id)
        after = {"run_id": run.id, "revision": run.revision, "times": times}
        await audit.record(connection, tenant_id, "game.test", request.id, after=after)
        return created_at

    run.created_at = await engine.database.transaction(work)
    return m.TestRunReply(run=run)


async def list_test_plays(engine: Engine, request: m.ListTestPlaysRequest) -> m.ListTestPlaysReply:
    """The game's runs of test plays in the last day, newest first. NOT_FOUND UNKNOWN_GAME."""
    await reading.one(engine, _GAME, request, "game")
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_of(request), request.id)
    return m.ListTestPlaysReply(items=[_run(row) for row in rows], pagination=pagination)


class _Tried(NamedTuple):
    seed: bytes
    plan: tuple[Drop, ...]
    payload: dict[str, Any]
    outcome: Outcome


class _Bench:
    """The current revision of a game, set up for test plays."""

    def __init__(self, rules: Rules, game: GameRule, prizes: dict[str, PrizeTerms]) -> None:
        self.prizes = prizes
        self._rules = rules
        self._game = game

    @classmethod
    async def of(cls, engine: Engine, tenant_id: str, row: Any) -> _Bench:
        rules, game = read_rules(row["definition"])
        named = {prize_id for _, prize_id in prizes_named(row["definition"])}
        return cls(rules, game, await load_prizes(engine.database, tenant_id, named))

    def plan(self, seed: bytes) -> tuple[Drop, ...]:
        return self._rules.seed_generator.plan(self._rules.config, seed)

    def chances(self, payload: Mapping[str, Any]) -> Mapping[Result, float]:
        """The declared chances of a play with this payload."""
        return declared(self._rules.config, self._game, payload)

    async def decide(self, request: m.MakeTestPlaysRequest, times: int) -> AsyncIterator[_Tried]:
        """Decides each play. INVALID_ARGUMENT as for a real play's payload."""
        rules, until = self._rules, time.monotonic() + SLICE_SECONDS
        for _ in range(times):
            if time.monotonic() > until:
                await asyncio.sleep(0)
                until = time.monotonic() + SLICE_SECONDS
            seed = _seed(request)
            plan = self.plan(seed)
            payload = dict(request.payload or {})
            if not payload and rules.reward_handler.Payload is CaughtPayload:
                payload = {"caught_items": [drop.id for drop in plan]}
            rules.validator.check(rules.reward_handler, rules.config, payload, plan, UNTIMED_MS)
            words = Words(seed, request.client_seed)
            attempt = Attempt(rules.config, self._game, words, payload, plan, self._is_available)
            yield _Tried(seed, plan, payload, rules.reward_handler.decide(attempt))

    def _is_available(self, prize_id: str, quantity: int) -> bool:
        prize = self.prizes.get(prize_id)
        return prize is not None and prize.active


@dataclass(slots=True)
class _Counted:
    """The number of plays with a result, and its total units."""

    plays: int = 0
    units: int = 0


class _Tally:
    def __init__(self) -> None:
        self._declared: dict[Result, float] = {}
        self._counts: defaultdict[Result, _Counted] = defaultdict(_Counted)

    def count(self, outcome: Outcome, chances: Mapping[Result, float]) -> None:
        self._declared = dict(chances)
        slot = outcome.metadata.get("slot_index")
        slot = slot if isinstance(slot, int) else -1
        units = [(Result(award.prize_id, "", slot), award.quantity) for award in outcome.awards]
        units += [(Result("", credit.item, slot), credit.quantity) for credit in outcome.credits]
        for result, quantity in units or [(Result("", "", slot), 0)]:
            counted = self._counts[result]
            counted.plays += 1
            counted.units += quantity

    def frequencies(self, times: int, prizes: Mapping[str, PrizeTerms]) -> list[m.TestFrequency]:
        """A row for each declared or observed result, declared ones first."""
        rows = []
        for result in dict.fromkeys((*self._declared, *self._counts)):
            counted = self._counts[result]
            prize = prizes.get(result.prize_id)
            rows.append(
                m.TestFrequency(
                    outcome="prize" if result.prize_id else "item" if result.item else "nothing",
                    prize_id=result.prize_id,
                    name=prize.name if prize is not None else result.item,
                    slot_index=result.slot_index,
                    count=counted.plays,
                    share=counted.plays / times,
                    declared=self._declared.get(result, 0.0 if self._declared else -1.0),
                    quantity=counted.units,
                )
            )
        return rows


def _seed(request: m.MakeTestPlaysRequest) -> bytes:
    return bytes.fromhex(request.seed) if request.seed else os.urandom(32)


def _shown_start(request: m.MakeTestPlaysRequest, seed: bytes, plan: tuple[Drop, ...]) -> m.TestPlay:
    return m.TestPlay(
        test=True,
        seed=seed.hex(),
        seed_hash=seed_hash(seed),
        client_seed=request.client_seed,
        drop_plan=[m.PlannedDrop(id=drop.id, type=drop.type, at_ms=drop.at_ms) for drop in plan],
    )


def _shown_play(bench: _Bench, request: m.MakeTestPlaysRequest, tried: _Tried, *, single: bool) -> m.TestPlay:
    """A play as returned and stored; without its payload and plan unless it is the only one."""
    play = _shown_start(request, tried.seed, tried.plan if single else ())
    outcome = tried.outcome
    play.payload = tried.payload if single else None
    play.id, play.score, play.metadata = ids.make("testplay"), outcome.score, outcome.metadata
    play.rewards = [won_reward(bench.prizes[won.prize_id], won.quantity, "") for won in outcome.awards]
    play.rewards += [m.WonReward(name=won.item, type="item", quantity=won.quantity) for won in outcome.credits]
    return play


def _run(row: Any) -> m.TestRun:
    plays = [
        m.TestPlay(
            **{
                **play,
                "rewards": [m.WonReward(**reward) for reward in play["rewards"]],
                "drop_plan": [m.PlannedDrop(**drop) for drop in play["drop_plan"]],
            }
        )
        for play in row["plays"]
    ]
    frequencies = [m.TestFrequency(**frequency) for frequency in row["frequencies"]]
    return m.TestRun(**{**row, "test": True, "plays": plays, "frequencies": frequencies})
