"""The order in which every transaction takes its row locks, which rules out deadlocks.

A transaction locks rows of an earlier table before those of a later one, and the rows of one table by primary key.
Two transactions that violate the order can wait for each other: Postgres aborts one after a second
(deadlock_timeout), and everything behind them waits that long. tests/sql/test_lock_order.py records the locks that
each transaction takes, and every test session fails on a deadlock.

SKIP LOCKED never waits, so it may break the order if the rest of its transaction waits for nothing: free codes, and
tasks with their rewards at a lease. An inserted row blocks only a duplicate in a unique index: batches insert by key.

An operation that learns from a later row which earlier row it needs reads the later one first without a lock (a
reward's prize and a task's reward never change), then locks both in order.
"""

from __future__ import annotations

from typing import Final

LOCK_ORDER: Final[tuple[str, ...]] = (
    # Heartbeats: no other statement in their transaction.
    "processes",
    # Leases of background jobs: the same.
    "job_leases",
    # Keys of the processes, before their use. Encrypting waits for no row of them: a key is retired under an advisory
    # lock, in a transaction that holds nothing else (sql/schema.sql, lock_key).
    "key_holders",
    "retired_keys",
    # The idempotency key of a staff request: a concurrent duplicate waits here and holds nothing.
    "keyed_requests",
    # The directory, written with the key of the request that creates a tenant.
    "tenant_databases",
    # The tenant. A catalogue change locks this row, which serializes such changes.
    "tenants",
    "merchants",
    # Host names, under the lock of the tenant.
    "hosts",
    # The player. A guest's actions lock the row FOR SHARE; a merge locks it exclusively.
    "players",
    "contacts",
    "message_stops",
    # Pictures and fonts, under the lock of the tenant.
    "assets",
    "asset_removals",
    # Login.
    "login_challenges",
    "login_guesses",
    "login_rates",
    "logins",
    # An API token, then its revocation.
    "api_tokens",
    "login_quarters",
    "code_guesses",
    "referral_codes",
    "revocations",
    # Games, and the counts of plays.
    "campaigns",
    # The archive of a campaign's plays, then a batch of them and their leaves.
    "play_archives",
    "games",
    "game_revisions",
    "test_runs",
    "quests",
    # A referral, in the statement that pays it.
    "referrals",
    # The codes, then their pack, which counts them; a redeemed code's payment comes later.
    "pack_keys",
    "pack_codes",
    "packs",
    "integrations",
    "leaderboards",
    "draws",
    "draw_lists",
    "campaign_marks",
    "campaign_player_days",
    "campaign_days",
    "figure_marks",
    "game_quarters",
    "game_sources",
    "game_starts",
    "game_draws",
    # A set of page views, then what it adds to.
    "view_folds",
    "campaign_views",
    "plays",
    "game_players",
    "turn_balances",
    "balances",
    "ledger_entries",
    # A player's count of a prize, before the rows that every win of the prize updates.
    "prize_players",
    # The prize, then its stock, which every win updates.
    "prizes",
    "stock",
    # Insert-only until the prize is deleted.
    "stock_moves",
    "prize_days",
    "codes",
    "milestone_grants",
    "quest_completions",
    "quest_events",
    "redemptions",
    # The campaign's count of entries, then a player's entry and what it consists of.
    "entry_counts",
    "entries",
    "entry_consents",
    "entry_contacts",
    "entry_captchas",
    "entry_keys",
    "leaderboard_adjustments",
    "leaderboard_standings",
    # The reward, then its delivery.
    "rewards",
    "claim_answers",
    "tasks",
    "callbacks",
    # Code counters, updated by a trigger at the end of a statement; code_ends under the lock of its pool.
    "code_pools",
    "code_ends",
    # The delivery log, deleted with its integration.
    "integration_deliveries",
    "event_marks",
    # Budget and stock alerts: the lock of a check, the thresholds reached, the events.
    "limit_marks",
    "budget_marks",
    "low_prizes",
    "notices",
    # The log of a tenant, at the end of an erasure; an append locks nothing else.
    "log_trees",
    "log_leaves",
    # An approval is decided in the transaction of its operation, last.
    "approvals",
    # The auditor's progress and findings.
    "audit_marks",
    "violations",
)
"""Tables with rows that are updated, deleted or locked. Insert-only tables are not listed."""
