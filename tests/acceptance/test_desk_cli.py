"""`tombola players|rewards|wallets|integrations`, run as an operator runs them, against the admin edge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNCONFIRMED
from tests.acceptance.test_operator_cli import Operator
from tests.support.guests import log_in
from tests.support.stack import Stack
from tests.support.world import COINS, COLLECTION, World

MANUAL = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}


@pytest.fixture
def tombola(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


async def test_a_player_is_found_given_turns_exported_and_erased(tombola: Operator, own_world: World) -> None:
    player = await log_in(own_world.stack, contact="cli@example.com")
    [found] = (await tombola("players", "list", "cli@example.com", "--json")).json
    assert (found["id"], found["contacts"][0]["value"]) == (player, "c***@example.com")
    for _ in range(2):
        given = await tombola(
            *("players", "grant", player, own_world.campaign_id, "2", "--reason", "sorry", "--key", "k", "--json")
        )
        assert given.json["balance_after"] == 2
    assert (await tombola("players", "export", player, "out.jsonl", "--json")).json["items"] > 2
    lines = (tombola.directory / "out.jsonl").read_text().splitlines()
    assert "cli@example.com" in str([json.loads(line) for line in lines])
    erase = ("players", "erase", player, "--reason", "asked for")
    assert (await tombola(*erase)).code == EXIT_UNCONFIRMED
    done = await tombola(*erase, "--yes")
    assert (done.code, done.out.strip()) == (0, f"{player} is erased")
    unknown = await tombola("players", "show", "player_none")
    assert unknown.code == EXIT_REFUSED and "UNKNOWN_PLAYER" in unknown.err


async def test_a_balance_is_adjusted_and_shown(tombola: Operator, own_world: World) -> None:
    game = await own_world.game(COLLECTION, COINS)
    assert (await own_world.round(game, "ann")).code == "OK"
    scope = own_world.campaign_id
    adjust = ("wallets", "adjust", "ann", scope, "coin", "5", "--reference", "ticket-1", "--key", "k")
    assert (await tombola(*adjust)).out.strip() == "7 coin left"
    entries = (await tombola("wallets", "ledger", "ann", "--json")).json
    assert [entry["amount"] for entry in entries] == [5, 2]


async def test_rewards_are_moved_and_those_that_are_not_end_it_with_1(tombola: Operator, own_world: World) -> None:
    game = await own_world.wheel(await own_world.prize(fulfillment=MANUAL))
    one, two = [(await own_world.round(game)).data["rewards"][0]["reward_id"] for _ in range(2)]
    assert (await tombola("rewards", "fulfill", one, "--reason", "handed over")).out.strip() == "1 done"
    moved = await tombola("rewards", "revoke", one, two, "nothing", "--reason", "a script", "--yes")
    assert (moved.code, moved.out.strip()) == (EXIT_REFUSED, "2 done")
    assert "nothing: UNKNOWN_REWARD" in moved.err
    listed = (await tombola("rewards", "list", "--status", "revoked", "--json")).json
    assert {row["id"] for row in listed} == {one, two}


async def test_an_integration_is_tried_and_given_a_secret(tombola: Operator, stack: Stack) -> None:
    hook = {"type": "sms", "events": ["prize_won"], "config": {}}
    made = (await stack.admin("POST", "/admin/integrations", hook)).data["id"]
    assert made in (await tombola("integrations", "list")).out
    tried = await tombola("integrations", "test", made)
    assert "stubbed" in tried.out and tried.code == EXIT_REFUSED
    assert (await tombola("integrations", "rotate", made, "--secret", "s" * 24)).out.strip() == "signs with both"
    assert (await tombola("integrations", "log", made, "--json")).json[0]["event_type"] == "integration_test"
