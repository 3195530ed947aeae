from typing import Any

import pytest

from runtime.operations.desk import erasure
from tests.support import invariants
from tests.support.guests import guest_who_played
from tests.support.guests import log_in as resolve
from tests.support.login import Phone, bearer, refresh, start
from tests.support.login import log_in as log_in_by_code
from tests.support.resources import make_campaign
from tests.support.rivals import begun, held
from tests.support.stack import Stack
from tests.support.tables import contents
from tests.support.world import COINS, COLLECTION, World

PHONE, EMAIL = "+12025550199", "ophelia.quince@example.com"
SAID = ("Ophelia Quince", "pictures.example/ophelia", "pt-BR", "marzipan", "lucky-clover", "key-ophelia")
KEYED = {"Idempotency-Key": "key-1"}


async def lived(world: World, phone: Phone) -> dict[str, Any]:
    stack = world.stack
    guest = await guest_who_played(world, await world.wheel(await world.prize(), access="public"))
    await name_player(stack, guest.player_id, "Ophelia Q., once a guest: Ophelia Quince")
    login = await log_in_by_code(stack, phone, PHONE, headers=guest.bearer)
    player = login["player"]["id"]
    linked = {"type": "CONTACT_TYPE_EMAIL", "value": EMAIL}
    assert (await stack.core("POST", "/players/me/contacts", {"player_id": player, "contact": linked})).code == "OK"
    profile = {"display_name": SAID[0], "avatar_url": f"https://{SAID[1]}.png", "locale": SAID[2]}
    profile |= {"attributes": {"favourite": SAID[3]}}
    assert (await stack.consumer("PUT", "/players/me", profile, player=player)).code == "OK"
    prize = await world.prize(fulfillment={"redemption_mode": "on_claim", "channel": "none"})
    wheel, coins = await world.wheel(prize), await world.game(COLLECTION, COINS)
    assert (await world.round(wheel, player, client_seed=SAID[4], key="key-ophelia-play")).code == "OK"
    assert (await world.round(coins, player)).code == "OK"
    [reward, *_] = (await stack.consumer("GET", "/rewards/me", player=player, prize_id=prize)).data["items"]
    headers = {"Idempotency-Key": "key-ophelia-claim"}
    claimed = await stack.consumer("POST", f"/rewards/{reward['id']}/claim", {}, player=player, headers=headers)
    assert claimed.code == "OK"
    await world.turns(player, 3)
    assert (await stack.admin("POST", f"/admin/leaderboards/{await world.board()}/finalize", {})).http == 200
    return login


async def name_player(stack: Stack, player_id: str, name: str = "Ophelia Quince") -> None:
    named = {"player_id": player_id, "player": {"display_name": name}}
    assert (await stack.core("PUT", "/players/me", named)).code == "OK"


async def erase(stack: Stack, player_id: str = "ann") -> None:
    assert (await stack.admin("POST", f"/admin/players/{player_id}/erase", {"reason": "asked for"})).http == 200


async def test_erasure_leaves_no_trace_of_the_person_and_balanced_books(stack: Stack, phone: Phone) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    login = await lived(world, phone)
    player = login["player"]["id"]
    assert (await start(stack, EMAIL, "email")).code == "OK"
    before = str(await contents(stack.database))
    assert EMAIL in str(await stack.database.fetch("SELECT contact FROM login_challenges"))
    for text in (PHONE, EMAIL, *SAID):
        assert text in before, f"{text} is nowhere: the test sees less than it thinks"
    assert await world.count("login_guesses")
    counts = {table: await world.count(table) for table in ("plays", "rewards", "ledger_entries", "turn_entries")}
    path = f"/admin/players/{player}"
    wallet = (await stack.admin("GET", f"{path}/wallet")).data["items"]
    guest = await stack.database.fetchval("SELECT player_id FROM players WHERE merged_into = $1", player)
    erased = await stack.admin("POST", f"/admin/players/{guest}/erase", {"reason": "asked for, ticket 4711"})
    assert (erased.data["display_name"], erased.data["contacts"]) == ("", []) and erased.data["erased_at"]
    after = str(await contents(stack.database))
    for text in (PHONE, EMAIL, "ophelia", *SAID):
        assert text.lower() not in after.lower(), text
    assert {table: await world.count(table) for table in counts} == counts
    assert await world.count("login_guesses") == 0
    assert (await stack.admin("GET", f"{path}/wallet")).data["items"] == wallet
    await invariants.check(stack.database)
    entry = (await stack.admin("GET", "/admin/audit", subject_id=player)).data["items"][0]
    assert (entry["action"], entry["after"]["reason"]) == ("player.erase", "asked for, ticket 4711")
    assert (await refresh(stack, login["refresh_token"])).http == 401
    assert (await stack.consumer("GET", "/players/me", headers=bearer(login["token"]))).http in (200, 401)
    assert (await stack.admin("GET", "/admin/players", q=EMAIL)).data["items"] == []
    assert await resolve(stack, contact=EMAIL) != player
    assert (await stack.admin("POST", f"{path}/erase", {"reason": "once more"})).http == 200


async def test_erasure_hides_the_name_from_boards_finalized_meanwhile(stack: Stack) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    assert (await world.round(await world.wheel(await world.prize()), "ann")).code == "OK"
    await name_player(stack, "ann")
    async with held(stack, "LOCK TABLE login_quarters IN EXCLUSIVE MODE"):
        erasing = await begun(stack, erase(stack), "erasure.login_quarters")
        board_id = await world.board()
        [standing] = (await stack.admin("POST", f"/admin/leaderboards/{board_id}/finalize", {})).data["standings"]
        assert (standing["player_id"], standing["display_name"]) == ("ann", "")
    await erasing
    assert "Ophelia" not in str(await contents(stack.database))


async def test_erasure_removes_the_name_from_stored_answers_of_corrections(stack: Stack) -> None:
    board_id = await World(stack, (await make_campaign(stack))["id"]).board()
    body = {"player_id": "ann", "delta": 5, "reason": "r"}

    async def ask() -> tuple[str, int, int, str | None]:
        again = await stack.admin("POST", f"/admin/leaderboards/{board_id}/adjust", body, headers=KEYED)
        reply = again.data["display_name"], again.data["rank"], again.data["score"]
        return *reply, again.headers.get("Idempotency-Replayed")

    for name, replayed in (("Ann Quince", None), ("Ann Reed", "true")):
        await name_player(stack, "ann", name)
        assert await ask() == (name, 1, 5, replayed)
    await erase(stack)
    assert await ask() == ("", 1, 5, "true")
    assert "Ann" not in str(await contents(stack.database))


async def test_erasure_removes_the_error_from_stored_answers_of_retries(stack: Stack) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    webhook = {"channel": "webhook", "redemption_mode": "on_win", "config": {"url": "http://192.0.2.1/none"}}
    await world.round(await world.wheel(await world.prize(fulfillment=webhook)), "ann")
    set_error = "UPDATE tasks SET last_error = 'Ann Quince is not at home' RETURNING task_id"
    task_id = await stack.database.fetchval(set_error)

    async def ask() -> tuple[str, str, str | None]:
        again = await stack.admin("POST", f"/admin/fulfillment/tasks/{task_id}/retry", {}, headers=KEYED)
        return again.data["status"], again.data["last_error"], again.headers.get("Idempotency-Replayed")

    for replayed in (None, "true"):
        assert await ask() == ("TASK_STATUS_PENDING", "Ann Quince is not at home", replayed)
    await erase(stack)
    await stack.database.execute("UPDATE tasks SET status = 'cancelled'")
    assert await ask() == ("TASK_STATUS_PENDING", "", "true")
    assert "Ann" not in str(await contents(stack.database))


async def test_replay_of_a_play_with_an_erased_client_seed_says_so(stack: Stack) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    wheel = await world.wheel(await world.prize(), await world.prize())
    plays = [(await world.round(wheel, "ann", client_seed=seed)).data["play_id"] for seed in ("", "mine")]
    await erase(stack)
    shown = [(await stack.admin("POST", f"/admin/plays/{play}/replay", {})).data for play in plays]
    assert [one["play"]["client_seed"] for one in shown] == ["", ""]
    assert (shown[0]["matches"], shown[1]["matches"]) == (True, False)
    assert shown[1]["replayed"] == {"mismatch": "the data of the play was erased"}


async def test_export_has_everything_once_over_its_pages(stack: Stack, phone: Phone) -> None:
    player = (await lived(World(stack, (await make_campaign(stack))["id"]), phone))["player"]["id"]
    both = "INSERT INTO login_quarters SELECT tenant_id, player_id, timestamptz '2026-01-01 00:00Z' FROM players"
    await stack.database.execute(both)  # Of guest and player under one key.
    for statement in (
        "milestone_grants (tenant_id, player_id, game_id, milestone_id)"
        " SELECT $1, $2, 'g', 'rung ' || n FROM generate_series(1, 4) AS n",
        "draw_tickets (tenant_id, draw_id, first_ticket, tickets, player_id, holder) VALUES ($1, 'd', 0, 1, $2, '')",
        "integration_deliveries (tenant_id, integration_id, delivery_id, event_id, event_type, status, event) VALUES"
        """ ($1, 'messages_c', 'd', 'e', 't', 'dead', format('{"data": {"player_id": "%s"}}', $2::text)::json)""",
    ):
        await stack.database.execute(f"INSERT INTO {statement}", stack.tenant_id, player)
    path, items, cursor = f"/admin/players/{player}/export", list[dict[str, Any]](), ""
    while True:
        page = (await stack.admin("GET", path, limit=3, cursor=cursor)).data
        items += page["items"]
        if not page["pagination"]["has_more"]:
            break
        cursor = page["pagination"]["next_cursor"]
    assert len({item["id"] for item in items}) == len(items)
    [guest] = [item["data"] for item in items if item["kind"] == "profile" and item["data"]["merged_into"] == player]
    whole = (await stack.admin("GET", f"/admin/players/{guest['player_id']}/export", limit=100)).data["items"]
    assert [item["id"] for item in whole] == [item["id"] for item in items]
    assert "once a guest" in guest["display_name"] and "unsubscribed" in guest, "what did not move is exported too"
    kinds = {item["kind"] for item in items}
    assert kinds >= {"profile", "contact", "session", "play", "reward", "balance", "movement", "turns", "quest"}
    assert kinds >= {"message", "ticket", "game_count", "prize_count", "audit"}
    for text in (PHONE, EMAIL, "Ophelia Quince", "marzipan", "lucky-clover"):
        assert text in str(items) and "key-ophelia" not in str(items), text
    audit = (await stack.admin("GET", "/admin/audit", subject_id=player)).data["items"]
    assert [entry["action"] for entry in audit].count("player.export") == 2
    assert PHONE not in str(audit)


@pytest.mark.settings(retention_guest_days=30, retention_player_idle_days=365)
async def test_retention_continues_after_a_failed_erasure(stack: Stack) -> None:
    world = World(stack, (await make_campaign(stack))["id"])
    game_id = await world.wheel(await world.prize(), access="public")
    people = [(await guest_who_played(world, game_id)).player_id for _ in range(2)]
    people += [await resolve(stack, contact=f"{name}@example.com") for name in ("ann", "bob", "cas")]
    for player, days in zip(people, (29, 31, 364, 366, 366), strict=True):
        for column in ("players SET updated_at", "plays SET played_at", "rewards SET won_at"):
            moved = f"UPDATE {column} = now() - make_interval(days => $2) WHERE player_id = $1"
            await stack.database.execute(moved, player, days)
    idle = sorted([people[1], *people[3:]])
    await stack.database.execute(f"""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
        CREATE TRIGGER refuse BEFORE UPDATE ON players FOR EACH ROW WHEN (OLD.player_id = '{idle[0]}')
        EXECUTE FUNCTION refuse()""")
    for _ in range(2):
        await erasure.retain(stack.engine)
    erased = await stack.database.fetch("SELECT player_id FROM players WHERE erased_at IS NOT NULL ORDER BY 1")
    assert [row["player_id"] for row in erased] == idle[1:]
    entries = (await stack.admin("GET", "/admin/audit", action="player.erase")).data["items"]
    actors = [(one, "retention") for one in idle[1:]]
    assert sorted((entry["subject_id"], entry["actor"]) for entry in entries) == actors


async def test_retention_rechecks_idleness_under_the_lock(stack: Stack) -> None:
    player = await resolve(stack, contact="back@example.com")
    await name_player(stack, player)
    world = World(stack, (await make_campaign(stack))["id"])
    assert (await world.round(await world.wheel(await world.prize()), player, client_seed="kept")).code == "OK"
    for column in ("players SET updated_at", "plays SET played_at", "rewards SET won_at"):
        await stack.database.execute(f"UPDATE {column} = now() - interval '400 days'")
    async with held(stack, "UPDATE players SET updated_at = now()"):
        idle = erasure.erase(stack.engine, stack.tenant_id, player, "idle", idle=erasure.IdleDays(guest=30, player=365))
        erasing = await begun(stack, idle, "erasure.lock_players")
    assert not await erasing
    assert (await stack.admin("GET", f"/admin/players/{player}")).data["player"]["display_name"] == "Ophelia Quince"
    assert "kept" in str(await stack.database.fetch("SELECT client_seed FROM plays"))
