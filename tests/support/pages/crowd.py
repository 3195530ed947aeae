from typing import Final

from tests.support.pages.looks import EVIL
from tests.support.resources import block
from tests.support.waiting import until
from tests.support.world import COLLECTION, World

CODE: Final = EVIL.replace(" ", "/")
NAMES: Final = (EVIL[:100], "Bertrand Archibald von Hohenlohe-Ingelfingen", "Chloé", "達也", "سارة", "Eve")
LONG: Final = "Donaudampfschifffahrtsgesellschaftskapitän"


async def crowded(fair: World) -> str:
    """A game with something in every panel for ann."""
    on_claim = {"redemption_mode": "on_claim", "channel": "none"}
    cup = await fair.prize(name=EVIL, codes=[CODE])
    mug = await fair.prize(name="Fair mug", fulfillment=on_claim, expires_after_days=30)
    wide = await fair.prize(name=LONG, fulfillment=on_claim)
    gold = await fair.prize(name="Golden pumpkin", total=1)
    steps = [(EVIL, "maple", 2, cup), ("A bunch", "maple", 4, mug), (f"The {LONG}'s album", "oak", 900, wide)]
    rungs = [
        {"id": f"r{n}", "name": name, "currency": currency, "threshold": threshold, "prize_id": prize_id}
        for n, (name, currency, threshold, prize_id) in enumerate([*steps, ("Gold", "maple", 50, gold)])
    ]
    items = [
        {"item": item, "weight": weight, "quantity": quantity, "slot_index": nth}
        for nth, (item, weight, quantity) in enumerate([("maple", 0.9, 2), ("oak", 0.1, 1)])
    ]
    ui = {
        "theme": {"primary": "#c2410c", "accent": "#facc15"},
        "background": {"color": "#fff7ed", "emoji": "🍂"},
        "items": [{"item": "maple", "emoji": "🍁"}, {"item": "oak", "emoji": "🌰"}],
        "prizes": [{"prize_id": one, "emoji": emoji} for one, emoji in ((cup, "🍺"), (mug, "☕"), (wide, "🧢"))],
    }
    milestones, rules = block(*rungs, auto_grant=False), {"max_plays_per_day": 12}
    game_id = await fair.game(COLLECTION, {"items": items}, access="public", ui=ui, milestones=milestones, rules=rules)
    quest = {"type": "daily", "name": EVIL, "description": EVIL}
    await fair.quest(**quest)
    await fair.quest(name="Bring a friend", end_date=4_000_000_000)
    board = await fair.board(name=EVIL, prizes=[{"from_rank": 1, "to_rank": 3, "prize_id": mug}])
    await fair.board(name="Winners", metric="wins")
    for n, name in enumerate(NAMES):
        await fair.stack.consumer("PUT", "/players/me", {"display_name": name}, player=f"p{n}")
        for _ in range(max(1, 4 - n)):
            await fair.round(game_id, f"p{n}")
    for _ in range(6):
        await fair.round(game_id, "ann")
    for rung in ("r0", "r1"):
        assert (await fair.redeem(game_id, rung)).code == "OK"
    path, everyone = f"/leaderboards/{board}/rankings", len(NAMES) + 1
    await until(lambda: fair.stack.consumer("GET", path, player="ann"), lambda it: len(it.data["items"]) == everyone)
    return game_id
