"""Whom an edge takes a request to be from."""

from __future__ import annotations

import pytest

from tests.support.stack import Stack


async def test_player_in_a_query_is_ignored(stack: Stack) -> None:
    mine = await stack.consumer("GET", "/players/me", player="player_a", player_id="player_b")
    assert mine.data["id"] == "player_a"


@pytest.mark.settings(header_fallback=True)
async def test_headers_make_an_identity_where_the_setting_allows_it(stack: Stack) -> None:
    mine = await stack.consumer("GET", "/players/me", headers={"X-Player-Id": "player_h"})
    assert mine.data["id"] == "player_h"
    headers = {"X-Tenant-Id": stack.tenant_id, "X-Roles": "designer"}
    assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).data["items"] == []
