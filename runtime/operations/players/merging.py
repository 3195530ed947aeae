"""Merging: a guest that logs in becomes the player, in one transaction.

A guest's record never becomes the player's own: what the guest has moves to the player's record, and the
guest's ends. Otherwise whoever planted a guest's token in another's browser would hold a token of the
account that is made there (session fixation). The guest's tokens end with the same transaction.

What is decided for a guest is committed with the guest's row held to share (`Changes.hold_guest`,
`hold_player`), and a merge holds it alone: so it has committed before the merge, and moves, or finds the
guest merged, and is decided again for the player. Nothing is left to be moved later.

The player plays on meanwhile. So what was surplus is looked at again when the rows that say so are held, or are
the player's, where a twin of theirs finds them: what the player got in between undoes the merge, and it begins anew.

Caps hold over both. Counts add up: a player who has played more of a game than its cap by then plays no more.
Of a prize with max_per_user the player keeps all, and of the guest's as much as the cap leaves, the best
first: delivered, on its way, oldest. A rung is one player's once, and so are a quest's turns in a period.
The rest stays with the guest's record, where nobody can claim it: what was delivered as it is; what was not
is revoked, its stock and code return, and its points, or what the guest had paid for it, are moved back
(REVERSAL), and so are the turns that it gave. Points and turns that are spent cannot be; what was paid for those stays
paid. So several guests win no more of these than one player, and who was both by accident loses nothing that one
player could have.

What points bought that are surplus and spent stays too, and where a rung gave them for nothing, so did it. It is the
guest's without any login, and the same rung of a shop is one player's once: guests gain by merging only what each of
them had, and there are as many as an address is given.

What plays won that were within the cap of each, and are beyond it together (max_plays_per_user, max_plays_per_day),
is the player's: items and points that were earned may be spent by now, and the ledger says of no coin which play it
came of, so that what was bought would have to come back with it. So a game's cap on plays bounds guests less than a
prize's max_per_user does: by how many guests an address is given, RATE_GUEST_BURST and then RATE_GUEST_PER_SECOND
(docs/explanation/security.md).

The plays that won the surplus note it, so that no quest counts it as the player's, whether it could be taken back or
not (`quest_progress`). A quest that either of them has completed stays completed, whatever it counted: that was within
the caps of who completed it, and is one player's once in its period, like a rung.
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
"""Where player or delivery did something in between that the merge goes by: the next attempt sees it."""


async def merge(
    engine: Engine, tenant_id: str, guest_id: str, player_id: str, *, noted: Mapping[str, Any] | None = None
) -> bool:
    """Moves everything a guest has to the player; nothing where it is no guest, or somebody else's. Again: nothing.
    Nor where the player is a guest: who is somebody becomes nobody else.

    Whether it did. noted: what the audit log is told, where staff does it.
    UNAVAILABLE where it lost every race; nothing has moved then.
    """
    if guest_id == player_id:
        return False

    async def work(connection: asyncpg.Connection) -> bool:
        merged = await _merge(connection, engine, _Who(tenant_id, guest_id, player_id))
        if merged and noted is not None:
            after = {"guest_id": guest_id, **noted}
            await audit.record(connection, tenant_id, "player.merge", player_id, after=after)
        return merged

    for attempt in range(ATTEMPTS):
        try:
            return await engine.database.transaction(work)
        except (asyncpg.UniqueViolationError, _Changed) as error:
            if attempt == ATTEMPTS - 1:
                raise _lost() from error
        except (asyncpg.SerializationError, asyncpg.DeadlockDetectedError) as error:
            raise _lost() from error
    raise AssertionError("the last attempt returns or raises")


def _lost() -> Fault:
    message = "guest or player is still playing; try again"
    return Fault(Status.UNAVAILABLE, "OVERLOADED", message, retry_after_seconds=1)


async def hold_player(connection: asyncpg.Connection, tenant_id: str, player_id: str) -> str:
    """Whom something is for that came for this player: a guest that has logged in is the player it became.

    A guest stays one until the transaction ends. The first lock of the transaction but for the tenant's.
    """
    return str(await connection.fetchval(_SQL["hold_guest"], tenant_id, player_id) or player_id)


_MOVES: Final = (
    *("move_grants", "move_completions", "move_quest_events", "move_adjustments", "move_standings"),
    "copy_disqualifications",
)
"""In the order of sql/locks.py."""


class _Who(NamedTuple):
    """The first arguments of nearly every statement."""

    tenant_id: str
    guest_id: str
    player_id: str


async def _merge(connection: asyncpg.Connection, engine: Engine, who: _Who) -> bool:
    """Whether there was a guest to be merged. Reads like sql/locks.py: each step locks what it moves."""
    if not await _end_guest(connection, engine, who):
        return False
    surplus = await _read_surplus(connection, who)
    await _move_plays(connection, who, surplus)
    returned = await _move_turns(connection, who, surplus)
    await _move_wallets(connection, who)
    ending = await _pay_back(connection, who, surplus, returned)
    await _move_prizes(connection, who, surplus, ending)
    if surplus.units:
        after = {"guest_id": who.guest_id, "rewards": surplus.reward_ids, "prizes": dict(surplus.units)}
        await audit.record(connection, who.tenant_id, "player.merge_surplus", who.player_id, after=after)
    return True


async def _end_guest(connection: asyncpg.Connection, engine: Engine, who: _Who) -> bool:
    """Makes the guest the player, with its logins at an end. False where there is none to be merged."""
    held = {row["player_id"]: row for row in await connection.fetch(_SQL["hold_players"], *who)}
    guest, player = held.get(who.guest_id), held.get(who.player_id)
    if guest is None or guest["auth_method"] != "guest" or guest["merged_into"] is not None:
        return False
    if player is not None and player["auth_method"] == "guest":
        return False  # It may become somebody itself, or has just now: whoever became it would be nobody.
    if guest["status"] == "suspended":
        return False  # Else a login would take what it won out of the suspension.
    if await connection.fetchval(_SQL["has_contacts"], who.tenant_id, who.guest_id):
        return False
    await connection.execute(_SQL["end_guest"], *who)
    await revocations.revoke_player(connection, engine, who.tenant_id, who.guest_id)
    await analytics.merge_players(connection, *who)
    return True


async def _move_plays(connection: asyncpg.Connection, who: _Who, surplus: _Surplus) -> None:
    games = [row["game_id"] for row in await connection.fetch(_SQL["move_plays"], *who)]
    if of_plays := surplus.of_plays:
        wins, points = zip(*of_plays.values(), strict=True)
        await connection.execute(_SQL["note_surplus"], who.tenant_id, list(of_plays), wins, points)
    await connection.execute(_SQL["hold_counts"], *who, games)
    await connection.execute(_SQL["move_play_counts"], *who, games)


async def _move_turns(connection: asyncpg.Connection, who: _Who, surplus: _Surplus) -> frozenset[str]:
    """Moves the guest's turns but for those of quests that both have completed, and of surplus rewards.

    Those of rewards are taken back from the guest, whole or not at all: of which they were.
    """
    await connection.execute(_SQL["hold_turns"], *who)
    returned = set()
    for row in surplus.rewards:
        asked = (who.tenant_id, who.guest_id, row["reward_id"], ids.make("turn"))
        if _gave_turns(row) and await connection.fetchval(_REWARDS["take_turns"], *asked) is not None:
            returned.add(row["reward_id"])
    quests = ([row["quest_id"] for row in surplus.quests], [row["period"] for row in surplus.quests])
    left = await connection.fetch(_SQL["turns"], who.tenant_id, who.guest_id, *quests)
    moved = [row for row in left if row["balance"] > row["kept"]]
    if moved:
        await connection.execute(
            _SQL["give_turns"],
            *who,
            [row["campaign_id"] for row in moved],
            [row["balance"] - row["kept"] for row in moved],
            [ids.make("entry") for _ in moved],
            [ids.make("entry") for _ in moved],
            [row["kept"] for row in moved],
        )
    return frozenset(returned)


async def _move_wallets(connection: asyncpg.Connection, who: _Who) -> None:
    for name in ("hold_balances", "move_balances", "move_ledger"):
        await connection.execute(_SQL[name], *who)


async def _move_prizes(connection: asyncpg.Connection, who: _Who, surplus: _Surplus, ending: Mapping[str, str]) -> None:
    """Moves what was won but for the surplus, and revokes of that what is `ending`.

    _Changed where the surplus is another by now, as what both have shows once it is locked, or the player's.
    """
    tenant_id, guest_id, _ = who
    await connection.execute(_REWARDS["hold_stock"], tenant_id, [row["prize_id"] for row in surplus.rewards])
    await connection.execute(_SQL["hold_prize_counts"], *who)
    _same(surplus.counts, await connection.fetch(_SQL["prize_counts"], *who))
    await connection.execute(_SQL["move_prize_counts"], *who, list(surplus.units), list(surplus.units.values()))
    await connection.execute(_REWARDS["hold_codes"], tenant_id, list(ending))
    for name in _MOVES:
        await connection.execute(_SQL[name], *who)
    _same(surplus.rungs, await connection.fetch(_SQL["grants"], tenant_id, guest_id))
    _same(surplus.quests, await connection.fetch(_SQL["completions"], tenant_id, guest_id))
    await connection.execute(_SQL["hold_rewards"], tenant_id, guest_id)
    await connection.execute(_SQL["hold_tasks"], tenant_id, guest_id)
    await _revoke(connection, tenant_id, ending)
    await connection.execute(_SQL["move_rewards"], *who, surplus.reward_ids)


# -- surplus ---------------------------------------------------------------------------------


class _Changed(Exception):
    """What surplus was decided by changed while the merge had not locked it yet: it is decided again."""


@dataclass(frozen=True, slots=True)
class _Surplus:
    """What the guest has beyond what one player may have, and what says so.

    counts: of each capped prize that the guest has had, what both have had. rungs, quests: those that both were
    granted, or have completed.
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
        """The points that plays won, by scope and currency."""
        points: Counter[tuple[str, str]] = Counter()
        for row in self.points:
            points[row["scope_key"], row["currency"]] += row["points"]
        return points

    @property
    def of_plays(self) -> dict[str, tuple[int, int]]:
        """How many wins of a play it is, and how many points."""
        wins = Counter(row["play_id"] for row in self.rewards if row["play_id"])
        points: Counter[str] = Counter()
        for row in self.points:
            wins[row["play_id"]] += row["wins"]
            points[row["play_id"]] += row["points"]
        return {play_id: (wins[play_id], points[play_id]) for play_id in sorted(wins)}

    @property
    def units(self) -> Counter[str]:
        """How many of each prize."""
        units: Counter[str] = Counter()
        for row in self.rewards:
            units[row["prize_id"]] += row["quantity"]
        for row in self.points:
            units[row["prize_id"]] += row["units"]
        return units


async def _read_surplus(connection: asyncpg.Connection, who: _Who) -> _Surplus:
    """What says so comes before what is decided by it: else what happens in between would be in neither comparison."""
    names = ("prize_counts", "granted_to_both", "completed_by_both", "surplus_rewards", "surplus_points")
    return _Surplus(*[await connection.fetch(_SQL[name], *who) for name in names])


def _same(before: Sequence[Any], after: Sequence[Any]) -> None:
    """_Changed where the player won, redeemed or completed in between what the guest has too."""
    if {tuple(row) for row in before} != {tuple(row) for row in after}:
        raise _Changed


def _gave_turns(reward: Any) -> bool:
    return (reward["type"], reward["status"]) == (TURNS, "fulfilled")


def _ends(reward: Any, returned: frozenset[str]) -> bool:
    """Whether a surplus reward is revoked: one that was not delivered, and points, which can be taken back.

    One of turns, where these were `returned`.
    """
    if _gave_turns(reward):
        return reward["reward_id"] in returned
    return reward["status"] in MOVES["revoke"].before and (reward["status"] != "fulfilled" or reward["type"] == POINTS)


async def _pay_back(
    connection: asyncpg.Connection, who: _Who, surplus: _Surplus, returned: frozenset[str]
) -> dict[str, str]:
    """Moves back what the surplus moved in the guest's wallet, which is the player's now.

    Prices first: what was paid in points is there to be taken then. Of points as many are taken as there are, and
    the price of points comes back for those alone: else who had spent them would have both.
    {reward: its status} of those that are revoked; one whose points were not all there stays what it is.
    """
    tenant_id, guest_id, player_id = who
    ending = {row["reward_id"]: row["status"] for row in surplus.rewards if _ends(row, returned)}

    async def give(row: Any, amount: int) -> None:
        entry = (ids.make("entry"), "reversal", row["reward_id"], row["reward_id"])
        if amount > 0:
            await connection.execute(_MOVE, tenant_id, player_id, row["scope_key"], row["currency"], amount, *entry)

    async def take(wallet: tuple[str, str], amount: int, reward_id: str) -> int:
        entry = (ids.make("entry"), reward_id or guest_id, reward_id)
        return await connection.fetchval(_SQL["move_back"], tenant_id, player_id, *wallet, amount, *entry) or 0

    moved = await connection.fetch(_SQL["movements"], tenant_id, player_id, list(ending))
    given = {row["reward_id"]: row for row in moved if row["amount"] > 0}
    prices = [row for row in moved if row["amount"] < 0]
    for price in prices:
        if price["reward_id"] not in given:
            await give(price, -price["amount"])
    for wallet, points in surplus.points_of_wallets.items():
        await take(wallet, points, "")
    for reward_id, row in given.items():
        taken = await take((row["scope_key"], row["currency"]), row["amount"], reward_id)
        for price in prices:
            if price["reward_id"] == reward_id:
                await give(price, -price["amount"] * taken // row["amount"])
        if taken < row["amount"]:
            del ending[reward_id]
    return ending


async def _revoke(connection: asyncpg.Connection, tenant_id: str, ending: Mapping[str, str]) -> None:
    """Revokes surplus rewards, all of which are locked with what they hold."""
    found = await connection.fetch(_SQL["statuses"], tenant_id, list(ending))
    if {row["reward_id"]: row["status"] for row in found} != ending:
        raise _Changed
    await connection.execute(_SQL["revoke_surplus"], tenant_id, list(ending))
    await give_back(connection, tenant_id, [about for about, status in ending.items() if status in HOLDING])
