from typing import Final

import asyncpg

from tests.support.bare_rows import MERGED, Case, hold_to

SCENE: Final = MERGED

REWARDS: Final[dict[str, Case]] = {
    "player_due_task": (
        """+ prizes prize_id redemption_mode channel updated_at: win on_win webhook DEFAULT |
            claim on_claim webhook DEFAULT | hand on_win manual DEFAULT | handed on_claim manual DEFAULT |
            new on_win webhook 2026-03-01 | newer on_claim webhook 2026-03-01;
        + audit_entries entry_id subject_type subject_id action before after created_at=2026-02-01:
            a1 prize new prize.update '{"channel": "none"}' '{"channel": "webhook"}' |
            a2 prize newer prize.update '{"redemption_mode": "on_win"}' '{"redemption_mode": "on_claim"}' |
            a3 prize win prize.update '{"name": "a"}' '{"name": "b"}' |
            a4 game win prize.update '{"channel": "a"}' {} | a5 prize win prize.create '{"channel": "a"}' {};
        + rewards player_id reward_id prize_id status type won_at=2026-01-01 claimed_at=2026-01-01:
            ann due hand fulfilling goods | ann won win won goods | ann tasked win won goods |
            ann points win won points | ann later claim won goods | ann handed hand won goods |
            ann gone win expired goods | ann claimed claim claimed goods | ann had win claimed goods |
            ann taken handed claimed goods | ann back claim revoked goods | bob theirs win won goods;
        + rewards player_id=ann reward_id prize_id status won_at claimed_at: n0 new won '2026-02-01 00:10' - |
            n1 new won '2026-02-01 00:11' - | n2 newer claimed 2026-01-01 '2026-02-01 00:10' |
            n3 newer claimed 2026-01-01 '2026-02-01 00:11' | n4 new won 2026-01-01 - | n5 newer won 2026-01-01 - |
            n6 newer claimed 2026-01-01 2026-01-01 | n7 gone failed 2026-01-01 -;
        + tasks task_id reward_id: t1 tasked;""",
        "ann",
        """ann|due|a task|none, and fulfilling; ann|won|a task|none, and won; ann|handed|a task|none, and won
           ann|claimed|a task|none, and claimed; ann|taken|a task|none, and claimed; ann|n1|a task|none, and won
           ann|n3|a task|none, and claimed; ann|n4|a task|none, and won; ann|n5|a task|none, and won
           ann|n7|a task|none, and failed""",
    ),
    "player_outcome": (
        """INSERT INTO plays (play_id, player_id, outcome) VALUES
            ('p1', 'ann', '{"rewards": [{"reward_id": "r1"}], "milestones_granted": [{"reward_id": "m1"}]}'),
            ('p2', 'bob', '{"rewards": [{"reward_id": "r4"}]}'), ('p3', 'ann', '{"rewards": [{"reward_id": "g1"}]}');
        + rewards player_id reward_id play_id milestone_id: ann r1 p1 '' | ann m1 p1 cup | ann r2 p1 '' |
            ann r3 p9 '' | ann r4 p2 '' | ann r5 '' '' | gus g1 p3 '' | bob r6 p9 '';""",
        "ann,gus",
        "ann|r2|listed in p1|not listed; ann|r3|listed in p9|no such play; ann|r4|listed in p2|a play of bob",
    ),
    "player_prize_counter": (
        """+ prizes prize_id type: mug goods | cup goods | tee goods | hat goods | pts points | was goods;
        + rewards player_id reward_id prize_id quantity: ann r1 mug 1 | ann r2 mug 1 | ann r3 cup 2 | ann r4 tee 1 |
            ann r5 hat 1 | ann r6 pts 1 | ann r7 was 1 | bob r8 cup 1;
        + prize_players player_id prize_id awarded: ann mug 2 | ann cup 1 | ann hat 2 | ann pts 3 | ann was 2 |
            bob mug 5;
        + audit_entries entry_id subject_type subject_id before: a1 prize was '{"type": "points"}' |
            a2 game hat '{"type": "points"}' | a3 prize hat '{"type": "goods"}';""",
        *("ann", "ann|cup|2|1; ann|tee|1|0; ann|hat|1|2"),
    ),
    "player_prize_cap": (
        """+ prizes prize_id max_per_user updated_at: two 2 DEFAULT | three 2 DEFAULT | free 0 DEFAULT |
            late 1 2026-03-01 | later 1 2026-03-01;
        + audit_entries entry_id subject_type subject_id action before after created_at=2026-02-01:
            a1 prize late prize.update '{"max_per_user": 3}' '{"max_per_user": 1}' |
            a2 prize later prize.update '{"max_per_user": 3}' '{"max_per_user": 1}' |
            a3 prize three prize.update '{"name": "a"}' '{"name": "b"}' |
            a4 game three prize.update '{"max_per_user": 3}' {} | a5 prize three prize.create '{"max_per_user": 3}' {};
        + rewards player_id reward_id prize_id quantity won_at: ann r1 two 2 2026-01-01 | ann r2 three 2 2026-01-01 |
            ann r3 three 1 2026-01-01 | ann r4 free 1 2026-01-01 | ann r5 late 2 '2026-02-01 00:10' |
            ann r6 later 2 '2026-02-01 00:11' | bob r7 three 3 2026-01-01 | ann r8 late 1 '2026-02-01 00:11';""",
        *("ann", "ann|three|at most 2|3; ann|later|at most 1|2"),
    ),
    "player_code_taken": (
        """+ prizes prize_id channel updated_at: v voucher_code DEFAULT | w none DEFAULT | n voucher_code 2026-03-01 |
            o none DEFAULT;
        + audit_entries entry_id subject_type subject_id action before after created_at=2026-02-01:
            a1 prize n prize.update '{"channel": "none"}' '{"channel": "voucher_code"}' |
            a5 prize o prize.update '{"channel": "voucher_code"}' '{"channel": "none"}' |
            a2 prize v prize.update '{"name": "a"}' '{"name": "b"}' | a3 game v prize.update '{"channel": "none"}' {} |
            a4 prize v prize.create '{"channel": "none"}' {};
        + rewards player_id reward_id prize_id status play_id milestone_id type won_at:
            ann k1 v won p '' goods 2026-01-01 | ann k2 v claimed '' m goods 2026-01-01 |
            ann k3 v won '' '' goods 2026-01-01 | ann k4 v won p '' points 2026-01-01 |
            ann k5 v fulfilled p '' goods 2026-01-01 | ann k6 v won p '' goods 2026-01-01 |
            ann k7 w won p '' goods 2026-01-01 | ann k8 n won p '' goods '2026-02-01 00:10' |
            ann k9 n won p '' goods '2026-02-01 00:11' | bob k0 v won p '' goods 2026-01-01 |
            ann ka n won p '' goods 2026-01-01 | ann kb o won p '' goods 2026-01-01;
        + codes code_id reward_id: c1 k6;""",
        "ann",
        "; ".join(f"ann|k{nth}|a code|none, and {'claimed' if nth == '2' else 'won'}" for nth in "129b"),
    ),
    "player_code_returned": (
        """+ rewards player_id reward_id status fulfilled_at: ann k1 revoked - | ann k2 won - | ann k3 expired (now()) |
            bob k4 revoked -;
        + codes code_id code_hash reward_id: c1 1 k1 | c2 2 k2 | c3 3 k3 | c4 4 k4;""",
        *("ann", "ann|k1|no code|c1, and revoked"),
    ),
    "player_code_delivered": (
        """+ rewards player_id reward_id status fulfilled_at: ann k1 fulfilled (now()) | ann k2 won - |
            ann k3 fulfilled (now()) | ann k4 fulfilled (now()) | bob k5 fulfilled (now());
        INSERT INTO tasks (task_id, reward_id, channel) SELECT 't' || n, 'k' || n,
            CASE n WHEN 4 THEN 'webhook' ELSE 'voucher_code' END FROM generate_series(1, 5) AS n;
        + codes code_id reward_id: c3 k3;""",
        *("ann", "ann|k1|a code|none, and fulfilled"),
    ),
    "player_revoked": (
        """+ rewards player_id reward_id status: ann r1 revoked | ann r2 revoked | ann r3 won | gus r4 revoked |
            gus r5 revoked | bob r6 revoked;
        + audit_entries entry_id subject_type subject_id action after: a1 reward r2 reward.revoke {} |
            a2 prize r1 reward.revoke {} | a3 reward r1 reward.claim {} |
            a4 player ann player.merge_surplus '{"rewards": ["r4"]}' |
            a5 reward ann player.merge_surplus '{"rewards": ["r5"]}' |
            a6 player bob player.merge_surplus '{"rewards": ["r5"]}' |
            a7 player ann player.merge '{"rewards": ["r5"]}';""",
        *("ann,gus", "ann|r1|an entry of the audit log|none; gus|r5|an entry of the audit log|none"),
    ),
    "player_rung_reward": (
        """+ rewards player_id reward_id game_id=g1 milestone_id play_id: ann r1 cup p | ann r2 cup2 p | ann r3 cup3 p |
            ann r4 x p | ann r5 '' p | gus r6 six p | ann r7 sev p | bob r8 x p | ann ra ten '' | ann rb elf '';
        + milestone_grants player_id=ann game_id=g1 milestone_id reward_id reply: ten ra - | elf rb {};
        + milestone_grants player_id game_id milestone_id reward_id: ann g1 cup r1 | ann g1 pot r9 | ann g1 jar r2 |
            ann g1 cup2 r2 | ann g2 cup3 r3 | ann g1 cup3 r3 | ann g1 none '' | bob g1 pot r9 | ann g1 six r6 |
            bob g1 sev r7 | ann g2 sev r7 | ann g1 sevv r7 | ann g1 sev r1;""",
        "ann,gus",
        """ann|ra|a play or redeem that granted rung ten|none; ann|g1 pot|reward r9|no such reward
           ann|g1 jar|reward r2|of rung cup2; ann|r7|a play or redeem that granted rung sev|none
           ann|g2 cup3|reward r3|of rung cup3; ann|g2 sev|reward r7|of rung sev; ann|g1 sevv|reward r7|of rung sev
           ann|g1 sev|reward r1|of rung cup; ann|r4|a play or redeem that granted rung x|none""",
    ),
    "player_credited": (
        """+ rewards player_id reward_id type value quantity: ann r1 points 10.9 2 | ann r2 points 10 1 |
            ann r3 points 0.5 3 | ann r4 goods 10 1 | gus r5 points 3 1 | ann r6 points 5 1 | ann r7 points 6 1 |
            bob r8 points 7 1;
        + ledger_entries player_id entry_id scope_key currency reason reward_id amount:
            ann e1 w points play_reward r1 12 | ann e2 v points play_reward r1 8 | ann e3 w points play_reward r2 100 |
            ann e4 w points play_reward r4 1 | ann e5 w points play_reward r5 3 | ann e6 w coin play_reward r6 5 |
            ann e7 w points reversal r7 6 | ann e8 w points play_reward '' 9 | ann e9 w points play_reward rx 9 |
            ann ea w points reversal r4 -1 | bob e0 w points play_reward ry 9;""",
        "ann,gus",
        """ann|r2|10|100; ann|r6|5|0; ann|r7|6|0; ann|e4|of a reward of points|of none
           ann|e9|of a reward of points|of none""",
    ),
    "player_adjusted": (
        """+ ledger_entries player_id=ann entry_id reason=adjustment amount: e1 1 | e2 2 | e3 3 | e4 4 | e5 5 | e6 6;
        + ledger_entries player_id entry_id reason amount: ann e7 adjustment 7 | ann e8 reversal 8 |
            bob e9 adjustment 9;
        + turn_entries player_id entry_id reason amount: ann t1 adjustment 1 | ann t2 adjustment 2 | ann t3 quest 3 |
            bob t4 adjustment 4;
        + audit_entries entry_id subject_type subject_id action after:
            a1 player ann player.adjust_balance '{"entry_id": "e1", "amount": 1}' |
            a2 player gus player.adjust_balance '{"entry_id": "e2", "amount": 2}' |
            a3 player ann player.adjust_balance '{"entry_id": "e3", "amount": 30}' |
            a4 player bob player.adjust_balance '{"entry_id": "e4", "amount": 4}' |
            a5 prize ann player.adjust_balance '{"entry_id": "e5", "amount": 5}' |
            a6 player ann player.grant_turns '{"entry_id": "e6", "amount": 6}' |
            a7 player ann player.adjust_balance '{"id": "e7", "amount": 7}' |
            a8 player ann player.grant_turns '{"id": "t1", "amount": 1}';""",
        "ann",
        """ann|e3|3 in the audit log|nothing; ann|e4|4 in the audit log|nothing; ann|e5|5 in the audit log|nothing
           ann|e6|6 in the audit log|nothing; ann|e7|7 in the audit log|nothing; ann|t2|2 in the audit log|nothing""",
    ),
    "player_turn_needed": (
        """+ plays player_id play_id game_id revision: ann p1 g1 1 | ann p2 g1 1 | ann p3 g1 2 | ann p4 g2 1 |
            ann p5 g1 1 | bob p6 g1 1 | ann p7 g1 1 | ann p8 g1 1;
        INSERT INTO game_revisions (game_id, revision, definition) VALUES
            ('g1', 1, '{"rules": {"requires_turn": true}}'), ('g1', 2, '{"rules": {"requires_turn": false}}'),
            ('g2', 1, '{"rules": {}}'), ('g2', 2, '{"rules": {"requires_turn": true}}');
        + turn_entries player_id entry_id reason reference_id: ann e1 play p1 | gus e2 play p2 | bob e5 play p5 |
            ann e7 quest p7;""",
        *("ann", "ann|p5|a turn|none spent; ann|p7|a turn|none spent; ann|p8|a turn|none spent"),
    ),
    "player_board_reward": (
        """+ leaderboards board_id campaign_id: b1 c | b2 d | b3 c;
        + rewards player_id reward_id campaign_id=c play_id milestone_id: ann r1 '' '' | ann r2 '' '' | gus r3 '' '' |
            ann r4 '' '' | ann r5 '' '' | ann r6 '' '' | ann r7 p '' | ann r8 '' m | bob r9 '' '' | ann r10 '' '';
        + leaderboard_standings board_id rank player_id reward_id: b1 1 ann r1 | b1 2 gus r2 | b3 1 ann r3 |
            b1 4 bob r4 | b2 1 ann r5 | b1 5 nobody r10;""",
        "ann,gus",
        """ann|r4|a rank of a board or draw|none; ann|r5|a rank of a board or draw|none
           ann|r6|a rank of a board or draw|none; ann|r10|a rank of a board or draw|none""",
    ),
    "player_quests": (
        """+ quests quest_id type=daily campaign_id=c: q1 | q2 | q3 | q4 | q5 | q6 | q7 | q8 | q10;
        + quests quest_id type=daily campaign_id: q9 other;
        + turn_balances player_id campaign_id: ann c | bob other;
        + quest_completions player_id quest_id period turns: ann q1 a 2 | ann q1 b 2 | gus q2 a 2 | ann q3 a 2 |
            ann q5 a 2 | ann q6 a 0 | bob q7 a 2 | ann q8 a 2 | ann q9 a 2 | cas q1 a 2 | ann q10 a 2;
        + turn_entries player_id entry_id reason reference_id amount: ann e1 quest q1 2 | ann e2 quest q1 2 |
            gus e3 quest q2 2 | ann e4 quest q4 2 | ann e5 quest q5 2000 | bob e7 quest q7 3 | ann e8 prize q8 2 |
            cas e9 quest q1 2 | gus e10 quest q10 2 | gal e11 quest q1 2 | gus e12 quest q2 2 | cas e13 quest q1 2;
        + quest_completions player_id quest_id period turns=2: gus q2 referral-1 | cas q1 referral-1;
        + referrals player_id campaign_id inviter_id outcome: fay c gus paid | gil c cas open | bob other ann paid;""",
        "ann,gus,cas",
        """ann|q3|2 turns, 1 times|0 turns, 0 times; ann|q4|0 turns, 0 times|2 turns, 1 times
           ann|q5|2 turns, 1 times|2000 turns, 1 times; ann|q8|2 turns, 1 times|0 turns, 0 times
           cas|c|0 referrals|1 referrals; ann|other|1 referrals|0 referrals""",
    ),
    "player_codes": (
        """+ redemptions redemption_id player_id campaign_id=c code_hash receipt_id turns scope_key=c amount
            currency=coin: r1 ann x1 - 2 0 | r2 ann x2 - 2 0 | r3 ann x3 - 0 5 | r4 ann x4 - 0 5 | r5 cas x5 - 0 5 |
            r6 ann - till 0 5 | r7 ann x7 - 0 5 | r8 ann x8 - 0 5;
        + pack_codes campaign_id=c code_hash redemption_id: x1 r1 | x2 r2 | x3 r3 | x4 r4 | x5 r5 | x6 r6 | x7 r7;
        + turn_entries player_id entry_id campaign_id=c reason reference_id amount=2: gus e1 code r1 |
            ann e2 quest r2 | ann e3 code r0;
        + ledger_entries player_id=ann entry_id scope_key=c currency reason=code reference_id amount: e4 coin r3 5 |
            e5 coin r4 5 | e6 coin r4 5 | e7 coin r6 4 | e8 gem r7 5 | e9 coin r8 5;""",
        "ann,gus",
        """ann|r0|nothing|2 turns c, times 1; ann|r2|2 turns c, once|nothing
           ann|r4|5 coin c, once|10 coin c, times 2; ann|r6|5 coin c, once|4 coin c, times 1
           ann|r7|5 coin c, once|5 gem c, times 1; ann|r8|a code that it uses|none""",
    ),
    "player_rung_paid": (
        """+ rewards player_id=ann reward_id game_id: r2 g1 | r3 g1 | r4 g1 | r5 g1 | r6 g1 | r7 g1 | r8 g2 | r9 g1 |
            r10 g3 | r11 g1 | r12 g1 | r13 g1 | r14 g1 | r15 g2 | r16 g2 | r17 g2 | r18 g4;
        + rewards player_id reward_id game_id: gus r1 g1;
        + milestone_grants player_id game_id milestone_id reward_id granted_at=2026-01-02
            reply='{"milestone": {"threshold": 4, "currency": "coin"}}': gus g1 m1 r1 | ann g1 m2 r2 | ann g1 m3 r3 |
            ann g1 m4 r4 | ann g1 m5 r5 | ann g2 m8 r8 | ann g1 m9 r9 | ann g3 m10 r10 | bob g1 m11 r11 |
            ann g3 m12 r12 | ann g1 other r13 | ann g1 m14 r1 | ann g2 m15 r15 | ann g2 m16 r16 | ann g4 m18 r18;
        + milestone_grants player_id game_id milestone_id reward_id granted_at: ann g2 m17 r17 2026-01-02;
        + milestone_grants player_id game_id milestone_id reward_id reply granted_at: bob g2 m8 r0 {} 2026-01-02;
        + game_revisions game_id revision definition created_at:
            g2 1 '{"milestones": {"mode": "cumulative_unlock"}}' 2026-01-01 |
            g2 2 '{"milestones": {"mode": "spend_exchange"}}' '2026-01-01 12:00' |
            g2 3 '{"milestones": {"mode": "cumulative_unlock"}}' '2026-01-02 00:11' |
            g3 1 '{"milestones": {"mode": "spend_exchange"}}' '2026-01-01 12:00' |
            g3 2 '{"milestones": {"mode": "cumulative_unlock"}}' '2026-01-02 00:10' |
            g4 1 '{"milestones": {"mode": "cumulative_unlock"}}' 2026-01-01 |
            g4 2 '{"milestones": {"mode": "spend_exchange"}}' '2026-01-01 23:50' | g1 9 {} 2026-01-01;
        + ledger_entries player_id entry_id scope_key=w currency reason reference_id reward_id amount:
            ann e1 coin milestone_spend m1 r1 -4 | ann e2 coin milestone_spend m2 r2 -4 |
            ann e3 coin milestone_spend m3 r3 -3 | ann e4 coin milestone_spend m4 r4 -2 |
            ann e5 coin milestone_spend m4 r4 -2 | ann e6 gem milestone_spend m5 r5 -4 |
            ann e7 coin milestone_spend m6 r6 -4 | ann e8 coin adjustment m7 r7 -4 |
            bob e9 coin milestone_spend m2 r2 -9 | ann f1 coin milestone_spend m11 r11 -4 |
            ann f2 coin milestone_spend m12 r12 -4 | ann f3 coin milestone_spend m13 r13 -4 |
            ann f4 coin milestone_spend m14 r14 -4 | ann f5 coin milestone_spend m15 r15 -4 |
            gus f6 coin milestone_spend m16 r16 -4 | nobody f7 coin milestone_spend m0 r0 -4;""",
        "ann,gus,gal",
        """ann|r3|4 coin|3 coin in 1; ann|r4|4 coin|4 coin in 2; ann|r5|4 coin|4 gem in 1
           ann|r6|a redeem of m6|4 coin in 1; ann|r11|a redeem of m11|4 coin in 1
           ann|r12|a redeem of m12|4 coin in 1; ann|r13|a redeem of m13|4 coin in 1
           ann|r14|a redeem of m14|4 coin in 1; ann|g2 m8|4 coin|not paid; ann|g2 m16|4 coin|not paid""",
    ),
}


async def test_checks_of_rewards_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", REWARDS, 0, 1, 3, 4)


MERGED: Final[dict[str, Case]] = {
    "player_merged": (
        """+ plays play_id player_id: p1 ann | p2 gus | p3 gor;
        + balances player_id: ann | gus;
        + game_players player_id game_id plays: ann g1 1 | gus g2 1 | gea g2 0;
        + ledger_entries player_id reason=adjustment: ann | gus;
        + contacts contact_id player_id value: x1 ann 1 | x2 gus 2;
        + rewards reward_id player_id status type: r1 ann won goods | r2 gus won turns | r3 gus fulfilled goods |
            r4 gus revoked goods | r5 gus expired goods | r6 gea revoked turns | r7 gea fulfilled goods |
            r8 gil fulfilled turns;
        + milestone_grants player_id game_id milestone_id: gus g1 cup | ann g1 cup | gus g1 pot | bob g1 pot |
            ann g2 pot | ann g1 jar;
        + quests quest_id type=daily: q1 | q2;
        + quest_completions quest_id player_id period: q1 gus d1 | q1 ann d1 | q1 gus d2 | q1 bob d2 | q1 ann d3 |
            q2 ann d2 | q9 gus d1 | q9 gea d1;
        + quest_events quest_id=q1 event_id player_id: e1 bob | e2 gus;
        + redemptions redemption_id player_id receipt_id: r1 ann t1 | r2 gus t2;
        + turn_balances player_id campaign_id balance: gus c1 2 | gea c1 2 | gea c2 0 | ann c1 2 | gil c1 2;""",
        "ann,gus,gea,gil,gal",
        """gus|plays|0|1; gus|game_players|0|1; gus|balances|0|1; gus|ledger_entries|0|1; gus|contacts|0|1
           gus|rewards|0|1; gus|milestone_grants|0|1; gus|quest_completions|0|1; gus|quest_events|0|1
           gus|redemptions|0|1; gea|turn_balances|0|1; gil|merged_into|0|1; gal|merged_into|0|1""",
    ),
    "player_turns_merged": (
        """+ turn_entries entry_id player_id campaign_id amount reason reference_id: e1 gus c1 -3 merge ann |
            e2 ann c1 3 merge gus | e3 bob c1 9 merge gus | e4 ann c2 9 merge gus | e5 ann c1 9 quest gus |
            e6 ann c1 9 merge other | e7 ann c1 -1 merge gus | e8 gus c3 -1 play ann | e9 gea c1 -3 merge ann |
            e10 ann c1 2 merge gea | e11 hal c1 2 merge gio | e12 gio c1 -2 merge hal | e13 hal c1 5 merge ned |
            e14 xim c1 -5 merge hal | e15 ned c2 -5 merge hal | e16 ned c1 -5 adjustment hal | e17 ned c1 -5 merge zed |
            e18 ned c1 5 merge hal | e19 hal c1 1 quest q;""",
        *("gus,gea,hal", "gea|c1|3|2; hal|e13|given by ned|not"),
    ),
}


async def test_checks_of_merged_players_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", MERGED, 0, 1, 3, 4)
