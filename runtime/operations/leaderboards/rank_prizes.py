"""Awards prizes by rank, of a finalized board or a confirmed draw.

Each prize is committed like any other award, in one statement that also settles its standing. The guard refuses a
settled standing. If a process dies between two ranks, the rest stay PENDING and the next call awards them; no rank is
awarded twice. Ranks are settled in order, so that the last unit in stock goes to the better rank.
"""

from __future__ import annotations

import asyncio
from typing import Final

import asyncpg

import sql
from runtime import events, ids
from runtime.actors.changes import Changes, StandingAward
from runtime.actors.engine import Engine
from runtime.actors.game.awards import Winner, award, give_turns, prize_won, publish_tasks
from runtime.actors.game.snapshot import load_prizes
from runtime.actors.game.state import POINTS, PrizeTerms
from runtime.errors import BalanceFull, Fault, Status
from runtime.stores.clock import Days
from runtime.stores.database import Guarded

_SQL: Final = sql.load("leaderboards")
_BALANCE: Final = sql.load("wallet")["balance"]
_FREE_CODES: Final = sql.load("codes")["available"]

BATCH: Final = 50
"""Prizes per commit, in the normal case."""

ATTEMPTS: Final = 8
"""Attempts per prize, when a concurrent commit locks its code or changes the winner's balance."""

WITHHELD: Final = {
    "stock": "OUT_OF_STOCK",
    "codes": "OUT_OF_STOCK",
    "prize_day": "CAP_DAY",
    "prize_player": "CAP_USER",
}
"""The reason why a standing gets no prize, by the guard that refused it."""


class RankPrizes:
    """The prizes of a board's or a draw's ranks.

    board: its campaign_id, merchant_id and timezone. source: the field of prize_won that names it.
    """

    def __init__(self, engine: Engine, tenant_id: str, board_id: str, board: asyncpg.Record, source: str) -> None:
        self._engine = engine
        self._tenant_id = tenant_id
        self._board_id = board_id
        self._board = board
        self._source = {source: board_id}
        self._day, _ = Days(board["timezone"]).at(engine.clock.now())
        self._terms: dict[str, PrizeTerms] = {}

    async def award(self) -> int:
        """Settles every PENDING standing. Returns the number of prizes awarded."""
        awarded = 0
        while rows := await self._engine.database.fetch(_SQL["owed"], self._tenant_id, self._board_id, BATCH):
            if suspended := [row["rank"] for row in rows if row["is_suspended"]]:
                for rank in suspended:
                    await self._withhold(rank, "SUSPENDED")
                continue
            if missing := {row["prize_id"] for row in rows} - self._terms.keys():
                self._terms |= await load_prizes(self._engine.database, self._tenant_id, missing)
            try:
                awarded += await self._commit(rows)
            except (Guarded, BalanceFull, _PrizeMissing):
                for row in rows:
                    settled = await self._settle(row)
                    if settled is None:
                        break  # Read the standings again before the next rank: this one was awarded or changed player.
                    awarded += settled
        return awarded

    async def _settle(self, row: asyncpg.Record) -> int | None:
        """Awards the prize of one standing, or stores why not. Returns the number awarded; None: read it again."""
        for attempt in range(ATTEMPTS):
            try:
                return await self._commit([row])
            except _PrizeMissing:
                reason = "PRIZE_ARCHIVED"
            except BalanceFull as full:
                reason = full.reason
            except Guarded as refusal:
                if refusal.guard in ("standing", "guest"):
                    return None  # Awarded concurrently, or the guest has logged in.
                # Retry if a concurrent commit locks the free codes or has changed the balance.
                prize_id = row["prize_id"]
                if refusal.guard not in WITHHELD or (refusal.guard == "codes" and await self._has_codes(prize_id)):
                    await asyncio.sleep(0.01 * 2**attempt)
                    continue
                reason = WITHHELD[refusal.guard]
            await self._withhold(row["rank"], reason)
            return 0
        message = "a winner's balance or the prize's codes keep changing; try again"
        raise Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=1)

    async def _has_codes(self, prize_id: str) -> bool:
        """Whether the prize has free codes, including those that a concurrent commit has locked."""
        return bool(await self._engine.database.fetchval(_FREE_CODES, self._tenant_id, prize_id))

    async def _withhold(self, rank: int, reason: str) -> None:
        await self._engine.database.fetchval(_SQL["withhold"], self._tenant_id, self._board_id, rank, reason)

    async def _commit(self, rows: list[asyncpg.Record]) -> int:
        """Awards the prizes of these standings, all or none. Raises Guarded, _PrizeMissing."""
        changes, emitted = Changes(), []
        for row in rows:
            prize = self._terms.get(row["prize_id"])
            if prize is None or not prize.active:
                raise _PrizeMissing
            if row["guest"]:
                changes.require_guest(row["player_id"])
            emitted.append(await self._decide(changes, row["rank"], row["player_id"], prize))
        await self._engine.committer.commit(self._tenant_id, changes)
        self._engine.publisher.events(emitted)
        publish_tasks(self._engine, self._tenant_id, changes)
        return len(rows)

    async def _decide(self, changes: Changes, rank: int, player_id: str, prize: PrizeTerms) -> events.Event:
        """Adds one standing's prize to the changes, and returns its event. Points create a reward too, as for rungs."""
        winner = Winner(player_id, self._board["campaign_id"], self._day)
        rewards = award(changes, prize, 1, winner)
        reward_id = rewards[0].reward_id
        if prize.points:
            await self._credit(changes, player_id, prize.points, reward_id)
        elif prize.turns:
            give_turns(changes, prize, rewards, winner, await self._turns(changes, player_id))
        changes.awards.append(StandingAward(self._board_id, rank, reward_id))
        return events.event_of(
            prize_won(winner, prize, 1, reward_id, **self._source, rank=rank),
            occurred_at=self._engine.clock.now(),
            tenant_id=self._tenant_id,
            merchant_id=self._board["merchant_id"],
            campaign_id=self._board["campaign_id"],
        )

    async def _turns(self, changes: Changes, player_id: str) -> int:
        """The player's turns in the board's campaign, including those from a better rank of the same player."""
        campaign_id = self._board["campaign_id"]
        if moved := changes.turns.get((player_id, campaign_id)):
            return moved.after
        key = (self._tenant_id, player_id, campaign_id)
        return await self._engine.database.fetchval(_SQL["turns_of"], *key) or 0

    async def _credit(self, changes: Changes, player_id: str, points: int, reward_id: str) -> None:
        """Credits points to the campaign's wallet, as a board has no wallet scope."""
        scope_key = self._board["campaign_id"]
        # A player may have two ranks, one as a guest that logged in: the second adds to the first.
        if moved := changes.balances.get((player_id, scope_key, POINTS)):
            before = moved.after
        else:
            key = (self._tenant_id, player_id, scope_key, POINTS)
            before = await self._engine.database.fetchval(_BALANCE, *key)
        entry = (points, "play_reward", self._board_id, reward_id)
        changes.move_balance(ids.make("entry"), player_id, scope_key, POINTS, before, *entry)


class _PrizeMissing(Exception):
    """A prize of the board is archived or missing."""
