from typing import Any

from runtime import ids
from tests.support.stack import Stack
from tests.support.statements import insert


async def open_campaign(stack: Stack, *, timezone: str = "UTC") -> str:
    campaign_id = ids.make("camp")
    its = {"tenant_id": stack.tenant_id, "campaign_id": campaign_id, "name": "Spring", "status": "active"}
    await insert(stack.database, "campaigns", **its, timezone=timezone)
    return campaign_id


async def open_quest(stack: Stack, campaign_id: str, **fields: Any) -> str:
    quest = {"campaign_id": campaign_id, "name": "Visit the shop", "turns": 3, "status": "active", **fields}
    return str((await stack.core("POST", "/quests", {"quest": quest})).data["quest"]["id"])
