"""GET /admin/campaigns/{id}/figures: a campaign between two of its days, counted as its rows say."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from runtime.operations.campaigns import analytics
from runtime.operations.reporting import counting
from runtime.operations.reporting.campaigns import odds
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import OTHER_TENANT, Stack, fields_of
from tests.support.waiting import until

PLAYERS, PLAYS = 3, 4

COUNTED: Final = """SELECT max(p.played_at) < max(m.counted_until)
    FROM plays AS p JOIN figure_marks AS m USING (tenant_id) WHERE tenant_id = $1"""


@pytest_asyncio.fixture(scope="module")
async def played(module_stack: Stack) -> dict[str, str]:
    """Two games of a campaign in Auckland, of which one always wins a mug of 8; the other was played once."""
    campaign_id = (await make_campaign(module_stack, timezone="Pacific/Auckland"))["id"]
    prize_id = await make_prize(module_stack, value=8, stock={"total": 10})
    games = []
    for count in (PLAYS, 1):
        made = await module_stack.admin("POST", "/admin/games", wheel(campaign_id, prize_id))
        games.append(made.data["id"])
        for n in range(PLAYERS):
            for _ in range(count):
                await play(module_stack, games[-1], f"player_{n}")
    return {"campaign": campaign_id, "prize": prize_id, "game": games[0], "other": games[1]}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks has plays counted."""
    monkeypatch.setattr(counting, "FRESH_SECONDS", -1.0)


async def play(stack: Stack, game_id: str, player: str) -> None:
    start = await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)
    body = {"session_id": start.data["session_id"], "payload": {}}
    assert (await stack.consumer("POST", f"/games/{game_id}/play", body, player=player)).data


async def settle(stack: Stack) -> None:
    """Plays are counted once nothing older than they are can come: waits until they are."""

    async def settled() -> bool:
        await counting.count(stack.engine, stack.tenant_id)
        return await stack.database.fetchval(COUNTED, stack.tenant_id) is True

    await until(settled)


async def command(stack: Stack, *arguments: str) -> str:
    """What `tombola` prints."""
    environment = {"TOMBOLA_ADMIN_URL": stack.process.admin_url, "TOMBOLA_TOKEN": stack.token("ann", ("admin",))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "runtime", *arguments),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    text, _ = await process.communicate()
    assert process.returncode == 0
    return text.decode()


async def figures(stack: Stack, campaign_id: str, **query: Any) -> dict[str, Any]:
    return dict((await stack.admin("GET", f"/admin/campaigns/{campaign_id}/figures", **query)).data)


async def test_figures_are_those_of_the_rows(module_stack: Stack, played: dict[str, str]) -> None:
    await settle(module_stack)
    found = await figures(module_stack, played["campaign"])
    plays = PLAYERS * (PLAYS + 1)
    # Ten mugs there were: what was drawn beyond them was lost.
    won = {"wins": 10, "rewards": 10, "claimed": 10, "fulfilled": 10}
    assert found["funnel"] == {"starts": plays, "plays": plays, **won}
    assert (found["cost"], found["prizes"][0]["units"]) == (80.0, 10)
    assert found["costs"] == [{"currency": "", "amount": 80.0}]
    assert (found["players"], found["returning_players"]) == (PLAYERS, 0)
    assert found["timezone"] == "Pacific/Auckland"
    assert sum(row["plays"] for row in found["by_hour"]) == plays == sum(row["plays"] for row in found["by_day"])
    local = await module_stack.database.fetchrow(
        """SELECT (played_at AT TIME ZONE 'Pacific/Auckland')::date::text AS day,
                  extract(hour FROM played_at AT TIME ZONE 'Pacific/Auckland')::int AS hour
           FROM plays WHERE tenant_id = $1 ORDER BY played_at LIMIT 1""",
        module_stack.tenant_id,
    )
    assert local is not None
    assert found["by_day"][0]["day"] == local["day"] and found["by_hour"][local["hour"]]["plays"] > 0
    assert {row["game_id"]: row["plays"] for row in found["games"]} == {
        played["game"]: PLAYERS * PLAYS,
        played["other"]: PLAYERS,
    }


async def test_amounts_of_two_currencies_are_not_added_nor_points_to_either(module_stack: Stack) -> None:
    campaign_id = (await make_campaign(module_stack))["id"]

    async def give(*, rung: bool = False, **prize: Any) -> str:
        prize_id = await make_prize(module_stack, **prize)
        body = wheel(campaign_id, prize_id)
        if rung:
            at_once = {"name": "One", "currency": "points", "threshold": 1, "prize_id": prize_id}
            body["milestones"] = {"mode": "cumulative_unlock", "auto_grant": True, "rungs": [at_once]}
        game = (await module_stack.admin("POST", "/admin/games", body)).data["id"]
        for _ in range(2):
            await play(module_stack, game, "player_0")
        return prize_id

    async def costs() -> tuple[float, dict[str, float]]:
        found = await figures(module_stack, campaign_id)
        return found["cost"], {one["currency"]: one["amount"] for one in found["costs"]}

    coins = await give(name="Coins", type="points", value=500, rung=True)
    spins = await give(name="Spins", type="turns", value=5)
    assert await costs() == (0.0, {})
    mug = await give(value=8, currency="EUR")
    assert await costs() == (16.0, {"EUR": 16.0})
    tee = await give(value=3, currency="USD")
    assert await costs() == (0.0, {"EUR": 16.0, "USD": 6.0})
    prizes = (await figures(module_stack, campaign_id))["prizes"]
    told = {one["prize_id"]: (one["units"], one["cost"], one["currency"]) for one in prizes}
    assert told == {coins: (1, 0.0, ""), spins: (2, 0.0, ""), mug: (2, 16.0, "EUR"), tee: (2, 6.0, "USD")}
    told = await command(module_stack, "figures", campaign_id)
    assert "cost 16.00 EUR and 6.00 USD, times in" in told


async def test_a_game_that_was_only_started_is_told_and_one_that_could_not_be_is_not(module_stack: Stack) -> None:
    campaign_id = (await make_campaign(module_stack))["id"]
    games = [(await module_stack.admin("POST", "/admin/games", wheel(campaign_id))).data["id"] for _ in range(2)]
    for game_id, count in zip(games, (3, 1), strict=True):
        for n in range(count):
            assert (await module_stack.consumer("POST", f"/games/{game_id}/start", {}, player=f"p{n}")).code == "OK"
    pause = {"status": "GAME_STATUS_PAUSED"}
    assert (await module_stack.admin("PUT", f"/admin/games/{games[1]}", pause)).code == "OK"
    assert (await module_stack.consumer("POST", f"/games/{games[1]}/start", {}, player="p0")).code != "OK"
    for _ in range(2):  # Asked again, it is the same.
        found = await figures(module_stack, campaign_id)
        assert found["funnel"] == {"starts": 4, "plays": 0, "wins": 0, "rewards": 0, "claimed": 0, "fulfilled": 0}
        assert {row["game_id"]: row["starts"] for row in found["games"]} == dict(zip(games, (3, 1), strict=True))
    assert (await figures(module_stack, campaign_id, game_id=games[0]))["funnel"]["starts"] == 3
    assert (await figures(module_stack, campaign_id, **{"from": "2040-01-01"}))["funnel"]["starts"] == 0


async def test_starts_that_are_decided_again_are_counted_once(module_stack: Stack) -> None:
    """A refusal by what was remembered has the whole batch decided again, by what is so now."""
    campaign_id = (await make_campaign(module_stack))["id"]
    capped = wheel(campaign_id, rules={"max_plays_per_day": 1})
    game_id = (await module_stack.admin("POST", "/admin/games", capped)).data["id"]
    for n in range(4):
        await play(module_stack, game_id, f"full_{n}")

    async def start(player: str) -> str:
        return str((await module_stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).code)

    players = [f"{kind}_{n}" for n in range(4) for kind in ("new", "full")]
    for _ in range(5):
        told = await asyncio.gather(*map(start, players))
        assert [code == "OK" for code in told] == [True, False] * 4
    assert (await figures(module_stack, campaign_id))["funnel"]["starts"] == 4 + 5 * 4


async def test_asked_again_nothing_is_counted_twice(module_stack: Stack, played: dict[str, str]) -> None:
    await settle(module_stack)
    first = await figures(module_stack, played["campaign"])
    await play(module_stack, played["other"], "player_0")
    await settle(module_stack)
    again = await figures(module_stack, played["campaign"])
    assert again["funnel"]["plays"] == first["funnel"]["plays"] + 1
    assert again["counted_until"] >= first["counted_until"] > 0


async def test_a_game_of_it_has_figures_of_its_own(module_stack: Stack, played: dict[str, str]) -> None:
    await settle(module_stack)
    found = await figures(module_stack, played["campaign"], game_id=played["game"])
    assert found["funnel"]["plays"] == PLAYERS * PLAYS
    assert (found["players"], found["returning_players"]) == (PLAYERS, PLAYERS)
    assert [row["game_id"] for row in found["odds"]] == [played["game"]]


async def test_only_the_days_that_are_asked_for_count(module_stack: Stack, played: dict[str, str]) -> None:
    await settle(module_stack)
    days = [row["day"] for row in (await figures(module_stack, played["campaign"]))["by_day"]]
    on_it = await figures(module_stack, played["campaign"], **{"from": days[0], "to": days[-1]})
    assert on_it["funnel"]["plays"] > 0 and on_it["players"] == PLAYERS
    for query in ({"from": "2040-01-01"}, {"to": "2020-01-01"}):
        found = await figures(module_stack, played["campaign"], **query)
        assert (found["funnel"]["plays"], found["players"], found["cost"], found["odds"]) == (0, 0, 0.0, [])


async def test_who_played_on_two_days_has_returned(module_stack: Stack, played: dict[str, str]) -> None:
    await settle(module_stack)
    day = (await figures(module_stack, played["campaign"]))["by_day"][-1]["day"]
    move = "UPDATE plays SET played_at = played_at {} interval '400 days' WHERE player_id = 'player_1' AND game_id = $1"
    for sign, back in (("-", 1), ("+", 0)):
        await module_stack.database.execute(move.format(sign), played["other"])
        async with module_stack.database.connection() as connection:
            await analytics.forget(connection, module_stack.tenant_id, played["campaign"])
        for asked, of_them in (
            ({}, back),
            ({"from": "2020-01-01"}, back),
            ({"to": "2999-01-01"}, back),
            ({"from": day}, 0),
        ):
            found = await figures(module_stack, played["campaign"], **asked)
            assert (found["players"], found["returning_players"]) == (PLAYERS, of_them), (sign, asked)


async def test_odds_are_of_what_was_drawn_by_the_revision_in_force(module_stack: Stack, played: dict[str, str]) -> None:
    """What was out of stock was drawn all the same; and a revision is held to its own odds."""
    await settle(module_stack)
    [before] = (await figures(module_stack, played["campaign"], game_id=played["game"]))["odds"]
    assert before["revision"] == 1 and before["draws"] == PLAYERS * PLAYS
    [mug, lost] = before["odds"]
    assert (mug["drawn"], mug["declared"], mug["draws"], mug["by_chance"]) == (played["prize"], 1.0, 12, True)
    assert (lost["drawn"], lost["draws"], lost["by_chance"]) == ("", 0, True)
    cup = await make_prize(module_stack, name="Cup", stock={"total": 1})
    never = [{"prize_id": prize_id, "probability": 0.0} for prize_id in (played["prize"], cup)]
    half = {"handler_config": {"prizes": never}}
    await module_stack.admin("PUT", f"/admin/games/{played['game']}", half)
    await play(module_stack, played["game"], "player_9")
    await settle(module_stack)
    newer, older = (await figures(module_stack, played["campaign"], game_id=played["game"]))["odds"]
    assert older == before and (newer["revision"], newer["draws"]) == (2, 1)
    assert newer["odds"][-1]["draws"] == 1
    assert {one["name"] for one in newer["odds"] if one["drawn"] == cup} == {"Cup"}, "though it was never drawn"


async def test_what_chance_does_not_explain_is_said() -> None:
    def said(declared: float, draws: int, plays: int) -> bool:
        return odds({"mug": declared, "": 1 - declared}, {"mug": draws, "": plays - draws}, {})[0].by_chance

    assert said(0.1, 1000, 10_000) and said(0.1, 1090, 10_000) and not said(0.1, 1110, 10_000)
    assert not said(0.1, 890, 10_000)
    assert not said(0.0, 1, 10) and not said(1.0, 9, 10)
    assert said(0.0001, 3, 100)


async def test_days_that_are_none_and_what_is_anothers(module_stack: Stack, played: dict[str, str]) -> None:
    path = f"/admin/campaigns/{played['campaign']}/figures"
    assert fields_of(await module_stack.admin("GET", path, **{"from": "2026-02-30", "to": "soon"})) == [
        "from_day",
        "to_day",
    ]
    other = await replace(module_stack, tenant_id=OTHER_TENANT).admin("GET", path)
    assert other.reason == "UNKNOWN_CAMPAIGN"
    assert (await module_stack.admin("GET", path, game_id="game_x")).reason == "UNKNOWN_GAME"


async def test_commands_show_figures_and_the_audit_log(module_stack: Stack, played: dict[str, str]) -> None:
    told = partial(command, module_stack)
    await settle(module_stack)
    asked = ("figures", played["campaign"], "--game", played["other"])
    found = await figures(module_stack, played["campaign"], game_id=played["other"])
    # How old the count is differs by the moment; the counts themselves do not.
    said = json.loads(await told(*asked, "--json"))
    assert {**said, "counted_until": 0} == {**found, "counted_until": 0}
    text = await told(*asked)
    assert f"{found['funnel']['plays']} plays" in text and played["other"] in text and "Auckland" in text
    log = json.loads(await told("audit-log", "--subject-id", played["game"], "--json"))
    assert log[-1]["action"] == "game.create" and {one["subject_id"] for one in log} == {played["game"]}
    assert "game.create" in await told("audit-log", "--subject-id", played["game"], "--limit", "5")
    narrowed = (
        "--action",
        "game.c",
        "--since",
        "2020-01-01",
        "--until",
        "2999-01-01T00:00:00+01:00",
        "--q",
        played["game"],
    )
    assert [entry["action"] for entry in json.loads(await told("audit-log", *narrowed, "--json"))] == ["game.create"]
