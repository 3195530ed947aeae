"""Games of every shape as a page shows them, and how a test plays them."""

from typing import Any, Final

from ops import demo
from tests.support.browsing import Visit
from tests.support.world import COLLECTION, EGGS, GIFTS, WHEEL, World

PATIENCE_MS: Final = 90_000
"""A game of a few seconds, on a machine that draws few frames a second."""

SHAPES: Final = ("wheel", "scratch", "eggs", "gifts", "collection")
CARD: Final = {**WHEEL, "type": "scratch_card"}
UNDER_WAY: Final = {"eggs": ".field.on .falls", "gifts": ".field.on .falls, .picks button"}
"""What is visible while a catcher is played. With reduced motion the other shapes finish at once."""

ROOT: Final = "document.querySelector('tombola-game').shadowRoot"
FOCUSED: Final = f"{ROOT}.activeElement"
MOVING: Final = f"{ROOT}.getAnimations().length"
ALBUM: Final = f"""Object.fromEntries([...{ROOT}.querySelectorAll(".slots li")].map((slot) => [
    slot.querySelector("span:last-of-type").textContent, Number(slot.querySelector("b").textContent)]))"""

HAND: Final = """([catches, most]) => {
    const root = document.querySelector("tombola-game").shadowRoot;
    const step = () => {
        requestAnimationFrame(step);
        const field = root.querySelector(".field.on");
        if (!field) return;
        const box = field.getBoundingClientRect();
        const low = [...field.querySelectorAll(".falls")]
            .map((node) => node.getBoundingClientRect())
            .filter((one) => one.top < box.top + box.height * 0.85)
            .sort((one, other) => other.top - one.top)[0];
        if (!low) return;
        const x = (low.left + low.width / 2 - box.left) / box.width;
        const full = most > 0 && parseInt(root.querySelector(".tally span").textContent) >= most;
        const clientX = box.left + box.width * (catches && !full ? x : x < 0.5 ? 1 : 0);
        field.dispatchEvent(new PointerEvent("pointermove", { clientX, bubbles: true }));
    };
    step();
}"""
"""Moves the basket under the lowest falling thing, or away from it, or away after so many catches."""


async def public_wheel(fair: World, **fields: Any) -> str:
    return await fair.wheel(await fair.prize(name="Mug"), **{"access": "public", **fields})


async def eggs(fair: World, *, most: int = 3, lives: int = 2, **fields: Any) -> str:
    config = {"tiers": [{"min": 1, "max": 1000, "prize_group": "all"}]}
    config |= {"prize_groups": {"all": [{"prize_id": await fair.prize(name="Fair mug"), "probability": 1}]}}
    config |= {"max_score": most, "max_score_per_second": 5}
    ui = {"catcher": {"most": most, "lives": lives}}
    return await fair.game(EGGS, config, access="public", name="Egg catcher", ui=ui, **fields)


async def gifts(fair: World, *, count: int = 4, interval_ms: int = 300, **fields: Any) -> str:
    drops = [{"type": "star", "prize_id": await fair.prize(name="Star"), "frequency": 1, "max_catchable": count}]
    config = {"drops": drops, "total_items": count, "interval_ms": interval_ms}
    ui = {"items": {"star": {"emoji": "⭐", "label": "A star"}}}
    return await fair.game(GIFTS, config, access="public", name="Gift catcher", ui=ui, **fields)


async def collection(fair: World, *, auto_grant: bool = False, scope: str = "campaign", **fields: Any) -> str:
    """A public collection: each card is two maple leaves, three leaves reach the first rung, eight the second."""
    prize_id = await fair.prize(name="Fair mug")
    rungs = [{"name": f"{n} leaves", "currency": "maple", "threshold": n, "prize_id": prize_id} for n in (3, 8)]
    body = {
        "milestones": {"mode": "cumulative_unlock", "auto_grant": auto_grant, "rungs": rungs},
        "ui": {"items": [{"emoji": "🍁", "item": "maple", "label": "Maple leaf"}, {"emoji": "🌰", "item": "chestnut"}]},
        "access": "public",
        "wallet_scope": scope,
    }
    config = {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]}
    return await fair.game(COLLECTION, config, **{**body, **fields})


async def made(fair: World, shape: str, end: str = "won", *, prize: str = "Fair mug", **fields: Any) -> str:
    """A public game of the shape that ends as `end` when played well, or not at all for a loss."""
    mug = await fair.prize(name=prize)
    odds = [{"prize_id": mug, "probability": 1}]
    drawn = {"prizes": odds if end == "won" else []}
    tiers = {"tiers": [{"min": 1, "max": 9, "prize_group": "all"}], "prize_groups": {"all": odds}}
    star = {"type": "star", "prize_id": mug, "frequency": 1, "max_catchable": 1}
    leaf = {"items": [{"item": "maple", "weight": 1, "quantity": 2, "slot_index": 0}]}
    shapes: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        "wheel": (WHEEL, drawn, {"wheel": {"segments": [{"label": prize, "prize_id": mug}, {"label": "Nothing"}]}}),
        "scratch": (CARD, drawn, {"items": [{"emoji": "⭐"}]}),
        "eggs": (EGGS, tiers, {"catcher": {"most": 1, "lives": 1}}),
        "gifts": (
            *(GIFTS, {"drops": [star], "total_items": 1, "interval_ms": 1}),
            {"items": {"star": {"emoji": "⭐", "label": "A star"}}},
        ),
        "collection": (COLLECTION, leaf, {"items": [{"item": "maple", "emoji": "🍁", "label": "Maple leaf"}]}),
    }
    kind, config, own = shapes[shape]
    ui = {**own, "description": "See what comes of it.", **fields.pop("ui", {})}
    return await fair.game(kind, config, access="public", ui=ui, **{"name": f"The {shape}", **fields})


async def demo_games(fair: World) -> dict[str, str]:
    prizes = {}
    for spec in demo.prize_specs():
        prizes[spec["name"]] = await fair.prize(total=spec.pop("stock", {}).get("total", 0), **spec)
    specs = demo.game_specs(fair.campaign_id, prizes)
    return {kind: str((await fair.stack.admin("POST", "/admin/games", one)).data["id"]) for kind, one in specs.items()}


async def ended(visit: Visit) -> str:
    await visit.page.wait_for_selector(".card[data-result]:not([hidden])", timeout=PATIENCE_MS)
    return await visit.kind()


async def finish(visit: Visit, end: str = "lost") -> str:
    shown = ".card[data-result]:not([hidden])"
    while True:
        await visit.page.wait_for_selector(f"{shown}, .picks button", timeout=PATIENCE_MS)
        if await visit.page.is_visible(shown):
            return await visit.kind()
        before = await visit.page.inner_text(".tally")
        if end == "won":
            await visit.page.click(".picks button >> nth=0")
        await visit.page.click("button.main")
        changed = f"(before) => {ROOT}.querySelector('.tally')?.innerText !== before || {ROOT}.querySelector('{shown}')"
        await visit.page.wait_for_function(changed, arg=before, timeout=PATIENCE_MS)


async def rungs(visit: Visit) -> list[str]:
    return [str(text) for text in await visit.page.locator(".rungs li > :is(.far, button)").all_inner_texts()]


async def reported(fair: World) -> list[dict[str, Any]]:
    rows = await fair.database.fetch(
        "SELECT p.payload, p.outcome, p.score FROM plays AS p JOIN games AS g USING (tenant_id, game_id)"
        " WHERE p.tenant_id = $1 AND g.campaign_id = $2 ORDER BY p.play_id",
        *(fair.stack.tenant_id, fair.campaign_id),
    )
    return [dict(row) for row in rows]


async def owners(fair: World) -> list[str]:
    rows = await fair.database.fetch(
        "SELECT coalesce(nullif(o.merged_into, ''), o.player_id) AS owner FROM plays AS p"
        " JOIN games AS g USING (tenant_id, game_id) JOIN players AS o USING (tenant_id, player_id)"
        " WHERE g.campaign_id = $1",
        fair.campaign_id,
    )
    return [row["owner"] for row in rows]
