"""What a game's actor remembers of its game, and how it reads that again.

A memory only saves a read: it refuses nobody (eligibility.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Final

import sql
from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.game.eligibility import makes_player
from runtime.actors.game.pending import READS, PendingRequest
from runtime.actors.game.snapshot import load_game
from runtime.actors.game.state import GameSnapshot, GameState, PlayerState, StockState

QUERIES: Final = sql.load("play")
PLAYERS_MAX: Final = 10_000
"""Players that one game's actor remembers; beyond it, it forgets them all and reads again."""
REFRESH_SECONDS: Final = 1.0
"""A start is not accepted by a snapshot that was last compared with the database longer ago than this."""


class GameCache:
    """One game's snapshot, the state of its players, the stock of its prizes."""

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

        Called without holding `deciding`: a neighbour that holds it may be about to decide by what is remembered,
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
        starts = [pending.player_id for pending in requests if planned and type(pending.request) is m.StartRequest]
        return [commit for commit, players in self.committing.items() if everything or not players.isdisjoint(starts)]

    async def refresh(self, requests: Sequence[PendingRequest], *, everything: bool) -> GameSnapshot:
        """Begins a round: reads what the requests need and is not remembered, or all that they need.

        Hold `deciding` for the call, and until the decisions by it are made.
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
                    or type(pending.request) in READS
                    or pending.bearer
                    or (snapshot.shows_plan and type(pending.request) is m.StartRequest)
                )
            }
            if not needed and self.refreshed_at and 0 <= now - self.refreshed_at < REFRESH_SECONDS:
                return snapshot
            # Any of a player's requests makes the row, whatever else comes with it and would not.
            made = {
                pending.player_id
                for pending in requests
                if pending.player_id in needed and not pending.newcomer and makes_player(snapshot, pending)
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
                player_id=player_id,
                plays=plays,
                day_plays=day_plays,
                turns=turns,
                suspended=barred,
                prizes=prizes or {},
                balances=balances or {},
                grants=grants or {},
                read_in=self.round,
                guest=guest,
                busy_until=busy,
            )
        for prize_id, remaining, day_awarded, codes in row["prizes"] or ():
            if not self.committing or prize_id not in self.stock:
                self.stock[prize_id] = StockState(remaining, day_awarded, codes, self.round)
        if ahead:
            # Else their counters would hold on the day that they name, too.
            keys = (self.tenant_id, self.game_id, ahead)
            day = (self.day, self.resets_at, snapshot.version)
            await self.engine.database.execute(QUERIES["set_back"], *keys, *day)
        self.refreshed_at = self.engine.clock.now()
        return row["catalog_version"], row["now"]

    def state(self) -> GameState:
        """What this round decides by. Decide and begin to commit before the next await: else another round moves it."""
        snapshot, engine = self.snapshot, self.engine
        assert snapshot is not None, "a round begins with refresh"
        return GameState(
            snapshot=snapshot,
            day=self.day,
            resets_at=self.resets_at,
            now=engine.clock.now(),
            round=self.round,
            compared=self.compared_in == self.round,
            players=self.players,
            stock=self.stock,
            under_way=self.committing.values(),
            keys=engine.keyring.server,
            session_seconds=engine.settings.session_ttl_seconds,
        )

    def note_stock(self, left: Mapping[str, int | None]) -> None:
        """Notes what a commit left of each prize: what other games of the tenant took of it shows in the next round."""
        if not self.committing:
            self.left.update(left)

    def _take_over_stock(self) -> None:
        if self.left and not self.committing:
            for prize_id in self.left.keys() & self.stock.keys():
                self.stock[prize_id].remaining = self.left[prize_id]
        self.left.clear()
