"""What is true of the tables whenever nothing is under way: tests/support/invariants.py's list, over the model's rows.

Beside it what an ended guest may still have: nothing that plays, moves or counts (operations/players/merging.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

Row = Any
Found = list[Any]


class Tables:
    """The committed rows. rows(name): of a table, each with its columns as attributes."""

    def __init__(self, rows: Callable[[str], Iterable[Row]]) -> None:
        self._rows = rows
        self._read: dict[str, list[Row]] = {}

    def __getattr__(self, name: str) -> list[Row]:
        if name.startswith("_"):
            raise AttributeError(name)
        found = self._read.get(name)
        if found is None:
            found = self._read[name] = list(self._rows(name))
        return found


def broken(tables: Tables) -> dict[str, Found]:
    """The invariants that do not hold, each with what breaks it."""
    found = {name: sorted(check(tables), key=repr) for name, check in INVARIANTS.items()}
    return {name: rows for name, rows in found.items() if rows}


# -- wallet and turns --------------------------------------------------------------------------


def _ledgers(tables: Tables) -> Found:
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in tables.balances:
        sums[row.player_id, row.scope_key, row.currency] += row.balance
    for row in tables.ledger_entries:
        sums[row.player_id, row.scope_key, row.currency] -= row.amount
    return [(key, difference) for key, difference in sums.items() if difference]


def _chain(tables: Tables) -> Found:
    wrong = []
    chains: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in tables.ledger_entries:
        chains[row.player_id, row.scope_key, row.currency].append(row)
    for key, rows in chains.items():
        before = 0
        for row in sorted(rows, key=lambda row: (row.seq, row.entry_id)):
            if row.balance_after != before + row.amount:
                wrong.append((key, row.entry_id, before, row.amount, row.balance_after))
            before = row.balance_after
    return wrong


def _sequence(tables: Tables) -> Found:
    seqs = {(row.player_id, row.scope_key, row.currency): row.seq for row in tables.balances}
    return [
        (row.player_id, row.currency, row.seq)
        for row in tables.ledger_entries
        if row.seq > seqs.get((row.player_id, row.scope_key, row.currency), row.seq)
    ]


def _turns(tables: Tables) -> Found:
    sums: Counter[tuple[str, str]] = Counter()
    for row in tables.turn_balances:
        sums[row.player_id, row.campaign_id] += row.balance
    for row in tables.turn_entries:
        sums[row.player_id, row.campaign_id] -= row.amount
    return [(key, difference) for key, difference in sums.items() if difference]


# -- stock, prizes, codes ----------------------------------------------------------------------


def _stock(tables: Tables) -> Found:
    return [
        (row.prize_id, row.total, row.remaining, row.awarded)
        for row in tables.stock
        if row.remaining < 0 or row.awarded < 0 or (row.total and row.total != row.remaining + row.awarded)
    ]


def _held(tables: Tables) -> Found:
    held: Counter[str] = Counter()
    for row in tables.rewards:
        if row.type != "points" and (
            row.status not in ("revoked", "expired", "failed") or row.fulfilled_at is not None
        ):
            held[row.prize_id] += row.quantity
    return [
        (row.prize_id, row.awarded, held[row.prize_id]) for row in tables.stock if row.awarded != held[row.prize_id]
    ]


def _codes_once(tables: Tables) -> Found:
    rewards = {row.reward_id: row for row in tables.rewards}
    given: Counter[str] = Counter()
    wrong: Found = []
    for row in tables.codes:
        if row.reward_id is None:
            continue
        given[row.reward_id] += 1
        reward = rewards.get(row.reward_id)
        if reward is None or reward.prize_id != row.prize_id or given[row.reward_id] > 1:
            wrong.append((row.prize_id, row.code_id, row.reward_id))
    return wrong


def _codes_of(tables: Tables) -> Found:
    coded = {row.reward_id for row in tables.codes if row.reward_id is not None}
    channels = {row.prize_id: row.channel for row in tables.prizes}
    tasks = {row.reward_id: row for row in tables.tasks}
    wrong: Found = []
    for row in tables.rewards:
        has = row.reward_id in coded
        if row.status in ("expired", "revoked", "failed") and row.fulfilled_at is None and has:
            wrong.append(("an ended reward keeps its code", row.reward_id))
        if row.type == "points" or channels.get(row.prize_id) != "voucher_code":
            continue
        if row.status in ("won", "claimed") and (row.play_id or row.milestone_id) and not has:
            wrong.append(("a win without its code", row.reward_id))
        if row.fulfilled_at is not None and row.reward_id in tasks and not has:
            wrong.append(("delivered without a code", row.reward_id))
    return wrong


def _prize_counts(tables: Tables) -> Found:
    by_day: Counter[str] = Counter()
    for row in tables.prize_days:
        by_day[row.prize_id] += row.awarded
    for row in tables.prize_players:
        by_day[row.prize_id] -= row.awarded
    return [(prize, difference) for prize, difference in by_day.items() if difference]


def _prize_players(tables: Tables) -> Found:
    counted = {(row.prize_id, row.player_id): row.awarded for row in tables.prize_players}
    won: Counter[tuple[str, str]] = Counter()
    for row in tables.rewards:
        if row.type != "points":
            won[row.prize_id, row.player_id] += row.quantity
    return [(key, units, counted.get(key, 0)) for key, units in won.items() if units != counted.get(key, 0)]


def _per_user(tables: Tables) -> Found:
    caps = {row.prize_id: row.max_per_user for row in tables.prizes if row.max_per_user}
    ended = {row.player_id for row in tables.players if row.merged_into is not None}
    return [
        (row.prize_id, row.player_id, row.awarded)
        for row in tables.prize_players
        if row.player_id not in ended and row.awarded > caps.get(row.prize_id, row.awarded)
    ]


def _per_day(tables: Tables) -> Found:
    caps = {row.prize_id: row.max_per_day for row in tables.prizes if row.max_per_day}
    return [
        (row.prize_id, str(row.day), row.awarded)
        for row in tables.prize_days
        if row.awarded > caps.get(row.prize_id, row.awarded)
    ]


# -- rewards, tasks, rungs ---------------------------------------------------------------------


def _tasks(tables: Tables) -> Found:
    prizes = {row.prize_id: row for row in tables.prizes}
    rewards = {row.reward_id: row for row in tables.rewards}
    tasks = {row.reward_id: row for row in tables.tasks}
    wrong: Found = []
    for row in tables.rewards:
        if row.type == "points" or row.reward_id in tasks:
            continue
        prize = prizes[row.prize_id]
        due = (
            row.status in ("fulfilling", "fulfilled", "failed")
            or (row.status == "won" and prize.redemption_mode == "on_win" and prize.channel != "manual")
            or (row.status == "claimed" and prize.redemption_mode == "on_claim" and prize.channel != "manual")
        )
        if due:
            wrong.append(("a due reward without its task", row.reward_id, row.status))
    for row in tables.tasks:
        reward = rewards.get(row.reward_id)
        if reward is None or (row.status == "delivered") != (reward.fulfilled_at is not None):
            wrong.append(("a task at odds with its reward", row.task_id, row.status))
    return wrong


def _rungs(tables: Tables) -> Found:
    given = Counter((row.player_id, row.game_id, row.milestone_id) for row in tables.rewards if row.milestone_id)
    wrong: Found = [(key, count) for key, count in given.items() if count > 1]
    rewards = {row.reward_id: row for row in tables.rewards}
    named = set()
    for row in tables.milestone_grants:
        named.add(row.reward_id)
        reward = rewards.get(row.reward_id)
        if row.reward_id and (
            reward is None or reward.milestone_id != row.milestone_id or reward.game_id != row.game_id
        ):
            wrong.append(("a grant without its reward", row.milestone_id, row.reward_id))
    for row in tables.rewards:
        if row.milestone_id and row.reward_id not in named:
            wrong.append(("a rung's reward without its grant", row.milestone_id, row.reward_id))
    return wrong


def _moved_back(tables: Tables) -> Found:
    sums: Counter[tuple[str, str, str]] = Counter()
    for row in tables.ledger_entries:
        if row.reward_id:
            sums[row.reward_id, row.scope_key, row.currency] += row.amount
    rewards = {row.reward_id: row for row in tables.rewards}
    return [
        (key, total)
        for key, total in sums.items()
        if key[0] not in rewards or (rewards[key[0]].status == "revoked") != (total == 0)
    ]


# -- plays -------------------------------------------------------------------------------------


def _sessions(tables: Tables) -> Found:
    seen: Counter[str] = Counter(row.session_id for row in tables.plays)
    return [
        (row.play_id, row.session_id)
        for row in tables.plays
        if row.session_id[5:31] != row.play_id[5:] or seen[row.session_id] > 1
    ]


def _terms(tables: Tables) -> Found:
    kept = {(row.game_id, row.revision_hash[:32]) for row in tables.promised_terms}
    return [
        (row.play_id, row.session_id)
        for row in tables.plays
        if (row.game_id, row.session_id.split(".")[2][:32]) not in kept
    ]


def _counters(tables: Tables) -> Found:
    sums: Counter[tuple[str, str]] = Counter()
    for row in tables.game_players:
        sums[row.game_id, row.player_id] += row.plays
    for row in tables.plays:
        sums[row.game_id, row.player_id] -= 1
    return [(key, difference) for key, difference in sums.items() if difference]


def _told(tables: Tables) -> Found:
    rewarded = Counter(row.play_id for row in tables.rewards if row.play_id and not row.milestone_id)
    wrong = []
    for row in tables.plays:
        rewards = msgspec.json.decode(row.outcome)["rewards"]
        given = sum(1 for reward in rewards if reward.get("reward_id"))
        if row.wins != len(rewards) or rewarded[row.play_id] != given:
            wrong.append((row.play_id, row.wins, len(rewards), rewarded[row.play_id]))
    return wrong


# -- guests that have become players -----------------------------------------------------------


def _ended(tables: Tables) -> Found:
    ended = {row.player_id for row in tables.players if row.merged_into is not None}
    if not ended:
        return []
    wrong: Found = []
    for name in ("plays", "balances"):
        wrong += [(name, row.player_id) for row in getattr(tables, name) if row.player_id in ended]
    wrong += [("game_players", row.player_id) for row in tables.game_players if row.player_id in ended and row.plays]
    # What is left of a guest's rewards is surplus: beyond a cap, or of a rung that the player has too.
    capped = {row.prize_id for row in tables.prizes if row.max_per_user}
    into = {row.player_id: row.merged_into for row in tables.players if row.player_id in ended}
    granted = {(row.player_id, row.game_id, row.milestone_id) for row in tables.milestone_grants}
    for row in tables.rewards:
        if row.player_id not in ended or row.prize_id in capped:
            continue
        if not row.milestone_id or (into[row.player_id], row.game_id, row.milestone_id) not in granted:
            wrong.append(("rewards", row.player_id, row.reward_id, row.status))
    for row in tables.milestone_grants:
        if row.player_id in ended and (into[row.player_id], row.game_id, row.milestone_id) not in granted:
            wrong.append(("milestone_grants", row.player_id, row.milestone_id))
    done = {(row.player_id, row.quest_id, row.period) for row in tables.quest_completions}
    for row in tables.quest_completions:
        if row.player_id in ended and (into[row.player_id], row.quest_id, row.period) not in done:
            wrong.append(("quest_completions", row.player_id, row.quest_id))
    for row in tables.leaderboard_standings:
        if row.player_id in ended and row.reward_id:
            reward = next((one for one in tables.rewards if one.reward_id == row.reward_id), None)
            if reward is not None and reward.player_id in ended and reward.prize_id not in capped:
                wrong.append(("leaderboard_standings", row.player_id, row.reward_id))
    return wrong


INVARIANTS: Final[dict[str, Callable[[Tables], Found]]] = {
    "the sum of a ledger is its balance": _ledgers,
    "in the order of a ledger each entry begins where the one before ended": _chain,
    "no entry of a ledger is beyond its balance's seq": _sequence,
    "the sum of a player's turn entries is the turns left": _turns,
    "a prize's total is what remains and what is awarded": _stock,
    "what is awarded of a prize is what its rewards hold": _held,
    "a code is given once, and to a reward of its prize": _codes_once,
    "a reward has the code that its state says, and no other": _codes_of,
    "what a prize counts by day is what it counts by player": _prize_counts,
    "a prize's counter of a player counts the player's rewards": _prize_players,
    "nobody has more of a prize than max_per_user": _per_user,
    "no day gave more of a prize than max_per_day": _per_day,
    "a reward whose delivery is due has its task, and agrees with it": _tasks,
    "a rung is granted to a player once, and names its reward": _rungs,
    "what a reward moved in a wallet is moved back where it is revoked, and only there": _moved_back,
    "a play has the session that it is named after, and no other": _sessions,
    "a play has the terms that its session was promised by": _terms,
    "a player's counter counts the player's plays": _counters,
    "a play's rewards are those that its row tells of": _told,
    "a guest that has become a player has nothing but its surplus": _ended,
}
