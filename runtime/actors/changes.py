"""What a batch changes: the rows that the commit statement (sql/commit.sql) takes, and how decisions add up to them.

`Changes` is the one declaration. Its fields, in their order, are the statement's $3, $4 and so on; the
row of each is the composite type of its name in schema.sql (`NewPlay` is `new_play`). That the types'
fields and order agree, and the statement's parameters, is checked at import (committer.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import date
from typing import Any, Final, NamedTuple

from runtime.errors import BALANCE_MAX

# -- rows ------------------------------------------------------------------------------------


class NewPlay(NamedTuple):
    """A play. outcome: JSON, of the rule's decision and the answer."""

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


class PlayCount(NamedTuple):
    """`plays` more of a game by a player on a day. A cap of 0 is none; day_cap holds for the plays of the day.

    day_ends: unix seconds at which the day is over, and none of them may count on it any more; 0: not held to.
    exact: `cap` is how many plays it must then be, no more and no fewer: the play follows from those before.
    busy_until: up to when they take the player's time, in unix milliseconds; 0: none of it.
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

    def plus(self, plays: int, cap: int, day_cap: int, day_ends: int, exact: bool, busy_until: int) -> PlayCount:
        """This, and then `plays` more of the same day, held to those."""
        return PlayCount(
            *self[:3],
            self.plays + plays,
            _cap_of_both(self.cap, plays, cap),
            _cap_of_both(self.day_cap, plays, day_cap),
            min(self.day_ends or day_ends, day_ends or self.day_ends),
            self.exact or exact,
            max(self.busy_until, busy_until),
        )


class TurnMove(NamedTuple):
    """A player's turns in a campaign, which must be `before` and become `after`. Who has none may have no row yet."""

    player_id: str
    campaign_id: str
    before: int
    after: int


class NewTurnEntry(NamedTuple):
    """The note of one movement of turns."""

    entry_id: str
    player_id: str
    campaign_id: str
    amount: int
    balance_after: int
    reason: str
    reference_id: str


class BalanceMove(NamedTuple):
    """A balance that must be `before` (None: not there yet) and becomes `after`."""

    player_id: str
    scope_key: str
    currency: str
    before: int | None
    after: int


class NewLedgerEntry(NamedTuple):
    """The note of one movement of a balance. reward_id: of the reward that it pays for, or that it is; else empty."""

    entry_id: str
    player_id: str
    scope_key: str
    currency: str
    amount: int
    balance_after: int
    reason: str
    reference_id: str
    reward_id: str


class StockTake(NamedTuple):
    """Units that leave a prize's stock."""

    prize_id: str
    quantity: int

    def plus(self, quantity: int) -> StockTake:
        """This, and then so many more."""
        return StockTake(self.prize_id, self.quantity + quantity)


class PrizeDayCount(NamedTuple):
    """Units of a prize that go out on a day, at most `cap` of them (0: no cap)."""

    prize_id: str
    day: date
    quantity: int
    cap: int

    def plus(self, quantity: int, cap: int) -> PrizeDayCount:
        """This, and then so many more, held to `cap`."""
        return PrizeDayCount(self.prize_id, self.day, self.quantity + quantity, _cap_of_both(self.cap, quantity, cap))


class PrizePlayerCount(NamedTuple):
    """Units of a prize that go to a player, at most `cap` of them ever (0: no cap)."""

    prize_id: str
    player_id: str
    quantity: int
    cap: int

    def plus(self, quantity: int, cap: int) -> PrizePlayerCount:
        """This, and then so many more, held to `cap`."""
        return PrizePlayerCount(
            self.prize_id, self.player_id, self.quantity + quantity, _cap_of_both(self.cap, quantity, cap)
        )


class NewReward(NamedTuple):
    """A reward: won by a play, by a rung (milestone_id) or, with both empty, by a leaderboard's rank."""

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


class CodeTake(NamedTuple):
    """The reward takes the nth free code of its prize, counted from 1."""

    reward_id: str
    prize_id: str
    nth: int


class NewTask(NamedTuple):
    """A reward's delivery. status: pending, or delivered where the channel is instant."""

    task_id: str
    reward_id: str
    prize_id: str
    campaign_id: str
    player_id: str
    channel: str
    status: str


class NewGrant(NamedTuple):
    """A rung that a player has. The key, hash and reply (JSON) are a redeem's; None where a play crossed it."""

    game_id: str
    player_id: str
    milestone_id: str
    reward_id: str
    idempotency_key: str | None
    request_hash: bytes | None
    reply: bytes | None


class StandingAward(NamedTuple):
    """The prize of a finalized board's rank is given, as this reward."""

    board_id: str
    rank: int
    reward_id: str


class GameDebut(NamedTuple):
    """A game that nobody was known to have played. No change that finds it so is made beside its first play."""

    game_id: str


class StillGuest(NamedTuple):
    """A guest that what was decided is for: it must not have become another player meanwhile."""

    player_id: str


# -- changes ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Changes:
    """What one or more decisions change: a field for each parameter of the commit statement, in their order.

    catalog_version 0 commits whatever the catalogue's version is. Rows that several decisions share
    are in dicts by the row's key, which its first fields are; the statement takes them sorted by it,
    which fixes the lock order.
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

    def count_play(self, count: PlayCount) -> None:
        """Adds plays of a player, held to these caps too. All of one `Changes` are of one day."""
        key = (count.game_id, count.player_id)
        held = self.play_counts.get(key)
        self.play_counts[key] = count if held is None else held.plus(*count[3:])

    def move_turns(
        self, entry_id: str, player_id: str, campaign_id: str, before: int, amount: int, reason: str, reference_id: str
    ) -> None:
        """Moves the player's turns from `before` by `amount`, and notes it."""
        key = (player_id, campaign_id)
        moved = self.turns.get(key)
        assert moved is None or before == moved.after, "else what moved before would be lost"
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
        """Moves a balance from `before` (None: it has no row yet) by `amount`, and notes it. The new balance.

        A second move of one balance begins where the first ended, not at what the database still has.
        """
        key = (player_id, scope_key, currency)
        moved = self.balances.get(key)
        assert moved is None or before == moved.after, "else what moved before would be lost"
        after = (before or 0) + amount
        self.balances[key] = BalanceMove(player_id, scope_key, currency, moved.before if moved else before, after)
        self.ledger.append(
            NewLedgerEntry(entry_id, player_id, scope_key, currency, amount, after, reason, reference_id, reward_id)
        )
        return after

    @property
    def full(self) -> str:
        """The currency of a balance that would be more than can be kept; empty: of none."""
        return next((move.currency for move in self.balances.values() if move.after > BALANCE_MAX), "")

    def take_prize(
        self, prize_id: str, player_id: str, quantity: int, day: date, *, stocked: bool, per_user: int, per_day: int
    ) -> None:
        """Takes `quantity` of a prize from its stock (where it has one), and counts it against its caps."""
        if stocked:
            taken = self.stock.get(prize_id)
            self.stock[prize_id] = StockTake(prize_id, quantity) if taken is None else taken.plus(quantity)
        in_day = self.prize_days.get((prize_id, day))
        self.prize_days[prize_id, day] = (
            PrizeDayCount(prize_id, day, quantity, per_day) if in_day is None else in_day.plus(quantity, per_day)
        )
        of_player = (prize_id, player_id)
        held = self.prize_players.get(of_player)
        self.prize_players[of_player] = (
            PrizePlayerCount(prize_id, player_id, quantity, per_user) if held is None else held.plus(quantity, per_user)
        )

    def hold_guest(self, player_id: str) -> None:
        """Some of this is for a guest: where the guest has become another player, it is refused, to go to that one."""
        self.guests[player_id] = StillGuest(player_id)

    def begin_history(self, game_id: str) -> None:
        """As far as is known the game was never played: the catalogue is held still until this is committed."""
        self.debuts[game_id] = GameDebut(game_id)

    def take_code(self, reward_id: str, prize_id: str) -> None:
        """The reward takes the next free code of its prize."""
        # From the end: the last code taken of a prize is never far from it.
        taken = next((code.nth for code in reversed(self.codes) if code.prize_id == prize_id), 0)
        self.codes.append(CodeTake(reward_id, prize_id, taken + 1))

    def absorb(self, other: Changes) -> None:
        """Adds what was decided apart from it, by another actor of the tenant or in a later batch of the same one.

        The two must not overlap. What both count is added, and held to the caps of both: together they commit where,
        and only where, this one and then the other would.
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
        for name, kept in _COUNTS.items():
            rows = getattr(self, name)
            for key, row in getattr(other, name).items():
                held = rows.get(key)
                rows[key] = row if held is None else held.plus(*row[kept:])
        for code in other.codes:
            self.take_code(code.reward_id, code.prize_id)

    def overlaps(self, other: Changes) -> bool:
        """True where they cannot go together: both move one balance, or one player's turns, each decided as if alone.

        Or they count one player's plays of different days, which are one row, or each a play of its own ordinal.
        """
        if not self.balances.keys().isdisjoint(other.balances) or not self.turns.keys().isdisjoint(other.turns):
            return True
        mine, others = self.play_counts, other.play_counts
        return not mine.keys().isdisjoint(others) and any(
            mine[key].day != others[key].day or (mine[key].exact and others[key].exact)
            for key in mine.keys() & others.keys()
        )

    def arguments(self) -> dict[str, list[Any]]:
        """The rows of each parameter that has any, by its field's name."""
        arguments: dict[str, list[Any]] = {}
        for name in NAMES:
            rows = getattr(self, name)
            if not rows:
                continue
            # A shared row begins with its key, so the rows' order is that of their keys.
            arguments[name] = rows if type(rows) is list else sorted(rows.values())
        return arguments


NAMES: Final = tuple(own.name for own in fields(Changes) if own.name != "catalog_version")
"""The fields that are parameters of the statement, in their order."""

_COUNTS: Final = {"play_counts": 3, "stock": 1, "prize_days": 2, "prize_players": 2}
"""The fields whose rows are added where two have the same key, and how many parts of a row stay as they are then."""


def _cap_of_both(cap: int, more: int, next_cap: int) -> int:
    """The cap that the sum of two counts is held to: the first by `cap` before the second's `more` are added. 0: none.

    A plain choice of one of the two would let the other's count pass its cap, or refuse what both admit.
    """
    if not cap:
        return next_cap
    return min(cap + more, next_cap) if next_cap else cap + more
