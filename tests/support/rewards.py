"""Prizes, codes and rewards put into the database directly, and Core beside it, for tests that do not play."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from runtime import ids
from runtime import messages as m
from runtime.actors.engine import Engine
from runtime.core import Core
from runtime.errors import Fault
from runtime.operations import BY_NAME
from runtime.outgoing.vault import code_context, vault_of
from runtime.settings import Settings
from runtime.stores.database import Database
from runtime.stores.ephemeral import Ephemeral
from runtime.stores.publisher import Publisher
from tests.support.statements import insert


@asynccontextmanager
async def core(settings: Settings, *, shards: int = 1) -> AsyncIterator[Core]:
    ephemeral = Ephemeral(settings.redis_url, timeout_seconds=settings.redis_timeout_seconds)
    await ephemeral.start()
    database = Database(settings.database_url, size=4, acquire_seconds=10, statement_seconds=10)
    await database.start()
    core = Core(Engine(settings, database, ephemeral, Publisher(ephemeral, shards=shards, length_max=1000)))
    try:
        yield core
    finally:
        await core.drain()
        await database.close()
        await ephemeral.close()


@dataclass
class Shelf:
    engine: Engine
    tenant_id: str = "tenant_test"
    campaign_id: str = "camp_test"
    prizes: dict[str, str] = field(default_factory=dict)

    async def open(self) -> "Shelf":
        change = "INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test') ON CONFLICT DO NOTHING"
        await self.engine.database.execute(change, self.tenant_id)
        await self.engine.database.execute(
            "INSERT INTO campaigns (tenant_id, campaign_id, merchant_id, name, status)"
            " VALUES ($1, $2, 'merchant_test', 'Test', 'active') ON CONFLICT DO NOTHING",
            *(self.tenant_id, self.campaign_id),
        )
        return self

    async def prize(self, mode: str = "on_claim", channel: str = "none", *, total: int = 0) -> str:
        prize_id, database = ids.make("prize"), self.engine.database
        named = {"tenant_id": self.tenant_id, "prize_id": prize_id}
        terms = {"name": "Mug", "type": "voucher", "value": 5, "redemption_mode": mode, "channel": channel}
        await insert(database, "prizes", **named, campaign_id=self.campaign_id, **terms)
        await insert(database, "stock", **named, total=total, remaining=total)
        return prize_id

    async def codes(self, prize_id: str, *texts: str) -> None:
        vault, context = vault_of(self.engine.settings.code_keys), code_context(self.tenant_id, prize_id)
        for text in texts:
            sealed = vault.seal(text, context)
            named = {"tenant_id": self.tenant_id, "prize_id": prize_id, "code_id": ids.make("code")}
            stored = {**sealed._asdict(), "code_hash": vault.fingerprints(text, context)[0]}
            await insert(self.engine.database, "codes", **named, **stored)

    async def reward(
        self,
        prize_id: str,
        player_id: str = "player_ann",
        *,
        status: str = "won",
        quantity: int = 1,
        expires_in_seconds: int | None = None,
        task: str = "",
        game_id: str = "",
    ) -> str:
        """A reward in a state, its stock taken where it holds some; `task` is the state of its task ("": none)."""
        reward_id, now, database = ids.make("reward"), datetime.now(UTC), self.engine.database
        of = {"tenant_id": self.tenant_id, "prize_id": prize_id, "campaign_id": self.campaign_id}
        of |= {"reward_id": reward_id, "player_id": player_id}
        more = {"game_id": game_id, "name": "Mug", "type": "voucher", "value": 5, "quantity": quantity}
        more |= {"status": status} | ({f"{status}_at": now} if status in ("claimed", "fulfilled") else {})
        if expires_in_seconds is not None:
            more["expires_at"] = now + timedelta(seconds=expires_in_seconds)
        await insert(database, "rewards", **of, **more)
        await database.execute(
            "UPDATE stock SET awarded = awarded + $3, remaining = CASE WHEN total = 0 THEN 0 ELSE remaining - $3 END"
            " WHERE tenant_id = $1 AND prize_id = $2",
            *(self.tenant_id, prize_id, 0 if status in ("expired", "failed", "revoked") else quantity),
        )
        if task:
            query = "SELECT channel FROM prizes WHERE tenant_id = $1 AND prize_id = $2"
            channel = await database.fetchval(query, self.tenant_id, prize_id)
            await insert(database, "tasks", **of, task_id=ids.make("task"), channel=channel, status=task)
        return reward_id

    async def row(self, reward_id: str) -> Any:
        return await self.engine.database.fetchrow(
            "SELECT r.*, t.status AS task, (SELECT count(*) FROM codes AS c WHERE c.tenant_id = $1 AND"
            " c.reward_id = $2) AS codes FROM rewards AS r LEFT JOIN tasks AS t USING (tenant_id, reward_id)"
            " WHERE r.tenant_id = $1 AND r.reward_id = $2",
            *(self.tenant_id, reward_id),
        )

    async def stock(self, prize_id: str) -> tuple[int, int, int]:
        """(total, remaining, awarded)"""
        query = "SELECT total, remaining, awarded FROM stock WHERE tenant_id = $1 AND prize_id = $2"
        row = await self.engine.database.fetchrow(query, self.tenant_id, prize_id)
        return tuple(row)  # type: ignore[return-value]


async def move(core: Core, name: str, reward_id: str, **asked: str) -> m.Reward:
    operation = BY_NAME[name]
    request = operation.request(scope=m.Scope(tenant_id="tenant_test"), id=reward_id, **asked)
    return cast(m.Reward, (await core.call(operation, request)).reward)


async def claim(core: Core, reward_id: str, player_id: str = "player_ann", key: str = "") -> m.Reward:
    return await move(core, "ClaimReward", reward_id, player_id=player_id, idempotency_key=key)


async def fulfill(core: Core, reward_id: str) -> m.Reward:
    return await move(core, "FulfillReward", reward_id, note="by hand")


async def revoke(core: Core, reward_id: str) -> m.Reward:
    return await move(core, "RevokeReward", reward_id, reason="a cheat")


async def refusal(awaitable: Any) -> Fault:
    try:
        await awaitable
    except Fault as fault:
        return fault
    raise AssertionError("it was not refused")
