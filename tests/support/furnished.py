"""A tenant with two of everything, for tests that loop over all transactions."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runtime import ids
from runtime.actors.changes import Changes, PlayCount
from runtime.actors.committer import Committer
from runtime.operations.campaigns import analytics
from runtime.streams.outbox import Leased
from tests.support.leaderboards import make_board
from tests.support.quests import open_quest
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.rewards import Shelf
from tests.support.stack import Stack, make_tenant

PLAYERS = ("player_a", "player_b")


@dataclass
class Scene:
    stack: Stack
    shelf: Shelf
    campaign_id: str
    game_id: str
    prizes: list[str] = field(default_factory=list)
    rewards: list[str] = field(default_factory=list)
    quest_id: str = ""
    board_id: str = ""
    logins: int = 0

    @property
    def tenant_id(self) -> str:
        return self.stack.tenant_id

    async def fill(self) -> "Scene":
        database = self.stack.database
        for player_id in PLAYERS:
            await self.stack.core("GET", "/players/me", player_id=player_id)
        for _ in range(2):
            prize_id = await make_prize(self.stack, campaign_id=self.campaign_id, stock={"total": 100})
            await self.shelf.codes(prize_id, *(f"{prize_id}-{n}" for n in range(5)))
            self.prizes.append(prize_id)
        self.quest_id = await open_quest(self.stack, self.campaign_id, turns=5, type="daily")
        ranks = [{"from_rank": n, "to_rank": n, "prize_id": prize_id} for n, prize_id in enumerate(self.prizes, 1)]
        self.board_id = (await make_board(self.stack, self.campaign_id, metric="plays", prizes=ranks))["id"]
        for player_id in PLAYERS:
            await self.stack.consumer("POST", f"/quests/{self.quest_id}/complete", {}, player=player_id)
            for _ in range(2):
                await self.adjust(player_id)
            for prize_id in self.prizes:
                self.rewards.append(
                    await self.shelf.reward(prize_id, player_id, status="fulfilling", task="delivering")
                )
        for reward_id in self.rewards:
            await database.execute(
                "UPDATE codes SET reward_id = $1 WHERE code_id = (SELECT c.code_id FROM codes AS c JOIN rewards AS r"
                " ON r.reward_id = $1 AND r.prize_id = c.prize_id WHERE c.reward_id IS NULL LIMIT 1)",
                reward_id,
            )
        await self.commit()
        await analytics.count(self.stack.engine, self.tenant_id, self.campaign_id)
        return self

    def changes(self) -> Changes:
        changes, today = Changes(), datetime.now(UTC).date()
        for player_id in reversed(PLAYERS):
            changes.count_play(PlayCount(self.game_id, player_id, today, 1, cap=0, day_cap=0))
            for prize_id in reversed(self.prizes):
                changes.take_prize(prize_id, player_id, 1, today, stocked=True, per_user=0, per_day=0)
        return changes

    async def commit(self) -> None:
        changes, database = self.changes(), self.stack.database
        for player_id in reversed(PLAYERS):
            for currency in ("leaf", "coin"):
                query = "SELECT balance FROM balances WHERE tenant_id = $1 AND player_id = $2 AND currency = $3"
                before = await database.fetchval(query, self.tenant_id, player_id, currency)
                of = (ids.make("entry"), player_id, self.campaign_id, currency)
                changes.move_balance(*of, before, 1, "play_reward", "play")
            turns = await database.fetchval(
                "SELECT balance FROM turn_balances WHERE tenant_id = $1 AND player_id = $2", self.tenant_id, player_id
            )
            changes.move_turns(ids.make("turn"), player_id, self.campaign_id, turns, -1, "play", "play")
        await Committer(database, mailbox_limit=1, batch_limit=1, idle_seconds=0.01).commit(self.tenant_id, changes)

    async def adjust(self, player_id: str) -> Any:
        body = {"player_id": player_id, "scope_key": self.campaign_id, "currency": "coin", "amount": 5}
        return (await self.stack.admin("POST", "/admin/wallet/adjustments", {**body, "reference_id": "r"})).data

    async def log_in(self, player_id: str) -> None:
        """Begins a login, whose id is the same in every scene that is alike."""
        self.logins += 1
        login = {"player_id": player_id, "login_id": f"login_{self.logins:026d}"}
        assert (await self.stack.core("POST", "/logins", login)).http == 200

    async def admin(self, verb: str, path: str, body: Any = None) -> Any:
        return (await self.stack.admin(verb, f"/admin/{path}", body)).data

    async def leased(self) -> list[Leased]:
        rows = await self.stack.database.fetch(
            "UPDATE tasks SET lease_owner = 'lease_me', lease_until = now() + interval '1 hour' WHERE tenant_id = $1"
            " RETURNING task_id, attempts, reward_id, prize_id",
            self.tenant_id,
        )
        return [Leased(self.tenant_id, "lease_me", row) for row in sorted(rows, key=lambda row: str(row["task_id"]))]

    async def set(self, reward: str, task: str) -> None:
        await self.stack.database.execute("UPDATE rewards SET status = $2 WHERE tenant_id = $1", self.tenant_id, reward)
        await self.stack.database.execute("UPDATE tasks SET status = $2 WHERE tenant_id = $1", self.tenant_id, task)

    async def task_id(self) -> str:
        query = "SELECT max(task_id) FROM tasks WHERE tenant_id = $1"
        return str(await self.stack.database.fetchval(query, self.tenant_id))


async def new_scene(stack: Stack) -> Scene:
    stack = await make_tenant(stack, ids.make("tenant"))
    campaign = await make_campaign(stack)
    game = await make_game(stack, campaign["id"], await make_prize(stack, campaign_id=campaign["id"]))
    shelf = Shelf(stack.engine, stack.tenant_id, campaign["id"])
    return await Scene(stack, shelf, campaign["id"], game["id"]).fill()
