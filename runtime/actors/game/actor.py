"""A game's actor: what it remembers of one game, and how it reads that again.

What it remembers only saves reading it again: nobody is refused, and no prize is called unavailable,
by a memory. `require_fresh` is asked before either, and has the batch refreshed first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import sql
from runtime import events, ids
from runtime import messages as m
from runtime.actors.changes import Changes
from runtime.actors.engine import Engine
from runtime.actors.game.awards import Winner, award, give_turns, note_points, won_reward
from runtime.actors.game.pending import READS, PendingRequest
from runtime.actors.game.sessions import REVISION_CHARACTERS, Session
from runtime.actors.game.snapshot import POINTS, GameSnapshot, PrizeTerms, load_game
from runtime.errors import Fault, Status, suspended

QUERIES: Final = sql.load("play")
PLAYERS_MAX: Final = 10_000
"""Players that one game's actor remembers; beyond it, it forgets them all and reads again."""
REFRESH_SECONDS: Final = 1.0
"""A start is not accepted by a snapshot that was last compared with the database longer ago than this."""
CAP: Final = Status.FAILED_PRECONDITION


@dataclass(slots=True)
class PlayerState:
    """What a player is at, in one game, today. balances: of the game's wallet scope. grants: rung -> when.

    guest: has not logged in yet. What is decided of a guest holds as long as it is one (`Changes.hold_guest`).

    busy_until: see timing.py.

    read_in: the actor's round in which it was read; in any later one it is a memory.
    """

    player_id: str
    plays: int
    day_plays: int
    turns: int
    suspended: bool
    prizes: dict[str, int]
    balances: dict[str, int]
    grants: dict[str, int]
    read_in: int
    guest: bool = False
    busy_until: int = 0


@dataclass(slots=True)
class StockState:
    """What is left of a prize: units (None: unlimited), codes in the pool, and how many went out today."""

    remaining: int | None
    day_awarded: int
    codes: int
    read_in: int


class StaleRead(Exception):
    """What would refuse this was read in an earlier round: refresh first."""


class GameActor:
    """One game's memory: its snapshot, the state of its players, the stock of its prizes."""

    __slots__ = (
        "engine",
        "tenant_id",
        "game_id",
        "snapshot",
        "players",
        "stock",
        "day",
        "resets_at",
        "refreshed_at",
        "round",
        "compared_in",
        "deciding",
        "committing",
        "distrusted",
        "outdated",
        "unmade",
        "left",
        "merged",
    )

    def __init__(self, engine: Engine, key: tuple[str, str]) -> None:
        self.engine = engine
        self.tenant_id, self.game_id = key
        self.snapshot: GameSnapshot | None = None
        self.players: dict[str, PlayerState] = {}
        self.stock: dict[str, StockState] = {}
        self.day = date.min
        self.resets_at = 0
        self.refreshed_at = 0.0
        self.round = self.compared_in = 0
        self.deciding = asyncio.Lock()
        self.committing: dict[asyncio.Future[Any], frozenset[str]] = {}  # and who plays in it, where that counts
        self.distrusted = False
        self.outdated = False
        self.unmade: list[str] = []
        self.left: dict[str, int | None] = {}
        self.merged: dict[str, str] = {}

    def distrust(self, *, snapshot: bool = False) -> None:
        """Has the next round read all anew, the snapshot too where that may be old.

        For whoever does not hold `deciding`: a neighbour that does may be about to decide by what is remembered,
        so nothing of that is touched here.
        """
        self.distrusted = True
        self.outdated = self.outdated or snapshot

    async def _forget(self) -> None:
        """Forgets what is remembered, once what is being committed can be read: now it would be missed for good."""
        if self.committing:
            await asyncio.wait(list(self.committing))
        self.players.clear()
        self.merged.clear()
        self.stock.clear()
        self.refreshed_at = 0.0

    def _follow_merged(self, requests: Sequence[PendingRequest]) -> bool:
        """Turns what came for guests that have logged in to the players they are now. True where there was any."""
        followed = False
        for pending in requests:
            if (player_id := self.merged.get(pending.player_id)) is not None:
                pending.turn_to(player_id)
                followed = True
        return followed

    def _commits_before(self, requests: Sequence[PendingRequest], *, everything: bool) -> list[asyncio.Future[Any]]:
        """Those under way that say which plan these starts are to show; everything: all that are under way."""
        planned = self.snapshot is not None and self.snapshot.shows_plan
        starts = [pending.player_id for pending in requests if planned and isinstance(pending.request, m.StartRequest)]
        return [commit for commit, players in self.committing.items() if everything or not players.isdisjoint(starts)]

    # ---------------------------------------------------------------- refresh

    async def refresh(self, requests: Sequence[PendingRequest], *, everything: bool) -> GameSnapshot:
        """Begins a round: reads what the requests need and is not remembered, or all that they need.

        Only who holds `deciding` may call it, and decides by it before letting go.
        """
        engine = self.engine
        if waited := self.committing and self._commits_before(requests, everything=everything or self.distrusted):
            await asyncio.wait(waited)  # It may fail, and then this round is the next one after it.
        self.round += 1
        if self.outdated:
            self.snapshot = None
        everything = everything or self.distrusted
        self.distrusted = self.outdated = False
        self._take_over_stock()
        while self.unmade:
            self.players.pop(self.unmade.pop(), None)
        now = engine.clock.now()
        while True:
            snapshot = self.snapshot
            if snapshot is None or snapshot.version < engine.catalog_versions.get(self.tenant_id, 0):
                snapshot = self.snapshot = await load_game(engine.database, self.tenant_id, self.game_id)
                engine.catalog_changed(self.tenant_id, snapshot.version)
                self.compared_in = self.round
                await self._forget()
            day, self.resets_at = snapshot.today(now)
            if day != self.day or everything or len(self.players) > PLAYERS_MAX:
                self.day = day
                await self._forget()
            if self.merged:
                self._follow_merged(requests)
            needed = {
                pending.player_id
                for pending in requests
                if not pending.newcomer
                # Whether a session is its bearer's is not told from memory: its guest may have logged in since. Nor is
                # which plan is next: after plays through another Core it would be one that cannot be played.
                and (
                    pending.player_id not in self.players
                    or isinstance(pending.request, READS)
                    or pending.bearer
                    or (snapshot.shows_plan and isinstance(pending.request, m.StartRequest))
                )
            }
            if not needed and self.refreshed_at and 0 <= now - self.refreshed_at < REFRESH_SECONDS:
                return snapshot
            # Any of a player's requests makes the row, whatever else comes with it and would not.
            made = {
                pending.player_id
                for pending in requests
                if pending.player_id in needed and not pending.newcomer and pending.makes_player(snapshot)
            }
            version, now = await self._read(snapshot, needed, made)
            if version != snapshot.version:
                self.snapshot = None
                continue
            self.compared_in = self.round
            if snapshot.today(now)[0] != self.day:  # The database's day: the commit's guard goes by it.
                continue
            if not self.merged or not self._follow_merged(requests):
                return snapshot

    async def _read(self, snapshot: GameSnapshot, needed: set[str], made: set[str]) -> tuple[int, float]:
        """Reads the state of the players in `needed`, and all stock. (the catalogue's version, the database's time).

        made: those of them who get a row where they have none.
        """
        asked = time.monotonic()
        row = await self.engine.database.fetchrow(
            QUERIES["refresh"],
            self.tenant_id,
            self.game_id,
            list(needed),
            list(snapshot.prizes),
            sorted(made),
            snapshot.campaign_id,
            snapshot.scope_key,
            self.day,
        )
        assert row is not None, "refresh always has its one row"
        self.engine.clock.sync(row["now"], asked, time.monotonic())
        ahead = []
        for player_id, plays, day_plays, is_ahead, turns, barred, prizes, balances, grants, guest, merged, busy in (
            row["players"] or ()
        ):
            if merged is not None:
                self.merged[player_id] = merged
                continue
            if is_ahead:
                ahead.append(player_id)
            if guest is None:  # Without a row, but for one that this very statement made.
                guest = ids.is_guest(player_id)
                if player_id not in made:
                    self.unmade.append(player_id)  # Remembered, its first play would not make one.
            self.players[player_id] = PlayerState(
                player_id,
                plays,
                day_plays,
                turns,
                barred,
                prizes or {},
                balances or {},
                grants or {},
                self.round,
                guest,
                busy,
            )
        for prize_id, remaining, day_awarded, codes in row["prizes"] or ():
            if not self.committing or prize_id not in self.stock:
                self.stock[prize_id] = StockState(remaining, day_awarded, codes, self.round)
        if ahead:
            # Else their counters would hold on the day that they name, too.
            keys = (self.tenant_id, self.game_id, ahead)
            await self.engine.database.execute(QUERIES["set_back"], *keys, self.day, self.resets_at)
        self.refreshed_at = self.engine.clock.now()
        return row["catalog_version"], row["now"]

    def note_stock(self, left: Mapping[str, int | None]) -> None:
        """Notes what a commit left of each prize: what other games of the tenant took of it shows in the next round."""
        if not self.committing:
            self.left.update(left)

    def _take_over_stock(self) -> None:
        if self.left and not self.committing:
            for prize_id in self.left.keys() & self.stock.keys():
                self.stock[prize_id].remaining = self.left[prize_id]
        self.left.clear()

    def state_of(self, pending: PendingRequest) -> PlayerState:
        """What the player of a request is at, as this round has it."""
        if pending.newcomer:
            return PlayerState(pending.player_id, 0, 0, 0, False, {}, {}, {}, self.round)
        return self.players[pending.player_id]

    def look_of(self, pending: PendingRequest) -> Any:
        """What a decision about this request goes by. Two that are equal would be decided alike."""
        player = self.state_of(pending)
        assert self.snapshot is not None
        stock = {prize_id: (own.remaining, own.day_awarded, own.codes) for prize_id, own in self.stock.items()}
        held = map(dict, (player.prizes, player.balances, player.grants))
        own = (player.plays, player.day_plays, player.turns, player.busy_until, *held)
        return self.snapshot.version, self.day, own, stock

    # ---------------------------------------------------------------- what a decision asks and moves

    def refuse_suspended(self, player: PlayerState) -> None:
        """PERMISSION_DENIED SUSPENDED."""
        if player.suspended:
            self.require_fresh(player)
            raise suspended("player")

    def refuse_guest(self, snapshot: GameSnapshot, player: PlayerState) -> None:
        """PERMISSION_DENIED LOGIN_REQUIRED for a guest, where the game is for players."""
        if player.guest and snapshot.access != "public" and not snapshot.admits_guests:
            self.require_fresh(player)
            raise Fault(Status.PERMISSION_DENIED, "LOGIN_REQUIRED", "this game is for players who have logged in")

    def admit(self, snapshot: GameSnapshot, player: PlayerState) -> bool:
        """True where the play spends a turn. Refuses with the cap that is reached, and when it resets."""
        self.refuse_suspended(player)
        if snapshot.max_plays_per_user and player.plays >= snapshot.max_plays_per_user:
            self.require_fresh(player)
            limit = snapshot.max_plays_per_user
            raise Fault(CAP, "CAP_USER", f"{player.plays} of {limit} plays used", limit=limit, resets_at=0)
        day_used = bool(snapshot.max_plays_per_day) and player.day_plays >= snapshot.max_plays_per_day
        if not day_used and not snapshot.requires_turn:
            return False
        if player.turns > 0 and not (day_used and snapshot.requires_turn):
            return True
        self.require_fresh(player)
        if day_used:
            limit = snapshot.max_plays_per_day
            raise Fault(
                CAP, "CAP_DAY", f"{player.day_plays} of {limit} plays used today", limit=limit, resets_at=self.resets_at
            )
        raise Fault(CAP, "NO_TURNS", "a play of this game needs a turn, and there is none", resets_at=0)

    def require_fresh(self, seen: PlayerState | StockState) -> None:
        """To be called before anything is refused because of `seen`. Raises StaleRead unless this round read it."""
        if seen.read_in != self.round:
            raise StaleRead

    def require_session(self, snapshot: GameSnapshot, session: Session, player: PlayerState) -> None:
        """GAME_CHANGED for a session that promised something else than the game now is. SESSION_PLAYED where its plan
        is one before that of the player's next play, SESSION_EXPIRED where it is one after it.
        """
        if session.revision != snapshot.revision_hash[:REVISION_CHARACTERS]:
            if self.compared_in != self.round:
                raise StaleRead
            raise Fault(CAP, "GAME_CHANGED", "the game was changed after this session began; start another")
        if 0 <= session.ordinal != player.plays:
            self.require_fresh(player)
            if session.ordinal > player.plays:  # The play that this one was to follow was undone.
                raise Fault(CAP, "SESSION_EXPIRED", "the play before this session's was not kept; start another")
            raise Fault(Status.ALREADY_EXISTS, "SESSION_PLAYED", "this session's plan was played already")

    def withheld(self, prize: PrizeTerms | None, player: PlayerState, quantity: int) -> str:
        """Why this player may not take `quantity` of the prize now: the reason that stands longest. Empty: it may."""
        stock = None if prize is None else self.stock.get(prize.prize_id)
        if prize is None or stock is None or not prize.active:
            return "OUT_OF_STOCK"
        if prize.max_per_user and player.prizes.get(prize.prize_id, 0) + quantity > prize.max_per_user:
            reason = "CAP_USER"
        elif (stock.remaining is not None and stock.remaining < quantity and not prize.is_points) or (
            prize.takes_code and stock.codes < quantity
        ):
            reason = "OUT_OF_STOCK"
        elif prize.max_per_day and stock.day_awarded + quantity > prize.max_per_day:
            reason = "CAP_DAY"
        else:
            return ""
        self.require_fresh(stock)
        self.require_fresh(player)
        return reason

    def take(self, prize: PrizeTerms, player: PlayerState, quantity: int) -> None:
        """Remembers that `quantity` of the prize went to this player."""
        stock = self.stock[prize.prize_id]
        if stock.remaining is not None and not prize.is_points:
            stock.remaining -= quantity
        stock.codes -= quantity if prize.takes_code else 0
        stock.day_awarded += quantity
        player.prizes[prize.prize_id] = player.prizes.get(prize.prize_id, 0) + quantity

    def give(
        self,
        snapshot: GameSnapshot,
        player: PlayerState,
        prize: PrizeTerms,
        quantity: int,
        winner: Winner,
        changes: Changes,
    ) -> list[m.WonReward]:
        """Gives `quantity` of a prize: points to the wallet, anything else as rewards, with the turns that they give.

        The points of a rung leave a reward as well, since no play tells of them (contract.md, "Milestones").
        """
        self.take(prize, player, quantity)
        if not prize.is_points:
            rewards = award(changes, prize, quantity, winner)
            player.turns += give_turns(changes, prize, rewards, winner, player.turns)
            return rewards
        changes.take_prize(
            prize.prize_id,
            player.player_id,
            quantity,
            self.day,
            stocked=False,
            per_user=prize.max_per_user,
            per_day=prize.max_per_day,
        )
        reward_id = note_points(changes, prize, quantity, winner) if winner.milestone_id else ""
        if amount := prize.points * quantity:
            reference = winner.play_id or winner.milestone_id
            self.credit(snapshot, player, POINTS, amount, "play_reward", reference, changes, reward_id)
        return [won_reward(prize, quantity, reward_id)]

    def credit(
        self,
        snapshot: GameSnapshot,
        player: PlayerState,
        currency: str,
        amount: int,
        reason: str,
        reference_id: str,
        changes: Changes,
        reward_id: str = "",
    ) -> None:
        """Moves a balance of the game's wallet scope. reward_id: what it pays for, or is."""
        player.balances[currency] = changes.move_balance(
            ids.make("entry"),
            player.player_id,
            snapshot.scope_key,
            currency,
            player.balances.get(currency),
            amount,
            reason,
            reference_id,
            reward_id,
        )

    def event(
        self, data: events.EventData, snapshot: GameSnapshot, pending: PendingRequest, now: float, *, nth: int = 0
    ) -> events.Event:
        """An event of this game, in the trace of the request that caused it. nth: of a play's prizes."""
        return events.event_of(
            data,
            occurred_at=now,
            tenant_id=self.tenant_id,
            merchant_id=snapshot.merchant_id,
            campaign_id=snapshot.campaign_id,
            trace_id=pending.work.trace_id,
            nth=nth,
        )
