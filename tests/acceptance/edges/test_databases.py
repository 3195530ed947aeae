import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import redis.asyncio

import sql
from runtime import messages as m
from runtime.app.process import CannotStart
from runtime.operations.campaigns.hosts import find_host
from runtime.operations.key_rotation import retire
from runtime.operations.players.revocations import list_revocations
from runtime.settings import Key
from runtime.stores import history
from runtime.stores.database import at
from runtime.stores.databases import Databases, TenantMoved
from runtime.stores.ephemeral import tag_of
from sql.migrate import migrate
from tests.support.directories import serving_postgres
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import AS_SHIPPED, Answer, Stack, fields_of, new_stack, settings_of
from tests.support.tables import rows_of
from tests.support.waiting import until


@pytest.fixture
async def urls(make_database: Callable[[], str]) -> dict[str, str]:
    return {"home": make_database(), "eu": make_database()}


@pytest.fixture
async def home(urls: dict[str, str], valkey_url: str, valkey_flush: None) -> AsyncIterator[Stack]:
    settings = settings_of(urls["home"], valkey_url, databases=(("eu", urls["eu"]),))
    async with new_stack(settings, counting_seconds=0.1) as stack:
        yield stack


async def tenant_in(stack: Stack, database: str, name: str = "Fair") -> Stack:
    body = {"name": name, "database": database}
    made = (await stack.admin("POST", "/admin/tenants", body, roles=("platform",))).data
    assert made["database"] == database
    return replace(stack, tenant_id=made["id"])


async def test_tenant_lives_wholly_in_the_database_it_was_created_in(home: Stack, urls: dict[str, str]) -> None:
    eu = await tenant_in(home, "eu")
    campaign_id = (await make_campaign(eu))["id"]
    game = await make_game(eu, campaign_id, await make_prize(eu, campaign_id=campaign_id, stock={"total": 5}))
    assert len((await play_once(eu, game["id"]))["rewards"]) == 1
    assert await rows_of(urls["home"], eu.tenant_id) == {}
    assert {"tenants", "plays", "rewards", "audit_entries"} <= set(await rows_of(urls["eu"], eu.tenant_id))
    # The background jobs of its database count its play.
    await until(lambda: eu.database.of(eu.tenant_id).fetchval("SELECT sum(plays) = 1 FROM campaign_days"))


async def test_unknown_database_is_a_field_error(home: Stack) -> None:
    answer = await home.admin("POST", "/admin/tenants", {"name": "Fair", "database": "mars"}, roles=("platform",))
    assert fields_of(answer) == ["database"]
    eu = await tenant_in(home, "eu")
    moved = await home.admin("PUT", f"/admin/tenants/{eu.tenant_id}", {"database": "home"}, roles=("platform",))
    assert fields_of(moved) == ["database"]


async def test_hosts_of_an_interrupted_creation_are_free_for_its_retry(home: Stack) -> None:
    at_home, in_eu = home.engine.database.parts

    async def create(key: str) -> Answer:
        body = {"name": "Fair", "database": "eu", "hosts": ["fair.example"]}
        return await home.admin("POST", "/admin/tenants", body, roles=("platform",), headers={"Idempotency-Key": key})

    await at_home.execute("ALTER TABLE tenant_databases ADD CONSTRAINT interrupts CHECK (database <> 'eu')")
    assert (await create("k")).http >= 500
    await at_home.execute("ALTER TABLE tenant_databases DROP CONSTRAINT interrupts")
    lost = await in_eu.fetchval("SELECT tenant_id FROM hosts")
    async with at_home.connection() as connection, connection.transaction():
        assert await connection.fetchval(sql.load("directory")["lock_creation"], lost)
        assert fields_of(await create("k")) == ["hosts[0]"], "its creation may still end well"
    assert (await create("k")).data["hosts"] == ["fair.example"]
    assert fields_of(await create("other")) == ["hosts[0]"]


async def test_lists_of_tenants_cover_every_database(home: Stack) -> None:
    made = [(await tenant_in(home, place)).tenant_id for place in ("home", "eu", "eu", "home", "eu")]
    shown: list[dict[str, Any]] = []
    cursor = ""
    while not shown or cursor:
        reply = (await home.admin("GET", "/admin/tenants", roles=("platform",), limit=2, cursor=cursor)).data
        shown += reply["items"]
        cursor = reply["pagination"]["next_cursor"]
    places = {one["id"]: one["database"] for one in shown if one["id"] in made}
    assert [one["id"] for one in shown] == sorted({one["id"] for one in shown}, reverse=True)
    assert [places[one] for one in made] == ["home", "eu", "eu", "home", "eu"]


async def test_other_processes_route_a_new_tenant_at_once(home: Stack) -> None:
    async with new_stack(home.process.settings) as other:
        for _ in range(4):
            assert (await make_campaign(replace(other, tenant_id=(await tenant_in(home, "eu")).tenant_id)))["id"]


async def test_revocations_of_every_database_reach_the_edges(home: Stack) -> None:
    for stack in (home, await tenant_in(home, "eu")):
        token = stack.token("ann", ("admin",))
        asked = {"Authorization": f"Bearer {token}"}
        assert (await stack.admin("GET", "/admin/campaigns", headers=asked)).http == 200
        assert (await stack.admin("POST", "/admin/staff/revoke", {"subject": "ann"})).http == 200

        async def is_refused(stack: Stack = stack, asked: dict[str, str] = asked) -> bool:
            return (await stack.admin("GET", "/admin/campaigns", headers=asked)).http == 401

        await until(is_refused)
    whole = await list_revocations(home.engine, m.ListRevocationsRequest())
    slow = home.engine.database.parts[1]
    slow.answers, slow.fetch = False, home.engine.database._paused.fetch  # type: ignore[attr-defined,method-assign]
    found = [await list_revocations(home.engine, m.ListRevocationsRequest(since=it)) for it in ("", whole.since)]
    assert [one.partial for one in (whole, *found)] == [False, True, False]


async def test_copy_of_a_tenant_that_lives_elsewhere_is_left_alone(home: Stack) -> None:
    eu = await tenant_in(home, "eu")
    database = home.engine.database
    assert isinstance(database, Databases)
    await database.home.execute("INSERT INTO tenants (tenant_id, name) VALUES ($1, 'Copy')", eu.tenant_id)
    found = {part.name: await at(part, database.tenants("SELECT tenant_id FROM tenants")) for part in database.parts}
    assert eu.tenant_id in found["eu"] and eu.tenant_id not in found["home"]
    listed = (await home.admin("GET", "/admin/tenants", roles=("platform",))).data["items"]
    assert [one["name"] for one in listed if one["id"] == eu.tenant_id] == ["Fair"]
    for part in database.parts:
        await part.execute("INSERT INTO hosts (tenant_id, host) VALUES ($1, 'brand.example')", eu.tenant_id)
    assert (await find_host(home.engine, m.FindHostRequest(host="brand.example"))).tenant_id == eu.tenant_id
    database.of = lambda tenant_id: database._paused  # type: ignore[method-assign]
    with pytest.raises(TenantMoved):
        await find_host(home.engine, m.FindHostRequest(host="brand.example"))


@pytest.mark.fault("One of two databases killed", size="100 plays meanwhile", figure="no error of the other's tenants")
@pytest.mark.parametrize("killed", ["home", "eu"])
async def test_plays_go_on_while_the_database_of_others_is_down(
    make_database: Callable[[], str], valkey_url: str, valkey_flush: None, killed: str
) -> None:
    with serving_postgres() as server:  # Durable: it is killed.
        await migrate(server.url())
        urls = {"home": make_database(), "eu": make_database(), killed: server.url()}
        settings = settings_of(urls["home"], valkey_url, databases=(("eu", urls["eu"]),), **AS_SHIPPED)
        async with new_stack(settings) as home:
            stacks = {"home": home, "eu": await tenant_in(home, "eu")}
            games = {at: (await make_game(it, (await make_campaign(it))["id"]))["id"] for at, it in stacks.items()}
            found: dict[str, Counter[tuple[int, str]]] = {name: Counter() for name in stacks}
            over = asyncio.Event()

            async def play(name: str, player: str, stack: Stack) -> bool:
                path, body = f"/games/{games[name]}", dict[str, Any]()
                for verb in ("start", "play"):
                    answer = await stack.consumer("POST", f"{path}/{verb}", body, player=player)
                    found[name][answer.http, answer.reason] += 1
                    body = {"session_id": answer.envelope["data"].get("session_id", ""), "payload": {}}
                    if answer.http != 200:
                        return False
                return True

            async def go_on(name: str, player: str) -> None:
                while not over.is_set():
                    await play(name, player, stacks[name])

            load = [asyncio.ensure_future(go_on(name, f"p{nth}")) for name in stacks for nth in range(4)]
            await until(lambda: all(it[200, ""] > 20 for it in found.values()))
            server.kill()
            (other,) = stacks.keys() - {killed}
            played = found[other][200, ""]
            await until(lambda: found[other][200, ""] >= played + 200 and found[killed][503, "STORE_UNAVAILABLE"] > 0)
            over.set()
            await asyncio.gather(*load)
            assert found[other].keys() == {(200, "")}, found
            if killed == "eu":  # A process that starts now serves the others' tenants. Its start would delay the load.
                async with new_stack(settings) as started:
                    await play_once(replace(started, tenant_id=home.tenant_id), games["home"], player="late")
            server.start()
            await until(lambda: play(killed, "back", stacks[killed]))
            assert found[killed].keys() == {(200, ""), (503, "STORE_UNAVAILABLE")}, found


async def test_restore_clears_own_tenants_keys(home: Stack, valkey: redis.asyncio.Redis, urls: dict[str, str]) -> None:
    eu = await tenant_in(home, "eu")
    database, ephemeral = home.engine.database, home.engine.ephemeral
    [_, part] = database.parts
    for tenant_id in (home.tenant_id, eu.tenant_id):
        await valkey.set(f"{{{tag_of(tenant_id, 'ann')}}}s:cached", "1")
        await valkey.set(f"tombola:board:{{{tenant_id}}}:board_1", "1")
    await valkey.set("tombola:history:eu", "another:1")
    await at(part, history.follow(part, ephemeral, name="eu", lives_here=database.lives_here))
    left = {key.decode() for key in await valkey.keys("*:board_1") + await valkey.keys("*s:cached")}
    assert left == {f"{{{tag_of(home.tenant_id, 'ann')}}}s:cached", f"tombola:board:{{{home.tenant_id}}}:board_1"}
    assert (await valkey.get("tombola:history:eu")) != b"another:1"


async def test_retired_key_is_refused_in_every_database(home: Stack) -> None:
    await retire(home.engine.database, [Key("1", bytes(32)), Key("old", bytes(32))])
    for part in home.engine.database.parts:
        assert [row["key_id"] for row in await part.fetch("SELECT key_id FROM retired_keys")] == ["old"]


async def test_process_that_lacks_a_database_of_tenants_does_not_start(home: Stack) -> None:
    await tenant_in(home, "eu")
    with pytest.raises(CannotStart, match=r"DATABASES lacks databases in which tenants live: eu \(1\)"):
        async with new_stack(replace(home.process.settings, databases=())):
            pass
