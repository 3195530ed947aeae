"""The desk: staff's view of players, to resolve complaints.

Only the tenant's own staff may search players and act on them. A merchant's staff may read what a player did in that
merchant's campaigns.
"""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.desk.actions import grant_turns, merge_player, sign_out_player, unlink_contact
from runtime.operations.desk.bulk import bulk_rewards
from runtime.operations.desk.erasure import erase_player
from runtime.operations.desk.export import export_player
from runtime.operations.desk.player_history import (
    inspect_player,
    list_balances,
    list_completions,
    list_ledger,
    list_plays,
    list_sessions,
    list_tasks,
    list_turn_entries,
    list_turns,
    search_players,
)
from runtime.operations.row import ADMINS, REWARD_MANAGERS, STAFF, Command, Operation

ROWS: Final = (
    Operation(
        "SearchPlayers",
        "GET /players",
        run=search_players,
        admin=STAFF,
        tenant_wide=True,
        command=Command(
            "players list [Q] --status --most",
            "List players, newest first.",
            help={"q": "An id, part of a name, or a full e-mail address or phone number."},
            columns="id, name=display_name, contacts={contacts:values}, status={:player_status}",
        ),
    ),
    Operation("InspectPlayer", "GET /players/{id}", run=inspect_player, admin=STAFF, tenant_wide=True),
    Operation("ListPlayerPlays", "GET /players/{id}/plays", run=list_plays, admin=STAFF),
    Operation(
        "ListPlayerBalances",
        "GET /players/{id}/wallet",
        run=list_balances,
        admin=STAFF,
        command=Command(
            "wallets show PLAYER",
            "Show a player's balances.",
            columns="of=scope_key, currency, balance",
        ),
    ),
    Operation(
        "ListPlayerLedger",
        "GET /players/{id}/ledger",
        run=list_ledger,
        admin=STAFF,
        command=Command(
            "wallets ledger PLAYER",
            "List a player's ledger entries, newest first.",
            columns="id, currency, amount={amount:+}, left=balance_after, reason, for=reference_id",
        ),
    ),
    Operation("ListPlayerTurns", "GET /players/{id}/turns", run=list_turns, admin=STAFF),
    Operation("ListPlayerTurnEntries", "GET /players/{id}/turns/ledger", run=list_turn_entries, admin=STAFF),
    Operation("ListPlayerQuests", "GET /players/{id}/quests", run=list_completions, admin=STAFF),
    Operation("ListPlayerSessions", "GET /players/{id}/sessions", run=list_sessions, admin=STAFF, tenant_wide=True),
    Operation("ListPlayerTasks", "GET /players/{id}/tasks", run=list_tasks, admin=STAFF),
    Operation(
        "ExportPlayer", "GET /players/{id}/export", run=export_player, admin=ADMINS, tenant_wide=True, lengthy=True
    ),
    Operation(
        "ErasePlayer",
        "POST /players/{id}/erase",
        run=erase_player,
        admin=ADMINS,
        tenant_wide=True,
        lengthy=True,
        while_suspended=True,
        example={"reason": "asked for on the phone, ticket 4711"},
    ),
    Operation(
        "BulkRewards",
        "POST /rewards/bulk",
        run=bulk_rewards,
        admin=REWARD_MANAGERS,
        lengthy=True,
        refusals=("APPROVAL_NEEDED",),
        example={"act": "BULK_ACT_FULFILL", "ids": [samples.REWARD], "reason": "handed over at the fair"},
    ),
    Operation(
        "GrantTurns",
        "POST /players/{id}/turns",
        run=grant_turns,
        admin=REWARD_MANAGERS,
        refusals=("UNKNOWN_CAMPAIGN", "APPROVAL_NEEDED"),
        example={"campaign_id": samples.CAMPAIGN, "amount": 1, "reason": "the app broke off a play"},
        command=Command(
            "players grant PLAYER CAMPAIGN AMOUNT --reason!",
            "Grant a player turns in a campaign.",
            help={
                "player": "The player's id.",
                "campaign": "The campaign's id.",
                "amount": "The number of turns.",
                "reason": "The reason, for the audit log.",
            },
            outcome="{balance_after} turns left",
        ),
    ),
    Operation(
        "MergePlayer",
        "POST /players/{id}/merge",
        run=merge_player,
        admin=ADMINS,
        tenant_wide=True,
        lengthy=True,
        refusals=("ILLEGAL_TRANSITION",),
        example={"guest_id": "guest_01kgk3w4d8fzgs0v6ha2tn9c5b", "preview": True},
    ),
    Operation(
        "UnlinkContact",
        "DELETE /players/{id}/contacts",
        run=unlink_contact,
        admin=ADMINS,
        tenant_wide=True,
        refusals=("UNKNOWN_CONTACT",),
        command=Command(
            "players unlink PLAYER CONTACT",
            "Unlink a contact from a player, who can no longer log in with it.",
            help={"player": "The player's id.", "contact": "The contact's id, from `players show --json`."},
            confirm="Unlink {contact} from {player}?",
            outcome="{contact} is unlinked from {player}",
        ),
    ),
    Operation(
        "SignOutPlayer",
        "POST /players/{id}/logout",
        run=sign_out_player,
        admin=ADMINS,
        tenant_wide=True,
        while_suspended=True,
        example={"reason": "the phone was stolen"},
        command=Command(
            "players sign-out PLAYER --reason",
            "Sign a player out everywhere.",
            outcome="{ended} sessions ended",
        ),
    ),
)
