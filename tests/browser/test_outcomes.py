"""Every game won, lost and refused: what the page says is what the API tells and the database keeps, for everybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.browser.test_access import LOOKS, PHONE
from tests.browser.test_catchers import HAND, PATIENCE_MS
from tests.support.axe import violations
from tests.support.browsing import STILL, Visit, visiting
from tests.support.panels import told, watch
from tests.support.stack import Stack
from tests.support.world import COLLECTION, EGGS, GIFTS, WHEEL, World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHAPES: Final = ("wheel", "scratch", "eggs", "gifts", "collection")
ENDS: Final = [(shape, end) for shape in SHAPES for end in ("won", "lost") if (shape, end) != ("collection", "lost")]
"""A collection has no loss (rules/lucky_item): something is credited by each play."""

UNDER_WAY: Final = {"eggs": ".field.on .falls", "gifts": ".field.on .falls, .picks button"}
"""What is there while it is played; the others are over at once for who wants things still."""


async def made(fair: World, shape: str, end: str = "won", *, prize: str = "Fair mug", **fields: Any) -> str:
    """A public game of the shape that comes to this end, if it is played well enough or not at all."""
    mug = await fair.prize(name=prize)
    drawn = {"prizes": [{"prize_id": mug, "probability": 1}] if end == "won" else []}
    ui: dict[str, Any] = {"description": "See what comes of it.", **fields.pop("ui", {})}
    shapes: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        "wheel": (WHEEL, drawn, {"wheel": {"segments": [{"label": prize, "prize_id": mug}, {"label": "Nothing"}]}}),
        "scratch": ({**WHEEL, "type": "scratch_card"}, drawn, {"items": [{"emoji": "⭐"}]}),
        "eggs": (
            EGGS,
            {
                "tiers": [{"min": 1, "max": 9, "prize_group": "all"}],
                "prize_groups": {"all": [{"prize_id": mug, "probability": 1}]},
            },
            {"catcher": {"most": 1, "lives": 1}},
        ),
        "gifts": (
            GIFTS,
            {
                "drops": [{"type": "star", "prize_id": mug, "frequency": 1, "max_catchable": 1}],
                "total_items": 1,
                "interval_ms": 1,
            },
            {"items": {"star": {"emoji": "⭐", "label": "A star"}}},
        ),
        "collection": (
            COLLECTION,
            {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]},
            {"items": [{"item": "maple", "emoji": "🍁", "label": "Maple leaf"}]},
        ),
    }
    kind, config, own = shapes[shape]
    named = {"name": f"The {shape}", **fields}
    return await fair.game(kind, config, access="public", ui={**own, **ui}, **named)


async def finish(visit: Visit, end: str) -> str:
    """Plays to the end what has begun: catches all for a win, else nothing. won, lost or refused."""
    shown = ".card[data-result]:not([hidden])"
    await visit.page.wait_for_selector(f"{shown}, .picks button, .falls", timeout=PATIENCE_MS)
    if await visit.page.is_visible(".picks"):
        if end == "won":
            await visit.page.click(".picks button")
        await visit.page.click("button.main")
    await visit.page.wait_for_selector(shown, timeout=PATIENCE_MS)
    return await visit.kind()


async def kept(fair: World, visit: Visit, game_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the API tells the page's guest of its one play, and what the database keeps of it."""
    headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
    api = fair.stack.consumer
    (play,) = (await api("GET", f"/games/{game_id}/history/me", headers=headers)).data["items"]
    rewards = (await api("GET", "/rewards/me", headers=headers)).data["items"]
    wallet = (await api("GET", "/wallet", headers=headers)).data["items"]
    tells = {
        "play": (play["id"], play["seed"], play["metadata"]),
        "prizes": [(one["reward_id"], one["prize_id"], one["quantity"]) for one in play["rewards"] if one["prize_id"]],
        "mine": [(one["id"], one["prize_id"], one["quantity"]) for one in rewards],
        "wallet": [(one["currency"], one["balance"]) for one in wallet],
    }
    row = await fair.database.fetchrow(
        "SELECT play_id, encode(seed, 'hex') AS seed, outcome, player_id FROM plays"
        " WHERE tenant_id = $1 AND play_id = $2",
        fair.stack.tenant_id,
        play["id"],
    )
    assert row is not None
    rewards = await fair.database.fetch(
        "SELECT reward_id, prize_id, quantity FROM rewards WHERE tenant_id = $1 AND play_id = $2", *_of(fair, row)
    )
    entries = await fair.database.fetch(
        "SELECT currency, sum(amount)::int AS balance FROM ledger_entries WHERE tenant_id = $1 AND player_id = $2"
        " GROUP BY 1",
        *(fair.stack.tenant_id, row["player_id"]),
    )
    prizes = [tuple(one) for one in rewards]
    return tells, {
        "play": (row["play_id"], row["seed"], row["outcome"]["decided"]["metadata"]),
        "prizes": prizes,
        "mine": prizes,
        "wallet": [tuple(one) for one in entries],
    }


def _of(fair: World, row: Any) -> tuple[str, str]:
    return fair.stack.tenant_id, row["play_id"]


@pytest.mark.parametrize(("shape", "end"), ENDS)
async def test_every_end_of_every_game_is_what_is_kept_and_axe_finds_nothing_on_it(
    fair: World, browser: Browser, shop: Stack, shape: str, end: str
) -> None:
    """In light, in dark and in a brand's colours, side by side: each by a guest of its own."""

    async def played(look: str) -> dict[str, list[str]]:
        found = {}
        async with visiting(browser, shop, **STILL, **PHONE, color_scheme=LOOKS[look][0]) as visit:
            await visit.open(game_ids[look])
            await watch(visit, "played", "won", "refused")
            await visit.page.evaluate(HAND, [end == "won", 0])
            found["ready"] = await violations(visit.page)
            if shape in UNDER_WAY and look == "light":
                await visit.page.click("text=Calm version")  # Not that one: things fall.
            await visit.press()
            if shape in UNDER_WAY:
                await visit.page.wait_for_selector(UNDER_WAY[shape], timeout=PATIENCE_MS)
                found["under way"] = await violations(visit.page)
            assert await finish(visit, end) == end
            found[end] = await violations(visit.page)
            ((name, detail), *more) = await told(visit)
            assert (name, [name for name, _ in more]) == ("played", ["won"] if end == "won" else [])
            tells, keeps = await kept(fair, visit, game_ids[look])
            assert tells == keeps
            assert tells["play"] == (detail["play_id"], detail["seed"], detail["metadata"])
            assert [one[:2] for one in tells["prizes"]] == [
                (one["reward_id"], one["prize_id"]) for one in detail["rewards"] if one["prize_id"]
            ]
            assert tells["wallet"] == [(one["currency"], one["balance"]) for one in detail["balances"]]
            assert bool(tells["prizes"] or tells["wallet"]) is (end == "won")
            result = await visit.result()
            for reward in detail["rewards"]:
                count = reward["quantity"]
                assert (f"{count} × {reward['name']}" if count > 1 else reward["name"]) in result
            assert ("You won!" if end == "won" else "No prize this time") in result
            assert result.splitlines()[0] in await visit.page.inner_text("[role=status]")
            await visit.page.reload()
            assert await visit.kind() == "refused" and "all your plays for today" in await visit.result()
            found["refused"] = await violations(visit.page)
            headers = {"Authorization": f"Bearer {await visit.guest_token()}"}
            now = (await shop.consumer("GET", f"/games/{game_ids[look]}/eligibility", headers=headers)).data
            assert (now["can_play"], now["reason"]) == (False, "CAP_DAY")
            assert await visit.page.get_attribute(".card", "data-reason") == now["reason"]
        return {f"{look}: {view}": told for view, told in found.items() if told}

    looks = ("light", "dark", "brand")
    rules = {"max_plays_per_day": 1}
    game_ids = {look: await made(fair, shape, end, ui=LOOKS[look][1], rules=rules) for look in looks}
    found = await asyncio.gather(*(played(look) for look in looks))
    assert [one for one in found if one] == []
    assert len(await fair.plays()) == len(looks)


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_game_that_closes_while_it_is_played_is_refused_in_words_and_takes_nothing(
    fair: World, visit: Visit, shape: str
) -> None:
    game_id = await made(fair, shape)
    await visit.open(game_id)
    await watch(visit, "played", "won", "refused")
    await visit.page.evaluate(HAND, [True, 0])
    if shape in UNDER_WAY:
        await visit.press()
        await visit.page.wait_for_selector(UNDER_WAY[shape], timeout=PATIENCE_MS)
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"status": "paused"})
    if shape not in UNDER_WAY:
        await visit.press()
    assert await finish(visit, "won") == "refused" and "closed right now" in await visit.result()
    assert [(name, detail["reason"]) for name, detail in await told(visit)] == [("refused", "GAME_INACTIVE")]
    assert "closed right now" in await visit.page.inner_text("[role=status]")
    assert await fair.plays() == []
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"status": "active"})
    await visit.page.reload()
    await visit.ready()
    visit.forgive("400")
    if shape == "eggs":
        return  # What takes its time is caught once.
    await visit.press()
    assert await finish(visit, "won") == "won", "and it can be played again, once it is open"
    assert len(await fair.plays()) == 1
