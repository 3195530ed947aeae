"""The groups of operator commands."""

from __future__ import annotations

from typing import Final

from cyclopts import Group

OPERATOR_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "approvals": ("List, approve and reject requests that need a second person.", ""),
    "assets": ("Upload, list and delete pictures and fonts.", ""),
    "audit-log": ("Read the audit log.", ""),
    "audit": ("Check the data for discrepancies.", ""),
    "call": (
        "Send any request to the admin edge, by method and path.",
        "Send any request to the admin edge, by method and path; replies are JSON.",
    ),
    "campaigns": (
        "List, check, export and import campaigns.",
        "List and check campaigns; export and import a campaign as one file.",
    ),
    "codes": ("Manage pools of voucher codes.", ""),
    "deadletters": ("Manage messages that no worker could process.", ""),
    "deliveries": (
        "List deliveries, including failed ones; retry one.",
        "List deliveries of rewards and the causes of failures; retry one.",
    ),
    "draws": (
        "Create, close, draw and confirm prize draws; verify one offline.",
        "Create, close, draw and confirm prize draws; list winners; verify an evidence file offline.",
    ),
    "export": (
        "Write participants, winners, plays or other rows to a file.",
        "Write participants, winners, plays or other rows to a file, as CSV.",
    ),
    "figures": (
        "Show a campaign's figures.",
        "Show a campaign's figures: funnel, days, costs, and draws compared with the odds.",
    ),
    "games": ("List and show games; validate and apply a game's file.", ""),
    "integrations": (
        "List, create, test, pause and remove integrations; read their logs.",
        "List, create, test, pause and remove integrations; rotate their secrets; read their logs.",
    ),
    "keys": (
        "Rotate encryption keys; open a notary's copies.",
        "Rotate the encryption keys of stored codes and secrets. Open a notary's copies of secret times.",
    ),
    "leaderboards": (
        "List, show and finalize leaderboards; rebuild rankings.",
        "List and show leaderboards and their standings; finalize them; rebuild rankings.",
    ),
    "log": (
        "Show the tenant's Merkle log; watch another party's.",
        "Show the tenant's Merkle log; check as a witness that a log is only ever appended to.",
    ),
    "merchants": ("List, show, create, rename and suspend merchants.", ""),
    "packs": (
        "Manage packs of codes that players enter.",
        "Create and update packs of codes that players enter; import, generate and withdraw codes.",
    ),
    "players": (
        "Find, show, export, suspend, merge and erase players.",
        "Find, show, export, suspend, merge and erase players; sign them out; grant turns.",
    ),
    "prizes": ("List, show, create and update prizes; change their stock.", ""),
    "quests": (
        "List, show, create and update quests; rotate the secret of their events.",
        "List, show, create, update and remove quests; rotate the secret of their events.",
    ),
    "rewards": ("Find and show rewards; fulfill, revoke or retry several.", ""),
    "tenants": ("List, show, create, rename and suspend tenants (role platform).", ""),
    "token": ("Create player and staff tokens; revoke staff tokens.", ""),
    "tokens": ("List, create and revoke API tokens for machines.", ""),
    "wallets": ("Show a player's balances and ledger; adjust a balance.", ""),
}
"""Group -> (summary in `tombola --help`, text of the group's own help if it differs)."""

VERIFY: Final = "Check the receipt of a play, or the dossier of a campaign, without a server."
DOSSIER: Final = "Open the sealed lines of a campaign's dossier."

RUN: Final = Group("Run", sort_key=1)
OPERATE: Final = Group("Operate", sort_key=2)
CONTENT: Final = Group("Content", sort_key=3)
PEOPLE: Final = Group("People", sort_key=4)
TOOLS: Final = Group("Tools", sort_key=5)

_SHOWN_UNDER: Final = {
    OPERATE: ("approvals", "audit", "audit-log", "deadletters", "deliveries", "keys"),
    PEOPLE: ("merchants", "players", "rewards", "tenants", "token", "tokens", "wallets"),
    TOOLS: ("call", "export", "figures"),
}


def shown_under(name: str) -> Group:
    """The section of `tombola --help` for a group: Content, unless listed above."""
    return next((group for group, names in _SHOWN_UNDER.items() if name in names), CONTENT)
