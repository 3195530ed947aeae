import json
from typing import Any, Final

import asyncpg
import pytest

from runtime.rules.entry import text_hash
from tests.support.statements import ask_of_t as ask

SCENE: Final = """
+ tenants tenant_id name: t T;
+ campaigns tenant_id=t campaign_id merchant_id name status: c2 shop Autumn draft | c3 '' Fair active |
    c1 other Fair active;
+ games tenant_id=t game_id campaign_id name=G type=spin status: g2 c3 active | g1 c3 draft | g3 c3 archived |
    g4 c1 active;
INSERT INTO game_revisions (tenant_id, game_id, revision, definition)
    SELECT tenant_id, game_id, 1, '{"wallet_scope": "campaign"}' FROM games;
+ prizes tenant_id=t prize_id campaign_id name=Mug type=goods status: p2 c3 active | p1 c3 active | p3 c3 archived |
    p4 '' active | p5 '' active | p6 c1 active;
+ leaderboards tenant_id=t board_id campaign_id game_id name=B metric=score mode=sum status: b2 c3 '' active |
    b1 c3 '' active | b3 c3 '' archived | b4 c1 '' active | b5 c3 '' finalized | b6 c3 g1 finalized |
    b7 c3 g1 archived | b8 c3 g2 finalized;
+ quests tenant_id=t quest_id campaign_id name=Q type=daily turns=1 status: q1 c3 active | q2 c3 active |
    q0 c3 active | q3 c3 draft | q4 c1 active | q5 c3 archived;
+ integrations tenant_id=t integration_id campaign_id type=webhook events={}: i2 c3 | i1 c3 | i3 c1 | i4 '';
"""
"""What goes with campaign c3, out of its order, and beside each of it what differs in one thing."""

FIRST: Final = None

GOES_WITH: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    *(("campaigns.list", ("", "%", "", "c3", 9), "c2 c1"), ("campaigns.list", ("", "%", "", FIRST, 2), "c3 c2")),
    *(("campaigns.list", ("", "%", "shop", FIRST, 9), "c3 c2"), ("campaigns.get", ("c1", "", True), "c1")),
    *(("campaigns.get", ("c2", "shop", True), "c2"), ("campaigns.get", ("c3", "shop", False), "c3")),
    *(("campaigns.get", ("c3", "shop", True), ""), ("campaigns.get", ("c1", "shop", False), "")),
    *(("campaigns.live_boards", ("c3",), "b1 b2"), ("campaigns.active_quests", ("c3", 9), "q2 q1 q0")),
    *(("campaigns.active_quests", ("c3", 2), "q2 q1"), ("campaigns.games_to_copy", ("c3",), "g1 g2")),
    ("campaigns.prizes_to_copy", ("c3", ["p4", "p3", "p6"], ""), "p1 p2 p4"),
    ("campaigns.prizes_to_copy", ("c3", ["p4"], "shop"), "p1 p2"),
    ("campaigns.boards_to_copy", ("c3", ["g1"]), "b1 b2 b5 b6"),
    *(("campaigns.quests_to_copy", ("c3",), "q0 q1 q2 q3"), ("campaigns.integrations_to_copy", ("c3",), "i1 i2")),
]


@pytest.mark.parametrize(("name", "asked", "named"), GOES_WITH)
async def test_campaign_statements_return_what_belongs_to_the_campaign(
    connection: asyncpg.Connection, name: str, asked: tuple[Any, ...], named: str
) -> None:
    assert [row[0] for row in await ask(connection, name, *asked)] == named.split()


async def test_consent_is_in_force_for_a_text_of_the_form(connection: asyncpg.Connection) -> None:
    news = {"id": "news", "text": {"en": "Yes.", "de": "Ja \u00fc."}}
    form = {"consents": [news, {"id": "new", "text": {"en": "Si."}}]}
    cases = {("news", "Yes."): True, ("news", "Ja \u00fc."): True, ("new", "Yes."): False, ("gone", "Yes."): False}
    for (consent, text), holds in cases.items():
        about = (consent, [f"consent:{consent}:{text_hash(text)}"], json.dumps(form))
        found = await connection.fetchval("SELECT consent_in_force($1, $2, consent_tokens($3))", *about)
        assert found is holds, (consent, text)
