"""Prize draws: tickets frozen in public, and winners from a random value that was unknown then."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.draws.draw_admin import (
    create_draw,
    delete_draw,
    get_draw,
    list_draws,
    list_winners,
    update_draw,
)
from runtime.operations.draws.evidence import READ_DRAW_FILE
from runtime.operations.draws.lifecycle import close_draw, confirm_draw, draw_winners, replace_winner
from runtime.operations.draws.ticket_list import set_draw_tickets
from runtime.operations.row import DESIGNERS, REWARD_MANAGERS, STAFF, Access, Command, Consumer, Operation, RoutePolicy
from runtime.wire.shape import Shape

_SHOWN: Final = Shape(
    opened="draw",
    optional=frozenset({"me"}),
    inner={"me": Shape(optional=frozenset({"reward"}))},
    name="DrawWithWinners",
)

_STEP: Final = {"draw": "The draw's id."}

ROWS: Final = (
    Operation(
        "CreateDraw",
        "POST /draws",
        run=create_draw,
        resource="draw",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("UNKNOWN_CAMPAIGN", "CAMPAIGN_ARCHIVED"),
        example={
            "campaign_id": samples.CAMPAIGN,
            "name": "Grand prize",
            "tickets": {"currency": "ticket"},
            "prizes": [{"prize_id": samples.PRIZE, "count": 1}],
            "alternates": 3,
            "closes_at": samples.LATER,
            "randomness": {"kind": "INTERNAL"},
        },
        shape=_SHOWN,
        command=Command("draws create FILE", "Create a draw from a file.", outcome="{id} {name}"),
    ),
    Operation(
        "GetDraw",
        "GET /draws/{id}",
        run=get_draw,
        consumer=Consumer(Access.EITHER, RoutePolicy.CACHED, marks="for_players"),
        admin=STAFF,
        shape=_SHOWN,
        command=Command("draws show DRAW", "Show a draw and its first winners."),
    ),
    Operation(
        "ListDraws",
        "GET /draws",
        run=list_draws,
        admin=STAFF,
        command=Command(
            "draws list --status --campaign --q",
            "List draws, newest first.",
            help={"status": "Only draws with this status: open, closed, drawn, confirmed, cancelled. Default: all."},
            columns="id, draw=name, status, tickets=ticket_count, holders=holder_count",
        ),
    ),
    Operation(
        "UpdateDraw",
        "PUT /draws/{id}",
        run=update_draw,
        resource="draw",
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION", "CAMPAIGN_ARCHIVED"),
        example={"alternates": 5},
        shape=_SHOWN,
        command=Command(
            "draws update DRAW FILE",
            "Update an open draw with the fields in a file. `status: DRAW_STATUS_CANCELLED` cancels a draw.",
            help=_STEP,
            outcome="{id} {name}",
        ),
    ),
    Operation(
        "DeleteDraw",
        "DELETE /draws/{id}",
        run=delete_draw,
        admin=DESIGNERS,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION",),
        command=Command(
            "draws remove DRAW",
            "Remove a draw whose tickets are not frozen.",
            help=_STEP,
            confirm="Remove {draw}?",
            outcome="{draw} is removed",
        ),
    ),
    Operation(
        "SetDrawTickets",
        "POST /draws/{id}/tickets",
        run=set_draw_tickets,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION", "NOT_IMPORTED", "IMPORT_RUNNING"),
        example={"holders": [{"player_id": samples.PLAYER, "tickets": 3}]},
    ),
    Operation(
        "CloseDraw",
        "POST /draws/{id}/close",
        run=close_draw,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION", "RANDOMNESS_KNOWN"),
        example={},
        shape=_SHOWN,
        command=Command(
            "draws close DRAW",
            "Freeze the tickets of a draw now, and publish their Merkle root.",
            help=_STEP,
            confirm="Close {draw}? No ticket is added or removed afterwards.",
            outcome="{id}: {ticket_count:,} tickets of {holder_count:,} players, root {tickets_root}",
        ),
    ),
    Operation(
        "DrawWinners",
        "POST /draws/{id}/draw",
        run=draw_winners,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION", "RANDOMNESS_PENDING"),
        example={"value": "4 8 15 16 23 42"},
        shape=_SHOWN,
        command=Command(
            "draws draw DRAW --value",
            "Draw the winners of a closed draw. This cannot be repeated.",
            help=_STEP | {"value": "The declared number, or the round's signature. Internal draws take none."},
            confirm="Draw the winners of {draw}? This cannot be repeated.",
            outcome="{id} is drawn: `tombola draws winners {id}` lists the winners",
        ),
    ),
    Operation(
        "ConfirmDraw",
        "POST /draws/{id}/confirm",
        run=confirm_draw,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION",),
        example={},
        shape=_SHOWN,
        command=Command(
            "draws confirm DRAW",
            "Award the prizes of a draw to its winners.",
            help=_STEP,
            confirm="Award the prizes of {draw}?",
            outcome="{id} is confirmed",
        ),
    ),
    Operation(
        "ReplaceWinner",
        "POST /draws/{id}/replace",
        run=replace_winner,
        admin=REWARD_MANAGERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=("ILLEGAL_TRANSITION", "NO_ALTERNATE", "OUT_OF_STOCK"),
        example={"rank": 1, "reason": "not reached within 14 days"},
        shape=_SHOWN,
        command=Command(
            "draws replace DRAW RANK --reason!",
            "Give a rank's prize to the next alternate. Revoke the rank's reward first, unless it expired.",
            help=_STEP | {"rank": "The rank of the winner to replace."},
            confirm="Replace the winner of rank {rank} of {draw}?",
            outcome="rank {rank} of {id} is replaced",
        ),
    ),
    Operation(
        "ListWinners",
        "GET /draws/{id}/winners",
        run=list_winners,
        admin=STAFF,
        command=Command(
            "draws winners DRAW --most=50",
            "List the drawn ranks of a draw, with the players.",
            help=_STEP | {"most": "The maximum number of ranks."},
            columns="rank, player=player_id, name=display_name, prize=prize_id, reward=reward_id, reason",
        ),
    ),
    READ_DRAW_FILE,
)
