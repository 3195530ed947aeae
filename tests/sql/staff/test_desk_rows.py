from typing import Any, Final

import asyncpg

import sql
from tests.support.bare_rows import bare, scene
from tests.support.locks import held
from tests.support.statements import ask_of_t as ask
from tests.support.statements import first_of_t as first

SCENE: Final = bare("""
+ campaigns campaign_id merchant_id: camp shop | theirs other | mine shop;
+ games game_id campaign_id: camp camp | theirs theirs | lost lost;
+ quests quest_id campaign_id type=daily: camp camp | theirs theirs | lost lost;
CREATE TEMPORARY TABLE parts AS SELECT * FROM (VALUES
    ('i5', 'camp', 'ann'), ('i3', 'theirs', 'ann'), ('i1', 'camp', 'ann'), ('i2', 'lost', 'ann'), ('i4', 'camp', 'ann'),
    ('i6', 'camp', 'bob')
) AS p (id, of, player);
INSERT INTO plays (play_id, game_id, player_id) SELECT id, of, player FROM parts;
INSERT INTO ledger_entries (entry_id, scope_key, player_id, reason) SELECT id, of, player, 'adjustment' FROM parts;
INSERT INTO turn_entries (entry_id, campaign_id, player_id, reason) SELECT id, of, player, 'quest' FROM parts;
INSERT INTO quest_completions (event_id, quest_id, player_id, period) SELECT id, of, player, id FROM parts;
INSERT INTO rewards (reward_id, player_id) SELECT 'r' || id, player FROM parts;
INSERT INTO tasks (task_id, campaign_id, reward_id) SELECT id, of, 'r' || id FROM parts;
+ balances scope_key currency player_id balance: theirs b ann 1 | lost a ann 1 | camp b ann 0 | camp a ann 1 |
    camp c bob 1;
+ turn_balances campaign_id player_id balance: theirs ann 2 | lost ann 2 | camp ann 3 | mine bob 9;
""")
"""What is of three campaigns, of which one is not there any more; keys in no order."""

FIRST: Final = None


async def test_player_search_finds_by_every_criterion(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await connection.execute("""
        INSERT INTO players (player_id, display_name, status, merged_into) VALUES
            ('p3', 'Bea', 'active', NULL), ('p1', 'Ann', 'suspended', NULL), ('p2', 'Ann', 'active', NULL);
        ALTER TABLE contacts DROP CONSTRAINT contacts_type_check;
        INSERT INTO contacts (contact_id, player_id, type, value) VALUES ('x3', 'p3', 'email', 'b'),
            ('x2', 'p3', 'phone', 'a'), ('x1', 'p1', 'email', 'c'), ('x4', 'p2', 'pigeon', 'b')""")
    for arguments, found in (
        *((("", "", [], "", FIRST, 9), "p3 p2 p1"), (("", "", [], "", FIRST, 2), "p3 p2")),
        *((("", "", [], "", "p2", 9), "p1"), (("p1", "-", [], "", FIRST, 9), "p1")),
        *((("x", "ann", [], "", FIRST, 9), "p2 p1"), (("x", "-", ["b", "z"], "", FIRST, 9), "p3")),
        (("", "", [], "active", FIRST, 9), "p3 p2"),
    ):
        rows = await ask(connection, "desk.search", *arguments)
        assert [row[0] for row in rows] == found.split(), arguments
        shown = {row[0]: [part[:2] for part in row[-1].split('"id": "')[1:]] for row in rows}
        assert all(contacts == {"p1": ["x1"], "p2": ["x4"], "p3": ["x2", "x3"]}[who] for who, contacts in shown.items())
    ((who, *_, contacts),) = await ask(connection, "desk.record", "p3")
    assert who == "p3" and contacts.index("x2") < contacts.index("x3") and "x1" not in contacts
    for player, known in (("p1", True), ("p9", False)):
        assert await ask(connection, "desk.is_known", player) == [(known,)]
    async with pool.acquire() as rival, connection.transaction():
        assert await ask(connection, "desk.lock_player", "p1") == [("p1",)]
        assert await held(rival, "players", "player_id") == {"p1"}
    for player, contact, gone in (("p1", "x3", []), ("p3", "x9", []), ("p3", "x3", [("email",)])):
        assert await ask(connection, "desk.unlink", player, contact) == gone
    left = await connection.fetch("SELECT contact_id FROM contacts ORDER BY 1")
    assert [row[0] for row in left] == ["x1", "x2", "x4"]


async def test_counts_are_of_the_player_alone(connection: asyncpg.Connection) -> None:
    async with connection.transaction():  # In which now() is one moment.
        await connection.execute("""
            INSERT INTO players (player_id) VALUES ('ann'), ('bob');
            INSERT INTO logins (login_id, player_id, created_at, expires_at, ended_at) VALUES
                ('l2', 'ann', to_timestamp(5), now() + interval '1 second', NULL), ('l3', 'ann', now(), now(), NULL),
                ('l1', 'ann', to_timestamp(5), now() + interval '1 second', NULL),
                ('l4', 'ann', to_timestamp(9), now() + interval '1 second', NULL),
                ('l5', 'ann', now(), now() + interval '1 second', now()),
                ('l6', 'bob', now(), now() + interval '1 second', NULL)""")
        # The one that was begun last is not the one that was played last, and what others play is theirs.
        await connection.execute("UPDATE plays SET played_at = to_timestamp(ascii(right(play_id, 1)) % 3)")
        ((plays, last, rewards, sessions),) = await ask(connection, "desk.counts", "ann")
        assert (plays, rewards, sessions) == (5, 5, 3)
        assert last == await connection.fetchval("SELECT unix(max(played_at)) FROM plays WHERE player_id = 'ann'") == 2
        assert await ask(connection, "desk.counts", "nobody") == [(0, 0, 0, 0)]
        assert await first(connection, "desk.sessions", "ann", FIRST, FIRST, 9) == ["l4", "l2", "l1"]
        assert await first(connection, "desk.sessions", "ann", FIRST, FIRST, 2) == ["l4", "l2"]
        assert await first(connection, "desk.sessions", "ann", 5_000_000, "l2", 9) == ["l1"]
    await connection.execute("INSERT INTO contacts (contact_id, player_id) VALUES ('x', 'bob')")
    for player, has in (("ann", (False, 5, 5, 3, 7)), ("bob", (True, 1, 1, 1, 9))):
        assert [row[3:] for row in await ask(connection, "desk.has", player)] == [has], player


REWARDS: Final = scene("""
DELETE FROM rewards; DELETE FROM tasks;
+ rewards reward_id player_id prize_id campaign_id game_id status won_at expires_at:
    r5 ann mug camp g1 won (to_timestamp(10)) - | r3 ann mug theirs g1 claimed (to_timestamp(20)) - |
    r1 bob mug camp g2 won (to_timestamp(30)) - | r2 cas cup lost g1 won (to_timestamp(30)) (to_timestamp(40)) |
    r4 ann mug camp g1 won (to_timestamp(30)) (to_timestamp(40));
+ tasks task_id reward_id: t4 r4;
ALTER TABLE contacts DROP CONSTRAINT contacts_type_check;
+ contacts contact_id player_id type value: x1 bob email b | x2 cas pigeon b | x3 ann email a;
+ codes code_id prize_id code_hash reward_id: c1 mug 1 r1 | c2 cup 1 r2 | c3 mug 2 r3;
+ prizes prize_id: mug | cup | tee;
""")


async def test_reward_search_finds_by_every_criterion(connection: asyncpg.Connection) -> None:
    await connection.execute(REWARDS)
    nothing = dict.fromkeys(("status", "campaign", "prize", "game", "player", "merchant"), "")
    every = nothing | dict.fromkeys(("contacts", "prizes", "hashes"), None)
    every |= {"since": 0, "until": 0, "after": None, "most": 9}
    arguments: dict[str, Any]
    for arguments, found in (
        *(({}, "r5 r4 r3 r2 r1"), ({"most": 2}, "r5 r4"), ({"after": "r3"}, "r2 r1")),
        *(({"status": "won"}, "r5 r4 r1"), ({"status": "expired"}, "r2"), ({"campaign": "theirs"}, "r3")),
        *(({"prize": "cup"}, "r2"), ({"game": "g2"}, "r1"), ({"player": "ann"}, "r5 r4 r3")),
        *(({"merchant": "shop"}, "r5 r4 r1"), ({"contacts": ["b", "z"]}, "r1")),
        *(({"prizes": ["mug"], "hashes": [b"1"]}, "r1"), ({"since": 20}, "r4 r3 r2 r1"), ({"until": 20}, "r5")),
        # By a code, and by whose it is besides.
        ({"prizes": ["mug"], "hashes": [b"1"], "contacts": ["b"]}, "r1"),
        ({"prizes": ["mug"], "hashes": [b"2"], "contacts": ["b"]}, ""),
        ({"prizes": ["mug"], "hashes": [b"2"], "player": "ann"}, "r3"),
        ({"prizes": ["mug"], "hashes": [b"2"], "after": "r3"}, ""),
        *(({"contacts": ["a"], "player": "ann"}, "r5 r4 r3"), ({"contacts": ["a"], "after": "r4"}, "r3")),
        *(({"player": "ann", "after": "r5"}, "r4 r3"), ({"player": "ann", "after": "r3"}, "")),
    ):
        assert await first(connection, "desk.rewards", *(every | arguments).values()) == found.split(), arguments
    # Of a campaign that is gone, and expired but for what is being delivered.
    for reward, status in (("r2", "expired"), ("r4", "won")):
        [shown] = await ask(connection, "rewards.get", reward, "", False)
        assert (shown[7], shown[-1]) == (status, True)
    # What is the tenant's own a merchant's staff reads, and moves not: a guess at its code, or winner, finds nothing.
    await connection.execute("INSERT INTO campaigns (campaign_id, merchant_id) VALUES ('open', '')")
    for campaign, found, by_code in (("camp", "r5 r4 r1", "r1"), ("open", "r5 r4 r1", "")):
        await connection.execute("UPDATE rewards SET campaign_id = $1 WHERE reward_id = 'r1'", campaign)
        shop = every | {"merchant": "shop"}
        assert await first(connection, "desk.rewards", *shop.values()) == found.split()
        coded = shop | {"prizes": ["mug"], "hashes": [b"1"]}
        assert await first(connection, "desk.rewards", *coded.values()) == by_code.split()
        assert await first(connection, "desk.rewards", *(shop | {"contacts": ["b"]}).values()) == by_code.split()
    await connection.execute("INSERT INTO claim_answers (reward_id) VALUES ('r4')")
    rows = await connection.fetch(sql.load("desk")["rewards"], "t", *every.values())
    assert [row["reward_id"] for row in rows if row["answered"]] == ["r4"]
    assert sorted(await first(connection, "desk.coded_prizes")) == ["cup", "mug"]
    assert await first(connection, "desk.task_of", "r4") == ["t4"]
    assert await first(connection, "desk.task_of", "r5") == []
