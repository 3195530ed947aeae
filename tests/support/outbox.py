from datetime import timedelta
from typing import Any, Final

import sql
from runtime.stores.database import Database
from tests.support.statements import insert

SQL: Final = sql.load("fulfillment")
SCHEDULE: Final = [5.0, 300.0]
"""Pauses: a task is tried three times."""


class Outbox:
    def __init__(self, database: Database) -> None:
        self.database = database

    async def task(
        self,
        name: str,
        status: str = "pending",
        *,
        reward: str = "fulfilling",
        due: float | None = None,
        lease: float | None = None,
        owner: str = "",
        attempts: int = 1,
        channel: str = "webhook",
        prize: str = "prize",
    ) -> str:
        """A task; `due` and `lease` are seconds from now."""
        now = await self.database.fetchval("SELECT now()")
        due_at, leased = (None if wait is None else now + timedelta(seconds=wait) for wait in (due, lease))
        its = {"tenant_id": "t", "reward_id": name, "prize_id": prize, "campaign_id": "camp", "player_id": "ann"}
        of = {"status": status, "channel": channel, "attempts": attempts, "lease_owner": owner, "lease_until": leased}
        before = {"last_error": "as before", "external_id": "ext", "duration_ms": 3, "answer": "before"}
        await insert(self.database, "rewards", **its, name="Mug", type="goods", value=5, quantity=1, status=reward)
        await insert(self.database, "tasks", **its, **of, **before, task_id=name, next_attempt_at=due_at)
        return name

    async def state(self, name: str) -> Any:
        return await self.database.fetchrow(
            "SELECT t.*, r.status AS reward, r.fulfilled_at, extract(epoch FROM t.next_attempt_at - now()) AS due_in,"
            " extract(epoch FROM t.lease_until - now()) AS leased_for FROM tasks AS t"
            " JOIN rewards AS r USING (tenant_id, reward_id) WHERE t.tenant_id = 't' AND t.task_id = $1",
            name,
        )

    async def states(self) -> dict[str, tuple[str, str]]:
        rows = await self.database.fetch(
            "SELECT t.task_id, t.status, r.status AS reward FROM tasks AS t JOIN rewards AS r"
            " USING (tenant_id, reward_id) WHERE t.tenant_id = 't' AND t.player_id = 'ann'"
        )
        return {row["task_id"]: (row["status"], row["reward"]) for row in rows}

    async def lease(self, *names: str, rooms: dict[str, int] | None = None) -> list[str]:
        rows = await self.database.fetch(
            SQL["lease"], "t", 60.0, list(names), "me", list(rooms or {}), list((rooms or {}).values())
        )
        return sorted(row["task_id"] for row in rows)

    async def record(
        self,
        name: str,
        status: str,
        *,
        external: str = "",
        delay: float = 0,
        attempt: tuple[str, str, int] = ("went wrong", "no", 7),
    ) -> Any:
        """attempt: the error, how the answer began, the milliseconds."""
        error, answer, took = attempt
        rows = await self.database.fetch(
            SQL["record"], "t", [name], ["me"], [status], [error], [external], [delay], [answer], [took]
        )
        return rows[0] if rows else None

    async def record_all(self, *names: str) -> list[str]:
        many = [[value] * len(names) for value in ("me", "delivered", "", "")]
        unsaid = ([0.0] * len(names), [""] * len(names), [0] * len(names))
        rows = await self.database.fetch(SQL["record"], "t", list(names), *many, *unsaid)
        return sorted(row["task_id"] for row in rows)

    async def complete(self, name: str, said: str, callback: str = "msg", *, external_id: str = "new ext") -> Any:
        return await self.database.fetchrow(SQL["complete"], "t", name, said, external_id, "no", callback, SCHEDULE)
