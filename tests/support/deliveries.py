"""Workers of the outgoing groups beside a test's stack, and rewards whose delivery is due."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook

from runtime import ids
from runtime.actors.engine import Engine
from runtime.errors import Fault
from runtime.events import PrizeWon, new_event
from runtime.groups import GROUPS
from runtime.outgoing.connector import Connector
from runtime.outgoing.vault import prize_context, vault_of
from runtime.streams.delivery import Deliveries
from runtime.streams.outbox import Outbox
from tests.support.receiver import Receiver
from tests.support.statements import insert
from tests.support.waiting import HANG_SECONDS

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


def signed(body: str, *, id: str, at: float = 0, secret: str = SECRET) -> dict[str, str]:
    """The headers of a message that is signed as the libraries of Standard Webhooks do."""
    when = datetime.fromtimestamp(int(at or time.time()), UTC)
    headers = {"webhook-id": id, "webhook-timestamp": str(int(when.timestamp()))}
    return headers | {"webhook-signature": Webhook(secret).sign(id, when, body)}


@asynccontextmanager
async def working(engine: Engine, *groups: str) -> AsyncIterator[None]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(GROUPS[group].load()(engine, stop)) for group in groups]
    try:
        yield
    finally:
        stop.set()
        async with asyncio.timeout(HANG_SECONDS):
            await asyncio.gather(*tasks)


@asynccontextmanager
async def delivering(engine: Engine, *, attempt_seconds: float = 15) -> AsyncIterator[Deliveries]:
    connector = Connector(engine.settings.outbound_allow_cidrs, attempt_seconds=attempt_seconds)
    work = Deliveries(engine, connector, Outbox(engine, lease_seconds=60))
    try:
        yield work
    finally:
        await work.finish()
        await connector.close()


async def sweep(engine: Engine) -> int:
    async with delivering(engine) as worker:
        return await worker.sweep()


async def make_receiver_prize(engine: Engine, tenant_id: str, url: str, channel: str = "webhook", **config: Any) -> str:
    prize_id = ids.make("prize")
    sealed = vault_of(engine.settings.code_keys).seal_config(
        {"url": url, "secret": SECRET, **config}, prize_context(tenant_id, prize_id)
    )
    named = {"tenant_id": tenant_id, "prize_id": prize_id}
    delivered = {"redemption_mode": "on_win", "channel": channel, "channel_config": sealed}
    kind = {"campaign_id": "camp_x", "name": "Mug", "type": "goods", "value": 5}
    await insert(engine.database, "prizes", **named, **kind, **delivered)
    await insert(engine.database, "stock", **named)
    return prize_id


async def make_task(engine: Engine, tenant_id: str, prize_id: str) -> str:
    task_id, reward_id = ids.make("task"), ids.make("reward")
    of = {"tenant_id": tenant_id, "prize_id": prize_id, "campaign_id": "camp_x", "player_id": "player_a"}
    of["reward_id"] = reward_id

    async def work(connection: Any) -> None:
        await insert(connection, "rewards", **of, name="Mug", type="goods", value=5, quantity=1, status="won")
        query = "SELECT channel, now() FROM prizes WHERE tenant_id = $1 AND prize_id = $2"
        channel, now = await connection.fetchrow(query, tenant_id, prize_id)
        due = {"channel": channel, "status": "pending", "next_attempt_at": now}
        await insert(connection, "tasks", **of, task_id=task_id, **due)

    await engine.database.transaction(work)
    return task_id


async def state(engine: Engine, task_id: str) -> tuple[str, str]:
    """(the task's status, its reward's)"""
    row = await engine.database.fetchrow(
        "SELECT t.status, r.status AS reward FROM tasks AS t JOIN rewards AS r USING (tenant_id, reward_id)"
        " WHERE task_id = $1",
        task_id,
    )
    return row["status"], row["reward"]


async def until_task(engine: Engine, task_id: str, status: str) -> tuple[str, str]:
    async with asyncio.timeout(HANG_SECONDS):
        while True:
            with suppress(Fault):  # the database may be what the test takes away
                if (found := await state(engine, task_id))[0] == status:
                    return found
            await asyncio.sleep(0.01)


async def make_due(engine: Engine, task_id: str) -> None:
    change = "UPDATE tasks SET next_attempt_at = now(), lease_until = least(lease_until, now()) WHERE task_id = $1"
    await engine.database.execute(change, task_id)


async def register(stack: Any, receiver: Receiver, *events: str, **fields: Any) -> str:
    config = {"url": receiver.url, "secret": SECRET, **fields.pop("config", {})}
    body = {"type": "INTEGRATION_TYPE_WEBHOOK", "events": list(events), "config": config, **fields}
    return str((await stack.admin("POST", "/admin/integrations", body)).data["id"])


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
