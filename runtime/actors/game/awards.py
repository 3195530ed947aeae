"""What a decision gives its player, and the rows that winning a prize writes (contract.md, "Rewards and tasks").

A decision gathers its `Effects` on a copy of the player, so one that is refused half-way has changed nothing. `record`
then moves the game's state on to them, and adds their rows to what the batch commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes, NewGrant, NewPlay, NewReward, NewTask, PlayCount
from runtime.actors.game.sessions import Session
from runtime.actors.game.state import POINTS, GameState, PlayerState, Price, PrizeTerms
from runtime.events import PrizeWon
from runtime.outgoing.channels import BY_STAFF


class Winner(NamedTuple):
    """Who wins, and by what: the play, the rung, or (both empty) a leaderboard's rank. `day`: the campaign's."""

    player_id: str
    campaign_id: str
    day: date
    game_id: str = ""
    play_id: str = ""
    milestone_id: str = ""


# -- what a decision gives -------------------------------------------------------------------


class Win(NamedTuple):
    """Units of a prize that are given, and the rewards that tell of them."""

    prize: PrizeTerms
    quantity: int
    winner: Winner
    rewards: list[m.WonReward]


class Credit(NamedTuple):
    """A movement of a balance. reward_id: of the reward that it pays for, or that it is; else empty."""

    currency: str
    amount: int
    reason: str
    reference_id: str
    reward_id: str


@dataclass(slots=True)
class Effects:
    """What one decision changes. player: a copy, as the decision leaves it.

    play, count: a play's row and what it counts. turn_spent_by: the play that spends a turn; empty where none does.
    """

    player: PlayerState
    play: NewPlay | None = None
    count: PlayCount | None = None
    turn_spent_by: str = ""
    wins: tuple[Win, ...] = ()
    credits: tuple[Credit, ...] = ()
    grants: tuple[NewGrant, ...] = ()

    @classmethod
    def on(cls, player: PlayerState) -> Effects:
        """No effects yet, on a copy of this player."""
        return cls(copy_of(player))

    def count_play(self, state: GameState, session: Session, price: Price, busy_until: int) -> None:
        """Counts the play of the session, with the time that it takes and the turn that it costs."""
        snapshot, player = state.snapshot, self.player
        player.plays += 1
        player.day_plays += 1
        # A play that spends a turn is beyond the day's free ones: its bound is that no rival played in between. That
        # of a plan's play is also that none before it was undone: it is of this ordinal or of none. Likewise one that
        # takes time: a rival may have taken the same.
        cap, day_cap = snapshot.max_plays_per_user, snapshot.max_plays_per_day
        if price is Price.TURN:
            self.turn_spent_by = session.play_id
            player.turns -= 1
            if not snapshot.requires_turn:
                day_cap = player.day_plays
        if exact := session.ordinal >= 0 or busy_until > 0:
            cap = player.plays
            player.busy_until = max(player.busy_until, busy_until)
        self.count = PlayCount(
            game_id=snapshot.game_id,
            player_id=player.player_id,
            day=state.day,
            plays=1,
            cap=cap,
            day_cap=day_cap,
            day_ends=state.resets_at,
            exact=exact,
            busy_until=busy_until,
        )

    def taken(self, prize_id: str) -> int:
        """How many units of the prize are given already."""
        return sum([win.quantity for win in self.wins if win.prize.prize_id == prize_id])

    def give(self, prize: PrizeTerms, quantity: int, winner: Winner) -> list[m.WonReward]:
        """Gives `quantity` of a prize: points to the wallet, anything else as rewards, with the turns that they give.

        The points of a rung leave a reward as well, since no play tells of them (contract.md, "Milestones").
        """
        player = self.player
        player.prizes = {**player.prizes, prize.prize_id: player.prizes.get(prize.prize_id, 0) + quantity}
        if prize.is_points:
            reward_id = ids.make("reward") if winner.milestone_id else ""
            rewards = [won_reward(prize, quantity, reward_id)]
            if amount := prize.points * quantity:
                self.credit(POINTS, amount, "play_reward", winner.play_id or winner.milestone_id, reward_id)
        else:
            rewards = _new_rewards(prize, quantity)
            player.turns += prize.turns * quantity
        self.wins += (Win(prize, quantity, winner, rewards),)
        return rewards

    def credit(self, currency: str, amount: int, reason: str, reference_id: str, reward_id: str = "") -> None:
        """Moves a balance of the game's wallet scope. reward_id: what it pays for, or is."""
        balances = self.player.balances
        self.player.balances = {**balances, currency: balances.get(currency, 0) + amount}
        self.credits += (Credit(currency, amount, reason, reference_id, reward_id),)

    def grant(self, rung: NewGrant, now: int) -> None:
        """Grants a rung."""
        self.player.grants = {**self.player.grants, rung.milestone_id: now}
        self.grants += (rung,)

    def currencies(self) -> list[str]:
        """The currencies whose balances are moved."""
        return list(dict.fromkeys(credit.currency for credit in self.credits)) if self.credits else []


def copy_of(player: PlayerState) -> PlayerState:
    """A copy, to be changed by setting its fields: what these hold is shared."""
    return PlayerState(
        player_id=player.player_id,
        plays=player.plays,
        day_plays=player.day_plays,
        turns=player.turns,
        suspended=player.suspended,
        prizes=player.prizes,
        balances=player.balances,
        grants=player.grants,
        read_in=player.read_in,
        guest=player.guest,
        busy_until=player.busy_until,
    )


def won_reward(prize: PrizeTerms, quantity: int, reward_id: str) -> m.WonReward:
    """What the winner is told of a prize."""
    return m.WonReward(
        prize_id=prize.prize_id,
        name=prize.name,
        type=prize.type,
        quantity=quantity,
        value=prize.value,
        reward_id=reward_id,
    )


def prize_won(
    winner: Winner,
    prize: PrizeTerms,
    quantity: int,
    reward_id: str,
    *,
    milestone_id: str = "",
    leaderboard_id: str = "",
    rank: int = 0,
) -> PrizeWon:
    """What tells others of a prize, whatever it was won by. milestone_id: of a rung that the play crossed."""
    return PrizeWon(
        player_id=winner.player_id,
        prize_id=prize.prize_id,
        reward_id=reward_id,
        name=prize.name,
        type=prize.type,
        quantity=quantity,
        value=prize.value,
        game_id=winner.game_id,
        play_id=winner.play_id,
        milestone_id=milestone_id or winner.milestone_id,
        leaderboard_id=leaderboard_id,
        rank=rank,
    )


# -- what it writes --------------------------------------------------------------------------


def record(state: GameState, effects: Effects, changes: Changes) -> None:
    """Moves the state on to these effects, for the decisions behind this one, and adds their rows to `changes`."""
    after, snapshot = effects.player, state.snapshot
    player_id = after.player_id
    before = state.players[player_id]
    if after.guest:
        changes.hold_guest(player_id)
    if effects.play is not None:
        changes.plays.append(effects.play)
    if effects.count is not None:
        changes.count_play(effects.count)
    turns = before.turns
    if play_id := effects.turn_spent_by:
        changes.move_turns(ids.make("turn"), player_id, snapshot.campaign_id, turns, -1, "play", play_id)
        turns -= 1
    for win in effects.wins:
        turns += _record_win(state, win, turns, changes)
    balances = dict(before.balances) if effects.credits else before.balances
    for credit in effects.credits:
        balances[credit.currency] = changes.move_balance(
            ids.make("entry"),
            player_id,
            snapshot.scope_key,
            credit.currency,
            before=balances.get(credit.currency),
            amount=credit.amount,
            reason=credit.reason,
            reference_id=credit.reference_id,
            reward_id=credit.reward_id,
        )
    changes.grants += effects.grants
    state.players[player_id] = after


def _record_win(state: GameState, win: Win, turns: int, changes: Changes) -> int:
    """Takes the units from the remembered stock, and adds the rows. The turns that the win gives, beside `turns`."""
    prize, quantity, winner, rewards = win
    stock = state.stock[prize.prize_id]
    stock.day_awarded += quantity
    if prize.takes_code:
        stock.codes -= quantity
    if stock.remaining is not None and not prize.is_points:
        stock.remaining -= quantity
    _take(changes, prize, quantity, winner)
    if rewards and rewards[0].reward_id:  # A play itself tells of its points.
        _record_rewards(changes, prize, winner, rewards)
    return give_turns(changes, prize, rewards, winner, turns) if prize.turns else 0


def award(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> list[m.WonReward]:
    """Adds to `changes` that `winner` gets `quantity` of a prize, but for the credit of points. The rewards."""
    rewards = [won_reward(prize, quantity, ids.make("reward"))] if prize.is_points else _new_rewards(prize, quantity)
    _take(changes, prize, quantity, winner)
    _record_rewards(changes, prize, winner, rewards)
    return rewards


def give_turns(changes: Changes, prize: PrizeTerms, rewards: Sequence[m.WonReward], winner: Winner, before: int) -> int:
    """Moves the winner's turns, `before` in the campaign, by what these rewards of the prize give; how many."""
    given = 0
    for reward in rewards if prize.turns else ():
        amount = prize.turns * reward.quantity
        about = (winner.player_id, winner.campaign_id, before + given, amount, "prize", reward.reward_id)
        changes.move_turns(ids.make("turn"), *about)
        given += amount
    return given


def _new_rewards(prize: PrizeTerms, quantity: int) -> list[m.WonReward]:
    """The rewards of so many units. A prize with a code makes one for each unit, since a reward shows one code."""
    if prize.takes_code:
        return [won_reward(prize, 1, ids.make("reward")) for _ in range(quantity)]
    return [won_reward(prize, quantity, ids.make("reward"))]


def _take(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> None:
    changes.take_prize(
        prize.prize_id,
        winner.player_id,
        quantity,
        winner.day,
        stocked=not prize.is_points,
        per_user=prize.max_per_user,
        per_day=prize.max_per_day,
    )


def _record_rewards(changes: Changes, prize: PrizeTerms, winner: Winner, rewards: Sequence[m.WonReward]) -> None:
    """Adds the rewards, with their codes and tasks. Points are a reward that is delivered, without a task."""
    delivered = prize.is_points or prize.delivered_at_win
    for reward in rewards:
        changes.rewards.append(
            NewReward(
                reward_id=reward.reward_id,
                player_id=winner.player_id,
                prize_id=prize.prize_id,
                campaign_id=winner.campaign_id,
                game_id=winner.game_id,
                play_id=winner.play_id,
                milestone_id=winner.milestone_id,
                name=prize.name,
                type=prize.type,
                value=prize.value,
                quantity=reward.quantity,
                status="fulfilled" if delivered else "won",
                expires_after_days=0 if prize.is_points else prize.expires_after_days,
            )
        )
        if prize.is_points:
            continue
        if prize.takes_code:
            # Also where it is shown later, at the claim or by an admin: else more could win than there are codes.
            changes.take_code(reward.reward_id, prize.prize_id)
        if prize.due_at_win:
            changes.tasks.append(
                NewTask(
                    task_id=ids.make("task"),
                    reward_id=reward.reward_id,
                    prize_id=prize.prize_id,
                    campaign_id=winner.campaign_id,
                    player_id=winner.player_id,
                    channel=prize.channel,
                    status="delivered" if delivered else "awaiting" if prize.channel == BY_STAFF else "pending",
                )
            )


def pending_tasks(changes: Changes) -> list[str]:
    """The ids of the tasks that a worker must carry out: for the stream, after the commit."""
    return [task.task_id for task in changes.tasks if task.status == "pending"]
