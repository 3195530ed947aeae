from collections.abc import Iterator
from typing import Any, Final

import asyncpg

import sql
from tests.support.bare_rows import scene

SCENE: Final = """
+ tenants tenant_id name: t T;
+ merchants tenant_id=t merchant_id name status: shop S active | other O suspended;
+ campaigns tenant_id=t campaign_id merchant_id name=C status: camp shop active | camp_2 other paused | camp_3 '' draft;
+ rewards tenant_id=t player_id prize_id campaign_id game_id name=Mug type=goods value=5 quantity=1 reward_id status
    expires_at: ann mug camp game r3 won - | ann mug camp_2 game r1 won - | ann cup camp game r2 won - |
    ann mug camp game_2 r6 won - | ann mug camp game r5 claimed - |
    ann mug camp game r4 won (now() - interval '1 hour') |
    ann mug camp game r8 won (now() - interval '1 hour') | ann mug camp_3 game r9 fulfilled - |
    bob mug camp game r7 won -;
+ tasks tenant_id=t task_id reward_id prize_id campaign_id player_id=ann channel=webhook status:
    k2 r8 mug camp pending | k1 r9 mug camp_2 pending | k3 r5 cup camp pending | k4 r2 mug camp_3 dead;
+ codes tenant_id=t prize_id code_id key_id=k ciphertext code_hash reward_id: mug c3 three 3 r3 | mug c9 nine 9 r9 |
    mug c0 zero 0 - | p2 c0 zero 0 -;
+ claim_answers tenant_id=t reward_id answers='[]': r5;
+ contacts tenant_id=t contact_id player_id type value verified: x6 ann phone 7 true | x7 ann email a@ true |
    x8 ann email late@ false | x9 bob email b@ true;
+ balances tenant_id=t player_id scope_key currency balance=1: ann camp leaf | ann camp_2 coin | ann camp coin |
    ann camp_2 acorn | bob camp coin;
+ ledger_entries tenant_id=t player_id scope_key currency entry_id seq amount=1 balance_after=1 reason=adjustment
    reference_id='': ann camp coin e3 3 | ann camp_2 coin e1 2 | ann camp leaf e2 2 | ann camp coin e4 1 |
    bob camp coin e5 4;
+ prizes tenant_id=t campaign_id name type prize_id status: camp Mug goods p3 active | camp_2 Mug goods p1 active |
    camp_3 Mug points p2 active | camp Cup goods p5 active | camp Mug goods p4 archived | '' Mug goods p6 active;
INSERT INTO stock (tenant_id, prize_id) SELECT tenant_id, prize_id FROM prizes;
+ games tenant_id=t campaign_id name type game_id status: camp Wheel spin g3 active | camp_2 Wheel spin g1 active |
    camp_3 Wheel egg g2 active | camp Card spin g5 active | camp Wheel spin g4 archived | camp Wheel spin g6 paused;
INSERT INTO game_revisions (tenant_id, game_id, revision, definition) SELECT tenant_id, game_id, 1, '{}' FROM games;
+ quests tenant_id=t campaign_id name type turns=1 quest_id status condition: camp_2 Visit one_time q1 active - |
    camp Visit daily q3 active '{"count": 2}' | camp_3 Visit weekly q2 active - | camp Share daily q5 draft - |
    camp Visit daily q4 archived -;
+ quest_completions tenant_id=t turns=1 balance_after=1 event_id='' quest_id player_id period idempotency_key
    completed_at: q3 ann d2 - (now()) | q3 ann d1 key (now()) | q3 bob d3 key (now()) | q4 ann d4 - (now()) |
    q3 ann d0 - (now() - interval '20 days') | q1 ann once - (now() - interval '20 days');
+ turn_balances tenant_id=t player_id campaign_id balance=1: ann camp_2 | ann camp_3 | ann camp | bob camp;
+ leaderboards tenant_id=t campaign_id name metric=score mode=sum board_id status: camp Top b3 active |
    camp_2 Top b1 active | camp_3 Top b2 finalized | camp Best b5 active | camp Top b4 archived;
INSERT INTO plays (tenant_id, game_id, player_id, revision, seed, client_seed, payload, outcome, score, wins, points,
                   play_id, session_id)
    SELECT 't', game, player, 1, '', '', '{}', '{}', 0, 0, 0, play,
           'sess_x.y.' || encode(sha256(play::bytea), 'hex')
    FROM (VALUES ('game', 'ann', 'y2'), ('game', 'ann', 'y1'), ('game', 'ann', 'y3'), ('game_2', 'ann', 'y4'),
                 ('game', 'bob', 'y5'), ('g1', 'cat', 'y6')) AS v (game, player, play);
INSERT INTO promised_terms (tenant_id, game_id, terms, revision_hash)
    SELECT 't', game, play::bytea, encode(sha256(play::bytea), 'hex')
    FROM (VALUES ('game', 'y2'), ('game', 'y1'), ('game_2', 'y3')) AS v (game, play);
"""
"""A base row of each kind, and others that each differ from it in one thing; not in the order of the list."""

LISTS: Final = """
rewards.list reward_id: ann '' '' '' '' '' - 20 = r9 r8 r6 r5 r4 r3 r2 r1 | $2 bob = r7 | $3 won = r8 r6 r3 r2 r1 |
    $3 expired = r4 | $4 camp_2 = r1 | $5 cup = r2 | $6 game_2 = r6 | $8 r6 $9 3 = r5 r4 r3 | $7 r4 = r4;
rewards.search reward_id: '' '' '' '' '' '' - 20 = r9 r8 r7 r6 r5 r4 r3 r2 r1 | $6 bob = r7 |
    $2 won $6 ann = r8 r6 r3 r2 r1 | $2 claimed = r5 | $2 expired = r4 | $3 camp_2 = r1 | $4 cup = r2 |
    $5 game_2 = r6 | $7 other = r9 r1 | $8 r6 $9 3 = r5 r4 r3 | $6 ann $8 r6 $9 3 = r5 r4 r3;
wallet.balances scope_key currency: ann '' - - 20 = camp-coin camp-leaf camp_2-acorn camp_2-coin |
    $2 bob = camp-coin | $3 camp = camp-coin camp-leaf | $4 camp $5 coin $6 2 = camp-leaf camp_2-acorn;
wallet.ledger entry_id: ann '' '' - - 20 = e3 e2 e1 e4 | $2 bob = e5 | $3 camp_2 = e1 | $4 leaf = e2 |
    $5 2 $6 e2 $7 1 = e1 | $5 3 $6 e3 $7 2 = e2 e1;
prizes.list id: '' '' '' % '' - 20 = p6 p5 p3 p2 p1 | $2 archived = p4 | $3 camp_2 = p1 | $4 points = p2 |
    $5 %cup% = p5 | $6 shop = p6 p5 p3 p2 | $7 p5 $8 2 = p3 p2;
prizes.summary prize_id: '' '' '' % '' - 20 = p6 p5 p3 p2 p1 | $2 archived = p4 | $3 camp_2 = p1 | $4 points = p2 |
    $5 %cup% = p5 | $6 shop = p6 p5 p3 p2 | $7 p5 $8 2 = p3 p2;
games.list id: '' '' '' % '' - 20 = g6 g5 g3 g2 g1 | $2 archived = g4 | $3 camp_2 = g1 | $4 egg = g2 |
    $5 %card% = g5 | $6 shop = g6 g5 g3 g2 | $7 g5 $8 2 = g3 g2;
games.active_of_campaign id: camp 20 = g5 g3 | $3 1 = g5 | $2 camp_3 = g2;
quests.list id: '' '' '' % '' - 20 = q5 q3 q2 q1 | $4 archived = q4 | $2 camp_2 = q1 | $3 weekly = q2 |
    $5 %share% = q5 | $6 shop = q5 q3 q2 | $7 q5 $8 2 = q3 q2;
quests.turns campaign_id: ann '' - 20 = camp camp_2 camp_3 | $2 bob = camp | $3 camp_2 = camp_2 |
    $4 camp $5 1 = camp_2;
leaderboards.list id: '' '' % '' - 20 = b5 b3 b2 b1 | $3 archived = b4 | $2 camp_2 = b1 | $4 %best% = b5 |
    $5 shop = b5 b3 b2 | $6 b5 $7 2 = b3 b2;
quests.own id periods: '' ann - 20 = q3-d1+d2 q1-once | $3 bob = q3-d3 q1- | $2 camp_2 = q1-once |
    $4 q3 = q1-once | $5 1 = q3-d1+d2;
quests.completed quest_id period: ann [camp,camp_2] = q1-once q3-d1 q3-d2 | $2 bob = q3-d3 | $3 [camp] = q3-d1 q3-d2;
quests.progress quest_id: ann [q1,q3] [0,0] = q3;
quests.has_completions exists: q3 = True | $2 q5 = False;
quests.get id: q3 '' true = q3 | $3 shop = q3 | $3 other = nothing;
quests.for_completion campaign_id merchant_suspended periods replay_turns: q3 ann key = camp-False-d1+d2-1 |
    $4 none = camp-False-d1+d2- | $2 q1 = camp_2-True-once-;
rewards.list reward_id ciphertext: ann fulfilled '' '' '' '' - 20 = r9-nine | $3 won = r8- r6- r3- r2- r1-;
rewards.search answered: claimed '' '' '' '' '' - 20 = True | $2 expired = False;
rewards.about player_id prize_id type campaign_id: r7 = bob-mug-goods-camp;
rewards.get reward_id status channel answered: r4 '' false = r4-expired-none-False | $2 r5 = r5-claimed-webhook-True |
    $2 r1 $3 other = r1-won-none-False | $2 r1 $3 shop = nothing;
rewards.get_locked reward_id status channel: r4 '' false = r4-expired-none | $2 r8 = r8-won-webhook |
    $2 r1 $3 other = r1-won-none | $2 r1 $3 shop = nothing;
rewards.sealed player_id ciphertext: r9 '' false = ann-nine | $2 r3 = ann- | $2 r1 $3 other = ann- |
    $2 r1 $3 shop = nothing;
rewards.code ciphertext: r9 = nine | $2 r3 = nothing;
rewards.contact value: ann [email,phone] = a@ | $3 [phone] = 7 | $2 bob = b@;
fulfillment.dead id merchant_id: [k3,k4] = k4-;
fulfillment.list task_id: '' '' '' '' - 20 = k4 k3 k2 k1 | $2 dead = k4 | $3 camp_2 = k1 | $4 cup = k3 |
    $5 shop = k4 k3 k2 | $6 k4 $7 2 = k3 k2;
fulfillment.search task_id: '' '' '' '' - 0 0 '' ~ - 20 = k4 k3 k2 k1 | $2 dead = k4 | $3 camp_2 = k1 | $4 cup = k3 |
    $5 shop = k4 k3 k2 | $9 k2 $10 k4 = k3 k2 | $11 k4 $12 2 = k3 k2;
play.play play_id terms: y2 '' = y2-y2 | $2 y3 = y3- | $2 y6 $3 other = y6- | $2 y6 $3 shop = nothing;
play.prizes prize_id: [p3] [] = p3;
play.history play_id: game ann - 20 = y3 y2 y1 | $2 game_2 = y4 | $4 y3 $5 1 = y2;
"""
"""A read, its columns, its arguments after the tenant = what they show | other arguments, by number = what those show.

'' is an empty text, and - is NULL: from the first row on.
"""

CONSTANTS: Final = {"''": "", "-": None, "true": True, "false": False}


def value_of(word: str) -> Any:
    if word[0] == "[":
        return [value_of(one) for one in filter(None, word[1:-1].split(","))]
    return CONSTANTS.get(word, int(word) if word.isdigit() else word)


def text_of(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(sorted(value))
    return value.decode() if isinstance(value, bytes) else "" if value is None else str(value)


def cases() -> Iterator[tuple[str, list[str], list[Any], str]]:
    """(statement, key, arguments, what is shown)"""
    for text in LISTS.split(";")[:-1]:
        names, _, its = text.partition(":")
        name, *key = names.split()
        (plain, first), *others = [[half.split() for half in case.split(" = ")] for case in its.split("|")]
        for changes, shown in (([], first), *others):
            arguments = list(plain)
            for place, word in zip(changes[::2], changes[1::2], strict=True):
                arguments[int(place[1:]) - 2] = word
            yield name, key, [value_of(word) for word in arguments], " ".join(shown)


def statement(name: str) -> str:
    file, _, its = name.partition(".")
    return sql.load(file)[its]


async def test_reads_show_what_their_arguments_ask_for_in_order(connection: asyncpg.Connection) -> None:
    faults = []
    for name, key, arguments, expected in cases():
        rows = await connection.fetch(statement(name), "t", *arguments)
        shown = " ".join("-".join(text_of(row[column]) for column in key) for row in rows) or "nothing"
        if shown != expected:
            faults.append(f"{name}{arguments} shows {shown}, not {expected}")
    assert faults == []


async def test_prize_summary_counts_its_own_units(connection: asyncpg.Connection) -> None:
    await connection.execute(
        scene("""
        + rewards tenant_id=t player_id=ann prize_id campaign_id=camp name=Mug type=goods value=5 reward_id quantity
            status claimed_at: p2 s1 1 claimed (now()) | p2 s2 2 fulfilled - | p2 s3 4 fulfilled (now()) |
            p2 s4 8 revoked (now()) | p3 s5 16 fulfilled (now());
        INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, reward_id) VALUES
            ('t', 'p2', 'given', 'k', 'given', 'given', 's3')
    """)
    )
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""
            INSERT INTO codes (tenant_id, prize_id, code_id, key_id, ciphertext, code_hash, withdrawn_at, expires_at)
                VALUES ('t', 'p2', 'back', 'k', 'back', 'back', now(), 'infinity'),
                       ('t', 'p2', 'late', 'k', 'late', 'late', NULL, now())""")
        rows = await connection.fetch(statement("prizes.summary"), "t", "", "", "", "%", "", None, 20)
    counted = {row["prize_id"]: (row["claimed"], row["fulfilled"], row["codes_available"]) for row in rows}
    assert counted["p2"] == (5, 6, 1)
    assert counted["p1"] == (0, 0, 0)


async def test_deliveries_are_found_by_contact_and_time(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO contacts (tenant_id, contact_id, player_id, type, value) VALUES
            ('t', 'x1', 'bob', 'email', 'b'), ('t', 'x3', 'dan', 'phone', 'd'), ('u', 'x4', 'cyn', 'email', 'b');
        INSERT INTO rewards (tenant_id, player_id, prize_id, campaign_id, name, type, value, reward_id, quantity,
                             status)
            SELECT tenant, player, 'mug', 'camp', 'Mug', 'goods', 5, 's' || task, 1, 'won'
            FROM (VALUES ('t', 'bob', 'm1'), ('t', 'cyn', 'm2'), ('t', 'dan', 'm3'), ('u', 'bob', 'm4'),
                         ('t', 'bob', 'm5')) AS v (tenant, player, task);
        INSERT INTO tasks (tenant_id, task_id, reward_id, prize_id, campaign_id, player_id, channel, status, created_at)
            SELECT tenant, task, 's' || task, 'mug', 'camp', player, 'webhook', 'pending', to_timestamp(at)
            FROM (VALUES ('t', 'bob', 'm1', 100), ('t', 'cyn', 'm2', 200), ('t', 'dan', 'm3', 300),
                         ('u', 'bob', 'm4', 200), ('t', 'bob', 'm5', 300)) AS v (tenant, player, task, at);""")

    async def found(
        contacts: list[str] | None, since: int, until: int, after: str | None = None, most: int = 9, staff_of: str = ""
    ) -> str:
        arguments = ("t", "", "", "", staff_of, contacts, since, until, "m", "n", after, most)
        return " ".join(row["task_id"] for row in await connection.fetch(statement("fulfillment.search"), *arguments))

    assert await found(["b"], 0, 0) == "m5 m1"
    # Its campaign is none that there is.
    await connection.execute("UPDATE tasks SET campaign_id = 'lost' WHERE task_id = 'm5'")
    assert await found(["b", "d"], 0, 0) == "m5 m3 m1"
    assert await found(["c"], 0, 0) == ""
    assert await found(["b"], 0, 0, "m5") == "m1"
    assert await found(["b", "d"], 0, 0, None, 2) == "m5 m3"
    assert await found(None, 200, 300) == "m2"
    assert await found(None, 200, 0) == "m5 m3 m2"
    assert await found(None, 0, 300) == "m2 m1"
    assert await found(["b"], 101, 0) == "m5"
    # What is the tenant's own a merchant's staff reads, and is not told whose it is.
    await connection.execute("UPDATE tasks SET campaign_id = 'camp_3' WHERE task_id = 'm3'")
    assert await found(None, 1, 0, staff_of="shop") == "m3 m2 m1"
    assert await found(["b", "d"], 0, 0, staff_of="shop") == "m1"


async def test_inverted_dates_are_named_of_the_campaign_alone(connection: asyncpg.Connection) -> None:
    await connection.execute("""
        INSERT INTO quests (tenant_id, quest_id, campaign_id, name, type, turns, start_date, end_date)
            SELECT 't', 'i' || name, campaign, name, 'daily', 1, to_timestamp(begins), to_timestamp(ends)
            FROM (VALUES ('twisted', 'b', 9, 8), ('twisted', 'a', 9, 9), ('twisted', 'c', 8, 9),
                         ('twisted', 'd', 9, NULL), ('twisted', 'f', 9, 10),
                         ('straight', 'e', 9, 8)) AS v (campaign, name, begins, ends);
        INSERT INTO leaderboards (tenant_id, board_id, campaign_id, name, metric, mode, start_date, end_date)
            SELECT 't', 'i' || name, campaign, name, 'score', 'sum', to_timestamp(begins), to_timestamp(ends)
            FROM (VALUES ('twisted', 'z', 9, 8), ('twisted', 'y', 9, 9), ('twisted', 'x', 8, 9),
                         ('straight', 'w', 9, 8)) AS v (campaign, name, begins, ends)""")
    rows = await connection.fetch(statement("campaigns.misdated"), "t", "twisted", 9)
    found = [f"{row['kind']} {row['name']} {row['inverted']}" for row in rows]
    assert found == [*(f"leaderboard {name} True" for name in "yz"), "quest a True", "quest b True", "quest f False"]
