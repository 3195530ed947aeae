"""The changes of a batch: the rows that the commit statement (sql/commit.sql) takes, and how decisions add to them.

`Changes` is the only declaration. Its fields, in order, are the statement's $3, $4 and so on; each row type is the
composite type of its name in schema.sql (`NewPlay` is `new_play`), which begins with the tenant. The import checks that
types, field order and the statement's parameters agree (statement.py).

Rows are Structs of msgspec, which takes 0.2 us to make one; a NamedTuple takes 1 us.
"""

from __future__ import annotations

from datetime import date
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import field
from msgspec.structs import astuple

from runtime.errors import BALANCE_MAX

# -- rows ------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True, order=True):
    """A row of a parameter, without its tenant. Ordered by its fields."""


class NewPlay(Row, frozen=True, order=True):
    """A play. outcome: JSON of the rule's decision and the reply."""

    play_id: str
    game_id: str
    player_id: str
    session_id: str
    revision: int
    seed: bytes
    client_seed: str
    payload: dict[str, Any]
    outcome: bytes
    score: int
    wins: int
    points: int
    idempotency_key: str | None
    request_hash: bytes | None


class PlayCount(Row, frozen=True, order=True):
    """Adds `plays` to a player's counts of a game. cap: the most plays in total; day_cap: on `day`. 0: no cap.

    day_ends: unix seconds at which the day ends; a later commit is refused. 0: not checked.
    exact: optimistic lock: the total must become `cap`, otherwise a concurrent play was committed or rolled back.
    busy_until: end of the time that timed plays have used (eligibility.py), in unix milliseconds; 0: none.
    """

    game_id: str
    player_id: str
    day: date
    plays: int
    cap: int
    day_cap: int
    day_ends: int = 0
    exact: bool = False
    busy_until: int = 0

    def plus(self, later: PlayCount) -> PlayCount:
        """Adds later plays of the same day, with their caps."""
        return PlayCount(
            self.game_id,
            self.player_id,
            self.day,
            self.plays + later.plays,
            _cap_of_both(self.cap, later.plays, later.cap),
            _cap_of_both(self.day_cap, later.plays, later.day_cap),
            min(self.day_ends or later.day_ends, later.day_ends or self.day_ends),
            self.exact or later.exact,
            max(self.busy_until, later.busy_until),
        )


class TurnMove(Row, frozen=True, order=True):
    """A player's turns in a campaign, which must be `before` and become `after`. Zero turns may mean no row yet."""

    player_id: str
    campaign_id: str
    before: int
    after: int


class NewTurnEntry(Row, frozen=True, order=True):
    """The ledger entry of one change of turns."""

    entry_id: str
    player_id: str
    campaign_id: str
    amount: int
    balance_after: int
    reason: str
    reference_id: str


class BalanceMove(Row, frozen=True, order=True):
    """A balance that must be `before` (None: no row yet) and becomes `after`."""

    player_id: str
    scope_key: str
    currency: str
    before: int | None
    after: int


class NewLedgerEntry(Row, frozen=True, order=True):
    """The ledger entry of one balance change. reward_id: the reward that it pays for or represents; empty if none."""

    entry_id: str
    player_id: str
    scope_key: str
    currency: str
    amount: int
    balance_after: int
    reason: str
    reference_id: str
    reward_id: str


class StockTake(Row, frozen=True, order=True):
    """Units taken from a prize's stock, of which at least `held_back` units must remain."""

    prize_id: str
    quantity: int
    held_back: int = 0

    def plus(self, later: StockTake) -> StockTake:
        """Adds later units."""
        return StockTake(self.prize_id, self.quantity + later.quantity, max(self.held_back, later.held_back))


class PrizeDayCount(Row, frozen=True, order=True):
    """Units of a prize awarded on a day, at most `cap` (0: no cap)."""

    prize_id: str
    day: date
    quantity: int
    cap: int

    def plus(self, later: PrizeDayCount) -> PrizeDayCount:
        """Adds later units, with their cap."""
        cap = _cap_of_both(self.cap, later.quantity, later.cap)
        return PrizeDayCount(self.prize_id, self.day, self.quantity + later.quantity, cap)


class PrizePlayerCount(Row, frozen=True, order=True):
    """Units of a prize awarded to a player in total, at most `cap` (0: no cap)."""

    prize_id: str
    player_id: str
    quantity: int
    cap: int

    def plus(self, later: PrizePlayerCount) -> PrizePlayerCount:
        """Adds later units, with their cap."""
        cap = _cap_of_both(self.cap, later.quantity, later.cap)
        return PrizePlayerCount(self.prize_id, self.player_id, self.quantity + later.quantity, cap)


class NewReward(Row, frozen=True, order=True):
    """A reward: won by a play, by a rung (milestone_id) or, with both empty, by a rank of a leaderboard or draw."""

    reward_id: str
    player_id: str
    prize_id: str
    campaign_id: str
    game_id: str
    play_id: str
    milestone_id: str
    name: str
    type: str
    value: float
    quantity: int
    status: str
    expires_after_days: int


class CodeTake(Row, frozen=True, order=True):
    """Assigns the nth free code of the prize, counted from 1, to the reward."""

    reward_id: str
    prize_id: str
    nth: int


class NewTask(Row, frozen=True, order=True):
    """A reward's delivery task. status: pending, awaiting (staff), or delivered if the channel is instant."""

    task_id: str
    reward_id: str
    prize_id: str
    campaign_id: str
    player_id: str
    channel: str
    status: str


class NewGrant(Row, frozen=True, order=True):
    """A rung granted to a player. The key, hash and reply (JSON) belong to a redeem; None if a play crossed it."""

    game_id: str
    player_id: str
    milestone_id: str
    reward_id: str
    idempotency_key: str | None
    request_hash: bytes | None
    reply: bytes | None


class StandingAward(Row, frozen=True, order=True):
    """A reward for a rank of a finalized leaderboard or draw."""

    board_id: str
    rank: int
    reward_id: str


class GameDebut(Row, frozen=True, order=True):
    """A game without known plays. Its first play blocks catalogue changes that rely on it having none."""

    game_id: str


class StillGuest(Row, frozen=True, order=True):
    """A guest that a decision is for: the commit is refused if it has been merged into a player."""

    player_id: str


class HeldEntry(Row, frozen=True, order=True):
    """The revision of a player's entry that admitted a play: the commit is refused if the entry has changed."""

    player_id: str
    campaign_id: str
    revision: int


# -- changes ---------------------------------------------------------------------------------


class Changes(msgspec.Struct):
    """What one or more decisions change: a field for each parameter of the commit statement, in order.

    catalog_version 0 commits at any version of the catalogue. Rows that several decisions share are in dicts by their
    key, which is their first fields. The statement takes them sorted by key, which fixes the lock order; plays and
    grants too.
    """

    catalog_version: int = 0
    plays: list[NewPlay] = field(default_factory=list)
    play_counts: dict[tuple[str, str], PlayCount] = field(default_factory=dict)
    turns: dict[tuple[str, str], TurnMove] = field(default_factory=dict)
    turn_entries: list[NewTurnEntry] = field(default_factory=list)
    balances: dict[tuple[str, str, str], BalanceMove] = field(default_factory=dict)
    ledger: list[NewLedgerEntry] = field(default_factory=list)
    stock: dict[str, StockTake] = field(default_factory=dict)
    prize_days: dict[tuple[str, date], PrizeDayCount] = field(default_factory=dict)
    prize_players: dict[tuple[str, str], PrizePlayerCount] = field(default_factory=dict)
    rewards: list[NewReward] = field(default_factory=list)
    codes: list[CodeTake] = field(default_factory=list)
    tasks: list[NewTask] = field(default_factory=list)
    grants: list[NewGrant] = field(default_factory=list)
    awards: list[StandingAward] = field(default_factory=list)
    guests: dict[str, StillGuest] = field(default_factory=dict)
    debuts: dict[str, GameDebut] = field(default_factory=dict)
    entries: dict[HeldEntry, HeldEntry] = field(default_factory=dict)

    def count_play(self, count: PlayCount) -> None:
        """Adds a player's plays, with their caps. All plays of one `Changes` are of one day."""
        _add(self.play_counts, (count.game_id, count.player_id), count)

    def move_turns(
        self, entry_id: str, player_id: str, campaign_id: str, before: int, amount: int, reason: str, reference_id: str
    ) -> None:
        """Changes the player's turns from `before` by `amount`, and adds a ledger entry."""
        key = (player_id, campaign_id)
        moved = self.turns.get(key)
        assert moved is None or before == moved.after, "otherwise the earlier change would be lost"
        after = before + amount
        self.turns[key] = TurnMove(player_id, campaign_id, moved.before if moved else before, after)
        self.turn_entries.append(NewTurnEntry(entry_id, player_id, campaign_id, amount, after, reason, reference_id))

    def move_balance(
        self,
        entry_id: str,
        player_id: str,
        scope_key: str,
        currency: str,
        before: int | None,
        amount: int,
        reason: str,
        reference_id: str,
        reward_id: str = "",
    ) -> int:
        """Changes a balance from `before` (None: no row yet) by `amount`, and adds a ledger entry. The new balance.

        A second change of the same balance starts from the first one's result, not from the database's value.
        """
        key = (player_id, scope_key, currency)
        moved = self.balances.get(key)
        assert moved is None or before == moved.after, "otherwise the earlier change would be lost"
        after = (before or 0) + amount
        self.balances[key] = BalanceMove(player_id, scope_key, currency, moved.before if moved else before, after)
        self.ledger.append(
            NewLedgerEntry(entry_id, player_id, scope_key, currency, amount, after, reason, reference_id, reward_id)
        )
        return after

    @property
    def full(self) -> str:
        """The currency of a balance that would exceed the maximum; empty if none."""
        return next((move.currency for move in self.balances.values() if move.after > BALANCE_MAX), "")

    def take_prize(
        self,
        prize_id: str,
        player_id: str,
        quantity: int,
        day: date,
        *,
        stocked: bool,
        per_user: int,
        per_day: int,
        held_back: int = 0,
    ) -> None:
        """Takes `quantity` of a prize from its stock (if it has one) and counts it against its caps.

        held_back: units of a limited stock that must remain.
        """
        if stocked:
            _add(self.stock, prize_id, StockTake(prize_id, quantity, held_back))
        _add(self.prize_days, (prize_id, day), PrizeDayCount(prize_id, day, quantity, per_day))
        of_player = PrizePlayerCount(prize_id, player_id, quantity, per_user)
        _add(self.prize_players, (prize_id, player_id), of_player)

    def require_guest(self, player_id: str) -> None:
        """Makes the commit fail if the guest has been merged: it is then decided for that player."""
        self.guests[player_id] = StillGuest(player_id)

    def require_entry(self, player_id: str, campaign_id: str, revision: int) -> None:
        """Makes the commit fail if the player's entry has changed since: a consent may have been withdrawn."""
        held = HeldEntry(player_id, campaign_id, revision)
        self.entries[held] = held

    def begin_history(self, game_id: str) -> None:
        """Marks the game's first known play: the catalogue is locked until this commits."""
        self.debuts[game_id] = GameDebut(game_id)

    def take_code(self, reward_id: str, prize_id: str) -> None:
        """The reward takes the next free code of its prize."""
        # Search from the end: the prize's last code is usually close to it.
        taken = next((code.nth for code in reversed(self.codes) if code.prize_id == prize_id), 0)
        self.codes.append(CodeTake(reward_id, prize_id, taken + 1))

    def absorb(self, other: Changes) -> None:
        """Adds changes decided independently, by another actor of the tenant or in a later batch of the same one.

        The two must not overlap. Shared counts are added and keep the caps of both: the sum commits if and only if
        these changes and then the others would.
        """
        self.plays += other.plays
        self.turn_entries += other.turn_entries
        self.ledger += other.ledger
        self.rewards += other.rewards
        self.tasks += other.tasks
        self.grants += other.grants
        self.awards += other.awards
        self.balances.update(other.balances)
        self.turns.update(other.turns)
        self.guests.update(other.guests)
        self.debuts.update(other.debuts)
        self.entries.update(other.entries)
        for name in _COUNTS:
            rows = getattr(self, name)
            for key, row in getattr(other, name).items():
                _add(rows, key, row)
        for code in other.codes:
            self.take_code(code.reward_id, code.prize_id)

    def overlaps(self, other: Changes) -> bool:
        """Whether the two cannot share a statement: both change one balance or one player's turns.

        Or both count a player's plays, of different days (which share one row) or each of an exact ordinal.
        """
        if not self.balances.keys().isdisjoint(other.balances) or not self.turns.keys().isdisjoint(other.turns):
            return True
        mine, others = self.play_counts, other.play_counts
        return not mine.keys().isdisjoint(others) and any(
            mine[key].day != others[key].day or (mine[key].exact and others[key].exact)
            for key in mine.keys() & others.keys()
        )

    def rows(self) -> dict[str, list[Any]]:
        """The rows of each non-empty parameter, by field name."""
        _, *fields = astuple(self)
        # A shared row begins with its key, so this sorts by key.
        found = {
            name: rows if type(rows) is list else sorted(rows.values())
            for name, rows in zip(NAMES, fields, strict=True)
            if rows
        }
        for name in found.keys() & _INSERTED_ONCE.keys():
            found[name] = sorted(found[name], key=_INSERTED_ONCE[name])
        return found


NAMES: Final = tuple(name for name in Changes.__struct_fields__ if name != "catalog_version")
"""The fields that are parameters of the statement, in order."""

_INSERTED_ONCE: Final = {
    "plays": attrgetter("play_id"),
    "grants": attrgetter("player_id", "game_id", "milestone_id"),
}
"""The keys of lists that a concurrent commit may insert, too: in another order, the two would deadlock."""

_COUNTS: Final = ("play_counts", "stock", "prize_days", "prize_players")
"""The fields with summable rows."""


def _add(rows: dict[Any, Any], key: Any, row: Any) -> None:
    """Adds a summable row."""
    existing = rows.get(key)
    rows[key] = row if existing is None else existing.plus(row)


def _cap_of_both(cap: int, more: int, next_cap: int) -> int:
    """The cap for the sum of two counts: the first must pass `cap` before the second's `more` are added. 0: none.

    Choosing one of the two caps would let the other count exceed its cap, or refuse what both admit.
    """
    if not cap:
        return next_cap
    return min(cap + more, next_cap) if next_cap else cap + more
