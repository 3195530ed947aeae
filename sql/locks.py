"""The order in which every transaction takes its row locks: whoever keeps to it waits for nobody in a circle.

A transaction locks rows of an earlier table before those of a later one, and the rows of one table by their
primary key. Two transactions that each wait for the other have taken theirs in different orders: Postgres
ends one of them after a second (deadlock_timeout), and everybody behind them waits that long.
tests/sql/test_lock_order.py watches what each transaction takes, and every test session fails on a deadlock.

What is taken with SKIP LOCKED waits for nothing, so it may come out of order, as long as what follows it
in its transaction waits for nothing else: free codes, and tasks with their rewards at a lease.
A row that is inserted is nobody's to wait for, but for its twin in a unique index: batches insert by key.

An operation that finds out only from a later row what it needs of an earlier one reads the later row
first, without a lock (a reward's prize and a task's reward never change), then locks both in order.
"""

from __future__ import annotations

from typing import Final

LOCK_ORDER: Final[tuple[str, ...]] = (
    # That a process lives: it says nothing else with it.
    "processes",
    # Keys of the processes, before anything that is done with one. Sealing itself waits behind no row of them: for
    # who retires its key by an advisory lock, and that holds nothing else (sql/schema.sql, hold_key).
    "key_holders",
    "retired_keys",
    # The key of a request of staff: its twin waits here, and holds nothing.
    "keyed_requests",
    # The tenant. A change of its catalogue holds this row, so such changes take turns.
    "tenants",
    "merchants",
    # The player. A guest's row is held to share by what the guest does, and alone by what ends the guest.
    "players",
    "contacts",
    # How players log in.
    "login_challenges",
    "login_guesses",
    "login_rates",
    "logins",
    # An API token, then that it is revoked.
    "api_tokens",
    "login_quarters",
    "revocations",
    # What is played, and what is counted of it.
    "campaigns",
    "games",
    "game_revisions",
    "test_runs",
    "quests",
    "integrations",
    "leaderboards",
    "campaign_marks",
    "campaign_player_days",
    "campaign_days",
    "figure_marks",
    "game_quarters",
    "game_starts",
    "game_draws",
    "plays",
    "game_players",
    "turn_balances",
    "balances",
    "ledger_entries",
    # What is won: the prize, then its stock, which every winner takes from.
    "prizes",
    "stock",
    # Only ever inserted, but for the prize's going.
    "stock_moves",
    "prize_days",
    "prize_players",
    "codes",
    "milestone_grants",
    "quest_completions",
    "quest_events",
    "leaderboard_adjustments",
    "leaderboard_standings",
    # The reward, then what delivers it.
    "rewards",
    "claim_answers",
    "tasks",
    "callbacks",
    # How many codes are free, at the end of a statement that moves codes; the ends under the lock of their pool.
    "code_pools",
    "code_ends",
    # A log that its integration's going takes along.
    "integration_deliveries",
    "event_marks",
    # Budgets and stock: that they are looked at, then what has been told of them, and is to be.
    "limit_marks",
    "budget_marks",
    "low_prizes",
    "notices",
    # What waits for a second person moves with what is done, last of all.
    "approvals",
    # What the auditor found, and where it is.
    "audit_marks",
    "violations",
)
"""Tables whose rows are updated, deleted or locked; what is only ever inserted is not here."""
