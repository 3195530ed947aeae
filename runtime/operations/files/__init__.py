"""Campaign files: a whole campaign in one file, compared with the current state and imported in one transaction."""

from __future__ import annotations

from typing import Final

from runtime.operations.files.importing import import_campaign
from runtime.operations.row import DESIGNERS, Operation

ROWS: Final = (
    Operation(
        "ImportCampaign",
        "POST /campaigns/import",
        run=import_campaign,
        admin=DESIGNERS,
        lengthy=True,
        invalidates_cache=True,
        refusals=(
            "UNKNOWN_CAMPAIGN",
            "STOCK_BELOW_AWARDED",
            "IN_USE",
            "HAS_HISTORY",
            "ILLEGAL_TRANSITION",
            "BOARD_FINALIZED",
            "ODDS_NEED_APPROVAL",
        ),
        example={
            "file": {
                "tombola": 1,
                "campaign": {"name": "Harvest fair", "timezone": "Europe/Berlin"},
                "prizes": [{"name": "Cider", "type": "goods", "stock": {"total": 100}}],
                "games": [
                    {
                        "name": "Wheel",
                        "type": "spin_wheel",
                        "reward_handler": "probability",
                        "handler_config": {"prizes": [{"prize_id": "Cider", "probability": 0.1}]},
                    }
                ],
            }
        },
    ),
)
