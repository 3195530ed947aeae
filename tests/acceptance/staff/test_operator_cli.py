import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from PIL import Image

from runtime.commands.connection import EXIT_REFUSED, EXIT_UNCONFIRMED, EXIT_WAITING
from runtime.commands.environment import EXIT_USE
from tests.support.guests import log_in
from tests.support.operator import Operator
from tests.support.resources import make_campaign, make_game, make_prize
from tests.support.stack import TENANT, Stack
from tests.support.world import World

FILE = """\
tombola: 1
campaign:
  name: Spring sale
  status: active
  timezone: Europe/Berlin
  end_date: 2031-03-01T00:00:00+01:00
prizes:
  - name: Mug
    type: goods
    value: 8
    stock: {total: 5}
    fulfillment: {redemption_mode: manual}
  - {name: Points, type: points, value: 10, shared: true}
games:
  - name: Wheel
    type: spin_wheel
    status: active
    reward_handler: probability
    handler_config:
      prizes:
        - {prize_id: Mug, probability: 0.25}
        - {prize_id: Points, probability: 0.5}
    ui: {wheel: {segments: [{prize_id: Mug}, {emoji: x}]}}
  - name: Leaves
    type: collection
    status: active
    reward_handler: lucky_item
    handler_config: {items: [{item: leaf, weight: 1, quantity: 1, slot_index: 0}]}
    milestones: {rungs: [{name: Five, currency: leaf, threshold: 5, prize_id: Mug}]}
quests:
  - {name: Visit, type: daily, turns: 3, status: active}
leaderboards:
  - {name: Best, game_id: Wheel, metric: plays, mode: sum, prizes: [{from_rank: 1, to_rank: 3, prize_id: Mug}]}
packs:
  - {name: Caps, gives: {currency: leaf, amount: 2}}
draws:
  - {name: Raffle, tickets: {currency: leaf}, prizes: [{prize_id: Mug, count: 1}], randomness: {kind: INTERNAL}}
"""


@pytest.fixture
def tombola(stack: Stack, tmp_path: Path) -> Operator:
    return Operator(stack, tmp_path)


async def test_campaign_export_can_be_imported_and_is_the_same(tombola: Operator) -> None:
    await tombola("campaigns", "import", tombola.file(FILE), "--yes")
    assert (await tombola("campaigns", "export", "Spring sale", "out.yaml")).code == 0
    assert (await tombola("campaigns", "import", "out.yaml")).out.strip() == "9 unchanged"
    text = (tombola.directory / "out.yaml").read_text().replace("name: Spring sale", "name: Twin", 1)
    made = await tombola("campaigns", "import", tombola.file(text, "twin.yaml"), "--yes")
    assert made.code == 0, made.err
    assert "8 to create, 1 unchanged" in made.out  # The tenant's own prize is there already.
    assert (await tombola("campaigns", "export", "Twin")).out == text
    assert yaml.safe_load(text)["games"] == (await tombola("campaigns", "export", "Twin", "--json")).json["games"]


async def test_campaign_export_has_no_headers_and_says_so(tombola: Operator, stack: Stack) -> None:
    campaign = await make_campaign(stack)
    config = {"url": "https://shop.example/hooks", "headers": {"X-Key": "hunter2"}}
    sent = {"channel": "webhook", "config": {**config, "secret": ""}}
    await make_prize(stack, name="Cider", campaign_id=campaign["id"], fulfillment=sent)
    exported = await tombola("campaigns", "export", campaign["id"], "out.yaml")
    assert exported.code == 0 and "does not contain the header values of prize 'Cider'" in exported.err
    text = (tombola.directory / "out.yaml").read_text()
    assert "shop.example" in text and "hunter2" not in text and "***" not in text


async def test_command_shows_a_made_secret_and_warnings_beside_its_answer(tombola: Operator) -> None:
    sent = "fulfillment: {channel: webhook, config: {url: 'https://shop.example/hooks'}}"
    made = await tombola("prizes", "create", tombola.file(f"name: Cup\n{sent}\n"))
    assert made.code == 0 and "not shown again: whsec_" in made.err and "whsec_" not in made.out


async def test_campaign_import_shows_its_changes_and_needs_yes(tombola: Operator, stack: Stack) -> None:
    await tombola("campaigns", "import", tombola.file(FILE), "--yes")
    changed = tombola.file(FILE.replace("probability: 0.25", "probability: 0.3").replace("turns: 3", "turns: 4"))
    before = await tombola.audit()
    for arguments, code in ((("--dry-run",), 0), ((), 5)):
        shown = await tombola("campaigns", "import", changed, *arguments)
        assert shown.code == code
        assert "-      probability: 0.25" in shown.out and "+      probability: 0.3" in shown.out
        assert "2 to change, 7 unchanged" in shown.out
    assert await tombola.audit() == before
    result = (await tombola("campaigns", "import", changed, "--yes", "--json")).json
    assert result["applied"] is True
    found = [(row["action"], row["kind"], row["name"]) for row in result["changes"]]
    assert found == [("change", "game", "Wheel"), ("change", "quest", "Visit")]
    assert result["changes"][1]["after"] == {"turns": 4}
    [quest] = (await stack.admin("GET", "/admin/quests")).data["items"]
    assert quest["turns"] == 4


WRONG = (
    ("    value: 8", "    value: eight", "10: prizes[0].value: must be a number"),
    ("- {prize_id: Mug,", "- {prize_id: Mag,", "21: games[0].handler_config.prizes[0].prize_id: must name a prize"),
    ("  timezone:", "  timezoom:", "5: campaign.timezoom: is not a known field"),
    ("T00:00:00+01:00", "", "6: campaign.end_date: must have an offset"),
    ("- name: Leaves", "- name: Wheel", "24: games[1].name: must be unique: two games are named 'Wheel'"),
    ("status: active\n  timezone", "status: [active\n  timezone", ""),
)


async def test_campaign_file_with_an_error_names_its_line_and_changes_nothing(tombola: Operator) -> None:
    before, missed = await tombola.audit(), []
    for old, new, message in WRONG:
        refused = await tombola("campaigns", "import", tombola.file(FILE.replace(old, new, 1)), "--yes")
        said = f"campaign.yaml:{message}" if message else ": is not YAML"
        if refused.code != 3 or said not in refused.err or old not in FILE:
            missed.append((new, refused))
    assert missed == []
    several = tombola.file(FILE.replace("value: 8", "value: -8").replace("turns: 3", "turns: -3"))
    found = json.loads((await tombola("campaigns", "import", several, "--yes", "--json")).err)["error"]["violations"]
    assert [(row["line"], row["field"]) for row in found] == [(10, "prizes[0].value"), (31, "quests[0].turns")]
    assert await tombola.audit() == before


async def test_campaign_import_into_one_of_two_of_a_name_needs_its_id(tombola: Operator, stack: Stack) -> None:
    first, second = [await make_campaign(stack, name="Spring sale") for _ in range(2)]
    refused = await tombola("campaigns", "import", tombola.file(FILE), "--yes")
    assert refused.code == 3 and first["id"] in refused.err and second["id"] in refused.err
    made = await tombola("campaigns", "import", tombola.file(FILE), "--yes", "--into", second["id"])
    assert made.code == 0, made.err
    [game] = (await stack.admin("GET", "/admin/games", q="Wheel")).data["items"]
    assert game["campaign_id"] == second["id"]


async def test_game_file_is_edited_and_applied_once(tombola: Operator, stack: Stack) -> None:
    game = await make_game(stack, (await make_campaign(stack))["id"], await make_prize(stack))
    text = (await tombola("games", "show", game["id"])).out
    assert (await tombola("games", "apply", tombola.file(text), "--yes")).out.strip() == "1 unchanged"
    file = tombola.file(text.replace("name: Wheel", "name: Big wheel"))
    assert (await tombola("games", "validate", file)).code == 0
    assert (await tombola("games", "apply", file)).code == 5
    applied = (await tombola("games", "apply", file, "--yes", "--json")).json
    assert (applied["applied"], applied["game"]["name"], applied["game"]["revision"]) == (True, "Big wheel", 2)
    assert (await tombola("games", "apply", file, "--yes", "--json")).json["applied"] is False
    stale = await tombola("games", "apply", tombola.file(text.replace("Wheel", "Old wheel")), "--yes")
    assert (stale.code, "STALE_REVISION" in stale.err) == (1, True)


async def test_game_revision_is_shown_and_restored(tombola: Operator, stack: Stack) -> None:
    campaign, prize = await make_campaign(stack), await make_prize(stack)
    game = await make_game(stack, campaign["id"], prize)
    rungs = [{"currency": "points", "threshold": 5, "prize_id": prize}]
    changed = {"ui": {"theme": {"preset": "ocean"}}, "rules": {"max_plays_per_day": 3}, "milestones": {"rungs": rungs}}
    assert (await stack.admin("PUT", f"/admin/games/{game['id']}", changed)).data["milestones"]
    assert [row["revision"] for row in (await tombola("games", "revisions", game["id"], "--json")).json] == [2, 1]
    first = (await tombola("games", "show", game["id"], "--revision", "1")).out
    assert (await tombola("games", "apply", tombola.file(first), "--yes")).code == 0
    now = (await stack.admin("GET", f"/admin/games/{game['id']}")).data
    assert now == game | {"revision": 3, "updated_at": now["updated_at"]}
    none = await tombola("games", "show", game["id"], "--revision", "9")
    assert (none.code, "has no revision 9" in none.err) == (1, True)


async def test_codes_import_names_its_wrong_lines(tombola: Operator, stack: Stack) -> None:
    prize = await make_prize(stack, fulfillment={"channel": "voucher_code"})
    file = tombola.file(f"code,note\nA-1,x\nA-1,y\n{'x' * 300},z\n", "codes.csv")
    result = await tombola("codes", "import", prize, file)
    assert result.code == 1
    assert result.out.strip() == "1 added, 1 duplicates, 1 invalid, 1 available"
    assert "codes.csv:4: is longer" in result.err
    assert (await tombola("codes", "import", prize, "-", "--json", stdin=b"A-1\nA-2\n")).json["added"] == 1


async def test_codes_of_a_pack_are_imported_and_generated(tombola: Operator, stack: Stack, tmp_path: Path) -> None:
    body = {"campaign_id": (await make_campaign(stack))["id"], "name": "Caps [/]", "gives": {"turns": 1}}
    pack = (await stack.admin("POST", "/admin/packs", body)).data["id"]
    file = tombola.file("CAPS-0001\nCAPS-0002\ncaps ooo1\n", "caps.txt")
    assert (await tombola("packs", "import", pack, file)).out.strip() == "2 added, 1 duplicates, 0 invalid, 2 available"
    made = tmp_path / "made.csv"
    assert (await tombola("packs", "generate", pack, "30", str(made))).code == 0
    codes = made.read_text().split()
    assert codes[0] == "code" and len(set(codes)) == 31
    assert (await tombola("packs", "generate", pack, "30", str(made))).code != 0 and made.read_text().split() == codes
    withdrawn = await tombola("packs", "withdraw", pack, codes[1], "never-made", "--reason", "lost")
    assert withdrawn.out.strip() == "1 withdrawn, 1 unchanged"
    assert (await tombola("packs", "list", "--json")).json[0]["free"] == 31
    assert "Caps [/]" in (await tombola("packs", "list")).out


async def test_codes_command_with_wrong_arguments_changes_nothing(tombola: Operator, stack: Stack) -> None:
    prize = await make_prize(stack, fulfillment={"channel": "voucher_code"})
    await stack.admin("POST", f"/admin/prizes/{prize}/codes", {"codes": ["A-1"]})
    wrong: tuple[tuple[tuple[str, ...], int, str], ...] = (
        (("expire", "--all-free", "--until", "soon"), 2, "--until: 'soon' is not a time"),
        (("expire", "--all-free", "--until", "2001-01-01"), 1, "expires_at: must be a future time"),
        (("expire", "--all-free"), 1, "expires_at: is required, or never"),
        (("expire", "--never"), 1, "ids: is required, or all_free, or all_expired"),
        (("withdraw",), 1, "ids: is required, or all_free"),
    )
    for words, code, said in wrong:
        result = await tombola("codes", words[0], prize, *words[1:], "--yes")
        assert (result.code, said in result.err) == (code, True), (words, result)
    assert (await tombola("codes", "list", prize, "--state", "free", "--json")).json[0]["expires_at"] == 0


async def test_picture_is_added_listed_and_deleted(tombola: Operator, stack: Stack) -> None:
    picture = tombola.directory / "cover.png"
    Image.effect_noise((1_600, 1_600), 90).save(picture)  # Nearly as large as is accepted.
    url = (await tombola("assets", "add", picture.name)).out.strip()
    assert url.startswith(f"/assets/{stack.tenant_id}/asset_")
    (listed,) = (await tombola("assets", "list", "--json")).json
    assert (listed["url"], listed["name"], listed["width"]) == (url, "cover.png", 1_120), "scaled down to fit"
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(3_000_000))
    refused = await tombola("assets", "add", picture.name)
    assert (refused.code, "content: must be at most 3000000 bytes" in refused.err) == (1, True), refused
    assert (await tombola("assets", "delete", listed["id"], "--yes")).code == 0
    assert (await tombola("assets", "list", "--json")).json == []


async def test_token_link_signs_in_once(tombola: Operator, stack: Stack) -> None:
    settings = stack.process.settings
    environ = {"JWT_STAFF_SECRET": settings.jwt_staff_secret, "JWT_ISSUER": settings.jwt_issuer}
    arguments = ("--tenant", stack.tenant_id, "--role", "designer", "--subject", "dora")
    arguments += ("--admin-url", "https://admin.example/")
    made = await tombola("token", "link", *arguments, "--json", **environ)
    address, _, token = made.json["url"].partition("#link=")
    assert address == "https://admin.example/dashboard" and made.json["expires_at"] > 1_700_000_000
    assert made.json["url"] not in (await tombola("token", "link", *arguments, **environ)).out
    answer = await stack.admin("POST", "/admin/auth/link", {"link": token}, roles=())
    result = await tombola("token", "me", "--json", TOMBOLA_TOKEN=answer.data["token"])
    assert (result.json["subject"], result.json["roles"]) == ("dora", ["designer"])
    shown = (await tombola("token", "me", TOMBOLA_TOKEN=answer.data["token"])).out
    assert "dora" in shown and "designer" in shown and "CreateGame" in shown
    assert (await stack.admin("POST", "/admin/auth/link", {"link": token}, roles=())).http == 401


async def test_commands_that_fail_have_their_exit_codes(tombola: Operator) -> None:
    assert (await tombola("games", "list", TOMBOLA_TOKEN="")).code == 2
    assert (await tombola("games", "lost")).code == 2
    role = ("--tenant", TENANT, "--role", "emperor")
    assert (await tombola("token", "mint", *role, JWT_STAFF_SECRET="x" * 32)).code == 2
    assert (await tombola("games", "list", TOMBOLA_ADMIN_URL="http://127.0.0.1:1")).code == 4
    unknown = await tombola("games", "show", "game_none")
    assert (unknown.code, unknown.err.strip()) == (1, "tombola: NOT_FOUND UNKNOWN_GAME: there is no game 'game_none'")
    assert (await tombola("games", "apply", "none.yaml")).code == 3
    refused = await tombola("games", "list", "--status", "odd", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert json.loads(refused.err)["error"]["violations"][0]["field"] == "status"


async def test_player_is_found_given_turns_exported_and_erased(tombola: Operator, own_world: World) -> None:
    player = await log_in(own_world.stack, contact="cli@example.com")
    [found] = (await tombola("players", "list", "cli@example.com", "--json")).json
    assert (found["id"], found["contacts"][0]["value"]) == (player, "c***@example.com")
    for _ in range(2):
        granted = await tombola(
            *("players", "grant", player, own_world.campaign_id, "2", "--reason", "sorry", "--key", "k", "--json")
        )
        assert granted.json["balance_after"] == 2
    assert (await tombola("players", "export", player, "out.jsonl", "--json")).json["items"] > 2
    lines = (tombola.directory / "out.jsonl").read_text().splitlines()
    assert "cli@example.com" in str([json.loads(line) for line in lines])
    erase = ("players", "erase", player, "--reason", "asked for")
    assert (await tombola(*erase)).code == EXIT_UNCONFIRMED
    done = await tombola(*erase, "--yes")
    assert (done.code, done.out.strip()) == (0, f"{player} is erased")
    unknown = await tombola("players", "show", "player_none")
    assert unknown.code == EXIT_REFUSED and "UNKNOWN_PLAYER" in unknown.err


async def test_rewards_are_moved_and_failures_exit_1(tombola: Operator, own_world: World) -> None:
    manual = {"redemption_mode": "REDEMPTION_MODE_MANUAL", "channel": "none"}
    game = await own_world.wheel(await own_world.prize(fulfillment=manual))
    one, two = [(await own_world.round(game)).data["rewards"][0]["reward_id"] for _ in range(2)]
    assert (await tombola("rewards", "fulfill", one, "--reason", "handed over")).out.strip() == "1 done"
    moved = await tombola("rewards", "revoke", one, two, "nothing", "--reason", "a script", "--yes")
    assert (moved.code, moved.out.strip()) == (EXIT_REFUSED, "2 done")
    assert "nothing: UNKNOWN_REWARD" in moved.err
    assert {row["id"] for row in (await tombola("rewards", "list", "--status", "revoked", "--json")).json} == {one, two}


async def test_approval_has_its_own_exit_code(tombola: Operator, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await stack.consumer("GET", "/players/me", player="ann")).http == 200
    monkeypatch.setattr(stack.engine, "settings", replace(stack.engine.settings, dual_adjustment_above=4))
    adjust = ("wallets", "adjust", "ann", stack.tenant_id, "coin", "5", "--reference", "ticket-1")
    result = await tombola(*adjust)
    assert result.code == EXIT_WAITING and "APPROVAL_NEEDED" in result.err
    assert "tombola approvals show approval_" in result.err
    error = json.loads((await tombola(*adjust, "--json")).err)["error"]
    assert (error["reason"], error["approval"]["operation"]) == ("APPROVAL_NEEDED", "AdjustBalance")


async def test_prize_is_made_of_a_file_changed_and_its_stock_moved(tombola: Operator, own_world: World) -> None:
    (tombola.directory / "mug.yaml").write_text("name: Fair mug\ntype: goods\nvalue: 8\nstock: {total: 5}\n")
    create = ("prizes", "create", "mug.yaml", "--key", "mug", "--json")
    made, again = [(await tombola(*create)).json["prize_id"] for _ in range(2)]
    assert made == again, "the key makes one prize"
    (tombola.directory / "more.json").write_text('{"currency": "EUR", "terms": "At the stall."}')
    assert (await tombola("prizes", "update", made, "more.json")).out.strip() == f"{made} Fair mug"
    move = ("prizes", "stock", made, "--change", "7", "--reason", "delivered", "--key", "k")
    assert [(await tombola(*move)).out.strip() for _ in range(2)] == ["5 -> 12"] * 2
    below = await tombola("prizes", "stock", made, "--change", "-12", "--reason", "gone")
    assert below.code == EXIT_REFUSED and "change: must leave at least 1" in below.err
    shown = (await tombola("prizes", "show", made, "--json")).json
    found = (shown["currency"], shown["stock"]["total"], [one["reason"] for one in shown["moves"]])
    assert found == ("EUR", 12, ["delivered"])
    assert "delivered" in (await tombola("prizes", "show", made)).out
    [listed] = (await tombola("prizes", "list", "--q", "Fair mug", "--json")).json
    assert (listed["prize_id"], listed["remaining"]) == (made, 12)
    assert "12 of 12" in (await tombola("prizes", "list")).out


async def test_campaign_is_duplicated_with_dates_in_its_zone(tombola: Operator) -> None:
    dates = {"start_date": 1790000000, "end_date": 1790600000}
    campaign = await make_campaign(tombola.stack, name="Fair", timezone="Asia/Tokyo", **dates)
    duplicate = ("campaigns", "duplicate", campaign["id"])
    copy = (await tombola(*duplicate, "--start", "2030-05-01T09:00", "--name", "May", "--json")).json
    assert (copy["name"], copy["status"]) == ("May", "CAMPAIGN_STATUS_DRAFT")
    assert copy["start_date"] == int(datetime(2030, 5, 1, 9, tzinfo=ZoneInfo("Asia/Tokyo")).timestamp())
    result = await tombola(*duplicate, "--start", "2030-05-01T09:00:00+00:00", "--end", "2030-05-02T09:00:00+00:00")
    assert result.out.startswith("created the draft Fair (copy): camp_")
    made = (await tombola("campaigns", "list", "--q", "Fair (copy)", "--json")).json
    assert [(one["start_date"], one["end_date"]) for one in made] == [(1903856400, 1903942800)]
    refused = await tombola(*duplicate, "--start", "2030-05-02", "--end", "2030-05-01")
    assert refused.code == EXIT_REFUSED and "end_date" in refused.err


async def test_call_reaches_every_route_of_the_edge(tombola: Operator, own_world: World) -> None:
    wheel = await own_world.wheel(await own_world.prize())
    for _ in range(3):
        assert (await own_world.round(wheel, "ann")).code == "OK"
    first = (await tombola("call", "GET", "/players/ann/plays", "-q", "limit=2")).json
    assert len(first["items"]) == 2 and first["pagination"]["has_more"]
    assert len((await tombola("call", "GET", "/players/ann/plays", "--every")).json) == 3
    for words, why in (
        (("/players/ann/plays", "-q", "limit=2"), "Omit 'limit'"),
        (("/players/ann/plays", "-q", "q=1", "-q", "q=2"), "must not be repeated"),
        (("/me",), "'/me' is not a list"),
    ):
        result = await tombola("call", "GET", *words, "--every")
        assert result.code == EXIT_USE and why in result.err
    made = await tombola("call", "POST", "/campaigns", "-", stdin=b'{"name": "By call"}')
    (tombola.directory / "named.yaml").write_text("name: Renamed\n")
    assert (await tombola("call", "PUT", f"/campaigns/{made.json['id']}", "named.yaml")).json["name"] == "Renamed"
    turns = {"campaign_id": own_world.campaign_id, "amount": 2, "reason": "sorry"}
    for _ in range(2):
        sent = await tombola("call", "POST", "/players/ann/turns", "-", "--key", "k", stdin=json.dumps(turns).encode())
        assert sent.json["balance_after"] == 2
    mug = await own_world.prize()
    assert (await tombola("call", "DELETE", f"/prizes/{mug}")).code == EXIT_UNCONFIRMED
    assert (await tombola("call", "DELETE", f"/prizes/{mug}", "--yes")).json["id"] == mug
    refused = await tombola("call", "POST", "/campaigns", "-", "--json", stdin=b'{"name": ""}')
    assert refused.code == EXIT_REFUSED
    assert [row["field"] for row in json.loads(refused.err)["error"]["violations"]] == ["name"]


async def test_call_with_wrong_arguments_is_refused_before_it_is_sent(tombola: Operator) -> None:
    for words, said in (
        *((("GET", "players"), "must be a path below /api/v1/admin"), (("GET", "/players?q=x"), "has no query")),
        (("GET", "/players", "-q", "limit"), "'limit' must be name=value"),
        (("POST", "/players", "--every"), "--every requires GET"),
        (("POST", "/campaigns", "-"), "must be an object"),
    ):
        result = await tombola("call", *words, stdin=b"[1]")
        assert result.code == EXIT_USE and said in result.err, words
