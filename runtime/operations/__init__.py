"""The table of all operations that Core serves, over REST and RPC.

Each resource's module or package defines its functions and its rows (`ROWS`; see runtime/operations/row.py). The
RPC server, Core's REST surface, the edges, the metrics and the OpenAPI documents iterate over the table. A test
checks that it matches the RPCs of game.proto.

Most operations are a function of one request. An operation with an `actor` goes to an actor instead: requests queue
in the mailbox of their key (a game, a tenant), and the actor processes them in batches.
"""

from __future__ import annotations

from typing import Final

from runtime.operations import (
    assets,
    audit,
    campaigns,
    conservation,
    desk,
    draws,
    entries,
    files,
    fulfillment,
    games,
    integrations,
    leaderboards,
    log,
    packs,
    play_receipts,
    players,
    plays,
    prizes,
    quests,
    reporting,
    rewards,
    staff,
    storefront,
    tenancy,
    wallet,
)
from runtime.operations.approvals.review import ROWS as APPROVALS
from runtime.operations.row import Operation as Operation

API: Final = "/api/v1"

OPERATIONS: Final[tuple[Operation, ...]] = (
    *campaigns.ROWS,
    *files.ROWS,
    *games.ROWS,
    *storefront.ROWS,
    *plays.ROWS,
    *play_receipts.ROWS,
    *prizes.ROWS,
    *assets.ROWS,
    *wallet.ROWS,
    *rewards.ROWS,
    *quests.ROWS,
    *packs.ROWS,
    *players.ROWS,
    *desk.ROWS,
    *entries.ROWS,
    *staff.ROWS,
    *leaderboards.ROWS,
    *draws.ROWS,
    *integrations.ROWS,
    *fulfillment.ROWS,
    *tenancy.ROWS,
    *audit.ROWS,
    *APPROVALS,
    *conservation.ROWS,
    *reporting.ROWS,
    *log.ROWS,
)

BY_NAME: Final[dict[str, Operation]] = {operation.name: operation for operation in OPERATIONS}
"""Operation by RPC name; names are unique across services."""
