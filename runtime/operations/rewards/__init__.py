"""Rewards: what players have won, and what becomes of it."""

from __future__ import annotations

from typing import Final

from runtime.actors.claims import ClaimActors
from runtime.operations.rewards.reward_admin import fulfill, reveal_code, revoke
from runtime.operations.rewards.reward_queries import get_reward, list_rewards, search_rewards
from runtime.operations.row import REWARD_MANAGERS, STAFF, Access, Command, Consumer, Operation, RoutePolicy

ROWS: Final = (
    Operation("ListRewards", "GET /rewards/me", run=list_rewards, consumer=Consumer(Access.PLAYER)),
    Operation(
        "SearchRewards",
        "GET /rewards",
        run=search_rewards,
        finds_codes=True,
        admin=STAFF,
        refusals=("ROLE_REQUIRED",),
        command=Command(
            "rewards list --status --campaign --prize --player --contact --code --since=won_from "
            "--until=won_until --most",
            "List rewards, the newest first.",
            help={
                "contact": "Only those of whose e-mail address or phone number this is, whole.",
                "code": "Only the one that has this code, whole; for who may move rewards.",
                "since": "Only those won from this time on, such as 2026-03-01T09:00:00+01:00 (UTC where it says no "
                "offset).",
                "until": "Only those won before this time.",
            },
            columns="id, prize=name, player=player_id, status",
        ),
    ),
    Operation("GetReward", "GET /rewards/{id}", run=get_reward, admin=STAFF),
    Operation(
        "ClaimReward",
        "POST /rewards/{id}/claim",
        actor=ClaimActors,
        about="Claims a reward of one's own. `code` is there where the claim delivered it. `answers` hold what its "
        "prize asks (`claim_fields`), by key; what is wrong with one is told at `answers.KEY`.",
        consumer=Consumer(Access.PLAYER, RoutePolicy.ACT),
        confides=True,
        refusals=("ALREADY_CLAIMED", "ILLEGAL_TRANSITION", "OUT_OF_STOCK", "CODE_UNAVAILABLE"),
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
        confides=True,
        refusals=("UNKNOWN_CODE", "CODE_UNAVAILABLE"),
        example={"reason": "The winner lost the mail."},
        command=Command(
            "rewards code REWARD --reason",
            "Show the code of a reward that was delivered. It is noted in the audit log.",
            says="{code}",
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
