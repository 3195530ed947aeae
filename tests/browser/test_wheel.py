"""The spin wheel: what it shows is what was decided, whoever plays it and however."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browsing import Visit, visiting
from tests.support.stack import Stack
from tests.support.world import World

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

LABELS = ("Toffee apple", "Fair mug", "Golden pumpkin", "Next time")
ANGLE = """() => {
    const disc = document.querySelector("tombola-game").shadowRoot.querySelector(".disc");
    const { a, b } = new DOMMatrix(getComputedStyle(disc).transform);
    return (Math.atan2(b, a) * 180 / Math.PI + 360) % 360;
}"""

EMBED = """() => {
    const game = document.querySelector("tombola-game");
    game.removeAttribute("render");
    game.replaceWith(game.cloneNode());
}"""
"""Has the element as other pages have it: with its game's id alone."""


async def wheel(fair: World, *, wins: int | None, **fields: Any) -> str:
    """A public wheel of four segments, on which every play wins the prize of one, or none does."""
    prizes = [await fair.prize(name=label) for label in LABELS[:3]]
    segments = [
        {"label": label, "emoji": "🍏", **({"prize_id": prizes[i]} if i < 3 else {})} for i, label in enumerate(LABELS)
    ]
    won = [] if wins is None else [prizes[wins]]
    return await fair.wheel(*won, access="public", ui={"wheel": {"segments": segments}}, **fields)


def under_the_pointer(degrees: float) -> int:
    """The segment that stands at the top of a disc that was turned so far."""
    return round((360 - degrees) % 360 / (360 / len(LABELS))) % len(LABELS)


@pytest.mark.parametrize("wins", [0, 2])
async def test_a_win_is_what_was_decided_and_the_wheel_stands_on_it(fair: World, visit: Visit, wins: int) -> None:
    game_id = await wheel(fair, wins=wins, rules={"max_plays_per_day": 3})
    await visit.open(game_id)
    assert await visit.page.inner_text(".left") == "3 plays left"
    await visit.press()
    assert LABELS[wins] in await visit.result() and await visit.kind() == "won"
    assert await visit.page.inner_text(".left") == "2 plays left"
    assert under_the_pointer(await visit.page.evaluate(ANGLE)) == wins
    assert len(await fair.plays()) == 1


async def test_a_loss_stands_on_a_segment_without_a_prize(fair: World, visit: Visit) -> None:
    await visit.open(await wheel(fair, wins=None))
    await visit.press()
    assert await visit.kind() == "lost" and "No prize" in await visit.result()
    assert under_the_pointer(await visit.page.evaluate(ANGLE)) == 3


async def test_a_wheel_that_turns_lands_where_one_that_stands_still_does(
    fair: World, browser: Browser, shop: Stack
) -> None:
    async with visiting(browser, shop) as visit:
        await visit.open(await wheel(fair, wins=1))
        await visit.press()
        assert "Fair mug" in await visit.result()
        assert under_the_pointer(await visit.page.evaluate(ANGLE)) == 1


async def test_what_the_page_claims_is_what_the_service_keeps(fair: World, visit: Visit) -> None:
    game_id = await wheel(fair, wins=0)
    await visit.open(game_id)
    played = await visit.play()
    token = await visit.guest_token()
    history = await fair.stack.consumer(
        "GET", f"/games/{game_id}/history/me", headers={"Authorization": f"Bearer {token}"}
    )
    (row,) = history.data["items"]
    assert (row["id"], row["seed"]) == (played["play_id"], played["seed"])
    assert [reward["reward_id"] for reward in row["rewards"]] == [played["rewards"][0]["reward_id"]]
    assert row["client_seed"] == played["client_seed"] != ""


async def test_one_request_shows_a_game_two_play_it_and_one_plays_it_again(fair: World, visit: Visit) -> None:
    await visit.open(await wheel(fair, wins=0))
    assert visit.api_calls() == [], "the hosted page has it in it"
    await visit.page.evaluate(EMBED)
    await visit.ready()
    assert visit.api_calls() == ["GET render"]
    await visit.play()
    assert visit.api_calls() == ["GET render", "POST start", "POST play"]
    await visit.play()
    assert visit.api_calls() == ["GET render", "POST start", "POST play", "POST play"]


async def test_the_keyboard_alone_plays(fair: World, visit: Visit) -> None:
    await visit.open(await wheel(fair, wins=0))
    focused = "document.querySelector('tombola-game').shadowRoot.activeElement?.className"
    for _ in range(5):
        await visit.page.keyboard.press("Tab")
        if await visit.page.evaluate(focused) == "main":
            break
    outline = "getComputedStyle(document.querySelector('tombola-game').shadowRoot.activeElement).outlineStyle"
    assert await visit.page.evaluate(outline) == "solid"
    await visit.page.keyboard.press("Enter")
    assert await visit.kind() == "won"
    assert await visit.page.evaluate(focused) == "main", "the focus stays where it was"
    said = await visit.page.inner_text("[role=status]")
    assert "You won" in said and "Toffee apple" in said
    await visit.page.keyboard.press("Tab")
    await visit.page.keyboard.press("Enter")
    await visit.page.wait_for_selector("dialog[open] li")
    await visit.page.keyboard.press("Escape")
    await visit.page.wait_for_selector("dialog", state="detached")


async def test_who_has_played_all_is_told_when_plays_come_back(fair: World, visit: Visit) -> None:
    await visit.open(await wheel(fair, wins=0, rules={"max_plays_per_day": 1}))
    await visit.press()
    await visit.result()
    await visit.page.wait_for_selector(".main[aria-disabled=true]")
    await visit.page.wait_for_function(
        "document.querySelector('tombola-game').shadowRoot.querySelector('.left').textContent.startsWith('Next plays')"
    )
    await visit.page.reload()
    assert "all your plays for today" in await visit.result() and await visit.kind() == "refused"
    assert "Next plays: tomorrow" in await visit.result() or "Next plays: today" in await visit.result()


async def test_a_game_for_players_alone_says_so_to_a_guest(fair: World, visit: Visit) -> None:
    game_id = await fair.wheel(await fair.prize(), ui={"wheel": {"segments": [{"label": "a"}, {"label": "b"}]}})
    await visit.open(game_id)
    assert await visit.kind() == "refused" and "sign in" in await visit.result()
    token = fair.stack.token("ann")
    await visit.page.evaluate("(token) => document.querySelector('tombola-game').setAttribute('token', token)", token)
    await visit.page.wait_for_selector(".main[aria-disabled=false]")
    await visit.press()
    assert await visit.kind() == "won"


async def test_a_paused_game_is_refused_in_words(fair: World, visit: Visit) -> None:
    game_id = await wheel(fair, wins=0)
    await visit.open(game_id)
    await fair.stack.admin("PUT", f"/admin/games/{game_id}", {"status": "paused"})
    await visit.press()
    assert await visit.kind() == "refused" and "closed right now" in await visit.result()
    visit.forgive("400")
    assert await fair.plays() == []


async def test_a_game_that_is_not_there_says_so(visit: Visit) -> None:
    answer = await visit.page.goto(f"{visit.stack.process.consumer_url}/p/game_nothing")
    assert answer is not None and answer.status == 404
    assert "There is no such game" in await visit.page.inner_text("h1")
    visit.forgive("404")


@pytest.mark.parametrize("segments", [[], [{"label": "One"}], [{"emoji": "⭐"}] * 40, "nonsense", [None, 3, {}]])
async def test_whatever_an_operator_made_of_its_segments_it_can_be_played(
    fair: World, visit: Visit, segments: Any
) -> None:
    game_id = await fair.wheel(await fair.prize(name="Mug"), access="public", ui={"wheel": {"segments": segments}})
    await visit.open(game_id)
    await visit.press()
    assert "Mug" in await visit.result()


async def test_a_shape_that_has_no_picture_is_played_by_a_plain_button(fair: World, visit: Visit) -> None:
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), type="something_new", access="public"))
    await visit.page.wait_for_selector(".plain")
    await visit.press()
    assert await visit.kind() == "won" and "Mug" in await visit.result()
