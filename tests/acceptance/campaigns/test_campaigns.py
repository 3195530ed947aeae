import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from runtime.metrics import FULFILLMENT_TASKS
from runtime.operations.campaigns import analytics
from runtime.operations.campaigns.duplication import days_later
from runtime.operations.checks import TIME_MAX
from runtime.operations.leaderboards import auto_finalize
from runtime.operations.samples import LATER
from runtime.outgoing.vault import integration_context, prize_context, vault_of
from tests.support.leaderboards import make_board
from tests.support.resources import make_campaign, make_game, make_prize, play_once
from tests.support.stack import Stack, fields_of, refused
from tests.support.stored import config_of_prize
from tests.support.waiting import until


async def test_campaign_reads_back_with_its_defaults(stack: Any) -> None:
    made = (await stack.admin("POST", "/admin/campaigns", {"name": "Autumn"})).data
    assert made["id"].startswith("camp_")
    assert (made["status"], made["timezone"], made["settings"]) == ("CAMPAIGN_STATUS_DRAFT", "UTC", {})
    assert (made["start_date"], made["end_date"]) == (0, 0)
    assert (await stack.admin("GET", f"/admin/campaigns/{made['id']}")).data == made
    assert isinstance((await stack.core("GET", f"/campaigns/{made['id']}")).data["campaign"]["created_at"], str)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        *(({"name": ""}, "name"), ({"timezone": "Mars/Olympus"}, "timezone")),
        # Python's zones that are files of its machine.
        *(({"timezone": "posix/Europe/Berlin"}, "timezone"), ({"timezone": "localtime"}, "timezone")),
        *(({"timezone": "../etc/passwd"}, "timezone"), ({"start_date": 2_000, "end_date": 1_000}, "end_date")),
        *(({"start_date": -1}, "start_date"), ({"end_date": 10**15}, "end_date")),
        *(({"merchant_id": "merchant_unknown"}, "merchant_id"), ({"settings": {"x": "y" * 70_000}}, "settings")),
    ],
)
async def test_campaign_with_a_wrong_field_names_it(stack: Any, change: dict[str, Any], field: str) -> None:
    assert fields_of(await stack.admin("POST", "/admin/campaigns", {"name": "Autumn"} | change)) == [field]
    made = await make_campaign(stack)
    assert fields_of(await stack.admin("PUT", f"/admin/campaigns/{made['id']}", change)) == [field]


async def test_any_settings_are_stored_as_they_are_and_warn_of_what_is_not_used(stack: Any) -> None:
    for settings, fields in (
        ({"theme": {"primary": "url(//evil.test)"}}, ["settings.theme.primary"]),
        ({"theme": 7, "background": {"color": 3}, "x": 1}, ["settings.background.color", "settings.theme"]),
        ({"picture": "http://shop.example/a.png"}, ["settings.picture"]),
    ):
        made = await make_campaign(stack, settings=settings)
        assert made["settings"] == settings and sorted(one["field"] for one in made["warnings"]) == fields
        changed = (await stack.admin("PUT", f"/admin/campaigns/{made['id']}", {"name": "Other"})).data
        assert (changed["settings"], changed["warnings"]) == (settings, made["warnings"])
        checked = (await stack.admin("GET", f"/admin/campaigns/{made['id']}/launch-check")).data["items"]
        assert sorted(one["field"] for one in checked if "is shown without" in one["message"]) == fields


async def test_campaign_update_keeps_omitted_fields_and_can_unset_a_date(stack: Any) -> None:
    shop = (await stack.admin("POST", "/admin/merchants", {"name": "Shop"})).data
    made = await make_campaign(stack, merchant_id=shop["id"], start_date=1000, end_date=LATER, settings={"a": {"b": 1}})
    assert made["merchant_id"] == shop["id"]
    changed = (await stack.admin("PUT", f"/admin/campaigns/{made['id']}", {"end_date": 0, "settings": {"c": 2}})).data
    assert changed == made | {"end_date": 0, "settings": {"c": 2}, "revision": 2, "updated_at": changed["updated_at"]}
    assert (await stack.admin("PUT", "/admin/campaigns/camp_none", {"name": "x"})).reason == "UNKNOWN_CAMPAIGN"


async def test_public_campaign_has_active_games_quests_and_boards_without_odds(stack: Any) -> None:
    campaign = await make_campaign(stack, settings={"theme": "leaf"})
    prize_id = await make_prize(stack)
    shown = await make_game(stack, campaign["id"], prize_id, ui={"big": "x"})
    draft = await make_game(stack, campaign["id"], prize_id, status="draft")
    quest = {"campaign_id": campaign["id"], "name": "Visit", "type": "daily", "turns": 1, "status": "active"}
    made = (await stack.admin("POST", "/admin/quests", quest)).data
    view = (await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")).data
    assert view["id"] == campaign["id"]
    assert view["settings"] == {"theme": "leaf"}
    assert [game["id"] for game in view["games"]] == [shown["id"]]
    assert view["quests"] == [{name: value for name, value in made.items() if name not in ("secret", "secret_set")}]
    boards = [await make_board(stack, campaign["id"], game_id=game_id) for game_id in ("", shown["id"])]
    gone = await make_board(stack, campaign["id"])
    await make_board(stack, campaign["id"], game_id=draft["id"])
    await stack.admin("DELETE", f"/admin/leaderboards/{gone['id']}")
    view = (await stack.consumer("GET", f"/public/campaigns/{campaign['id']}")).data
    assert view["leaderboards"] == boards[::-1]
    render = (await stack.consumer("GET", f"/games/{shown['id']}/render")).data
    assert render.pop("ui") and view["games"] == [render] and "handler_config" not in render
    await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"status": "draft"})
    assert (await stack.core("GET", f"/public/campaigns/{campaign['id']}")).reason == "UNKNOWN_CAMPAIGN"


async def test_duplicate_is_a_draft_whose_games_name_prizes_of_its_own(stack: Any) -> None:
    campaign = await make_campaign(stack, settings={"theme": "leaf"})
    size = {"key": "size", "label": "Size"}
    claimed = {"claim_fields": [size], "fulfillment": {"redemption_mode": "on_claim", "channel": "none"}}
    own = await make_prize(stack, campaign_id=campaign["id"], stock={"total": 5}, **claimed)
    config = {"url": "https://hooks.example/x", "secret": "marker-of-a-secret", "headers": {"X-Key": "carried"}}
    free = await make_prize(stack, name="Hook", fulfillment={"channel": "webhook", "config": config})
    shared = await make_prize(stack, name="Shared", campaign_id=(await make_campaign(stack))["id"])
    rungs = [{"id": "five", "currency": "leaf", "threshold": 5, "prize_id": free}]
    more = {"on_unavailable": "fallback", "fallback_prize_id": free, "milestones": {"rungs": rungs}}
    more["ui"] = {"wheel": {"segments": [{"prize_id": own}, {"emoji": "x"}]}}
    game = await make_game(stack, campaign["id"], own, shared, **more)
    await make_game(stack, campaign["id"], status="archived")
    await play_once(stack, game["id"])
    quest = {"campaign_id": campaign["id"], "name": "Visit", "type": "daily", "turns": 1, "status": "active"}
    condition = {"kind": "plays", "count": 2, "game_id": game["id"]}
    await stack.admin("POST", "/admin/quests", {**quest, "condition": condition})
    await stack.database.execute(
        "INSERT INTO leaderboards (tenant_id, board_id, campaign_id, game_id, name, metric, mode, status, prizes)"
        " VALUES ($1, 'board_a', $2, $3, 'Best', 'plays', 'sum', 'finalized', $4)",
        *(stack.tenant_id, campaign["id"], game["id"], [{"from_rank": 1, "to_rank": 1, "prize_id": own}]),
    )
    raffle = {"campaign_id": campaign["id"], "name": "Raffle", "prizes": [{"prize_id": own, "count": 2}]}
    raffle |= {"tickets": {"ranking": "board_a"}, "randomness": {"kind": "INTERNAL"}}
    drawn = (await stack.admin("POST", "/admin/draws", raffle)).data
    assert (await stack.admin("POST", f"/admin/draws/{drawn['id']}/close", {})).code == "OK"
    copy = (await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})).data
    assert (copy["name"], copy["status"][16:], copy["settings"]) == ("Autumn (copy)", "DRAFT", {"theme": "leaf"})
    prizes = (await stack.admin("GET", "/admin/prizes", campaign_id=copy["id"])).data["items"]
    new_free, new_own = sorted(prizes, key=lambda prize: prize["name"])
    assert (new_free["name"], new_own["name"]) == ("Hook", "Mug")
    assert new_own["stock"] == {"total": 5, "remaining": 5, "awarded": 0}
    assert new_own["claim_fields"][0].items() >= size.items()
    assert new_free["fulfillment"]["config"]["secret_set"] is True
    [copied] = (await stack.admin("GET", "/admin/games", campaign_id=copy["id"])).data["items"]
    assert copied["id"] != game["id"] and copied["revision"] == 1
    assert [prize["prize_id"] for prize in copied["handler_config"]["prizes"]] == [new_own["prize_id"], shared]
    assert copied["ui"]["wheel"]["segments"] == [{"prize_id": new_own["prize_id"]}, {"emoji": "x"}]
    assert copied["fallback_prize_id"] == copied["milestones"]["rungs"][0]["prize_id"] == new_free["prize_id"]
    [quest_copy] = (await stack.admin("GET", "/admin/quests", campaign_id=copy["id"])).data["items"]
    assert (quest_copy["name"], quest_copy["condition"]["count"]) == ("Visit", 2)
    assert quest_copy["condition"]["game_id"] == copied["id"]
    query = "SELECT board_id, game_id, status, prizes FROM leaderboards WHERE campaign_id = $1"
    board = await stack.database.fetchrow(query, copy["id"])
    assert (board["game_id"], board["status"]) == (copied["id"], "active")
    assert board["prizes"][0]["prize_id"] == new_own["prize_id"]
    [draw] = (await stack.admin("GET", "/admin/draws", campaign_id=copy["id"])).data["items"]
    assert (draw["status"], draw["prizes"][0]["prize_id"]) == ("DRAW_STATUS_OPEN", new_own["prize_id"])
    assert draw["tickets"]["ranking"] == board["board_id"]
    assert draw["randomness"]["commitment"] not in ("", drawn["randomness"]["commitment"])
    config = await config_of_prize(stack, new_free["prize_id"])
    context = prize_context(stack.tenant_id, new_free["prize_id"])
    secrets = vault_of(stack.engine.settings.code_keys).secrets_of(config, context)
    assert (secrets, config["headers"]) == (["marker-of-a-secret"], {"X-Key": "carried"})
    named = await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {"name": "Winter"})
    assert named.data["name"] == "Winter"
    await stack.admin("PUT", f"/admin/campaigns/{copy['id']}", {"status": "active"})
    assert (await play_once(stack, copied["id"], "player_b"))["rewards"]


async def test_duplicate_names_the_prize_whose_secret_cannot_be_opened(stack: Any) -> None:
    campaign = await make_campaign(stack)
    config = {"url": "https://hooks.example/x", "headers": {"X-Key": "carried"}}
    prize = await make_prize(stack, campaign_id=campaign["id"], fulfillment={"channel": "webhook", "config": config})
    gone = "UPDATE prizes SET channel_config = jsonb_set(channel_config, '{headers,X-Key}', '\"sealed:9:AAAA\"')"
    await stack.database.execute(gone)
    refused = await stack.admin("POST", f"/admin/campaigns/{campaign['id']}/duplicate", {})
    assert (refused.code, refused.reason) == ("FAILED_PRECONDITION", "SECRET_UNAVAILABLE")
    assert f"prize {prize}" in refused.envelope["message"] and "'9'" in refused.envelope["message"]


async def numbers(stack: Any, campaign_id: str) -> dict[str, Any]:
    return dict((await stack.admin("GET", f"/admin/campaigns/{campaign_id}/analytics")).data)


async def test_analytics_are_counted_anew_in_another_time_zone(stack: Any) -> None:
    campaign = await make_campaign(stack, timezone="Pacific/Kiritimati")
    game = await make_game(stack, campaign["id"])
    await play_once(stack, game["id"])

    async def counted() -> bool:  # Counting stays a second behind the present.
        await analytics.count(stack.engine, stack.tenant_id, campaign["id"])
        return bool(await stack.database.fetchval("SELECT sum(plays) FROM campaign_days"))

    await until(counted)
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        await stack.admin("PUT", f"/admin/campaigns/{campaign['id']}", {"timezone": zone})
        today = datetime.now(UTC).astimezone(ZoneInfo(zone)).date().isoformat()
        found = await numbers(stack, campaign["id"])
        assert found["by_day"] == [{"day": today, "plays": 1, "players": 1, "wins": 0}]
        assert found["players"] == 1
    await stack.database.execute("UPDATE campaign_marks SET counted_until = now() + interval '1 hour'")
    await play_once(stack, game["id"])  # As if the clock had been set back.
    await until(counted)
    assert (await numbers(stack, campaign["id"]))["plays"] == 2


DAY = 86_400


async def end(stack: Stack, table: str, identifier: str, seconds_ago: float = 1) -> None:
    column = {"campaigns": "campaign_id", "leaderboards": "board_id"}[table]
    change = f"UPDATE {table} SET end_date = now() - make_interval(secs => $2) WHERE {column} = $1"
    await stack.database.execute(change, identifier, seconds_ago)


async def get(stack: Stack, path: str) -> Any:
    return (await stack.admin("GET", f"/admin{path}")).data


async def test_campaign_past_its_end_reads_as_ended_everywhere(stack: Stack) -> None:
    campaign = await make_campaign(stack, end_date=int(time.time()) + DAY)
    await end(stack, "campaigns", campaign["id"])
    path = f"/campaigns/{campaign['id']}"
    assert (await get(stack, path))["status"] == "CAMPAIGN_STATUS_ENDED"
    assert (await stack.consumer("GET", f"/public{path}")).data["status"] == "CAMPAIGN_STATUS_ENDED"
    for status, found in (("ENDED", [campaign["id"]]), ("ACTIVE", [])):
        listed = await stack.admin("GET", "/admin/campaigns", status=f"CAMPAIGN_STATUS_{status}")
        assert [item["id"] for item in listed.data["items"]] == found


@pytest.mark.parametrize("by", ["status", "end_date"])
async def test_ended_campaign_cannot_be_reopened_but_renamed(stack: Stack, by: str) -> None:
    campaign = await make_campaign(stack, end_date=int(time.time()) + DAY)
    path = f"/admin/campaigns/{campaign['id']}"
    if by == "status":
        assert (await stack.admin("PUT", path, {"status": "CAMPAIGN_STATUS_ENDED"})).data
    else:
        await end(stack, "campaigns", campaign["id"])
    for status in ("DRAFT", "ACTIVE", "PAUSED"):
        answer = await stack.admin("PUT", path, {"status": f"CAMPAIGN_STATUS_{status}"})
        assert refused(answer) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION"), status
    later = await stack.admin("PUT", path, {"end_date": int(time.time()) + 9 * DAY})
    assert refused(later) == (400, "FAILED_PRECONDITION", "ILLEGAL_TRANSITION")
    renamed = await stack.admin("PUT", path, {**(await get(stack, path.removeprefix("/admin"))), "name": "Over"})
    assert (renamed.data["name"], renamed.data["status"]) == ("Over", "CAMPAIGN_STATUS_ENDED")


async def boards_with_a_winner(stack: Stack, count: int) -> list[str]:
    campaign, prize_id = await make_campaign(stack), await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize_id)
    ranks = [{"from_rank": 1, "to_rank": 1, "prize_id": prize_id}]
    boards = [(await make_board(stack, campaign["id"], metric="plays", prizes=ranks))["id"] for _ in range(count)]
    await play_once(stack, game["id"])
    return boards


async def test_board_past_its_end_is_finalized(stack: Stack) -> None:
    over, open_ = await boards_with_a_winner(stack, 2)
    delivered = FULFILLMENT_TASKS.labels("delivered")._value.get()
    await end(stack, "leaderboards", over, seconds_ago=0)
    await auto_finalize.finalize_all(stack.engine)
    assert (await get(stack, f"/leaderboards/{over}"))["status"] == "LEADERBOARD_STATUS_FINALIZED"
    assert (await get(stack, f"/leaderboards/{open_}"))["status"] == "LEADERBOARD_STATUS_ACTIVE"
    row = await stack.database.fetchrow("SELECT * FROM leaderboard_standings WHERE board_id = $1", over)
    assert (row["player_id"], row["reason"], bool(row["reward_id"])) == ("player_a", "", True)
    assert FULFILLMENT_TASKS.labels("delivered")._value.get() == delivered + 1
    entry = (await stack.admin("GET", "/admin/audit", subject_id=over)).data["items"][0]
    assert (entry["action"], entry["actor"]) == ("leaderboard.finalize", "tombola")


async def test_prize_that_an_interrupted_finalize_owes_is_given(stack: Stack) -> None:
    [board] = await boards_with_a_winner(stack, 1)
    assert (await stack.admin("POST", f"/admin/leaderboards/{board}/finalize", {})).data
    # As a process leaves it that dies after it has closed the board.
    await stack.database.execute("UPDATE leaderboard_standings SET reason = 'PENDING', reward_id = ''")
    await auto_finalize.finalize_all(stack.engine)
    assert await stack.database.fetchval("SELECT reason FROM leaderboard_standings") == ""


async def duplicate(stack: Stack, campaign_id: str) -> dict[str, Any]:
    return dict((await stack.admin("POST", f"/admin/campaigns/{campaign_id}/duplicate", {})).data)


async def make_dated(stack: Stack, campaign_id: str, name: str, **dates: int) -> None:
    quest = {"campaign_id": campaign_id, "name": name, "type": "daily", "turns": 1, "status": "active", **dates}
    assert (await stack.admin("POST", "/admin/quests", quest)).data
    await make_board(stack, campaign_id, name=name, metric="plays", **dates)


async def test_duplicate_of_a_past_campaign_begins_at_the_next_such_hour(stack: Stack) -> None:
    zone, now = ZoneInfo("Europe/Berlin"), time.time()
    start = int(now) - 200 * DAY - 3_600
    dates = {"start_date": start, "end_date": start + 30 * DAY}
    redeemed = {"redeem_until": start + 60 * DAY}
    campaign = await make_campaign(stack, timezone="Europe/Berlin", **dates, **redeemed)
    await make_dated(stack, campaign["id"], "Q", **dates)
    gives = {"gives": {"currency": "gold", "amount": 2}}
    pack = {"campaign_id": campaign["id"], "name": "Caps", "until": dates["end_date"], **gives}
    made = (await stack.admin("POST", "/admin/packs", pack)).data
    assert (await stack.admin("POST", f"/admin/packs/{made['id']}/codes", {"codes": ["CAP-0001"]})).data["added"] == 1
    copy = await duplicate(stack, campaign["id"])
    assert copy["status"] == "CAMPAIGN_STATUS_DRAFT"
    [copied] = (await stack.admin("GET", "/admin/packs", campaign_id=copy["id"])).data["items"]
    assert (copied["codes"], copied["until"], copied["gives"]["scope_key"]) == (0, copy["end_date"], copy["id"])
    assert (await stack.admin("POST", f"/admin/packs/{copied['id']}/codes", {"codes": ["CAP-0001"]})).data["added"] == 1
    assert now <= copy["start_date"] <= now + DAY + 3_601
    moved = set()
    for field in (*dates, *redeemed):
        before, after = (datetime.fromtimestamp(one[field], zone) for one in (campaign, copy))
        assert before.time() == after.time()
        moved.add((after.date() - before.date()).days)
    assert moved == {copy["shift_days"]}
    for path in ("quests", "leaderboards"):
        (item,) = (await stack.admin("GET", f"/admin/{path}", campaign_id=copy["id"])).data["items"]
        assert (item["start_date"], item["end_date"]) == (copy["start_date"], copy["end_date"])


def at(*moment: int) -> int:
    return int(datetime(*moment, tzinfo=ZoneInfo("Europe/Berlin")).timestamp())


def test_copy_begins_at_the_next_same_time_of_day_across_a_clock_change() -> None:
    begun = {"start_date": at(2026, 1, 10, 9), "timezone": "Europe/Berlin"}
    assert [days_later(begun, 0, at(2026, 7, 10, *now)) for now in ((8, 30), (9, 30))] == [181, 182]


async def test_duplicate_with_dates_shifts_quests_and_boards(stack: Stack) -> None:
    dates = {"start_date": at(2026, 3, 1, 9), "end_date": at(2026, 3, 8, 18)}
    campaign = await make_campaign(stack, timezone="Europe/Berlin", redeem_until=at(2026, 4, 5, 18), **dates)
    within = {"start_date": at(2026, 3, 2, 12), "end_date": at(2026, 3, 3, 12)}
    for name, dated in (("whole", dates), ("part", within)):
        await make_dated(stack, campaign["id"], name, **dated)
    body = {"start_date": at(2027, 3, 20, 20), "end_date": at(2027, 4, 5, 23)}
    path = f"/admin/campaigns/{campaign['id']}/duplicate"
    copy = (await stack.admin("POST", path, body)).data
    assert {name: copy[name] for name in dates} == body
    assert copy["redeem_until"] == at(2027, 5, 3, 23), "the same hour, across a clock change"
    moved = {"start_date": at(2027, 3, 21, 12), "end_date": at(2027, 3, 22, 12)}
    for kind in ("quests", "leaderboards"):
        items = (await stack.admin("GET", f"/admin/{kind}", campaign_id=copy["id"])).data["items"]
        dated = {item["name"]: {name: item[name] for name in dates} for item in items}
        assert dated == {"whole": body, "part": moved}
    beside = (await stack.admin("POST", path, {})).data
    for only in ("start_date", "end_date"):
        copy = (await stack.admin("POST", path, {only: body[only] + 20 * 365 * DAY})).data
        assert copy[only] == body[only] + 20 * 365 * DAY
    for kind in ("quests", "leaderboards"):
        items = (await stack.admin("GET", f"/admin/{kind}", campaign_id=beside["id"])).data["items"]
        [whole] = [item for item in items if item["name"] == "whole"]
        assert {name: whole[name] for name in dates} == {name: beside[name] for name in dates}
    still = (await stack.admin("GET", f"/admin/campaigns/{campaign['id']}")).data
    assert {name: still[name] for name in dates} == dates, "the original stays as it is"


async def test_duplicate_with_an_earlier_start_moves_timed_releases_and_ends_no_board(stack: Stack) -> None:
    today = int(time.time()) // DAY * DAY
    campaign = await make_campaign(stack, start_date=today + 30 * DAY)
    timed = {"kind": "TIMES", "times": [{"at": today + 31 * DAY, "units": 1}]}
    await make_prize(stack, campaign_id=campaign["id"], stock={"total": 1}, release=timed)
    await make_board(stack, campaign["id"], end_date=today + 3 * DAY)
    path = f"/admin/campaigns/{campaign['id']}/duplicate"
    copy = (await stack.admin("POST", path, {"start_date": today + 10 * DAY})).data
    [[prize], [board]] = [
        (await stack.admin("GET", f"/admin/{kind}", campaign_id=copy["id"])).data["items"]
        for kind in ("prizes", "leaderboards")
    ]
    assert [one["at"] for one in prize["release"]["times"]] == [today + 11 * DAY]
    assert board["end_date"] == 0, "a board past its end would be finalized at once"


async def test_duplicate_with_dates_that_end_a_part_before_it_begins_is_refused(stack: Stack) -> None:
    start = int(time.time()) // DAY * DAY + DAY
    dates = {"start_date": start, "end_date": start + 7 * DAY}
    campaign = await make_campaign(stack, **dates)
    path = f"/admin/campaigns/{campaign['id']}/duplicate"
    quest = {"campaign_id": campaign["id"], "name": "Last days", "type": "daily", "turns": 1, "status": "active"}
    quest |= {"start_date": start + 5 * DAY, "end_date": dates["end_date"]}
    assert (await stack.admin("POST", "/admin/quests", quest)).data
    await make_board(stack, campaign["id"], name="Opening", start_date=start, end_date=start + 9 * 3_600)
    await make_game(stack, campaign["id"], await make_prize(stack), end_date=dates["end_date"])
    hours = [{"weekdays": [datetime.fromtimestamp(start, UTC).isoweekday()], "from_hour": 9, "to_hour": 20}]
    even = {"kind": "EVEN", "starts_at": start, "ends_at": start + DAY, "hours": hours}
    await make_prize(stack, campaign_id=campaign["id"], stock={"total": 1}, release=even)
    for request, problem in (
        ({"end_date": start + 2 * DAY}, "quest 'Last days' would end before"),
        ({"start_date": start + 10 * 3_600}, "leaderboard 'Opening' would end before"),
        ({"start_date": start + DAY}, "release without open hours"),
        ({"start_date": TIME_MAX}, ""),
    ):
        refused = await stack.admin("POST", path, request)
        assert fields_of(refused) == list(request) and problem in str(refused.envelope)
    for request in (
        {"start_date": dates["end_date"], "end_date": dates["start_date"]},
        {"end_date": dates["start_date"]},  # It would begin as the original does.
    ):
        assert set(fields_of(await stack.admin("POST", path, request))) == {"end_date"}
    assert [one["id"] for one in (await stack.admin("GET", "/admin/campaigns")).data["items"]] == [campaign["id"]]


@pytest.mark.parametrize("asked", [{"end_date": 40}, {"start_date": 20}, {"start_date": 20, "end_date": 40}])
async def test_duplicate_is_redeemed_no_earlier_than_it_ends(stack: Stack, asked: dict[str, int]) -> None:
    """A copy whose dates an update of the campaign would refuse could not be changed any more."""
    today = int(time.time()) // DAY * DAY
    made = await make_campaign(stack, start_date=today + DAY, redeem_until=today + DAY + 3_600, timezone="Asia/Tokyo")
    wanted = {name: today + days * DAY + 23 * 3_600 for name, days in asked.items()}
    copy = (await stack.admin("POST", f"/admin/campaigns/{made['id']}/duplicate", wanted)).data
    assert copy["redeem_until"] >= max(wanted.values())
    assert (await stack.admin("PUT", f"/admin/campaigns/{copy['id']}", {"name": "Again"})).data["name"] == "Again"


async def test_duplicate_has_its_integrations_paused_and_their_secrets_resealed(stack: Stack) -> None:
    campaign = await make_campaign(stack)
    config = {"url": "http://203.0.113.7/hook", "secret": "a-secret-of-the-receiver-0123456789"}
    hook = {"type": "webhook", "events": ["tried"], "config": config, "campaign_id": campaign["id"]}
    made = (await stack.admin("POST", "/admin/integrations", hook)).data
    copy = await duplicate(stack, campaign["id"])
    (saved,) = (await stack.admin("GET", "/admin/integrations", campaign_id=copy["id"])).data["items"]
    assert saved["status"] == "INTEGRATION_STATUS_PAUSED"
    assert {name: saved[name] for name in ("type", "events", "config")} == {
        name: made[name] for name in ("type", "events", "config")
    }
    assert saved["id"] != made["id"]
    # Sealed for the copy: the secret opens in the new one's context.
    stored = await stack.database.fetchval("SELECT config FROM integrations WHERE integration_id = $1", saved["id"])
    vault = vault_of(stack.engine.settings.code_keys)
    assert vault.secrets_of(stored, integration_context(stack.tenant_id, saved["id"])) == [config["secret"]]
