import asyncio
import copy
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.support.gallery import exported
from tests.support.resources import make_campaign
from tests.support.rivals import held, waits
from tests.support.shared import SharedService
from tests.support.stack import Stack, fields_of
from tests.support.stored import config_of_prize
from tests.support.waiting import until
from tests.support.world import World

PATH = "/admin/campaigns/import"
FILE: dict[str, Any] = yaml.safe_load("""\
tombola: 1
campaign: {name: Harvest, timezone: Europe/Berlin, end_date: "2031-03-01T00:00:00+01:00"}
prizes:
  - name: Cider
    type: goods
    value: 4
    stock: {total: 5}
    currency: EUR
    release: {kind: TIMES, times: [{at: "2031-02-01T09:00:00Z", units: 5}]}
  - {name: Bread, type: goods}
games:
  - name: Wheel
    type: spin_wheel
    status: active
    reward_handler: probability
    handler_config: {prizes: [{prize_id: Cider, probability: 0.1}]}
    on_unavailable: fallback
    fallback_prize_id: Bread
quests:
  - {name: Visit, turns: 2, condition: {kind: plays, count: 1, game_id: Wheel}}
leaderboards:
  - {name: Best, game_id: Wheel, metric: plays, mode: sum, prizes: [{from_rank: 1, to_rank: 1, prize_id: Bread}]}
packs:
  - {name: Caps, gives: {currency: ticket, amount: 2}, until: "2031-02-01T00:00:00Z"}
draws:
  - name: Raffle
    tickets: {ranking: Best}
    prizes: [{prize_id: Bread, count: 1}]
    randomness: {kind: DECLARED, source: Lotto, at: "2031-03-02T00:00:00Z"}
""")
SECTIONS = ("campaigns", "prizes", "games", "quests", "leaderboards", "packs", "draws")


def file_with(path: str, value: Any) -> dict[str, Any]:
    file = copy.deepcopy(FILE)
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    place: Any = file
    for step in way:
        place = place[step]
    place[last] = value
    return file


async def imported(stack: Stack, file: Any = FILE, key: str = "", **more: Any) -> Any:
    return await stack.admin("POST", PATH, {"file": file, **more}, headers={"Idempotency-Key": key} if key else {})


async def all_there(stack: Stack) -> dict[str, list[dict[str, Any]]]:
    lists = {name: (await stack.admin("GET", f"/admin/{name}", limit=100)).data["items"] for name in SECTIONS}
    entries = (await stack.admin("GET", "/admin/audit", limit=100)).data["items"]
    return lists | {"audit": [entry for entry in entries if entry["action"] != "staff.sign_in"]}


async def of_campaign(stack: Stack, campaign_id: str) -> dict[str, Any]:
    lists = [(await stack.admin("GET", f"/admin/{name}", campaign_id=campaign_id)).data["items"] for name in SECTIONS]
    return {item["name"]: item for items in lists[1:] for item in items}


async def test_import_makes_everything_in_the_file_and_resolves_its_names(world: World) -> None:
    stack = world.stack
    made = (await imported(stack)).data
    assert (made["name"], made["created"], made["changed"], made["kept"]) == ("Harvest", 8, 0, 0)
    there = await of_campaign(stack, made["campaign_id"])
    wheel, bread = there["Wheel"], there["Bread"]
    assert wheel["handler_config"]["prizes"][0]["prize_id"] == there["Cider"]["id"]
    assert wheel["fallback_prize_id"] == bread["id"]
    assert there["Cider"]["release"]["times"] == [{"at": 1_927_702_800, "units": 5}]
    file = await exported(stack, made["campaign_id"])
    cider = next(prize for prize in file["prizes"] if prize["name"] == "Cider")
    assert cider["release"] == {**FILE["prizes"][0]["release"], "units": 5}
    assert there["Visit"]["condition"]["game_id"] == wheel["id"] == there["Best"]["game_id"]
    assert there["Best"]["prizes"][0]["prize_id"] == there["Raffle"]["prizes"][0]["prize_id"] == bread["id"]
    assert there["Raffle"]["tickets"]["ranking"] == there["Best"]["id"]
    assert there["Caps"]["gives"]["scope_key"] == made["campaign_id"]
    assert file["packs"] == [{**FILE["packs"][0], "status": "active"}] and file["draws"] == FILE["draws"]
    campaign = (await stack.admin("GET", f"/admin/campaigns/{made['campaign_id']}")).data
    assert (campaign["status"], campaign["end_date"]) == ("CAMPAIGN_STATUS_DRAFT", 1_930_086_000)
    entries = (await all_there(stack))["audit"][:9]
    kinds = ("draw", "pack", "leaderboard", "quest", "game", "prize", "prize", "campaign")
    assert [entry["action"] for entry in entries] == ["campaign.import", *[f"{kind}.create" for kind in kinds]]


async def test_import_into_a_campaign_changes_only_what_differs(world: World) -> None:
    stack = world.stack
    into = (await imported(stack)).data["campaign_id"]
    before = await of_campaign(stack, into)
    again = (await imported(stack, into=into)).data
    assert (again["created"], again["changed"], again["kept"]) == (0, 0, 8)
    assert await of_campaign(stack, into) == before
    file = file_with("prizes/0/stock/total", 9)
    file["games"][0]["handler_config"]["prizes"][0]["probability"] = 0.2
    file["quests"].append({"name": "Second", "turns": 1})
    changed = (await imported(stack, file, into=into)).data
    assert (changed["created"], changed["changed"], changed["kept"]) == (1, 2, 6)
    after = await of_campaign(stack, into)
    assert (after["Cider"]["stock"]["total"], after["Wheel"]["revision"]) == (9, 2)
    assert after["Bread"] == before["Bread"] and after["Best"] == before["Best"]
    await stack.database.execute("UPDATE draws SET status = 'closed' WHERE draw_id = $1", after["Raffle"]["id"])
    assert (await imported(stack, file, into=into)).data["kept"] == 9, "a closed draw that does not differ"
    file["draws"][0]["alternates"] = 3
    assert fields_of(await imported(stack, file, into=into)) == ["draws[0]"]


@pytest.mark.parametrize("again", [False, True], ids=["new", "into"])
async def test_import_with_a_fault_in_its_last_part_changes_nothing(world: World, again: bool) -> None:
    """An unknown prize of a board is found when everything else is written."""
    stack = world.stack
    more = {"into": (await imported(stack)).data["campaign_id"]} if again else {}
    before = await all_there(stack)
    file = file_with("leaderboards/0/prizes/0/prize_id", "prize_none")
    file["prizes"][0]["value"], file["campaign"]["name"] = 7, "Harvest home"
    assert fields_of(await imported(stack, file, **more)) == ["leaderboards[0].prizes[0].prize_id"]
    assert await all_there(stack) == before


async def test_import_names_each_wrong_field_by_its_path(world: World) -> None:
    before, failed = await all_there(world.stack), []
    for path, value, fields in (
        ("campaign/timezone", "Mars/Olympus", ["campaign.timezone"]),
        ("campaign/end_date", "2031-03-01", ["campaign.end_date"]),
        ("campaign/merchant_id", "merchant_none", ["campaign.merchant_id"]),
        ("prizes/1", {"name": "Cider"}, ["prizes[1].name", "games[0].fallback_prize_id"]),
        *(("prizes/0/id", "prize_mine", ["prizes[0].id"]), ("prizes/0/value", "much", ["prizes[0].value"])),
        ("games/0/handler_config/prizes/0/probability", 2, ["games[0].handler_config.prizes[0].probability"]),
        ("games/0/handler_config/prizes/0/prize_id", "Perry", ["games[0].handler_config.prizes[0].prize_id"]),
        ("games/0/fallback_prize_id", "prize_none", ["games[0].fallback_prize_id"]),
        *(("quests/0/turns", -1, ["quests[0].turns"]), ("leaderboards", {"name": "Best"}, ["leaderboards"])),
        *(("tombola", 2, ["tombola"]), ("raffles", [], ["raffles"])),
    ):
        found = fields_of(await imported(world.stack, file_with(path, value)))
        if not set(fields) <= set(found):
            failed.append((path, found))
    assert failed == []
    late = file_with("games/0/start_date", "day 2")
    late["campaign"]["start_date"] = "9999-12-31T00:00:00Z"
    assert "games[0].start_date" in fields_of(await imported(world.stack, late))
    several = file_with("prizes/0/value", -8) | {"quests": [{"name": "Visit", "turns": -3}]}
    assert fields_of(await imported(world.stack, several)) == ["prizes[0].value", "quests[0].turns"]
    assert fields_of(await world.stack.admin("POST", PATH, {})) == ["file"]
    assert await all_there(world.stack) == before


async def test_import_refusal_names_its_part(world: World) -> None:
    refused = await imported(world.stack, into="camp_none")
    assert (refused.http, refused.reason) == (404, "UNKNOWN_CAMPAIGN")
    late = await imported(world.stack, into=(await make_campaign(world.stack, end_date=1_000_000_000))["id"])
    assert late.reason == "ILLEGAL_TRANSITION" and late.envelope["message"].startswith("campaign: "), late.envelope


async def test_import_finds_a_shared_prize_by_its_name(world: World) -> None:
    stack = world.stack
    file = file_with("prizes/1", {"name": "Bread", "type": "goods", "shared": True})
    first, second = [(await imported(stack, file)).data for _ in range(2)]
    assert (first["created"], second["created"], second["kept"]) == (8, 7, 1)
    wheels = [(await of_campaign(stack, one["campaign_id"]))["Wheel"] for one in (first, second)]
    assert wheels[0]["fallback_prize_id"] == wheels[1]["fallback_prize_id"]
    again = (await imported(stack, file, into=second["campaign_id"])).data
    assert (again["created"], again["changed"], again["kept"]) == (0, 0, 8)


async def test_import_with_one_key_makes_one_campaign(world: World) -> None:
    stack = world.stack
    before = len((await all_there(stack))["campaigns"])
    async with held(stack, "SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE", stack.tenant_id):
        # Of Core, which no edge stands before.
        body = {"file": FILE, "idempotency_key": "harvest-1"}
        rivals = [asyncio.create_task(stack.core("POST", "/campaigns/import", body)) for _ in range(3)]
        await until(lambda: waits(stack, "tenancy.raise_catalog_version", "idempotency.claim"))
    assert len({answer.data["campaign_id"] for answer in [await rival for rival in rivals]}) == 1
    assert len((await all_there(stack))["campaigns"]) == before + 1
    first = await imported(stack, key="harvest-2")
    assert (await imported(stack, key="harvest-2")).data == first.data
    other = await imported(stack, file_with("campaign/name", "Other"), key="harvest-2")
    assert other.reason == "IDEMPOTENCY_MISMATCH"
    assert len((await all_there(stack))["campaigns"]) == before + 2


async def test_import_of_rivals_into_one_campaign_is_made_once(world: World) -> None:
    stack = world.stack
    into = (await make_campaign(stack, name="Harvest"))["id"]
    async with held(stack, "SELECT FROM tenants WHERE tenant_id = $1 FOR UPDATE", stack.tenant_id):
        rivals = [asyncio.create_task(imported(stack, into=into)) for _ in range(3)]
        await until(lambda: waits(stack, "tenancy.raise_catalog_version", "idempotency.claim"))
    answers = [(await rival).data for rival in rivals]
    assert sorted((one["created"], one["changed"], one["kept"]) for one in answers) == [(0, 0, 8), (0, 0, 8), (7, 1, 0)]
    assert len((await all_there(stack))["prizes"]) >= 2 and len(await of_campaign(stack, into)) == 7


async def test_import_by_a_merchants_staff_is_limited_to_the_merchant(world: World) -> None:
    stack = world.stack
    merchant_id = (await stack.admin("POST", "/admin/merchants", {"name": "Orchard"})).data["id"]
    staff = replace(stack, merchant_id=merchant_id)
    made = (await imported(staff)).data
    assert (await stack.admin("GET", f"/admin/campaigns/{made['campaign_id']}")).data["merchant_id"] == merchant_id
    file = file_with("games", []) | {"quests": [], "leaderboards": [], "draws": []}
    file["prizes"].append({"name": "The tenant's", "shared": True})
    refused = await imported(staff, file)
    assert (refused.http, refused.reason) == (403, "FORBIDDEN")
    assert (await imported(staff, into=(await imported(stack)).data["campaign_id"])).reason == "FORBIDDEN"


async def test_import_of_odds_that_need_approval_is_refused_whole(module_service: SharedService) -> None:
    async with module_service.own_stack(dual_odds=True) as stack:
        active = file_with("campaign/status", "active")
        into = (await imported(stack, active)).data["campaign_id"]
        before = await all_there(stack)
        file = copy.deepcopy(active)
        file["games"][0]["handler_config"]["prizes"][0]["probability"] = 0.3
        for part in ("games[0]: ", "prizes[0]: "):
            refused = await imported(stack, file, into=into)
            assert (refused.http, refused.reason) == (400, "ODDS_NEED_APPROVAL")
            assert refused.envelope["message"].startswith(part)
            file["prizes"][0]["value"] = 9
        assert await all_there(stack) == before


async def test_import_keeps_headers_that_the_file_omits(world: World) -> None:
    stack, url = world.stack, "https://shop.example/hooks"

    async def into(campaign_id: str, **config: Any) -> tuple[int, Any]:
        fulfillment = {"channel": "webhook", "config": {"url": url, **config}}
        place = next(nth for nth, prize in enumerate(FILE["prizes"]) if prize["name"] == "Cider")
        answer = await imported(stack, file_with(f"prizes/{place}/fulfillment", fulfillment), into=campaign_id)
        prize_id = (await of_campaign(stack, campaign_id))["Cider"]["id"]
        return answer.data["changed"], (await config_of_prize(stack, prize_id)).get("headers")

    campaign_id = (await imported(stack)).data["campaign_id"]
    fields = {"X-Key": "hunter2"}
    assert await into(campaign_id, headers=fields) == (1, fields)
    assert await into(campaign_id) == (0, fields), "a file as it is exported"
    assert await into(campaign_id, headers={"X-Key": "hunter3"}) == (1, {"X-Key": "hunter3"})
    assert await into(campaign_id, headers={}) == (1, {})
    assert await into(campaign_id, headers={}) == (0, {})
