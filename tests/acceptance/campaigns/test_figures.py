import asyncio
from pathlib import Path
from typing import Any, Final

import pytest_asyncio

from runtime.operations.reporting import counting
from tests.support.operator import Operator
from tests.support.resources import make_campaign, make_prize, wheel
from tests.support.stack import Stack, fields_of
from tests.support.waiting import until
from tests.support.world import EGGS

PLAYERS, PLAYS = 3, 4

COUNTED: Final = """SELECT max(p.played_at) < max(m.counted_until) AND max(m.counted_until) < now()
    FROM plays AS p JOIN figure_marks AS m USING (tenant_id) WHERE tenant_id = $1"""


@pytest_asyncio.fixture(scope="module")
async def played(module_stack: Stack) -> dict[str, str]:
    """Two games of a campaign in Auckland, of which one always wins a mug of 8; the other was played once."""
    campaign_id = (await make_campaign(module_stack, timezone="Pacific/Auckland"))["id"]
    prize_id = await make_prize(module_stack, value=8, stock={"total": 10})
    games = []
    for count in (PLAYS, 1):
        games.append((await module_stack.admin("POST", "/admin/games", wheel(campaign_id, prize_id))).data["id"])
        for n in range(PLAYERS):
            for _ in range(count):
                await play(module_stack, games[-1], f"player_{n}")
    return {"campaign": campaign_id, "prize": prize_id, "game": games[0], "other": games[1]}


async def play(stack: Stack, game_id: str, player: str, **payload: int) -> None:
    start = await stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)
    body = {"session_id": start.data["session_id"], "payload": payload}
    assert (await stack.consumer("POST", f"/games/{game_id}/play", body, player=player)).data


async def settle(stack: Stack) -> None:
    async def settled() -> bool:
        await counting.count(stack.engine, stack.tenant_id)
        return await stack.database.fetchval(COUNTED, stack.tenant_id) is True

    await until(settled)


async def figures(stack: Stack, campaign_id: str, **query: Any) -> dict[str, Any]:
    return dict((await stack.admin("GET", f"/admin/campaigns/{campaign_id}/figures", **query)).data)


async def test_figures_of_wrong_days_or_games_are_refused(module_stack: Stack, played: dict[str, str]) -> None:
    path = f"/admin/campaigns/{played['campaign']}/figures"
    for first, last in (("2026-02-30", "soon"), ("0001-01-01", "9999-12-31")):
        assert fields_of(await module_stack.admin("GET", path, **{"from": first, "to": last})) == ["from_day", "to_day"]
    assert (await module_stack.admin("GET", path, game_id="game_x")).reason == "UNKNOWN_GAME"


async def test_costs_of_two_currencies_are_not_added(module_stack: Stack, tmp_path: Path) -> None:
    campaign_id = (await make_campaign(module_stack))["id"]
    for value, currency, cost, costs in ((8, "EUR", 16.0, {"EUR": 16.0}), (3, "USD", 0.0, {"EUR": 16.0, "USD": 6.0})):
        prize_id = await make_prize(module_stack, value=value, currency=currency)
        game = (await module_stack.admin("POST", "/admin/games", wheel(campaign_id, prize_id))).data["id"]
        for _ in range(2):
            await play(module_stack, game, "player_0")
        found = await figures(module_stack, campaign_id)
        assert (found["cost"], {one["currency"]: one["amount"] for one in found["costs"]}) == (cost, costs)
    result = await Operator(module_stack, tmp_path)("figures", campaign_id)
    assert "cost 16.00 EUR and 6.00 USD, times in" in result.out


async def test_figures_count_starts_without_a_play_and_no_refused_start(module_stack: Stack) -> None:
    campaign_id = (await make_campaign(module_stack))["id"]
    games = [(await module_stack.admin("POST", "/admin/games", wheel(campaign_id))).data["id"] for _ in range(2)]
    for game_id, count in zip(games, (3, 1), strict=True):
        for n in range(count):
            assert (await module_stack.consumer("POST", f"/games/{game_id}/start", {}, player=f"p{n}")).code == "OK"
    assert (await module_stack.admin("PUT", f"/admin/games/{games[1]}", {"status": "GAME_STATUS_PAUSED"})).code == "OK"
    assert (await module_stack.consumer("POST", f"/games/{games[1]}/start", {}, player="p0")).code != "OK"
    names = ("starts", "plays", "wins", "rewards", "claimed", "fulfilled", "views", "visitors")
    for _ in range(2):  # Asked again, it is the same.
        found = await figures(module_stack, campaign_id)
        assert found["funnel"] == {**dict.fromkeys(names, 0), "starts": 4}
        assert {row["game_id"]: row["starts"] for row in found["games"]} == dict(zip(games, (3, 1), strict=True))
    assert (await figures(module_stack, campaign_id, game_id=games[0]))["funnel"]["starts"] == 3
    assert (await figures(module_stack, campaign_id, **{"from": "2040-01-01"}))["funnel"]["starts"] == 0


async def test_figures_count_a_start_that_is_decided_again_once(module_stack: Stack) -> None:
    """A refusal from the cache has the whole batch decided again after a refresh."""
    campaign_id = (await make_campaign(module_stack))["id"]
    capped = wheel(campaign_id, rules={"max_plays_per_day": 1})
    game_id = (await module_stack.admin("POST", "/admin/games", capped)).data["id"]
    for n in range(4):
        await play(module_stack, game_id, f"full_{n}")

    async def start(player: str) -> str:
        return str((await module_stack.consumer("POST", f"/games/{game_id}/start", {}, player=player)).code)

    players = [f"{kind}_{n}" for n in range(4) for kind in ("new", "full")]
    for _ in range(5):
        assert [code == "OK" for code in await asyncio.gather(*map(start, players))] == [True, False] * 4
    assert (await figures(module_stack, campaign_id))["funnel"]["starts"] == 4 + 5 * 4


async def test_figures_compare_draws_with_the_odds_of_the_score(module_stack: Stack) -> None:
    campaign_id, prize = (await make_campaign(module_stack))["id"], await make_prize(module_stack)
    tiers = [{"min": 10 * n, "max": 10 * n + 9, "prize_group": name} for n, name in enumerate(("tin", "gold"))]
    groups = {name: [{"prize_id": prize, "probability": p}] for name, p in (("tin", 0.0), ("gold", 1.0))}
    game = wheel(campaign_id, **EGGS, handler_config={"tiers": tiers, "prize_groups": groups})
    game_id = (await module_stack.admin("POST", "/admin/games", game)).data["id"]
    for score in (1, 2, 11, 99):
        await play(module_stack, game_id, "ann", score=score, duration_ms=9)
    await settle(module_stack)
    gold, tin = (await figures(module_stack, campaign_id))["odds"]
    assert [(one["prize_group"], one["draws"]) for one in (gold, tin)] == [("gold", 1), ("tin", 2)]
    assert [one["declared"] for one in (*gold["odds"], *tin["odds"])] == [1.0, 0.0, 0.0, 1.0]


async def test_figures_compare_draws_with_odds_of_their_revision(module_stack: Stack, played: dict[str, str]) -> None:
    """A draw counts though the prize was out of stock."""
    await settle(module_stack)
    [before] = (await figures(module_stack, played["campaign"], game_id=played["game"]))["odds"]
    assert before["revision"] == 1 and before["draws"] == PLAYERS * PLAYS
    [mug, lost] = before["odds"]
    assert (mug["drawn"], mug["declared"], mug["draws"], mug["by_chance"]) == (played["prize"], 1.0, 12, True)
    assert (lost["drawn"], lost["draws"], lost["by_chance"]) == ("", 0, True)
    cup = await make_prize(module_stack, name="Cup", stock={"total": 1})
    never = [{"prize_id": prize_id, "probability": 0.0} for prize_id in (played["prize"], cup)]
    await module_stack.admin("PUT", f"/admin/games/{played['game']}", {"handler_config": {"prizes": never}})
    await module_stack.database.execute("UPDATE figure_marks SET counted_until = now() + interval '1 hour'")
    await play(module_stack, played["game"], "player_9")  # As if the clock had been set back.
    await settle(module_stack)
    newer, older = (await figures(module_stack, played["campaign"], game_id=played["game"]))["odds"]
    assert older == before and (newer["revision"], newer["draws"]) == (2, 1)
    assert newer["odds"][-1]["draws"] == 1
    assert {one["name"] for one in newer["odds"] if one["drawn"] == cup} == {"Cup"}, "though it was never drawn"
