"""Tenants, merchants and whose pages may ask: each statement names what it is asked for, and nothing like it."""

from __future__ import annotations

from typing import Any, Final

import asyncpg

from tests.support.statements import ask
from tests.support.statements import ask_of_t as ask_t

SCENE: Final = """
INSERT INTO tenants (tenant_id, name, status, origins) VALUES
    ('t', 'Tee', 'active', '{https://t.example}'), ('v', 'Vee', 'suspended', '{}'), ('u', 'Tee', 'active', '{}');
INSERT INTO merchants (tenant_id, merchant_id, name, status) VALUES
    ('t', 'm2', 'Mill', 'suspended'), ('t', 'm3', 'Mill', 'active'), ('t', 'm1', 'Shop', 'active');
INSERT INTO players (tenant_id, player_id, auth_method, status) VALUES
    ('t', 'ann', 'external', 'active'), ('t', 'bob', 'external', 'suspended');
INSERT INTO campaigns (tenant_id, campaign_id, name, status, origins) VALUES
    ('t', 'c1', 'C', 'active', '{https://a.example,https://b.example}'), ('t', 'c2', 'C', 'ended', '{https://b.example}'),
    ('t', 'c3', 'C', 'draft', '{https://draft.example}'), ('t', 'c4', 'C', 'active', '{}');
INSERT INTO games (tenant_id, game_id, campaign_id, name, type) VALUES
    ('t', 'g2', 'c2', 'G', 'spin'), ('t', 'g1', 'c1', 'G', 'spin');
"""

FIRST: Final = None

LISTED: Final[list[tuple[str, tuple[Any, ...], str]]] = [
    ("tenancy.list_tenants", ("", "%", FIRST, 9), "v u t"),
    ("tenancy.list_tenants", ("", "%", FIRST, 2), "v u"),
    ("tenancy.list_tenants", ("", "%", "v", 9), "u t"),
    ("tenancy.list_tenants", ("", "tee", FIRST, 9), "u t"),
    ("tenancy.list_tenants", ("u", "%", FIRST, 9), "u"),
    ("tenancy.get_merchant", ("t", "m3"), "m3"),
    ("tenancy.get_merchant", ("t", "m4"), ""),
    ("tenancy.list_merchants", ("t", "%", "", FIRST, 9), "m3 m2 m1"),
    ("tenancy.list_merchants", ("t", "%", "", FIRST, 2), "m3 m2"),
    ("tenancy.list_merchants", ("t", "%", "", "m3", 9), "m2 m1"),
    ("tenancy.list_merchants", ("t", "mill", "", FIRST, 9), "m3 m2"),
    ("tenancy.list_merchants", ("t", "%", "m2", FIRST, 9), "m2"),
]


async def test_tenants_and_merchants_are_listed_by_filter(connection: asyncpg.Connection) -> None:
    found = []
    for name, asked, _ in LISTED:
        found.append((name, asked, " ".join(row[0] for row in await ask(connection, name, *asked))))
    assert found == LISTED


async def test_merchant_update_writes_that_one_alone(connection: asyncpg.Connection) -> None:
    assert [row[0] for row in await ask_t(connection, "tenancy.update_merchant", "m3", "New", "active")] == ["m3"]
    named = await connection.fetch("SELECT merchant_id FROM merchants WHERE name = 'New'")
    assert [row[0] for row in named] == ["m3"]


async def test_suspension_names_the_tenant_merchant_or_player(connection: asyncpg.Connection) -> None:
    for tenant, merchant, player, suspended in (
        ("t", "m2", "bob", "merchant"),
        ("t", "m3", "bob", "player"),
        ("t", "m3", "ann", None),
        ("t", "", "", None),
        ("v", "", "", "tenant"),
        ("x", "m2", "bob", None),
    ):
        assert await ask(connection, "tenancy.suspended", tenant, merchant, player) == [(suspended,)], suspended


async def test_merchant_is_known_to_its_own_staff_alone(connection: asyncpg.Connection) -> None:
    for merchant, of, has in (("m3", "", True), ("m3", "m3", True), ("m3", "m2", False), ("m4", "", False)):
        assert await ask_t(connection, "tenancy.has_merchant", merchant, of) == [(has,)], (merchant, of)


async def test_origins_of_campaigns_count_once_published(connection: asyncpg.Connection) -> None:
    a, b, own = "https://a.example", "https://b.example", ["https://t.example"]
    ((tenant, campaigns),) = await ask_t(connection, "origins.of_tenant")
    assert (tenant, sorted(campaigns)) == (own, [a, b])
    for campaign, game, added in (
        *(("c1", "g2", [a, b]), ("c2", "", [b]), ("", "g2", [b]), ("", "g1", [a, b])),
        *(("c3", "", []), ("c4", "", []), ("", "g9", []), ("", "", [])),
    ):
        assert await ask_t(connection, "origins.of_campaign", campaign, game) == [(own, added)], (campaign, game)
    for asking, known in (
        ([a], True),
        ([b, "x"], True),
        (own, True),
        (["https://draft.example"], False),
        (["x"], False),
    ):
        assert await ask(connection, "origins.known", asking) == [(known,)], asking
