"""The body of a delivery request. Identical at each attempt, except for catalogue changes in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus


def delivery_body(tenant_id: str, row: Mapping[str, Any], callback_base: str, token: str) -> dict[str, Any]:
    """The request's body, from a row of `fulfillment.lease` or `desk.delivery_of_reward`.

    token: for the callback URL; '' if the prize has no secret.
    """
    path = f"/api/v1/fulfillment/tasks/{row['task_id']}/callback?tenant_id={quote_plus(tenant_id)}"
    if token:
        path += f"&token={token}"
    return {
        "id": row["task_id"],
        "type": "fulfillment.requested",
        "occurred_at": row["created_at"],
        "tenant_id": tenant_id,
        "data": {
            "reward": {
                "id": row["reward_id"],
                "prize_id": row["prize_id"],
                "name": row["name"],
                "type": row["type"],
                "value": row["value"],
                "quantity": row["quantity"],
                "game_id": row["game_id"],
                "play_id": row["play_id"],
                "campaign_id": row["campaign_id"],
                "milestone_id": row["milestone_id"],
                "won_at": row["won_at"],
                "claimed_at": row["claimed_at"],
            },
            "prize": {
                "id": row["prize_id"],
                "name": row["prize_name"],
                "type": row["prize_type"],
                "value": row["prize_value"],
            },
            "player_id": row["player_id"],
            "callback_url": f"{callback_base}{path}",
            # Only for prizes with a claim form; other receivers get an unchanged body.
            **({"answers": {one["key"]: one["value"] for one in row["answers"]}} if row["answers"] else {}),
        },
    }
