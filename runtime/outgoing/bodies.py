"""What a delivery's receiver is told: the same at each attempt, but for what the catalogue has changed meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus


def delivery_body(tenant_id: str, row: Mapping[str, Any], callback_base: str, token: str) -> dict[str, Any]:
    """The request's body (contract.md, "Channels"), of a row of `fulfillment.lease` or `desk.told`.

    token: the callback's; '' where the prize has no secret.
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
            # Only of a prize that asked: what every other receiver gets is as it was.
            **({"answers": {one["key"]: one["value"] for one in row["answers"]}} if row["answers"] else {}),
        },
    }
