"""Leaderboards: live rankings, and the final standings."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.leaderboards.board_admin import (
    adjust_score,
    create_leaderboard,
    delete_leaderboard,
    disqualify_player,
    get_leaderboard,
    list_leaderboards,
    update_leaderboard,
)
from runtime.operations.leaderboards.finalize import finalize_leaderboard
from runtime.operations.leaderboards.rankings import list_rankings
from runtime.operations.leaderboards.standings import list_standings
from runtime.operations.row import DESIGNERS, REWARD_MANAGERS, STAFF, Access, Command, Consumer, Operation, RoutePolicy
from runtime.wire.shape import Shape

ROWS: Final = (
    Operation(
        "CreateLeaderboard",
        "POST /leaderboards",
        run=create_leaderboard,
        resource="leaderboard",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("UNKNOWN_CAMPAIGN", "UNKNOWN_GAME", "UNKNOWN_PRIZE", "CAMPAIGN_ARCHIVED"),
        example={
            "campaign_id": samples.CAMPAIGN,
            "game_id": samples.GAME,
            "name": "Best of spring",
            "metric": "LEADERBOARD_METRIC_SCORE",
            "mode": "LEADERBOARD_MODE_BEST",
            "prizes": [{"from_rank": 1, "to_rank": 3, "prize_id": samples.PRIZE}],
        },
    ),
    Operation(
        "GetLeaderboard",
        "GET /leaderboards/{id}",
        run=get_leaderboard,
        admin=STAFF,
        command=Command(
            "leaderboards show BOARD",
            "Show a leaderboard.",
        ),
    ),
    Operation(
        "ListLeaderboards",
        "GET /leaderboards",
        run=list_leaderboards,
        admin=STAFF,
        command=Command(
            "leaderboards list --status --campaign --q",
            "List leaderboards, newest first.",
            help={
                "status": "Only leaderboards with this status: active, finalized, archived. Default: all but archived."
            },
            columns="id, leaderboard=name, status, counts=metric, how=mode",
        ),
    ),
    Operation(
        "UpdateLeaderboard",
        "PUT /leaderboards/{id}",
        run=update_leaderboard,
        resource="leaderboard",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=(
            *("BOARD_FINALIZED", "ILLEGAL_TRANSITION", "CAMPAIGN_ARCHIVED"),
            *("UNKNOWN_CAMPAIGN", "UNKNOWN_GAME", "UNKNOWN_PRIZE"),
        ),
        example={"name": "Best of the season"},
    ),
    Operation(
        "DeleteLeaderboard",
        "DELETE /leaderboards/{id}",
        run=delete_leaderboard,
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("IN_USE",),
    ),
    Operation(
        "ListRankings",
        "GET /leaderboards/{id}/rankings",
        run=list_rankings,
        consumer=Consumer(Access.EITHER, RoutePolicy.CACHED),
        lengthy=True,
        shape=Shape(optional=frozenset({"me"})),
    ),
    Operation(
        "ListStandings",
        "GET /leaderboards/{id}/standings",
        run=list_standings,
        admin=STAFF,
        lengthy=True,
        command=Command(
            "leaderboards standings BOARD --most=50",
            "List a leaderboard's standings with the prize of each rank.",
            help={"board": "The leaderboard's id.", "most": "The maximum number of ranks."},
            columns="rank, player=player_id, name=display_name, score, prize=prize_id, reward=reward_id",
        ),
    ),
    Operation(
        "FinalizeLeaderboard",
        "POST /leaderboards/{id}/finalize",
        run=finalize_leaderboard,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION",),
        example={},
        shape=Shape(opened="leaderboard", name="FinalizedLeaderboard"),
        command=Command(
            "leaderboards finalize BOARD",
            "Finalize a leaderboard and award its prizes by rank. This cannot be undone.",
            help={"board": "The leaderboard's id."},
            confirm="Finalize {board}? Its prizes are awarded by the current ranks.",
            outcome="{board} is finalized",
        ),
    ),
    Operation(
        "DisqualifyPlayer",
        "POST /leaderboards/{id}/disqualify",
        run=disqualify_player,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("BOARD_FINALIZED", "ILLEGAL_TRANSITION", "UNKNOWN_PLAYER"),
        example={"player_id": samples.PLAYER, "reason": "two accounts"},
    ),
    Operation(
        "AdjustScore",
        "POST /leaderboards/{id}/adjust",
        run=adjust_score,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("BOARD_FINALIZED", "DISQUALIFIED", "ILLEGAL_TRANSITION", "UNKNOWN_PLAYER"),
        example={"player_id": samples.PLAYER, "delta": -20, "reason": "a round was counted twice"},
    ),
)
