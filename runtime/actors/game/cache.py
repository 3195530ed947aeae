"""The cache of a game's actor, and how it is refreshed.

The cache only saves reads. Cached data never refuses a request (eligibility.py).
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
"""Players that one game's actor caches; beyond this it clears the cache and reads again."""
REFRESH_SECONDS: Final = 1.0
"""Maximum age of the snapshot that admits a start. A play may use an older one: the commit's guard detects a stale
version, and the play is decided again by a new snapshot before it is refused."""


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
        self.committing: dict[asyncio.Future[Any], frozenset[str]] = {}  # players whose next plays it decides
        self.distrusted = False
        self.outdated = False
        self.without_row: list[str] = []
        self.remaining_stock: dict[str, int | None] = {}
        self.merged: dict[str, str] = {}

    def distrust(self, *, snapshot: bool = False) -> None:
        """Makes the next round read everything again, including the snapshot if that may be stale.

        Callers do not hold `deciding`: a concurrent round may be deciding from the cache, so this only sets flags.
        """
        self.distrusted = True
        self.outdated = self.outdated or snapshot

    async def _clear(self) -> None:
        """Clears the cache after the pending commits have ended: rows read before would lack their effects for good."""
        if self.committing:
            await asyncio.wait(list(self.committing))
        self.players.clear()
        self.merged.clear()
        self.stock.clear()
        self.refreshed_at = 0.0

    def _redirect_merged(self, requests: Sequence[PendingRequest]) -> bool:
        """Redirects requests of guests that have logged in to their players. Returns whether there were any."""
        redirected = False
        for pending in requests:
            if (player_id := self.merged.get(pending.player_id)) is not None:
                pending.redirect_to(player_id)
                redirected = True
        return redirected

    def _commits_before(self, requests: Sequence[PendingRequest], *, everything: bool) -> list[asyncio.Future[Any]]:
        """The pending commits that decide which plan these starts show. everything: all pending commits."""
        planned = self.snapshot is not None and self.snapshot.shows_plan
        starts = [pending.player_id for pending in requests if planned and type(pending.request) is m.StartRequest]
        return [commit for commit, players in self.committing.items() if everything or not players.isdisjoint(starts)]

    async def refresh(self, requests: Sequence[PendingRequest], *, everything: bool) -> GameSnapshot:
        """Begins a round: reads what the requests need and the cache lacks, or all that they need if `everything`.

        Hold `deciding` from this call until the decisions are made.
        """
        engine = self.engine
        if waited := self.committing and self._commits_before(requests, everything=everything or self.distrusted):
            await asyncio.wait(waited)  # If one fails, this round is decided without it.
        self.round += 1
        if self.outdated:
            self.snapshot = None
        everything = everything or self.distrusted
        self.distrusted = self.outdated = False
        self._apply_remaining_stock()
        while self.without_row:
            self.players.pop(self.without_row.pop(), None)
        now = engine.clock.now()
        while True:
            snapshot = self.snapshot
            if snapshot is None or snapshot.version < engine.catalog_versions.get(self.tenant_id, 0):
                snapshot = self.snapshot = await load_game(
                    engine.database, self.tenant_id, self.game_id, engine.keyring.server
                )
                engine.catalog_changed(self.tenant_id, snapshot.version)
                self.compared_in = self.round
                await self._clear()
            day, self.resets_at = snapshot.today(now)
            if day != self.day or everything or len(self.players) > PLAYERS_MAX:
                self.day = day
                await self._clear()
            if self.merged:
                self._redirect_merged(requests)
            needed = {
                pending.player_id
                for pending in requests
                if not pending.newcomer
                # Never decide from the cache whether a session belongs to its bearer: its guest may have logged in. Nor
                # which plan is next: plays through another Core may have used that plan. Nor whether an entry is
                # complete: a consent may have been withdrawn.
                and (
                    pending.player_id not in self.players
                    or type(pending.request) in READS
                    or pending.bearer
                    or ((snapshot.shows_plan or snapshot.entry is not None) and type(pending.request) is m.StartRequest)
                )
            }
            recent = 0 <= now - self.refreshed_at < REFRESH_SECONDS
            if not needed and self.refreshed_at and (recent or _are_plays(requests)):
                return snapshot
            # One request that creates the player's row is enough, even next to requests that do not.
            created = {
                pending.player_id
                for pending in requests
                if pending.player_id in needed and not pending.newcomer and makes_player(snapshot, pending)
            }
            version, now = await self._read(snapshot, needed, created)
            if version != snapshot.version:
                self.snapshot = None
                continue
            self.compared_in = self.round
            if snapshot.today(now)[0] != self.day:  # The commit's guard uses the database's day.
                continue
            if not self.merged or not self._redirect_merged(requests):
                return snapshot

    async def _read(self, snapshot: GameSnapshot, needed: set[str], created: set[str]) -> tuple[int, float]:
        """Reads the players in `needed` and all stock. Returns the catalogue's version and the database's time.

        created: the players that get a row if they have none.
        """
        sent = time.monotonic()
        row = await self.engine.database.fetchrow(
            QUERIES["refresh"],
            self.tenant_id,
            self.game_id,
            list(needed),
            list(snapshot.prizes),
            sorted(created),
            snapshot.campaign_id,
            snapshot.scope_key,
            self.day,
            snapshot.entry is not None,
        )
        assert row is not None, "refresh always has its one row"
        self.engine.clock.sync(row["now"], sent, time.monotonic())
        ahead = []
        for found in row["players"] or ():
            (
                player_id,
                plays,
                day_plays,
                is_ahead,
                turns,
                suspended,
                prizes,
                balances,
                grants,
                guest,
                merged,
                busy,
                entry,
            ) = found
            if merged is not None:
                self.merged[player_id] = merged
                continue
            if is_ahead:
                ahead.append(player_id)
            if guest is None:  # The player has no row, or this very statement created it.
                guest = ids.is_guest(player_id)
                if player_id not in created:
                    self.without_row.append(player_id)  # Evicted next round: a cached player gets no row.
            self.players[player_id] = PlayerState(
                player_id=player_id,
                plays=plays,
                day_plays=day_plays,
                turns=turns,
                suspended=suspended,
                prizes=prizes or {},
                balances=balances or {},
                grants=grants or {},
                read_in=self.round,
                guest=guest,
                busy_until=busy,
                entry=None if entry is None else (entry[0], frozenset(entry[1])),
            )
        for prize_id, remaining, day_awarded, codes in row["prizes"] or ():
            if not self.committing or prize_id not in self.stock:
                self.stock[prize_id] = StockState(remaining, day_awarded, codes, self.round)
        if ahead:
            # Reset counters that name a later day: otherwise they would still apply on that day.
            keys = (self.tenant_id, self.game_id, ahead)
            day = (self.day, self.resets_at, snapshot.version)
            await self.engine.database.execute(QUERIES["rewind_days"], *keys, *day)
        self.refreshed_at = self.engine.clock.now()
        return row["catalog_version"], row["now"]

    def state(self) -> GameState:
        """This round's state. Decide and begin the commit before the next await: other rounds change it."""
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

    def record_stock(self, remaining_stock: Mapping[str, int | None]) -> None:
        """Records the remaining stock after a commit. The next round then sees what other games of the tenant took."""
        if not self.committing:
            self.remaining_stock.update(remaining_stock)

    def _apply_remaining_stock(self) -> None:
        if self.remaining_stock and not self.committing:
            for prize_id in self.remaining_stock.keys() & self.stock.keys():
                self.stock[prize_id].remaining = self.remaining_stock[prize_id]
        self.remaining_stock.clear()


def _are_plays(requests: Sequence[PendingRequest]) -> bool:
    return all(type(pending.request) is m.PlayRequest for pending in requests)
