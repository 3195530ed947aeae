from typing import Final

import asyncpg

from tests.support.bare_rows import MERGED, Case, hold_to

SCENE: Final = MERGED

LEDGERS: Final = """
INSERT INTO {balances} (player_id, {wallet}, balance) VALUES
    ('ann', {even}, 5), ('ann', {less}, 3), ('ann', {none}, 4), ('bob', {even}, 9);
INSERT INTO {entries} (player_id, {wallet}, entry_id, amount, reason) VALUES
    ('ann', {even}, 'e1', 5, 'adjustment'), ('ann', {less}, 'e2', 2, 'adjustment'),
    ('ann', {owed}, 'e3', 7, 'adjustment'), ('cas', {even}, 'e4', 7, 'adjustment');
"""
BALANCES: Final = {"balances": "balances", "entries": "ledger_entries", "wallet": "scope_key, currency"}
TURNS: Final = {"balances": "turn_balances", "entries": "turn_entries", "wallet": "campaign_id"}

WALLETS: Final[dict[str, Case]] = {
    "player_ledger_sum": (
        LEDGERS.format(**BALANCES, even="'w', 'coin'", less="'w', 'gem'", none="'w', 'dust'", owed="'w', 'ore'"),
        *("ann", "ann|w gem|2|3; ann|w dust|0|4; ann|w ore|7|0"),
    ),
    "player_ledger_chain": (
        """+ ledger_entries player_id seq entry_id amount balance_after reason=adjustment: ann 3 e3 1 9 | ann 1 e1 5 5 |
            ann 2 e2 2 7 | bob 1 e4 2 1;""",
        "ann",
        "ann|e3|8|9",
    ),
    "player_ledger_seq": (
        """+ balances player_id scope_key currency seq: ann w coin 5 | ann w gem 5 | ann v coin 5 | bob w coin 0;
        + ledger_entries player_id entry_id scope_key currency seq reason=adjustment: ann e1 w coin 5 |
            ann e2 w gem 6 | bob e3 w coin 7 | ann e4 x coin 9 | ann e5 v gold 9;""",
        "ann",
        "ann|w gem|at most 5|6",
    ),
    "player_negative": (
        """ALTER DOMAIN nonnegative DROP CONSTRAINT nonnegative_check;
        + balances player_id scope_key=w currency balance: ann coin -1 | ann gem 0 | bob coin -1;
        + ledger_entries player_id entry_id balance_after reason=adjustment: ann e1 -2 | ann e2 0 | bob e3 -2;
        + turn_balances player_id campaign_id balance: ann c1 -3 | ann c2 0 | bob c1 -3;
        + turn_entries player_id entry_id balance_after reason=quest: ann t1 -4 | ann t2 0 | bob t3 -4;""",
        *("ann", "ann|w coin|at least 0|-1; ann|e1|at least 0|-2; ann|c1|at least 0|-3; ann|t1|at least 0|-4"),
    ),
    "player_points": (
        """+ plays player_id play_id points: ann p1 5 | ann p2 5 | ann p3 0 | bob p5 5;
        + ledger_entries player_id entry_id reference_id amount reason currency reward_id:
            ann e1 p1 5 play_reward points '' | ann e2 p2 4 play_reward points '' | ann e3 p4 3 play_reward points '' |
            cas e4 p6 3 play_reward points '' | ann e5 p1 5 adjustment points '' | ann e6 p1 5 play_reward coin '' |
            ann e7 p1 5 play_reward points rung;""",
        *("ann", "ann|p2|5|4; ann|p4|0|3"),
    ),
    "player_items": (
        """INSERT INTO plays (player_id, play_id, wins, outcome) VALUES
            ('ann', 'p1', 1, '{"rewards": [{"name": "coin", "quantity": 5}, {"name": "gem", "quantity": 1}]}'),
            ('ann', 'p2', 1, '{"rewards": [{"name": "coin", "quantity": 2}, {"name": "coin", "quantity": 3}]}'),
            ('ann', 'p3', 1, '{"rewards": [{"name": "Mug", "prize_id": "mug", "quantity": 1}]}'),
            ('ann', 'p4', 1, '{"rewards": [{"name": "points", "prize_id": "", "quantity": 4}]}'),
            ('ann', 'p5', 1, '{"rewards": [{"name": "coin", "prize_id": "", "quantity": 6}]}'),
            ('bob', 'p6', 1, '{"rewards": [{"name": "coin", "quantity": 7}]}');
        + ledger_entries player_id entry_id reference_id amount reason currency reward_id:
            ann e1 p1 5 play_reward coin '' | ann e2 p1 1 play_reward gem '' | ann e3 p2 2 play_reward coin '' |
            ann e4 p2 2 play_reward coin '' | ann e5 p1 8 adjustment coin '' | ann e6 p4 4 play_reward points '' |
            ann e7 p8 3 play_reward coin r1 | ann e8 q1 9 quest_reward points '' | ann e9 q2 9 quest_reward coin '' |
            cas e10 p9 3 play_reward coin '';""",
        *("ann", "ann|p2 coin|5|4; ann|p5 coin|6|0; ann|p8 coin|0|3; ann|q1 points|0|9; ann|q2 coin|0|9"),
    ),
    "player_reversed": (
        """+ rewards player_id=ann reward_id status: r1 revoked | r2 won | r3 revoked | r4 won | r5 won | r6 won;
        + ledger_entries player_id=ann entry_id amount currency=points reward_id reason: f1 -3 r5 milestone_spend |
            f2 3 r5 play_reward | f3 9 r6 reversal;
        + ledger_entries player_id=ann entry_id amount currency reason=reversal reference_id:
            f6 -5 points gus | f7 5 points gus | f8 -5 coin gus | f9 -5 points gil;
        + ledger_entries player_id entry_id amount currency=coin reward_id reason: ann e1 -3 r1 milestone_spend |
            ann e2 3 r1 reversal | ann e3 -3 r2 milestone_spend | ann e4 -3 r3 milestone_spend |
            ann e5 -3 r4 milestone_spend | ann e6 3 r4 reversal | ann e7 -2 r9 milestone_spend |
            ann e8 5 '' adjustment | bob e9 -2 r8 milestone_spend | ann ea 1 r2 reversal;""",
        "ann",
        """ann|r3|0|-3 coin; ann|r4|some of -3|0 coin; ann|r9|its reward|-2 coin; ann|r6|some of 0|9 points
           ann|f7|points taken back of a merged guest|5 points of gus
           ann|f8|points taken back of a merged guest|-5 coin of gus
           ann|f9|points taken back of a merged guest|-5 points of gil""",
    ),
    "player_turn_sum": (
        LEDGERS.format(**TURNS, even="'c1'", less="'c2'", none="'c3'", owed="'c4'"),
        *("ann", "ann|c2|2|3; ann|c3|0|4; ann|c4|7|0"),
    ),
    "player_turn_chain": (
        """+ turn_entries player_id campaign_id entry_id amount balance_after reason: ann c1 e1 3 3 quest |
            ann c1 e2 -1 2 play | ann c2 e3 2 2 quest | ann c2 e4 3 3 quest | ann c2 e5 -1 2 play |
            ann c3 e6 1 5 quest | bob c1 e7 1 5 quest;""",
        "ann",
        """ann|c2|each balance begins as many entries as it ends|0 (2), 2 (-2)
           ann|c3|each balance begins as many entries as it ends|4 (1), 5 (-1)""",
    ),
    "player_turn_spent": (
        """+ plays play_id: p1 | p2;
        + turn_entries player_id campaign_id=c1 entry_id amount reason reference_id: ann e1 -1 play p1 |
            ann e2 -2 play p2 | ann e3 -1 play p9 | ann e4 -1 adjustment p8 | bob e5 -1 play p7;""",
        *("ann", "ann|p2|one turn of one play|2 turns; ann|p9|one turn of one play|no such play"),
    ),
    "player_turn_credited": (
        # Of gus and gea ann has become; a reward stayed with gus, whose turns staff took from ann.
        """+ rewards player_id reward_id campaign_id=c1 type value=3.0 quantity=2 status: ann r1 turns fulfilled |
            ann r2 turns revoked | ann r3 turns fulfilled | ann r4 turns revoked | ann r5 turns fulfilled |
            ann r6 turns fulfilled | ann r7 goods fulfilled | gus r8 turns revoked | bob r9 turns fulfilled |
            ann rx turns fulfilled | ann ry turns fulfilled | ann rz turns fulfilled | ann r0 goods fulfilled;
        + turn_entries player_id campaign_id entry_id amount reason reference_id: ann c1 e1 6 prize r1 |
            ann c1 e2 6 prize r2 | ann c1 e3 -6 reversal r2 | ann c1 e4 5 prize r3 | ann c1 e5 6 prize r4 |
            gea c1 e6 6 prize r5 | ann c1 e7 6 prize r7 | gus c1 e8 6 prize r8 | ann c1 e9 -6 reversal r8 |
            ann c1 f1 6 prize r6 | ann c1 f2 -6 reversal r6 | ann c2 f3 6 prize rx | bob c1 f4 6 prize none |
            ann c1 f5 6 quest none | bob c1 f6 6 prize ry | nobody c1 f7 6 prize rz;""",
        "ann,gus",
        """ann|r3|6 given, 0 taken back|5 given, 0 taken back; ann|r4|6 given, 6 taken back|6 given, 0 taken back
           ann|r6|6 given, 0 taken back|6 given, 6 taken back; ann|rx|6 given, 0 taken back|0 given, 0 taken back
           ann|ry|6 given, 0 taken back|0 given, 0 taken back; ann|rz|6 given, 0 taken back|0 given, 0 taken back
           ann|e7|of a reward of turns|of none""",
    ),
}


async def test_checks_of_wallets_and_turns_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", WALLETS, 0, 1, 3, 4)
