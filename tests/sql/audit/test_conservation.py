"""Each check of sql/conservation.sql finds what breaks it, and no other does: rows are changed by hand, one at a time.

What is changed is put back: each change is a transaction that is undone. It is looked for twice: among everything
there is, and among what changed since the scene was begun.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
import pytest
import pytest_asyncio

from runtime.operations.campaigns import analytics
from runtime.operations.conservation.checks import CHECKS, CONSERVATION, KINDS
from tests.support import invariants
from tests.support.guests import guest_who_played, log_in
from tests.support.leaderboards import make_board
from tests.support.milestones import block, rung
from tests.support.quests import open_quest
from tests.support.resources import make_campaign
from tests.support.stack import Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

ANN: Final = "ann"
WALKED: Final = frozenset({"prize", "board", "day", "campaign"})
"""Kinds that are only gone around: what they count costs too much to be counted at each change."""


@dataclass
class Scene:
    """A tenant in which everything happened once. named: ids by the words that the statements below use."""

    stack: Stack
    began: Any
    named: dict[str, str] = field(default_factory=dict)

    async def connect(self) -> asyncpg.Connection:
        return await asyncpg.connect(self.stack.process.settings.database_url)


async def won(world: World, game_id: str, player: str = ANN) -> str:
    """The id of the reward that a play of a sure game gave."""
    return str((await world.round(game_id, player)).data["rewards"][0]["reward_id"])


@pytest_asyncio.fixture(scope="module")
async def scene(module_stack: Stack) -> AsyncIterator[Scene]:
    stack = module_stack
    scene = Scene(stack, await stack.database.fetchval("SELECT clock_timestamp()"))
    named = scene.named
    named["tenant"] = stack.tenant_id
    world = World(stack, (await make_campaign(stack))["id"])
    named["campaign"] = world.campaign_id
    await _prizes(world, named)
    await _codes(world, named)
    await _wallets(world, named)
    await _turns(world, named)
    board = await make_board(
        stack, world.campaign_id, metric="plays", prizes=[{"from_rank": 1, "to_rank": 1, "prize_id": named["mug"]}]
    )
    named["board"] = board["id"]
    assert (await stack.admin("POST", f"/admin/leaderboards/{board['id']}/finalize", {})).data
    counted = World(stack, (await make_campaign(stack))["id"])
    named["counted"] = counted.campaign_id
    game = await counted.wheel(named["mug"])
    for player in (ANN, "bob"):
        await counted.round(game, player)

    async def both_are_counted() -> bool:
        await analytics.count(stack.engine, stack.tenant_id, counted.campaign_id)
        query = "SELECT sum(plays) FROM campaign_days WHERE campaign_id = $1"
        return bool(await stack.database.fetchval(query, counted.campaign_id) == 2)

    await until(both_are_counted)  # What has just been played is not counted yet.
    yield scene


async def _prizes(world: World, named: dict[str, str]) -> None:
    """A mug, won twice by ann and once by bob, who has nothing else."""
    named["mug"] = await world.prize(total=18)
    for _ in range(2):
        more = {"change": 1, "reason": "one more"}
        assert (await world.stack.admin("POST", f"/admin/prizes/{named['mug']}/stock", more)).code == "OK"
    named["wheel"] = await world.wheel(named["mug"])
    for word in ("first", "second"):
        named[word] = await won(world, named["wheel"])
    named["bobs"] = await won(world, named["wheel"], "bob")
    assert (await world.stack.admin("POST", f"/admin/rewards/{await won(world, named['wheel'])}/revoke", {})).data


async def _codes(world: World, named: dict[str, str]) -> None:
    """A voucher of five: one won, one claimed, one revoked, two free."""
    on_claim = {"channel": "voucher_code", "redemption_mode": "on_claim"}
    named["voucher"] = await world.prize(codes=[f"CODE-{nth}" for nth in range(5)], fulfillment=on_claim)
    game = await world.wheel(named["voucher"])
    for word in ("unclaimed", "claimed", "returned"):
        named[word] = await won(world, game)
    assert (await world.stack.consumer("POST", f"/rewards/{named['claimed']}/claim", {}, player=ANN)).data["code"]
    assert (await world.stack.admin("POST", f"/admin/rewards/{named['returned']}/revoke", {})).data


async def _wallets(world: World, named: dict[str, str]) -> None:
    """Points of a play; coins, and two rungs bought of them, of which one is taken back."""
    points = await world.prize(type="points", value=10)
    named["pointed"] = str((await world.round(await world.wheel(points), ANN)).data["play_id"])
    cup = await world.prize(total=5)
    rungs = block(rung("cup", 2, cup), rung("pot", 2, cup), auto_grant=False, mode="SPEND_EXCHANGE")
    game = named["collection"] = await world.game(COLLECTION, COINS, milestones=rungs)
    for _ in range(3):
        await world.round(game)
    for milestone in ("cup", "pot"):
        named[milestone] = str((await world.redeem(game, milestone)).data["reward"]["id"])
    assert (await world.stack.admin("POST", f"/admin/rewards/{named['pot']}/revoke", {})).data
    purse = await world.prize(type="points", value=7)
    crossing = await world.game(COLLECTION, COINS, milestones=block(rung("purse", 1, purse)))
    crossed = await world.round(crossing)
    named["crossed"] = str(crossed.data["milestones_granted"][0]["reward_id"])
    given = {"player_id": ANN, "scope_key": world.campaign_id, "currency": "coin", "amount": 5, "reference_id": "r"}
    named["entry"] = (await world.stack.admin("POST", "/admin/wallet/adjustments", given)).data["id"]


async def _turns(world: World, named: dict[str, str]) -> None:
    """Turns of a quest, one of them spent; a prize's; and a guest's, who has become a player."""
    await world.turns(ANN, 3)
    await world.round(await world.wheel(named["mug"], rules={"requires_turn": True}))
    await world.round(await world.wheel(await world.prize(type="turns", value=2)))
    given = {"campaign_id": world.campaign_id, "amount": 2, "reason": "a delay"}
    named["turned"] = (await world.stack.admin("POST", f"/admin/players/{ANN}/turns", given)).data["id"]
    guest = await guest_who_played(world, await world.wheel(named["mug"], access="public"))
    quest = await open_quest(world.stack, world.campaign_id, type="one_time")
    assert (await world.stack.core("POST", f"/quests/{quest}/complete", {"player_id": guest.player_id})).data
    named["guest"], named["player"] = guest.player_id, await log_in(world.stack, guest)


BREAKS: Final[dict[str, tuple[str, ...]]] = {
    "player_ledger_sum": ("UPDATE balances SET balance = balance + 1 WHERE player_id = 'ann' AND currency = 'coin'",),
    "player_ledger_chain": ("UPDATE ledger_entries SET balance_after = balance_after + 1 WHERE entry_id = '{entry}'",),
    "player_ledger_seq": ("UPDATE balances SET seq = 0 WHERE player_id = 'ann' AND currency = 'coin'",),
    "player_negative": (
        "ALTER TABLE balances DROP CONSTRAINT balances_balance_check",
        "ALTER TABLE ledger_entries DROP CONSTRAINT ledger_entries_balance_after_check",
        "INSERT INTO balances (tenant_id, scope_key, currency, player_id, balance, seq)"
        " VALUES ('{tenant}', '{campaign}', 'debt', 'ann', -1, 1)",
        "INSERT INTO ledger_entries (tenant_id, entry_id, seq, scope_key, currency, player_id, amount, balance_after,"
        " reason, reference_id)"
        " VALUES ('{tenant}', 'entry_debt', 1, '{campaign}', 'debt', 'ann', -1, -1, 'reversal', '')",
    ),
    "player_points": ("UPDATE ledger_entries SET reference_id = 'play_none' WHERE reference_id = '{pointed}'",),
    "player_items": (
        "UPDATE ledger_entries SET reference_id = 'play_none' WHERE entry_id = (SELECT max(entry_id)"
        " FROM ledger_entries WHERE player_id = 'ann' AND currency = 'coin' AND reason = 'play_reward')",
    ),
    "player_reversed": ("UPDATE ledger_entries SET reward_id = '' WHERE reward_id = '{pot}' AND reason = 'reversal'",),
    "player_credited": ("UPDATE rewards SET value = value + 1 WHERE reward_id = '{crossed}'",),
    "player_adjusted": ("UPDATE ledger_entries SET entry_id = 'entry_x' WHERE entry_id = '{entry}'",),
    "player_turn_sum": ("UPDATE turn_balances SET balance = balance + 1 WHERE player_id = 'ann'",),
    "player_turn_chain": ("UPDATE turn_entries SET balance_after = 7 WHERE player_id = 'ann' AND reason = 'quest'",),
    "player_turn_spent": (
        "UPDATE turn_entries SET reason = 'play', reference_id = 'play_none' WHERE entry_id = '{turned}'",
    ),
    "player_turn_needed": (
        "UPDATE game_revisions SET definition = jsonb_set(definition, '{{rules,requires_turn}}', 'true')"
        " WHERE game_id = '{wheel}'",
    ),
    "player_quests": ("UPDATE quest_completions SET turns = turns + 1 WHERE player_id = 'ann'",),
    "player_turn_given": ("UPDATE turn_entries SET reason = 'reversal' WHERE reason = 'prize'",),
    "player_due_task": ("DELETE FROM tasks WHERE reward_id = '{first}'",),
    "player_told": (
        "UPDATE plays SET outcome = jsonb_set(outcome::jsonb, '{{rewards}}', '[]')::json, wins = 0 WHERE play_id ="
        " (SELECT play_id FROM rewards WHERE reward_id = '{first}')",
    ),
    "player_prize_counter": (
        "UPDATE prize_players SET awarded = awarded + 1 WHERE prize_id = '{mug}' AND player_id = 'ann'",
        "UPDATE prize_days SET awarded = awarded + 1 WHERE prize_id = '{mug}'",
    ),
    "player_prize_cap": ("UPDATE prizes SET max_per_user = 2 WHERE prize_id = '{mug}'",),
    "player_code_taken": ("UPDATE codes SET reward_id = NULL WHERE reward_id = '{unclaimed}'",),
    "player_code_returned": (
        "UPDATE codes SET reward_id = '{returned}' WHERE code_id ="
        " (SELECT min(code_id) FROM codes WHERE reward_id IS NULL)",
    ),
    "player_code_delivered": ("UPDATE codes SET reward_id = NULL WHERE reward_id = '{claimed}'",),
    "player_revoked": ("UPDATE rewards SET status = 'revoked' WHERE reward_id = '{second}'",),
    "player_board_reward": (
        "INSERT INTO rewards (tenant_id, reward_id, player_id, prize_id, campaign_id, name, type, value, quantity)"
        " VALUES ('{tenant}', 'reward_x', 'ann', '{mug}', '{campaign}', 'Mug', 'points', 0, 1)",
        "UPDATE prize_players SET awarded = awarded + 1 WHERE prize_id = '{mug}' AND player_id = 'ann'",
        "UPDATE prize_days SET awarded = awarded + 1 WHERE prize_id = '{mug}'",
    ),
    "player_rung_reward": ("UPDATE milestone_grants SET reward_id = '' WHERE reward_id = '{crossed}'",),
    "player_rung_paid": (
        "UPDATE milestone_grants SET reply = jsonb_set(reply::jsonb, '{{milestone,threshold}}', '1')::json"
        " WHERE milestone_id = 'cup'",
    ),
    "player_merged": (
        "INSERT INTO contacts (tenant_id, contact_id, player_id, type, value)"
        " VALUES ('{tenant}', 'contact_a', '{guest}', 'email', 'left@example.com')",
    ),
    "player_turns_merged": (
        "UPDATE turn_entries SET reference_id = 'nobody' WHERE player_id = '{guest}' AND reason = 'merge'",
    ),
    "play_session": (
        "UPDATE plays SET session_id = overlay(session_id placing 'u' from 20 for 1) WHERE play_id = '{pointed}'",
    ),
    "play_terms": (
        "UPDATE plays SET session_id = replace(session_id, promised_by(session_id), repeat('0', 32))"
        " WHERE play_id = '{pointed}'",
    ),
    "play_rewards": ("UPDATE plays SET wins = wins + 1 WHERE play_id = '{pointed}'",),
    "play_counted": ("DELETE FROM players WHERE player_id = 'bob'",),
    "counter_plays": ("UPDATE game_players SET plays = plays + 1 WHERE game_id = '{wheel}' AND player_id = 'bob'",),
    "counter_day": ("UPDATE game_players SET day_plays = 9 WHERE game_id = '{wheel}' AND player_id = 'bob'",),
    "counter_cap": (
        "UPDATE game_revisions SET definition = jsonb_set(definition, '{{rules,max_plays_per_user}}', '2')"
        " WHERE game_id = '{wheel}'",
    ),
    "counter_day_cap": (
        "UPDATE game_revisions SET definition = jsonb_set(definition, '{{rules,max_plays_per_day}}', '2')"
        " WHERE game_id = '{wheel}'",
    ),
    "task_reward": ("UPDATE tasks SET status = 'dead' WHERE reward_id = '{first}'",),
    "prize_stock": (
        "ALTER TABLE stock DROP CONSTRAINT stock_check",
        "UPDATE stock SET remaining = remaining + 1 WHERE prize_id = '{mug}'",
    ),
    "prize_moves": ("UPDATE stock_moves SET total_after = 21 WHERE prize_id = '{mug}' AND seq = 1",),
    "prize_held": ("UPDATE stock SET awarded = awarded + 1, remaining = remaining - 1 WHERE prize_id = '{mug}'",),
    "prize_counters": ("UPDATE prize_days SET awarded = awarded + 1 WHERE prize_id = '{mug}'",),
    "prize_winners": (
        "INSERT INTO prize_players (tenant_id, prize_id, player_id, awarded) VALUES ('{tenant}', '{mug}', 'zed', 1)",
        "UPDATE prize_days SET awarded = awarded + 1 WHERE prize_id = '{mug}'",
    ),
    "prize_day_cap": ("UPDATE prizes SET max_per_day = 1 WHERE prize_id = '{mug}'",),
    "prize_codes": (
        "UPDATE codes SET reward_id = 'reward_none' WHERE code_id ="
        " (SELECT min(code_id) FROM codes WHERE reward_id IS NULL)",
    ),
    "board_ranks": ("UPDATE leaderboard_standings SET rank = rank + 5 WHERE rank > 1",),
    "board_scores": (
        "UPDATE leaderboards SET finalized_at = now() + interval '1 hour'",
        "UPDATE leaderboard_standings SET score = score + 1 WHERE rank = 1",
    ),
    "board_players": (
        "UPDATE leaderboards SET finalized_at = now() + interval '1 hour'",
        "DELETE FROM leaderboard_standings WHERE rank = (SELECT max(rank) FROM leaderboard_standings)",
    ),
    "board_awards": ("UPDATE leaderboard_standings SET prize_id = '{voucher}' WHERE rank = 1",),
    "day_counts": ("UPDATE campaign_days SET plays = plays + 1 WHERE campaign_id = '{counted}'",),
    "campaign_players": ("UPDATE campaign_marks SET players = players + 1 WHERE campaign_id = '{counted}'",),
}
"""What breaks each check, and no other."""


async def changed(connection: asyncpg.Connection, scene: Scene) -> dict[str, list[str]]:
    """What the auditor looks at for what happened since the scene was begun; and all that it only goes around."""
    soon = await connection.fetchval("SELECT now() + interval '1 hour'")
    rows = await connection.fetch(CONSERVATION["changed"], scene.stack.tenant_id, scene.began, soon)
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["kind"], []).append(row["id"])
    around = await invariants.everything(connection, scene.stack.tenant_id)
    return {**found, **{kind: list(around[kind]) for kind in WALKED}}


async def test_checks_find_nothing_in_a_consistent_tenant(scene: Scene) -> None:
    connection = await scene.connect()
    try:
        keys = await invariants.everything(connection, scene.stack.tenant_id)
        assert all(keys[kind] for kind in KINDS), "there is something of every kind to be looked at"
        assert await invariants.broken(connection) == {}
        assert await invariants.broken_of(connection, scene.stack.tenant_id, await changed(connection, scene)) == {}
    finally:
        await connection.close()


async def test_changed_keys_are_all_keys_of_a_new_tenant(scene: Scene) -> None:
    connection = await scene.connect()
    try:
        keys = await invariants.everything(connection, scene.stack.tenant_id)
        found = await changed(connection, scene)
        assert {kind: set(keys[kind]) - set(found[kind]) for kind in KINDS} == {kind: set() for kind in KINDS}
    finally:
        await connection.close()


@pytest.mark.parametrize("name", CHECKS)
async def test_check_alone_finds_what_breaks_it(scene: Scene, name: str) -> None:
    connection = await scene.connect()
    try:
        await connection.execute("BEGIN")
        for statement in BREAKS[name]:
            assert (await connection.execute(statement.format(**scene.named))) != "UPDATE 0", statement
        tenant_id = scene.stack.tenant_id
        whole = await invariants.broken_of(connection, tenant_id, await invariants.everything(connection, tenant_id))
        since = await invariants.broken_of(connection, tenant_id, await changed(connection, scene))
        assert whole.keys() == {name}, whole
        assert since.keys() == {name}, since
        assert sorted(map(str, since[name])) == sorted(map(str, whole[name]))
        for row in whole[name]:
            assert row["id"] and row["expected"] and row["found"] and row["expected"] != row["found"], row
    finally:
        await connection.execute("ROLLBACK")
        await connection.close()


async def test_checks_each_say_what_must_hold() -> None:
    assert BREAKS.keys() == CHECKS.keys()
    for check in CHECKS.values():
        assert check.holds[0].isupper() and check.holds.endswith(".") and len(check.holds) > 20, check.name
