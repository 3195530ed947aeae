from typing import Final

import asyncpg

from tests.support.bare_rows import bare
from tests.support.locks import held
from tests.support.statements import ask_of_t as ask

SCENE: Final = bare("""
+ merchants merchant_id status: other suspended | shop active;
+ campaigns campaign_id merchant_id status: theirs other active | camp shop active | draft shop draft;
+ quests quest_id campaign_id type status condition signing:
    q3 camp daily active '{"kind": "event", "count": 3}' '{"secret": "3"}' |
    q2 theirs weekly active '{"kind": "event", "count": 2}' '{"secret": "2"}' |
    q5 camp daily active '{"kind": "plays", "count": 5}' '{"secret": "5"}' | q1 camp one_time active - '{}' |
    q4 camp daily draft '{"kind": "event", "count": 4}' '{}' |
    q6 draft daily active '{"kind": "event", "count": 6}' '{}';
+ players player_id merged_into: bob - | ann - | gus ann;
+ quest_events quest_id event_id player_id: q2 e2 bob | q3 e3 ann | q3 e4 bob | q3 e5 ann;
""")


NOTED: Final[list[tuple[tuple[str, str, str], bool]]] = [
    (("q3", "ann", "e3"), False),  # It was told before.
    (("q3", "ann", "e2"), True),  # As one of another quest.
    (("q3", "gus", "new"), False),  # Who is ann by now.
    *((("q3", "nobody", "new"), False), (("q4", "ann", "new"), False), (("q5", "ann", "new"), False)),
    *((("q6", "ann", "new"), False), (("q9", "ann", "new"), False)),
]


async def test_quest_event_is_noted_once_for_a_known_player(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    query = "SELECT quest_id, event_id, player_id FROM quest_events"
    for arguments, recorded in NOTED:
        before = {tuple(row) for row in await connection.fetch(query)}
        async with connection.transaction(), pool.acquire() as rival:
            assert len(await ask(connection, "quest_events.record", *arguments)) == recorded, arguments
            if recorded:
                assert await held(rival, "players", "player_id") == {"ann"}
                assert await held(rival, "quests", "quest_id") == {"q3"}
        after = {tuple(row) for row in await connection.fetch(query)}
        assert after - before == ({(arguments[0], arguments[2], arguments[1])} if recorded else set()), arguments
