"""Games: composed from registered components by configuration. Every update is a new revision."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.games.forecasts import forecast_game
from runtime.operations.games.game_admin import create_game, delete_game, get_game, list_games, update_game
from runtime.operations.games.revisions import list_game_revisions
from runtime.operations.games.trials import list_test_plays, make_test_plays
from runtime.operations.row import DESIGNERS, STAFF, Command, Operation

ROWS: Final = (
    Operation(
        "CreateGame",
        "POST /games",
        run=create_game,
        resource="game",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("APPROVAL_NEEDED",),
        example={
            "name": "Spring wheel",
            "type": "spin_wheel",
            "campaign_id": samples.CAMPAIGN,
            "seed_generator": "none",
            "reward_handler": "probability",
            "validator": "basic",
            "status": "GAME_STATUS_ACTIVE",
            "rules": {"max_plays_per_user": 9, "max_plays_per_day": 3, "requires_turn": False},
            "handler_config": {"prizes": [{"prize_id": samples.PRIZE, "probability": 0.05}]},
            "ui": {
                "theme": {"primary": "#c2410c", "accent": "#facc15"},
                "wheel": {"segments": [{"emoji": "☕", "prize_id": samples.PRIZE}, {"emoji": "🍃"}]},
            },
            "milestones": {
                "mode": "MILESTONE_MODE_CUMULATIVE_UNLOCK",
                "auto_grant": False,
                "rungs": [{"name": "Ten points", "currency": "points", "threshold": 10, "prize_id": samples.PRIZE}],
            },
        },
    ),
    Operation("GetGame", "GET /games/{id}", run=get_game, admin=STAFF),
    Operation(
        "ListGames",
        "GET /games",
        run=list_games,
        admin=STAFF,
        command=Command(
            "games list --campaign --status --type --q",
            "List games, newest first.",
            help={
                "campaign": "Only games of the campaign with this id.",
                "type": "Only games of this type, such as spin_wheel.",
            },
            columns="id, name, type, handler=reward_handler, status, revision, campaign=campaign_id",
        ),
    ),
    Operation(
        "UpdateGame",
        "PUT /games/{id}",
        run=update_game,
        resource="game",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("STALE_REVISION", "IN_USE", "HAS_HISTORY", "FROZEN", "APPROVAL_NEEDED"),
        example={"name": "Summer wheel", "rules": {"max_plays_per_day": 5}},
    ),
    Operation(
        "DeleteGame",
        "DELETE /games/{id}",
        run=delete_game,
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("IN_USE", "FROZEN"),
    ),
    Operation(
        "ListGameRevisions",
        "GET /games/{id}/revisions",
        run=list_game_revisions,
        admin=STAFF,
        command=Command(
            "games revisions GAME",
            "List a game's revisions and their authors, newest first.",
            help={"game": "The game's id."},
            columns="revision, made={made_at:second}, by=made_by, name=game.name",
        ),
    ),
    Operation(
        "MakeTestPlays",
        "POST /games/{id}/test-plays",
        run=make_test_plays,
        admin=DESIGNERS,
        lengthy=True,
        refusals=("NOT_IN_PLAN", "IMPLAUSIBLE_SCORE"),
        example={"times": 100, "client_seed": "clover"},
    ),
    Operation(
        "ForecastGame",
        "GET /games/{id}/forecast",
        run=forecast_game,
        admin=STAFF,
        lengthy=True,
        refusals=("NO_ODDS",),
    ),
    Operation("ListTestPlays", "GET /games/{id}/test-plays", run=list_test_plays, admin=STAFF),
)
