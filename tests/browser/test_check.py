"""A draw checked in the page comes to what the rules decide (contract.md, "Draws")."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from runtime.rules.draw import Words, pick_by_sums, pick_certain, plan_key, running_sums, scaled, seed_hash
from tests.support.browsing import Visit
from tests.support.world import COINS, COLLECTION, World

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEEDS = 1_000
WORK = """async ([address, cases]) => {
    const check = await import(address);
    return cases.map(([seed, client, weights]) => {
        const word = check.word(seed, client, 0);
        const plan = check.planWord(seed, 3);
        return [
            check.hashSeed(seed), word, check.word(seed, client, 11), plan,
            check.pick(check.runningSums(weights), word),
            check.pickCertain(check.runningSums(check.scaled(weights)), plan),
        ];
    });
}"""


async def test_the_page_draws_as_the_rules_do(fair: World, visit: Visit) -> None:
    drawn = random.Random(11)
    clients = ["", "a", "ünïcödé 🎃", "x" * 200, "1:2"]
    cases = [
        (drawn.randbytes(32).hex(), drawn.choice(clients), [drawn.random() / 5 for _ in range(drawn.randint(1, 7))])
        for _ in range(SEEDS)
    ]
    await visit.open(await fair.wheel(await fair.prize(), access="public"))
    address = await visit.page.evaluate("document.querySelector('script').src.replace('tombola.js', 'check.js')")
    found = await visit.page.evaluate(WORK, [address, cases])
    for (seed, client, weights), answer in zip(cases, found, strict=True):
        raw = bytes.fromhex(seed)
        words, plan = Words(raw, client), Words(plan_key(raw)).word(3)
        picked = pick_by_sums(running_sums(weights), words.word(0))
        certain = pick_certain(running_sums(scaled(weights)), plan)
        assert answer == [
            seed_hash(raw),
            words.word(0),
            words.word(11),
            plan,
            -1 if picked is None else picked,
            certain,
        ]


async def verdict(visit: Visit) -> tuple[list[str], str]:
    """(whether each step fits, the last line) of the panel's check."""
    await visit.page.click("[data-panel=fair]")
    await visit.page.click("dialog button:has-text('Check it now')")
    await visit.page.wait_for_selector(".steps li")
    lines = visit.page.locator(".steps li")
    fits = [str(await lines.nth(i).get_attribute("data-fits")) for i in range(await lines.count())]
    return fits, await lines.last.inner_text()


@pytest.mark.parametrize("policy", ["lose", "redraw", "fallback"])
async def test_an_honest_draw_fits_whatever_stands_in_for_what_was_gone(fair: World, visit: Visit, policy: str) -> None:
    gone, other = await fair.prize(name="Gone", total=1), await fair.prize(name="Other")
    prizes = [{"prize_id": gone, "probability": 0.9}, {"prize_id": other, "probability": 0.1}]
    fallback: dict[str, Any] = {"fallback_prize_id": other} if policy == "fallback" else {}
    shape = {"type": "spin_wheel", "reward_handler": "probability"}
    game_id = await fair.game(shape, {"prizes": prizes}, access="public", on_unavailable=policy, **fallback)
    while (await fair.stock(gone))[0]:
        await fair.round(game_id, "bob")
    await visit.open(game_id)
    await visit.press()
    await visit.result()
    fits, last = await verdict(visit)
    assert set(fits) <= {"true", "null"} and "Everything fits" in last


async def test_a_collection_s_draw_is_checked_too(fair: World, visit: Visit) -> None:
    await visit.open(await fair.game(COLLECTION, COINS, access="public"))
    await visit.press()
    await visit.result()
    fits, last = await verdict(visit)
    assert set(fits) == {"true"} and len(fits) == 6 and "Everything fits" in last


@pytest.mark.parametrize("part", ["seed", "rewards", "commitment"])
async def test_a_draw_that_was_tampered_with_does_not_fit(fair: World, visit: Visit, part: str) -> None:
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public"))

    async def tamper(route: Any) -> None:
        answer = await route.fetch()
        body = await answer.json()
        if part == "seed":
            body["data"]["seed"] = hashlib.sha256(b"another").hexdigest()
        elif part == "rewards":
            body["data"]["rewards"][0]["prize_id"] = "prize_other"
        else:
            body["data"]["commitment"] = "00" * 32
        await route.fulfill(response=answer, body=json.dumps(body))

    await visit.page.route("**/start" if part == "commitment" else "**/play", tamper)
    await visit.press()
    await visit.result()
    fits, last = await verdict(visit)
    assert "false" in fits and "does not fit" in last


async def test_all_of_a_check_is_saved_as_one_file(fair: World, visit: Visit, tmp_path: Path) -> None:
    await visit.open(await fair.wheel(await fair.prize(name="Mug"), access="public"))
    await visit.press()
    await visit.result()
    await visit.page.click("[data-panel=fair]")
    async with visit.page.expect_download() as saved:
        await visit.page.click("dialog button:has-text('Download')")
    path = tmp_path / "draw.json"
    await (await saved.value).save_as(path)
    told = json.loads(path.read_text())
    assert hashlib.sha256(told["terms"].encode()).hexdigest() == told["result"]["session"]["revision_hash"]
    assert seed_hash(bytes.fromhex(told["result"]["seed"])) == told["result"]["session"]["seed_hash"]
    assert all(step["fits"] for step in told["checked"])
