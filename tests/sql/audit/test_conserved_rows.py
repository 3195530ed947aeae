from collections import Counter
from hashlib import sha256
from typing import Final

import asyncpg
import pytest

from runtime.operations.reporting.odds_test import log_ratio
from runtime.rules.log.tree import MerkleTree, hash_leaf
from runtime.rules.raffle.selection import leaf, terms_leaf
from tests.support.bare_rows import Case, bare, hold_to

SCENE: Final = bare("""
+ players player_id: ann | bob | cas;
+ campaigns campaign_id timezone: camp Asia/Tokyo | oth UTC | moved UTC | two Asia/Tokyo;
+ campaigns campaign_id timezone: later UTC;
+ games game_id campaign_id: g1 camp | g2 oth | g3 moved | g4 two | g6 later;
+ prizes prize_id: mug | cup;
+ audit_entries entry_id subject_type subject_id action before after='{"timezone": "Etc/GMT+2"}' created_at:
    a1 campaign moved campaign.update '{"timezone": "Etc/GMT+1"}' 2026-03-02 |
    a2 game camp campaign.update '{"timezone": "Etc/GMT+1"}' 2026-03-02 |
    a3 campaign none campaign.update '{"timezone": "Etc/GMT+1"}' 2026-03-02 |
    a4 campaign camp campaign.create '{"timezone": "Etc/GMT+1"}' 2026-03-02 |
    a5 campaign camp campaign.update '{"timezone": "Etc/GMT+2"}' 2026-03-02 |
    a6 campaign camp campaign.update '{"timezone": "Etc/GMT+1"}' ('2026-03-02'::timestamptz - interval '49 hours') |
    a7 campaign later campaign.update '{"timezone": "UTC"}' 2026-03-09 |
    a8 campaign later campaign.update '{"timezone": "Asia/Tokyo"}' '2026-03-05 00:00:01';
""")
"""Campaign `moved` has changed its zone; of `camp` there is what is only like it, or before. `later` was in Tokyo."""


def played(rows: str) -> str:
    """Plays, named after their player and numbered: player, local time (noon of 2 March), game, revision, session's."""
    made, numbers = "", Counter[str]()
    for row in rows.split("|"):
        player, *of = row.split()
        numbers[player] += 1
        local = of.pop(0) if ":" in row else "2026-03-02 12:00"
        game, revision, who = (*of, *("g1", "1", player)[len(of) :])
        zone = "Asia/Tokyo" if game in ("g1", "g4", "g6") else "UTC"
        made += f"""INSERT INTO plays (play_id, player_id, game_id, revision, session_id, played_at, wins)
            VALUES ('{player}{numbers[player]}', '{player}', '{game}', {revision}, 's.1.h.{who}',
                    timestamp '{local}' AT TIME ZONE '{zone}', 0);\n"""
    return made


A, B, C, D, E, F, G = (letter * 26 for letter in "ABCDEFG")

PLAYS: Final[dict[str, Case]] = {
    "play_session": (
        f"""+ players player_id merged_into: gus ann;
        + plays play_id player_id session_id: play_{A} ann sess_{A}.1.h.ann | play_{B} ann sess_{A}.1.h.ann |
            play_{C} x.ann sass_{C}.1.h.x.ann | play_{D} ann sess_{A}.1.h.ann | play_{E} eve sess_{E}.1.h.ann |
            play_{F} ann sess_{F}.1.h.gus | play_{G} x.ann sess_{G}.1.h.x.ann;""",
        f"play_{A},play_{B},play_{C},play_{E},play_{F},play_{G}",
        f"""play_{B}||sess_{B} of ann|sess_{A} of ann; play_{C}||sess_{C} of x.ann|sass_{C} of x.ann
           play_{E}||sess_{E} of eve|sess_{E} of ann""",
    ),
    "play_terms": (
        f"""ALTER TABLE promised_terms DROP CONSTRAINT promised_terms_check;
        INSERT INTO promised_terms (game_id, revision_hash) VALUES ('g1', '{"a" * 64}'), ('g2', '{"b" * 64}');
        INSERT INTO plays (play_id, game_id, session_id) VALUES ('p1', 'g1', 's.1.{"a" * 32}.ann'),
            ('p2', 'g1', 's.1.{"b" * 32}.ann'), ('p3', 'g1', 's'), ('p4', 'g1', 's')""",
        *("p1,p2,p3", f"""p2||terms {"b" * 32}|none; p3||terms in its session|none"""),
    ),
    "play_rewards": (
        """INSERT INTO plays (play_id, game_id, wins, points, outcome)
            SELECT play, 'g1', wins, 0, json_build_object('rewards', coalesce((
                SELECT json_agg(json_build_object('reward_id', reward, 'prize_id', 'mug', 'quantity', 2, 'value', 1.5,
                                                  'type', 'goods'))
                FROM unnest(kept) AS reward), '[]'))
            FROM (VALUES ('p1', 2, ARRAY['r1', '']), ('p2', 1, '{}'), ('p3', 6, '{r2,r3,r4,r9,ra,rb}'), ('p4', 9, '{}'),
                ('p5', 1, '{r5}'), ('p6', 1, '{r6}')) AS p (play, wins, kept);
        UPDATE plays SET surplus_wins = 1 WHERE play_id = 'p6';
        INSERT INTO plays (play_id, game_id, wins, points, outcome)
            SELECT play, 'g1', 1, points, json_build_object('rewards', json_build_array(kept::json))
            FROM (VALUES
                ('q1', 14, '{"type": "points", "prize_id": "pts", "name": "P", "value": 7.9, "quantity": 2}'),
                ('q2', 15, '{"type": "points", "prize_id": "pts", "name": "P", "value": 7.9, "quantity": 2}'),
                ('q3', 4, '{"type": "item", "prize_id": "", "name": "points", "value": 3, "quantity": 4}'),
                ('q4', 0, '{"type": "item", "prize_id": "", "name": "coin", "value": 3, "quantity": 4}'),
                ('q5', 0, '{"type": "goods", "prize_id": "mug", "name": "points", "value": 3, "quantity": 4}'),
                ('q6', 1, '{"type": "goods", "prize_id": "mug", "name": "Mug", "value": 3, "quantity": 4}')
            ) AS p (play, points, kept);
        INSERT INTO plays (play_id, game_id, wins, points, outcome)
            SELECT 'm' || n, 'g1', 0, 0, json_build_object('rewards', json_build_array(), 'milestones_granted',
                json_build_array(json_build_object('reward_id', 'n' || n, 'prize_id', 'mug', 'id', 'cup')))
            FROM generate_series(1, 6) AS n;
        + rewards reward_id play_id prize_id quantity milestone_id: n1 m1 mug 1 cup | n2 m1 mug 1 cup |
            n3 m3 cup 1 cup | n4 m4 mug 2 cup | n5 m5 mug 1 pot;
        + rewards reward_id play_id prize_id=mug quantity=2 player_id=gus value=1.5: r5 p5 | r6 p6;
        + rewards reward_id play_id prize_id quantity type value: r1 p1 mug 2 goods 1.5 | r2 p9 mug 2 goods 1.5 |
            r3 p3 cup 2 goods 1.5 | r4 p3 mug 1 goods 1.5 | ra p3 mug 2 turns 1.5 | rb p3 mug 2 goods 1.6;""",
        "p1,p2,p3,p5,p6,q1,q2,q3,q4,q5,q6,m1,m2,m3,m4,m5,m6",
        """p2||0 wins, 0 points|1 wins, 0 points; p3|r2|2 of mug, goods of 1.5|2 of mug, goods of 1.5 by p9
           p3|r3|2 of mug, goods of 1.5|2 of cup, goods of 1.5 by p3
           p3|r4|2 of mug, goods of 1.5|1 of mug, goods of 1.5 by p3; p3|r9|2 of mug, goods of 1.5|no such reward
           p3|ra|2 of mug, goods of 1.5|2 of mug, turns of 1.5 by p3
           p3|rb|2 of mug, goods of 1.5|2 of mug, goods of 1.6 by p3; p5||1 of another|0 recorded
           q2||1 wins, 14 points|1 wins, 15 points; q6||1 wins, 0 points|1 wins, 1 points
           m2|n2|1 of mug for rung cup|1 of mug for rung cup by m1
           m3|n3|1 of mug for rung cup|1 of cup for rung cup by m3
           m4|n4|1 of mug for rung cup|2 of mug for rung cup by m4
           m5|n5|1 of mug for rung cup|1 of mug for rung pot by m5; m6|n6|1 of mug for rung cup|no such reward""",
    ),
    "play_entered": (
        """UPDATE campaigns SET entry_since = '2026-02-01', entry = '{"mode": "before_play", "consents": [
            {"id": "terms", "required": true, "text": {"de": "ja", "en": "yes"}},
            {"id": "news", "required": false, "text": {"en": "news"}}]}' WHERE campaign_id = 'camp';
        UPDATE campaigns SET entry_since = '2026-02-01', entry = '{"mode": "before_claim", "consents": []}'
            WHERE campaign_id = 'oth';
        + entries campaign_id player_id entry_id: camp ann ea | camp bob eb | camp cas ec | oth dan ed | camp eve ee;
        INSERT INTO entry_consents (entry_id, consent_id, given, text_sha256, decided_at)
            SELECT entry, 'terms', given, encode(sha256(shown::bytea), 'hex'), at::timestamptz
            FROM (VALUES ('ea', true, 'yes', '2026-02-02'), ('eb', true, 'old', '2026-02-02'),
                ('ec', true, 'yes', '2026-02-04'), ('ee', false, 'ja', '2026-02-02')) AS k (entry, given, shown, at);
        + plays play_id game_id player_id played_at: p1 g1 ann 2026-02-03 | p2 g1 bob 2026-02-03 |
            p3 g1 cas 2026-02-03 | p4 g1 dan '2026-02-01 00:10' | p5 g1 eve 2026-02-03 | p6 g1 dan '2026-02-01 00:09' |
            p7 g2 eve 2026-02-03 | p8 g1 dan 2026-02-03;""",
        "p1,p2,p3,p4,p5,p6,p7",
        """p2||an entry|no receipt of terms; p3||an entry|no receipt of terms; p4||an entry|none
           p5||an entry|no receipt of terms""",
    ),
    "play_counted": (
        """+ plays play_id game_id=g1 player_id: p1 ann | p2 nobody | p3 bob | p4 cas | p5 bob;
        + game_players game_id player_id plays: g1 ann 1 | g1 nobody 1 | g2 bob 1 | g1 cas 0;""",
        "p1,p2,p3,p4",
        """p2||player and counter|no player nobody; p3||player and counter|no counter of bob
           p4||player and counter|no counter of cas""",
    ),
    "task_reward": (
        """+ rewards reward_id prize_id=mug player_id=ann fulfilled_at: r1 - | r3 - | r4 (now()) | r5 - | r6 -;
        + tasks task_id reward_id prize_id player_id status: t1 r1 mug ann pending | t2 r2 mug ann pending |
            t3 r3 mug ann delivered | t4 r4 mug ann pending | t5 r5 cup ann pending | t6 r6 mug bob pending |
            t7 r7 mug ann pending;""",
        "t1,t2,t3,t4,t5,t6",
        """t2||pending, mug of ann|no such reward; t3||delivered, mug of ann|won, mug of ann
           t4||pending, mug of ann|won, mug of ann; t5||pending, cup of ann|won, mug of ann
           t6||pending, mug of bob|won, mug of ann""",
    ),
    "counter_plays": (
        played("ann | bob | ann g2")
        + "INSERT INTO game_players (game_id, player_id, plays) VALUES ('g1', 'ann', 1), ('g1', 'bob', 2)",
        *("g1 ann,g1 bob,g2 ann", "g1 bob||1|2; g2 ann||1|0"),
    ),
    "counter_day": (
        played("""ann | bob | cas | dan | eve | cas 2026-03-02T00:00:02 | dan 2026-03-01T00:00:01 | ann g2 |
            eve 2026-03-03T00:00:05 | fay g3 | gil 2026-02-28T01:00 g6 | hal 2026-02-28T01:00 g6 |
            ivy 2026-03-02T01:00 g6""")
        + """+ game_players game_id=g6 player_id day day_plays: gil 2026-02-28 1 | hal 2026-02-28 2 | ivy 2026-03-02 2;
        + game_players game_id player_id day=2026-03-02 day_plays: g1 ann 1 | g2 ann 5 | g1 bob 2 | g1 cas 1 |
            g1 dan 2 | g1 eve 1 | g3 fay 2;""",
        "g1 ann,g1 bob,g1 cas,g1 dan,g1 eve,g3 fay,g6 gil,g6 hal,g6 ivy",
        "g1 bob|2026-03-02|1|2; g1 dan|2026-03-02|1|2; g6 hal|2026-02-28|1|2; g6 ivy|2026-03-02|1|2",
    ),
    "counter_cap": (
        played("""ann | ann | ann g1 2 | ann g1 2 | ann g1 2 | ann g2 | bob | bob | bob | cas | cas | dan g1 3 | dan |
            dan g1 3 | dan g1 1 gus | eve g1 3 | eve g1 4 | eve g1 4 | fay g1 4 | fay g1 5 | fay g1 5 | gil g1 4 |
            gil g1 4 | gil g1 4 | gil g1 5""")
        + """INSERT INTO game_revisions (game_id, revision, definition)
            SELECT game, revision, jsonb_build_object('rules', jsonb_build_object('max_plays_per_user', cap))
            FROM (VALUES ('g1', 1, 2), ('g1', 2, 0), ('g1', 3, 2), ('g1', 4, 3), ('g1', 5, 1), ('g2', 1, 1))
                AS r (game, revision, cap)""",
        "g1 ann,g1 bob,g1 cas,g1 dan,g1 eve,g1 fay,g1 gil",
        "g1 bob|1 bob|at most 2|3; g1 dan|3 dan|at most 2|3; g1 fay|5 fay|at most 1|2; g1 gil|5 gil|at most 3|4",
    ),
    "counter_day_cap": (
        played("""ann | ann | ann g2 | bob | bob | bob | cas | cas | cas | dan g1 3 | eve g1 2 | eve g1 2 | fay | fay |
            fay 2026-03-02T00:00:02 | hal g1 1 gus | hal g1 1 gus | hal g1 1 gus | ivy g3 | ivy g3 | ivy g3 |
            kim 2026-02-28T00:30 g6 | kim 2026-02-28T12:30 g6 | kim 2026-02-28T22:30 g6 | lou 2026-03-20T21:30 g6 |
            lou 2026-03-20T22:30 g6 | lou 2026-03-21T07:30 g6""")
        + """+ turn_entries player_id entry_id reason reference_id: bob e1 play bob1 | dora e2 play cas1 |
            cas e3 quest cas1 | cas e4 play another | eve e5 play eve1 | eve e6 play eve2 | gus e7 play hal1;
        INSERT INTO game_revisions (game_id, revision, definition)
            SELECT game, revision, jsonb_build_object('rules',
                jsonb_build_object('max_plays_per_day', cap, 'requires_turn', turn))
            FROM (VALUES ('g1', 1, 2, false), ('g1', 2, 1, true), ('g1', 3, 0, false), ('g2', 1, 2, false),
                ('g3', 1, 2, false), ('g6', 1, 2, false)) AS r (game, revision, cap, turn)""",
        "g1 ann,g1 bob,g1 cas,g1 dan,g1 eve,g1 fay,g1 hal,g3 ivy,g6 kim,g6 lou",
        """g6 kim|2026-02-28 1 kim|at most 2|3; g6 lou|2026-03-20 1 lou|at most 2|3
           g1 cas|2026-03-02 1 cas|at most 2|3; g1 eve|2026-03-02 2 eve|at most 1|2""",
    ),
}


async def test_checks_of_plays_and_counters_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", PLAYS, 0, 1, 3, 4)


PRIZES: Final[dict[str, Case]] = {
    "prize_known": (
        """+ stock prize_id: mug | a;
        + codes prize_id code_id: b c;
        + rewards reward_id prize_id: r b;""",
        *("mug,none,a,b", "a||a prize|none, but stock\nb||a prize|none, but codes, rewards"),
    ),
    "prize_stock": (
        """ALTER TABLE stock DROP CONSTRAINT stock_check; ALTER DOMAIN nonnegative DROP CONSTRAINT nonnegative_check;
        + stock prize_id total remaining awarded: mug 5 3 2 | free 0 0 7 | cup 5 4 2 | less 1 -1 2 | more 5 6 -1 |
            none 0 1 2 | new 5 5 0 | x 5 1 1;
        + prizes prize_id: bare | other;""",
        "mug,free,cup,less,more,none,new,bare",
        """bare||a stock|none; cup||3 left|4 left, 2 awarded; less||-1 left|-1 left, 2 awarded
           more||6 left|6 left, -1 awarded; none||0 left|1 left, 2 awarded""",
    ),
    "prize_moves": (
        """+ stock prize_id total remaining awarded=0: mug 9 9 | cup 8 8 | tee 7 7 | hat 0 0;
        + stock_moves prize_id seq total_before total_after: mug 2 5 9 | mug 1 0 5 | cup 2 5 8 | cup 1 0 4 |
            tee 1 0 6 | hat 1 1 1 | bag 1 0 2 | kit 1 0 3;
        + stock prize_id total remaining awarded=0: kit 4 4 | pen 3 3 | pin 2 2 | pot 6 6;
        + prizes prize_id campaign_id=camp: tee | pen | pin | pot;
        + audit_entries entry_id subject_type subject_id action after: b1 prize mug prize.create '{"total": 0}' |
            b2 prize tee prize.create '{"total": 2}' | b3 prize pen prize.create '{"total": 4}' |
            b4 prize pot prize.create '{"total": 6}' | b5 campaign camp campaign.duplicate '{"totals": {"pin": 1}}';""",
        "mug,cup,tee,hat,bag,pen,pin,pot",
        """cup|1|4 in all|5 in all; hat|1|1 in all|0 in all; tee|1|6 in all|7 in all; tee|1|2 in all|0 in all
           pen|1|4 in all|3 in all; pin|1|1 in all|2 in all""",
    ),
    "prize_awarded": (
        """+ stock prize_id total=0 remaining=0 awarded: mug 5 | cup 2 | hat 9;
        + rewards reward_id prize_id quantity status fulfilled_at type: r1 mug 2 won - goods |
            r2 mug 1 claimed - goods | r3 mug 2 revoked (now()) goods | r4 mug 4 revoked - goods |
            r5 mug 3 won - points | r6 cup 1 won - goods;""",
        "mug,cup",
        "cup||1|2",
    ),
    "prize_counters": (
        """+ prize_days prize_id awarded: mug 3 | cup 2;
        + prize_players prize_id player_id awarded: mug ann 2 | mug bob 1 | cup ann 1;""",
        "mug,cup,tee",
        "cup||1 by player|2 by day",
    ),
    "prize_winners": (
        """+ prizes prize_id type: tee goods | pts points | was goods;
        + prize_players prize_id player_id awarded: mug ann 2 | mug bob 1 | mug cas 0 | pts ann 1 | was ann 1 |
            tee ann 1 | cup ann 1;
        + rewards reward_id prize_id player_id: r1 mug ann | r2 cup bob | r3 tee bob;
        + audit_entries entry_id subject_type subject_id before: b1 prize was '{"type": "points"}' |
            b2 game tee '{"type": "points"}' | b3 prize tee '{"type": "goods"}';""",
        *("mug,pts,was,tee", "mug|bob|a reward|1 without; tee|ann|a reward|1 without"),
    ),
    "prize_day_cap": (
        """+ prizes prize_id max_per_day updated_at: two 2 2026-06-01 | free 0 2026-06-01 | late 1 '2026-03-02 09:50Z' |
            hat 2 2026-06-01 | tee 1 2026-06-01;
        + audit_entries entry_id subject_type subject_id action before after='{"max_per_day": 1}' created_at:
            b1 prize late prize.update '{"max_per_day": 5}' '2026-03-02 09:50Z' |
            b2 prize two prize.update '{"max_per_day": 1}' 2026-06-01 |
            b3 game two prize.update '{"max_per_day": 5}' 2026-06-01 |
            b4 prize two prize.create '{"max_per_day": 5}' 2026-06-01 |
            b5 prize hat prize.update '{"max_per_day": 5}' 2026-06-01;
        + prize_days prize_id day awarded: two 2026-03-01 2 | two 2026-03-02 3 | free 2026-03-02 1 |
            late 2026-03-03 2 | late 2026-03-04 2 | hat 2026-03-02 3 | tee 2026-03-02 2;""",
        *("two,free,late", "two|2026-03-02|at most 2|3; late|2026-03-04|at most 1|2"),
    ),
    "prize_codes": (
        """DROP INDEX codes_once; DROP INDEX codes_reward;
        + rewards reward_id prize_id: r1 mug | r2 cup | r3 hat | r4 mug | r5 mug | r6 mug;
        + codes prize_id code_id code_hash reward_id: mug c1 1 r1 | mug c2 2 r9 | mug c3 3 r2 | mug c4 4 - |
            cup c5 5 r3 | mug c6 6 r4 | mug c7 6 r5 | mug c8 8 r6 | mug c9 9 r6 | mug d1 4 -;""",
        "mug",
        """mug|c2|reward r9 of mug|no such reward; mug|c3|reward r2 of mug|of cup; mug|c6|given once|2 times
           mug|c8|given once|2 times""",
    ),
    "prize_free_codes": (
        """+ codes prize_id code_id code_hash expires_at reward_id withdrawn_at: mug c1 1 infinity - - |
            mug c2 2 infinity r1 - | mug c3 3 infinity - (now()) | mug c4 4 '2026-01-01 00:00Z' - - |
            cup c5 5 infinity - - | hat c6 6 infinity - - | tee c7 7 infinity - - | bag c8 8 '2099-01-01Z' - - |
            pen c9 9 '2099-01-01Z' - - | pen d1 1 '2098-01-01Z' r2 -;
        UPDATE code_pools SET ends_at = 'infinity' WHERE prize_id = 'bag';
        UPDATE code_pools SET free = 7 WHERE prize_id IN ('cup', 'tee');
        DELETE FROM code_ends WHERE prize_id = 'hat'""",
        "mug,cup,hat,bag,pen",
        "cup||1|7; hat|infinity|1, 0, 0|0, 0, 0; hat||0|1; bag|ends_at|2099-01-01 00:00:00+00|infinity",
    ),
}


async def test_checks_of_prizes_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", PRIZES, 0, 1, 3, 4)


WON: Final = sha256(b"1 5 h\n").hexdigest()


def root(draw: str, *holders: object) -> str:
    tree = MerkleTree()
    terms = {"id": draw, "name": 'é "x"', "campaign_id": "", "tickets": "", "prizes": [], "alternates": 0}
    tree.add(terms_leaf(terms | {"randomness": {"kind": "K", "at": 9, "value": "v", "source": ""}}))
    tree.add_hashes(hash_leaf(leaf(str(holder), 1)) for holder in holders)
    return tree.root()


DRAWN: Final = """
+ players player_id merged_into: gus hal;
+ draws draw_id confirmed_at prizes result: d (now()) '[{"prize_id": "mug", "count": 3}]' '[
    {"ticket": 1, "holder": "a"}, {"ticket": 2, "holder": "b"}, {"ticket": 5, "holder": "c"},
    {"ticket": 6, "holder": "d"}, {"ticket": 7, "holder": "e"}, {"ticket": 8, "holder": "f"}]' |
    e - '[{"prize_id": "cup", "count": 1}, {"prize_id": "mug", "count": 1}]'
    '[{"ticket": 0, "holder": "a"}, {"ticket": 1, "holder": "x"}, {"ticket": 1, "holder": "b"}]';
+ draw_tickets draw_id first_ticket tickets player_id holder: d 0 2 ann a | d 2 1 bob b | d 3 3 gus c | d 6 1 cas d |
    d 7 1 dan e | d 8 1 fay f | e 0 1 ann a | e 1 1 bob b;
+ rewards reward_id prize_id player_id status: r1 mug ann revoked | r2 mug eve won | r3 mug gus won | r4 cup cas won |
    r5 mug bob won;
+ leaderboard_standings board_id rank player_id score prize_id reward_id reason: d 1 ann 2 mug r1 REPLACED |
    d 2 eve 1 mug r2 '' | d 3 hal 3 mug r3 '' | d 4 cas 1 mug r4 '' | d 5 dan 1 mug r2 REPLACED | d 6 fay 1 mug r2 '' |
    e 1 ann 1 cup r9 REPLACED | e 2 bob 1 mug r5 '' | e 4 eve 1 '' r1 ALTERNATE;
+ audit_entries subject_type=draw subject_id action=draw.replace after: d '{"rank": 1, "alternate": 4}';
"""
BOB, EVE = (sha256(b"salt" + player).hexdigest()[:32] for player in (b"bob", b"eve"))


BOARDS: Final[dict[str, Case]] = {
    "ticket_holder": (
        """+ draws draw_id salt: d salt;
        + draw_tickets draw_id first_ticket player_id holder: d 0 ann (pseudonym('salt', 'ann')) | d 2 eve x |
            d 1 eve (pseudonym('salt', 'bob')) | gone 0 ann x;""",
        *("d 0,d 1,gone 0", f"d 1||the player of {BOB}|eve of {EVE}\ngone 0||the player of x|ann, no such draw"),
    ),
    "draw_hashes": (
        f"""+ draws draw_id name='é "x"' tickets='""' prizes='[]' closed_at tickets_root drawn_at result result_hash
            randomness='{{"kind": "K", "at": 9, "value": "v", "source": ""}}':
            big (now()) {root("big", *range(1, 3001))} (now()) '[{{"ticket": 5, "holder": "h"}}]' {WON} |
            few (now()) {root("few", *range(1, 10))} (now()) '[{{"ticket": 6, "holder": "h"}}]' {WON} |
            kept (now()) {root("kept")} (now()) '[]' x | open - '' - '[]' '' | bare (now()) {root("bare")} - '[]' '';
        INSERT INTO draw_tickets (draw_id, first_ticket, player_id, holder)
            SELECT draw, n, n, n FROM (VALUES ('big', 3000), ('few', 8)) AS d (draw, many), generate_series(1, many) n;
        INSERT INTO audit_entries (entry_id, subject_type, subject_id, action, after)
            SELECT name || draw, 'draw', draw, 'draw.' || name, after::jsonb FROM (VALUES
                ('big', '{root("big", *range(1, 3001))}', '{WON}'), ('few', '{root("few", *range(1, 10))}', '{WON}'),
                ('kept', 'y', '{sha256().hexdigest()}')) AS e (draw, root, hash)
            CROSS JOIN LATERAL (VALUES ('close', jsonb_build_object('tickets_root', root, 'holder_count', 1)),
                ('draw', jsonb_build_object('result_hash', hash))) AS a (name, after)""",
        "big,few,kept,open,bare",
        f"""few|tickets_root|{root("few", *range(1, 10))}|{root("few", *range(1, 9))}
           few|result_hash|{WON}|{sha256(b"1 6 h" + bytes([10])).hexdigest()}; kept|tickets_root|y|{root("kept")}
           kept|result_hash|{sha256().hexdigest()}|x; bare|tickets_root|an audit entry|{root("bare")}""",
    ),
    "draw_ranks": (
        *(DRAWN, "d,e"),
        """d|2|bob 1 mug|eve 1 mug; d|5|dan 1|dan 1 mug replaced; d|6|fay 1|fay 1 mug; e|1|ann 1 cup|ann 1 cup replaced
           e|2|mug|bob 1 mug; e|3|bob 1|no rank; e|4|no rank|eve 1""",
    ),
    "draw_awards": (
        *(DRAWN, "d,e"),
        """d|4|a reward of mug for cas|one of cup for cas; d|5|no reward|one of mug for eve
           d|6|a reward of mug for fay|one of mug for eve; e|1|no reward|no such reward
           e|2|no reward|one of mug for bob; e|4|no reward|one of mug for ann""",
    ),
    "board_ranks": (
        """+ leaderboards board_id: b1 | b2;
        + leaderboard_standings board_id rank score achieved_at player_id: b1 1 10 2026-01-05 1 | b1 2 8 2026-01-01 2 |
            b1 3 8 2026-01-01 3 | b2 1 5 2026-01-01 1 | b2 3 4 2026-01-02 3 | b3 1 5 2026-01-01 1 |
            b3 2 6 2026-01-02 2 | b4 1 5 2026-01-02 1 | b4 2 5 2026-01-01 2 | b9 1 5 2026-01-01 1 |
            b9 2 6 2026-01-02 2;""",
        "b1,b2,b3,b4",
        "b2|3|rank 2, at most 5|rank 3, 4; b3|2|rank 2, at most 5|rank 2, 6; b4|2|rank 2, at most 5|rank 2, 5",
    ),
    "board_scores": (
        """+ players player_id merged_into: gus hal | gil bob;
        + games game_id campaign_id: g5 camp;
        INSERT INTO leaderboards (board_id, campaign_id, game_id, metric, mode, start_date, end_date, finalized_at)
            SELECT board, CASE game WHEN '' THEN 'camp' ELSE '' END, game, metric, mode, to_timestamp(begun),
                   to_timestamp(20), to_timestamp(ended)
            FROM (VALUES ('sum', '', 'score', 'sum', 10, 26), ('best', '', 'score', 'best', 10, 26),
                ('latest', '', 'score', 'latest', 10, 26), ('wins', '', 'wins', 'sum', 10, 26),
                ('points', '', 'points', 'sum', 10, 26), ('plays', '', 'plays', 'sum', 10, 26),
                ('open', '', 'score', 'sum', NULL, 26), ('game', 'g1', 'score', 'sum', 10, 26),
                ('bad', '', 'score', 'sum', 10, 26), ('fresh', '', 'score', 'sum', 10, 18),
                ('aside', '', 'score', 'sum', 10, 26), ('byhand', '', 'score', 'sum', 10, 15),
                ('ever', '', 'score', 'sum', 10, 26), ('live', '', 'score', 'sum', 10, NULL)
            ) AS b (board, game, metric, mode, begun, ended);
        + leaderboard_standings board_id rank player_id score: sum 1 ann 21 | best 1 ann 10 | latest 1 ann 2 |
            wins 1 ann 5 | points 1 ann 13 | plays 1 ann 4 | open 1 ann 119 | game 1 ann 9 | bad 1 ann 18 |
            fresh 1 ann 18 | byhand 1 ann 18 | byhand 2 kit 4 | ever 1 ann 18 | aside 1 ann 18 | sum 2 gus 99 |
            sum 3 bob 99 | live 1 ann 18;
        UPDATE leaderboards SET end_date = NULL WHERE board_id IN ('byhand', 'ever');
        + leaderboard_adjustments board_id player_id entry_id delta: sum ann e1 2 | sum bob e2 50 | none ann e3 70;
        INSERT INTO plays (play_id, player_id, game_id, played_at, score, wins, points)
            SELECT id, player, game, to_timestamp(at), score, wins, points FROM (VALUES
                ('p1', 'ann', 'g1', 10, 3, 1, 5), ('p2', 'ann', 'g1', 11, 4, 2, 1), ('p3', 'ann', 'g1', 9, 100, 1, 1),
                ('p4', 'ann', 'g1', 20, 200, 1, 1), ('p5', 'ann', 'g2', 11, 400, 1, 1),
                ('p6', 'ann', 'g1', 13, 2, 1, 7),
                ('p7', 'ann', 'g5', 12, 10, 1, 0), ('p8', 'zed', 'g1', 11, 5000, 1, 1),
                ('p9', 'kit', 'g1', 10, 5, 1, 1), ('pa', 'kit', 'g1', 20, 7, 1, 1)
            ) AS p (id, player, game, at, score, wins, points)""",
        "sum,best,latest,wins,points,plays,open,game,bad,fresh,byhand,ever,live",
        "bad|1|19|18; fresh|1|19|18; byhand|2|5|4; ever|1|219|18",
    ),
    "board_players": (
        """+ players player_id merged_into: gus hal;
        + games game_id campaign_id: g5 camp;
        INSERT INTO leaderboards (board_id, campaign_id, game_id, start_date, end_date, finalized_at)
            SELECT board, 'camp', game, to_timestamp(10), to_timestamp(ends), to_timestamp(ended)
            FROM (VALUES ('due', '', 20, 21), ('hand', '', NULL, 20), ('game', 'g5', 20, 26), ('live', '', NULL, NULL),
                ('aside', '', 20, 21), ('off', '', 20, 21)) AS b (board, game, ends, ended);
        INSERT INTO plays (play_id, player_id, game_id, played_at)
            SELECT 'p' || row_number() OVER (), player, game, to_timestamp(at) FROM (VALUES ('ann', 'g1', 10),
                ('bob', 'g1', 9), ('cas', 'g1', 20), ('dan', 'g1', 16), ('eve', 'g2', 12), ('fay', 'g5', 14),
                ('gil', 'g1', 12), ('hal', 'g1', 12), ('ida', 'g5', 20), ('jon', 'g5', 9)) AS p (player, game, at);
        INSERT INTO game_players (game_id, player_id) SELECT DISTINCT game_id, player_id FROM plays;
        + game_players game_id player_id: g1 eve | g2 lee;
        + plays play_id player_id game_id played_at: q1 lee g1 (to_timestamp(12));
        UPDATE leaderboards SET start_date = NULL WHERE board_id = 'game';
        + leaderboard_standings board_id rank player_id: due 1 hal | hand 1 hal | off 1 hal | off 2 ann | off 3 fay |
            aside 1 ann;
        + leaderboard_disqualifications board_id player_id reason='': due gil | hand gil | off ann | off hal |
            off gil | due fay | aside ann;
        + leaderboard_adjustments board_id player_id entry_id delta: due kim e1 2 | off fay e2 2 | hand gil e3 1 |
            live kim e4 2;""",
        "due,hand,game,live,off",
        """due|ann|a rank|none; due|kim|a rank|none; hand|ann|a rank|none; hand|fay|a rank|none
           game|fay|a rank|none; game|jon|a rank|none; off|ann|no rank, disqualified|rank 2""",
    ),
    "board_awards": (
        """+ leaderboards board_id: b1 | b2;
        + rewards reward_id prize_id: r1 mug | r2 mug | r3 cup | r4 mug;
        + leaderboard_standings board_id rank player_id prize_id reward_id reason: b1 1 p1 mug r1 '' |
            b1 2 p2 mug '' '' | b1 3 p3 '' r4 '' | b1 4 p4 mug '' GONE | b1 5 p5 mug r2 GONE | b1 6 p6 '' '' '' |
            b1 7 p7 mug r9 '' | b1 8 p8 mug r3 '' | b2 1 p1 mug '' '';""",
        "b1",
        """b1|2|a reward of mug|none; b1|3|no reward|one of mug; b1|5|no reward|one of mug
           b1|7|a reward of mug|no such reward; b1|8|a reward of mug|one of cup""",
    ),
    "day_counts": (
        played(
            """ann | ann | ann 2026-03-02T14:00 | bob g4 | bob 2026-03-01T23:00 g4 | bob 2026-03-03T02:00 g4 | cas g2"""
        )
        + """UPDATE plays SET wins = 1 WHERE play_id = 'ann1';
        + campaign_marks campaign_id counted_until: camp '2026-03-02 14:00+09' | two 2026-06-01 | oth 2026-06-01;
        + campaign_days campaign_id day plays players=1 wins: camp 2026-03-02 2 1 | camp 2026-03-07 77 1 |
            two 2026-03-02 1 0 | oth 2026-03-02 5 0;""",
        "camp 2026-03-02,two 2026-03-02,oth 2026-03-02",
        "oth 2026-03-02||1 plays, 1 players, 0 wins|5 plays, 1 players, 0 wins",
    ),
    "day_quarters": (
        played("ann | ann | ann 2026-03-02T14:00 | bob g4 | bob 2026-03-02T00:10 g4 | bob 2026-03-03T00:00 g4 | cas g2")
        + """UPDATE plays SET wins = 2 WHERE play_id = 'ann1';
        + figure_marks counted_until: '2026-03-02 14:00+09';
        + game_quarters game_id quarter plays wins: g1 '2026-03-02 12:00+09' 2 1 | g1 '2026-03-03 00:00+09' 9 9 |
            g4 '2026-03-02 12:00+09' 1 1 | g4 '2026-03-01 23:45+09' 9 9 | g4 '2026-03-02 23:45+09' 1 0 |
            g2 '2026-03-02 12:00Z' 1 0;""",
        "camp 2026-03-02,two 2026-03-02,oth 2026-03-02",
        """two 2026-03-02|g4 2026-03-01T15:00Z|1 plays, 0 wins|0 plays, 0 wins
           two 2026-03-02|g4 2026-03-02T03:00Z|1 plays, 0 wins|1 plays, 1 wins
           two 2026-03-02|g4 2026-03-02T14:45Z|0 plays, 0 wins|1 plays, 0 wins
           oth 2026-03-02|g2 2026-03-02T12:00Z|0 plays, 0 wins|1 plays, 0 wins""",
    ),
    "campaign_players": (
        """+ campaign_marks campaign_id players returned: camp 2 1 | oth 3 0 | two 0 0 | cut 5 0 | wet 1 1;
        + campaign_player_days campaign_id player_id day: camp ann 2026-03-01 | camp ann 2026-03-02 |
            camp bob 2026-03-01 | oth ann 2026-03-01 | wet bob 2026-03-02;""",
        "camp,oth,two,wet",
        "oth||1 players, 0 returned|3 players, 0 returned; wet||1 players, 0 returned|1 players, 1 returned",
    ),
    "campaign_codes": (
        r"""+ pack_codes campaign_id code_hash pack_id redemption_id: camp '\x01' p1 r1 | camp '\x02' p1 r2 |
            camp '\x03' p1 - | camp '\x04' p1 r4 | oth '\x05' p2 r5;
        + redemptions redemption_id code_hash: r1 '\x01' | r4 '\x09' | r9 '\x02';""",
        *("camp", "camp|p1 02|a redemption|none; camp|p1 04|a redemption|none"),
    ),
    "campaign_pack_counts": (
        r"""+ packs pack_id campaign_id turns=1 amount=0 codes withdrawn: p1 camp 2 1 | p2 camp 1 0 | p3 camp 0 0 |
            p4 oth 9 0 | p5 camp 1 0;
        + pack_codes campaign_id code_hash pack_id withdrawn_at: camp '\x01' p1 (now()) | camp '\x02' p1 - |
            oth '\x03' p2 - | camp '\x04' p5 (now());""",
        "camp",
        "camp|p2|0 codes, 0 withdrawn|1 codes, 0 withdrawn; camp|p5|1 codes, 1 withdrawn|1 codes, 0 withdrawn",
    ),
    "campaign_entries": (
        """+ entry_counts campaign_id entries: camp 1 | oth 2 | two 1 | moved 5;
        + entries campaign_id player_id entry_id counted: camp ann e1 true | camp bob e2 false | oth ann e3 true |
            two ann e4 true | two bob e5 true | later ann e6 true;""",
        *("camp,oth,two,later", "oth||1|2; two||2|1"),
    ),
    "campaign_odds": (
        """INSERT INTO game_revisions (game_id, revision, definition)
        SELECT game, revision, jsonb_build_object('reward_handler', handler, 'handler_config', config::jsonb)
        FROM (VALUES
            ('g1', 1, 'probability', '{"prizes": [{"prize_id": "mug", "probability": 0.1}]}'),
            ('g1', 2, 'probability', '{"prizes": [{"prize_id": "mug", "probability": 0.1}]}'),
            ('g2', 1, 'lucky_item', '{"items": [{"item": "coin", "weight": 3}, {"item": "gem", "weight": 0}]}'),
            ('g4', 1, 'moments', '{"prizes": [{"prize_id": "mug"}]}'),
            ('g4', 2, 'score_to_tier', '{"prize_groups": {"tin": [{"prize_id": "mug", "probability": 0.1}],
                                                          "gold": [{"prize_id": "mug", "probability": 0.5}]}}')
        ) AS r (game, revision, handler, config);
        INSERT INTO game_draws (game_id, quarter, revision, prize_group, drawn, draws)
        SELECT game, timestamptz '2026-03-02' + nth * interval '15 minutes', revision, prize_group, drawn, draws
        FROM (VALUES
            ('g1', 1, 1, '', 'mug', 700), ('g1', 2, 1, '', 'mug', 500), ('g1', 1, 1, '', '', 8800),
            ('g1', 1, 2, '', 'mug', 1120), ('g1', 1, 2, '', '', 8880),
            ('g2', 1, 1, '', 'coin', 9), ('g2', 1, 1, '', 'gem', 1), ('g2', 1, 1, '', 'cup', 2),
            ('g4', 1, 1, '', 'mug', 9),
            ('g4', 1, 2, 'tin', 'mug', 1200), ('g4', 1, 2, 'tin', '', 8800), ('g4', 1, 2, '', '', 999),
            ('g4', 1, 2, 'gold', 'mug', 5000), ('g4', 1, 2, 'gold', '', 5000)
        ) AS d (game, nth, revision, prize_group, drawn, draws)""",
        "camp,oth,two",
        """camp|g1 1 mug|about 1000 of 10000|1200; camp|g1 1|about 9000 of 10000|8800
           oth|g2 1 coin|about 12 of 12|9; oth|g2 1 gem|about 0 of 12|1; oth|g2 1 cup|about 0 of 12|2
           two|g4 2 tin mug|about 1000 of 10000|1200; two|g4 2 tin|about 9000 of 10000|8800""",
    ),
}


async def test_odds_are_tested_alike_in_the_database_and_in_figures(connection: asyncpg.Connection) -> None:
    for case in ((0, 10, 0.5), (1200, 10_000, 0.1), (5_400, 60_000, 0.1), (3, 9_000_000, 1e-7), (40, 50, 0.999)):
        found = await connection.fetchval("SELECT odds_log_ratio($1, $2, $3)", *map(float, case))
        assert found == pytest.approx(log_ratio(*case), rel=1e-6, abs=1e-6)


async def test_checks_of_boards_and_campaigns_find_what_breaks_them(connection: asyncpg.Connection) -> None:
    await hold_to(connection, "conservation", BOARDS, 0, 1, 3, 4)
