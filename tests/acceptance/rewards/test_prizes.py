import asyncio
from typing import Any, Final

import asyncpg
import pytest

import sql
from runtime.outgoing.vault import prize_context, vault_of
from tests.support.leaderboards import make_board
from tests.support.locks import blocked
from tests.support.resources import make_campaign, make_draw, make_game, make_prize, play_once, wheel
from tests.support.rivals import begun, held
from tests.support.stack import Stack, fields_of
from tests.support.stored import config_of_prize
from tests.support.world import World


async def stock(stack: Any, prize_id: str) -> dict[str, int]:
    return dict((await stack.admin("GET", f"/admin/prizes/{prize_id}")).data["stock"])


async def test_prize_reads_back_with_its_defaults(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods", "value": 2.5})).data
    assert made["prize_id"].startswith("prize_")
    assert made["stock"] == {"total": 0, "remaining": 0, "awarded": 0}
    assert made["constraints"] == {"max_per_user": 0, "max_per_day": 0}
    assert made["fulfillment"] == {"redemption_mode": "REDEMPTION_MODE_ON_WIN", "channel": "none", "config": {}}
    assert made["status"] == "PRIZE_STATUS_ACTIVE"
    assert (await stack.admin("GET", f"/admin/prizes/{made['prize_id']}")).data == made
    assert (await stack.core("GET", f"/prizes/{made['prize_id']}")).data["prize"]["stock"]["total"] == 0
    old = {"name": "Mug", "type": "goods", "status": "PRIZE_STATUS_ARCHIVED"}
    assert (await stack.admin("POST", "/admin/prizes", old)).data["status"] == "PRIZE_STATUS_ARCHIVED"


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    *(({"name": " "}, "name"), ({"value": -1}, "value"), ({"type": "points", "value": 1.5}, "value")),
    *(({"type": "points", "value": 0}, "value"), ({"campaign_id": "camp_unknown"}, "campaign_id")),
    *(({"image_url": "http://example.com/mug.png"}, "image_url"), ({"image_url": "javascript:alert(1)"}, "image_url")),
    *(({"image_url": 'https://example.com/"><script>'}, "image_url"), ({"currency": "eur"}, "currency")),
    *(({"currency": "EURO"}, "currency"), ({"currency": "ABC"}, "currency"), ({"currency": "€"}, "currency")),
    ({"fulfillment": {"channel": "pigeon"}}, "fulfillment.channel"),
    ({"fulfillment": {"channel": "webhook"}}, "fulfillment.config.url"),
    ({"fulfillment": {"channel": "workflow", "config": {"url": "ftp://x"}}}, "fulfillment.config.url"),
    ({"fulfillment": {"channel": "none", "config": {"url": "https://x.example"}}}, "fulfillment.config.url"),
    (
        {"fulfillment": {"channel": "webhook", "config": {"url": "https://x.example", "headers": {"a": "b\r\nc: d"}}}},
        "fulfillment.config.headers.a",
    ),
    (
        {"fulfillment": {"channel": "workflow", "config": {"url": "https://x.example", "secret": "s" * 15}}},
        "fulfillment.config.secret",
    ),
)


async def test_prize_with_a_wrong_field_is_refused(stack: Any) -> None:
    missed = []
    for change, field in WRONG:
        answer = await stack.admin("POST", "/admin/prizes", {"name": "Mug", "type": "goods"} | change)
        if answer.code != "INVALID_ARGUMENT" or fields_of(answer) != [field]:
            missed.append((change, answer.envelope))
    assert missed == []


async def test_prize_that_is_sent_without_a_secret_gets_one_and_shows_it_once(stack: Any) -> None:
    config = {"url": "https://hooks.example/x"}
    for channel in ("webhook", "workflow"):
        made = (await stack.admin("POST", "/admin/prizes", {"name": "Mug", "fulfillment": sends(channel, config)})).data
        path, shown = f"/admin/prizes/{made['prize_id']}", made["fulfillment"]["config"]
        sealed = (await config_of_prize(stack, made["prize_id"]))["secret"]
        context = prize_context(stack.tenant_id, made["prize_id"])
        assert vault_of(stack.engine.keyring.code).open_secret(sealed, context) == shown["secret_once"]
        assert (await stack.admin("GET", path)).data["fulfillment"]["config"] == {**config, "secret_set": True}
        stored = (await stack.admin("PUT", path, {"fulfillment": made["fulfillment"]})).data["fulfillment"]["config"]
        assert stored == {**config, "secret_set": True}
        body = {"fulfillment": sends(channel, {**config, "secret": ""})}
        assert (await stack.admin("PUT", path, body)).data["fulfillment"]["config"] == config
        assert (await stack.admin("PUT", path, {"name": "Cup"})).data["fulfillment"]["config"] == config
        again = (await stack.admin("PUT", path, {"fulfillment": sends(channel, config)})).data["fulfillment"]["config"]
        assert again["secret_once"] not in ("", shown["secret_once"])
    assert "whsec_" not in str(await stack.database.fetchval("SELECT string_agg(a::text, '') FROM audit_entries AS a"))


async def test_stock_that_the_service_counts_is_refused_by_name_unless_it_is_the_same(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/prizes", {"name": "Mug", "stock": {"total": 5}})).data
    path = f"/admin/prizes/{made['prize_id']}"
    for name, wrong in (("remaining", 3), ("awarded", 2)):
        assert fields_of(await stack.admin("PUT", path, {"stock": {**made["stock"], name: wrong}})) == [f"stock.{name}"]
    assert (await stack.admin("PUT", path, {"stock": {**made["stock"], "total": 6}})).data["stock"]["remaining"] == 6


def sends(channel: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"channel": channel, "config": config}


async def test_prize_in_use_cannot_be_deleted_or_archived(stack: Any) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    rung = {"id": "five", "name": "Five leaves", "currency": "leaf", "threshold": 5, "prize_id": prize_id}
    game = await make_game(stack, campaign["id"], prize_id, milestones={"rungs": [rung]})
    ranks = [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}]
    board_id = (await make_board(stack, campaign["id"], name="Best", prizes=ranks))["id"]
    draw_id = await make_draw(stack, campaign["id"], prize_id, name="Grand prize")
    for verb, body in (("DELETE", None), ("PUT", {"status": "archived"})):
        refused = await stack.admin(verb, f"/admin/prizes/{prize_id}", body)
        assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "IN_USE")
        assert refused.envelope["data"]["used_by"] == [
            {"type": "game", "id": game["id"], "name": game["name"]},
            {"type": "milestone", "id": "five", "name": "Five leaves", "game_id": game["id"]},
            {"type": "leaderboard", "id": board_id, "name": "Best"},
            {"type": "draw", "id": draw_id, "name": "Grand prize"},
        ]
        assert "milestone 'Five leaves'" in refused.envelope["message"]
    rung_alone = await make_prize(stack)
    other = await make_game(stack, campaign["id"], prize_id, milestones={"rungs": [{**rung, "prize_id": rung_alone}]})
    refused = await stack.admin("DELETE", f"/admin/prizes/{rung_alone}")
    assert [one["type"] for one in refused.envelope["data"]["used_by"]] == ["game", "milestone"]
    for paused in (game, other):
        await stack.admin("PUT", f"/admin/games/{paused['id']}", {"status": "paused"})
    await stack.database.execute("DELETE FROM leaderboards; DELETE FROM draws")
    assert (await stack.admin("DELETE", f"/admin/prizes/{prize_id}")).data == {"id": prize_id, "archived": False}
    assert (await stack.admin("GET", f"/admin/prizes/{prize_id}")).reason == "UNKNOWN_PRIZE"
    again = await stack.admin("PUT", f"/admin/games/{game['id']}", {"status": "active"})
    assert fields_of(again) == ["handler_config.prizes[0].prize_id", "milestones.rungs[0].prize_id"]


async def test_prize_that_goes_takes_along_the_codes_of_an_import_under_way(stack: Any) -> None:
    prize_id = await make_prize(stack)
    one = [["c"], ["key"], [b""], [b"h"], [], [], "", [0]]

    async def importing(connection: asyncpg.Connection) -> asyncio.Task[Any]:
        await connection.fetch(sql.load("codes")["add"], stack.tenant_id, prize_id, *one)
        return await blocked(stack.database, stack.admin("DELETE", f"/admin/prizes/{prize_id}"))

    deleting = await stack.database.transaction(importing)
    assert (await deleting).data == {"id": prize_id, "archived": False}
    for table in ("codes", "code_pools", "code_ends"):
        assert await stack.database.fetchval(f"SELECT count(*) FROM {table}") == 0, table


async def test_won_prize_is_archived_and_listed_only_by_status(stack: Any) -> None:
    campaign = await make_campaign(stack)
    prize_id = await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    await play_once(stack, game["id"])
    await stack.admin("PUT", f"/admin/games/{game['id']}", {"status": "paused"})
    assert (await stack.admin("DELETE", f"/admin/prizes/{prize_id}")).data["archived"] is True
    assert (await stack.admin("GET", "/admin/prizes")).data["items"] == []
    listed = (await stack.admin("GET", "/admin/prizes", status="PRIZE_STATUS_ARCHIVED")).data["items"]
    assert [item["prize_id"] for item in listed] == [prize_id]
    refused = await stack.admin("POST", "/admin/games", wheel(campaign["id"], prize_id))
    assert fields_of(refused) == ["handler_config.prizes[0].prize_id"]


async def moved(stack: Stack, prize_id: str, **body: Any) -> Any:
    body.setdefault("reason", "counted again")
    return await stack.admin("POST", f"/admin/prizes/{prize_id}/stock", body)


async def moves(stack: Stack, prize_id: str) -> list[tuple[Any, ...]]:
    """Reason, total and remaining, each before and after; the newest first."""
    items = (await stack.admin("GET", f"/admin/prizes/{prize_id}/stock/moves")).data["items"]
    names = ("reason", "total_before", "total_after", "remaining_before", "remaining_after")
    return [tuple(item[name] for name in names) for item in items]


async def test_stock_moves_are_listed_with_actor_reason_and_totals(world: World) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    await world.round(await world.wheel(prize_id))
    first = await moved(stack, prize_id, change=5, reason="the potter came")
    assert first.code == "OK" and first.data["actor"], first
    assert (await moved(stack, prize_id, change=-3)).code == "OK"
    assert (await moved(stack, prize_id, unlimited=True)).code == "OK"
    assert (await moved(stack, prize_id, total=4)).code == "OK"
    edited = await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 6}, "name": "Cup"})
    assert edited.data["stock"] == {"total": 6, "remaining": 5, "awarded": 1}
    assert (await stack.admin("PUT", f"/admin/prizes/{prize_id}", {"stock": {"total": 6}})).code == "OK"
    assert await moves(stack, prize_id) == [
        *(("", 4, 6, 3, 5), ("counted again", 0, 4, 0, 3), ("counted again", 12, 0, 11, 0)),
        *(("counted again", 15, 12, 14, 11), ("the potter came", 10, 15, 9, 14)),
    ]
    entries = (await stack.admin("GET", "/admin/audit", subject_id=prize_id)).data["items"]
    assert [entry["action"] for entry in entries].count("prize.move_stock") == 4


async def test_stock_move_with_a_wrong_field_is_refused(world: World) -> None:
    prize_id, missed = await world.prize(total=10), []
    bodies: list[tuple[dict[str, Any], str]] = [
        *(({}, "change"), ({"change": 1, "total": 5}, "change"), ({"total": 5, "unlimited": True}, "change")),
        *(({"change": -10}, "change"), ({"change": 2**31 - 1}, "change"), ({"total": -1}, "total")),
        ({"change": 1, "reason": " "}, "reason"),
    ]
    for body, field in bodies:
        if field not in fields_of(await moved(world.stack, prize_id, **body)):
            missed.append(body)
    assert missed == []
    assert await moves(world.stack, prize_id) == []
    assert fields_of(await moved(world.stack, await world.prize(), change=3)) == ["change"], "it has no limit"


async def test_prize_content_is_shown_and_a_won_prize_keeps_currency_and_type(world: World) -> None:
    content = {"description": "Stoneware.\nHolds a pint.", "image_url": "https://example.com/mug.png?size=2"}
    content |= {"terms": "At the stall.", "currency": "EUR"}
    prize_id = await world.prize(value=8, **content)
    game = await world.wheel(prize_id)
    await world.round(game, "reader")
    (shown,) = (await world.stack.consumer("GET", f"/games/{game}/render", player="reader")).data["prizes"]
    assert {name: shown[name] for name in content} == content
    (reward,) = (await world.stack.consumer("GET", "/rewards/me", player="reader")).data["items"]
    assert reward["prize"] == content | {"claim_fields": []}
    await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", {"description": "Tin.", "image_url": ""})
    for change in ({"currency": "USD"}, {"currency": ""}, {"type": "points"}):  # They would change past costs.
        kept = (await world.stack.admin("PUT", f"/admin/prizes/{prize_id}", change)).envelope
        assert kept["data"] == {"reason": "HAS_HISTORY", "field": next(iter(change))}
        assert "it was won" in kept["message"]
    (reward,) = (await world.stack.consumer("GET", "/rewards/me", player="reader")).data["items"]
    assert reward["prize"] == content | {"description": "Tin.", "image_url": "", "claim_fields": []}


TAKEN: Final = (
    "UPDATE stock SET remaining = remaining - $3, awarded = awarded + $3 WHERE tenant_id = $1 AND prize_id = $2"
)


@pytest.mark.parametrize("body", [{"total": 8}, {"change": -2}], ids=["set", "changed"])
async def test_stock_move_counts_the_units_that_were_won_while_it_waited(world: World, body: dict[str, int]) -> None:
    prize_id, stack = await world.prize(total=10), world.stack
    async with held(stack, TAKEN, stack.tenant_id, prize_id, 3):
        move = await begun(stack, moved(stack, prize_id, **body), "prizes.set_total_stock")
    assert (await move).code == "OK"
    found = (await stack.admin("GET", f"/admin/prizes/{prize_id}")).data["stock"]
    assert found == {"total": 8, "remaining": 5, "awarded": 3}
    assert await moves(stack, prize_id) == [("counted again", 10, 8, 7, 5)]
    await stack.database.execute(TAKEN, stack.tenant_id, prize_id, -3)
