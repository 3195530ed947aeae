"""A campaign with prizes and games of every shape, made over the admin edge and played over the consumer edge."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from runtime import messages as m
from runtime.operations import BY_NAME
from runtime.stores.database import Database
from tests.support import invariants
from tests.support.leaderboards import make_board
from tests.support.quests import open_quest
from tests.support.resources import make_campaign, make_prize
from tests.support.stack import Answer, Stack

WHEEL = {"type": "spin_wheel", "reward_handler": "probability"}
EGGS = {"type": "egg_catcher", "reward_handler": "score_to_tier"}
GIFTS = {"type": "gift_catcher", "seed_generator": "drop_sequence"}
GIFTS |= {"reward_handler": "collect_items", "validator": "drop_plan"}
TIMED = {"verify_timing": True}
"""Rules under which a game's clock decides."""
COLLECTION = {"type": "collection", "reward_handler": "lucky_item"}
COINS = {"items": [{"item": "coin", "weight": 1, "quantity": 2, "slot_index": 3}]}
"""Every play credits 2 coins."""


@dataclass(frozen=True)
class World:
    stack: Stack
    campaign_id: str

    @property
    def database(self) -> Database:
        return self.stack.database

    async def prize(self, *, total: int = 0, codes: Iterable[str] = (), **fields: Any) -> str:
        pool = list(codes)
        if pool:
            fields.setdefault("fulfillment", {"channel": "voucher_code"})
        prize_id = await make_prize(self.stack, stock={"total": total}, **fields)
        if pool:
            answer = await self.stack.admin("POST", f"/admin/prizes/{prize_id}/codes", {"codes": pool})
            assert answer.data["added"] == len(pool)
        return prize_id

    async def game(self, shape: dict[str, Any], handler_config: dict[str, Any], **fields: Any) -> str:
        body = {"name": "Game", "campaign_id": self.campaign_id, "status": "active", **shape, **fields}
        answer = await self.stack.admin("POST", "/admin/games", {**body, "handler_config": handler_config})
        return str(answer.data["id"])

    async def wheel(self, *prize_ids: str, **fields: Any) -> str:
        """A wheel of equally likely prizes, on which no play loses; without prizes every play does."""
        prizes = [{"prize_id": prize_id, "probability": 1 / len(prize_ids)} for prize_id in prize_ids]
        return await self.game(WHEEL, {"prizes": prizes}, **fields)

    async def start(self, game_id: str, player: str = "ann", **headers: str) -> Answer:
        return await self.stack.consumer("POST", f"/games/{game_id}/start", {}, player=player, headers=headers)

    async def session(self, game_id: str, player: str = "ann") -> str:
        return str((await self.start(game_id, player)).data["session_id"])

    async def play(
        self,
        game_id: str,
        session_id: str,
        player: str = "ann",
        *,
        payload: Any = None,
        key: str = "",
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        body = {"session_id": session_id, "payload": {} if payload is None else payload, **more}
        return await self.stack.consumer(
            "POST", f"/games/{game_id}/play", body, player=player, key=key, headers=headers
        )

    async def round(self, game_id: str, player: str = "ann", **more: Any) -> Answer:
        return await self.play(game_id, await self.session(game_id, player), player, **more)

    async def eligibility(self, game_id: str, player: str = "ann") -> dict[str, Any]:
        return dict((await self.stack.consumer("GET", f"/games/{game_id}/eligibility", player=player)).data)

    async def redeem(self, game_id: str, milestone_id: str, player: str = "ann", key: str = "") -> Answer:
        body = {"milestone_id": milestone_id}
        return await self.stack.consumer("POST", f"/games/{game_id}/redeem", body, player=player, key=key)

    async def milestones(self, game_id: str, player: str = "ann") -> list[dict[str, Any]]:
        return list((await self.stack.consumer("GET", f"/games/{game_id}/milestones", player=player)).data["items"])

    async def history(self, game_id: str, player: str = "ann", **query: Any) -> dict[str, Any]:
        return dict((await self.stack.consumer("GET", f"/games/{game_id}/history/me", player=player, **query)).data)

    async def quest(self, **fields: Any) -> str:
        return await open_quest(self.stack, self.campaign_id, **fields)

    async def board(self, **fields: Any) -> str:
        return str((await make_board(self.stack, self.campaign_id, **{"metric": "plays", **fields}))["id"])

    async def turns(self, player: str, amount: int) -> None:
        quest_id = await self.quest(name="Q", turns=amount)
        answer = await self.stack.consumer("POST", f"/quests/{quest_id}/complete", {}, player=player)
        assert answer.data["turns_granted"] == amount

    async def replay(self, play_id: str) -> Any:
        operation = BY_NAME["ReplayPlay"]
        request = operation.request(scope=m.Scope(tenant_id=self.stack.tenant_id), id=play_id)
        return await self.stack.process.core.call(operation, request)

    async def count(self, table: str) -> int:
        return int(await self.database.fetchval(f"SELECT count(*) FROM {table}"))

    async def plays(self) -> list[str]:
        rows = await self.database.fetch(
            "SELECT p.play_id FROM plays AS p JOIN games AS g USING (tenant_id, game_id)"
            " WHERE p.tenant_id = $1 AND g.campaign_id = $2 ORDER BY p.play_id",
            *(self.stack.tenant_id, self.campaign_id),
        )
        return [row["play_id"] for row in rows]

    async def stock(self, prize_id: str) -> tuple[int, int]:
        """(remaining, awarded)"""
        query = "SELECT remaining, awarded FROM stock WHERE tenant_id = $1 AND prize_id = $2"
        row = await self.database.fetchrow(query, self.stack.tenant_id, prize_id)
        return row["remaining"], row["awarded"]

    async def check(self) -> None:
        """The invariants hold, and every play replays to the same outcome."""
        await invariants.check(self.database)
        for play_id in await self.plays():
            reply = await self.replay(play_id)
            assert reply.matches, (play_id, reply.replayed)


class Launched(World):
    """A world whose games are there before anybody watches them: else DUAL_ODDS would have each of them wait."""

    async def game(self, shape: dict[str, Any], handler_config: dict[str, Any], **fields: Any) -> str:
        engine = self.stack.engine
        watched, engine.settings = engine.settings, replace(engine.settings, dual_odds=False)
        try:
            return await super().game(shape, handler_config, **fields)
        finally:
            engine.settings = watched


@asynccontextmanager
async def new_world(stack: Stack, **campaign: Any) -> AsyncIterator[World]:
    world = World(stack, (await make_campaign(stack, **campaign))["id"])
    yield world
    await world.check()


def prize_ids(answer: Answer) -> list[str]:
    return [reward["prize_id"] for reward in answer.data["rewards"]]
