import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import date
from typing import Any

from runtime import ids
from runtime.actors.changes import Changes, NewGrant, NewPlay, NewReward, NewTask, PlayCount, StandingAward
from runtime.actors.committer import Committer
from runtime.stores.database import Database, Guarded

TENANT = "tenant_test"
TODAY = date(2026, 11, 21)


@asynccontextmanager
async def filled(
    database_url: str, *, size: int = 20, acquire_seconds: float = 10, statement_seconds: float = 10
) -> AsyncIterator[Database]:
    database = Database(database_url, size=size, acquire_seconds=acquire_seconds, statement_seconds=statement_seconds)
    await database.start()
    await database.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Test')", TENANT)
    await stocked(database, "prize_a", 10)
    await stocked(database, "prize_b", 10)
    await stocked(database, "prize_free", 0)
    await database.execute(
        "INSERT INTO balances (tenant_id, player_id, scope_key, currency, balance)"
        " VALUES ($1, 'ann', 'camp', 'coin', 5)",
        TENANT,
    )
    change = "INSERT INTO turn_balances (tenant_id, player_id, campaign_id, balance) VALUES ($1, 'ann', 'camp', 2)"
    await database.execute(change, TENANT)
    await database.execute(
        "INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash)"
        " SELECT $1, 'prize_a', 'code_' || n, '1', '', n::text::bytea FROM generate_series(1, 3) AS n",
        TENANT,
    )
    await database.execute(
        "INSERT INTO leaderboard_standings (tenant_id, board_id, rank, player_id, score, achieved_at, reason)"
        " VALUES ($1, 'board', 1, 'ann', 9, now(), 'PENDING')",
        TENANT,
    )
    await database.execute(
        "INSERT INTO players (tenant_id, player_id, auth_method) VALUES ($1, 'gus', 'guest')", TENANT
    )
    entry = (
        "INSERT INTO entries (tenant_id, campaign_id, player_id, entry_id, revision) VALUES ($1, 'camp', 'ann', 'e', 2)"
    )
    await database.execute(entry, TENANT)
    yield database
    await database.close()


async def stocked(database: Database, prize_id: str, total: int) -> None:
    await database.execute("INSERT INTO stock VALUES ($1, $2, $3::bigint, $3::bigint, 0)", TENANT, prize_id, total)


async def commit(database: Database, changes: Changes) -> dict[str, int | None]:
    """What is left of each prize, as a committer of its own (so a statement of its own) has it."""
    return await Committer(database, mailbox_limit=1, batch_limit=1, idle_seconds=0.01).commit(TENANT, changes)


def a_play(play_id: str = "", player_id: str = "ann", key: str | None = None) -> NewPlay:
    play_id = play_id or ids.make("play")
    outcome = b'{"rewards":[]}'
    return NewPlay(play_id, "game", player_id, "sess_" + play_id, 1, b"seed", "", {}, outcome, 0, 0, 0, key, None)


def a_reward(reward_id: str, prize_id: str = "prize_a", player_id: str = "ann") -> NewReward:
    return NewReward(reward_id, player_id, prize_id, "camp", "game", "", "", "Mug", "goods", 5.0, 1, "won", 0)


def whole(changes: Changes | None = None) -> Changes:
    changes = changes or Changes(catalog_version=1)
    changes.require_guest("gus")
    changes.require_entry("ann", "camp", 2)
    changes.begin_history("game")
    changes.plays.append(a_play())
    changes.count_play(PlayCount("game", "ann", TODAY, 1, cap=5, day_cap=5))
    changes.move_turns(ids.make("turn"), "ann", "camp", 2, -1, "play", "play")
    changes.move_balance(ids.make("entry"), "ann", "camp", "coin", 5, 2, "play_reward", "play")
    changes.move_balance(ids.make("entry"), "ann", "camp", "leaf", None, 3, "play_reward", "play")
    changes.take_prize("prize_a", "ann", 2, TODAY, stocked=True, per_user=2, per_day=2)
    changes.take_prize("prize_free", "ann", 1, TODAY, stocked=True, per_user=0, per_day=0)
    changes.rewards += [a_reward("reward_1"), a_reward("reward_2")]
    changes.take_code("reward_1", "prize_a")
    changes.take_code("reward_2", "prize_a")
    changes.tasks.append(NewTask("task_1", "reward_1", "prize_a", "camp", "ann", "voucher_code", "delivered"))
    changes.grants.append(NewGrant("game", "ann", "rung", "reward_1", "key", b"hash", b"{}"))
    changes.awards.append(StandingAward("board", 1, "reward_2"))
    return changes


async def outcomes(*commits: Any) -> Counter[str]:
    """How often each came about: "" for a commit, or the guard that refused."""
    done = await asyncio.gather(*commits, return_exceptions=True)
    for answer in done:
        if isinstance(answer, BaseException) and not isinstance(answer, Guarded):
            raise answer
    return Counter(answer.guard if isinstance(answer, Guarded) else "" for answer in done)


def taking(prize_id: str, player_id: str, *, per_day: int = 0, per_user: int = 0) -> Changes:
    changes = Changes()
    changes.take_prize(prize_id, player_id, 1, TODAY, stocked=True, per_user=per_user, per_day=per_day)
    changes.rewards.append(a_reward(ids.make("reward"), prize_id, player_id))
    return changes
