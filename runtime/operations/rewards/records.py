"""Rewards as they are read: a player's own, and an operator's search over everybody's.

What an admin is answered never has a code: the search's message has no field for it.
"""

from __future__ import annotations

from typing import Any, Final

import sql
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.actors.rewards import FIELDS, listed_for_owner
from runtime.errors import invalid
from runtime.operations import reading
from runtime.wire.enums import enum, token
from runtime.wire.scope import merchant_of, tenant_of

_SQL: Final = sql.load("rewards")


async def list_rewards(engine: Engine, request: m.ListRewardsRequest) -> m.ListRewardsReply:
    """The player's rewards, newest first, narrowed by status, campaign, prize and game.

    A reward that was not claimed in time counts as expired from that moment on. The code is there once
    the reward is fulfilled, and gone when it is revoked; `code_error` says where no key opens it.
    """
    if not request.player_id:
        raise invalid("player_id", "is required")
    tenant_id = tenant_of(request)
    filters = (request.player_id, token(request.status), request.campaign_id, request.prize_id, request.game_id)
    rows, pagination = await reading.page(engine, _SQL["list"], request, tenant_id, *filters, key="reward_id")
    items = [listed_for_owner(engine, tenant_id, row) for row in rows]
    return m.ListRewardsReply(items=items, pagination=pagination)


async def search_rewards(engine: Engine, request: m.SearchRewardsRequest) -> m.SearchRewardsReply:
    """Every player's rewards, newest first, narrowed by status, campaign, prize, game and player.

    What waits for an operator's hand is `status` CLAIMED of a prize whose redemption_mode is MANUAL. A
    reward that was not claimed in time counts as expired from that moment on.
    """
    filters = (token(request.status), request.campaign_id, request.prize_id, request.game_id, request.player_id)
    asked = (tenant_of(request), *filters, merchant_of(request))
    rows, pagination = await reading.page(engine, _SQL["search"], request, *asked, key="reward_id")
    return m.SearchRewardsReply(items=[_record(row) for row in rows], pagination=pagination)


def _record(row: Any) -> m.RewardRecord:
    return m.RewardRecord(
        id=row["reward_id"],
        player_id=row["player_id"],
        status=enum(m.RewardStatus, row["status"]),
        **{name: row[name] for name in FIELDS},
    )
