"""Who may ask what on the edges, and what one caller may do how often."""

from __future__ import annotations

import pytest

from runtime.http import admin
from runtime.operations.row import MANAGEMENT, PLATFORM
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import OTHER_TENANT, Stack


class TestWhoMayAsk:
    async def test_a_player_s_route_needs_a_player(self, stack: Stack) -> None:
        nobody = await stack.consumer("GET", "/wallet")
        assert (nobody.http, nobody.reason) == (401, "TOKEN_MISSING")
        staff = await stack.consumer(
            "GET", "/wallet", headers={"Authorization": f"Bearer {stack.token('s', ('admin',))}"}
        )
        assert (staff.http, staff.reason) == (403, "ROLE_REQUIRED")

    async def test_the_headers_are_not_believed(self, stack: Stack) -> None:
        headers = {"X-Player-Id": "player_a", "X-Roles": "admin,platform"}
        assert (await stack.consumer("GET", "/wallet", headers=headers)).http == 401
        assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).http == 401

    async def test_every_admin_route_is_shut_to_players_and_nobody(self, stack: Stack) -> None:
        player = {"Authorization": f"Bearer {stack.token('player_a')}"}
        for operation, _ in admin.served():
            path = "/admin" + operation.path.replace("{id}", "x")
            assert (await stack.admin(operation.verb, path, roles=())).http == 401
            answer = await stack.admin(operation.verb, path, roles=(), headers=player)
            assert (answer.http, answer.reason) == (403, "ROLE_REQUIRED"), operation.name

    async def test_a_player_cannot_be_named_in_a_body_or_query(self, stack: Stack) -> None:
        answer = await stack.consumer("POST", "/games/g/start", {"player_id": "player_b"}, player="player_a")
        assert (answer.http, answer.envelope["data"]["violations"][0]["field"]) == (400, "player_id")
        mine = await stack.consumer("GET", "/players/me", player="player_a", player_id="player_b")
        assert mine.data["id"] == "player_a"

    async def test_tenants_are_the_platform_s(self, stack: Stack) -> None:
        assert (await stack.admin("POST", "/admin/tenants", {"name": "x"})).http == 403
        own = (await stack.admin("GET", "/admin/tenants")).data["items"]
        assert [tenant["id"] for tenant in own] == [stack.tenant_id]
        seen = (await stack.admin("GET", "/admin/tenants", roles=(PLATFORM,))).data["items"]
        assert {stack.tenant_id, OTHER_TENANT} <= {tenant["id"] for tenant in seen}
        assert (await stack.admin("GET", "/admin/games", roles=(PLATFORM,))).http == 403

    async def test_the_platform_may_act_for_another_tenant(self, stack: Stack) -> None:
        there = {"X-Tenant-Id": OTHER_TENANT}
        both = ("admin", PLATFORM)
        made = await stack.admin("POST", "/admin/campaigns", {"name": "Theirs"}, roles=both, headers=there)
        assert (await stack.admin("GET", f"/admin/campaigns/{made.data['id']}")).reason == "UNKNOWN_CAMPAIGN"
        alone = await stack.admin("GET", f"/admin/campaigns/{made.data['id']}", headers=there)
        assert alone.reason == "UNKNOWN_CAMPAIGN"

    @pytest.mark.settings(role_matrix="strict")
    class TestStrict:
        async def test_writes_are_narrowed_by_role(self, stack: Stack) -> None:
            for operation, row in admin.served():
                path = "/admin" + operation.path.replace("{id}", "x")
                for role in sorted(MANAGEMENT | {PLATFORM}):
                    answer = await stack.admin(operation.verb, path, roles=(role,))
                    assert (answer.http == 403) is (role not in row.writers), (operation.name, role)

    @pytest.mark.settings(header_fallback=True)
    class TestFallback:
        async def test_headers_make_an_identity_where_they_are_believed(self, stack: Stack) -> None:
            mine = await stack.consumer("GET", "/players/me", headers={"X-Player-Id": "player_h"})
            assert mine.data["id"] == "player_h"
            headers = {"X-Tenant-Id": stack.tenant_id, "X-Roles": "designer"}
            assert (await stack.admin("GET", "/admin/games", roles=(), headers=headers)).data["items"] == []


@pytest.mark.settings(rate_limits=True, rate_player_burst=6, rate_player_per_second=0.01)
class TestActs:
    """Start and play over the consumer edge: keys, rates and guests."""

    @pytest.fixture
    async def game(self, stack: Stack) -> str:
        campaign = await make_campaign(stack)
        return str((await make_game(stack, campaign["id"], await make_prize(stack)))["id"])

    @pytest.fixture
    async def open_game(self, stack: Stack) -> str:
        campaign = await make_campaign(stack)
        prize = await make_prize(stack)
        return str((await make_game(stack, campaign["id"], prize, access="GAME_ACCESS_PUBLIC"))["id"])

    async def test_a_key_plays_once(self, stack: Stack, game: str) -> None:
        session = (await stack.consumer("POST", f"/games/{game}/start", {}, player="p")).data["session_id"]
        body, key = {"session_id": session, "payload": {}}, {"Idempotency-Key": "key-1"}
        first = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
        again = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
        assert first.data == again.data
        assert "Idempotency-Replayed" not in first.headers
        assert again.headers["Idempotency-Replayed"] == "true"
        other = await stack.consumer("POST", f"/games/{game}/play", {"session_id": "x"}, player="p", headers=key)
        assert (other.http, other.reason) == (422, "IDEMPOTENCY_MISMATCH")
        bare = await stack.consumer("POST", f"/games/{game}/play", body, player="p")
        assert (bare.http, bare.reason) == (409, "SESSION_PLAYED")

    async def test_a_refusal_leaves_the_key_free(self, stack: Stack, game: str) -> None:
        key = {"Idempotency-Key": "key-2"}
        body = {"session_id": "sess_forged", "payload": {}}
        for _ in range(2):
            answer = await stack.consumer("POST", f"/games/{game}/play", body, player="p", headers=key)
            assert (answer.http, answer.reason) == (403, "SESSION_INVALID")

    async def test_a_burst_is_limited_and_told_when_to_return(self, stack: Stack, game: str) -> None:
        answers = [await stack.consumer("POST", f"/games/{game}/start", {}, player="p") for _ in range(8)]
        assert [answer.http for answer in answers[:6]] == [200] * 6
        assert (answers[-1].http, answers[-1].reason) == (429, "RATE_LIMITED")
        assert int(answers[-1].headers["Retry-After"]) >= 1
        assert all("RateLimit" in answer.headers and "RateLimit-Policy" in answer.headers for answer in answers)

    async def test_a_guest_starts_plays_and_becomes_its_token(self, stack: Stack, open_game: str) -> None:
        started = (await stack.consumer("POST", f"/games/{open_game}/start", {})).data
        assert "guest_player_id" not in started
        body = {"session_id": started["session_id"], "payload": {}}
        played = await stack.consumer("POST", f"/games/{open_game}/play", body)
        assert played.data["rewards"][0]["name"] == "Mug"
        bearer = {"Authorization": f"Bearer {started['guest_token']}"}
        history = await stack.consumer("GET", f"/games/{open_game}/history/me", headers=bearer)
        assert [play["id"] for play in history.data["items"]] == [played.data["play_id"]]

    async def test_nobody_starts_a_player_s_game(self, stack: Stack, game: str) -> None:
        answer = await stack.consumer("POST", f"/games/{game}/start", {})
        assert (answer.http, answer.code) == (401, "UNAUTHENTICATED")
