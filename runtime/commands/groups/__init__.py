"""The groups of operator commands."""

from __future__ import annotations

from typing import Final

from cyclopts import Group

OPERATOR_COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "approvals": ("See what waits for a second person; approve or reject it.", ""),
    "audit-log": ("Read who changed what.", ""),
    "audit": ("Look at everything there is, whether it adds up.", ""),
    "call": (
        "Ask the admin edge for anything that it has, by verb and path.",
        "Ask the admin edge for anything that it has, by verb and path; answers are JSON.",
    ),
    "campaigns": (
        "List campaigns; write a whole one to a file, and apply such a file.",
        "List and check campaigns; write a whole one to a file, and apply such a file.",
    ),
    "codes": ("Look after pools of voucher codes.", ""),
    "deadletters": ("Look after messages that no worker could handle.", ""),
    "deliveries": (
        "List deliveries, those that failed for good too; retry one.",
        "List deliveries of rewards, with the cause of what failed; try one again.",
    ),
    "export": (
        "Write plays, rewards, winners, ledger, tasks or audit entries to a file.",
        "Write plays, rewards, winners, ledger, tasks or audit entries to a file, as CSV.",
    ),
    "figures": (
        "Show a campaign in figures.",
        "Show a campaign in figures: how far plays came, days, costs, and whether odds held.",
    ),
    "games": ("List and show games; check and apply a game's file.", ""),
    "integrations": (
        "List, make and remove integrations; try one, pause it, read its log.",
        "List, make and remove integrations; try one, pause it, rotate its secret, read its log.",
    ),
    "keys": ("Look after the keys of what is stored encrypted.", ""),
    "leaderboards": (
        "List and show leaderboards; finalize them; look after the live rankings.",
        "List and show leaderboards and their standings; finalize them; rebuild rankings.",
    ),
    "merchants": ("List and show merchants; create, rename and suspend them.", ""),
    "players": (
        "Find players; see, export, suspend, merge and erase one.",
        "Find players; see, export, suspend, merge and erase one; sign it out; give it turns.",
    ),
    "prizes": ("List, show, make and change prizes; move their stock.", ""),
    "quests": (
        "List, show, make and change quests; rotate the secret of their events.",
        "List, show, make, change and remove quests; rotate the secret of their events.",
    ),
    "rewards": ("Find rewards, show one; fulfill, revoke or retry several.", ""),
    "tenants": ("List and show tenants; create, rename and suspend them (role platform).", ""),
    "token": ("Make tokens of this service, and end those of staff.", ""),
    "tokens": ("List API tokens of machines; create and revoke them.", ""),
    "wallets": ("See a player's balances and what moved them; adjust one.", ""),
}
"""A group -> what it is for, in the list of all; and more of that in the group's own help, where there is more."""

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
    """Where `tombola --help` lists a group: with content, unless it is named above."""
    return next((group for group, names in _SHOWN_UNDER.items() if name in names), CONTENT)
