import asyncio
import secrets
from pathlib import Path
from typing import Any, Final

import aiohttp
import asyncpg
import pytest
import redis.asyncio

from ops.servers.base import free_port
from runtime.groups import GROUPS
from runtime.operations import API
from runtime.stores import cache_version, history
from runtime.stores.ranking_sets import KEEP_SECONDS
from tests.support import login
from tests.support.guests import new_guest
from tests.support.login import Phone
from tests.support.memory import child, forget_peak, peak
from tests.support.processes import process
from tests.support.resources import block, rung
from tests.support.scenario import FULL, Scenario
from tests.support.stack import BROWSER, TENANT, Stack
from tests.support.waiting import until
from tests.support.world import COINS, COLLECTION, World

KEY = {"Idempotency-Key": "k1"}


async def live(world: World, phone: Phone) -> None:
    """All that has a key there: of guests, players, logins and staff, and of who invents what he asks for."""
    stack = world.stack
    claimed = {"redemption_mode": "on_claim", "channel": "none"}
    wheel = await world.wheel(await world.prize(fulfillment=claimed), access="public")
    rungs = block(rung("cup", 2, await world.prize()), auto_grant=False)
    coins = await world.game(COLLECTION, COINS, milestones=rungs)
    quest_id = await world.quest()

    async def ask(verb: str, path: str, body: Any = None, player: str = "", **headers: str) -> Any:
        return await stack.consumer(verb, path, body, player=player, headers=headers)

    guest = await new_guest(world, wheel)
    await world.start(wheel, "", **KEY)
    await world.start(wheel, "", **KEY, **guest.bearer)
    assert (await world.play(wheel, guest.session, "", key="k1")).code == "OK"
    for game_id in (wheel, coins):
        assert (await world.round(game_id, key="k2")).code == "OK"
        await world.start(game_id)
    assert (await world.redeem(coins, "cup", key="k3")).code == "OK"
    (reward,) = (await ask("GET", "/rewards/me?status=won", player="ann")).data["items"]
    assert (await ask("POST", f"/rewards/{reward['id']}/claim", {}, "ann", **KEY)).code == "OK"
    assert (await ask("POST", f"/quests/{quest_id}/complete", {}, "ann", **KEY)).code == "OK"
    for path in (f"/games/{wheel}/render", f"/public/campaigns/{world.campaign_id}"):
        assert (await ask("GET", path)).code == "OK"
    assert (await ask("POST", f"/campaigns/{world.campaign_id}/views", {}, **BROWSER)).code == "OK"
    assert (await login.refresh(stack, (await login.log_in(stack, phone))["refresh_token"])).code == "OK"
    points = {"player_id": "ann", "scope_key": world.campaign_id, "currency": "points", "amount": 1}
    assert (await stack.admin("POST", "/admin/wallet/adjustments", points, headers=KEY)).code == "OK"
    for nth in range(5):
        stranger = {"X-Tenant-Id": f"tenant_{nth}", **KEY}
        await ask("POST", f"/games/game_{nth}/start", {}, **stranger)
        await ask("POST", f"/games/{wheel}/play", {"session_id": f"sess_{nth}", "payload": {}}, **KEY)
        await ask("GET", f"/games/game_{nth}/render")
        await ask("GET", f"/leaderboards/board_{nth}/rankings")
    assert (await ask("GET", f"/leaderboards/{await world.board()}/rankings")).data["items"]


@pytest.mark.settings(rate_limits=True, rate_player_per_second=0.001, rate_ip_per_second=0.001)  # Buckets that last.
async def test_valkey_keys_expire(own_world: World, stack: Stack, phone: Phone, valkey: redis.asyncio.Redis) -> None:
    await live(own_world, phone)

    async def ends() -> dict[str, int]:
        """For how many seconds each key is there, -1 for ever; of those that are there still."""
        names = [key.decode() for key in await valkey.keys()]
        found = dict(zip(names, await asyncio.gather(*map(valkey.ttl, names)), strict=True))
        return {name: seconds for name, seconds in found.items() if seconds != -2}

    found = await ends()  # Some last for two seconds.
    await until(ends, lambda it: any(name.endswith(":order") for name in it))
    found |= await ends()
    streams = {name for group in GROUPS.values() for name in group.streams(stack.process.settings.stream_shards)}
    endless = {name for name, seconds in found.items() if seconds == -1}
    assert endless <= {*streams, history.KEY, cache_version.key(stack.tenant_id)}
    assert endless & streams and cache_version.key(stack.tenant_id) in endless
    kinds = ["}r:", "}i:", "}k:", "}s:", "}v:", "}views:", ":order", ":places", ":meta"]
    assert [kind for kind in kinds if not any(kind in name for name in found)] == [], "else it was not tried"
    session_seconds = stack.process.settings.session_ttl_seconds
    for name, seconds in found.items():
        if name not in endless:
            assert seconds <= (session_seconds if "}s:" in name else KEEP_SECONDS), name


WARM: Final = 2_000
AT_ONCE: Final = 20
GROWTH_BYTES_MAX: Final = (60 if FULL else 30) * 2**20
LEFT_BYTES_MAX: Final = (30 if FULL else 15) * 2**20


async def ask(url: str, count: int) -> None:
    async with aiohttp.ClientSession(headers={"X-Tenant-Id": TENANT}) as http:

        async def some(each: int) -> None:
            for _ in range(each):
                async with http.get(f"{url}{API}/games/game_{secrets.token_hex(8)}/eligibility") as answer:
                    envelope = await answer.json()
                    assert (answer.status, envelope["data"]["reason"]) == (404, "UNKNOWN_GAME"), envelope

        await asyncio.gather(*(some(count // AT_ONCE) for _ in range(AT_ONCE)))


@pytest.mark.timeout(3600)
@pytest.mark.fault("Unknown ids", small=6_000, full=240_000, unit="requests", figure="under 60 MiB, under 30 MiB left")
async def test_requests_for_unknown_games_leak_no_memory(
    scenario: Scenario, database_url: str, valkey_url: str, valkey_flush: None, tmp_path: Path
) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'x')", TENANT)
    await connection.close()
    port = free_port()
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey_url,
        **{name: f"1:{secrets.token_hex(32)}" for name in ("SERVER_KEYS", "CODE_KEYS")},
        "JWT_SECRET": secrets.token_hex(32),
        "RATE_LIMITS": "off",
        "CONSUMER_PORT": str(port),
        **{f"{name}_PORT": "0" for name in ("CORE", "ADMIN", "RPC")},
    }
    async with process(tmp_path / "log", port, "all", **environment) as url:
        own = child("all")
        await ask(url, WARM)
        before = forget_peak(own)
        await ask(url, scenario.size)
        grown, left = peak(own) - before, own.memory_info().rss - before
    print(f"{scenario.size} requests: {grown / 2**20:.1f} MiB at most, {left / 2**20:.1f} MiB in the end")
    assert grown < GROWTH_BYTES_MAX
    assert left < LEFT_BYTES_MAX
