"""Integrations: registered, their log of deliveries, and events for them."""

import asyncio
from typing import Any

from runtime.events import PrizeWon, new_event
from tests.support.deliveries import SECRET
from tests.support.receiver import Receiver
from tests.support.waiting import HANG_SECONDS


async def register(stack: Any, receiver: Receiver, *events: str, **fields: Any) -> str:
    config = {"url": receiver.url, "secret": SECRET, **fields.pop("config", {})}
    body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": list(events), "config": config, **fields}
    answer = await stack.admin("POST", "/admin/integrations", body)
    return str(answer.data["id"])


async def deliveries(stack: Any, integration_id: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            answer = await stack.admin("GET", f"/admin/integrations/{integration_id}/deliveries", limit="100")
            if len(answer.data["items"]) >= count:
                return list(answer.data["items"])
            await asyncio.sleep(0.01)


def event(stack: Any, type: str = PrizeWon.TYPE, **fields: Any) -> Any:
    now = stack.engine.clock.now()
    own = {"occurred_at": now, "tenant_id": stack.tenant_id, "merchant_id": "", "campaign_id": "", "data": {}}
    return new_event(type, **{**own, **fields})
