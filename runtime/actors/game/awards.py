"""Awards: what a decision gives its player, and the rows that a won prize writes.

A decision collects its `Effects` on a copy of the player, so a refusal half-way changes nothing. `record` then applies
the effects to the game's state and adds their rows to the batch's changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from datetime import date
from typing import NamedTuple

import msgspec

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes, NewGrant, NewPlay, NewReward, NewTask, PlayCount
from runtime.actors.engine import Engine
from runtime.actors.game.sessions import Session
from runtime.actors.game.state import POINTS, GameState, PlayerState, Price, PrizeTerms
from runtime.events import PrizeWon
from runtime.metrics import FULFILLMENT_TASKS
from runtime.outgoing.channels import BY_STAFF


class Winner(NamedTuple):
    """The winner and the cause: a play, a rung, or (both empty) a rank of a leaderboard or draw.

    day: the campaign's local day.
    """

    player_id: str
    campaign_id: str
    day: date
    game_id: str = ""
    play_id: str = ""
    milestone_id: str = ""


# -- effects ---------------------------------------------------------------------------------


class Win(NamedTuple):
    """Units of a prize that are awarded, and the rewards that represent them."""

    prize: PrizeTerms
    quantity: int
    winner: Winner
    rewards: list[m.WonReward]


class Credit(NamedTuple):
    """A balance change. reward_id: the reward that it pays for or represents; empty if none."""

    currency: str
    amount: int
    reason: str
    reference_id: str
    reward_id: str


class Effects(msgspec.Struct):
    """What one decision changes. player: a shallow copy of the player, as the decision leaves it. Its fields are set;
    the dicts that it shares with the original are never modified.

    play, count: the play's row and what it counts. turn_spent_by: the play that spends a turn; empty if none does.
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
        """Empty effects on a copy of this player."""
        return cls(copy(player))

    def count_play(self, state: GameState, session: Session, price: Price, busy_until: int) -> None:
        """Counts the session's play, the player time that it uses and the turn that it costs."""
        snapshot, player = state.snapshot, self.player
        player.plays += 1
        player.day_plays += 1
        # The exact count guards these plays against concurrent ones. A play that spends a turn comes after the day's
        # free plays. A play with a plan belongs to one ordinal: an earlier play that is rolled back invalidates it.
        # A timed play uses time that a concurrent play may also have claimed.
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
        """How many units of the prize this decision already awards."""
        return sum([win.quantity for win in self.wins if win.prize.prize_id == prize_id])

    def give(self, prize: PrizeTerms, quantity: int, winner: Winner) -> list[m.WonReward]:
        """Awards `quantity` of a prize: points go to the wallet, other types become rewards and their turns.

        A rung's points also create a reward, because no play reports them.
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
        """Changes a balance in the game's wallet scope. reward_id: the reward that it pays for or represents."""
        balances = self.player.balances
        self.player.balances = {**balances, currency: balances.get(currency, 0) + amount}
        self.credits += (Credit(currency, amount, reason, reference_id, reward_id),)

    def grant(self, rung: NewGrant, now: int) -> None:
        """Grants a rung."""
        self.player.grants = {**self.player.grants, rung.milestone_id: now}
        self.grants += (rung,)

    def currencies(self) -> list[str]:
        """The currencies with a changed balance."""
        return list(dict.fromkeys(credit.currency for credit in self.credits)) if self.credits else []


def won_reward(prize: PrizeTerms, quantity: int, reward_id: str) -> m.WonReward:
    """The won prize as the winner's response shows it."""
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
    draw_id: str = "",
    rank: int = 0,
) -> PrizeWon:
    """The prize_won event, for any kind of win. milestone_id: of a rung that the play crossed."""
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
        draw_id=draw_id,
        rank=rank,
    )


# -- rows ------------------------------------------------------------------------------------


def record(state: GameState, effects: Effects, changes: Changes) -> None:
    """Applies the effects to the state, so that later decisions see them, and adds their rows to `changes`."""
    after, snapshot = effects.player, state.snapshot
    player_id = after.player_id
    before = state.players[player_id]
    if after.guest:
        changes.require_guest(player_id)
    if effects.play is not None:
        changes.plays.append(effects.play)
    if after.entry is not None and (effects.play is not None or effects.grants):
        changes.require_entry(player_id, snapshot.campaign_id, after.entry[0])
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
    """Takes the units from the cached stock and adds the rows. Returns the turns that the win adds to `turns`."""
    prize, quantity, winner, rewards = win
    stock = state.stock[prize.prize_id]
    stock.day_awarded += quantity
    if prize.takes_code:
        stock.codes -= quantity
    if stock.remaining is not None and not prize.is_points:
        stock.remaining -= quantity
    _take(changes, prize, quantity, winner, prize.held_back(state.now))
    if rewards and rewards[0].reward_id:  # A play's own points have no reward: the play's reply reports them.
        _record_rewards(changes, prize, winner, rewards)
    return give_turns(changes, prize, rewards, winner, turns) if prize.turns else 0


def award(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> list[m.WonReward]:
    """Awards `quantity` of a prize to `winner` in `changes`, except for crediting points. Returns the rewards."""
    rewards = [won_reward(prize, quantity, ids.make("reward"))] if prize.is_points else _new_rewards(prize, quantity)
    _take(changes, prize, quantity, winner)
    _record_rewards(changes, prize, winner, rewards)
    return rewards


def give_turns(changes: Changes, prize: PrizeTerms, rewards: Sequence[m.WonReward], winner: Winner, before: int) -> int:
    """Adds the turns that these rewards grant to the winner, who has `before` in the campaign. Returns how many."""
    granted = 0
    for reward in rewards if prize.turns else ():
        amount = prize.turns * reward.quantity
        about = (winner.player_id, winner.campaign_id, before + granted, amount, "prize", reward.reward_id)
        changes.move_turns(ids.make("turn"), *about)
        granted += amount
    return granted


def _new_rewards(prize: PrizeTerms, quantity: int) -> list[m.WonReward]:
    """The rewards for `quantity` units. A prize with a code gets one reward per unit: a reward shows one code."""
    if prize.takes_code:
        return [won_reward(prize, 1, ids.make("reward")) for _ in range(quantity)]
    return [won_reward(prize, quantity, ids.make("reward"))]


def _take(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner, held_back: int = 0) -> None:
    changes.take_prize(
        prize.prize_id,
        winner.player_id,
        quantity,
        winner.day,
        stocked=not prize.is_points,
        per_user=prize.max_per_user,
        per_day=prize.max_per_day,
        held_back=held_back,
    )


def _record_rewards(changes: Changes, prize: PrizeTerms, winner: Winner, rewards: Sequence[m.WonReward]) -> None:
    """Adds the rewards with their codes and tasks. Points become a delivered reward without a task."""
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
            # Take the code at the win even if it is shown later: otherwise more players could win than codes exist.
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


def publish_tasks(engine: Engine, tenant_id: str, changes: Changes) -> None:
    """Publishes the tasks that a worker must deliver, and counts the outcomes of the others. After the commit."""
    engine.publisher.tasks(tenant_id, [task.task_id for task in changes.tasks if task.status == "pending"])
    for status, count in Counter(task.status for task in changes.tasks if task.status != "pending").items():
        FULFILLMENT_TASKS.labels(status).inc(count)
