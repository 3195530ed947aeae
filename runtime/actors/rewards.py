"""Rewards as they are read: a player's own, and an operator's search over everybody's.

A code is opened only here, and only for whom the caller names as its owner: the list and the claim of
a player. What an admin is answered never has one: the search's message has no field for it.
"""

from __future__ import annotations

from typing import Any, Final

import structlog

import sql
from runtime import messages as m
from runtime import paging
from runtime.actors.checks import enum, token
from runtime.actors.engine import Engine
from runtime.errors import invalid
from runtime.vault import VaultError, code_place, vault_of

_SQL: Final = sql.load("rewards")

FIELDS: Final = (
    "prize_id",
    "name",
    "type",
    "value",
    "quantity",
    "game_id",
    "play_id",
    "campaign_id",
    "milestone_id",
    "won_at",
    "claimed_at",
    "fulfilled_at",
    "expires_at",
)
"""Columns that are the message's fields as they are; times are unix seconds, 0 where unset."""

log = structlog.get_logger(__name__)


async def list_rewards(engine: Engine, request: m.ListRewardsRequest) -> m.ListRewardsReply:
    """The player's rewards, newest first, narrowed by status, campaign, prize and game.

    A reward that was not claimed in time counts as expired from that moment on. The code is there once
    the reward is fulfilled, and gone when it is revoked.
    """
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = request.scope.tenant_id  # type: ignore[union-attr]
    filters = (request.player_id, token(request.status), request.campaign_id, request.prize_id, request.game_id)
    query = ("rewards", tenant_id, *filters)
    page = paging.read(request.cursor, request.limit, query=query)
    rows = await engine.database.fetch(_SQL["list"], tenant_id, *filters, page.after_id, page.fetch)
    shown, pagination = paging.write(rows, page.limit, key=lambda row: str(row["reward_id"]), query=query)
    return m.ListRewardsReply(items=[for_owner(engine, tenant_id, row) for row in shown], pagination=pagination)


async def search_rewards(engine: Engine, request: m.SearchRewardsRequest) -> m.SearchRewardsReply:
    """Every player's rewards, newest first, narrowed by status, campaign, prize, game and player.

    What waits for an operator's hand is `status` CLAIMED of a prize whose redemption_mode is MANUAL. A
    reward that was not claimed in time counts as expired from that moment on.
    """
    tenant_id = request.scope.tenant_id  # type: ignore[union-attr]
    filters = (token(request.status), request.campaign_id, request.prize_id, request.game_id, request.player_id)
    query = ("rewards of all", tenant_id, *filters)
    page = paging.read(request.cursor, request.limit, query=query)
    rows = await engine.database.fetch(_SQL["search"], tenant_id, *filters, page.after_id, page.fetch)
    shown, pagination = paging.write(rows, page.limit, key=lambda row: str(row["reward_id"]), query=query)
    return m.SearchRewardsReply(items=[_record(row) for row in shown], pagination=pagination)


def message(row: Any) -> m.Reward:
    """A reward without its code. `row` has reward_id, status (stored token) and FIELDS."""
    return m.Reward(
        id=row["reward_id"], status=enum(m.RewardStatus, row["status"]), **{name: row[name] for name in FIELDS}
    )


def _record(row: Any) -> m.RewardRecord:
    return m.RewardRecord(
        id=row["reward_id"],
        player_id=row["player_id"],
        status=enum(m.RewardStatus, row["status"]),
        **{name: row[name] for name in FIELDS},
    )


def for_owner(engine: Engine, tenant_id: str, row: Any) -> m.Reward:
    """A reward as its owner sees it: with the code that key_id and ciphertext of `row` hold (None: no code).

    A code whose key is gone from CODE_KEYS is left out and logged: the player's other rewards are not to
    suffer from it.
    """
    reward = message(row)
    if row["ciphertext"] is not None:
        try:
            reward.code = vault_of(engine.settings.code_keys).open(
                row["key_id"], row["ciphertext"], code_place(tenant_id, reward.prize_id)
            )
        except (VaultError, ValueError) as error:
            log.error("code_not_opened", reward_id=reward.id, key_id=row["key_id"], why=str(error))
    return reward
