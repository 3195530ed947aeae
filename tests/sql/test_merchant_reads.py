from typing import Any, Final

import asyncpg

from tests.support.bare_rows import bare
from tests.support.statements import first_of_t as first

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id status budget budget_currency: camp shop active 10 EUR;
+ games game_id campaign_id: game camp;
+ players player_id: ann;
+ prizes prize_id campaign_id status low_stock_at: mug camp active 5;
+ stock prize_id total remaining awarded: mug 5 2 3;
+ plays play_id player_id game_id played_at: play ann game (now());
+ rewards reward_id player_id prize_id campaign_id status won_at: reward ann mug camp won (now());
+ tasks task_id reward_id player_id campaign_id: task reward ann camp;
+ balances player_id scope_key: ann camp;
+ ledger_entries entry_id player_id scope_key reason: entry ann camp adjustment;
+ turn_balances player_id campaign_id: ann camp;
+ turn_entries entry_id player_id campaign_id reason: turn ann camp quest;
+ quests quest_id campaign_id type: quest camp daily;
+ quest_completions quest_id player_id event_id: quest ann event;
+ integrations integration_id merchant_id campaign_id status: hook '' camp active;
+ integration_deliveries integration_id delivery_id status event next_attempt_at:
    hook delivery retry '{"merchant_id": "shop"}' (now());
+ violations violation_id scope_key: violation camp;
+ budget_marks campaign_id currency used notified_percent: camp EUR 9 80;
+ low_prizes prize_id: mug;
""")

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
