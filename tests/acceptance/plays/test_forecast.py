import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.errors import Fault
from runtime.operations.games import chances
from runtime.operations.games.forecasts import computed
from runtime.rules import Award, Credit
from runtime.rules.forecast import GameTerms, Task
from runtime.rules.forecast.terms import PrizeTerms
from runtime.rules.handlers import lucky_item
from tests.support.operator import Operator
from tests.support.stack import Answer, fields_of
from tests.support.world import COINS, COLLECTION, EGGS, GIFTS, WHEEL, World


async def test_forecast_uses_odds_stock_codes_and_values(world: World) -> None:
    mug = await world.prize(total=3, value=8.0, currency="EUR", name="Mug")
    code = await world.prize(codes=["ONE"], value=20.0, currency="EUR")
    points = await world.prize(type="points", value=7)
    odds = [{"prize_id": one, "probability": chance} for one, chance in ((mug, 0.5), (code, 0.25), (points, 0.25))]
    game_id = await world.game(WHEEL, {"prizes": odds}, on_unavailable="fallback", fallback_prize_id=points)
    found = (await world.stack.admin("GET", f"/admin/games/{game_id}/forecast", plays=20, budget=43)).data
    assert found["currency"] == "EUR" and found["exact"] and found["liability"] == 44
    assert found["over_budget"] == pytest.approx(1, abs=0.01) and found["cost_99"] == 44
    by_id = {prize["prize_id"]: prize for prize in found["prizes"]}
    assert [by_id[one]["stock"] for one in (mug, code, points)] == [3, 1, -1]
    assert by_id[mug]["run_out"] == pytest.approx(1 - 211 / 2**20) and by_id[mug]["name"] == "Mug"
    assert by_id[mug]["run_out_play"] == pytest.approx(6, abs=0.02)
    assert sum(prize["units_mean"] for prize in found["prizes"]) == pytest.approx(20)
    assert 0 < by_id[mug]["chance_within_budget"] < 0.5 and by_id[points]["chance_within_budget"] == 0.25
    assert sum(one["probability"] for one in found["costs"]) == pytest.approx(1)


async def test_forecast_names_what_it_leaves_out(world: World) -> None:
    """A SEALED release stays secret, so even times stand in for it."""
    release = {"kind": "SEALED", "units": 2, "starts_at": 2_000_000_000, "ends_at": 2_000_100_000}
    mug = await world.prize(total=2, value=8.0, release=release)
    rung = {"name": "First", "currency": "points", "threshold": 1, "prize_id": mug}
    game_id = await world.wheel(mug, milestones={"mode": "cumulative_unlock", "auto_grant": True, "rungs": [rung]})
    found = (await world.stack.admin("GET", f"/admin/games/{game_id}/forecast", plays=50, days=1)).data
    assert set(found["assumptions"]) == {"SEALED_AS_EVEN", "WITHOUT_MILESTONES"} and not found["exact"]
    assert found["mean"] == 0  # All plays come before the release.
    noon, limits = 2_000_000_000 // 86_400 * 86_400 + 43_200, {"max_per_day": 1, "max_per_user": 1}
    game_id = await world.wheel(await world.prize(constraints=limits), start_date=noon, end_date=noon + 7 * 86_400)
    found = (await world.stack.admin("GET", f"/admin/games/{game_id}/forecast", plays=50)).data
    assert (found["days"], found["liability"]) == (8, 8 * 5), "from noon to noon, limits reset at seven midnights"
    assert "ONE_PLAY_EACH" in found["assumptions"]


async def test_forecast_uses_shares_of_tiers_and_refuses_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    mug = await world.prize(value=10.0)
    tiers = [{"min": low, "max": low + 9, "prize_group": group} for low, group in ((0, "a"), (10, "b"))]
    groups = {one: [{"prize_id": mug, "probability": chance}] for one, chance in (("a", 0.1), ("b", 0.5))}
    path = f"/admin/games/{await world.game(EGGS, {'tiers': tiers, 'prize_groups': groups})}/forecast"
    declared = (await world.stack.admin("GET", path, plays=100, tiers="0.8,0.2")).data
    assert declared["mean"] == pytest.approx(100 * 10 * (0.8 * 0.1 + 0.2 * 0.5)) and not declared["exact"]
    assert fields_of(await world.stack.admin("GET", path, tiers="0.8,0.3")) == ["tiers"]
    assert (await world.stack.admin("GET", path)).reason == "NO_ODDS", "without enough plays"
    monkeypatch.setattr(chances, "OBSERVED_MIN", 1)
    await world.round(path.split("/")[3], payload={"score": 12, "duration_ms": 9})
    assert (await world.stack.admin("GET", path, plays=100)).data["mean"] == pytest.approx(100 * 10 * 0.5)
    euros = await world.prize(value=1.0, currency="EUR"), await world.prize(value=1.0, currency="USD")
    path = f"/admin/games/{await world.wheel(*euros)}/forecast"
    for plays in (-1, 10_000_001):
        assert fields_of(await world.stack.admin("GET", path, plays=plays)) == ["plays"]
    assert fields_of(await world.stack.admin("GET", path)) == ["currency"]
    found = (await world.stack.admin("GET", path, currency="USD")).data
    assert sorted(prize["value"] for prize in found["prizes"]) == [0, 1]


async def test_forecast_of_each_handler_says_what_its_plays_win(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def of(game_id: str, **query: Any) -> Answer:
        return await world.stack.admin("GET", f"/admin/games/{game_id}/forecast", **query)

    bike, mug = await world.prize(total=2, value=100.0), await world.prize(value=10.0)
    coins = await world.game(COLLECTION, COINS)
    found = (await of(coins, plays=50)).data
    assert found["exact"] and (found["mean"], found["prizes"][0]["units_mean"]) == (0, pytest.approx(100))
    drops = [{"type": t, "prize_id": p, "frequency": 1, "max_catchable": 2} for t, p in (("a", mug), ("b", ""))]
    gifts = await world.game(GIFTS, {"drops": drops, "total_items": 2, "interval_ms": 1})
    for caught, units, assumption in (("", 1.0, "ALL_CAUGHT"), ("0.5,1", 0.5, "CATCHES_DECLARED")):
        found = (await of(gifts, plays=5_000, caught=caught, budget=20_000)).data
        assert found["mean"] == pytest.approx(50_000 * units) and found["assumptions"] == [assumption]
        assert found["odds_factor"] == pytest.approx(0.4 / units, rel=0.05)
    assert "must be 1 share or 2 shares," in str((refused := await of(gifts, caught="2")).envelope)
    assert fields_of(refused) == fields_of(await of(coins, caught="1")) == ["caught"]
    monkeypatch.setattr(chances, "OBSERVED_MIN", 1)
    await world.round(gifts, payload={"caught_items": []})
    assert (found := (await of(gifts)).data)["mean"] == 0 and found["assumptions"] == ["CATCHES_OBSERVED"]
    prizes = {"prizes": [{"prize_id": bike}, {"prize_id": mug}]}
    found = (await of(await world.game({**WHEEL, "reward_handler": "moments"}, prizes), plays=10, budget=5)).data
    assert (found["mean"], found["odds_factor"], found["prizes"][1]["chance"]) == (2 * 100 + 8 * 10, -1, -1)
    monkeypatch.delattr(lucky_item, "odds")
    assert (await of(coins)).reason == "NO_ODDS", "a plugin that declares none"
    wins = chances.by_odds("dice", [(0.5, [Award(mug, 2), Credit("coin", 1)])], built_in=False)
    assert wins.chances == {mug: 1.0, "coin": 0.5} and wins.assumptions == ["PLUGIN_ODDS"]
    with pytest.raises(Fault, match="dice"):
        chances.by_odds("dice", [(0.7, [Award(mug, 1)]), (0.7, [])], built_in=False)


async def test_forecast_command_prints_costs_and_odds_within_the_budget(world: World, tmp_path: Path) -> None:
    tombola = Operator(world.stack, tmp_path)
    game_id = await world.wheel(await world.prize(total=3, value=8.0, currency="EUR", name="Mug"))
    shown = (await tombola("games", "forecast", game_id, "--plays", "50", "--budget", "20")).out
    assert "50 plays, cost in EUR" in shown and "at most 24.00" in shown
    assert "above 20 with a probability of 100.0000%" in shown and "Mug" in shown
    assert "cost in USD" in (await tombola("games", "forecast", game_id, "--currency", "USD")).out


async def test_forecast_is_limited_in_time_and_to_one_per_tenant_and_two_in_all() -> None:
    stocks = tuple(PrizeTerms(str(i), 0.045 + 0.0001 * i, 85 + i, 10.5 * i + 0.37) for i in range(20))
    slow = Task(GameTerms(stocks, 2_000, "redraw"), 1_000.0)
    tenants = ("a", "a", "b", "c")
    found = await asyncio.gather(*(computed(one, slow, cpu_seconds=1) for one in tenants), return_exceptions=True)
    assert [cast("Fault", one).reason for one in found] == ["VALIDATION", "OVERLOADED", "VALIDATION", "OVERLOADED"]
    assert (await computed("a", Task(GameTerms((PrizeTerms("cup", 0.5, None, 2.0),), 10)))).forecast.mean == 10
