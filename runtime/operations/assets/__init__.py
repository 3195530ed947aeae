"""Assets: the pictures and fonts that a tenant uploads for its games and pages."""

from __future__ import annotations

from typing import Final

from runtime.operations import samples
from runtime.operations.assets import stored_objects
from runtime.operations.assets.asset_admin import (
    create_asset,
    delete_asset,
    get_asset,
    list_assets,
    read_asset,
)
from runtime.operations.row import DESIGNERS, STAFF, Command, Operation

READ_ASSET: Final = Operation(
    "ReadAsset",
    "GET /assets/{id}/content",
    run=read_asset,
    bounded=True,
    rest=stored_objects.read,
    lengthy=True,
    refusals=("ASSETS_UNAVAILABLE",),
)
"""Core's own; the edges serve the bytes under the asset's URL (runtime/http/pages/assets.py)."""

ROWS: Final = (
    Operation(
        "CreateAsset",
        "POST /assets",
        run=create_asset,
        admin=DESIGNERS,
        lengthy=True,
        upload="content",
        refusals=("UNKNOWN_TENANT", "QUOTA_EXCEEDED", "ASSETS_UNAVAILABLE"),
        example={"name": "logo.png", "content": samples.PICTURE},
    ),
    Operation("GetAsset", "GET /assets/{id}", run=get_asset, admin=STAFF),
    Operation(
        "ListAssets",
        "GET /assets",
        run=list_assets,
        admin=STAFF,
        command=Command(
            "assets list --type --q --most",
            "List uploaded pictures and fonts, newest first.",
            help={"type": "Only types that begin with this: image or font."},
            columns="url, name, type, size, width, height",
        ),
    ),
    Operation(
        "DeleteAsset",
        "DELETE /assets/{id}",
        run=delete_asset,
        admin=DESIGNERS,
        refusals=("IN_USE", "UNKNOWN_TENANT"),
        command=Command(
            "assets delete ASSET",
            "Delete a picture or font that no campaign, game or prize shows. Caches may keep it for a year.",
            help={"asset": "The asset's id."},
            confirm="Delete {asset}?",
            outcome="{id} deleted",
        ),
    ),
    READ_ASSET,
)
