"""Merging: when a guest logs in, everything it has moves to the player, in one transaction.

The guest's record never becomes the player's: its contents move to the player's record, and the guest and its tokens
end in the same transaction. Otherwise an attacker who planted a guest's token in a victim's browser would hold a
token of the victim's new account (session fixation).

A decision for a guest commits under a share lock on the guest's row (`Changes.require_guest`, `lock_owner`); a merge
locks that row exclusively. So the decision either commits first and moves with the merge, or finds the guest merged
and is made again for the player. Nothing remains to be moved later.

The player keeps playing during a merge. So the surplus is read without locks, and compared again once its rows are
locked or moved. A difference, or a unique violation by a concurrent grant, rolls the merge back, and it retries.

One player's caps hold over both:

- Play counts add up. A player over a game's cap cannot play it any more.
- Of a prize with max_per_user, the player keeps its own rewards, and as many of the guest's as the cap leaves, the
  best first: delivered, in delivery, oldest. If the cap was lowered since, the larger of both awards is the cap.
- A player is granted a rung once, and a quest's turns once a period.

The surplus stays with the guest's record, where it cannot be claimed. Delivered rewards stay delivered. Others are
revoked: stock and code return, and the points and turns that they gave or cost are moved back (REVERSAL). Spent points
and turns cannot be moved back, and their price is not refunded. So several guests win no more than one player, and a
person who was both by accident loses nothing that one player could have.

Two kinds of winnings stay with the player. What was bought with surplus points: the guest would have it without a
login, too. And winnings of plays that are within each one's play cap (max_plays_per_user, max_plays_per_day), but over
it in sum: the ledger does not record which play a point came from, so every purchase would have to be reversed. So a
play cap limits guests only by how many an address may create, RATE_GUEST_BURST and then RATE_GUEST_PER_SECOND
(docs/explanation/security.md).

Plays record the surplus that they won, so that no quest counts it for the player (`quest_progress`). A quest that
either of them completed stays completed, since it was within that one's caps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import asyncpg

import sql
from runtime import ids
from runtime.actors.engine import Engine
from runtime.actors.game.state import POINTS, TURNS
from runtime.actors.rewards import HOLDING, MOVES, give_back
from runtime.errors import Fault, Status
from runtime.operations import audit
from runtime.operations.campaigns import analytics
from runtime.operations.players import revocations

_SQL: Final = sql.load("merging")
_REWARDS: Final = sql.load("rewards")
_MOVE: Final = sql.load("wallet")["move"]

ATTEMPTS: Final = 3
"""A play or delivery may change rows that the merge decided by; the next attempt reads them again."""


async def merge(
    engine: Engine, tenant_id: str, guest_id: str, player_id: str, *, audit_facts: Mapping[str, Any] | None = None
) -> bool:
    """Moves everything a guest has to the player. Returns whether it did.

    Does nothing if guest_id is not a guest or is already merged, or if the player is a guest itself: registered
    players are never merged into one another. audit_facts: for the audit log, where staff does the merge.
    UNAVAILABLE if every attempt met a concurrent change; nothing has moved then.
    """
    if guest_id == player_id:
        return False

    async def work(connection: asyncpg.Connection) -> bool:
        merged = await _merge(connection, engine, _Pair(tenant_id, guest_id, player_id))
        if merged and audit_facts is not None:
            after = {"guest_id": guest_id, **audit_facts}
            await audit.record(connection, tenant_id, "player.merge", player_id, after=after)
        return merged

    for attempt in range(ATTEMPTS):
        try:
            return await engine.database.transaction(work)
        except (asyncpg.UniqueViolationError, _Changed) as error:
            if attempt == ATTEMPTS - 1:
                raise _overloaded() from error
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
            raise _overloaded() from error
    raise AssertionError("the last attempt returns or raises")


def _overloaded() -> Fault:
    message = "the guest or the player is still playing; try again"
    return Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=1)


async def lock_owner(connection: asyncpg.Connection, tenant_id: str, player_id: str) -> str:
    """The current owner of what belongs to this player: for a merged guest, the player it was merged into.

    Locks a guest against merging until the transaction ends. Must be the transaction's first lock after the tenant's.
    """
    return str(await connection.fetchval(_SQL["lock_target"], tenant_id, player_id) or player_id)


_MOVES: Final = (
    *("move_grants", "move_completions", "move_quest_events", "move_redemptions"),
    *("lock_entry_counts", "end_entries", "move_entries"),
    *("move_adjustments", "move_standings"),
    "copy_disqualifications",
)
"""In the lock order of sql/locks.py."""


class _Pair(NamedTuple):
    tenant_id: str
    guest_id: str
    player_id: str


async def _merge(connection: asyncpg.Connection, engine: Engine, pair: _Pair) -> bool:
    """Merges in the lock order of sql/locks.py: each step locks what it moves. False: there is no guest to merge."""
    if not await _end_guest(connection, engine, pair):
        return False
    surplus = await _read_surplus(connection, pair)
    await _move_plays(connection, pair, surplus)
    returned = await _move_turns(connection, pair, surplus)
    await _move_wallets(connection, pair)
    to_revoke = await _reverse_movements(connection, pair, surplus, returned)
    await _move_prizes(connection, pair, surplus, to_revoke)
    if surplus.units:
        after = {"guest_id": pair.guest_id, "rewards": surplus.reward_ids, "prizes": dict(surplus.units)}
        await audit.record(connection, pair.tenant_id, "player.merge_surplus", pair.player_id, after=after)
    return True


async def _end_guest(connection: asyncpg.Connection, engine: Engine, pair: _Pair) -> bool:
    """Marks the guest as merged and revokes its tokens. False: there is no guest to merge."""
    locked = {row["player_id"]: row for row in await connection.fetch(_SQL["lock_players"], *pair)}
    guest, player = locked.get(pair.guest_id), locked.get(pair.player_id)
    if guest is None or guest["auth_method"] != "guest" or guest["merged_into"] is not None:
        return False
    if player is not None and player["auth_method"] == "guest":
        return False  # It may be merged itself, and this guest would then point at an ended record.
    if guest["status"] == "suspended":
        return False  # Otherwise a login would free its winnings from the suspension.
    if await connection.fetchval(_SQL["has_contacts"], pair.tenant_id, pair.guest_id):
        return False
    await connection.execute(_SQL["end_guest"], *pair)
    await revocations.revoke_player(connection, engine, pair.tenant_id, pair.guest_id)
    await connection.execute(_SQL["lock_forms"], *pair)
    await connection.execute(_SQL["move_referrals"], *pair)
    await connection.execute(_SQL["lock_boards"], pair.tenant_id)
    await analytics.merge_players(connection, *pair)
    return True


async def _move_plays(connection: asyncpg.Connection, pair: _Pair, surplus: _Surplus) -> None:
    await connection.execute(_SQL["lock_plays"], pair.tenant_id, pair.guest_id)
    games = [row["game_id"] for row in await connection.fetch(_SQL["move_plays"], *pair)]
    if by_play := surplus.by_play:
        wins, points = zip(*by_play.values(), strict=True)
        await connection.execute(_SQL["record_surplus"], pair.tenant_id, list(by_play), wins, points)
    await connection.execute(_SQL["lock_play_counts"], *pair, games)
    await connection.execute(_SQL["move_play_counts"], *pair, games)


async def _move_turns(connection: asyncpg.Connection, pair: _Pair, surplus: _Surplus) -> frozenset[str]:
    """Moves the guest's turns, except those of quests that both completed and those of surplus rewards.

    Takes a surplus reward's turns back from the guest. If some are spent, the rest stay with the guest. Returns the
    rewards whose turns it took.
    """
    await connection.execute(_SQL["lock_turns"], *pair)
    gave = [row["reward_id"] for row in surplus.rewards if _gave_turns(row)]
    returned = set()
    for reward_id in gave:
        arguments = (pair.tenant_id, pair.guest_id, reward_id, ids.make("turn"))
        if await connection.fetchval(_REWARDS["take_back_turns"], *arguments) is not None:
            returned.add(reward_id)
    spent = [reward_id for reward_id in gave if reward_id not in returned]
    quests = ([row["quest_id"] for row in surplus.quests], [row["period"] for row in surplus.quests])
    remaining = await connection.fetch(_SQL["turns"], pair.tenant_id, pair.guest_id, *quests, spent)
    moved = [row for row in remaining if row["balance"] > row["kept"]]
    if moved:
        await connection.execute(
            _SQL["move_turns"],
            *pair,
            [row["campaign_id"] for row in moved],
            [row["balance"] - row["kept"] for row in moved],
            [ids.make("entry") for _ in moved],
            [ids.make("entry") for _ in moved],
            [row["kept"] for row in moved],
        )
    return frozenset(returned)


async def _move_wallets(connection: asyncpg.Connection, pair: _Pair) -> None:
    for name in ("lock_balances", "move_balances", "move_ledger"):
        await connection.execute(_SQL[name], *pair)


async def _move_prizes(
    connection: asyncpg.Connection, pair: _Pair, surplus: _Surplus, to_revoke: Mapping[str, str]
) -> None:
    """Moves everything won except the surplus, and revokes the surplus rewards in `to_revoke`.

    Raises _Changed if the surplus has changed by the time its rows are locked or moved.
    """
    tenant_id, guest_id, _ = pair
    await connection.execute(_SQL["lock_prize_counts"], *pair)
    _require_unchanged(surplus.counts, await connection.fetch(_SQL["prize_counts"], *pair))
    await connection.execute(_SQL["move_prize_counts"], *pair, list(surplus.units), list(surplus.units.values()))
    await connection.execute(_REWARDS["lock_stock"], tenant_id, [row["prize_id"] for row in surplus.rewards])
    await connection.execute(_REWARDS["lock_codes"], tenant_id, list(to_revoke))
    for name in _MOVES:
        await connection.execute(_SQL[name], *pair)
    _require_unchanged(surplus.rungs, await connection.fetch(_SQL["grants"], tenant_id, guest_id))
    _require_unchanged(surplus.quests, await connection.fetch(_SQL["completions"], tenant_id, guest_id))
    await connection.execute(_SQL["lock_rewards"], tenant_id, guest_id)
    await connection.execute(_SQL["lock_tasks"], tenant_id, guest_id)
    await _revoke(connection, tenant_id, to_revoke)
    await connection.execute(_SQL["move_rewards"], *pair, surplus.reward_ids)


# -- surplus ---------------------------------------------------------------------------------


class _Changed(Exception):
    """Rows that determine the surplus changed before the merge locked them: the merge must retry."""


@dataclass(frozen=True, slots=True)
class _Surplus:
    """What the guest has beyond one player's caps, and the rows that determine it.

    counts: awards to both of each capped prize that the guest has won. rungs, quests: granted to both, and completed
    by both.
    """

    counts: Sequence[Any]
    rungs: Sequence[Any]
    quests: Sequence[Any]
    rewards: Sequence[Any]
    points: Sequence[Any]

    @property
    def reward_ids(self) -> list[str]:
        return [row["reward_id"] for row in self.rewards]

    @property
    def points_of_wallets(self) -> Counter[tuple[str, str]]:
        points: Counter[tuple[str, str]] = Counter()
        for row in self.points:
            points[row["scope_key"], row["currency"]] += row["points"]
        return points

    @property
    def by_play(self) -> dict[str, tuple[int, int]]:
        """The surplus wins and points of each play."""
        wins = Counter(row["play_id"] for row in self.rewards if row["play_id"])
        points: Counter[str] = Counter()
        for row in self.points:
            wins[row["play_id"]] += row["wins"]
            points[row["play_id"]] += row["points"]
        return {play_id: (wins[play_id], points[play_id]) for play_id in sorted(wins)}

    @property
    def units(self) -> Counter[str]:
        units: Counter[str] = Counter()
        for row in self.rewards:
            units[row["prize_id"]] += row["quantity"]
        for row in self.points:
            units[row["prize_id"]] += row["units"]
        return units


async def _read_surplus(connection: asyncpg.Connection, pair: _Pair) -> _Surplus:
    # The rows that determine the surplus are read before the surplus itself. Otherwise neither comparison would notice
    # a change in between.
    names = ("prize_counts", "granted_to_both", "completed_by_both", "limited_rewards")
    counts, rungs, quests, limited = [await connection.fetch(_SQL[name], *pair) for name in names]
    rewards = without_room(limited)
    points = await connection.fetch(_SQL["surplus_points"], *pair, [row["reward_id"] for row in rewards])
    return _Surplus(counts, rungs, quests, rewards, points)


def without_room(limited: Sequence[Any]) -> list[Any]:
    """The rewards that exceed the player's room for their prizes. One that is too large leaves its room to the next."""
    kept: Counter[str] = Counter()
    surplus = []
    for row in limited:
        if kept[row["prize_id"]] + row["quantity"] > row["room"]:
            surplus.append(row)
        else:
            kept[row["prize_id"]] += row["quantity"]
    return surplus


def _require_unchanged(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Raises _Changed if the player meanwhile won, redeemed or completed something that the guest has too."""
    if {tuple(row) for row in before} != {tuple(row) for row in after}:
        raise _Changed


def _gave_turns(reward: Any) -> bool:
    return (reward["type"], reward["status"]) == (TURNS, "fulfilled")


def _is_revoked(reward: Any, returned: frozenset[str]) -> bool:
    """Whether to revoke a surplus reward: if undelivered, or of points, or of turns that were `returned`."""
    if _gave_turns(reward):
        return reward["reward_id"] in returned
    return reward["status"] in MOVES["revoke"].before and (reward["status"] != "fulfilled" or reward["type"] == POINTS)


async def _reverse_movements(
    connection: asyncpg.Connection, pair: _Pair, surplus: _Surplus, returned: frozenset[str]
) -> dict[str, str]:
    """Reverses the surplus rewards' wallet movements, in the player's wallet, where the guest's balances are by now.

    Refunds prices first, so that refunded points can be taken. Takes as many points as there are, and refunds the price
    of points in proportion: otherwise a guest who spent the points would get their price back, too. Returns the
    {reward: status} to revoke. A reward whose points were not all there keeps its status.
    """
    tenant_id, guest_id, player_id = pair
    to_revoke = {row["reward_id"]: row["status"] for row in surplus.rewards if _is_revoked(row, returned)}

    async def credit(row: Any, amount: int) -> None:
        entry = (ids.make("entry"), "reversal", row["reward_id"], row["reward_id"])
        if amount > 0:
            await connection.execute(_MOVE, tenant_id, player_id, row["scope_key"], row["currency"], amount, *entry)

    async def debit(wallet: tuple[str, str], amount: int, reward_id: str) -> int:
        entry = (ids.make("entry"), reward_id or guest_id, reward_id)
        return await connection.fetchval(_SQL["take_back"], tenant_id, player_id, *wallet, amount, *entry) or 0

    moved = await connection.fetch(_SQL["movements"], tenant_id, player_id, list(to_revoke))
    credited = {row["reward_id"]: row for row in moved if row["amount"] > 0}
    prices = [row for row in moved if row["amount"] < 0]
    for price in prices:
        if price["reward_id"] not in credited:
            await credit(price, -price["amount"])
    for wallet, points in surplus.points_of_wallets.items():
        await debit(wallet, points, "")
    for reward_id, row in credited.items():
        taken = await debit((row["scope_key"], row["currency"]), row["amount"], reward_id)
        for price in prices:
            if price["reward_id"] == reward_id:
                await credit(price, -price["amount"] * taken // row["amount"])
        if taken < row["amount"]:
            del to_revoke[reward_id]
    return to_revoke


async def _revoke(connection: asyncpg.Connection, tenant_id: str, to_revoke: Mapping[str, str]) -> None:
    """Revokes surplus rewards. They, their stock and their codes are locked already."""
    found = await connection.fetch(_SQL["statuses"], tenant_id, list(to_revoke))
    if {row["reward_id"]: row["status"] for row in found} != to_revoke:
        raise _Changed
    await connection.execute(_SQL["revoke_surplus"], tenant_id, list(to_revoke))
    await give_back(connection, tenant_id, [about for about, status in to_revoke.items() if status in HOLDING])
