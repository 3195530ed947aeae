from typing import Any, Final

import asyncpg

from tests.support.bare_rows import BARE
from tests.support.statements import first_of_t as first

SCENE: Final = (
    BARE
    + """
INSERT INTO campaigns (campaign_id, merchant_id, status, budget, budget_currency) VALUES
    ('camp', 'shop', 'active', 10, 'EUR');
INSERT INTO games (game_id, campaign_id) VALUES ('game', 'camp');
INSERT INTO players (player_id) VALUES ('ann');
INSERT INTO prizes (prize_id, campaign_id, status, low_stock_at) VALUES ('mug', 'camp', 'active', 5);
INSERT INTO stock (prize_id, total, remaining, awarded) VALUES ('mug', 5, 2, 3);
INSERT INTO plays (play_id, player_id, game_id, played_at) VALUES ('play', 'ann', 'game', now());
INSERT INTO rewards (reward_id, player_id, prize_id, campaign_id, status, won_at) VALUES
    ('reward', 'ann', 'mug', 'camp', 'won', now());
INSERT INTO tasks (task_id, reward_id, player_id, campaign_id) VALUES ('task', 'reward', 'ann', 'camp');
INSERT INTO balances (player_id, scope_key) VALUES ('ann', 'camp');
INSERT INTO ledger_entries (entry_id, player_id, scope_key, reason) VALUES ('entry', 'ann', 'camp', 'adjustment');
INSERT INTO turn_balances (player_id, campaign_id) VALUES ('ann', 'camp');
INSERT INTO turn_entries (entry_id, player_id, campaign_id, reason) VALUES ('turn', 'ann', 'camp', 'quest');
INSERT INTO quests (quest_id, campaign_id, type) VALUES ('quest', 'camp', 'daily');
INSERT INTO quest_completions (quest_id, player_id, event_id) VALUES ('quest', 'ann', 'event');
INSERT INTO integrations (integration_id, merchant_id, campaign_id, status) VALUES ('hook', '', 'camp', 'active');
INSERT INTO integration_deliveries (integration_id, delivery_id, status, event, next_attempt_at) VALUES
    ('hook', 'delivery', 'retry', '{"merchant_id": "shop"}', now());
INSERT INTO violations (violation_id, scope_key) VALUES ('violation', 'camp');
INSERT INTO budget_marks (campaign_id, currency, used, notified_percent) VALUES ('camp', 'EUR', 9, 80);
INSERT INTO low_prizes (prize_id) VALUES ('mug');
"""
)

WHO: Final = "the staff's merchant"
OF_ANN: Final = ("ann", "", WHO)

REACHED: Final[list[tuple[str, tuple[Any, ...], Any]]] = [
    # A statement, what it is asked, and the first value that it answers.
    *(("desk.plays", (*OF_ANN, None, 9), "play"), ("desk.balances", (*OF_ANN, None, None, 9), "camp")),
    *(("desk.ledger", (*OF_ANN, None, None, 9), "entry"), ("desk.turns", (*OF_ANN, None, 9), "camp")),
    *(("desk.turn_entries", (*OF_ANN, None, 9), "turn"), ("desk.completions", (*OF_ANN, None, 9), "event")),
    *(("desk.tasks", (*OF_ANN, None, 9), "task"), ("live.plays", (WHO,), 1), ("live.deliveries", (WHO, 9), 1)),
    *(("live.integrations", (WHO,), "hook"), ("live.won", (WHO, ""), "mug"), ("limits.budgets", (WHO,), "camp")),
    *(("limits.low_prizes", (WHO,), "mug"), ("violations.list", ("", "", "", WHO, None, 9), "violation")),
    ("integrations.list", ("", "", "", WHO, None, 9), "hook"),
    ("integrations.list_deliveries", ("hook", WHO, None, 9), "delivery"),
    *(("integrations.get", ("hook", WHO, True), "hook"), ("integrations.rotate", ("hook", "{}", WHO), "hook")),
]


async def test_rows_of_a_campaign_are_reached_by_its_merchant_alone(connection: asyncpg.Connection) -> None:
    wrong = []
    for name, arguments, value in REACHED:
        for merchant, sees in (("", True), ("shop", True), ("other", False)):
            asked = [merchant if one == WHO else one for one in arguments]
            found = [one for one in await first(connection, name, *asked) if one != 0]
            if found != ([value] if sees else []):
                wrong.append((name, merchant, found))
    assert wrong == []
