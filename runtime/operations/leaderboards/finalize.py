"""Finalize: a board is closed once, its standings are kept, and its prizes are given by rank.

    1. One transaction closes the board (a conditional update), counts it and keeps the standings. Ranks
       with a prize are PENDING. Whoever comes second finds it closed, and goes on with 2.
    2. Each prize is committed like any other award, in one statement that also settles its standing; a
       standing that is settled refuses the statement. So a process that dies between two ranks leaves
       the rest PENDING, the next call gives them, and no rank is given twice.

Ranks are settled in their order, so that the last of a stock goes to the better one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import asyncpg

import sql
from runtime import events, ids
from runtime import messages as m
from runtime.actors.changes import Changes, StandingAward
from runtime.actors.engine import Engine
from runtime.actors.game.awards import Winner, award, give_turns, pending_tasks, prize_won
from runtime.actors.game.snapshot import load_prizes
from runtime.actors.game.state import POINTS, PrizeTerms
from runtime.errors import BalanceFull, Fault, Status
from runtime.operations import audit
from runtime.operations.leaderboards.board_admin import get_leaderboard, lock
from runtime.stores.clock import Days
from runtime.stores.database import Guarded
from runtime.stores.rankings import COUNT_SECONDS
from runtime.stores.scores import Score, counted_of

_SQL: Final = sql.load("leaderboards")
_BALANCE: Final = sql.load("wallet")["balance"]

STANDINGS_MAX: Final = 1_000
"""Standings of one answer; all of them are read page by page as rankings."""

TOGETHER: Final = 50
"""Prizes of one commit while all goes well."""

ATTEMPTS: Final = 8
"""For one prize, where a rival held its code or moved the winner's balance in between."""

WITHHELD: Final = {
    "stock": "OUT_OF_STOCK",
    "codes": "OUT_OF_STOCK",
    "prize_day": "CAP_DAY",
    "prize_player": "CAP_USER",
}
"""The reason of a standing that goes without, by the guard that refused its prize."""

Reply = m.FinalizeLeaderboardReply


async def finalize_leaderboard(engine: Engine, request: m.GetLeaderboardRequest) -> Reply:
    """Closes the board and gives its prizes. Again: the same standings; the place of a guest that has logged in since
    is the player's that it became.

    NOT_FOUND UNKNOWN_LEADERBOARD; FAILED_PRECONDITION ILLEGAL_TRANSITION (archived unfinalized). An answer of
    UNAVAILABLE may come with part of the prizes given: calling again gives the rest.
    """
    assert request.scope is not None
    tenant_id = request.scope.tenant_id
    reply: Reply = await engine.rankings.single_flight.share(
        ("finalize", tenant_id, request.scope.merchant_id, request.id), lambda: _finalize(engine, tenant_id, request)
    )
    return reply


async def _finalize(engine: Engine, tenant_id: str, request: m.GetLeaderboardRequest) -> Reply:
    closed = await _close(engine, tenant_id, request)
    board = await engine.database.fetchrow(_SQL["closed_board"], tenant_id, request.id)
    assert board is not None
    given = await _Prizes(engine, tenant_id, request.id, board).give()
    if closed:
        await engine.rankings.forget(tenant_id, request.id)
    rows = await engine.database.fetch(_SQL["standings"], tenant_id, request.id, 0, STANDINGS_MAX)
    if closed or given:
        engine.publisher.events([_event(tenant_id, request.id, board, rows)])
    shown = await get_leaderboard(engine, request)
    return Reply(leaderboard=shown.leaderboard, standings=[m.Standing(**row) for row in rows])


async def _close(engine: Engine, tenant_id: str, request: m.GetLeaderboardRequest) -> bool:
    """Closes the board and keeps its standings. False where it was closed already."""
    board_id = request.id

    async def work(connection: asyncpg.Connection) -> bool:
        before = await lock(connection, request)
        if await connection.fetchval(_SQL["has_standings"], tenant_id, board_id):
            return False
        if before["status"] == "archived":
            raise Fault(Status.FAILED_PRECONDITION, "ILLEGAL_TRANSITION", f"leaderboard {board_id} is archived")
        closed = await connection.fetchval(_SQL["finalize"], tenant_id, board_id)
        assert closed is not None, "the board is locked, and neither finalized nor archived"
        rows = await connection.fetch(_SQL["scores"], tenant_id, [board_id], None, None, timeout=COUNT_SECONDS)
        counted = counted_of(rows)
        assert counted is not None
        columns = _standings(counted.scores, before["prizes"])
        await connection.execute(_SQL["keep_standings"], tenant_id, board_id, *columns, timeout=COUNT_SECONDS)
        after = {"status": "finalized", "players": len(counted.scores)}
        await audit.record(connection, tenant_id, "leaderboard.finalize", board_id, after=after)
        return True

    return await engine.database.transaction(work)


def _standings(scores: list[Score], prizes: list[dict[str, Any]]) -> tuple[list[Any], ...]:
    """$3.. of `keep_standings`."""
    return (
        [one.player_id for one in scores],
        [one.display_name for one in scores],
        [one.score for one in scores],
        [one.achieved_us for one in scores],
        [prize_of(i + 1, one, prizes) for i, one in enumerate(scores)],
    )


def prize_of(rank: int, score: Score, prizes: list[dict[str, Any]]) -> str:
    """The prize of a rank; "" for none. A score of 0 or less wins nothing, whatever its rank."""
    if score.score <= 0:
        return ""
    return next((one["prize_id"] for one in prizes if one["from_rank"] <= rank <= one["to_rank"]), "")


class _Prizes:
    """Gives what a closed board still owes."""

    def __init__(self, engine: Engine, tenant_id: str, board_id: str, board: asyncpg.Record) -> None:
        self._engine = engine
        self._tenant_id = tenant_id
        self._board_id = board_id
        self._board = board
        self._day, _ = Days(board["timezone"]).at(engine.clock.now())
        self._terms: dict[str, PrizeTerms] = {}

    async def give(self) -> int:
        """Settles every standing that is PENDING; how many prizes this call gave."""
        given = 0
        while rows := await self._engine.database.fetch(_SQL["owed"], self._tenant_id, self._board_id, TOGETHER):
            if missing := {row["prize_id"] for row in rows} - self._terms.keys():
                self._terms |= await load_prizes(self._engine.database, self._tenant_id, missing)
            try:
                given += await self._commit(rows)
            except (Guarded, BalanceFull, _Gone):
                for row in rows:
                    settled = await self._settle(row)
                    if settled is None:
                        break  # Whom this rank's is given to now is read again, before the next one's turn.
                    given += settled
        return given

    async def _settle(self, row: asyncpg.Record) -> int | None:
        """Gives one standing its prize, or says why not: how many it gave. None where it is to be read again."""
        for attempt in range(ATTEMPTS):
            try:
                return await self._commit([row])
            except _Gone:
                reason = "PRIZE_ARCHIVED"
            except BalanceFull as full:
                reason = full.reason
            except Guarded as refusal:
                if refusal.guard in ("standing", "guest"):
                    return None  # Given by a rival, or the guest has logged in.
                # A code that is held by a rival's commit, or a balance that one moved, is looked at again.
                if refusal.guard not in WITHHELD or (refusal.guard == "codes" and attempt < ATTEMPTS - 1):
                    await asyncio.sleep(0.01 * 2**attempt)
                    continue
                reason = WITHHELD[refusal.guard]
            await self._engine.database.fetchval(_SQL["withhold"], self._tenant_id, self._board_id, row["rank"], reason)
            return 0
        raise Fault(
            Status.UNAVAILABLE, "OVERLOADED", "a winner's balance keeps moving; try again", retry_after_seconds=1
        )

    async def _commit(self, rows: list[asyncpg.Record]) -> int:
        """Gives these standings their prizes, all or none. Raises Guarded, _Gone."""
        changes, told = Changes(), []
        for row in rows:
            prize = self._terms.get(row["prize_id"])
            if prize is None or not prize.active:
                raise _Gone
            if row["guest"]:
                changes.hold_guest(row["player_id"])
            told.append(await self._decide(changes, row["rank"], row["player_id"], prize))
        await self._engine.committer.commit(self._tenant_id, changes)
        self._engine.publisher.events(told)
        self._engine.publisher.tasks(self._tenant_id, pending_tasks(changes))
        return len(rows)

    async def _decide(self, changes: Changes, rank: int, player_id: str, prize: PrizeTerms) -> events.Event:
        """Adds one standing's prize to the changes; the event that tells of it. Points leave a reward, as a rung's."""
        winner = Winner(player_id, self._board["campaign_id"], self._day)
        rewards = award(changes, prize, 1, winner)
        reward_id = rewards[0].reward_id
        if prize.points:
            await self._credit(changes, player_id, prize.points, reward_id)
        elif prize.turns:
            give_turns(changes, prize, rewards, winner, await self._turns(changes, player_id))
        changes.awards.append(StandingAward(self._board_id, rank, reward_id))
        return events.event_of(
            prize_won(winner, prize, 1, reward_id, leaderboard_id=self._board_id, rank=rank),
            occurred_at=self._engine.clock.now(),
            tenant_id=self._tenant_id,
            merchant_id=self._board["merchant_id"],
            campaign_id=self._board["campaign_id"],
        )

    async def _turns(self, changes: Changes, player_id: str) -> int:
        """The player's turns in the board's campaign, with what a better rank of the player's gave."""
        campaign_id = self._board["campaign_id"]
        if moved := changes.turns.get((player_id, campaign_id)):
            return moved.after
        asked = (self._tenant_id, player_id, campaign_id)
        return await self._engine.database.fetchval(_SQL["turns_of"], *asked) or 0

    async def _credit(self, changes: Changes, player_id: str, points: int, reward_id: str) -> None:
        """Points go to the campaign's wallet: a board has no wallet scope of its own."""
        scope_key = self._board["campaign_id"]
        # Two ranks may be one player's, whose guest logged in: the second is paid on top of the first.
        if moved := changes.balances.get((player_id, scope_key, POINTS)):
            before = moved.after
        else:
            key = (self._tenant_id, player_id, scope_key, POINTS)
            before = await self._engine.database.fetchval(_BALANCE, *key)
        entry = (points, "play_reward", self._board_id, reward_id)
        changes.move_balance(ids.make("entry"), player_id, scope_key, POINTS, before, *entry)


class _Gone(Exception):
    """A prize that a board names is not there to be given."""


def _event(tenant_id: str, board_id: str, board: asyncpg.Record, rows: list[asyncpg.Record]) -> events.Event:
    """leaderboard_finalized."""
    return events.event_of(
        events.LeaderboardFinalized(
            leaderboard_id=board_id,
            name=board["name"],
            game_id=board["game_id"],
            players=board["players"],
            standings=[events.Standing(**row) for row in rows[: events.STANDINGS_TOLD]],
        ),
        occurred_at=board["finalized_at"],
        tenant_id=tenant_id,
        merchant_id=board["merchant_id"],
        campaign_id=board["campaign_id"],
    )


async def finalized_event(engine: Engine, tenant_id: str, board_id: str) -> events.Event:
    """leaderboard_finalized of a board that is, as it is told when that is done."""
    board = await engine.database.fetchrow(_SQL["closed_board"], tenant_id, board_id)
    assert board is not None, "a finalized board stays one"
    rows = await engine.database.fetch(_SQL["standings"], tenant_id, board_id, 0, events.STANDINGS_TOLD)
    return _event(tenant_id, board_id, board, rows)
