"""The one table of operations: what Core can be asked, over REST and RPC alike.

Each resource's module, or package, holds its functions and its rows (`ROWS`; see runtime/operations/row.py). The
RPC server, Core's REST surface, the edges, the metrics and the OpenAPI documents are loops over the table; a test
holds that game.proto's RPCs and these rows are the same set.

Most operations are a function of one request. One with an `actor` is an actor's instead: its requests wait in
the mailbox of their key (a game, a tenant), and the actor does a batch of them together.
"""

from __future__ import annotations

from typing import Final

from runtime.operations import (
    audit,
    campaigns,
    conservation,
    desk,
    files,
    fulfillment,
    games,
    integrations,
    leaderboards,
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
    *prizes.ROWS,
    *wallet.ROWS,
    *rewards.ROWS,
    *quests.ROWS,
    *players.ROWS,
    *desk.ROWS,
    *staff.ROWS,
    *leaderboards.ROWS,
    *integrations.ROWS,
    *fulfillment.ROWS,
    *tenancy.ROWS,
    *audit.ROWS,
    *APPROVALS,
    *conservation.ROWS,
    *reporting.ROWS,
)

BY_NAME: Final[dict[str, Operation]] = {operation.name: operation for operation in OPERATIONS}
"""Operation by RPC name: names are unique over all services."""
