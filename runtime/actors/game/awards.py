"""What winning a prize writes: stock and caps, the reward, its code, its task (contract.md, "Rewards and tasks")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from runtime import ids
from runtime import messages as m
from runtime.actors.changes import Changes, NewReward, NewTask
from runtime.actors.game.snapshot import PrizeTerms
from runtime.events import PrizeWon


@dataclass(frozen=True, slots=True)
class Winner:
    """Who wins, and by what: the play, the rung, or (both empty) a leaderboard's rank. `day`: the campaign's."""

    player_id: str
    campaign_id: str
    day: date
    game_id: str = ""
    play_id: str = ""
    milestone_id: str = ""


def award(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> list[m.WonReward]:
    """Adds to `changes` that `winner` gets `quantity` of the prize; what the winner is told, a row for each reward.

    For prizes that are delivered, so not for points. A prize with a code makes one reward for
    each unit, since a reward shows one code.
    """
    changes.take_prize(
        prize.prize_id,
        winner.player_id,
        quantity,
        winner.day,
        stocked=True,
        per_user=prize.max_per_user,
        per_day=prize.max_per_day,
    )
    units = [1] * quantity if prize.takes_code else [quantity]
    return [_reward(changes, prize, unit, winner) for unit in units]


def give_turns(changes: Changes, prize: PrizeTerms, rewards: Sequence[m.WonReward], winner: Winner, before: int) -> int:
    """Moves the winner's turns, `before` in the campaign, by what these rewards of the prize give; how many."""
    given = 0
    for reward in rewards if prize.turns else ():
        amount = prize.turns * reward.quantity
        about = (winner.player_id, winner.campaign_id, before + given, amount, "prize", reward.reward_id)
        changes.move_turns(ids.make("turn"), *about)
        given += amount
    return given


def note_points(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> str:
    """Adds the record of points that were credited: a reward that is delivered, without a task. Its id."""
    return _record(changes, prize, quantity, winner, "fulfilled", 0)


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


def _record(
    changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner, status: str, expires_after_days: int
) -> str:
    reward_id = ids.make("reward")
    changes.rewards.append(
        NewReward(
            reward_id,
            winner.player_id,
            prize.prize_id,
            winner.campaign_id,
            winner.game_id,
            winner.play_id,
            winner.milestone_id,
            prize.name,
            prize.type,
            prize.value,
            quantity,
            status,
            expires_after_days,
        )
    )
    return reward_id


def _reward(changes: Changes, prize: PrizeTerms, quantity: int, winner: Winner) -> m.WonReward:
    status = "fulfilled" if prize.delivered_at_win else "won"
    reward_id = _record(changes, prize, quantity, winner, status, prize.expires_after_days)
    if prize.takes_code:
        # Also where it is shown later, at the claim or by an admin: else more could win than there are codes.
        changes.take_code(reward_id, prize.prize_id)
    if prize.due_at_win:
        changes.tasks.append(
            NewTask(
                ids.make("task"),
                reward_id,
                prize.prize_id,
                winner.campaign_id,
                winner.player_id,
                prize.channel,
                "delivered" if prize.delivered_at_win else "pending",
            )
        )
    return won_reward(prize, quantity, reward_id)


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


def pending_tasks(changes: Changes) -> list[str]:
    """The ids of the tasks that a worker must carry out: for the stream, after the commit."""
    return [task.task_id for task in changes.tasks if task.status == "pending"]
