"""Rewards: what players have won, and how it is claimed, delivered and revoked."""

from __future__ import annotations

from typing import Final

from runtime.actors.claims import ClaimActors
from runtime.operations.rewards.code_sending import send_code
from runtime.operations.rewards.reward_admin import fulfill, reveal_code, revoke
from runtime.operations.rewards.reward_queries import get_reward, list_rewards, search_rewards
from runtime.operations.row import REWARD_MANAGERS, STAFF, Access, Command, Consumer, Operation, RoutePolicy

ROWS: Final = (
    Operation("ListRewards", "GET /rewards/me", run=list_rewards, consumer=Consumer(Access.PLAYER)),
    Operation(
        "SearchRewards",
        "GET /rewards",
        run=search_rewards,
        searches_codes=True,
        admin=STAFF,
        refusals=("ROLE_REQUIRED",),
        command=Command(
            "rewards list --status --campaign --prize --player --contact --code --since=won_from "
            "--until=won_until --most",
            "List rewards, newest first.",
            help={
                "contact": "Only rewards of the player with this full e-mail address or phone number.",
                "code": "Only the reward with this full code. Requires a role that may change rewards.",
                "since": "Only rewards won from this time on, such as 2026-03-01T09:00:00+01:00 (UTC without an "
                "offset).",
                "until": "Only rewards won before this time.",
            },
            columns="id, prize=name, player=player_id, status",
        ),
    ),
    Operation("GetReward", "GET /rewards/{id}", run=get_reward, admin=STAFF),
    Operation(
        "ClaimReward",
        "POST /rewards/{id}/claim",
        actor=ClaimActors,
        about="Claims one of the player's own rewards. `code` is present if the claim delivered it. `answers` are the "
        "answers to the prize's `claim_fields`, by key; the problem of one is reported at `answers.KEY`.",
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        confidential=True,
        refusals=(
            "ALREADY_CLAIMED",
            "ILLEGAL_TRANSITION",
            "ENTRY_REQUIRED",
            "NOT_ELIGIBLE",
            "OUT_OF_STOCK",
            "CODE_UNAVAILABLE",
        ),
        example={"answers": {"size": "M"}},
    ),
    Operation(
        "FulfillReward",
        "POST /rewards/{id}/fulfill",
        run=fulfill,
        admin=REWARD_MANAGERS,
        refusals=("ILLEGAL_TRANSITION", "OUT_OF_STOCK", "CODE_UNAVAILABLE"),
        example={"note": "handed over at the stall"},
    ),
    Operation(
        "RevealCode",
        "POST /rewards/{id}/reveal-code",
        run=reveal_code,
        admin=REWARD_MANAGERS,
        confidential=True,
        refusals=("UNKNOWN_CODE", "CODE_UNAVAILABLE"),
        example={"reason": "The winner lost the mail."},
        command=Command(
            "rewards code REWARD --reason!",
            "Show the code of a delivered reward. This is recorded in the audit log.",
            outcome="{code}",
        ),
    ),
    Operation(
        "SendCode",
        "POST /rewards/{id}/send-code",
        run=send_code,
        admin=REWARD_MANAGERS,
        lengthy=True,
        refusals=("UNKNOWN_CODE", "NO_CONTACT", "CODE_UNAVAILABLE", "SENDER_UNAVAILABLE", "RATE_LIMITED"),
        example={"reason": "The winner lost the mail."},
        command=Command(
            "rewards send-code REWARD --reason!",
            "Send the code of a delivered reward to its player again. This is recorded in the audit log.",
            outcome="the code was sent to {sent_to}",
        ),
    ),
    Operation(
        "RevokeReward",
        "POST /rewards/{id}/revoke",
        run=revoke,
        admin=REWARD_MANAGERS,
        refusals=("ILLEGAL_TRANSITION", "INSUFFICIENT_BALANCE"),
        example={"reason": "won by a script"},
    ),
)
