"""The two databases with one of everything in them, so that statements drawn at random find something."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

import sql
from tests.support.batches import GUESTS, PLAYERS, TENANT, TODAY


class Asked(Protocol):
    async def ask(self, text: str, *args: Any) -> Any: ...

    async def put(self, table: str, **values: Any) -> None: ...


async def furnish(twins: Asked) -> None:
    """Makes a tenant with merchants, a campaign, games, prizes, codes, players, guests, quests, boards and tasks."""
    tenancy, campaigns, games, prizes = (sql.load(name) for name in ("tenancy", "campaigns", "games", "prizes"))
    for tenant_id in (TENANT, "tenant_b"):
        await twins.ask(tenancy["insert_tenant"], tenant_id, "A name 1", "active", [])
    for merchant_id in ("merchant_a", "merchant_b"):
        await twins.ask(tenancy["insert_merchant"], TENANT, merchant_id, "A name 1", "active")
    for nth, campaign_id in enumerate(("campaign_a", "campaign_b", "campaign_c")):
        merchant_id = ("", "merchant_a", "merchant_b")[nth]
        fields = ("A name 1", merchant_id, "active", 0, 0, 0, "Europe/Berlin", {"a": 1}, [], 0.0, "")
        await twins.ask(campaigns["insert"], TENANT, campaign_id, *fields)
        await twins.put("campaign_marks", tenant_id=TENANT, campaign_id=campaign_id, players=50, returned=50)
    for game_id in ("game_a", "game_b", "game_c"):
        definition = {"ui": {}, "wallet_scope": "merchant", "prizes": [{"prize_id": "prize_a"}]}
        await twins.ask(games["insert"], TENANT, game_id, "campaign_a", "A name 1", "wheel", "active", definition)
    for prize_id, channel, total, cap in (
        ("prize_a", "none", 100, 2),
        ("prize_b", "webhook", 0, 0),
        ("prize_c", "voucher_code", 50, 0),
        ("prize_d", "voucher_code", 100, 3),
        ("prize_e", "manual", 100, 1),
    ):
        kind = "points" if prize_id == "prize_e" else "coupon"
        fields = ("A name 1", kind, 2.5, "campaign_a", cap, 0, "on_claim", channel, {}, 0, "active")
        size = {"key": "size", "label": "Size", "kind": "choice", "required": True, "options": ["M", "L"]}
        asked = [size] if prize_id == "prize_b" else []
        await twins.ask(prizes["insert"], TENANT, prize_id, *fields, "A mug 1", "", "", "EUR", 0, asked, total)
    await _pools(twins)
    for player_id in (*PLAYERS, *GUESTS):
        await twins.ask(sql.load("players")["meet"], TENANT, player_id)
    await _what_players_have(twins)
    await twins.put("retired_keys", tenant_id="", key_id="old")
    for name, known in (("holder_a", ["1"]), ("holder_b", ["1", "2"])):
        await twins.ask(sql.load("keyring")["announce"], "", "code", name, "core", known, "1")
    for nth in (1, 2, 3):
        given = (f"integration_{nth}", "", "campaign_a", "webhook", ["play.completed"], {}, "")
        await twins.ask(sql.load("integrations")["insert"], TENANT, *given)
    quests = sql.load("quests")
    for nth in (1, 2):
        condition = {"kind": "plays", "count": 1, "game_id": ""} if nth == 2 else None
        fields = ("A name 1", "", "daily", nth, "active", 0, 0, condition, "", None)
        await twins.ask(quests["insert"], TENANT, f"quest_{nth}", "campaign_a", *fields)
    boards = sql.load("leaderboards")
    for nth, mode in enumerate(("sum", "best", "latest")):
        prized = [{"from_rank": 1, "to_rank": 2, "prize_id": "prize_a"}]
        fields = ("campaign_a", "", "A name 1", "score", mode, 0, 0, prized, "")
        await twins.ask(boards["insert"], TENANT, f"board_{nth}", *fields)
        players = ["ann", GUESTS[0], "bob"] if nth else list(GUESTS)
        places = (players, ["A name 1"] * 3, [9] * 3, [1_700_000_000_000_123] * 3)
        await twins.ask(boards["keep_standings"], TENANT, f"board_{nth}", *places, ["prize_a", "prize_b", ""])

    prized = [{"from_rank": 1, "to_rank": 1, "prize_id": "prize_b"}]
    fields = ("campaign_a", "game_a", "A name 1", "plays", "sum", 0, 0, prized, "")
    await twins.ask(boards["insert"], TENANT, "board_3", *fields)
    for guest_id in GUESTS:
        await twins.ask(boards["disqualify"], TENANT, "board_3", guest_id, "cheated")


async def _pools(twins: Asked) -> None:
    for prize_id in ("prize_c", "prize_d"):
        ids = [f"code_{prize_id}_{nth}" for nth in range(12)]
        hashes = [f"{prize_id} {nth}".encode() for nth in range(12)]
        arrays = (ids, ["1"] * 12, [b"sealed"] * 12, hashes, [], [])
        await twins.ask(sql.load("codes")["add"], TENANT, prize_id, *arrays, "", [0, 0, 1_900_000_000] * 4)


async def _what_players_have(twins: Asked) -> None:
    """Of each player something in every table that a merge moves."""
    later = datetime(2100, 1, 1, tzinfo=UTC)
    for nth, player_id in enumerate((*PLAYERS, *GUESTS)):
        own = {"tenant_id": TENANT, "player_id": player_id}
        for wallet, currency in (("campaign_a", "points"), (TENANT, "coin")):
            amount = 20 + nth
            given = (player_id, wallet, currency, amount, f"opening_{nth}_{currency}", "adjustment", "ref", "reward_0")
            await twins.ask(sql.load("wallet")["move"], TENANT, *given)
        await twins.put("turn_balances", **own, campaign_id="campaign_a", balance=5)
        await twins.put("game_players", **own, game_id="game_a", plays=2, day=TODAY, day_plays=1)
        await twins.put("prize_players", **own, prize_id="prize_a", awarded=2)
        await twins.put("prize_players", **own, prize_id="prize_e", awarded=3)
        await twins.put("leaderboard_adjustments", **own, board_id="board_0", entry_id=f"e_{nth}", delta=3, reason="")
        await twins.put("campaign_player_days", **own, campaign_id="campaign_a", day=TODAY)
        await twins.put("logins", **own, login_id=f"login_{nth}", expires_at=later, ends_at=later)
        await twins.put("login_quarters", **own, quarter=later)
        await twins.put(
            "milestone_grants",
            **own,
            game_id="game_a",
            milestone_id="rung_a",
            reward_id=f"reward_{nth}",
            idempotency_key=f"key_{'ab'[nth % 2]}",
            request_hash=b"hash",
            reply={"a": 1},
        )
        await twins.put(
            "quest_completions",
            **own,
            quest_id="quest_1",
            period=("once", "2026-11-20")[nth % 2],
            turns=1,
            balance_after=5,
            event_id=f"quest_event_{nth}",
        )
        await twins.put("quest_events", **own, quest_id="quest_1", event_id=f"told_{nth}")
        reward = {"campaign_id": "campaign_a", "prize_id": "prize_a", "name": "A name 1", "type": "coupon"}
        await twins.put("rewards", **own, **reward, reward_id=f"reward_{nth}", value=2.5, quantity=1)
        turns = {**reward, "type": "turns", "value": 2.0, "status": "fulfilled"}
        await twins.put("rewards", **own, **turns, reward_id=f"reward_of_turns_{nth}", quantity=1 + nth % 2)
        task = {"campaign_id": "campaign_a", "prize_id": "prize_b", "channel": "webhook", "status": "pending"}
        await twins.put("tasks", **own, **task, reward_id=f"reward_{nth}", task_id=f"task_{nth}")
        points = [{"prize_id": "prize_e", "type": "points", "quantity": 3, "value": 4.0}]
        play = {"revision": 1, "seed": b"s", "client_seed": "", "payload": {}, "outcome": {"rewards": points}}
        await twins.put(
            "plays",
            **own,
            **play,
            play_id=f"opening_play_{nth}",
            game_id="game_a",
            session_id="sess",
            score=nth,
            wins=1,
            points=12,
        )
        await twins.put(
            "ledger_entries",
            **own,
            entry_id=f"points_{nth}",
            seq=5,
            scope_key="campaign_b",
            currency="points",
            amount=12,
            balance_after=12,
            reason="play_reward",
            reference_id=f"opening_play_{nth}",
        )
    await twins.put(
        "campaign_days", tenant_id=TENANT, campaign_id="campaign_a", day=TODAY, plays=90, players=50, wins=1
    )
    await twins.put("contacts", tenant_id=TENANT, contact_id="contact_0", player_id="ann", type="phone", value="one")
